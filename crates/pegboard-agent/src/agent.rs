//! The agent itself.

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
    builder::AgentBuilder,
    call_runner::Hands,
    commands::ToolApi,
    conversation_state::{SaveError, Talk, Writer},
    custom::Registry,
    events::Event,
    final_answer::FinalAnswer,
    settings::{Limits, Mode, Prices},
};

/// A turn to come.
pub type Speaking<'a> = Pin<Box<dyn Future<Output = Result<Turn, TurnError>> + Send + 'a>>;

/// Whoever carries a conversation to its model. [`Client`] does it over HTTP.
pub trait ModelClient: Send + Sync + 'static {
    /// The next turn, its pieces told as they come. It is put into the conversation.
    fn next_turn<'a>(
        &'a self,
        conversation: &'a mut Conversation,
        tell: &'a mut (dyn FnMut(Delta) + Send),
    ) -> Speaking<'a>;
}

impl ModelClient for Client {
    fn next_turn<'a>(
        &'a self,
        conversation: &'a mut Conversation,
        tell: &'a mut (dyn FnMut(Delta) + Send),
    ) -> Speaking<'a> {
        Box::pin(Self::next_turn(self, conversation, Some(tell)))
    }
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What the model said last.
    pub text: String,
    /// What it handed over, where a tool was meant to take its answer.
    pub output: Option<Value>,
    /// Why it stopped.
    pub stop: Stop,
    /// The turns that it took.
    pub turns: u32,
    /// What they cost, as the provider counts.
    pub usage: Usage,
    /// The same in money, where prices are known.
    pub cost: Option<f64>,
}

impl Answer {
    /// The answer as a `T`, for agents built with [`AgentBuilder::output`].
    ///
    /// # Errors
    /// When the model gave none, or it does not fit.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.output.clone().unwrap_or_default())
    }
}

/// A limit that a run has reached.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Reached {
    /// The turns of one run.
    #[error("{0} {noun} in this run", noun = if *.0 == 1 { "turn" } else { "turns" })]
    Turns(u32),
    /// The tokens of all runs.
    #[error("{spent} of {most} tokens used")]
    Tokens {
        /// What was spent.
        spent: u64,
        /// What may be.
        most: u64,
    },
    /// The cost of all runs.
    #[error("cost of {spent}, limit {most}")]
    Cost {
        /// What was spent.
        spent: f64,
        /// What may be.
        most: f64,
    },
}

/// Why a run has no answer. The conversation is as good as before, and can go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The model could not be asked.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// A limit was reached.
    #[error("limit reached: {0}")]
    Limit(Reached),
    /// Somebody took it back.
    #[error("the run was cancelled")]
    Cancelled,
    /// It failed in a way that nobody foresaw.
    #[error("the run failed unexpectedly")]
    Broken,
}

impl RunError {
    /// What can be done about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Limit(Reached::Turns(_)) => Some("send another message to continue, or raise the limit on turns"),
            Self::Limit(_) => Some("raise the limit, or start a new conversation"),
            Self::Turn(TurnError::Send(SendError::Refused { status: 401 | 403, .. })) => Some(
                "check the variable with the API key of the provider, such as `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`",
            ),
            Self::Turn(TurnError::Send(SendError::Refused { status: 404, .. })) => {
                Some("check the name of the model, and the base URL if one is set")
            }
            _ => None,
        }
    }
}

/// An agent: one conversation with a model, and the tools that can be found in it. Clones are
/// the same agent.
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
    pub(crate) talk: Mutex<Talk>,
    pub(crate) client: Arc<dyn ModelClient>,
    pub(crate) hands: Arc<Hands>,
    pub(crate) limits: Limits,
    pub(crate) prices: Option<Prices>,
    pub(crate) mode: Mode,
    pub(crate) reason: String,
    /// A delivery that was asked for and has no effect in this mode.
    pub(crate) unused_delivery: Option<Delivery>,
    pub(crate) transcript: Option<Arc<Writer>>,
    /// Whoever learns from what is called after a search.
    pub(crate) learner: Option<Arc<dyn Learner>>,
    /// What is known without waiting for a run.
    pub(crate) glance: RwLock<Glance>,
    /// The tool that takes the answer, if one was asked for.
    pub(crate) final_answer: Option<FinalAnswer>,
    /// Serves the tools to commands, in code execution mode.
    pub(crate) api: OnceLock<ToolApi>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("mode", &self.mode).field("hands", &self.hands).finish_non_exhaustive()
    }
}

/// What can be told of a conversation while a run goes on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Glance {
    visible: Vec<String>,
    tools: usize,
    spent: Usage,
}

impl Shared {
    /// Takes note of what the conversation looks like.
    pub(crate) fn look(&self, talk: &Talk) {
        let session = talk.conversation.session();
        let tools = session.selection().count(session.catalog());
        let glance = Glance { visible: session.visible_names(), tools, spent: talk.spent };
        *self.glance.write().unwrap_or_else(PoisonError::into_inner) = glance;
    }

