//! Output of a run for people: the model's text on standard output, the rest on standard error.

use std::{
    collections::HashMap,
    io::{IsTerminal, Write, stdout},
};

use anstyle::{AnsiColor, Style};
use pegboard_agent::{AgentEvent, RunAnswer, RunError};
use pegboard_llm::{Delivery, wire::Stop};
use serde_json::Value;

use super::{
    activity::{Activity, ActivityLine},
    amounts::{RunCost, size, time},
    display::{ResumedConversation, RunDisplay, RunStart},
    markdown::Markdown,
    questions::UserQuestion,
    terminal,
};
use crate::{
    error::{CliError, say, warn},
    output::{self, FAINT, pluralize},
    terminal_text::{Cleaner, clean, one_line},
};

const CALL: Style = AnsiColor::Cyan.on_default().bold();
const NAME: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ALARM: Style = AnsiColor::Red.on_default().bold();

/// Maximum number of lines of a result.
const MAX_LINES: usize = 3;

/// Maximum number of lines of the last answer when a conversation is resumed.
const MAX_RESUMED: usize = 20;

/// Maximum number of listed tool names.
const MAX_NAMES: usize = 8;

/// The content of the current line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    /// Nothing; the line is new.
    #[default]
    New,
    /// The model's text, on standard output.
    Words,
    /// The model's thinking, on standard error.
    Thoughts,
}

/// Prints a run for people.
#[derive(Debug)]
pub(super) struct Screen {
    /// Whether text is shown as it arrives; the reader of a pipe wants the answer alone.
    is_streamed: bool,
    shows_thinking: bool,
    line: Line,
    words: Cleaner,
    markdown: Markdown,
    thoughts: Cleaner,
    /// The display names of running calls.
    calls: HashMap<String, String>,
    /// The call whose line is the last one.
    latest: Option<String>,
    visible: Vec<String>,
    /// Whether the hint on allowing calls was printed.
    has_advised: bool,
    activity: ActivityLine,
}

impl Screen {
    pub(super) fn new(shows_thinking: bool) -> Self {
        Self {
            is_streamed: stdout().is_terminal(),
            shows_thinking,
            line: Line::New,
            words: Cleaner::default(),
            markdown: Markdown::new(output::width()),
            thoughts: Cleaner::default(),
            calls: HashMap::new(),
            latest: None,
            visible: Vec::new(),
            has_advised: false,
            activity: ActivityLine::default(),
        }
    }

    /// Ends the current line.
    fn break_line(&mut self) -> Result<(), CliError> {
        self.activity.hide();
        match std::mem::take(&mut self.line) {
            Line::Thoughts => {
                say("");
                Ok(())
            }
            Line::New => Ok(()),
            Line::Words => output::text(&self.markdown.finish()),
        }
    }

    /// Prints a text on a line of its own.
    fn print_line(&mut self, text: &str) -> Result<(), CliError> {
        self.break_line()?;
        say(text);
        Ok(())
    }

    fn words(&mut self, piece: &str) -> Result<(), CliError> {
        let piece = self.words.clean(piece);
        if !self.is_streamed || piece.is_empty() {
            return Ok(());
        }
        self.activity.hide();
        if self.line == Line::Thoughts {
            self.break_line()?;
        }
        self.latest = None;
        self.line = Line::Words;
        output::text(&self.markdown.push(&piece))
    }

    fn thoughts(&mut self, piece: &str) -> Result<(), CliError> {
        let piece = self.thoughts.clean(piece);
        if !self.shows_thinking || piece.is_empty() {
            return Ok(());
        }
        self.activity.hide();
        if self.line != Line::Thoughts {
            self.break_line()?;
        }
        self.latest = None;
        // A failure to write cannot be reported anywhere.
        let mut out = anstream::stderr();
        let _ = write!(out, "{FAINT}{piece}{FAINT:#}");
        let _ = out.flush();
        self.line = if piece.ends_with('\n') { Line::New } else { Line::Thoughts };
        Ok(())
    }

    fn call(&mut self, id: String, name: &str, arguments: &Value) -> Result<(), CliError> {
        let room = terminal::width().saturating_sub(2);
        let name = one_line(name, room);
        let room = room.saturating_sub(name.chars().count() + 1);
        let arguments = match arguments {
            Value::Object(fields) if fields.is_empty() => String::new(),
            arguments => format!(" {FAINT}{}{FAINT:#}", one_line(&arguments.to_string(), room)),
        };
        self.print_line(&format!("{CALL}→{CALL:#} {NAME}{name}{NAME:#}{arguments}"))?;
        self.latest = Some(id.clone());
        self.calls.insert(id, name);
        self.activity.begin(calling(&self.calls));
        Ok(())
    }

