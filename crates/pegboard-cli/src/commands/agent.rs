//! `pegboard agent`.

mod activity;
mod amounts;
mod args;
mod build;
mod console;
mod display;
mod input;
mod json_lines;
mod markdown;
mod questions;
mod repl;
mod screen;
mod signals;
mod terminal;

use std::io::{IsTerminal, stdin};

use pegboard_agent::{Agent, AgentBuilder, LimitReached, Mode, RunError};
use pegboard_discovery::Learner as _;
use pegboard_llm::wire;

pub(crate) use self::args::AgentArgs;
pub(crate) use self::signals::INTERRUPTED;
use self::{
    args::AgentFormat,
    console::{AgentConsole, PromptOutcome},
    display::{RunDisplay, RunStart},
    input::PositionalArgs,
    json_lines::JsonLines,
    questions::TerminalUser,
    screen::Screen,
    signals::Signals,
    terminal::{Keyboard, TerminalModes},
};
use super::serve::runtime;
use crate::{
    Outcome,
    error::{CliError, warn},
    logging,
    output::pluralize,
    progress::Progress,
    source::Source,
    telemetry::{Telemetry, TelemetryOff},
    terminal_text::clean,
    usage,
};

/// The default log filter: failures, and an unavailable embeddings endpoint, which would otherwise
/// go unnoticed.
const USUAL_LOG: &str = "error,pegboard_llm::embeddings=warn";

pub(crate) fn run(args: &AgentArgs) -> Result<Outcome, CliError> {
    PositionalArgs::reject_extra_words(&args.rest)?;
    let usual = std::env::var_os("PEGBOARD_CONFIG");
    let words = match args.config.is_some() || args.demo {
        true => PositionalArgs::only_prompt(args.first.as_deref(), args.second.as_deref(), args.config.clone())?,
        false => PositionalArgs::split_args(args.first.as_deref(), args.second.as_deref(), usual)?,
    };
    let model = build::model(args)?;
    let source = Source::find(words.config.as_deref(), args.demo);
    if args.format == AgentFormat::Text {
        source.announce();
    }
    let config = build::read_config(&source, args.state.as_deref())?;
    let prompt = prompt(words.prompt, args.format)?;
    let runtime = runtime()?;
    let telemetry = Telemetry::new(&config.telemetry, runtime.handle());
    logging::start(&args.log, USUAL_LOG, telemetry.as_ref().ok())?;
    let telemetry = telemetry.inspect_err(TelemetryOff::log).ok();
    let (person, asked) = TerminalUser::new();
    let name = model.to_string();
    let mode = build::mode(args, config.gateway.profile)?;
    let state = config.state.resolve(args.state.as_deref());
    let learner = usage::keeper(config.usage, state.as_deref(), source.path());
    let servers = config.servers.len();
    let mut builder = build::builder(args, model, mode, config, person, runtime.handle())?;
    if let Some(learner) = learner.clone() {
        builder = builder.learner(learner);
    }
    let mut display: Box<dyn RunDisplay> = match args.format {
        AgentFormat::Text => Box::new(Screen::new(args.show_thinking)),
        AgentFormat::Json => Box::new(JsonLines),
    };
    let found = TerminalModes::read();
    let signals = runtime.block_on(async { Signals::listen(found.clone()) });
    let Some(agent) = runtime.block_on(begin(builder, servers, &signals))? else { return Ok(Outcome::Interrupted) };
    runtime.block_on(check_tools(&agent, mode.0))?;
    let start = runtime.block_on(RunStart::of(&agent, name, mode.1));
    let shown = display.start(&start);
    let keyboard = prompt.is_none().then(|| Keyboard::new(found));
    let mut console =
        AgentConsole { agent, display, asked, signals, prices: args.prices, keyboard, refused: Vec::new() };
    let ended = shown.and_then(|()| match prompt {
        Some(prompt) => runtime.block_on(run_once(prompt, &mut console)),
        None => repl::run(&runtime, &mut console, state.map(|state| state.join("agent-history")).as_deref()),
    });
    let progress = Progress::waiting("stopping the servers");
    runtime.block_on(async {
        console.agent.stop().await;
        if let Some(telemetry) = telemetry {
            telemetry.stop(None).await;
        }
    });
    drop(progress);
    if let Some(learner) = learner {
        learner.finish();
    }
    // A read of the terminal cannot be taken back everywhere; it must not keep us from ending.
    runtime.shutdown_background();
    ended
}

