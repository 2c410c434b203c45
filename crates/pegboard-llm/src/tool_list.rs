//! The tool list of a conversation's requests. It only grows: a definition that was sent stays in
//! its place until the conversation is compacted, so that the prompt cache stays valid.

use std::collections::{BTreeSet, HashSet};

use pegboard_core::Catalog;
use pegboard_discovery::{NativeTools, Session, ToolDefinition};
use serde_json::{Value, json};

use crate::{
    delivery::Delivery,
    rules,
    wire::{Wire, repair},
};

/// A deferred tool that is never found and never called. Providers cache a list with deferred
/// tools in another form; with this one every request has one.
const PLACEHOLDER: &str = "deferred_tools_placeholder";

/// The description of a tool that a history refers to and that no server offers any more.
const GONE: &str = "No longer available: do not call it.";

/// Tools that a request needs in its list beside the visible ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequiredTools {
    /// The tool of a forced tool choice.
    pub(crate) forced: Option<String>,
    /// Tools that the history calls before anything made them known.
    pub(crate) called: BTreeSet<String>,
    /// Tools that the history makes known in the API's own way.
    pub(crate) referenced: BTreeSet<String>,
}

impl RequiredTools {
    /// Returns the tools that must not be deferred.
    fn eager(&self) -> impl Iterator<Item = &String> {
        self.forced.iter().chain(&self.called)
    }

    pub(crate) fn is_eager(&self, name: &str) -> bool {
        self.eager().any(|eager| eager == name)
    }
}

/// The tool list, in the order in which it is sent.
#[derive(Clone, Debug)]
pub(crate) struct ToolList {
    wire: Wire,
    delivery: Delivery,
    tools: Vec<Value>,
    names: HashSet<String>,
    /// Names of tools that no server offers any more, with an empty definition in the list.
    stubs: BTreeSet<String>,
    /// The catalog whose tools a provider with its own search was sent.
    sent_catalog: Option<Catalog>,
}

impl ToolList {
    pub(crate) fn new(wire: Wire, delivery: Delivery) -> Self {
        Self { wire, delivery, tools: Vec::new(), names: HashSet::new(), stubs: BTreeSet::new(), sent_catalog: None }
    }

    /// Returns the definitions to send, in their order.
    pub(crate) fn tools(&self) -> &[Value] {
        &self.tools
    }

    /// Returns the number of tools that can be called.
    pub(crate) fn len(&self) -> usize {
        self.wire.format().flatten(&self.tools).len()
    }

    /// Adds visible tools that were not sent yet at the end. Only tools that the history refers to
    /// are deferred; the model would never see others.
    pub(crate) fn update(&mut self, session: &Session, required: &RequiredTools) {
        let is_first = self.tools.is_empty();
        self.replace_stubs(session);
        match self.delivery {
            Delivery::Native => self.add_native(session, required),
            Delivery::ClientNative => self.add_client_search(session, required),
            Delivery::Inject | Delivery::Constant => self.add_visible(session, |_| false),
            Delivery::Reference => {
                self.add_visible(session, |name| required.referenced.contains(name));
                for name in session.visible_names() {
                    if !required.referenced.contains(&name) {
                        self.undefer(&name);
                    }
                }
            }
        }
        if let Some(name) = &required.forced {
            self.undefer(name);
        }
        for name in required.eager().filter(|name| repair::is_valid_name(name)) {
            // A tool that was called by another spelling is not added twice.
            let is_forced = required.forced.as_ref() == Some(name);
            if let Some(tool) = session.find(name).filter(|tool| is_forced || session.name_of(tool) == *name) {
                self.add(&ToolDefinition::of(&tool, name), false);
            }
        }
        if matches!(self.delivery, Delivery::Reference | Delivery::Native) && self.wire.format().resolves_references() {
            self.add_referenced(session, &required.referenced);
        }
        if self.delivery == Delivery::Native {
            self.wire.format().adjust_native(self, is_first);
        }
        self.keep_one_undeferred();
    }

    fn add_visible(&mut self, session: &Session, is_deferred: impl Fn(&str) -> bool) {
        for definition in session.visible() {
            let is_deferred = is_deferred(&definition.name);
            self.add(&definition, is_deferred);
        }
    }

    /// Adds a tool at the end, unless the list has one of its name.
    pub(crate) fn add(&mut self, definition: &ToolDefinition, is_deferred: bool) {
        if self.claim_name(&definition.name) {
            self.push(self.wire.tool(definition), is_deferred);
        }
    }

