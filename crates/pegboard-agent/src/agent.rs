//! The agent: its public methods, and the answers and errors of its runs.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use pegboard_discovery::Learner;
use pegboard_llm::{
    Choice, Client, Conversation, Delivery, Model, SendError, TurnError,
    wire::{Delta, Stop, Turn, Usage},
};
use pegboard_upstream::{Fleet, State as ServerState};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{
    sync::{Mutex, mpsc},
    task::JoinHandle,
};

use crate::{
    approval::UnmatchedGrant,
    builder::AgentBuilder,
    call_runner::CallRunner,
    commands::ToolApi,
    conversation_state::{ConversationState, SaveError, TranscriptWriter},
    custom::Registry,
    events::AgentEvent,
    final_answer::FinalAnswer,
    settings::{Mode, Prices, RunLimits},
};

/// The future of a turn of the model.
pub type TurnFuture<'a> = Pin<Box<dyn Future<Output = Result<Turn, TurnError>> + Send + 'a>>;

/// Sends a conversation to its model. [`Client`] does so over HTTP.
pub trait ModelClient: Send + Sync + 'static {
    /// Requests the next turn and adds it to the conversation. `on_delta` is called with every
    /// streamed piece.
    fn next_turn<'a>(
        &'a self,
        conversation: &'a mut Conversation,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> TurnFuture<'a>;
}

impl ModelClient for Client {
    fn next_turn<'a>(
        &'a self,
        conversation: &'a mut Conversation,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> TurnFuture<'a> {
        Box::pin(Self::next_turn(self, conversation, Some(on_delta)))
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunAnswer {
    /// The last text of the model.
    pub text: String,
    /// The structured answer, if the agent was built with [`AgentBuilder::output`].
    pub output: Option<Value>,
    /// Why the model stopped.
    pub stop: Stop,
    /// Number of turns in this run.
    pub turns: u32,
    /// Token usage of these turns, as reported by the provider.
    pub usage: Usage,
    /// Cost of these turns, if prices are known.
    pub cost: Option<f64>,
}

impl RunAnswer {
    /// Deserializes the structured answer, for agents built with [`AgentBuilder::output`].
    ///
    /// # Errors
    /// If the model gave no structured answer, or it does not match `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.output.clone().unwrap_or_default())
    }
}

/// A limit that a run has reached.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitReached {
    /// Maximum number of turns in one run.
    #[error("{0} {noun} in this run", noun = if *.0 == 1 { "turn" } else { "turns" })]
    Turns(u32),
    /// Maximum number of tokens of all runs.
    #[error("{spent} of {most} tokens used")]
    Tokens {
        /// Tokens used so far.
        spent: u64,
        /// The limit.
        most: u64,
    },
    /// Maximum cost of all runs.
    #[error("cost of {spent}, limit {most}")]
    Cost {
        /// Cost so far.
        spent: f64,
        /// The limit.
        most: f64,
    },
}

/// Why a run ended without an answer. The conversation stays valid and can be continued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The request to the model failed.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// A limit was reached.
    #[error("limit reached: {0}")]
    Limit(LimitReached),
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The task of the run panicked.
    #[error("the run failed unexpectedly")]
    Panicked,
}

impl RunError {
    /// Returns what the user can do about the error, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Limit(LimitReached::Turns(_)) => {
                Some("send another message to continue, or raise the limit on turns")
            }
            Self::Limit(_) => Some("raise the limit, or start a new conversation"),
            Self::Turn(TurnError::Send(SendError::Refused { status: 401 | 403, .. })) => Some(
                "check the variable with the API key of the provider, such as `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`",
            ),
            Self::Turn(TurnError::Send(SendError::Refused { status: 404, .. })) => {
                Some("check the name of the model, and the base URL if one is set")
            }
            Self::Turn(TurnError::Send(SendError::Unreachable { .. })) => {
                Some("check the base URL if one is set, and the network")
            }
            _ => None,
        }
    }
}

