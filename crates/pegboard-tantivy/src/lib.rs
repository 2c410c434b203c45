//! The `bm25` ranker: Tantivy's BM25 and its query language.
//!
//! A separate crate because Tantivy is the heaviest build of the workspace. It depends on
//! [`pegboard_core`] only, and its API contains no Tantivy types.
//!
//! ```
//! use pegboard_core::{Catalog, LoadLimits, Query, Ranker, Selection, load};
//! use pegboard_tantivy::Bm25;
//!
//! let file = br#"[
//!     {"name": "github___create_issue", "description": "Create a new issue"},
//!     {"name": "github___get_issue", "description": "Get one issue"}
//! ]"#;
//! let (catalog, _) = Catalog::from_tools(load::parse("tools.json", file, &LoadLimits::default())?.tools);
//! let ranker = Bm25::default();
//! let names = |query| -> Result<Vec<String>, pegboard_core::QueryError> {
//!     let ranking = ranker.rank(&Query::new(query), &catalog, &Selection::everything())?;
//!     Ok(ranking.hits.iter().map(|hit| hit.tool.name().to_owned()).collect())
//! };
//! assert_eq!(names("git*")?.len(), 2);
//! assert_eq!(names("server:github AND \"new issue\"")?, ["github___create_issue"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod index;
mod query;

use std::sync::{Arc, Mutex, PoisonError};

use pegboard_core::{
    Catalog, Fallback, Query, QueryError, Ranker, Ranking, Selection, SnapshotCache,
    ranking::{MAX_QUERY_BYTES, cut},
};

use crate::index::Index;

/// Maximum number of selections whose indexes are cached, for each catalog snapshot.
const KEPT_SELECTIONS: usize = 8;

/// Orders by raw BM25, ties by name.
///
/// Scores depend on all indexed tools, so each selection has its own index: hidden tools must not
/// affect scores.
#[derive(Debug, Default)]
pub struct Bm25 {
    indexes: SnapshotCache<Mutex<Vec<Entry>>>,
}

/// An index, or why it could not be built.
#[derive(Clone, Debug)]
struct Entry {
    selection: Selection,
    index: Result<Arc<Index>, String>,
}

impl Bm25 {
    fn index(&self, catalog: &Catalog, selection: &Selection) -> Result<Arc<Index>, QueryError> {
        let entries = self.indexes.get(catalog, |_| Mutex::default());
        // Entries are only added and removed as a whole, so poison does not matter.
        let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.iter().position(|entry| entry.selection == *selection);
        let at = known.unwrap_or_else(|| {
            if entries.len() == KEPT_SELECTIONS {
                entries.remove(0);
            }
            let index = Index::build(catalog, selection).map(Arc::new).map_err(|error| error.to_string());
            entries.push(Entry { selection: selection.clone(), index });
            entries.len() - 1
        });
        entries[at].index.clone().map_err(failed)
    }
}

fn failed(reason: impl Into<String>) -> QueryError {
    QueryError::Index { ranker: "bm25", reason: reason.into() }
}

impl Ranker for Bm25 {
    fn name(&self) -> &'static str {
        "bm25"
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let text = query.checked(MAX_QUERY_BYTES)?;
        let index = self.index(catalog, selection)?;
        let parsed = index.parse(text);
        let mut hits = index.search(&parsed).map_err(|error| failed(error.to_string()))?;
        let total = hits.len();
        let passing = cut(&mut hits, query);
        if query.explain {
            for hit in &mut hits {
                hit.why = index.reasons(&parsed, hit).map_err(|error| failed(error.to_string()))?;
            }
        }
        let fallback = parsed.is_by_words.then_some(Fallback::Words);
        let unmatched = index.unmatched(&parsed).map_err(|error| failed(error.to_string()))?;
        Ok(Ranking { hits, total, passing, unmatched, fallback, ..Ranking::default() })
    }

    fn prepare(&self, catalog: &Catalog) {
        // A failure is reported by the next search.
        let _ = self.index(catalog, &Selection::everything());
    }
}