    /// Reserves a name for a definition that [`push`](Self::push) adds; `false` if it is taken.
    pub(crate) fn claim_name(&mut self, name: &str) -> bool {
        self.names.insert(name.to_owned())
    }

    /// Adds a definition at the end.
    pub(crate) fn push(&mut self, tool: Value, is_deferred: bool) {
        self.tools.push(deferred(tool, is_deferred));
    }

    /// Returns the definitions, to change them.
    pub(crate) fn tools_mut(&mut self) -> &mut Vec<Value> {
        &mut self.tools
    }

    /// Adds the tools of a provider that searches them: what the model sees at once, and
    /// what it may find as deferred tools, except those that are needed at once.
    pub(crate) fn add_searchable(&mut self, native: &NativeTools, required: &RequiredTools) {
        native.tools.iter().for_each(|tool| self.add(tool, false));
        native.deferred.iter().for_each(|tool| self.add(tool, !required.is_eager(&tool.name)));
    }

    /// Moves a deferred tool to the end and makes it visible at once.
    fn undefer(&mut self, name: &str) {
        let format = self.wire.format();
        let is_it = |tool: &Value| format.tool_name(tool) == name && rules::is_deferred(tool);
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

    /// Adds a deferred definition for every referenced tool, or a stub if no server offers it any
    /// more.
    fn add_referenced(&mut self, session: &Session, referenced: &BTreeSet<String>) {
        for name in referenced {
            match session.find(name) {
                Some(tool) => self.add(&ToolDefinition::of(&tool, name), true),
                None if self.names.insert(name.clone()) => {
                    self.stubs.insert(name.clone());
                    self.push(self.empty_tool(name, GONE), true);
                }
                None => {}
            }
        }
    }

    /// Replaces stubs of tools that a server offers again.
    fn replace_stubs(&mut self, session: &Session) {
        for name in self.stubs.clone() {
            let Some(tool) = session.find(&name) else { continue };
            self.stubs.remove(&name);
            let format = self.wire.format();
            let definition = format.tool(&ToolDefinition::of(&tool, &name));
            if let Some(stub) = self.tools.iter_mut().find(|tool| format.tool_name(tool) == name) {
                *stub = deferred(definition, rules::is_deferred(stub));
            }
        }
    }

    /// Makes sure that one tool is not deferred; providers refuse a list of deferred tools only.
    fn keep_one_undeferred(&mut self) {
        let is_seen = self.wire.format().flatten(&self.tools).iter().any(|(tool, _)| !rules::is_deferred(tool));
        if is_seen && self.delivery == Delivery::Reference && self.names.insert(PLACEHOLDER.to_owned()) {
            self.push(self.empty_tool(PLACEHOLDER, "Placeholder for tools that a search loads later."), true);
        }
        if let Some(first) = self.tools.first_mut().filter(|_| !is_seen).and_then(Value::as_object_mut) {
            first.shift_remove("defer_loading");
        }
    }

    /// Returns the definition of a tool without arguments.
    fn empty_tool(&self, name: &str, description: &str) -> Value {
        let input_schema = json!({"type": "object", "properties": {}});
        self.wire.tool(&ToolDefinition { name: name.to_owned(), description: description.to_owned(), input_schema })
    }

    /// Adds all tools for a provider with its own search; later those that are new.
    fn add_native(&mut self, session: &Session, required: &RequiredTools) {
        if self.sent_catalog.as_ref().is_some_and(|sent_catalog| sent_catalog.same_snapshot(session.catalog())) {
            return;
        }
        let is_first = self.sent_catalog.replace(session.catalog().clone()).is_none();
        self.wire.format().add_native(self, session, required, is_first);
    }

    /// Adds the provider's search in place of the dialect's, and every visible tool that the
    /// history does not define.
    fn add_client_search(&mut self, session: &Session, required: &RequiredTools) {
        for definition in session.visible() {
            match session.search_name() {
                Some(search) if search == definition.name => {
                    if let Some(tool) =
                        self.wire.format().client_search(&definition).filter(|_| self.claim_name(search))
                    {
                        self.push(tool, false);
                    }
                }
                _ if required.referenced.contains(&definition.name) => {}
                _ => self.add(&definition, false),
            }
        }
    }
}

/// Marks a definition as deferred. One that is not gets no mark, since some APIs refuse an
/// explicit `null` or `false`.
pub(crate) fn deferred(mut tool: Value, is_deferred: bool) -> Value {
    if is_deferred {
        tool["defer_loading"] = true.into();
    }
    tool
}
