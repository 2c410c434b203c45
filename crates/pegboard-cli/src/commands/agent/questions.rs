//! Questions to the user at the terminal. The display prints them, so that they appear below what
//! led to them and nothing is drawn over them.

use pegboard_agent::{ApprovalDecision, CallRequest, Human, HumanFuture, Question};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::{
    output::{FAINT, STRONG, pluralize},
    terminal_text::{clean, cut, show_controls},
};

/// Maximum number of queued questions; further ones wait.
const WAITING: usize = 16;

/// Maximum number of lines of a call's arguments.
const MAX_LINES: usize = 60;

/// Maximum width of such a line.
const MAX_COLUMNS: usize = 1000;

/// Maximum length of a question or an option.
const MAX_QUESTION: usize = 4000;

/// The reason for the model if the user cannot be asked.
const NO_TERMINAL: &str = "it needs your approval, and there is no terminal to ask on";

/// A question, and the channel for the answer.
pub(super) enum UserQuestion {
    /// A call that needs approval.
    Approve(CallRequest, oneshot::Sender<ApprovalDecision>),
    /// A question of the model.
    Answer(Question, oneshot::Sender<Option<String>>),
}

impl UserQuestion {
    /// Returns whether the answer is no longer needed.
    pub(super) fn is_obsolete(&self) -> bool {
        match self {
            Self::Approve(_, reply) => reply.is_closed(),
            Self::Answer(_, reply) => reply.is_closed(),
        }
    }

    /// Waits until the answer is no longer needed.
    pub(super) async fn wait_until_obsolete(&mut self) {
        match self {
            Self::Approve(_, reply) => reply.closed().await,
            Self::Answer(_, reply) => reply.closed().await,
        }
    }

    /// Returns whether it is a request for approval, for which keys typed before do not count.
    pub(super) fn is_consent(&self) -> bool {
        matches!(self, Self::Approve(..))
    }

    /// Returns the text to print; the cursor stays after it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Approve(request, _) => {
                let tool = show_controls(&full_name(request));
                format!(
                    "{STRONG}?{STRONG:#} allow {STRONG}{tool}{STRONG:#} with\n{}  [y]es  [a]lways  [n]o  [?], \
                     or a reason to decline: ",
                    arguments(&request.arguments)
                )
            }
            Self::Answer(question, _) => {
                let mut text = format!("{STRONG}?{STRONG:#} {}\n", cut(&clean(&question.text), MAX_QUESTION));
                for (at, option) in question.options.iter().enumerate() {
                    text.push_str(&format!("  {STRONG}{}{STRONG:#} {}\n", at + 1, cut(&clean(option), MAX_QUESTION)));
                }
                text.push_str("  > ");
                text
            }
        }
    }

    /// Answers with the typed line; `None` if no line can be read.
    pub(super) fn answer_with(self, typed: Option<&str>) {
        // The receiver may be gone already.
        match self {
            Self::Approve(_, reply) => _ = reply.send(verdict(typed)),
            Self::Answer(question, reply) => _ = reply.send(answer(&question, typed)),
        }
    }

    /// Answers without a user; returns the tool that needed approval, and the name that allows it.
    pub(super) fn refuse(self) -> Option<(String, String)> {
        match self {
            Self::Approve(request, reply) => {
                let _ = reply.send(ApprovalDecision::Deny(NO_TERMINAL.to_owned()));
                let grant = full_name(&request);
                Some((request.tool, grant))
            }
            Self::Answer(_, reply) => {
                let _ = reply.send(None);
                None
            }
        }
    }
}

/// Returns the name of a tool with its server.
fn full_name(request: &CallRequest) -> String {
    match &request.server {
        Some(server) => format!("{server}___{}", request.tool),
        None => request.tool.clone(),
    }
}

fn verdict(typed: Option<&str>) -> ApprovalDecision {
    let Some(typed) = typed else { return ApprovalDecision::Deny("the user did not answer".to_owned()) };
    match typed.trim().to_lowercase().as_str() {
        "y" | "yes" | "ok" | "okay" => ApprovalDecision::Allow,
        "a" | "always" => ApprovalDecision::AllowAlways,
        "" | "n" | "no" => ApprovalDecision::Deny("the user declined".to_owned()),
        _ => ApprovalDecision::Deny(format!("the user declined: {}", typed.trim())),
    }
}

/// Returns the answer; a number selects the option with that number.
fn answer(question: &Question, typed: Option<&str>) -> Option<String> {
    let typed = typed.map(str::trim).filter(|typed| !typed.is_empty())?;
    let option = typed.parse::<usize>().ok().and_then(|number| question.options.get(number.checked_sub(1)?));
    Some(option.map_or_else(|| typed.to_owned(), String::clone))
}

