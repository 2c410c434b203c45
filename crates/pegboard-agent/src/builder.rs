//! Putting an agent together.

use std::{
    collections::BTreeSet,
    fmt,
    path::PathBuf,
    sync::{Arc, OnceLock, RwLock, Weak},
    time::Duration,
};

use pegboard_core::Selection;
use pegboard_discovery::{DialectName, Holder, Learner, Session, host::people::kept_section};
use pegboard_http::ListenError;
use pegboard_llm::{Client, Conversation, ConversationError, Delivery, Model, client::ClientError};
use pegboard_upstream::{
    Fleet, FleetOptions, ListKind,
    auth::Logins,
    config::{ServerConfig, file::FileError},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    agent::{Agent, ModelClient, Shared},
    calls::Hands,
    code::{ApiSettings, ToolApi},
    custom::{CustomTool, Output, RegisterError, Registry, ToolDef, ToolError, ToolHandler, ToolMeta},
    outputs::{OutputError, OutputSettings, Outputs},
    people::{Approval, Human, Policy},
    program::Program,
    settings::{Limits, Mode, Prices, ToolSearch},
    shell::{Api, Shell, ShellError, ShellSettings},
    sources::Sources,
    state::{self, ResumeError, Talk, Writer},
};

/// The tool that takes the answer of an agent built with [`AgentBuilder::output`].
pub const FINAL_ANSWER: &str = "final_answer";

/// Tools that are visible beside what is found or shown by number: meta-tools, tools of the
/// agent itself, some that are always on.
const BESIDE: usize = 32;

