//! The execution of calls.

use std::sync::Arc;

use pegboard_core::{Tool, Vectors};
use serde_json::{Value, json};

use super::Session;
use crate::{
    arguments::CalledAs,
    dialects::DialectView,
    host::{self, HostTool, arguments::ArgumentError, results::READ_RESULT},
    names::{SEARCH_FIRST, echo},
    outcome::{Effect, Reply, Searched, ToolDefinition},
    usage::{SearchLead, UsageStep},
};

/// The target of a call: a catalog tool, or an operation of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The identity of the catalog tool; `None` for an operation of the host.
    pub id: Option<String>,
    /// The server of the tool.
    pub server: Option<String>,
    /// The name of the tool at its server.
    pub name: String,
    /// The arguments of the tool.
    pub arguments: Value,
    /// Whether the call came through a meta-tool; `arguments` are then the inner ones.
    pub is_wrapped: bool,
}

/// The answer of a session to a call.
#[derive(Clone, Debug)]
pub struct CallAnswer {
    /// The reply to the model; empty if a catalog tool must be called first.
    pub reply: Reply,
    /// Data for user interfaces.
    pub metadata: Option<Value>,
    /// Whether the call failed.
    pub is_error: bool,
    /// The tool to call, if the call resolved to one.
    pub target: Option<Target>,
    /// Whether the visible list has changed.
    pub list_changed: bool,
    /// The tools that were unloaded because of the maximum number of loaded tools.
    pub evicted: Vec<String>,
    /// The searches that the call made.
    pub searched: Vec<Searched>,
    /// The definitions of what was found, best first: of the tools that the call loads or
    /// exposes, loaded before or not; where it loads nothing, of the hits of its searches. For
    /// programs that hand definitions to a model by themselves.
    pub found: Vec<Arc<ToolDefinition>>,
    /// Whether it failed because the arguments do not fit the tool's schema.
    pub is_misfit: bool,
}

impl CallAnswer {
    fn of(reply: Reply) -> Self {
        Self {
            reply,
            metadata: None,
            is_error: false,
            target: None,
            list_changed: false,
            evicted: Vec::new(),
            searched: Vec::new(),
            found: Vec::new(),
            is_misfit: false,
        }
    }

    /// Returns the results of its searches for user interfaces: those of the dialect, else each
    /// query with the number of matches and the names of the hits.
    pub fn search_metadata(&self) -> Option<Value> {
        let search = |searched: &Searched| {
            let hits: Vec<&str> = searched.hits.iter().map(|tool| tool.name()).collect();
            json!({"query": searched.query, "tools": searched.tools, "matches": searched.matches, "hits": hits})
        };
        let searches = || json!({"searches": self.searched.iter().map(search).collect::<Vec<_>>()});
        self.metadata.clone().or_else(|| (!self.searched.is_empty()).then(searches))
    }

    /// An operation of the host.
    fn for_host(name: &str, arguments: Value) -> Self {
        let target = Target { id: None, server: None, name: name.to_owned(), arguments, is_wrapped: true };
        Self { target: Some(target), ..Self::of(Reply::Text(String::new())) }
    }

    fn error(reply: Reply) -> Self {
        Self { is_error: true, ..Self::of(reply) }
    }
}

/// Returns the error in the arguments of a tool that reads outputs, which has error texts of its
/// own.
fn check_reader_arguments(tool: &Tool, arguments: &Value) -> Option<ArgumentError> {
    let reader = HostTool::from_name(tool.name()).filter(|_| HostTool::is_reader(tool))?;
    host::arguments::parse(reader, arguments).err()
}

impl Session {
    /// Answers a call of any name: a meta-tool, or a tool of the catalog.
    pub fn call(&mut self, name: &str, arguments: &Value) -> CallAnswer {
        self.call_with(name, arguments, &Vectors::default())
    }

    /// Answers a call like [`call`](Self::call), with the vectors of
    /// [`vectors_for`](Self::vectors_for).
    pub fn call_with(&mut self, name: &str, arguments: &Value, vectors: &Vectors) -> CallAnswer {
        let answer = self.answer(name, arguments, vectors);
        self.trail.record(&answer);
        answer
    }

    /// Returns the search that may have led to the last call. After the call has succeeded, its
    /// executor reports that with [`confirm_lead`](Self::confirm_lead).
    pub fn lead(&self) -> Option<&SearchLead> {
        self.trail.lead()
    }

    /// Records that a call has succeeded; returns what can be learned from it.
    pub fn confirm_lead(&mut self, lead: &SearchLead) -> Option<UsageStep> {
        self.trail.confirm(lead)
    }

