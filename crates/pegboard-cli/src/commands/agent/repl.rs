//! A conversation at the terminal, line by line.

use std::path::Path;

use pegboard_agent::RunError;
use rustyline::{
    Behavior, Config, Context, Editor, Helper, completion::Completer, error::ReadlineError, highlight::Highlighter,
    hint::Hinter, history::DefaultHistory, validate::Validator,
};
use tokio::runtime::Runtime;

use super::{
    amounts::{cost, tokens},
    console::{AgentConsole, PromptOutcome},
    failure,
    signals::Stop,
    terminal::{Keyboard, TypedText},
};
use crate::{
    Outcome,
    error::{CliError, say, warn},
    output::{FAINT, STRONG},
    progress::Progress,
    terminal_text::clean,
};

const HELP: &str = "\
your input goes to the model, except for these commands:
/tools     list the tools that the model sees
/cost      show the tokens and the cost so far
/compact   replace the conversation by a summary of it
/help      show this help
/quit      end the conversation, like Ctrl-D
Ctrl-C     stop the model; twice at the prompt: end
text that you type while the model works waits for the next prompt";

const COMMANDS: [&str; 5] = ["/tools", "/cost", "/compact", "/help", "/quit"];

/// Completes commands.
struct CommandCompleter;

impl Completer for CommandCompleter {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..at];
        let fits = |command: &&&str| typed.starts_with('/') && command.starts_with(typed);
        Ok((0, COMMANDS.iter().filter(fits).map(|command| (*command).to_owned()).collect()))
    }
}

impl Hinter for CommandCompleter {
    type Hint = String;
}
impl Highlighter for CommandCompleter {}
impl Validator for CommandCompleter {}
impl Helper for CommandCompleter {}

/// Whether to read another line.
enum ReplStep {
    Line,
    End(Outcome),
}

fn failed(error: ReadlineError) -> CliError {
    CliError::new("cannot read the terminal").because(error)
}

/// Reads prompts until the user ends the conversation. Prompts are saved in the file `history`, if
/// there is one.
pub(super) fn run(runtime: &Runtime, console: &mut AgentConsole, history: Option<&Path>) -> Result<Outcome, CliError> {
    // The terminal, wherever standard output goes.
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    let mut editor: Editor<CommandCompleter, DefaultHistory> = Editor::with_config(config).map_err(failed)?;
    editor.set_helper(Some(CommandCompleter));
    if let Some(history) = history {
        // The first time there is none.
        let _ = editor.load_history(history);
    }
    let ended = read_lines(runtime, console, &mut editor);
    if let Some(history) = history
        && let Err(error) = save_history(&mut editor, history)
    {
        tracing::debug!(%error, "prompt history not saved");
    }
    ended
}

/// Writes the prompts to a file that only its owner can read.
fn save_history(editor: &mut Editor<CommandCompleter, DefaultHistory>, file: &Path) -> Result<(), ReadlineError> {
    if let Some(folder) = file.parent() {
        pegboard_state::platform::make_folder_private(folder)?;
    }
    editor.save_history(file)
}

fn read_lines(
    runtime: &Runtime,
    console: &mut AgentConsole,
    editor: &mut Editor<CommandCompleter, DefaultHistory>,
) -> Result<Outcome, CliError> {
    let mut is_interrupted = false;
    say(&format!("{FAINT}type `/help` for the commands{FAINT:#}"));
    loop {
        let typed = console.keyboard.as_mut().map_or(TypedText::Start(String::new()), Keyboard::take_typed);
        let line = match typed {
            TypedText::Line(line) => {
                say(&format!("> {line}"));
                Ok(line)
            }
            TypedText::Start(text) => editor.readline_with_initial("> ", (&text, "")),
        };
        let line = match line {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) if !is_interrupted => {
                is_interrupted = true;
                say(&format!("{FAINT}press Ctrl-C again to end{FAINT:#}"));
                continue;
            }
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(Outcome::Yes),
            Err(error) => return Err(failed(error)),
        };
        is_interrupted = false;
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        // A full history is not a reason to stop.
        let _ = editor.add_history_entry(line);
        let hidden = console.keyboard.as_ref().map(Keyboard::hide);
        let next = runtime.block_on(take(line, console))?;
        drop(hidden);
        if let ReplStep::End(outcome) = next {
            return Ok(outcome);
        }
    }
}

async fn take(line: &str, console: &mut AgentConsole) -> Result<ReplStep, CliError> {
    match line {
        "/quit" | "/exit" => return Ok(ReplStep::End(Outcome::Yes)),
        "/help" => say(HELP),
        "/tools" => {
            let visible = console.agent.visible_tools();
            visible.iter().for_each(|name| say(&format!("{STRONG}{}{STRONG:#}", clean(name))));
            say(&format!("{FAINT}{} visible of {}{FAINT:#}", visible.len(), console.agent.tool_count()));
        }
        "/cost" => {
            let (usage, spent) = console.agent.total_usage();
            say(&format!("{FAINT}{}, {}{FAINT:#}", tokens(usage), cost(spent)));
        }
        "/compact" => return compact(console).await,
        line if line.starts_with('/') && !line.contains([' ', '\n']) => {
            warn(&format!("unknown command `{}`; `/help` lists the commands", clean(line)));
        }
        prompt => {
            return Ok(match console.run_prompt(prompt.to_owned()).await? {
                PromptOutcome::Stopped(Stop::Terminate) => ReplStep::End(Outcome::Interrupted),
                PromptOutcome::Failed(error) => report_failure(&error),
                PromptOutcome::Answered(_) | PromptOutcome::Stopped(Stop::Interrupt) => ReplStep::Line,
            });
        }
    }
    Ok(ReplStep::Line)
}

async fn compact(console: &mut AgentConsole) -> Result<ReplStep, CliError> {
    let mut listening = console.signals.begin();
    let progress = Progress::waiting("summarizing the conversation");
    Ok(tokio::select! {
        compacted = console.agent.compact() => match compacted {
            Ok(()) => {
                drop(progress);
                say(&format!("{FAINT}the conversation was summarized{FAINT:#}"));
                ReplStep::Line
            }
            Err(error) => {
                drop(progress);
                report_failure(&error)
            }
        },
        stop = listening.wait_for_stop() => match stop {
            Stop::Interrupt => ReplStep::Line,
            Stop::Terminate => ReplStep::End(Outcome::Interrupted),
        },
    })
}

/// Prints why a run failed; the conversation continues.
fn report_failure(error: &RunError) -> ReplStep {
    failure(error).print();
    ReplStep::Line
}
