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
    console::{Ended, Talk},
    failure,
    signals::Stop,
    terminal::{Keyboard, Typed},
};
use crate::{
    Outcome,
    error::{CliError, say, warn},
    output::{FAINT, STRONG},
    terminal_text::clean,
};

const HELP: &str = "\
your input goes to the model, except for these commands:
/tools     list the tools that the model sees
/cost      show the cost of the conversation so far
/compact   summarize the conversation to continue with a shorter one
/help      show this help
/quit      end the conversation, like Ctrl-D
Ctrl-C     stop the model; press it twice at the prompt to end
text that you type while the model works waits for the next prompt";

const COMMANDS: [&str; 5] = ["/tools", "/cost", "/compact", "/help", "/quit"];

/// Completes commands.
struct Commands;

impl Completer for Commands {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..at];
        let fits = |command: &&&str| typed.starts_with('/') && command.starts_with(typed);
        Ok((0, COMMANDS.iter().filter(fits).map(|command| (*command).to_owned()).collect()))
    }
}

impl Hinter for Commands {
    type Hint = String;
}
impl Highlighter for Commands {}
impl Validator for Commands {}
impl Helper for Commands {}

/// Whether to read another line.
enum Next {
    Line,
    End(Outcome),
}

fn failed(error: ReadlineError) -> CliError {
    CliError::new("cannot read the terminal").because(error)
}

/// Reads prompts until the user ends the conversation. Prompts are saved in the file `history`, if
/// there is one.
pub(super) fn run(runtime: &Runtime, talk: &mut Talk, history: Option<&Path>) -> Result<Outcome, CliError> {
    // The terminal, wherever standard output goes.
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    let mut editor: Editor<Commands, DefaultHistory> = Editor::with_config(config).map_err(failed)?;
    editor.set_helper(Some(Commands));
    if let Some(history) = history {
        // The first time there is none.
        let _ = editor.load_history(history);
    }
    let ended = read_lines(runtime, talk, &mut editor);
    if let Some(history) = history
        && let Err(error) = save_history(&mut editor, history)
    {
        tracing::debug!(%error, "prompt history not saved");
    }
    ended
}

/// Writes the prompts to a file that only its owner can read.
fn save_history(editor: &mut Editor<Commands, DefaultHistory>, file: &Path) -> Result<(), ReadlineError> {
    if let Some(folder) = file.parent() {
        pegboard_state::platform::make_folder_private(folder)?;
    }
    editor.save_history(file)
}

fn read_lines(
    runtime: &Runtime,
    talk: &mut Talk,
    editor: &mut Editor<Commands, DefaultHistory>,
) -> Result<Outcome, CliError> {
    let mut is_interrupted = false;
    say(&format!("{FAINT}type `/help` for the commands{FAINT:#}"));
    loop {
        let typed = talk.keyboard.as_mut().map_or(Typed::Start(String::new()), Keyboard::take_typed);
        let line = match typed {
            Typed::Line(line) => {
                say(&format!("> {line}"));
                Ok(line)
            }
            Typed::Start(text) => editor.readline_with_initial("> ", (&text, "")),
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
        let hidden = talk.keyboard.as_ref().map(Keyboard::hide);
        let next = runtime.block_on(take(line, talk))?;
        drop(hidden);
        if let Next::End(outcome) = next {
            return Ok(outcome);
        }
    }
}

async fn take(line: &str, talk: &mut Talk) -> Result<Next, CliError> {
    match line {
        "/quit" | "/exit" => return Ok(Next::End(Outcome::Yes)),
        "/help" => say(HELP),
        "/tools" => {
            let visible = talk.agent.visible_tools();
            visible.iter().for_each(|name| say(&format!("{STRONG}{}{STRONG:#}", clean(name))));
            say(&format!("{FAINT}{} visible of {}{FAINT:#}", visible.len(), talk.agent.tool_count()));
        }
        "/cost" => {
            let (usage, spent) = talk.agent.total_usage();
            say(&format!("{FAINT}{}, {}{FAINT:#}", tokens(usage), cost(spent)));
        }
        "/compact" => return compact(talk).await,
        line if line.starts_with('/') && !line.contains([' ', '\n']) => {
            warn(&format!("unknown command `{}`; `/help` lists the commands", clean(line)));
        }
        prompt => {
            return Ok(match talk.say(prompt.to_owned()).await? {
                Ended::Stopped(Stop::Terminate) => Next::End(Outcome::Interrupted),
                Ended::Failed(error) => told(&error),
                Ended::Answered(_) | Ended::Stopped(Stop::Interrupt) => Next::Line,
            });
        }
    }
    Ok(Next::Line)
}

async fn compact(talk: &mut Talk) -> Result<Next, CliError> {
    let mut listening = talk.signals.begin();
    Ok(tokio::select! {
        compacted = talk.agent.compact() => match compacted {
            Ok(()) => {
                say(&format!("{FAINT}the conversation was summarized{FAINT:#}"));
                Next::Line
            }
            Err(error) => told(&error),
        },
        stop = listening.stopped() => match stop {
            Stop::Interrupt => Next::Line,
            Stop::Terminate => Next::End(Outcome::Interrupted),
        },
    })
}

/// Prints why a run failed; the conversation continues.
fn told(error: &RunError) -> Next {
    failure(error).print();
    Next::Line
}
