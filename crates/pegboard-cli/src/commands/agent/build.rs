//! Builds an agent from the command line and the configuration.

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

use pegboard_agent::{
    Agent, AgentBuilder, Approval, BuildError, DialectName, Grants, Mode, RunLimits, ToolSearch,
    outputs::OutputSettings,
};
use pegboard_core::{Ranker, Selection};
use pegboard_discovery::HostTool;
use pegboard_gateway::Profile;
use pegboard_llm::{Model, client::ClientError, embeddings::EmbeddingRanker, wire::PromptCache};
use tokio::runtime::Handle;

use super::{
    args::{AgentArgs, ModeName, providers},
    input::is_named_like_config,
    questions::TerminalUser,
    terminal,
};
use crate::{
    cli::options,
    config::{
        Config,
        state::{self, StateFolder},
    },
    embeddings,
    error::{CliError, warn},
    models,
    rankers::RankerName,
    source::Source,
};

/// Reads the configuration, or that of the demo.
pub(super) fn read_config(source: &Source, state: Option<&str>) -> Result<Config, CliError> {
    let config = match source {
        Source::Named(path) if !path.is_file() && !is_named_like_config(path) => {
            return Err(CliError::new(format!("configuration file `{}` not found", path.display()))
                .hint("the order is CONFIG, then PROMPT; put a prompt of several words in quotes"));
        }
        source => source.read(state)?,
    };
    if let Some(path) = source.path().filter(|_| config.servers.is_empty()) {
        warn(&format!("`{}` has no servers; add them under `mcpServers`", path.display()));
    }
    Ok(config)
}

/// Returns the requested model.
pub(super) fn model(args: &AgentArgs) -> Result<Model, CliError> {
    let Some(name) = args.model.as_deref().filter(|name| !name.is_empty()) else {
        return Err(CliError::new("no model selected").hint(format!(
            "set `--model PROVIDER/MODEL` or `PEGBOARD_MODEL`, such as `anthropic/claude-haiku-4-5`; providers are {}",
            providers()
        )));
    };
    Model::parse(name).map_err(|error| CliError::new(error.to_string()))
}

/// Returns the builder of the agent, with everything set.
pub(super) fn builder(
    args: &AgentArgs,
    model: Model,
    (mode, dialect): (Mode, DialectName),
    config: Config,
    person: TerminalUser,
    runtime: &Handle,
) -> Result<AgentBuilder, CliError> {
    let approval = if args.yes { Approval::Never } else { args.approve.into() };
    let state = config.state.resolve(args.state.as_deref());
    state::check_approvals(&config, state.as_deref())?;
    let mut builder = Agent::builder(model)
        .tool_search(tool_search(args, &config, dialect, state.as_deref(), runtime)?)
        .mode(mode)
        .servers(config.servers)
        .selection(config.gateway.selection.clone())
        .policy(config.gateway.policies)
        .names(config.gateway.names, config.gateway.prefixes)
        .selected_servers(&args.shown.servers)
        .selected_tools(&args.shown.tools)
        .denied(&args.shown.deny)
        .pre_discovered(config.gateway.pre_discovered.iter().chain(&args.shown.pre_discovered).cloned())
        .limits(limits(args))
        .human(person)
        .approval(approval)
        .grants(Grants::new(&args.allow));
    if !terminal::is_attended() {
        // Without a user to answer, approval is refused, and the model gets no tool for questions.
        builder = builder.denied([format!("human:{}", HostTool::AskHuman.name())]);
    }
    if let Some(state) = state {
        builder = builder.pins(state::pins(&state)).logins(state::logins(&state));
    }
    if let Some(program) = program() {
        builder = builder.program(program);
    }
    if args.no_prompt_cache {
        builder = builder.prompt_cache(PromptCache::Off);
    }
    if let Some(prices) = args.prices {
        builder = builder.prices(prices);
    }
    if let Some(system) = &args.system {
        builder = builder.system_prompt(system);
    }
    if let Some(path) = &args.transcript {
        builder = builder.transcript(path);
    }
    if mode == Mode::CodeExecution {
        let folder = folder(args.work_folder.as_ref(), "work", "--work-folder")?;
        builder = with_commands(builder, folder, args);
    } else if args.offload_above > 0 {
        let folder = folder(args.outputs.as_ref(), "outputs", "--outputs")?;
        let threshold_tokens = args.offload_above;
        builder = builder.offload(OutputSettings { threshold_tokens, ..OutputSettings::new(folder) });
    }
    Ok(builder)
}

