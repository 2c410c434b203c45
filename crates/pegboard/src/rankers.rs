//! The rankers by name.

use clap::ValueEnum;
use pegboard_core::Ranker;
use pegboard_engine::{Hinted, Hybrid, Keyword, Lexical, RegexRanker, Sequence};
use pegboard_tantivy::Bm25;

/// A ranker that people can choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RankerName {
    /// Exact names, fielded BM25, typos, several intents
    #[default]
    Hybrid,
    /// A regular expression over name and description, fuzzy when it matches nothing
    Regex,
    /// Tantivy's BM25 and query language
    Bm25,
    /// Points for each keyword; `+word` is required
    Keyword,
    /// Similarity of the whole text plus literal hits
    Sequence,
    /// Points for name, hint and description, stacked; `+word` is required
    Hinted,
    /// The lexical half of hybrid alone
    Lexical,
}

impl RankerName {
    /// The six that `all` means.
    pub(crate) const SIX: [Self; 6] =
        [Self::Regex, Self::Bm25, Self::Keyword, Self::Sequence, Self::Hinted, Self::Hybrid];

    /// A ranker with its default settings.
    pub(crate) fn build(self) -> Box<dyn Ranker> {
        match self {
            Self::Hybrid => Box::new(Hybrid::default()),
            Self::Regex => Box::new(RegexRanker::default()),
            Self::Bm25 => Box::new(Bm25::default()),
            Self::Keyword => Box::new(Keyword::default()),
            Self::Sequence => Box::new(Sequence::default()),
            Self::Hinted => Box::new(Hinted::default()),
            Self::Lexical => Box::new(Lexical::default()),
        }
    }
}
