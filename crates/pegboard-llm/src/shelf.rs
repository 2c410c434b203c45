//! What a provider has been shown of the tools. The list only grows: a definition that was
//! sent stays, in its place, until the conversation is compacted.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use pegboard_core::naming::{ShownNames, Style};
use pegboard_discovery::{Session, ToolDefinition};
use serde_json::{Value, json};

use crate::{delivery::Delivery, wire::Wire};

/// A tool that is never found and never called. A list that has held a deferred tool from
/// the first request on is cached in a form that later ones fit into.
const PLACEHOLDER: &str = "deferred_tools_placeholder";

/// The name that Anthropic gives its own search.
const ANTHROPIC_SEARCH: &str = "tool_search_tool_bm25";

/// What was sent, in its order.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    wire: Wire,
    delivery: Delivery,
    tools: Vec<Value>,
    names: HashSet<String>,
    has_begun: bool,
}

impl Shelf {
    pub(crate) fn new(wire: Wire, delivery: Delivery) -> Self {
        Self { wire, delivery, tools: Vec::new(), names: HashSet::new(), has_begun: false }
    }

    /// The definitions to send, in their order.
    pub(crate) fn tools(&self) -> &[Value] {
        &self.tools
    }

    /// Puts what is visible and was not sent yet at the end. Tools in `eager` are not
    /// deferred: they are forced, or were called before.
    pub(crate) fn update(&mut self, session: &Session, eager: &BTreeSet<String>) {
        match self.delivery {
            Delivery::Native if self.has_begun => {}
            Delivery::Native => self.begin_native(session, eager),
            Delivery::ClientNative if self.has_begun => {}
            Delivery::ClientNative => self.begin_client_search(session),
            Delivery::Inject | Delivery::Constant => self.add_visible(session, |_| false),
            Delivery::Reference => {
                let has_begun = self.has_begun;
                self.add_visible(session, |name| has_begun && !eager.contains(name));
                if !has_begun {
                    self.tools.push(placeholder());
                }
            }
        }
        // What is forced or was called must be there, found or not.
        for name in eager {
            if let Some(tool) = session.find(name) {
                self.add(&ToolDefinition::of(&tool, name), false);
            }
        }
        self.has_begun = true;
    }

    fn add_visible(&mut self, session: &Session, is_deferred: impl Fn(&str) -> bool) {
        for definition in session.visible() {
            let is_deferred = is_deferred(&definition.name);
            self.add(&definition, is_deferred);
        }
    }

    fn add(&mut self, definition: &ToolDefinition, is_deferred: bool) {
        if self.names.insert(definition.name.clone()) {
            self.tools.push(deferred(self.wire.tool(definition), is_deferred));
        }
    }

    /// Everything at once, for a provider that searches by itself.
    fn begin_native(&mut self, session: &Session, eager: &BTreeSet<String>) {
        let native = session.native();
        match self.wire {
            Wire::Anthropic => {
                self.tools.push(json!({"type": format!("{ANTHROPIC_SEARCH}_20251119"), "name": ANTHROPIC_SEARCH}));
                native.tools.iter().for_each(|tool| self.add(tool, false));
                native.deferred.iter().for_each(|tool| self.add(tool, !eager.contains(&tool.name)));
            }
            _ => {
                self.tools.push(json!({"type": "tool_search"}));
                native.tools.iter().for_each(|tool| self.add(tool, false));
                self.add_namespaces(session, &native.deferred, eager);
            }
        }
    }

    /// Groups deferred tools by their server: the model sees a group's name and description,
    /// and its tools when it has searched.
    fn add_namespaces(&mut self, session: &Session, tools: &[ToolDefinition], eager: &BTreeSet<String>) {
        let mut groups: BTreeMap<String, (String, Vec<Value>)> = BTreeMap::new();
        for definition in tools {
            if !self.names.insert(definition.name.clone()) {
                continue;
            }
            let is_eager = eager.contains(&definition.name);
            let server = session.find(&definition.name).and_then(|tool| tool.server().cloned()).filter(|_| !is_eager);
            let tool = deferred(self.wire.tool(definition), !is_eager);
            match server {
                Some(server) => {
                    let group = groups.entry(server.name.clone()).or_insert((server.description.clone(), Vec::new()));
                    group.1.push(tool);
                }
                None => self.tools.push(tool),
            }
        }
        let style = Style { is_prefixed: false, ..Style::default() };
        let names = ShownNames::new(&style, groups.keys().map(|name| ("", name.as_str())));
        for ((server, (description, tools)), name) in groups.iter().zip(names.iter()) {
            let description = if description.is_empty() { format!("Tools of {server}") } else { description.clone() };
            self.tools.push(json!({"type": "namespace", "name": name, "description": description, "tools": tools}));
        }
    }

    /// The provider's own search in the place of the dialect's.
    fn begin_client_search(&mut self, session: &Session) {
        for definition in session.visible() {
            match session.search_name() {
                Some(search) if search == definition.name => {
                    self.names.insert(definition.name.clone());
                    self.tools.push(json!({
                        "type": "tool_search",
                        "execution": "client",
                        "description": definition.description,
                        "parameters": definition.input_schema,
                    }));
                }
                _ => self.add(&definition, false),
            }
        }
    }
}

/// A definition that says whether it is deferred; nothing where it is not, since an explicit
/// `null` or `false` is refused here and there.
fn deferred(mut tool: Value, is_deferred: bool) -> Value {
    if is_deferred {
        tool["defer_loading"] = true.into();
    }
    tool
}

fn placeholder() -> Value {
    json!({
        "name": PLACEHOLDER,
        "description": "Stands for tools that a search makes known later.",
        "input_schema": {"type": "object", "properties": {}},
        "defer_loading": true,
    })
}