    fn answer(&mut self, name: &str, arguments: &Value, vectors: &Vectors) -> CallAnswer {
        if let Some(arguments) = self.read_result_arguments(name, arguments) {
            return CallAnswer::for_host(READ_RESULT, arguments.into_owned());
        }
        let call = |view: &DialectView<'_>| self.dialect().call(name, arguments, view);
        let outcome = self.meta_tool(name).and_then(|_| self.with_view_of(&*self.ranker, vectors, call));
        let Some(outcome) = outcome else { return self.call_catalog_tool(name, arguments) };
        let changes_list =
            outcome.effects.iter().any(|effect| !matches!(effect, Effect::Invoke { .. } | Effect::Host { .. }));
        let before = changes_list.then(|| self.visible());
        let mut answer = CallAnswer {
            metadata: outcome.metadata,
            is_error: outcome.is_error,
            searched: outcome.searched,
            ..CallAnswer::of(outcome.reply)
        };
        for effect in outcome.effects {
            match effect {
                Effect::Load(tools) => {
                    answer.evicted.extend(self.load(&tools));
                    answer.found.extend(self.definitions(&tools));
                }
                Effect::Unload(names) => self.unload(&names),
                Effect::Replace(tools) => {
                    self.expose(&tools);
                    answer.found.extend(self.definitions(&tools));
                }
                Effect::Invoke { tool, arguments } => self.invoke(&tool, arguments, true, &mut answer),
                Effect::Host { tool, arguments } => {
                    let name = tool.name().to_owned();
                    answer.target = Some(Target { id: None, server: None, name, arguments, is_wrapped: true });
                }
            }
        }
        if answer.found.is_empty() {
            let hits = answer.searched.iter().flat_map(|searched| &searched.hits);
            answer.found = hits.map(|tool| self.names.definition(tool, &self.names.shown(tool))).collect();
        }
        answer.list_changed = before.is_some_and(|before| {
            let names = before.iter().map(|tool| &tool.name);
            !names.eq(self.visible().iter().map(|tool| &tool.name))
        });
        self.list_changes += u64::from(answer.list_changed);
        answer
    }

    fn definitions(&self, tools: &[(Arc<Tool>, String)]) -> Vec<Arc<ToolDefinition>> {
        tools.iter().map(|(tool, name)| self.names.definition(tool, name)).collect()
    }

    /// Answers a call of a tool that is not a meta-tool. A tool that is not loaded is called too:
    /// hiding saves context and is not a permission.
    fn call_catalog_tool(&mut self, name: &str, arguments: &Value) -> CallAnswer {
        let loaded = self.find_visible(name);
        let is_loaded = loaded.is_some();
        let Some(tool) = loaded.or_else(|| self.names.find(name)) else {
            let advice = if self.has_search() { SEARCH_FIRST } else { "call one of the listed tools" };
            return CallAnswer::error(Reply::Text(self.names.unknown(name, advice)));
        };
        let is_listed = is_loaded || self.lists_everything;
        let refused = self.with_view(|view| self.dialect().check_direct_call(&tool, view));
        if let Some(refused) = refused.filter(|_| !self.lists_everything) {
            return CallAnswer::error(refused.reply);
        }
        if !is_listed && !self.settings.run_unloaded {
            let definition = ToolDefinition::of(&tool, &self.names.shown(&tool)).to_json();
            let text = format!("`{}` is not loaded; load it first. It is: {definition}", echo(name));
            return CallAnswer::error(Reply::Text(text));
        }
        let mut answer = CallAnswer::of(Reply::Text(String::new()));
        self.invoke(&tool, arguments.clone(), false, &mut answer);
        answer
    }

    /// Resolves a call to its tool, unless its arguments are invalid.
    fn invoke(&mut self, tool: &Arc<Tool>, arguments: Value, is_wrapped: bool, answer: &mut CallAnswer) {
        let name = self.names.shown(tool);
        let called = CalledAs { name: &name, is_wrapped };
        if let Some(error) = check_reader_arguments(tool, &arguments) {
            answer.reply = Reply::Text(error.to_string());
            (answer.is_error, answer.is_misfit) = (true, true);
            return;
        }
        let is_usual = self.dialect().checks_arguments();
        match self.settings.validation.reject(tool, &arguments, is_usual, &called) {
            Some(text) => {
                answer.reply = Reply::Text(text);
                (answer.is_error, answer.is_misfit) = (true, true);
            }
            None => answer.target = Some(self.target(tool, arguments, is_wrapped)),
        }
    }

    /// Returns the target of a call, and records that the tool was used.
    fn target(&mut self, tool: &Arc<Tool>, arguments: Value, is_wrapped: bool) -> Target {
        self.loaded.touch_tool(tool);
        Target {
            id: Some(tool.id().to_owned()),
            server: tool.server_name().map(str::to_owned),
            name: tool.upstream_name().to_owned(),
            arguments,
            is_wrapped,
        }
    }
}
