//! Ranking by words and by meaning.
//!
//! `combine` computes the lexical score and the similarities (`scan`) of every visible tool,
//! `fusion` combines them into one score, and `second_look` compares the first hits of short
//! queries word by word and verb by verb. `confidence` estimates the probability that the first hit
//! is right. `external` adds the vectors of an external model.

pub(crate) mod combine;
pub(crate) mod confidence;
mod external;
pub(crate) mod fusion;
mod scan;
pub(crate) mod second_look;

use std::sync::Arc;

use pegboard_core::{Query, Ranking, ToolVectors};

use self::{
    combine::HybridBuffers,
    external::{External, ExternalTable},
};
use crate::{
    lexical::{Scoring, Searcher, Settings, index::IndexView},
    semantic::{Model, requests_of},
};

/// The default ranker: exact names first, then relevance by words and by meaning.
pub type Hybrid = Searcher<ByWordsAndMeaning>;

/// Scores tools by words and by meaning.
#[derive(Debug)]
pub struct ByWordsAndMeaning {
    model: Arc<Model>,
    /// Vectors of tools by an external model, for queries that bring one of the same model.
    external: ExternalTable,
}

impl Searcher<ByWordsAndMeaning> {
    /// Creates a ranker with another model than the built-in one.
    pub fn new(model: Arc<Model>) -> Self {
        Self::with_scoring(ByWordsAndMeaning::with_model(model), Settings::default())
    }
}

impl ByWordsAndMeaning {
    fn with_model(model: Arc<Model>) -> Self {
        Self { model, external: ExternalTable::default() }
    }
}

impl Default for ByWordsAndMeaning {
    fn default() -> Self {
        Self::with_model(Arc::clone(Model::embedded()))
    }
}

impl Scoring for ByWordsAndMeaning {
    const NAME: &'static str = "hybrid";

    type Buffers = HybridBuffers;

    fn vector_model(&self) -> Option<&Arc<Model>> {
        Some(&self.model)
    }

    fn rank(&self, text: &str, query: &Query<'_>, view: &IndexView<'_>, buffers: &mut HybridBuffers) -> Ranking {
        let table = self.external.current();
        let external = query.vectors.and_then(|vectors| External::new(&table, query.text, vectors));
        buffers.rank(text, query, view, &self.model, external.as_ref())
    }

    fn trim(buffers: &mut HybridBuffers) {
        buffers.trim();
    }

    fn use_vectors(&self, vectors: &Arc<ToolVectors>) -> bool {
        self.external.replace(vectors);
        true
    }

    fn requests<'q>(&self, query: &'q str) -> Vec<&'q str> {
        requests_of(query)
    }
}

#[cfg(test)]
mod tests;