/// An agent: one conversation with a model, and its tools. Clones share the conversation.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use pegboard_agent::{Agent, Model, ToolSearch};
///
/// let agent = Agent::builder(Model::parse("anthropic/claude-haiku-4-5")?)
///     .mcp_config("mcp.json")
///     .tool_search(ToolSearch::default())
///     .pre_discovered(["get_weather"])
///     .build()
///     .await?;
/// let answer = agent.run("Get the weather in Tokyo").await?;
/// assert!(!answer.text.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Agent {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) state: Mutex<ConversationState>,
    pub(crate) client: Arc<dyn ModelClient>,
    pub(crate) runner: Arc<CallRunner>,
    pub(crate) limits: RunLimits,
    pub(crate) prices: Option<Prices>,
    pub(crate) mode: Mode,
    pub(crate) reason: String,
    /// A requested delivery that has no effect in this mode.
    pub(crate) unused_delivery: Option<Delivery>,
    pub(crate) transcript: Option<Arc<TranscriptWriter>>,
    /// Learns from the calls after a search.
    pub(crate) learner: Option<Arc<dyn Learner>>,
    /// The status of the conversation, readable without waiting for a run.
    pub(crate) snapshot: RwLock<StatusSnapshot>,
    /// The tool that receives the structured answer, if one was requested.
    pub(crate) final_answer: Option<FinalAnswer>,
    /// Serves the tools to commands, in code execution mode.
    pub(crate) api: OnceLock<ToolApi>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("mode", &self.mode).field("hands", &self.runner).finish_non_exhaustive()
    }
}

/// The status of a conversation, as far as it is visible during a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusSnapshot {
    visible: Vec<String>,
    tools: usize,
    spent: Usage,
}

