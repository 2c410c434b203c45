//! The builder of an agent.

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
use self::resume::SavedConversation;
use crate::{
    Program,
    agent::ModelClient,
    approval::{Approval, CallPolicy, Grants, Human},
    commands::CommandSettings,
    custom::{CustomTool, ToolDef, ToolHandler, ToolMeta},
    final_answer::FinalAnswer,
    outputs::OutputSettings,
    settings::{Mode, Prices, RunLimits, ToolSearch},
};

/// Configures and builds an [`Agent`](crate::Agent).
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
    limits: RunLimits,
    prices: Option<Prices>,
    outputs: Option<OutputSettings>,
    commands: CommandSettings,
    program: Option<Program>,
    human: Option<Arc<dyn Human>>,
    approval: Approval,
    grants: Grants,
    policy: Option<Arc<dyn CallPolicy>>,
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
            limits: RunLimits::default(),
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

    /// Sets the client of the model; by default
    /// [`Client::from_env`](pegboard_llm::Client::from_env).
    pub fn client(mut self, client: impl ModelClient) -> Self {
        self.client = Some(Arc::new(client));
        self
    }

    /// Sets the system prompt.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system = Some(text.into());
        self
    }

    /// Sets which parts of a request are marked for the provider's prompt cache; by default
    /// everything that the next request will begin with.
    pub fn prompt_cache(mut self, cache: PromptCache) -> Self {
        self.cache = cache;
        self
    }

    /// Adds fields to the body of every request, such as `temperature`. They take precedence over
    /// the agent's own.
    pub fn extra_fields(mut self, fields: serde_json::Map<String, Value>) -> Self {
        self.extra.extend(fields);
        self
    }

    /// Sets the folder with the approved tools; without one every tool is approved. See
    /// [`Pinning`](pegboard_upstream::config::Pinning).
    pub fn pins(mut self, folder: impl Into<PathBuf>) -> Self {
        self.pins = Some(folder.into());
        self
    }

    /// Reads servers from `mcpServers` of a configuration file, the format that all MCP clients
    /// use.
    pub fn mcp_config(mut self, path: impl Into<PathBuf>) -> Self {
        self.config = Some(path.into());
        self
    }

    /// Adds servers.
    pub fn servers(mut self, servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        self.servers.extend(servers);
        self
    }

    /// Sets the store of logins to remote servers; by default no logins are used.
    pub fn logins(mut self, logins: Logins) -> Self {
        self.logins = Some(logins);
        self
    }

    /// Adds a tool of the host program.
    pub fn tool(mut self, tool: CustomTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a tool of the host program from its parts.
    pub fn tool_with_meta(self, def: ToolDef, handler: impl ToolHandler, meta: ToolMeta) -> Self {
        self.tool(CustomTool::new(def, handler).with_meta(meta))
    }

    /// Sets how the model reaches its tools.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Enables tool search with these settings. A later call of [`mode`](Self::mode) overrides when
    /// it is used.
    pub fn tool_search(mut self, search: ToolSearch) -> Self {
        self.search = search;
        self.mode = Mode::ToolSearch;
        self
    }

    /// Sets the learner that receives calls after a search; by default nothing is learned.
    /// Usage is that of the [local user](pegboard_discovery::Holder::Local).
    pub fn learner(mut self, learner: Arc<dyn Learner>) -> Self {
        self.learner = Some(learner);
        self
    }

    /// Makes tools visible without a search. Names that match no tool are ignored.
    pub fn pre_discovered(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.pre_discovered.extend(names.into_iter().map(Into::into));
        self
    }

    /// Restricts the tools to these servers and categories; together with
    /// [`selected_tools`](Self::selected_tools), to the union of both.
    pub fn selected_servers(mut self, servers: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.selection = self.selection.allow_servers(servers);
        self
    }

    /// Restricts the tools to these patterns: `server:tool`, `category:tool`, `server:*` or a name.
    pub fn selected_tools(mut self, patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.selection = self.selection.allow_tools(patterns);
        self
    }

    /// Hides servers and tools.
    pub fn denied(mut self, patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.selection = self.selection.deny(patterns);
        self
    }

    /// Restricts the tools to a selection; other selections apply within it.
    pub fn selection(mut self, most: Selection) -> Self {
        self.selection = most.exempt(HostTool::OFFERS.map(HostTool::name)).narrowed_to(self.selection);
        self
    }

    /// Sets the limits of runs.
    pub fn limits(mut self, limits: RunLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the prices of the model.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// Writes large outputs to files, from which the model reads what it needs.
    pub fn offload(mut self, settings: OutputSettings) -> Self {
        self.outputs = Some(settings);
        self
    }

    /// Serves the tools as an HTTP API to commands that the model writes, and runs these commands
    /// with these settings.
    #[cfg(feature = "code-execution")]
    pub fn code_execution(mut self, settings: crate::shell::ShellSettings) -> Self {
        self.commands.shell = Some(settings);
        self.mode = Mode::CodeExecution;
        self
    }

    /// Gives each conversation a folder of its own below that of its
    /// [`ShellSettings`](crate::shell::ShellSettings), so that files of one conversation are not
    /// run by another.
    #[cfg(feature = "code-execution")]
    pub fn folder_per_conversation(mut self) -> Self {
        self.commands.has_own_folder = true;
        self
    }

    /// Sets the path of the `pegboard` binary, or of a program with the same hidden commands: it
    /// runs queries and commands in separate processes. By default `pegboard` is searched in
    /// `PATH`.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(Program::at(path));
        self
    }

    /// Sets the user who answers questions and approves calls.
    pub fn human(mut self, human: impl Human) -> Self {
        self.human = Some(Arc::new(human));
        self
    }

    /// Sets which calls need the user's approval.
    pub fn approval(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }

    /// Allows calls without asking the user.
    pub fn grants(mut self, grants: Grants) -> Self {
        self.grants = grants;
        self
    }

    /// Sets a policy that hides tools and rejects calls, beyond selection by name.
    pub fn policy(mut self, policy: impl CallPolicy) -> Self {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// Sets how tools of servers are named, and when their names contain the server. By default
    /// `server___tool` if more than one server is enabled.
    pub fn names(mut self, style: Style, prefixes: Prefixes) -> Self {
        (self.names, self.prefixes) = (style, prefixes);
        self
    }

    /// Requires a structured answer of type `T`: the model submits it with a tool that accepts
    /// nothing else and ends the run.
    pub fn output<T: JsonSchema + DeserializeOwned>(mut self) -> Self {
        self.final_answer = Some(FinalAnswer::of::<T>());
        self
    }

    /// Continues a conversation that [`Agent::save`](crate::Agent::save) saved.
    pub fn resume(mut self, saved: Value) -> Self {
        self.saved = Some(saved);
        self
    }

    /// Writes the conversation to this file after every turn, and continues the conversation in it.
    pub fn transcript(mut self, path: impl Into<PathBuf>) -> Self {
        self.transcript = Some(path.into());
        self
    }
}
