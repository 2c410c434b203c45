//! The options of the dialects, under their documented names.

use serde_json::Value;

use crate::{arguments::Validation, host::results::READ_RESULT};

/// What a gateway search does with the tools that were exposed before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposed {
    /// Shows its hits instead.
    #[default]
    Replace,
    /// Shows its hits as well.
    Accumulate,
}

/// Where the hits of a search go in `gateway` and `ranked`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hits {
    /// Where the dialect's document says: `gateway` lists its hits, `ranked` only names them.
    #[default]
    AsDocumented,
    /// Into the list, for hosts whose clients call only tools that are listed.
    Listed,
    /// Into the answer, with signatures: `call_tool` calls them, and the list never changes.
    Callable,
}

/// How a gateway chooses the tools that it exposes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectionOrder {
    /// Servers in the order of the configuration.
    ServerPriority,
    /// By name.
    Alphabetical,
    /// In an order that only the seed determines.
    Random,
}

/// Options of all dialects; each uses its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `gateway`: whether tools are hidden behind a search at all.
    pub enabled: bool,
    /// `gateway`: tools exposed at once; 0 exposes everything and offers no search.
    pub max_tools_limit: usize,
    /// `gateway`: whether the search answers also where everything is exposed anyway.
    pub always_searchable: bool,
    /// `gateway`: what a hit must score as a share of the best, 0 to 1.
    pub search_threshold: f64,
    /// `gateway`: the first order is primary, the others break ties.
    pub tool_selection_order: Vec<SelectionOrder>,
    /// `gateway`: what becomes of the tools exposed before.
    pub exposed: Exposed,
    /// `gateway`: the seed of the random order.
    pub seed: u64,
    /// `ranked`: the most hits that may be asked for.
    pub max_limit: usize,
    /// `ranked`: hits when the caller does not say.
    pub default_limit: usize,
    /// `ranked`: what each literal hit adds to a tool's score.
    pub token_bonus: f64,
    /// `gateway`, `ranked`: where hits go. Not an option of the dialect: the host decides.
    pub hits: Hits,
    /// `bridge`: separate call tools for reading, writing and destroying.
    pub split_by_risk: bool,
    /// `bridge`: hits of one query.
    pub hits_per_query: usize,
    /// `bridge`: how likely the best hit must be for hits to be shown, 0 to 1; without it, as
    /// likely as the ranker thinks right.
    pub least_confidence: Option<f64>,
    /// `bridge`: tokens (estimated) that one answer may have.
    pub answer_tokens: usize,
    /// `code`: tokens (estimated) that the spec of a server may have.
    pub spec_tokens: usize,
    /// Loaded tools that are kept; the least recently used gives way. 0 keeps all.
    pub max_loaded: usize,
    /// Whether a call of a tool that is not loaded runs, or answers with its schema.
    pub run_unloaded: bool,
    /// Whether the prompt tells the model to search before anything else.
    pub strict: bool,
    /// A prompt of the user's own; `{instructions}` and `{categories}` are filled in.
    pub prompt_template: Option<String>,
    /// A reminder of the user's own, where the dialect keeps one; `{names}` is filled in.
    pub reminder_template: Option<String>,
    /// Whether large outputs are offloaded, which makes the tools that read them visible.
    pub output_offloading: bool,
    /// Whether there is `read_result`, for results that were too long to show. Not an option of a
    /// dialect: the host decides, and carries it out.
    pub has_read_result: bool,
    /// Whether arguments must fit the schema of their tool. Not an option of a dialect: the host
    /// decides.
    pub validation: Validation,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            max_tools_limit: 50,
            always_searchable: false,
            search_threshold: 0.1,
            tool_selection_order: vec![SelectionOrder::ServerPriority, SelectionOrder::Alphabetical],
            exposed: Exposed::default(),
            seed: 0,
            max_limit: 10,
            default_limit: 5,
            token_bonus: 0.12,
            hits: Hits::default(),
            split_by_risk: false,
            hits_per_query: 5,
            least_confidence: None,
            answer_tokens: 1500,
            spec_tokens: 20_000,
            max_loaded: 0,
            run_unloaded: true,
            strict: false,
            prompt_template: None,
            reminder_template: None,
            output_offloading: false,
            has_read_result: false,
            validation: Validation::default(),
        }
    }
}

