//! What a call leads to.

use std::sync::Arc;

use pegboard_core::{Tool, Vectors};
use serde_json::{Value, json};

use super::Session;
use crate::{
    arguments::CalledAs,
    dialects::View,
    host::{self, HostTool, arguments::ArgumentError},
    names::echo,
    outcome::{Effect, Reply, Searched, ToolDefinition},
    usage::{Lead, Step},
};

/// What a call leads to: a catalog tool, or something that the host does.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The identity of the catalog tool; `None` for what the host does itself.
    pub id: Option<String>,
    /// Its server.
    pub server: Option<String>,
    /// Its own name there.
    pub name: String,
    /// The arguments to call it with.
    pub arguments: Value,
    /// Whether the call came through a meta-tool; `arguments` are then the inner ones.
    pub is_wrapped: bool,
}

/// What a call led to.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What the model gets to read; for a catalog tool, nothing yet.
    pub reply: Reply,
    /// What user interfaces get beside it.
    pub metadata: Option<Value>,
    /// Whether the call failed.
    pub is_error: bool,
    /// The catalog tool to call, if that is what it led to.
    pub target: Option<Target>,
    /// Whether the visible list is another one now.
    pub list_changed: bool,
    /// Tools that had to give way to what was loaded, by the cap on loaded tools.
    pub evicted: Vec<String>,
    /// The searches that it took.
    pub searched: Vec<Searched>,
    /// The definitions of what was found, best first: of the tools that the call loads or
    /// exposes, loaded before or not; where it loads nothing, of the hits of its searches. For
    /// programs that hand definitions to a model by themselves.
    pub found: Vec<Arc<ToolDefinition>>,
    /// Whether it failed because the arguments do not fit the tool's schema.
    pub is_misfit: bool,
}

impl Answer {
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

    /// What its searches found, for user interfaces: what the dialect tells, else each query with the
    /// number of matches and the names of the hits.
    pub fn search_metadata(&self) -> Option<Value> {
        let search = |searched: &Searched| {
            let hits: Vec<&str> = searched.hits.iter().map(|tool| tool.name()).collect();
            json!({"query": searched.query, "tools": searched.tools, "matches": searched.matches, "hits": hits})
        };
        let searches = || json!({"searches": self.searched.iter().map(search).collect::<Vec<_>>()});
        self.metadata.clone().or_else(|| (!self.searched.is_empty()).then(searches))
    }

    fn refusal(reply: Reply) -> Self {
        Self { is_error: true, ..Self::of(reply) }
    }
}

/// What is wrong with the arguments of a tool that reads outputs: it has words of its own for that.
fn wrong_for_reader(tool: &Tool, arguments: &Value) -> Option<ArgumentError> {
    let reader = HostTool::from_name(tool.name()).filter(|_| HostTool::is_reader(tool))?;
    host::arguments::parse(reader, arguments).err()
}

impl Session {
    /// Answers a call of any name: a meta-tool, or a tool of the catalog.
    pub fn call(&mut self, name: &str, arguments: &Value) -> Answer {
        self.call_with(name, arguments, &Vectors::default())
    }

    /// [`call`](Self::call) with the vectors that [`vectors_for`](Self::vectors_for) brought.
    pub fn call_with(&mut self, name: &str, arguments: &Value, vectors: &Vectors) -> Answer {
        let answer = self.answer(name, arguments, vectors);
        self.trail.follow(&answer);
        answer
    }

    /// The search that the last call may have come from. Whoever has carried the call out says
    /// so by [`arrive`](Self::arrive).
    pub fn lead(&self) -> Option<&Lead> {
        self.trail.lead()
    }

    /// A call has done its work; what there is to learn from that.
    pub fn arrive(&mut self, lead: &Lead) -> Option<Step> {
        self.trail.arrive(lead)
    }

    fn answer(&mut self, name: &str, arguments: &Value, vectors: &Vectors) -> Answer {
        let call = |view: &View<'_>| self.dialect().call(name, arguments, view);
        let outcome = self.meta_tool(name).and_then(|_| self.with_view_of(&*self.ranker, vectors, call));
        let Some(outcome) = outcome else { return self.call_catalog_tool(name, arguments) };
        let changes_list =
            outcome.effects.iter().any(|effect| !matches!(effect, Effect::Invoke { .. } | Effect::Host { .. }));
        let before = changes_list.then(|| self.visible());
        let mut answer = Answer {
            metadata: outcome.metadata,
            is_error: outcome.is_error,
            searched: outcome.searched,
            ..Answer::of(outcome.reply)
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

    /// A call of a tool that is not a meta-tool. One that is not loaded runs all the same:
    /// hiding saves context, it is no permission.
    fn call_catalog_tool(&mut self, name: &str, arguments: &Value) -> Answer {
        let loaded = self.shown_as(name);
        let is_loaded = loaded.is_some();
        let Some(tool) = loaded.or_else(|| self.names.find(name)) else {
            return Answer::refusal(Reply::Text(self.names.unknown(name)));
        };
        let is_listed = is_loaded || self.lists_everything;
        let refused = self.with_view(|view| self.dialect().refuse(&tool, view));
        if let Some(refused) = refused.filter(|_| !self.lists_everything) {
            return Answer::refusal(refused.reply);
        }
        if !is_listed && !self.settings.run_unloaded {
            let definition = ToolDefinition::of(&tool, &self.names.shown(&tool)).to_json();
            let text = format!("`{}` is not loaded; load it first. It is: {definition}", echo(name));
            return Answer::refusal(Reply::Text(text));
        }
        let mut answer = Answer::of(Reply::Text(String::new()));
        self.invoke(&tool, arguments.clone(), false, &mut answer);
        answer
    }

    /// Lets a call go to its tool, unless its arguments do not fit.
    fn invoke(&mut self, tool: &Arc<Tool>, arguments: Value, is_wrapped: bool, answer: &mut Answer) {
        let name = self.names.shown(tool);
        let called = CalledAs { name: &name, is_wrapped };
        if let Some(error) = wrong_for_reader(tool, &arguments) {
            answer.reply = Reply::Text(error.to_string());
            (answer.is_error, answer.is_misfit) = (true, true);
            return;
        }
        let is_usual = self.dialect().checks_arguments();
        match self.settings.validation.refusal(tool, &arguments, is_usual, &called) {
            Some(text) => {
                answer.reply = Reply::Text(text);
                (answer.is_error, answer.is_misfit) = (true, true);
            }
            None => answer.target = Some(self.target(tool, arguments, is_wrapped)),
        }
    }

    /// Where a call goes, noting that the tool was used.
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
