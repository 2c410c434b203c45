//! What a provider has been shown of the tools. The list only grows: a definition that was
//! sent stays, in its place, until the conversation is compacted.

use std::collections::{BTreeSet, HashSet};

use pegboard_core::Catalog;
use pegboard_discovery::{Native, Session, ToolDefinition};
use serde_json::{Value, json};

use crate::{
    delivery::Delivery,
    rules,
    wire::{Wire, repair},
};

/// A tool that is never found and never called. A list that has held a deferred tool from
/// the first request on is cached in a form that later ones fit into.
const PLACEHOLDER: &str = "deferred_tools_placeholder";

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

    pub(crate) fn is_eager(&self, name: &str) -> bool {
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
        self.wire.format().flatten(&self.tools).len()
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
        for name in needs.eager().filter(|name| repair::is_valid_name(name)) {
            // Called by another spelling it is not another tool.
            let is_forced = needs.forced.as_ref() == Some(name);
            if let Some(tool) = session.find(name).filter(|tool| is_forced || session.name_of(tool) == *name) {
                self.add(&ToolDefinition::of(&tool, name), false);
            }
        }
        if matches!(self.delivery, Delivery::Reference | Delivery::Native) && self.wire.format().resolves_references() {
            self.resolve(session, &needs.referenced);
        }
        if self.delivery == Delivery::Native {
            self.wire.format().balance_native(self, is_first);
        }
        self.keep_one_in_sight();
    }

    fn add_visible(&mut self, session: &Session, is_deferred: impl Fn(&str) -> bool) {
        for definition in session.visible() {
            let is_deferred = is_deferred(&definition.name);
            self.add(&definition, is_deferred);
        }
    }

    /// Adds a tool at the end, unless the list has one of its name.
    pub(crate) fn add(&mut self, definition: &ToolDefinition, is_deferred: bool) {
        if self.claim(&definition.name) {
            self.push(self.wire.tool(definition), is_deferred);
        }
    }

    /// Takes a name for a definition that [`push`](Self::push) adds; `false` if it is taken.
    pub(crate) fn claim(&mut self, name: &str) -> bool {
        self.names.insert(name.to_owned())
    }

    /// Adds a definition at the end. `defer_loading` is left out where it is not deferred, since
    /// some APIs refuse an explicit `null` or `false`.
    pub(crate) fn push(&mut self, tool: Value, is_deferred: bool) {
        self.tools.push(deferred(tool, is_deferred));
    }

    /// The definitions, to be changed.
    pub(crate) fn tools_mut(&mut self) -> &mut Vec<Value> {
        &mut self.tools
    }

    /// Adds the tools of a provider that searches them: what the model sees at once, and
    /// what it may find as deferred tools, except those that are needed at once.
    pub(crate) fn add_deferred(&mut self, native: &Native, needs: &Needs) {
        native.tools.iter().for_each(|tool| self.add(tool, false));
        native.deferred.iter().for_each(|tool| self.add(tool, !needs.is_eager(&tool.name)));
    }

    /// A deferred tool that nothing refers to is put at the end without being deferred.
    fn bring_forward(&mut self, name: &str) {
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

    /// Makes sure that every reference leads to a tool: to the one that it means, deferred, or
    /// to one that says that it is gone.
    fn resolve(&mut self, session: &Session, referenced: &BTreeSet<String>) {
        for name in referenced {
            match session.find(name) {
                Some(tool) => self.add(&ToolDefinition::of(&tool, name), true),
                None if self.names.insert(name.clone()) => {
                    self.stubs.insert(name.clone());
                    self.push(self.unseen(name, GONE), true);
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
            let format = self.wire.format();
            let definition = format.tool(&ToolDefinition::of(&tool, &name));
            if let Some(stub) = self.tools.iter_mut().find(|tool| format.tool_name(tool) == name) {
                *stub = deferred(definition, rules::is_deferred(stub));
            }
        }
    }

    /// A list of nothing but deferred tools is refused.
    fn keep_one_in_sight(&mut self) {
        let is_seen = self.wire.format().flatten(&self.tools).iter().any(|(tool, _)| !rules::is_deferred(tool));
        if is_seen && self.delivery == Delivery::Reference && self.names.insert(PLACEHOLDER.to_owned()) {
            self.push(self.unseen(PLACEHOLDER, "Placeholder for tools that a search loads later."), true);
        }
        if let Some(first) = self.tools.first_mut().filter(|_| !is_seen).and_then(Value::as_object_mut) {
            first.shift_remove("defer_loading");
        }
    }

    /// A tool that takes nothing.
    fn unseen(&self, name: &str, description: &str) -> Value {
        let input_schema = json!({"type": "object", "properties": {}});
        self.wire.tool(&ToolDefinition { name: name.to_owned(), description: description.to_owned(), input_schema })
    }

    /// Everything at once, for a provider that searches by itself; later what has come since.
    fn add_native(&mut self, session: &Session, needs: &Needs) {
        if self.handed.as_ref().is_some_and(|handed| handed.same_snapshot(session.catalog())) {
            return;
        }
        let is_first = self.handed.replace(session.catalog().clone()).is_none();
        self.wire.format().add_native(self, session, needs, is_first);
    }

    /// The provider's own search in the place of the dialect's, and everything visible that
    /// the history does not hold already.
    fn add_client_search(&mut self, session: &Session, needs: &Needs) {
        for definition in session.visible() {
            match session.search_name() {
                Some(search) if search == definition.name => {
                    if let Some(tool) = self.wire.format().client_search(&definition).filter(|_| self.claim(search)) {
                        self.push(tool, false);
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
pub(crate) fn deferred(mut tool: Value, is_deferred: bool) -> Value {
    if is_deferred {
        tool["defer_loading"] = true.into();
    }
    tool
}