/// The reason why an option cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// No dialect has it.
    #[error("`{key}` is not an option of any dialect")]
    Unknown {
        /// Its name.
        key: String,
    },
    /// A value of the wrong kind.
    #[error("`{key}` must be {expected}")]
    WrongValue {
        /// Its name.
        key: String,
        /// What fits.
        expected: &'static str,
    },
}

impl Settings {
    /// Returns the names of the meta-tools that the host adds.
    pub(crate) fn added_names(&self) -> &'static [&'static str] {
        if self.has_read_result { &[READ_RESULT] } else { &[] }
    }

    /// Returns whether the list never changes, so that hits are called through `call_tool`.
    pub(crate) fn has_constant_list(&self) -> bool {
        self.hits == Hits::Callable
    }

    /// Sets one option by its documented name.
    ///
    /// # Errors
    /// When the name is unknown or the value does not fit.
    pub fn set(&mut self, key: &str, value: &Value) -> Result<(), SettingsError> {
        let wrong = |expected| SettingsError::WrongValue { key: key.to_owned(), expected };
        let count = || {
            let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| wrong("a whole number"))
        };
        let text = || value.as_str().map(str::to_owned).ok_or_else(|| wrong("a text"));
        let share = || {
            let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
            share.ok_or_else(|| wrong("a number from 0 to 1"))
        };
        let flag = || value.as_bool().ok_or_else(|| wrong("true or false"));
        match key {
            "enabled" => self.enabled = flag()?,
            "maxToolsLimit" => self.max_tools_limit = count()?,
            "always_searchable" => self.always_searchable = flag()?,
            "searchThreshold" => self.search_threshold = share()?,
            "toolSelectionOrder" => {
                let expected = "a list of `server_priority`, `alphabetical` and `random`";
                let order = |name: &Value| match name.as_str() {
                    Some("server_priority") => Some(SelectionOrder::ServerPriority),
                    Some("alphabetical") => Some(SelectionOrder::Alphabetical),
                    Some("random") => Some(SelectionOrder::Random),
                    _ => None,
                };
                let orders = value.as_array().and_then(|names| names.iter().map(order).collect());
                self.tool_selection_order = orders.ok_or_else(|| wrong(expected))?;
            }
            "exposed" => {
                self.exposed = match value.as_str() {
                    Some("replace") => Exposed::Replace,
                    Some("accumulate") => Exposed::Accumulate,
                    _ => return Err(wrong("`replace` or `accumulate`")),
                }
            }
            "seed" => self.seed = count()? as u64,
            "max_limit" => self.max_limit = count()?.max(1),
            "default_limit" => self.default_limit = count()?.max(1),
            "token_bonus" => {
                let bonus = value.as_f64().filter(|bonus| bonus.is_finite());
                self.token_bonus = bonus.ok_or_else(|| wrong("a number"))?;
            }
            "split_by_risk" => self.split_by_risk = flag()?,
            "hits_per_query" => self.hits_per_query = count()?.max(1),
            "least_confidence" => self.least_confidence = Some(share()?),
            "answer_tokens" => self.answer_tokens = count()?,
            "spec_tokens" => self.spec_tokens = count()?,
            "strict" => self.strict = flag()?,
            "run_unloaded" => self.run_unloaded = flag()?,
            "prompt_template" => self.prompt_template = Some(text()?),
            "reminder_template" => self.reminder_template = Some(text()?),
            "max_loaded" => self.max_loaded = count()?,
            "output_offloading" => self.output_offloading = flag()?,
            _ => return Err(SettingsError::Unknown { key: key.to_owned() }),
        }
        Ok(())
    }
}
