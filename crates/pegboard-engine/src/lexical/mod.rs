//! Ranking by words: exact names, fielded BM25 over a compact index, typo tolerance, and results
//! for each intent of a query. The index also holds the vectors of `hybrid`, which
//! ranks by words and meaning.

mod bitmap;
mod document;
pub(crate) mod explain;
pub(crate) mod index;
mod intents;
mod names;
mod near_terms;
pub(crate) mod plan;
mod saved_index;
pub(crate) mod scorer;
pub(crate) mod search;
mod searcher;
pub(crate) mod segment;
mod settings;
mod vocabulary;

use std::sync::Arc;

use pegboard_core::{Query, Ranking};

pub use self::{
    document::for_each_text,
    saved_index::ParsedIndex,
    searcher::Searcher,
    settings::{FieldWeight, INDEXED_FIELDS, Settings},
};
use self::{index::IndexView, search::LexicalBuffers};
pub(crate) use self::{searcher::Scoring, vocabulary::letter_bits};
use crate::semantic::Model;

/// The lexical half of [`Hybrid`](crate::Hybrid), as a separate ranker for comparison.
pub type Lexical = Searcher<ByWords>;

/// Scores tools by words.
#[derive(Debug, Default)]
pub struct ByWords(());

impl Searcher<ByWords> {
    /// Creates a ranker with other settings than the tuned ones.
    pub fn new(settings: Settings) -> Self {
        Self::with_scoring(ByWords(()), settings)
    }
}

impl Scoring for ByWords {
    const NAME: &'static str = "lexical";

    type Buffers = LexicalBuffers;

    fn vector_model(&self) -> Option<&Arc<Model>> {
        None
    }

    fn rank(&self, text: &str, query: &Query<'_>, view: &IndexView<'_>, buffers: &mut LexicalBuffers) -> Ranking {
        buffers.rank(text, query, view)
    }
}

#[cfg(test)]
pub(crate) mod tests;