/// How often old outputs are looked for.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The configuration of the servers.
    #[error(transparent)]
    Config(#[from] FileError),
    /// A tool.
    #[error(transparent)]
    Tool(#[from] RegisterError),
    /// The provider.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The conversation.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// The folder for outputs.
    #[error(transparent)]
    Outputs(#[from] OutputError),
    /// The commands of code execution mode.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The API of code execution mode.
    #[error(transparent)]
    Api(#[from] ListenError),
    /// The conversation to go on with.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// Something failed that never should.
    #[error("the agent broke down while it was built")]
    Broken,
    /// A limit on the cost of what has no price.
    #[error("a limit on the cost needs prices")]
    NoPrices,
    /// A name of the conversation that cannot be made.
    #[error("the system has no random numbers")]
    Random(#[source] getrandom::Error),
}

impl BuildError {
    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoPrices => Some("give them with `prices`".to_owned()),
            Self::Shell(error) => error.hint().map(str::to_owned),
            Self::Resume(error) => error.hint().map(str::to_owned),
            Self::Outputs(error) => error.hint().map(str::to_owned),
            Self::Api(error) => Some(error.hint().to_owned()),
            _ => None,
        }
    }
}

/// An agent to be.
#[must_use]
pub struct AgentBuilder {
    model: Model,
    client: Option<Arc<dyn ModelClient>>,
    system: Option<String>,
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
    shell: Option<ShellSettings>,
    has_own_folder: bool,
    program: Option<Program>,
    human: Option<Arc<dyn Human>>,
    approval: Approval,
    policy: Option<Arc<dyn Policy>>,
    output_tool: Option<CustomTool>,
    is_output_wrapped: bool,
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
            shell: None,
            has_own_folder: false,
            program: None,
            human: None,
            approval: Approval::Never,
            policy: None,
            output_tool: None,
            is_output_wrapped: false,
            saved: None,
            transcript: None,
        }
    }

    /// Whoever carries the conversation to the model. Without one, [`Client::from_env`].
    pub fn client(mut self, client: impl ModelClient) -> Self {
        self.client = Some(Arc::new(client));
        self
    }

    /// What the model is told to be.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = Some(text.into());
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
        self.selection = most.exempt(["get_prompt", "get_resource"]).narrowed_to(self.selection);
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
    pub fn code_execution(mut self, settings: ShellSettings) -> Self {
        self.shell = Some(settings);
        self.mode = Mode::CodeExecution;
        self
    }

    /// Each conversation works in a folder of its own, below that of its [`ShellSettings`]: what
    /// one leaves there must not be run by another.
    pub fn own_folder(mut self) -> Self {
        self.has_own_folder = true;
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

    /// What is not let through, beyond what names alone can say.
    pub fn policy(mut self, policy: impl Policy) -> Self {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// The answer must be a `T`: the model hands it over to a tool that takes nothing else,
    /// and that ends the run.
    pub fn output<T: JsonSchema + DeserializeOwned>(mut self) -> Self {
        let mut def = ToolDef::of::<T>(FINAL_ANSWER, "Hand over your answer. Call it once, when you are done.");
        // Arguments are an object; what is none is put into one.
        self.is_output_wrapped = def.input_schema.get("type").and_then(Value::as_str) != Some("object");
        if self.is_output_wrapped {
            def.input_schema =
                json!({"type": "object", "properties": {"value": def.input_schema}, "required": ["value"]});
        }
        let is_wrapped = self.is_output_wrapped;
        let take = move |answer: Value| {
            let taken = match serde_json::from_value::<T>(unwrapped(answer, is_wrapped)) {
                Ok(_) => Ok(Output::from("accepted")),
                Err(error) => Err(ToolError::from(format!("the answer does not fit: {error}"))),
            };
            std::future::ready(taken)
        };
        let meta = ToolMeta { ends_run: true, ..ToolMeta::in_category("structured_output") };
        self.output_tool = Some(CustomTool::new(def, take).with_meta(meta));
        self
    }

    /// Goes on with a conversation that [`Agent::save`] saved.
    pub fn resume(mut self, saved: Value) -> Self {
        self.saved = Some(saved);
        self
    }

    /// Keeps the conversation in this file, turn by turn, and goes on with what is in it.
    pub fn transcript(mut self, path: impl Into<PathBuf>) -> Self {
        self.transcript = Some(path.into());
        self
    }

    /// Starts the servers, waits for them, and begins the conversation. A server that does
    /// not start is no error: [`Agent::failures`] tells of it.
    ///
    /// # Errors
    /// When what was asked for cannot be had.
    pub async fn build(mut self) -> Result<Agent, BuildError> {
        if self.limits.cost.is_some() && self.prices.is_none() {
            return Err(BuildError::NoPrices);
        }
        let client = match self.client.take() {
            Some(client) => client,
            None => Arc::new(Client::from_env(self.model.provider)?),
        };
        let (writer, kept) = match self.transcript.take() {
            Some(path) => open_transcript(path).await?,
            None => (None, None),
        };
        let saved = match (self.saved.take(), kept) {
            (Some(_), Some((path, _))) => return Err(ResumeError::Two { path }.into()),
            (saved, kept) => saved.or(kept.map(|(_, saved)| saved)),
        };
        let id = match saved.as_ref().and_then(state::saved_id) {
            Some(id) => id,
            None => random_id().map_err(BuildError::Random)?,
        };
        let program = self.program.take().or_else(Program::find);
        let registry = self.registry()?;
        let fleet = self.start_servers(program.as_ref())?;
        fleet.settled(self.limits.startup).await;
        let selection = self.selection.clone().exempt(["get_prompt", "get_resource"]);
        let outputs = match self.outputs.take().filter(|_| self.mode != Mode::CodeExecution) {
            Some(settings) => Some(Arc::new(Outputs::new(settings, &id, program.clone())?)),
            None => None,
        };
        let mut sources = Sources::new(Arc::clone(&fleet), registry.clone(), selection.clone(), &[])
            .with_policy(self.policy.clone())
            .with_host_tools(self.human.is_some(), outputs.is_some());
        sources.refresh();
        let (mode, reason) = self.decide(&sources, &selection);
        let conversation = self.conversation(mode, &mut sources, &selection, outputs.is_some())?;
        let mut hands = Hands::new(fleet, registry, selection);
        hands.outputs = outputs;
        hands.human = self.human.take();
        hands.approval = self.approval;
        hands.policy = self.policy.take();
        hands.tool_time = self.limits.tool_time;
        hands.output_bytes = self.limits.output_bytes;
        hands.set_catalog(sources.catalog().clone());
        let mut talk = Talk::new(id.clone(), conversation, sources);
        if let Some(saved) = &saved {
            talk.restore(saved)?;
        }
        let agent = Agent {
            shared: Arc::new(Shared {
                talk: Mutex::new(talk),
                client,
                hands: Arc::new(hands),
                limits: self.limits,
                prices: self.prices,
                mode,
                reason,
                transcript: writer,
                learner: self.learner,
                glance: RwLock::default(),
                output_tool: self.output_tool.map(|tool| (tool.def.name, self.is_output_wrapped)),
                api: OnceLock::new(),
            }),
        };
        agent.shared.look(&*agent.shared.talk.lock().await);
        if mode == Mode::CodeExecution {
            if let Some(shell) = self.shell.as_mut().filter(|_| self.has_own_folder) {
                shell.folder.push(&id);
            }
            serve_code(&agent.shared, self.shell, program, &id).await?;
        }
        if let Some(outputs) = &agent.shared.hands.outputs {
            tokio::spawn(keep_clean(Arc::downgrade(outputs)));
        }
        Ok(agent)
    }

    fn registry(&mut self) -> Result<Registry, RegisterError> {
        let registry = Registry::new();
        let mut tools = std::mem::take(&mut self.tools);
        tools.extend(self.output_tool.clone());
        tools.into_iter().try_for_each(|tool| registry.add(tool))?;
        Ok(registry)
    }

    fn start_servers(&mut self, program: Option<&Program>) -> Result<Arc<Fleet>, FileError> {
        let mut servers = match &self.config {
            Some(path) => pegboard_upstream::config::file::servers_from(path)?,
            None => Vec::new(),
        };
        let mut names: BTreeSet<String> = servers.iter().map(|server| server.name.clone()).collect();
        let further = std::mem::take(&mut self.servers);
        servers.extend(further.into_iter().filter(|server| names.insert(server.name.clone())));
        let supervisor = program.map(|program| {
            let mut command = program.command("supervise");
            command.push("--".into());
            command
        });
        let (supervisor, pins, logins) = (supervisor.unwrap_or_default(), self.pins.take(), self.logins.clone());
        let options = FleetOptions { supervisor, pins, logins, ..FleetOptions::default() };
        let (fleet, mut notices) = Fleet::start_with(servers, options);
        // What servers say of their own accord is nobody's here; it must not pile up.
        tokio::spawn(async move { while notices.recv().await.is_some() {} });
        Ok(Arc::new(fleet))
    }

    fn decide(&self, sources: &Sources, selection: &Selection) -> (Mode, String) {
        if self.mode != Mode::Auto {
            return (self.mode, "asked for".to_owned());
        }
        let decision = self.search.exposure.decide(sources.catalog(), selection);
        (if decision.is_on { Mode::ToolSearch } else { Mode::Normal }, decision.reason)
    }

    fn conversation(
        &self,
        mode: Mode,
        sources: &mut Sources,
        selection: &Selection,
        has_outputs: bool,
    ) -> Result<Conversation, ConversationError> {
        let mut settings = self.search.settings.clone();
        settings.output_offloading = has_outputs;
        settings.validation.is_on.get_or_insert(true);
        // What the provider takes at most, less what is visible beside what is found.
        let most = self.model.provider.max_tools().saturating_sub(BESIDE);
        settings.max_loaded = if settings.max_loaded == 0 { most } else { settings.max_loaded.min(most) };
        let (dialect, wish) = match mode {
            Mode::CodeExecution => (DialectName::Code, None),
            Mode::ToolSearch | Mode::Auto => (self.search.dialect, self.search.delivery),
            Mode::Normal => {
                // More than that, and there is a search after all.
                settings.max_tools_limit = most;
                (DialectName::Gateway, Some(Delivery::Inject))
            }
        };
        sources.reserve(dialect.meta_names());
        sources.refresh();
        let catalog = sources.catalog().clone();
        let ranker = match &self.learner {
            Some(learner) => learner.ranker(Holder::Local, self.search.ranker()),
            None => self.search.ranker(),
        };
        let session = Session::expecting(dialect, settings, catalog, selection.clone(), ranker)
            .with_pre_discovered(self.pre_discovered.clone())
            .with_categories(self.search.categories.clone());
        let mut conversation = Conversation::expecting(self.model.clone(), session, wish)?;
        let kept = match mode {
            Mode::CodeExecution => String::new(),
            _ => kept_section(&sources.kept(ListKind::Prompts), &sources.kept(ListKind::Resources)),
        };
        let parts = [self.system.clone().unwrap_or_default(), kept];
        let system = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
        if !system.is_empty() {
            conversation = conversation.with_system(system);
        }
        Ok(match self.limits.turn_tokens {
            Some(most) => conversation.with_max_tokens(most),
            None => conversation,
        })
    }
}

/// Makes a transcript ours, and reads what is in it. Not on a thread that others wait for.
async fn open_transcript(path: PathBuf) -> Result<(Option<Arc<Writer>>, Option<(PathBuf, Value)>), BuildError> {
    let opened = tokio::task::spawn_blocking(move || {
        let saved = state::read(&path)?;
        let writer = Arc::new(Writer::new(path.clone())?);
        Ok::<_, ResumeError>((Some(writer), saved.map(|saved| (path, saved))))
    });
    Ok(opened.await.map_err(|_| BuildError::Broken)??)
}

/// Serves the tools to commands, and gets ready to run them.
async fn serve_code(
    shared: &Arc<Shared>,
    settings: Option<ShellSettings>,
    program: Option<Program>,
    id: &str,
) -> Result<(), BuildError> {
    let api = ToolApi::start(Arc::clone(&shared.hands) as Arc<dyn crate::code::Invoke>, ApiSettings::default()).await?;
    let reach = Api { address: api.address(), token: api.token().to_owned() };
    let own = || ShellSettings::new(std::env::temp_dir().join(format!("pegboard-{id}")));
    let settings = settings.unwrap_or_else(own);
    // It tries the sandboxes for real.
    let shell = tokio::task::spawn_blocking(move || Shell::new(settings, program, Some(reach)));
    let shell = shell.await.map_err(|_| BuildError::Broken)??;
    let _ = shared.hands.shell.set(shell);
    let _ = shared.api.set(api);
    Ok(())
}

/// Removes outputs that are too old, now and then, as long as the agent lives.
async fn keep_clean(outputs: Weak<Outputs>) {
    while let Some(outputs) = outputs.upgrade() {
        outputs.clean().await;
        drop(outputs);
        tokio::time::sleep(CLEAN_EVERY).await;
    }
}

/// What was meant by the arguments of the tool that takes the answer.
pub(crate) fn unwrapped(mut answer: Value, is_wrapped: bool) -> Value {
    if is_wrapped { answer.get_mut("value").map(Value::take).unwrap_or_default() } else { answer }
}

/// A name for a conversation that no other has.
fn random_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0; state::ID_DIGITS / 2];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
