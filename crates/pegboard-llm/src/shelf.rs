//! What a provider has been shown of the tools. The list only grows: a definition that was
//! sent stays, in its place, until the conversation is compacted.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use pegboard_core::{
    Catalog,
    naming::{ShownNames, Style},
};
use pegboard_discovery::{Session, ToolDefinition};
use serde_json::{Value, json};

use crate::{
    delivery::Delivery,
    rules,
    wire::{Wire, repair as mend},
};

/// A tool that is never found and never called. A list that has held a deferred tool from
/// the first request on is cached in a form that later ones fit into.
const PLACEHOLDER: &str = "deferred_tools_placeholder";

/// The name that Anthropic gives its own search.
pub(crate) const ANTHROPIC_SEARCH: &str = "tool_search_tool_bm25";

/// What is said of a tool that a history refers to and that nobody offers any more.
const GONE: &str = "No longer available: do not call it.";

/// What a history asks of the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// The tool that the model is made to call.
    pub(crate) forced: Option<String>,
    /// Tools that were called before anything made them known.
    pub(crate) called: BTreeSet<String>,
    /// Tools that the history makes known in the wire's own way.
    pub(crate) referenced: BTreeSet<String>,
}

impl Needs {
    /// Tools that must be there at once, found or not.
    fn eager(&self) -> impl Iterator<Item = &String> {
        self.forced.iter().chain(&self.called)
    }

    fn is_eager(&self, name: &str) -> bool {
        self.eager().any(|eager| eager == name)
    }
}

/// What was sent, in its order.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    wire: Wire,
    delivery: Delivery,
    tools: Vec<Value>,
    names: HashSet<String>,
    /// Names that stand for tools which are gone.
    stubs: BTreeSet<String>,
    /// What a provider that searches by itself was handed.
    handed: Option<Catalog>,
}

impl Shelf {
    pub(crate) fn new(wire: Wire, delivery: Delivery) -> Self {
        Self { wire, delivery, tools: Vec::new(), names: HashSet::new(), stubs: BTreeSet::new(), handed: None }
    }

    /// The definitions to send, in their order.
    pub(crate) fn tools(&self) -> &[Value] {
        &self.tools
    }

    /// How many tools they define.
    pub(crate) fn len(&self) -> usize {
        rules::flat(&self.tools).len()
    }

