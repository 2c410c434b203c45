//! The rankers by name.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use clap::ValueEnum;
use pegboard_core::Ranker;
use pegboard_discovery::DialectName;
use pegboard_engine::{Hinted, Hybrid, Keyword, Lexical, Model, RegexRanker, Sequence, blocks::PersistentIndex};
use pegboard_llm::embeddings::{Embedder, EmbeddingRanker};
#[cfg(feature = "bm25")]
use pegboard_tantivy::Bm25;
use tokio::runtime::Handle;

/// A ranker that users can choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum RankerName {
    /// Exact names, keywords (fielded BM25, typos, multiple intents) and meaning
    #[default]
    Hybrid,
    /// A regular expression over name and description; fuzzy if it matches nothing
    Regex,
    /// Tantivy's BM25 and query language
    #[cfg(feature = "bm25")]
    Bm25,
    /// Points for each keyword; `+word` is required
    Keyword,
    /// Similarity of the whole text plus literal hits
    Sequence,
    /// Points for name, hint and description, added up; `+word` is required
    Hinted,
    /// Only the lexical half of hybrid
    Lexical,
}

impl RankerName {
    /// All rankers.
    pub(crate) const ALL: &'static [Self] = &[
        Self::Hybrid,
        Self::Regex,
        #[cfg(feature = "bm25")]
        Self::Bm25,
        Self::Keyword,
        Self::Sequence,
        Self::Hinted,
        Self::Lexical,
    ];

    /// The names of [`ALL`](Self::ALL), in its order.
    pub(crate) const NAMES: [&'static str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].as_str();
            at += 1;
        }
        names
    };

    /// Returns the name that people use.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::Regex => "regex",
            #[cfg(feature = "bm25")]
            Self::Bm25 => "bm25",
            Self::Keyword => "keyword",
            Self::Sequence => "sequence",
            Self::Hinted => "hinted",
            Self::Lexical => "lexical",
        }
    }

    /// The rankers that `all` means: those with a reference, and the default.
    pub(crate) const COMPARED: &'static [Self] = &[
        Self::Regex,
        #[cfg(feature = "bm25")]
        Self::Bm25,
        Self::Keyword,
        Self::Sequence,
        Self::Hinted,
        Self::Hybrid,
    ];

    /// Returns the ranker of a dialect, or `hybrid` if this program was built without it.
    pub(crate) fn of(dialect: DialectName) -> Self {
        Self::from_str(dialect.dialect().default_ranker(), false).unwrap_or_default()
    }

    /// Returns the ranker, if its index can be cached in a file.
    pub(crate) fn build_with_kept_index(self, model: Option<&Arc<Model>>) -> Option<Arc<dyn PersistentIndex>> {
        match self {
            Self::Hybrid => Some(Arc::new(model.map_or_else(Hybrid::default, |model| Hybrid::new(Arc::clone(model))))),
            Self::Lexical => Some(Arc::new(Lexical::default())),
            _ => None,
        }
    }

    /// Returns a ranker with these settings. Semantic rankers use `model`, or the built-in one.
    pub(crate) fn build(self, model: Option<&Arc<Model>>, token_bonus: f64) -> Box<dyn Ranker> {
        match self {
            Self::Hybrid => Box::new(model.map_or_else(Hybrid::default, |model| Hybrid::new(Arc::clone(model)))),
            Self::Regex => Box::new(RegexRanker::default()),
            #[cfg(feature = "bm25")]
            Self::Bm25 => Box::new(Bm25::default()),
            Self::Keyword => Box::new(Keyword::default()),
            Self::Sequence => Box::new(Sequence::new(token_bonus)),
            Self::Hinted => Box::new(Hinted::default()),
            Self::Lexical => Box::new(Lexical::default()),
        }
    }
}

/// Returns the rankers of all dialects, each made once, so that sessions with the same ranker share
/// an index. `chosen` replaces the dialects' own rankers, and `model` the built-in one.
///
/// With an embedder, tools are embedded in the background, so it must then be called inside a
/// runtime.
pub(crate) fn shared_rankers(
    chosen: Option<RankerName>,
    model: Option<Arc<Model>>,
    token_bonus: f64,
    embedder: Option<Arc<Embedder>>,
) -> pegboard_gateway::Rankers {
    let embedder = embedder.map(|embedder| (embedder, Handle::current()));
    let made: Mutex<HashMap<RankerName, Arc<dyn Ranker>>> = Mutex::default();
    Arc::new(move |dialect: DialectName| {
        let name = chosen.unwrap_or_else(|| RankerName::of(dialect));
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(made.entry(name).or_insert_with(|| {
            let ranker: Arc<dyn Ranker> = Arc::from(name.build(model.as_ref(), token_bonus));
            match &embedder {
                Some((embedder, runtime)) => EmbeddingRanker::wrap(ranker, embedder, runtime),
                None => ranker,
            }
        }))
    })
}
