//! Queries to a ranker, and its results.

use std::{borrow::Cow, fmt, sync::Arc};

use crate::{Catalog, Selection, Tool, ToolVectors, VectorSource, Vectors};

/// The longest query that a ranker takes, in bytes. `sequence` takes less, because its
/// work grows with the square of the length.
pub const MAX_QUERY_BYTES: usize = 16 * 1024;

/// One query to a [`Ranker`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query<'a> {
    /// What to look for, in the ranker's own query language.
    pub text: &'a str,
    /// At most this many hits.
    pub limit: usize,
    /// Drops hits that score less than this share of the best one; 0 keeps all.
    pub threshold: f64,
    /// Fill in [`Hit::why`].
    pub explain: bool,
    /// The vectors of an external model for `text` and for its requests ([`Ranker::requests`]), for
    /// rankers that hold vectors of tools by the same model.
    pub vectors: Option<&'a Vectors>,
    /// Hits are withheld when the ranking's confidence is less; `None` leaves it to the
    /// ranker, 0 shows everything.
    pub least_confidence: Option<f64>,
}

impl<'a> Query<'a> {
    /// Asks for the ten best tools for `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text, limit: 10, threshold: 0.0, explain: false, vectors: None, least_confidence: None }
    }

    /// Asks for at most `limit` tools.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Asks for tools that score at least this share of the best one.
    #[must_use]
    pub fn threshold(mut self, threshold: f64) -> Self {
        self.threshold = threshold;
        self
    }

    /// Asks for the reasons of every hit.
    #[must_use]
    pub fn explain(mut self, explain: bool) -> Self {
        self.explain = explain;
        self
    }

    /// Provides vectors of the text and of its requests.
    #[must_use]
    pub fn vectors(mut self, vectors: Option<&'a Vectors>) -> Self {
        self.vectors = vectors;
        self
    }

    /// Returns the vector of the whole text, if it was provided.
    pub fn vector(&self) -> Option<&'a [f32]> {
        self.vectors?.get(self.text)
    }

    /// Asks for hits only if the ranker is at least this confident, 0 to 1.
    #[must_use]
    pub fn least_confidence(mut self, confidence: f64) -> Self {
        self.least_confidence = Some(confidence);
        self
    }

    /// The text, if it is neither blank nor longer than `limit` bytes.
    ///
    /// # Errors
    /// [`QueryError::Empty`] or [`QueryError::TooLong`].
    pub fn checked(&self, limit: usize) -> Result<&'a str, QueryError> {
        if self.text.trim().is_empty() {
            return Err(QueryError::Empty);
        }
        self.checked_length(limit)
    }

    /// The text, if it is not longer than `limit` bytes.
    ///
    /// # Errors
    /// [`QueryError::TooLong`].
    pub fn checked_length(&self, limit: usize) -> Result<&'a str, QueryError> {
        if self.text.len() > limit {
            return Err(QueryError::TooLong { bytes: self.text.len(), limit });
        }
        Ok(self.text)
    }
}

/// The reason why a query cannot be answered. A ranking without hits is not an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// Nothing to look for.
    #[error("query is required")]
    Empty,
    /// Only operators, no words.
    #[error("the query has no scorable terms")]
    NoTerms,
    /// Longer than the ranker takes.
    #[error("the query is {bytes} bytes, over the limit of {limit}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The ranker's limit.
        limit: usize,
    },
    /// More words than the ranker compares with every tool.
    #[error("the query has {count} different words, over the limit of {limit}")]
    TooManyTerms {
        /// How many there are.
        count: usize,
        /// The ranker's limit.
        limit: usize,
    },
    /// A regular expression that does not parse, or is too large to run safely.
    #[error("invalid regex pattern: {reason}")]
    InvalidRegex {
        /// What is wrong with it.
        reason: String,
    },
    /// The index behind the ranker failed.
    #[error("search in the {ranker} index failed: {reason}")]
    Index {
        /// Whose index.
        ranker: &'static str,
        /// What it said.
        reason: String,
    },
}

/// A part of a tool that can be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// The tool's name.
    Name,
    /// Its title.
    Title,
    /// One of its aliases.
    Alias,
    /// Its description.
    Description,
    /// The name of a parameter, at any depth.
    ParameterName,
    /// The description of a parameter, at any depth.
    ParameterDescription,
    /// A value that a parameter may take.
    ParameterValue,
    /// Its search hint.
    SearchHint,
    /// Its usage instructions.
    PromptInstructions,
    /// Its server's name.
    Server,
    /// Its server's description.
    ServerDescription,
    /// Its category.
    Category,
    /// Name and description (and instructions) taken as one text.
    Text,
    /// What the tool means, rather than what it says.
    Meaning,
    /// What was called after like queries.
    Usage,
    /// What the tool does, against what is asked for.
    Action,
}

impl Field {
    /// The name that output and documentation use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Title => "title",
            Self::Alias => "alias",
            Self::Description => "description",
            Self::ParameterName => "parameter",
            Self::ParameterDescription => "parameter_description",
            Self::ParameterValue => "parameter_value",
            Self::SearchHint => "search_hint",
            Self::PromptInstructions => "prompt_instructions",
            Self::Server => "server",
            Self::ServerDescription => "server_description",
            Self::Category => "category",
            Self::Text => "text",
            Self::Meaning => "meaning",
            Self::Usage => "usage",
            Self::Action => "action",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One part of a hit's score.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// Where the term was found.
    pub field: Field,
    /// What was found, with the query's word in front where the two differ.
    pub term: String,
    /// How much of the score it gave.
    pub weight: f64,
}