/// Formats arguments, one per line; multi-line texts unchanged, so that a program can be read.
fn arguments(arguments: &Value) -> String {
    let mut lines = Vec::new();
    match arguments.as_object() {
        Some(fields) if fields.is_empty() => lines.push("no arguments".to_owned()),
        Some(fields) => fields.iter().for_each(|(key, value)| describe(key, value, &mut lines)),
        None => lines.push(arguments.to_string()),
    }
    let is_cut = |line: &String| line.chars().count() > MAX_COLUMNS;
    let hidden = lines.len().saturating_sub(MAX_LINES);
    let is_partial = hidden > 0 || lines.iter().any(is_cut);
    let shown = lines.iter().take(MAX_LINES).map(|line| format!("    {}\n", cut(&show_controls(line), MAX_COLUMNS)));
    let mut text: String = shown.collect();
    if is_partial {
        let size = arguments.to_string().len();
        let what = if hidden > 0 { pluralize(hidden, "more line") } else { "the rest of long lines".to_owned() };
        text.push_str(&format!("    {FAINT}… {what} not shown, {size} bytes in total{FAINT:#}\n"));
    }
    text
}

fn describe(key: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::String(text) if text.contains('\n') => {
            lines.push(format!("{key}:"));
            lines.extend(text.split('\n').map(|line| format!("  {line}")));
        }
        Value::Object(_) | Value::Array(_) => {
            let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
            let mut pretty = pretty.lines().map(str::to_owned);
            lines.push(format!("{key}: {}", pretty.next().unwrap_or_default()));
            lines.extend(pretty);
        }
        value => lines.push(format!("{key}: {value}")),
    }
}

/// The user at the terminal, as the agent sees them.
pub(super) struct TerminalUser {
    asks: mpsc::Sender<UserQuestion>,
}

impl TerminalUser {
    /// Returns the user, and the queue of questions.
    pub(super) fn new() -> (Self, mpsc::Receiver<UserQuestion>) {
        let (asks, asked) = mpsc::channel(WAITING);
        (Self { asks }, asked)
    }
}

impl Human for TerminalUser {
    fn answer(&self, question: Question) -> HumanFuture<'_, Option<String>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.asks.send(UserQuestion::Answer(question, reply)).await.ok()?;
            answer.await.ok().flatten()
        })
    }

    fn approve(&self, request: CallRequest) -> HumanFuture<'_, ApprovalDecision> {
        Box::pin(async move {
            let (reply, verdict) = oneshot::channel();
            // A user who is gone does not consent.
            match self.asks.send(UserQuestion::Approve(request, reply)).await {
                Ok(()) => verdict.await.unwrap_or_else(|_| ApprovalDecision::Deny(NO_TERMINAL.to_owned())),
                Err(_) => ApprovalDecision::Deny(NO_TERMINAL.to_owned()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_typed_decides() {
        let check = |typed: Option<&str>, expected: ApprovalDecision| assert_eq!(verdict(typed), expected, "{typed:?}");
        check(Some("y\n"), ApprovalDecision::Allow);
        check(Some(" Yes "), ApprovalDecision::Allow);
        check(Some("OK\n"), ApprovalDecision::Allow);
        check(Some("a\n"), ApprovalDecision::AllowAlways);
        check(Some("Always"), ApprovalDecision::AllowAlways);
        check(Some("No\n"), ApprovalDecision::Deny("the user declined".to_owned()));
        check(Some("n"), ApprovalDecision::Deny("the user declined".to_owned()));
        check(Some("\n"), ApprovalDecision::Deny("the user declined".to_owned()));
        check(
            Some("Use the test account\n"),
            ApprovalDecision::Deny("the user declined: Use the test account".to_owned()),
        );
        check(None, ApprovalDecision::Deny("the user did not answer".to_owned()));
    }

    #[test]
    fn numbers_stand_for_options() {
        let options = ["red".to_owned(), "blue".to_owned()].to_vec();
        let question = Question { tool: "ask_human".to_owned(), text: "Which?".to_owned(), options };
        let check = |typed: Option<&str>, expected: Option<&str>| {
            assert_eq!(answer(&question, typed).as_deref(), expected, "{typed:?}");
        };
        check(Some("2\n"), Some("blue"));
        check(Some("3"), Some("3"));
        check(Some("0"), Some("0"));
        check(Some("green "), Some("green"));
        check(Some("\n"), None);
        check(None, None);
    }

    #[test]
    fn arguments_can_be_read() {
        let check = |given: Value, expected: &str| assert_eq!(arguments(&given), expected);
        check(json!({}), "    no arguments\n");
        check(json!({"path": "/a\u{1b}[2K", "n": 1}), "    path: \"/a\\u001b[2K\"\n    n: 1\n");
        check(json!({"command": "cd /tmp\nls\r"}), "    command:\n      cd /tmp\n      ls\\u{d}\n");
        check(json!({"a\n  b": 1}), "    a\\u{a}  b: 1\n");
        check(json!({"to": ["a", "b"]}), "    to: [\n      \"a\",\n      \"b\"\n    ]\n");
        let long = arguments(&json!({"text": "x\n".repeat(500)}));
        assert_eq!(long.lines().count(), MAX_LINES + 1);
        assert!(long.contains("442 more lines"), "{long}");
        let wide = arguments(&json!({"text": "x".repeat(5000)}));
        assert!(wide.contains("the rest of long lines not shown"), "{wide}");
    }
}
