//! The display of a run: its start, events and end.

use pegboard_agent::{Agent, AgentEvent, DialectName, Mode, RunAnswer, RunError};
use pegboard_upstream::State;

use serde_json::Value;

use super::{amounts::RunCost, questions::UserQuestion};
use crate::error::CliError;

/// The state before the first prompt.
#[derive(Clone, Debug)]
pub(super) struct RunStart {
    pub(super) model: String,
    /// Number of tools that can be called or found, including the agent's own.
    pub(super) tools: usize,
    /// Number of tools of the servers.
    pub(super) server_tools: usize,
    /// Number of servers that are ready.
    pub(super) servers: usize,
    /// Servers that failed, with the reason.
    pub(super) failed: Vec<(String, String)>,
    pub(super) mode: Mode,
    /// The dialect, if tools are searched for.
    pub(super) dialect: Option<&'static str>,
    /// The reason for this mode.
    pub(super) reason: String,
    /// The name of the sandbox for commands, if there are some, and whether it contains them.
    pub(super) sandbox: Option<(String, bool)>,
    /// The resumed conversation, if there is one.
    pub(super) resumed: Option<ResumedConversation>,
    /// The tools that the model sees.
    pub(super) visible: Vec<String>,
}

/// The last exchange of a resumed conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResumedConversation {
    pub(super) messages: usize,
    /// The user's last prompt.
    pub(super) asked: Option<String>,
    /// The model's last answer.
    pub(super) answered: Option<String>,
}

impl ResumedConversation {
    /// Returns the end of a history; `None` if it has no text of the model.
    fn of(history: &[Value]) -> Option<Self> {
        let last = |is_model: bool| history.iter().rev().find_map(|message| words_of(message, is_model));
        let has_begun = history.iter().any(is_of_model);
        has_begun.then(|| Self { messages: history.len(), asked: last(false), answered: last(true) })
    }
}

/// Returns whether a message is the model's, in any provider's format.
fn is_of_model(message: &Value) -> bool {
    matches!(message["role"].as_str(), Some("assistant" | "model"))
        || matches!(message["type"].as_str(), Some("function_call" | "reasoning" | "tool_search_call"))
}

/// Returns the text of a message of the model or of the user, in any provider's format.
fn words_of(message: &Value, is_model: bool) -> Option<String> {
    let is_meant = if is_model { is_of_model(message) } else { message["role"] == "user" };
    let content = ["content", "parts"].iter().find_map(|key| message.get(key)).filter(|_| is_meant)?;
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join(" ")
        }
        _ => String::new(),
    };
    (!text.trim().is_empty()).then_some(text)
}

impl RunStart {
    pub(super) async fn of(agent: &Agent, model: String, dialect: DialectName) -> Self {
        let (mode, reason) = agent.mode();
        let is_ready = |server: &&std::sync::Arc<pegboard_upstream::Upstream>| server.state() == State::Ready;
        Self {
            model,
            tools: agent.tool_count(),
            server_tools: agent.fleet().servers().iter().map(|server| server.lists().tools.len()).sum(),
            servers: agent.fleet().servers().iter().filter(is_ready).count(),
            failed: agent.failed_servers(),
            mode,
            dialect: (mode == Mode::ToolSearch).then(|| dialect.as_str()),
            reason: reason.to_owned(),
            sandbox: sandbox_of(agent),
            resumed: ResumedConversation::of(&agent.history().await),
            visible: agent.visible_tools(),
        }
    }
}

/// Returns the name of the sandbox for commands, and whether it contains them.
#[cfg(feature = "code-execution")]
fn sandbox_of(agent: &Agent) -> Option<(String, bool)> {
    use pegboard_agent::shell::Sandbox;
    agent.sandbox().map(|sandbox| (sandbox.to_string(), !matches!(sandbox, Sandbox::None { .. })))
}

#[cfg(not(feature = "code-execution"))]
fn sandbox_of(_agent: &Agent) -> Option<(String, bool)> {
    None
}

/// Displays a run: for a user, or for a program.
pub(super) trait RunDisplay {
    /// Shows the state before the first prompt.
    fn start(&mut self, start: &RunStart) -> Result<(), CliError>;

    /// Shows an event.
    fn event(&mut self, event: AgentEvent) -> Result<(), CliError>;

    /// Shows for how long the agent has been doing what it does. Called several times a second
    /// while a run waits; the user is not asked meanwhile.
    fn show_activity(&mut self) {}

    /// Removes what [`show_activity`](Self::show_activity) showed.
    fn hide_activity(&mut self) {}

    /// Shows a question; the cursor stays after it.
    fn question(&mut self, ask: &UserQuestion) -> Result<(), CliError>;

    /// Shows that a call was refused because the user cannot be asked.
    fn show_refused(&mut self, tool: &str) -> Result<(), CliError>;

    /// Shows the result; `None` if the run was stopped.
    fn end(&mut self, ended: Option<Result<&RunAnswer, &RunError>>, spent: &RunCost) -> Result<(), CliError>;
}