    /// What the conversation looks like: now, or at the last step of the run that goes on.
    fn glance(&self) -> Glance {
        if let Ok(mut talk) = self.talk.try_lock() {
            self.refresh(&mut talk);
        }
        self.glance.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Where events go.
pub(crate) type Tell = mpsc::UnboundedSender<Event>;

impl Agent {
    /// Begins an agent that talks to this model.
    pub fn builder(model: Model) -> AgentBuilder {
        AgentBuilder::new(model)
    }

    /// Says something to the model and lets it work until it has an answer. Dropping the
    /// future cancels it; the conversation can go on afterwards.
    ///
    /// # Errors
    /// When the model cannot be asked or a limit is reached.
    pub async fn run(&self, prompt: impl Into<String>) -> Result<Answer, RunError> {
        // Nobody listens.
        let (tell, _) = mpsc::unbounded_channel();
        self.shared.run(prompt.into(), &tell).await
    }

    /// [`run`](Self::run), with what happens told as it happens.
    pub fn stream(&self, prompt: impl Into<String>) -> Run {
        let (tell, events) = mpsc::unbounded_channel();
        let (shared, prompt) = (Arc::clone(&self.shared), prompt.into());
        let task = tokio::spawn(async move { shared.run(prompt, &tell).await });
        Run { events, task: Some(task) }
    }

    /// The tools of the host program; more can be registered at any time.
    pub fn registry(&self) -> &Registry {
        &self.shared.hands.registry
    }

    /// The servers.
    pub fn fleet(&self) -> &Fleet {
        &self.shared.hands.fleet
    }

    /// The servers that do not work, each with what is known about it.
    pub fn failures(&self) -> Vec<(String, String)> {
        let servers = self.fleet().servers();
        let failed = servers.iter().filter_map(|server| match server.state() {
            ServerState::Failed { reason, .. } => Some((server.name().to_owned(), reason)),
            ServerState::Starting => Some((server.name().to_owned(), "it is still starting".to_owned())),
            _ => None,
        });
        failed.collect()
    }

    /// How the model gets at its tools, and why so.
    pub fn mode(&self) -> (Mode, &str) {
        (self.shared.mode, &self.shared.reason)
    }

    /// How the model is told of tools, and why so. Waits for a run that is going on.
    pub async fn delivery(&self) -> Choice {
        self.shared.talk.lock().await.conversation.choice().clone()
    }

    /// Returns what confines commands, in code execution mode.
    #[cfg(feature = "code-execution")]
    pub fn sandbox(&self) -> Option<&crate::shell::Sandbox> {
        self.shared.hands.commands.get().map(|commands| commands.sandbox())
    }

    /// The names of the tools that the model sees. During a run: at its last step.
    pub fn visible(&self) -> Vec<String> {
        self.shared.glance().visible
    }

    /// Whether there are tools that are hidden until they are searched for. Waits for a run that is
    /// going on.
    pub async fn has_deferred_tools(&self) -> bool {
        self.shared.talk.lock().await.conversation.session().has_deferred_tools()
    }

    /// What is wrong with the names of pre-discovered tools and with the patterns of selected ones:
    /// each that means no tool, with the nearest names. Waits for a run that is going on.
    pub async fn unmatched_names(&self) -> Vec<String> {
        self.shared.talk.lock().await.conversation.session().unmatched_names()
    }

    /// The names of allowed calls ([`AgentBuilder::grants`]) that meant no tool when the agent started.
    pub fn unmatched_grants(&self) -> Vec<String> {
        self.shared.hands.grants.unmatched()
    }

    /// How many tools may be found in all.
    pub fn tool_count(&self) -> usize {
        self.shared.glance().tools
    }

    /// What all runs together cost, as the provider counts, and in money where prices are
    /// known. During a run: up to its last step.
    pub fn spent(&self) -> (Usage, Option<f64>) {
        let spent = self.shared.glance().spent;
        (spent, self.shared.prices.map(|prices| prices.cost(spent)))
    }

    /// The conversation as a value that [`AgentBuilder::resume`] takes. Waits for a run that
    /// is going on, so a tool must not call it.
    pub async fn save(&self) -> Value {
        let mut talk = self.shared.talk.lock().await;
        talk.settle();
        talk.to_json(self.shared.mode)
    }

    /// Writes the conversation to the transcript file, where there is one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn write_transcript(&self) -> Result<(), SaveError> {
        let mut talk = self.shared.talk.lock().await;
        talk.settle();
        self.shared.write(&talk).await
    }

    /// Lets the model sum the conversation up, and goes on from there. What was found stays
    /// found. Waits for a run that is going on.
    ///
    /// # Errors
    /// When the model cannot be asked; the conversation is then as before. It also stays as it
    /// was where the model gives no summary.
    pub async fn compact(&self) -> Result<(), RunError> {
        let mut talk = self.shared.talk.lock().await;
        talk.settle();
        self.shared.compact(&mut talk, false).await?;
        self.shared.look(&talk);
        Ok(())
    }

    /// What was said, in the form of the model's provider. Waits for a run that is going on.
    pub async fn history(&self) -> Vec<Value> {
        let mut talk = self.shared.talk.lock().await;
        talk.settle();
        talk.conversation.marked_history()
    }

    /// Goes on from another history: one that the host program has compacted itself.
    pub async fn replace_history(&self, messages: Vec<Value>) {
        let mut talk = self.shared.talk.lock().await;
        talk.settle();
        talk.conversation.resume(messages);
    }

    /// Ends the servers, and waits until their processes are gone. Also a dropped agent ends
    /// them, without waiting.
    pub async fn stop(&self) {
        self.fleet().stop().await;
    }
}

/// A run that is going on. Dropping it cancels it.
#[derive(Debug)]
pub struct Run {
    events: mpsc::UnboundedReceiver<Event>,
    task: Option<JoinHandle<Result<Answer, RunError>>>,
}

impl Run {
    /// What happens next; `None` when it is over.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Takes it back. Calls that are running are given up, and their servers told.
    pub fn cancel(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }

    /// What it came to.
    ///
    /// # Errors
    /// When the model cannot be asked, a limit is reached, or it was cancelled.
    pub async fn answer(mut self) -> Result<Answer, RunError> {
        match self.task.take() {
            Some(task) => match task.await {
                Ok(ended) => ended,
                Err(error) if error.is_panic() => Err(RunError::Broken),
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