/// Warns about names that match no tool, and fails if there is nothing to search for.
async fn check_tools(agent: &Agent, mode: Mode) -> Result<(), CliError> {
    agent.unmatched_names().await.iter().for_each(|problem| warn(problem));
    for unmatched in agent.unmatched_grants() {
        warn(&format!("`--allow`: {}", clean(&unmatched.to_string())));
    }
    // A server that is away may have the tools.
    let is_complete = agent.failed_servers().is_empty();
    if mode == Mode::ToolSearch && is_complete && !agent.has_deferred_tools().await {
        agent.stop().await;
        return Err(CliError::new("tools is required").hint("configure servers with tools, or choose another `--mode`"));
    }
    Ok(())
}

/// Returns the prompt; `None` if prompts are read from the terminal, line by line.
fn prompt(given: Option<String>, format: AgentFormat) -> Result<Option<String>, CliError> {
    match given {
        Some(prompt) if prompt != "-" => input::check_prompt(prompt).map(Some),
        None if stdin().is_terminal() && format == AgentFormat::Text => Ok(None),
        None if stdin().is_terminal() => Err(CliError::new("`--format json` needs a prompt")
            .hint("pass it as an argument in quotes, or on standard input")),
        _ => input::read_prompt(stdin().lock()).map(Some),
    }
}

/// Starts the servers and begins the conversation; `None` if the user interrupted the wait.
async fn begin(builder: AgentBuilder, servers: usize, signals: &Signals) -> Result<Option<Agent>, CliError> {
    let progress = Progress::waiting(&format!("starting {}", pluralize(servers, "server")));
    let mut listening = signals.begin();
    let built = tokio::select! {
        built = builder.build() => Some(built),
        _ = listening.wait_for_stop() => None,
    };
    drop(progress);
    built.transpose().map_err(|error| build::explain_build_error(&error))
}

/// Runs one prompt, and ends.
async fn run_once(prompt: String, console: &mut AgentConsole) -> Result<Outcome, CliError> {
    let ended = console.run_prompt(prompt).await?;
    if !console.refused.is_empty() {
        let grants = console.refused.join(",");
        CliError::new(format!("calls were not made because they were not approved: {}", console.refused.join(", ")))
            .hint(format!("`--allow {grants}` approves these calls, `--yes` approves all"))
            .print();
    }
    match ended {
        PromptOutcome::Answered(answer) => Ok(match answer.stop {
            wire::Stop::Refusal | wire::Stop::Length => Outcome::No,
            _ if !console.refused.is_empty() => Outcome::No,
            _ => Outcome::Yes,
        }),
        PromptOutcome::Failed(error @ RunError::Limit(_)) => {
            failure(&error).print();
            Ok(Outcome::No)
        }
        PromptOutcome::Failed(error) => Err(failure(&error)),
        PromptOutcome::Stopped(_) => Ok(Outcome::Interrupted),
    }
}

/// Returns the error for a run without an answer.
fn failure(error: &RunError) -> CliError {
    let shown = match error {
        RunError::Turn(cause) => {
            CliError::new("the request to the model failed").because(json_lines::with_causes(cause))
        }
        error => CliError::new(error.to_string()),
    };
    match error {
        RunError::Limit(reached) => shown.hint(option_for(reached)),
        error => match error.hint() {
            Some(hint) => shown.hint(hint),
            None => shown,
        },
    }
}

/// Returns the option that raises a limit.
fn option_for(reached: &LimitReached) -> &'static str {
    match reached {
        LimitReached::Turns(_) => "`--max-turns` raises the limit; in a conversation, another message continues",
        LimitReached::Tokens { .. } => "`--max-tokens` raises the limit; a new conversation starts from zero",
        LimitReached::Cost { .. } => "`--max-cost` raises the limit; a new conversation starts from zero",
        _ => "raise the limit, or start a new conversation",
    }
}