/// Sets how commands run.
#[cfg(feature = "code-execution")]
fn with_commands(builder: AgentBuilder, folder: PathBuf, args: &AgentArgs) -> AgentBuilder {
    use pegboard_agent::shell::ShellSettings;
    let builder = builder.code_execution(ShellSettings { policy: args.sandbox.into(), ..ShellSettings::new(folder) });
    if args.work_folder.is_none() { builder.folder_per_conversation() } else { builder }
}

/// Leaves it to the builder to report that code execution is not available.
#[cfg(not(feature = "code-execution"))]
fn with_commands(builder: AgentBuilder, _folder: PathBuf, _args: &AgentArgs) -> AgentBuilder {
    builder.mode(Mode::CodeExecution)
}

/// Returns the mode and the dialect. An explicit dialect implies tool search.
pub(super) fn mode(args: &AgentArgs, profile: Profile) -> Result<(Mode, DialectName), CliError> {
    let searches = |mode: ModeName| matches!(mode, ModeName::Auto | ModeName::ToolSearch);
    let named = args.dialect.map(|dialect| dialect.0);
    if named.is_some() && args.mode.is_some_and(|mode| !searches(mode)) {
        return Err(CliError::new("`--dialect` cannot be used with this `--mode`, which does not use tool search"));
    }
    let dialect = match profile {
        Profile::Dialect(dialect) => named.unwrap_or(dialect),
        Profile::Passthrough => named.unwrap_or_default(),
    };
    let mode = match (args.mode, named, profile) {
        (Some(mode), ..) => mode.into(),
        (None, Some(_), _) => Mode::ToolSearch,
        (None, None, Profile::Passthrough) => Mode::Normal,
        (None, None, Profile::Dialect(_)) => Mode::Auto,
    };
    Ok((mode, dialect))
}

fn tool_search(
    args: &AgentArgs,
    config: &Config,
    dialect: DialectName,
    state: Option<&Path>,
    runtime: &Handle,
) -> Result<ToolSearch, CliError> {
    let mut settings = config.gateway.discovery.clone();
    options::set_all(&mut settings, &args.set)?;
    let ranker = args.ranker.or(config.ranker).unwrap_or_else(|| RankerName::of(dialect));
    let mut ranker: Arc<dyn Ranker> =
        Arc::from(ranker.build(models::read(config.model.as_deref())?.as_ref(), settings.token_bonus));
    let shown = Selection::everything().allow_servers(&args.shown.servers).allow_tools(&args.shown.tools);
    let shown = shown.deny(&args.shown.deny);
    let chosen = embeddings::configured_endpoint(config).map(|(settings, most)| (settings, most.narrowed_to(shown)));
    if let Some(embedder) = embeddings::embedder(chosen, state) {
        ranker = EmbeddingRanker::wrap(ranker, &embedder, runtime);
    }
    Ok(ToolSearch {
        dialect,
        ranker: Some(ranker),
        settings,
        delivery: args.delivery.map(|delivery| delivery.0).or(config.delivery),
        exposure: config.gateway.exposure,
        categories: match args.prompt_categories.as_slice() {
            [] => config.gateway.prompt_categories.clone(),
            given => given.to_vec(),
        },
    })
}

fn limits(args: &AgentArgs) -> RunLimits {
    let usual = RunLimits::default();
    RunLimits {
        turns: args.max_turns.unwrap_or(usual.turns),
        tokens: args.max_tokens,
        cost: args.max_cost,
        context_tokens: args.compact_above,
        ..usual
    }
}

/// Returns the path of this program: it runs queries and commands, and supervises servers.
fn program() -> Option<PathBuf> {
    env::current_exe().inspect_err(|error| tracing::warn!(%error, "servers run without a supervisor")).ok()
}

/// Returns the requested folder, or one in the state folder.
fn folder(given: Option<&PathBuf>, name: &str, flag: &str) -> Result<PathBuf, CliError> {
    let own = || StateFolder::default().resolve(None).map(|state| state.join(name));
    given.cloned().or_else(own).ok_or_else(|| {
        CliError::new("no state folder: neither `XDG_STATE_HOME` nor `HOME` is set")
            .hint(format!("name one with `{flag}`"))
    })
}

/// Returns the error for an agent that cannot be built, with a hint.
pub(super) fn explain_build_error(error: &BuildError) -> CliError {
    let hint = match error {
        BuildError::Client(ClientError::NoKey { variable: "OPENAI_API_KEY", .. }) => Some(
            "set it to your API key; a local model needs only `OPENAI_BASE_URL`, such as `http://localhost:11434/v1`"
                .to_owned(),
        ),
        BuildError::Client(ClientError::NoKey { .. }) => Some("set it to your API key".to_owned()),
        error => error.hint(),
    };
    let shown = CliError::new("cannot start a conversation").because(super::json_lines::with_causes(error));
    match hint {
        Some(hint) => shown.hint(hint),
        None => shown,
    }
}
