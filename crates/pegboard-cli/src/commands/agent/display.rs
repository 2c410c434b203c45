//! What of a run gets to be seen, whoever looks.

use pegboard_agent::{Agent, AgentEvent, DialectName, Mode, RunAnswer, RunError};
use pegboard_upstream::State;

use serde_json::Value;

use super::{amounts::Spent, questions::Ask};
use crate::error::CliError;

/// What there is before anything was said.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) model: String,
    /// Tools that can be called or found, with those of the agent itself.
    pub(super) tools: usize,
    /// Tools of the servers.
    pub(super) server_tools: usize,
    /// Servers that work.
    pub(super) servers: usize,
    /// Servers that do not, and why.
    pub(super) failed: Vec<(String, String)>,
    pub(super) mode: Mode,
    /// The family of meta-tools, where tools are searched for.
    pub(super) dialect: Option<&'static str>,
    /// Why this mode.
    pub(super) reason: String,
    /// What contains commands, where there are some; and whether anything does.
    pub(super) sandbox: Option<(String, bool)>,
    /// The conversation that goes on, if one does.
    pub(super) resumed: Option<Resumed>,
    /// The tools that the model sees.
    pub(super) visible: Vec<String>,
}

/// What was said before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resumed {
    pub(super) messages: usize,
    /// What the person said last.
    pub(super) asked: Option<String>,
    /// What the model said last.
    pub(super) answered: Option<String>,
}

impl Resumed {
    /// The end of a history; none where the model has not said anything yet.
    fn of(history: &[Value]) -> Option<Self> {
        let last = |is_model: bool| history.iter().rev().find_map(|message| words_of(message, is_model));
        let has_begun = history.iter().any(is_of_model);
        has_begun.then(|| Self { messages: history.len(), asked: last(false), answered: last(true) })
    }
}

/// Whether a message is the model's, in any provider's form.
fn is_of_model(message: &Value) -> bool {
    matches!(message["role"].as_str(), Some("assistant" | "model"))
        || matches!(message["type"].as_str(), Some("function_call" | "reasoning" | "tool_search_call"))
}

/// The words of a message of the model or of the person, in any provider's form.
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

impl Start {
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
            resumed: Resumed::of(&agent.history().await),
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

/// Whoever shows a run: to a person, or to a program.
pub(super) trait Show {
    /// What there is.
    fn start(&mut self, start: &Start) -> Result<(), CliError>;

    /// What happened.
    fn event(&mut self, event: AgentEvent) -> Result<(), CliError>;

    /// What is asked; the cursor stays behind it.
    fn question(&mut self, ask: &Ask) -> Result<(), CliError>;

    /// A call was refused because nobody can be asked.
    fn refused(&mut self, tool: &str) -> Result<(), CliError>;

    /// What it came to. Without anything when it was stopped.
    fn end(&mut self, ended: Option<Result<&RunAnswer, &RunError>>, spent: &Spent) -> Result<(), CliError>;
}
