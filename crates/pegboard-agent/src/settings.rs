//! The settings of an agent.

use std::{fmt, sync::Arc, time::Duration};

use pegboard_core::Ranker;
use pegboard_discovery::{DialectName, Exposure, Settings};
use pegboard_engine::{Hybrid, ranker_by_name};
use pegboard_llm::{Delivery, wire::Usage};

/// How the model reaches its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All tools are visible.
    Normal,
    /// The model searches for tools.
    ToolSearch,
    /// The tools are an HTTP API for commands that the model writes.
    CodeExecution,
    /// [`ToolSearch`](Self::ToolSearch) if the tools are many or large, else
    /// [`Normal`](Self::Normal). Decided when the agent is built.
    Auto,
}

impl Mode {
    /// Returns the name in the configuration and in messages.
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

/// Settings of tool search: any dialect with any ranker.
#[derive(Clone, Debug, Default)]
pub struct ToolSearch {
    /// The dialect: a family of meta-tools.
    pub dialect: DialectName,
    /// The ranker; `None` uses that of the dialect. The `gateway` dialect's own ranker is in a
    /// separate crate; without it, `gateway` uses `hybrid`.
    pub ranker: Option<Arc<dyn Ranker>>,
    /// The options of the dialects.
    pub settings: Settings,
    /// How found tools are delivered to the model; `None` uses the best delivery that the model
    /// supports.
    pub delivery: Option<Delivery>,
    /// When [`Mode::Auto`] switches search on.
    pub exposure: Exposure,
    /// The categories in the prompt, instead of those of the catalog.
    pub categories: Vec<String>,
}

impl ToolSearch {
    /// Creates settings with this dialect.
    pub fn with_dialect(dialect: DialectName) -> Self {
        Self { dialect, ..Self::default() }
    }

    /// Returns the ranker; `Err` with the name of the dialect's ranker if there is no such ranker.
    pub(crate) fn ranker(&self) -> Result<Arc<dyn Ranker>, &'static str> {
        if let Some(ranker) = &self.ranker {
            return Ok(Arc::clone(ranker));
        }
        match self.dialect.dialect().default_ranker() {
            // It is in a crate that this one does not depend on.
            "bm25" => Ok(Arc::new(Hybrid::default())),
            name => ranker_by_name(name, self.settings.token_bonus).ok_or(name),
        }
    }
}

/// The limits of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLimits {
    /// Maximum number of turns in one run.
    pub turns: u32,
    /// Maximum number of calls that run concurrently.
    pub parallel_calls: usize,
    /// Timeout of a call.
    pub tool_time: Duration,
    /// Maximum number of tokens, input and output, of all runs.
    pub tokens: Option<u64>,
    /// Maximum cost of all runs, in the currency of the [`Prices`].
    pub cost: Option<f64>,
    /// Maximum number of output tokens in a turn.
    pub turn_tokens: Option<u64>,
    /// Number of tokens of a request above which the conversation is compacted before the next one.
    pub context_tokens: Option<u64>,
    /// Maximum number of tokens (estimated) of a result in the conversation; a larger one that is
    /// not offloaded is an error.
    pub result_tokens: usize,
    /// Maximum size of a tool's output in bytes; a larger one is an error.
    pub output_bytes: usize,
    /// How long building an agent waits for its servers.
    pub startup: Duration,
}

impl Default for RunLimits {
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

/// The prices of a model, per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Input tokens.
    pub input: f64,
    /// Input tokens that are read from the cache.
    pub cached: f64,
    /// Output tokens.
    pub output: f64,
}

impl Prices {
    /// Returns the cost of this usage.
    pub fn cost(&self, usage: Usage) -> f64 {
        let fresh = usage.input.saturating_sub(usage.cached);
        (fresh as f64 * self.input + usage.cached as f64 * self.cached + usage.output as f64 * self.output) / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_has_a_ranker() {
        for dialect in DialectName::ALL.into_iter().chain([DialectName::Code]) {
            let own = dialect.dialect().default_ranker();
            let expected = if own == "bm25" { "hybrid" } else { own };
            let ranker = ToolSearch::with_dialect(dialect).ranker();
            assert_eq!(ranker.map(|ranker| ranker.name()), Ok(expected));
        }
    }
}
