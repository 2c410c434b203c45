//! What an agent is to be.

mod build;
mod conversation;
mod error;
mod resume;

use std::{fmt, path::PathBuf, sync::Arc};

use pegboard_core::{
    Selection,
    naming::{Prefixes, Style},
};
use pegboard_discovery::{HostTool, Learner};
use pegboard_llm::{Model, wire::PromptCache};
use pegboard_upstream::{auth::Logins, config::ServerConfig};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::error::BuildError;
use self::resume::History;
use crate::{
    agent::ModelClient,
    approval::{Approval, Grants, Human, Policy},
    commands::CommandSettings,
    custom::{CustomTool, ToolDef, ToolHandler, ToolMeta},
    final_answer::FinalAnswer,
    outputs::OutputSettings,
    program::Program,
    settings::{Limits, Mode, Prices, ToolSearch},
};

/// An agent to be.
#[must_use]
pub struct AgentBuilder {
    model: Model,
    client: Option<Arc<dyn ModelClient>>,
    system: Option<String>,
    cache: PromptCache,
    extra: serde_json::Map<String, Value>,
    config: Option<PathBuf>,
    pins: Option<PathBuf>,
    servers: Vec<ServerConfig>,
    logins: Option<Logins>,
    tools: Vec<CustomTool>,
    mode: Mode,
    search: ToolSearch,
    learner: Option<Arc<dyn Learner>>,
    pre_discovered: Vec<String>,
    selection: Selection,
    limits: Limits,
    prices: Option<Prices>,
    outputs: Option<OutputSettings>,
    commands: CommandSettings,
    program: Option<Program>,
    human: Option<Arc<dyn Human>>,
    approval: Approval,
    grants: Grants,
    policy: Option<Arc<dyn Policy>>,
    names: Style,
    prefixes: Prefixes,
    final_answer: Option<FinalAnswer>,
    saved: Option<Value>,
    transcript: Option<PathBuf>,
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("model", &self.model).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl AgentBuilder {
    pub(crate) fn new(model: Model) -> Self {
        Self {
            model,
            client: None,
            system: None,
            cache: PromptCache::default(),
            extra: serde_json::Map::new(),
            config: None,
            pins: None,
            servers: Vec::new(),
            logins: None,
            tools: Vec::new(),
            mode: Mode::Auto,
            search: ToolSearch::default(),
            learner: None,
            pre_discovered: Vec::new(),
            selection: Selection::everything(),
            limits: Limits::default(),
            prices: None,
            outputs: None,
            commands: CommandSettings::default(),
            program: None,
            human: None,
            approval: Approval::Never,
            grants: Grants::default(),
            policy: None,
            names: Style::default(),
            prefixes: Prefixes::default(),
            final_answer: None,
            saved: None,
            transcript: None,
        }
    }

    /// Whoever carries the conversation to the model. Without one, [`Client::from_env`](pegboard_llm::Client::from_env).
    pub fn client(mut self, client: impl ModelClient) -> Self {
        self.client = Some(Arc::new(client));
        self
    }

    /// What the model is told to be.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = Some(text.into());
        self
    }

    /// What requests mark for the provider's prompt cache; by default everything that the next
    /// request will begin with.
    pub fn cache(mut self, cache: PromptCache) -> Self {
        self.cache = cache;
        self
    }

    /// Fields of the body of every request beside the agent's own, such as `temperature`. They
    /// take precedence.
    pub fn extra(mut self, fields: serde_json::Map<String, Value>) -> Self {
        self.extra.extend(fields);
        self
    }

    /// The folder in which it is kept which tools were approved; without one every tool is.
    /// See [`Pinning`](pegboard_upstream::config::Pinning).
    pub fn pins(mut self, folder: impl Into<PathBuf>) -> Self {
        self.pins = Some(folder.into());
        self
    }

    /// The servers under `mcpServers` of a file, as every MCP client has them.
    pub fn mcp_config(mut self, path: impl Into<PathBuf>) -> Self {
        self.config = Some(path.into());
        self
    }

    /// Further servers.
    pub fn servers(mut self, servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        self.servers.extend(servers);
        self
    }

    /// Where logins to remote servers are kept; without them, none are used.
    pub fn logins(mut self, logins: Logins) -> Self {
        self.logins = Some(logins);
        self
    }

