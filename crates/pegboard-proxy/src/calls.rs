//! Calls of the model: which are the proxy's own, and what they mean for the client.

use std::sync::Arc;

use pegboard_discovery::{Searched, Session};
use serde_json::{Value, value::RawValue};

use crate::{
    catalog::{CALL, SEARCH, ToolSet},
    json::Object,
    wires::{HiddenAnswer, HiddenCall},
};

/// A call of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments as JSON.
    pub(crate) arguments: String,
}

/// The meaning of a called name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// The search of the proxy.
    Search,
    /// The tool of the proxy that calls others.
    Call,
    /// A tool of the client.
    Client,
}

/// What happens with a call of `call_tool`.
pub(crate) enum Resolved {
    /// The client gets this call.
    Client(HeldCall),
    /// The model gets this answer.
    Rejected(HiddenAnswer),
}

/// How found tools reach the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// As text; the model calls them through `call_tool`.
    Constant,
    /// As references to definitions, which the model calls directly.
    Reference,
}

/// Resolves the calls of one answer.
pub(crate) struct Calls {
    session: Session,
    tools: Arc<ToolSet>,
    delivery: Delivery,
}

impl Calls {
    pub(crate) fn new(session: Session, tools: Arc<ToolSet>, delivery: Delivery) -> Self {
        Self { session, tools, delivery }
    }

    /// Returns how found tools reach the model.
    pub(crate) fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// Goes on without references to tools.
    pub(crate) fn give_up_references(&mut self) {
        self.delivery = Delivery::Constant;
    }

    /// Returns the tools of the client.
    pub(crate) fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Returns the tools of the client, to be kept.
    pub(crate) fn shared_tools(&self) -> Arc<ToolSet> {
        Arc::clone(&self.tools)
    }

    /// Returns what a called name means.
    pub(crate) fn callee(&self, name: &str) -> Callee {
        match name {
            SEARCH => Callee::Search,
            CALL if self.delivery == Delivery::Constant => Callee::Call,
            _ => Callee::Client,
        }
    }

    /// Resolves a call of `call_tool`.
    pub(crate) fn resolve(&mut self, call: &HeldCall) -> Resolved {
        let Ok(arguments) = serde_json::from_str::<Value>(&call.arguments) else {
            return reject(call, "the arguments are not valid JSON; repeat the call with a JSON object".to_owned());
        };
        let answer = self.session.call(CALL, &arguments);
        match answer.target {
            Some(target) => {
                // The model's own text, as long as the arguments are where they belong.
                let inner = Object::parse(&call.arguments).and_then(|object| {
                    let raw: &RawValue = object.get("arguments")?;
                    raw.get().starts_with('{').then(|| raw.get().to_owned())
                });
                let is_same =
                    |text: &String| serde_json::from_str::<Value>(text).is_ok_and(|it| it == target.arguments);
                let arguments = inner.filter(is_same).unwrap_or_else(|| target.arguments.to_string());
                Resolved::Client(HeldCall { id: call.id.clone(), name: target.name, arguments })
            }
            None => reject(call, answer.reply.into_text()),
        }
    }

    /// Returns the answer to a call that the client does not see. This may build an index, which takes time.
    pub(crate) fn answer(&mut self, hidden: HiddenCall) -> HiddenAnswer {
        match hidden {
            HiddenCall::Search(call) => self.search(&call),
            HiddenCall::Rejected(answer) => answer,
        }
    }

    /// Answers a search.
    pub(crate) fn search(&mut self, call: &HeldCall) -> HiddenAnswer {
        let arguments = match call.arguments.trim() {
            "" => Ok(Value::Null),
            text => serde_json::from_str::<Value>(text),
        };
        let Ok(arguments) = arguments else {
            let text = "the arguments are not valid JSON; repeat the search with a JSON object".to_owned();
            return HiddenAnswer { call: call.clone(), text, is_error: true, references: Vec::new() };
        };
        let answer = self.session.call(SEARCH, &arguments);
        let mut references = Vec::new();
        if self.delivery == Delivery::Reference {
            for found in &answer.found {
                if self.tools.is_deferrable(&found.name) && !references.contains(&found.name) {
                    references.push(found.name.clone());
                }
            }
        }
        let is_error = answer.is_error;
        let text = if references.is_empty() { answer.reply.into_text() } else { not_found(&answer.searched) };
        HiddenAnswer { call: call.clone(), text, is_error, references }
    }
}

/// Returns what references do not tell: the queries that found nothing.
fn not_found(searched: &[Searched]) -> String {
    let missed = searched.iter().filter(|searched| searched.hits.is_empty());
    let lines: Vec<String> =
        missed.map(|searched| format!("No tool fits `{}`; try other words.", searched.query)).collect();
    lines.join("\n")
}

fn reject(call: &HeldCall, text: String) -> Resolved {
    Resolved::Rejected(HiddenAnswer { call: call.clone(), text, is_error: true, references: Vec::new() })
}
