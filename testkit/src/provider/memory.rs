//! The server's memory of its own answers, which clients send back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    ask::ModelRequest,
    prompt::Prompt,
    route::{Vendor, Wire},
};

/// The answers so far.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Anthropic's thinking blocks by signature.
    pub(crate) thoughts: BTreeMap<String, ThinkingBlock>,
    /// Identifiers of Anthropic's calls that a thinking block came before.
    pub(crate) thoughtful_calls: BTreeSet<String>,
    /// Gemini's `thoughtSignature`s.
    pub(crate) signatures: BTreeSet<String>,
    /// Responses that were stored, with everything before them, by identifier.
    pub(crate) responses: BTreeMap<String, Vec<Value>>,
    /// Items of stored responses by identifier.
    pub(crate) items: BTreeMap<String, Value>,
    /// For an item of Responses the reasoning item that led to it.
    pub(crate) reasons: BTreeMap<String, String>,
    /// For a reasoning item of Responses the item that followed it.
    pub(crate) followers: BTreeMap<String, Value>,
    /// Reasoning items that exist only with the client.
    pub(crate) unstored: BTreeSet<String>,
    /// The prompt of the last answered request of each conversation.
    pub(crate) conversations: BTreeMap<String, Vec<u8>>,
}

/// A thinking block, and the prefix that it was created after.
#[derive(Debug)]
pub(crate) struct ThinkingBlock {
    pub(crate) text: String,
    pub(crate) prefix: Vec<u8>,
}

/// Returns the conversation of a request.
pub(crate) fn conversation(ask: &ModelRequest) -> String {
    let told = ask.request.header("x-conversation").unwrap_or_default();
    format!("{:?} {:?} {} {told}", ask.route.wire, ask.route.vendor, ask.model)
}

impl Memory {
    /// Records an answer: `said` are its blocks, items or parts, `id` is its identifier.
    pub(crate) fn note(&mut self, ask: &ModelRequest, prompt: Prompt, said: &[Value], id: &str) {
        self.conversations.insert(conversation(ask), prompt.bytes.clone());
        match ask.route.wire {
            Wire::Messages if ask.route.vendor == Vendor::Anthropic => self.note_thoughts(ask, prompt, said),
            Wire::Responses => self.note_items(ask, said, id),
            Wire::Gemini => {
                let signatures = said.iter().filter_map(|part| part["thoughtSignature"].as_str());
                self.signatures.extend(signatures.map(String::from));
            }
            Wire::Messages | Wire::Chat => {}
        }
    }

    fn note_thoughts(&mut self, ask: &ModelRequest, mut prompt: Prompt, said: &[Value]) {
        let earlier = prompt.thoughts.len();
        prompt.add_turn(&"assistant".into(), &said.into(), ask.messages.len(), &ask.tools);
        for thought in &prompt.thoughts[earlier..] {
            let made = ThinkingBlock { text: thought.text.clone(), prefix: prompt.bytes[..thought.before].to_vec() };
            self.thoughts.insert(thought.signature.clone(), made);
        }
        if said.first().is_some_and(|block| block["type"] == "thinking") {
            let calls =
                said.iter().filter(|block| block["type"] == "tool_use").filter_map(|block| block["id"].as_str());
            self.thoughtful_calls.extend(calls.map(String::from));
        }
    }

    fn note_items(&mut self, ask: &ModelRequest, said: &[Value], id: &str) {
        let stored = ask.body["store"] != false;
        // Reasoning leads to everything behind it in the model's turn, which may take several requests.
        let begun = ask.messages.iter().rposition(|item| item["role"] == "user").unwrap_or_default();
        let earlier = ask.messages[begun..].iter().rev().find(|item| item["type"] == "reasoning");
        let mut reason = earlier.and_then(|item| item["id"].as_str()).map(str::to_owned);
        let mut is_next = false;
        for item in said {
            let own = item["id"].as_str().unwrap_or_default();
            if stored {
                self.items.insert(own.into(), item.clone());
            }
            if item["type"] == "reasoning" {
                reason = Some(own.to_owned());
                is_next = true;
                if !stored {
                    self.unstored.insert(own.into());
                }
            } else if let Some(reason) = &reason {
                if std::mem::take(&mut is_next) {
                    self.followers.insert(reason.clone(), item.clone());
                }
                self.reasons.insert(own.into(), reason.clone());
            }
        }
        if stored {
            self.responses.insert(id.into(), ask.messages.iter().chain(said).cloned().collect());
        }
    }

    /// Returns the messages of a request with stored items in place of the references to them.
    pub(crate) fn with_referred(&self, mut messages: Vec<Value>) -> Vec<Value> {
        for message in messages.iter_mut().filter(|message| message["type"] == "item_reference") {
            if let Some(item) = message["id"].as_str().and_then(|id| self.items.get(id)) {
                *message = item.clone();
            }
        }
        messages
    }

    /// Returns the items that a request on Responses refers to without repeating them; `None` if they
    /// do not exist.
    pub(crate) fn stored(&self, body: &Value) -> Option<Vec<Value>> {
        match body["previous_response_id"].as_str() {
            Some(id) => self.responses.get(id).cloned(),
            None => Some(Vec::new()),
        }
    }
}