impl Shared {
    /// Updates the snapshot from the conversation.
    pub(crate) fn update_snapshot(&self, state: &ConversationState) {
        let session = state.conversation.session();
        let tools = session.selection().count(session.catalog());
        let snapshot = StatusSnapshot { visible: session.visible_names(), tools, spent: state.spent };
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    /// Returns the snapshot: current, or as of the last step of the run in progress.
    fn snapshot(&self) -> StatusSnapshot {
        if let Ok(mut state) = self.state.try_lock() {
            self.refresh(&mut state);
        }
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sends events to the stream of a run.
pub(crate) type EventSender = mpsc::UnboundedSender<AgentEvent>;

impl Agent {
    /// Creates a builder of an agent for this model.
    pub fn builder(model: Model) -> AgentBuilder {
        AgentBuilder::new(model)
    }

    /// Sends a prompt to the model and runs tool calls until there is an answer. Dropping the
    /// future cancels the run; the conversation can be continued afterwards.
    ///
    /// # Errors
    /// If a request to the model fails or a limit is reached.
    pub async fn run(&self, prompt: impl Into<String>) -> Result<RunAnswer, RunError> {
        // No receiver: events are discarded.
        let (sender, _) = mpsc::unbounded_channel();
        self.shared.run(prompt.into(), &sender).await
    }

    /// Starts a [`run`](Self::run) that reports events while it works.
    pub fn stream(&self, prompt: impl Into<String>) -> Run {
        let (sender, events) = mpsc::unbounded_channel();
        let (shared, prompt) = (Arc::clone(&self.shared), prompt.into());
        let task = tokio::spawn(async move { shared.run(prompt, &sender).await });
        Run { events, task: Some(task) }
    }

    /// Returns the registry of the host program's tools; tools can be added at any time.
    pub fn registry(&self) -> &Registry {
        &self.shared.runner.registry
    }

    /// Returns the MCP servers.
    pub fn fleet(&self) -> &Fleet {
        &self.shared.runner.fleet
    }

    /// Returns the servers that are not ready, each with the reason.
    pub fn failed_servers(&self) -> Vec<(String, String)> {
        let servers = self.fleet().servers();
        let failed = servers.iter().filter_map(|server| match server.state() {
            ServerState::Failed { reason, .. } => Some((server.name().to_owned(), reason)),
            ServerState::Starting => Some((server.name().to_owned(), "it is still starting".to_owned())),
            _ => None,
        });
        failed.collect()
    }

    /// Returns how the model reaches its tools, and why this mode was chosen.
    pub fn mode(&self) -> (Mode, &str) {
        (self.shared.mode, &self.shared.reason)
    }

    /// Returns how found tools are delivered to the model, and why. Waits for a run in progress.
    pub async fn delivery(&self) -> Choice {
        self.shared.state.lock().await.conversation.choice().clone()
    }

    /// Returns the sandbox of commands, in code execution mode.
    #[cfg(feature = "code-execution")]
    pub fn sandbox(&self) -> Option<&crate::shell::Sandbox> {
        self.shared.runner.commands.get().map(|commands| commands.sandbox())
    }

    /// Returns the names of the visible tools; during a run, as of its last step.
    pub fn visible_tools(&self) -> Vec<String> {
        self.shared.snapshot().visible
    }

    /// Returns whether some tools are hidden until they are searched for. Waits for a run in
    /// progress.
    pub async fn has_deferred_tools(&self) -> bool {
        self.shared.state.lock().await.conversation.session().has_deferred_tools()
    }

    /// Returns a message for each name of a pre-discovered tool and each pattern of selected tools
    /// that matches no tool, with similar names. Waits for a run in progress.
    pub async fn unmatched_names(&self) -> Vec<String> {
        self.shared.state.lock().await.conversation.session().unmatched_names()
    }

    /// Returns the names of allowed calls ([`AgentBuilder::grants`]) that matched no tool when the
    /// agent started, with similar names.
    pub fn unmatched_grants(&self) -> Vec<UnmatchedGrant> {
        self.shared.runner.grants.unmatched()
    }

    /// Returns the number of tools that can be found.
    pub fn tool_count(&self) -> usize {
        self.shared.snapshot().tools
    }

    /// Returns the token usage of all runs, and its cost if prices are known. During a run: as of
    /// its last step.
    pub fn total_usage(&self) -> (Usage, Option<f64>) {
        let spent = self.shared.snapshot().spent;
        (spent, self.shared.prices.map(|prices| prices.cost(spent)))
    }

    /// Serializes the conversation for [`AgentBuilder::resume`]. Waits for a run in progress, so a
    /// tool must not call it.
    pub async fn save(&self) -> Value {
        let mut state = self.shared.state.lock().await;
        state.repair_interrupted();
        state.to_json(self.shared.mode)
    }

    /// Writes the conversation to the transcript file, if there is one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub async fn write_transcript(&self) -> Result<(), SaveError> {
        let mut state = self.shared.state.lock().await;
        state.repair_interrupted();
        self.shared.write_transcript(&state).await
    }

    /// Replaces the conversation by a summary that the model writes. Found tools stay loaded. Waits
    /// for a run in progress.
    ///
    /// # Errors
    /// If the request to the model fails; the conversation is then unchanged. It is also unchanged
    /// if the model returns no summary.
    pub async fn compact(&self) -> Result<(), RunError> {
        let mut state = self.shared.state.lock().await;
        state.repair_interrupted();
        self.shared.compact(&mut state, false, &mut |_| {}).await?;
        self.shared.update_snapshot(&state);
        Ok(())
    }

    /// Returns the messages in the provider's format. Waits for a run in progress.
    pub async fn history(&self) -> Vec<Value> {
        let mut state = self.shared.state.lock().await;
        state.repair_interrupted();
        state.conversation.marked_history()
    }

    /// Replaces the messages, for example by a history that the host program has compacted.
    pub async fn replace_history(&self, messages: Vec<Value>) {
        let mut state = self.shared.state.lock().await;
        state.repair_interrupted();
        state.conversation.resume(messages);
    }

    /// Stops the servers and waits until their processes have ended. Dropping the agent stops them
    /// without waiting.
    pub async fn stop(&self) {
        self.fleet().stop().await;
    }
}

/// A run in progress. Dropping it cancels the run.
#[derive(Debug)]
pub struct Run {
    events: mpsc::UnboundedReceiver<AgentEvent>,
    task: Option<JoinHandle<Result<RunAnswer, RunError>>>,
}

impl Run {
    /// Waits for the next event; `None` when the run has ended.
    pub async fn next(&mut self) -> Option<AgentEvent> {
        self.events.recv().await
    }

    /// Cancels the run. Calls in progress are dropped, and their servers are notified.
    pub fn cancel(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }

    /// Waits for the end of the run and returns its answer.
    ///
    /// # Errors
    /// If a request to the model fails, a limit is reached, or the run was cancelled.
    pub async fn answer(mut self) -> Result<RunAnswer, RunError> {
        match self.task.take() {
            Some(task) => match task.await {
                Ok(ended) => ended,
                Err(error) if error.is_panic() => Err(RunError::Panicked),
                Err(_) => Err(RunError::Cancelled),
            },
            None => Err(RunError::Cancelled),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