    fn result(&mut self, id: &str, is_error: bool, outcome: &str) -> Result<(), CliError> {
        // A result right below its call needs no name.
        let is_below = self.latest.take().as_deref() == Some(id);
        let finished = self.calls.remove(id);
        if !self.calls.is_empty() {
            self.activity.begin(calling(&self.calls));
        } else if finished.is_some() {
            self.activity.begin(Activity::Working);
        }
        let name = finished.filter(|_| !is_below).map_or(String::new(), |name| format!("{name} "));
        let outcome = without_name(outcome, &name);
        let (mark, style, words) = if is_error { ('✗', BAD, Style::new()) } else { ('✓', GOOD, FAINT) };
        let outcome = one_line(outcome, terminal::width().saturating_sub(name.chars().count() + 4));
        self.print_line(&format!("  {style}{mark}{style:#} {NAME}{name}{NAME:#}{words}{outcome}{words:#}"))
    }

    /// Shows the first lines of a result, on a terminal.
    fn show_beginning(&mut self, text: &str) -> Result<(), CliError> {
        if !self.is_streamed {
            return Ok(());
        }
        let room = terminal::width().saturating_sub(4);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        for line in lines.iter().take(MAX_LINES) {
            self.print_line(&format!("    {FAINT}{}{FAINT:#}", one_line(line, room)))?;
        }
        match lines.len().saturating_sub(MAX_LINES) {
            0 => Ok(()),
            more => self.print_line(&format!("    {FAINT}… {}{FAINT:#}", pluralize(more, "more line"))),
        }
    }

    /// Shows the last exchange of a resumed conversation.
    fn show_resumed(&self, resumed: &ResumedConversation) {
        say(&format!("{FAINT}resuming after {}{FAINT:#}", pluralize(resumed.messages, "message")));
        let room = terminal::width().saturating_sub(2);
        if let Some(asked) = &resumed.asked {
            say(&format!("{FAINT}> {}{FAINT:#}", one_line(asked, room)));
        }
        let Some(answered) = resumed.answered.as_ref().map(|answered| clean(answered)) else { return };
        if !self.is_streamed {
            let marked = Markdown::render(&answered, usize::MAX);
            let plain = anstream::adapter::strip_str(&marked).to_string();
            return say(&format!("{FAINT}< {}{FAINT:#}", one_line(&plain, room)));
        }
        let answered = Markdown::render(&answered, output::width());
        let lines: Vec<&str> = answered.lines().collect();
        lines.iter().take(MAX_RESUMED).for_each(|line| say(line));
        if let more @ 1.. = lines.len().saturating_sub(MAX_RESUMED) {
            say(&format!("{FAINT}… {}{FAINT:#}", pluralize(more, "more line")));
        }
    }

    fn tools(&mut self, visible: Vec<String>) -> Result<(), CliError> {
        let before = std::mem::replace(&mut self.visible, visible);
        let come: Vec<&String> = self.visible.iter().filter(|name| !before.contains(name)).collect();
        let gone: Vec<&String> = before.iter().filter(|name| !self.visible.contains(name)).collect();
        let lines =
            [join_names(&come).map(|names| (GOOD, '+', names)), join_names(&gone).map(|names| (BAD, '-', names))];
        for (style, mark, names) in lines.into_iter().flatten() {
            self.print_line(&format!("  {style}{mark}{style:#} {FAINT}{names}{FAINT:#}"))?;
        }
        Ok(())
    }
}

/// Returns the activity while these calls run.
fn calling(calls: &HashMap<String, String>) -> Activity {
    match (calls.len(), calls.values().next()) {
        (1, Some(name)) => Activity::Calling(format!("calling {name}")),
        (running, _) => Activity::Calling(format!("calling {}", pluralize(running, "tool"))),
    }
}

/// Joins names on one line; `None` if there are none.
fn join_names(names: &[&String]) -> Option<String> {
    let listed = names.iter().take(MAX_NAMES).map(|name| clean(name)).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        1..=MAX_NAMES => Some(listed),
        all => Some(format!("{listed} and {} more", all - MAX_NAMES)),
    }
}

impl RunDisplay for Screen {
    fn start(&mut self, start: &RunStart) -> Result<(), CliError> {
        self.visible = start.visible.clone();
        for (server, reason) in &start.failed {
            warn(&format!("server `{server}`: {}", clean(reason)));
        }
        let (servers, tools) = (pluralize(start.servers, "server"), pluralize(start.server_tools, "tool"));
        let (model, mode, reason) = (&start.model, start.mode, &start.reason);
        let dialect = start.dialect.map_or(String::new(), |dialect| format!(" ({dialect})"));
        say(&format!("{FAINT}{model}, {tools} of {servers}; {mode}{dialect}: {reason}{FAINT:#}"));
        match &start.sandbox {
            Some((text, true)) => say(&format!("{FAINT}{}{FAINT:#}", clean(text))),
            Some((text, false)) => warn(&format!("{ALARM}{}{ALARM:#}", clean(text))),
            None => {}
        }
        if let Some(resumed) = &start.resumed {
            self.show_resumed(resumed);
        }
        Ok(())
    }

