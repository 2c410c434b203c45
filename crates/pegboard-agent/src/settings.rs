//! What can be set of an agent.

use std::{fmt, sync::Arc, time::Duration};

use pegboard_core::Ranker;
use pegboard_discovery::{DialectName, Exposure, Settings};
use pegboard_engine::{Hinted, Hybrid, Keyword, RegexRanker, Sequence};
use pegboard_llm::{Delivery, wire::Usage};

/// How the model gets at its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All of them are visible.
    Normal,
    /// They are found by searching.
    ToolSearch,
    /// They are an HTTP API for the commands that the model writes.
    CodeExecution,
    /// [`ToolSearch`](Self::ToolSearch) when there are many or they cost much, else
    /// [`Normal`](Self::Normal). Decided when the agent is built.
    Auto,
}

impl Mode {
    /// The name that people use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::ToolSearch => "tool-search",
            Self::CodeExecution => "code-execution",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How tools are searched for: any dialect on any ranker.
#[derive(Clone, Debug, Default)]
pub struct ToolSearch {
    /// The family of meta-tools.
    pub dialect: DialectName,
    /// How to rank; `None`: as the dialect's document says. The `gateway` dialect has its own
    /// ranker in a crate of its own, and ranks with `hybrid` here unless it is given.
    pub ranker: Option<Arc<dyn Ranker>>,
    /// The options of the dialects.
    pub settings: Settings,
    /// How the model is told of what was found; `None`: the best way that it knows.
    pub delivery: Option<Delivery>,
    /// When [`Mode::Auto`] switches search on.
    pub exposure: Exposure,
    /// What the prompt says there is, instead of what the catalog tells.
    pub categories: Vec<String>,
}

impl ToolSearch {
    /// Search with this family of meta-tools.
    pub fn with_dialect(dialect: DialectName) -> Self {
        Self { dialect, ..Self::default() }
    }

    /// The ranker to use.
    pub(crate) fn ranker(&self) -> Arc<dyn Ranker> {
        if let Some(ranker) = &self.ranker {
            return Arc::clone(ranker);
        }
        match self.dialect.dialect().default_ranker() {
            "regex" => Arc::new(RegexRanker::default()),
            "keyword" => Arc::new(Keyword::default()),
            "sequence" => Arc::new(Sequence::new(self.settings.token_bonus)),
            "hinted" => Arc::new(Hinted::default()),
            _ => Arc::new(Hybrid::default()),
        }
    }
}

/// How far a run may go.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Turns of the model in one run.
    pub turns: u32,
    /// Calls of tools that run at a time.
    pub parallel_calls: usize,
    /// How long a call of a tool may take.
    pub tool_time: Duration,
    /// Tokens, read and written, that all runs together may take.
    pub tokens: Option<u64>,
    /// What all runs together may cost, in the currency of the [`Prices`].
    pub cost: Option<f64>,
    /// Tokens that the model may write in a turn.
    pub turn_tokens: Option<u64>,
    /// Tokens of a request beyond which the conversation is compacted before the next one.
    pub context_tokens: Option<u64>,
    /// Tokens (estimated) of a result that the model is shown; one that is larger and not
    /// offloaded is an error.
    pub result_tokens: usize,
    /// Bytes of a tool's output; what is more is an error.
    pub output_bytes: usize,
    /// How long building an agent waits for its servers.
    pub startup: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turns: 100,
            parallel_calls: 8,
            tool_time: Duration::from_secs(300),
            tokens: None,
            cost: None,
            turn_tokens: None,
            context_tokens: None,
            result_tokens: 100_000,
            output_bytes: 256 << 20,
            startup: Duration::from_secs(60),
        }
    }
}

/// What a model costs, for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Tokens that it reads.
    pub input: f64,
    /// Tokens that it has read before and finds in its cache.
    pub cached: f64,
    /// Tokens that it writes.
    pub output: f64,
}

impl Prices {
    /// What this came to.
    pub fn cost(&self, usage: Usage) -> f64 {
        let fresh = usage.input.saturating_sub(usage.cached);
        (fresh as f64 * self.input + usage.cached as f64 * self.cached + usage.output as f64 * self.output) / 1e6
    }
}