    /// Puts what is visible and was not sent yet at the end. What is deferred follows from the
    /// history alone: what it refers to. Anything else would never be seen.
    pub(crate) fn update(&mut self, session: &Session, needs: &Needs) {
        let is_first = self.tools.is_empty();
        self.replace_stubs(session);
        match self.delivery {
            Delivery::Native => self.add_native(session, needs),
            Delivery::ClientNative => self.add_client_search(session, needs),
            Delivery::Inject | Delivery::Constant => self.add_visible(session, |_| false),
            Delivery::Reference => {
                self.add_visible(session, |name| needs.referenced.contains(name));
                for name in session.visible_names() {
                    if !needs.referenced.contains(&name) {
                        self.bring_forward(&name);
                    }
                }
            }
        }
        if let Some(name) = &needs.forced {
            self.bring_forward(name);
        }
        for name in needs.eager().filter(|name| mend::is_name(name)) {
            // Called by another spelling it is not another tool.
            let is_forced = needs.forced.as_ref() == Some(name);
            if let Some(tool) = session.find(name).filter(|tool| is_forced || session.name_of(tool) == *name) {
                self.add(&ToolDefinition::of(&tool, name), false);
            }
        }
        if matches!(self.delivery, Delivery::Reference | Delivery::Native) && self.wire == Wire::Anthropic {
            self.resolve(session, &needs.referenced);
        }
        if self.delivery == Delivery::Native && self.wire == Wire::Responses {
            self.balance_hosted_search(is_first);
        }
        self.keep_one_in_sight();
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

    /// A deferred tool that nothing refers to is put at the end without being deferred.
    fn bring_forward(&mut self, name: &str) {
        let is_it = |tool: &Value| rules::name_of(tool) == name && rules::is_deferred(tool);
        let own = self.tools.iter().position(is_it).map(|at| self.tools.remove(at));
        let inner = || {
            let groups = self.tools.iter_mut().filter_map(|tool| tool.get_mut("tools")?.as_array_mut());
            groups.filter_map(|group| group.iter().position(is_it).map(|at| group.remove(at))).next()
        };
        if let Some(mut tool) = own.or_else(inner) {
            if let Some(fields) = tool.as_object_mut() {
                fields.shift_remove("defer_loading");
            }
            self.tools.push(tool);
        }
    }

    /// Makes sure that every reference leads to a tool: to the one that it means, deferred, or
    /// to one that says that it is gone.
    fn resolve(&mut self, session: &Session, referenced: &BTreeSet<String>) {
        for name in referenced {
            match session.find(name) {
                Some(tool) => self.add(&ToolDefinition::of(&tool, name), true),
                None if self.names.insert(name.clone()) => {
                    self.stubs.insert(name.clone());
                    self.tools.push(unseen(name, GONE));
                }
                None => {}
            }
        }
    }

    /// Tools that were gone and are there again.
    fn replace_stubs(&mut self, session: &Session) {
        for name in self.stubs.clone() {
            let Some(tool) = session.find(&name) else { continue };
            self.stubs.remove(&name);
            let definition = self.wire.tool(&ToolDefinition::of(&tool, &name));
            if let Some(stub) = self.tools.iter_mut().find(|tool| rules::name_of(tool) == name) {
                *stub = deferred(definition, rules::is_deferred(stub));
            }
        }
    }

    /// A list of nothing but deferred tools is refused.
    fn keep_one_in_sight(&mut self) {
        let is_seen = rules::flat(&self.tools).iter().any(|(tool, _)| !rules::is_deferred(tool));
        if is_seen && self.delivery == Delivery::Reference && self.names.insert(PLACEHOLDER.to_owned()) {
            self.tools.push(unseen(PLACEHOLDER, "Placeholder for tools that a search loads later."));
        }
        if let Some(first) = self.tools.first_mut().filter(|_| !is_seen).and_then(Value::as_object_mut) {
            first.shift_remove("defer_loading");
        }
    }

    /// Everything at once, for a provider that searches by itself; later what has come since.
    fn add_native(&mut self, session: &Session, needs: &Needs) {
        if self.handed.as_ref().is_some_and(|handed| handed.same_snapshot(session.catalog())) {
            return;
        }
        let is_first = self.handed.replace(session.catalog().clone()).is_none();
        let native = session.native();
        if self.wire == Wire::Anthropic && is_first {
            self.names.insert(ANTHROPIC_SEARCH.to_owned());
            self.tools.push(json!({"type": format!("{ANTHROPIC_SEARCH}_20251119"), "name": ANTHROPIC_SEARCH}));
        }
        native.tools.iter().for_each(|tool| self.add(tool, false));
        if self.wire == Wire::Responses && is_first {
            self.add_namespaces(session, &native.deferred, needs);
        } else {
            native.deferred.iter().for_each(|tool| self.add(tool, !needs.is_eager(&tool.name)));
        }
    }

    /// The search of OpenAI comes with the first tool that there is to find, and goes with the
    /// last: alone it is refused. So is a group of nothing.
    fn balance_hosted_search(&mut self, is_first: bool) {
        self.tools
            .retain(|tool| tool["type"] != "namespace" || tool["tools"].as_array().is_some_and(|t| !t.is_empty()));
        let search = self.tools.iter().position(|tool| tool["type"] == "tool_search");
        let is_needed = rules::flat(&self.tools).iter().any(|(tool, _)| rules::is_deferred(tool));
        match search {
            Some(at) if !is_needed => drop(self.tools.remove(at)),
            None if is_needed => {
                let place = if is_first { 0 } else { self.tools.len() };
                self.tools.insert(place, json!({"type": "tool_search"}));
            }
            _ => {}
        }
    }

    /// Groups deferred tools by their server: the model sees a group's name and description,
    /// and its tools when it has searched.
    fn add_namespaces(&mut self, session: &Session, tools: &[ToolDefinition], needs: &Needs) {
        let mut groups: BTreeMap<String, (String, Vec<Value>)> = BTreeMap::new();
        for definition in tools {
            if !self.names.insert(definition.name.clone()) {
                continue;
            }
            let is_eager = needs.is_eager(&definition.name);
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

    /// The provider's own search in the place of the dialect's, and everything visible that
    /// the history does not hold already.
    fn add_client_search(&mut self, session: &Session, needs: &Needs) {
        for definition in session.visible() {
            match session.search_name() {
                Some(search) if search == definition.name => {
                    if self.names.insert(definition.name.clone()) {
                        self.tools.push(json!({
                            "type": "tool_search",
                            "execution": "client",
                            "description": definition.description,
                            "parameters": definition.input_schema,
                        }));
                    }
                }
                _ if needs.referenced.contains(&definition.name) => {}
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

/// A deferred tool of Anthropic's wire that takes nothing.
fn unseen(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "description": description,
        "input_schema": {"type": "object", "properties": {}},
        "defer_loading": true,
    })
}