    fn event(&mut self, event: AgentEvent) -> Result<(), CliError> {
        match event {
            AgentEvent::TurnStarted => {
                self.activity.begin(Activity::Waiting);
                Ok(())
            }
            AgentEvent::CompactionStarted => {
                self.activity.begin(Activity::Summarizing);
                Ok(())
            }
            AgentEvent::Retry(retry) => {
                self.activity.retry(retry);
                Ok(())
            }
            AgentEvent::Text(piece) => {
                self.activity.begin(Activity::Writing);
                self.words(&piece)
            }
            AgentEvent::Thinking(piece) => {
                self.activity.begin(Activity::Thinking);
                self.thoughts(&piece)
            }
            AgentEvent::CallStarted { id, name, target, server, arguments } => {
                let name = target.unwrap_or(name);
                let full = server.map_or_else(|| name.clone(), |server| format!("{server}___{name}"));
                self.call(id, &full, &arguments)
            }
            AgentEvent::CallFinished { id, text, is_error, offloaded, took, .. } => {
                let outcome = if is_error { text.clone() } else { format!("{}, {}", time(took), size(text.len())) };
                self.result(&id, is_error, &outcome)?;
                if !is_error {
                    self.show_beginning(&text)?;
                }
                match offloaded {
                    Some(file) => self.print_line(&format!("  {GOOD}⇩{GOOD:#} {FAINT}in {}{FAINT:#}", file.display())),
                    None => Ok(()),
                }
            }
            // A list that never changes is what people expect.
            AgentEvent::Delivery { delivery: Delivery::Constant, .. } => Ok(()),
            AgentEvent::Delivery { delivery, reason } => {
                self.print_line(&format!("{FAINT}delivery {delivery}: {}{FAINT:#}", clean(&reason)))
            }
            AgentEvent::ToolsChanged { visible } => self.tools(visible),
            AgentEvent::Turn { .. } => {
                self.activity.begin(Activity::Working);
                self.break_line()?;
                // Unfinished control sequences of one turn must not swallow the next.
                (self.words, self.thoughts) = (Cleaner::default(), Cleaner::default());
                // The terminal may have another width now.
                self.markdown = Markdown::new(output::width());
                Ok(())
            }
            AgentEvent::Compacted => self.print_line(&format!("{FAINT}the conversation was summarized{FAINT:#}")),
            AgentEvent::Warning(text) => {
                self.break_line()?;
                warn(&clean(&text));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn show_activity(&mut self) {
        // Never behind text of the model.
        if self.line == Line::New {
            self.activity.show();
        }
    }

    fn hide_activity(&mut self) {
        self.activity.hide();
    }

    fn question(&mut self, ask: &UserQuestion) -> Result<(), CliError> {
        self.break_line()?;
        self.activity.restart();
        self.latest = None;
        let mut out = anstream::stderr();
        let _ = write!(out, "{}", ask.text());
        let _ = out.flush();
        Ok(())
    }

    fn show_refused(&mut self, _tool: &str) -> Result<(), CliError> {
        self.break_line()?;
        if !std::mem::replace(&mut self.has_advised, true) {
            warn(
                "no terminal to ask on: calls that need your approval are rejected; `--yes` approves all of them, \
                 `--approve` sets which calls need approval",
            );
        }
        Ok(())
    }

    fn end(&mut self, ended: Option<Result<&RunAnswer, &RunError>>, spent: &RunCost) -> Result<(), CliError> {
        self.break_line()?;
        if let Some(Ok(answer)) = ended {
            if !self.is_streamed && !answer.text.is_empty() {
                let end = if answer.text.ends_with('\n') { "" } else { "\n" };
                output::raw(format!("{}{end}", answer.text).as_bytes())?;
            }
            match &answer.stop {
                Stop::Refusal => warn("the model refused to continue"),
                Stop::Length => warn("the answer is incomplete: the model reached its token limit"),
                Stop::Other(other) => warn(&format!("the model stopped: {}", clean(other))),
                _ => {}
            }
        }
        match ended {
            None => self.print_line(&format!("{FAINT}cancelled; {}{FAINT:#}", spent.text())),
            // Nothing was spent.
            Some(Err(_)) if spent.turns == 0 => Ok(()),
            Some(_) => self.print_line(&format!("{FAINT}{}{FAINT:#}", spent.text())),
        }
    }
}
/// Removes the tool's name from the beginning of `outcome` if `shown`, the name in front of it,
/// says it already.
fn without_name<'a>(outcome: &'a str, shown: &str) -> &'a str {
    let quoted = outcome.strip_prefix('`').and_then(|rest| rest.split_once("` "));
    match quoted {
        Some((name, rest)) if !name.is_empty() && shown.trim_end().ends_with(name) => rest,
        _ => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_names_its_tool_once() {
        let check = |outcome: &str, shown: &str, expected: &str| assert_eq!(without_name(outcome, shown), expected);
        check("`delete_file` was not called: no", "files___delete_file ", "was not called: no");
        check("`delete_file` was not called: no", "", "`delete_file` was not called: no");
        check("`other` was not called: no", "files___delete_file ", "`other` was not called: no");
        check("` ` is empty", "x ", "` ` is empty");
    }
}