/// A tool that answers a query.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The tool.
    pub tool: Arc<Tool>,
    /// The ranker's own score; comparable within one ranking only.
    pub score: f64,
    /// What gave the score, largest share first; empty unless [`Query::explain`].
    pub why: Vec<Reason>,
}

/// The fallback of a ranker whose first way of matching found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// `regex` compared spellings instead of matching the pattern.
    Fuzzy,
    /// `bm25` searched by words, because the text is not a valid query.
    Words,
    /// Words that no tool contains were replaced by near ones.
    Typo,
}

impl Fallback {
    /// The name that output and documentation use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fuzzy => "fuzzy",
            Self::Words => "words",
            Self::Typo => "typo",
        }
    }
}

/// The result of a ranker, best hit first.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// The best tools, at most as many as asked for.
    pub hits: Vec<Hit>,
    /// How many tools match, before limit and threshold.
    pub total: usize,
    /// How many of them reach the threshold, before the limit. A ranker that looks for the best
    /// alone counts no further than the limit.
    pub passing: usize,
    /// Words of the query that no visible tool matches, in query order.
    pub unmatched: Vec<String>,
    /// Whether, and how, the ranker had to fall back.
    pub fallback: Option<Fallback>,
    /// The query in English, if it was searched for in that language rather than its own.
    pub translated: Option<String>,
    /// How likely it is that the best hit is what was asked for, 0 to 1; `None` where the
    /// ranker has no such notion.
    pub confidence: Option<f64>,
    /// What would have been the hits, had the ranker been confident enough. Empty when there
    /// are hits.
    pub withheld: Vec<Hit>,
}

impl Ranking {
    /// Returns the ranking with its hits withheld if its confidence is less than `least`.
    #[must_use]
    pub fn withheld_below(mut self, least: f64) -> Self {
        if self.confidence.is_some_and(|confidence| confidence < least) {
            self.withheld = std::mem::take(&mut self.hits);
        }
        self
    }
}

/// Orders the tools of a catalog for a query.
///
/// Implementations are deterministic: the same query, catalog and selection give the same
/// ranking, down to the order of ties, whatever was asked before. They take any input
/// within [`Query`]'s bounds without panicking, and tools that the selection hides leave
/// no trace in the answer: not in hits, counts, unmatched words or error texts.
///
/// An implementation may keep an index per catalog snapshot ([`SnapshotCache`]); it
/// builds it when it first meets the snapshot, or ahead of that in [`Ranker::prepare`].
///
/// [`SnapshotCache`]: crate::SnapshotCache
pub trait Ranker: fmt::Debug + Send + Sync {
    /// Returns the name under which users choose the ranker.
    fn name(&self) -> &'static str;

    /// Orders the visible tools of `catalog` for `query`.
    ///
    /// # Errors
    /// When the query itself is at fault; see [`QueryError`].
    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError>;

    // A ranker around another one passes all of the following on; most have nothing to say here.

    /// Returns whether its scores are on the scale that boosts from usage are made for. Rankers
    /// that reproduce a published system do not learn.
    fn learns_from_usage(&self) -> bool {
        false
    }

    /// Returns whether it reads `+word` in a query as a required word.
    fn reads_required_words(&self) -> bool {
        false
    }

    /// Returns whether its hits are all tools that match, as with a pattern, rather than the best of
    /// a ranking without a natural end.
    fn returns_all_matches(&self) -> bool {
        false
    }

    /// Prepares the index for `catalog`, so that the first query does not wait for it.
    fn prepare(&self, catalog: &Catalog) {
        let _ = catalog;
    }

    /// Uses these vectors of tools from now on, in place of others; `false` if the ranker does not
    /// use vectors.
    fn use_vectors(&self, vectors: &Arc<ToolVectors>) -> bool {
        let _ = vectors;
        false
    }

    /// Returns the single requests of a query that asks for several things, if the ranker compares
    /// their vectors with those of tools in addition to that of the whole query. There are few, and
    /// none for a query that asks for one thing.
    fn requests<'q>(&self, query: &'q str) -> Vec<&'q str> {
        let _ = query;
        Vec::new()
    }

    /// Returns the source of the vectors of queries that the ranker compares with those of tools,
    /// if it has one. The caller fetches the vectors from this source before it asks for a ranking;
    /// see [`vectors`](crate::vectors).
    fn vector_source(&self) -> Option<Arc<dyn VectorSource>> {
        None
    }
}

/// Cuts a list of candidates, best first, to what `query` asked for. Returns how many of them reach
/// its threshold.
pub fn cut(candidates: &mut Vec<Hit>, query: &Query<'_>) -> usize {
    if let Some(best) = candidates.first().map(|hit| hit.score)
        && query.threshold > 0.0
    {
        candidates.retain(|hit| hit.score >= query.threshold * best);
    }
    let passing = candidates.len();
    candidates.truncate(query.limit);
    passing
}

/// Returns a term as [`Reason`] shows it: `asked→found`, or one word if the two are equal.
pub fn term_label<'a>(asked: &'a str, found: &'a str) -> Cow<'a, str> {
    if asked == found { Cow::Borrowed(asked) } else { Cow::Owned(format!("{asked}→{found}")) }
}