    /// A tool of the host program.
    pub fn tool(mut self, tool: CustomTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// [`tool`](Self::tool), from its parts.
    pub fn tool_with_meta(self, def: ToolDef, handler: impl ToolHandler, meta: ToolMeta) -> Self {
        self.tool(CustomTool::new(def, handler).with_meta(meta))
    }

    /// How the model gets at its tools.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Tools are searched for, in this way. [`mode`](Self::mode) after it decides when.
    pub fn tool_search(mut self, search: ToolSearch) -> Self {
        self.search = search;
        self.mode = Mode::ToolSearch;
        self
    }

    /// Whoever learns from what is called after a search; without one, nobody does. The habits
    /// are those of the [local user](pegboard_discovery::Holder::Local).
    pub fn learner(mut self, learner: Arc<dyn Learner>) -> Self {
        self.learner = Some(learner);
        self
    }

    /// Tools that are visible without being searched for. Names that nothing has are ignored.
    pub fn pre_discovered(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.pre_discovered.extend(names.into_iter().map(Into::into));
        self
    }

    /// Servers and categories whose tools may be seen; with
    /// [`selected_tools`](Self::selected_tools), what either names.
    pub fn selected_servers(mut self, servers: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.selection = self.selection.allow_servers(servers);
        self
    }

    /// Tools that may be seen: `server:tool`, `category:tool`, `server:*` or a name.
    pub fn selected_tools(mut self, patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.selection = self.selection.allow_tools(patterns);
        self
    }

    /// Servers and tools that must not be seen.
    pub fn denied(mut self, patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.selection = self.selection.deny(patterns);
        self
    }

    /// What may be seen at most; whatever else is selected is within it.
    pub fn selection(mut self, most: Selection) -> Self {
        self.selection = most.exempt(HostTool::OFFERS.map(HostTool::name)).narrowed_to(self.selection);
        self
    }

    /// How far runs may go.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What the model costs.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// Large outputs go to files, and the model reads of them what it needs.
    pub fn offload(mut self, settings: OutputSettings) -> Self {
        self.outputs = Some(settings);
        self
    }

    /// Tools are an HTTP API for commands that the model writes and that run like this.
    #[cfg(feature = "code-execution")]
    pub fn code_execution(mut self, settings: crate::shell::ShellSettings) -> Self {
        self.commands.shell = Some(settings);
        self.mode = Mode::CodeExecution;
        self
    }

    /// Each conversation works in a folder of its own, below that of its
    /// [`ShellSettings`](crate::shell::ShellSettings): what one leaves there must not be run by another.
    #[cfg(feature = "code-execution")]
    pub fn own_folder(mut self) -> Self {
        self.commands.has_own_folder = true;
        self
    }

    /// The `pegboard` binary, or a program that answers to the same hidden commands: it runs
    /// queries and commands in processes of their own. Without one, `pegboard` is looked for
    /// on the search path.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(Program::at(path));
        self
    }

    /// Somebody who can be asked.
    pub fn human(mut self, human: impl Human) -> Self {
        self.human = Some(Arc::new(human));
        self
    }

    /// Which calls need that person's consent.
    pub fn approval(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }

    /// Calls that need no further consent.
    pub fn grants(mut self, grants: Grants) -> Self {
        self.grants = grants;
        self
    }

    /// What is not let through, beyond what names alone can say.
    pub fn policy(mut self, policy: impl Policy) -> Self {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// Sets how tools of servers are named, and when their names carry the server. Without it,
    /// `server___tool` where more than one server is enabled.
    pub fn names(mut self, style: Style, prefixes: Prefixes) -> Self {
        (self.names, self.prefixes) = (style, prefixes);
        self
    }

    /// The answer must be a `T`: the model hands it over to a tool that takes nothing else,
    /// and that ends the run.
    pub fn output<T: JsonSchema + DeserializeOwned>(mut self) -> Self {
        self.final_answer = Some(FinalAnswer::of::<T>());
        self
    }

    /// Goes on with a conversation that [`Agent::save`](crate::Agent::save) saved.
    pub fn resume(mut self, saved: Value) -> Self {
        self.saved = Some(saved);
        self
    }

    /// Keeps the conversation in this file, turn by turn, and goes on with what is in it.
    pub fn transcript(mut self, path: impl Into<PathBuf>) -> Self {
        self.transcript = Some(path.into());
        self
    }
}
