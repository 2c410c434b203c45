//! The engines that the benchmark measures.

use std::sync::Arc;

use pegboard_core::{Catalog, Query, Ranker, Selection};
use pegboard_engine::{Hybrid, Lexical, Model};

use super::synthetic;
#[cfg(feature = "bm25")]
use super::tantivy::{Replacement, TantivyEngine};
use crate::error::CliError;

/// The engines that share a row format.
pub(super) enum Engine {
    Lexical {
        ranker: Lexical,
        catalog: Catalog,
    },
    Hybrid {
        ranker: Hybrid,
        catalog: Catalog,
    },
    #[cfg(feature = "bm25")]
    Tantivy(Box<TantivyEngine>),
}

/// A prepared replacement of one tool, not yet visible to searches.
pub(super) enum Update {
    Catalog(Catalog),
    #[cfg(feature = "bm25")]
    Document(Replacement),
}

impl Engine {
    /// The names of all engines of this build.
    pub(super) const NAMES: &'static [&'static str] = &[
        "lexical",
        "hybrid",
        #[cfg(feature = "bm25")]
        "tantivy",
    ];

    pub(super) fn build(name: &str, catalog: &Catalog, model: Option<&Arc<Model>>) -> Result<Self, CliError> {
        let catalog = catalog.clone();
        Ok(match name {
            "lexical" => {
                let ranker = Lexical::default();
                ranker.prepare(&catalog);
                Self::Lexical { ranker, catalog }
            }
            #[cfg(feature = "bm25")]
            "tantivy" => Self::Tantivy(Box::new(TantivyEngine::build(&catalog)?)),
            _ => {
                let ranker = model.map_or_else(Hybrid::default, |model| Hybrid::new(Arc::clone(model)));
                ranker.prepare(&catalog);
                Self::Hybrid { ranker, catalog }
            }
        })
    }

    /// Searches for the ten best tools and returns how many were found, so that nothing is
    /// optimised away.
    pub(super) fn search(&mut self, query: &str) -> Result<usize, CliError> {
        let (ranker, catalog): (&dyn Ranker, &Catalog) = match self {
            Self::Lexical { ranker, catalog } => (ranker, catalog),
            Self::Hybrid { ranker, catalog } => (ranker, catalog),
            #[cfg(feature = "bm25")]
            Self::Tantivy(engine) => return engine.search(query),
        };
        let ranking = ranker.rank(&Query::new(query), catalog, &Selection::everything());
        ranking.map(|ranking| ranking.hits.len()).map_err(|error| CliError::new(error.to_string()))
    }

    /// Returns the memory of the index, without the tools themselves.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Lexical { ranker, catalog } => ranker.index_bytes(catalog),
            Self::Hybrid { ranker, catalog } => ranker.index_bytes(catalog),
            #[cfg(feature = "bm25")]
            Self::Tantivy(engine) => engine.bytes(),
        }
    }

    /// Prepares a new version of the tool at `at`.
    pub(super) fn prepare_update(&self, at: usize, round: usize) -> Result<Update, CliError> {
        let catalog = match self {
            Self::Lexical { catalog, .. } | Self::Hybrid { catalog, .. } => catalog,
            #[cfg(feature = "bm25")]
            Self::Tantivy(engine) => engine.catalog(),
        };
        let tool = catalog.iter().nth(at).ok_or_else(|| CliError::new("the catalog is empty"))?;
        let raw = synthetic::replacement(tool.name(), tool.server_name(), round);
        #[cfg(feature = "bm25")]
        if let Self::Tantivy(engine) = self {
            return engine.replacement(tool.id(), raw).map(Update::Document);
        }
        let updated = catalog.with_tool(tool.id(), raw);
        updated.map(Update::Catalog).ok_or_else(|| CliError::new("the replacement does not fit"))
    }

    /// Applies an update; the next search sees it.
    pub(super) fn update(&mut self, update: Update) -> Result<(), CliError> {
        match (self, update) {
            (Self::Lexical { catalog, .. } | Self::Hybrid { catalog, .. }, Update::Catalog(new)) => *catalog = new,
            #[cfg(feature = "bm25")]
            (Self::Tantivy(engine), Update::Document(replacement)) => engine.replace(replacement)?,
            #[cfg(feature = "bm25")]
            _ => {}
        }
        Ok(())
    }
}
