//! What of a run gets to be seen, whoever looks.

use pegboard_agent::{Agent, Answer, DialectName, Event, Mode, RunError};
use pegboard_upstream::State;

use super::{amounts::Spent, people::Ask};
use crate::error::CliError;

/// What there is before anything was said.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) model: String,
    /// Tools that can be called or found.
    pub(super) tools: usize,
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
    /// Messages of a conversation that goes on.
    pub(super) resumed: usize,
    /// The tools that the model sees.
    pub(super) visible: Vec<String>,
}

impl Start {
    pub(super) async fn of(agent: &Agent, model: String, dialect: DialectName) -> Self {
        let (mode, reason) = agent.mode();
        let is_ready = |server: &&std::sync::Arc<pegboard_upstream::Upstream>| server.state() == State::Ready;
        let is_contained =
            |sandbox: &pegboard_agent::shell::Sandbox| !matches!(sandbox, pegboard_agent::shell::Sandbox::None { .. });
        Self {
            model,
            tools: agent.tool_count(),
            servers: agent.fleet().servers().iter().filter(is_ready).count(),
            failed: agent.failures(),
            mode,
            dialect: (mode == Mode::ToolSearch).then(|| dialect.as_str()),
            reason: reason.to_owned(),
            sandbox: agent.sandbox().map(|sandbox| (sandbox.to_string(), is_contained(sandbox))),
            resumed: agent.history().await.len(),
            visible: agent.visible(),
        }
    }
}

/// Whoever shows a run: to a person, or to a program.
pub(super) trait Show {
    /// What there is.
    fn start(&mut self, start: &Start) -> Result<(), CliError>;

    /// What happened.
    fn event(&mut self, event: Event) -> Result<(), CliError>;

    /// What is asked; the cursor stays behind it.
    fn question(&mut self, ask: &Ask) -> Result<(), CliError>;

    /// A call was refused because nobody can be asked.
    fn refused(&mut self, tool: &str) -> Result<(), CliError>;

    /// What it came to. Without anything when it was stopped.
    fn end(&mut self, ended: Option<Result<&Answer, &RunError>>, spent: &Spent) -> Result<(), CliError>;
}
