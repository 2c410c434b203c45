//! A request in the order in which its provider caches it: tools that are not deferred,
//! system, messages. What does not reach the model, such as a cache marker, is left out, and
//! a reference to a deferred tool stands for its definition, as it does before the model.

use serde_json::{Value, json};

use super::{
    ask::{ModelRequest, Tool, either, items},
    route::Wire,
};

/// The bytes of a request that a cache would compare, and the thinking blocks among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) bytes: Vec<u8>,
    pub(crate) thoughts: Vec<Thought>,
    /// How many bytes there are at the end of each tool, block or message.
    pub(crate) ends: Vec<usize>,
    /// Which of these ends carry a cache marker.
    pub(crate) marks: Vec<usize>,
    /// Whose words the last ones are; consecutive messages of one role are one turn.
    role: String,
}

/// A thinking block and what stands before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thought {
    pub(crate) text: String,
    pub(crate) signature: String,
    /// How many of the prompt's bytes come before it.
    pub(crate) before: usize,
    /// Where it stands in the request.
    pub(crate) at: String,
}

impl Prompt {
    pub(crate) fn of(ask: &ModelRequest) -> Prompt {
        let mut prompt = Prompt::default();
        prompt.add_tools(ask);
        prompt.add_system(ask);
        for (index, message) in ask.messages.iter().enumerate() {
            match ask.route.wire {
                Wire::Messages => prompt.add_turn(&message["role"], &message["content"], index, &ask.tools),
                Wire::Gemini => prompt.add_turn(&message["role"], &message["parts"], index, &[]),
                Wire::Chat | Wire::Responses => {
                    prompt.add(message);
                    prompt.end(false);
                }
            }
        }
        // A marker of the whole request stands for one on its last block.
        if is_marked(ask.body) && !prompt.ends.is_empty() {
            prompt.marks.push(prompt.ends.len() - 1);
        }
        prompt
    }

    /// The bytes in common with `earlier`, as a share of `earlier`.
    pub(crate) fn share_of(&self, earlier: &[u8]) -> f64 {
        let same = self.bytes.iter().zip(earlier).take_while(|(now, then)| now == then).count();
        if earlier.is_empty() { 1.0 } else { same as f64 / earlier.len() as f64 }
    }

    fn add_tools(&mut self, ask: &ModelRequest) {
        match ask.route.wire {
            Wire::Responses => {
                for tool in items(&ask.body["tools"]) {
                    self.add(&up_front(tool));
                    self.end(false);
                }
            }
            _ => {
                for tool in ask.tools.iter().filter(|tool| !tool.deferred) {
                    self.add(&plain(tool.definition));
                    self.end(is_marked(tool.definition));
                }
            }
        }
    }

    fn add_system(&mut self, ask: &ModelRequest) {
        match ask.route.wire {
            Wire::Messages => {
                for block in blocks(&ask.body["system"]) {
                    self.add(&plain(&block));
                    self.end(is_marked(&block));
                }
                return;
            }
            Wire::Responses => self.add(&ask.body["instructions"]),
            Wire::Gemini => self.add(either(ask.body, "systemInstruction", "system_instruction")),
            // The system's words are the first of its messages.
            Wire::Chat => return,
        }
        self.end(false);
    }

    /// Adds the blocks of one message. Those that the model is about to say are added in the
    /// same way, to learn what will stand before their thoughts when they come back.
    pub(crate) fn add_turn(&mut self, role: &Value, content: &Value, index: usize, tools: &[Tool]) {
        for (inner, block) in blocks(content).iter().enumerate() {
            let before = self.bytes.len();
            if role != self.role.as_str() {
                self.role = role.as_str().unwrap_or_default().into();
                self.add(role);
            }
            if block["type"] == "thinking" {
                let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
                let at = format!("messages.{index}.content.{inner}");
                self.thoughts.push(Thought { text: text("thinking"), signature: text("signature"), before, at });
            }
            self.add(&plain(block));
            for name in references(block) {
                let expanded = tools.iter().find(|tool| tool.deferred && tool.name == name);
                expanded.into_iter().for_each(|tool| self.add(&plain(tool.definition)));
            }
            self.end(marks(block) > 0);
        }
    }

    /// Ends a tool, block or message.
    fn end(&mut self, is_marked: bool) {
        self.ends.push(self.bytes.len());
        if is_marked {
            self.marks.push(self.ends.len() - 1);
        }
    }

    fn add(&mut self, value: &Value) {
        if !value.is_null() {
            self.bytes.extend(value.to_string().bytes());
            self.bytes.push(b'\n');
        }
    }
}

/// The blocks of a message's content or of a system prompt; a string is one block of text.
pub(crate) fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        content => items(content).to_vec(),
    }
}

/// The names in a block's `tool_reference`s, whether the provider searched or the client.
pub(crate) fn references(block: &Value) -> impl Iterator<Item = &str> {
    let found = items(&block["content"]["tool_references"]);
    let told = items(&block["content"]);
    let added = std::slice::from_ref(&block["tool"]);
    let references = found.iter().chain(told).chain(added).filter(|reference| reference["type"] == "tool_reference");
    // In a change of the tools the key is another one than in results.
    references.filter_map(|reference| reference.get("tool_name").or(reference.get("name"))?.as_str())
}

/// Whether a definition or block carries a cache marker.
pub(crate) fn is_marked(value: &Value) -> bool {
    value.get("cache_control").is_some_and(|marker| !marker.is_null())
}

/// The cache markers of a block: its own and those of the blocks in it.
pub(crate) fn marks(block: &Value) -> usize {
    usize::from(is_marked(block)) + items(&block["content"]).iter().map(marks).sum::<usize>()
}

/// A definition or block without its cache marker.
fn plain(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(map) = value.as_object_mut() {
        map.shift_remove("cache_control");
        if let Some(Value::Array(inner)) = map.get_mut("content") {
            inner.iter_mut().for_each(|block| *block = plain(block));
        }
    }
    value
}

/// What the model sees of a tool on Responses before any search: of a deferred function its
/// name and description, of a namespace its own and what is not deferred in it.
fn up_front(tool: &Value) -> Value {
    let mut seen = tool.clone();
    if tool["type"] == "namespace" {
        let inner = items(&tool["tools"]).iter().filter(|inner| inner["defer_loading"] != true);
        seen["tools"] = inner.cloned().collect();
    } else if tool["defer_loading"] == true {
        seen = json!({"name": tool["name"], "description": tool["description"]});
    }
    seen
}
