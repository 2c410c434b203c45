//! The `bm25` ranker: Tantivy's BM25 and its query language.
//!
//! A crate of its own because Tantivy is the heaviest build of the workspace. It sees
//! [`pegboard_core`] and nothing else, and no Tantivy type leaves it.
//!
//! ```
//! use pegboard_core::{Catalog, Limits, Query, Ranker, Selection, load};
//! use pegboard_tantivy::Bm25;
//!
//! let file = br#"[
//!     {"name": "github___create_issue", "description": "Create a new issue"},
//!     {"name": "github___get_issue", "description": "Get one issue"}
//! ]"#;
//! let (catalog, _) = Catalog::from_tools(load::parse("tools.json", file, &Limits::default())?.tools);
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

use std::sync::Arc;

use pegboard_core::{
    Catalog, Fallback, Query, QueryError, Ranker, Ranking, Selection, SnapshotCache,
    ranking::{MAX_QUERY_BYTES, cut},
};

use crate::index::Index;

/// Orders by raw BM25, ties by name.
#[derive(Debug, Default)]
pub struct Bm25 {
    indexes: SnapshotCache<Result<Index, String>>,
}

impl Bm25 {
    fn index(&self, catalog: &Catalog) -> Arc<Result<Index, String>> {
        self.indexes.get(catalog, |_| Index::build(catalog).map_err(|error| error.to_string()))
    }
}

impl Ranker for Bm25 {
    fn name(&self) -> &'static str {
        "bm25"
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let text = query.checked(MAX_QUERY_BYTES)?;
        let failed = |reason: String| QueryError::Index { ranker: "bm25", reason };
        let index = self.index(catalog);
        let index = (*index).as_ref().map_err(|reason| failed(reason.clone()))?;
        let parsed = index.parse(text);
        let answer = index.search(&parsed, selection).map_err(|error| failed(error.to_string()))?;
        let mut hits = answer.hits;
        let total = hits.len();
        cut(&mut hits, query);
        if query.explain {
            for hit in &mut hits {
                hit.why = index.reasons(&parsed, hit).map_err(|error| failed(error.to_string()))?;
            }
        }
        let fallback = parsed.is_phrase.then_some(Fallback::Phrase);
        Ok(Ranking { hits, total, unmatched: answer.unmatched, fallback, confidence: None })
    }

    fn prepare(&self, catalog: &Catalog) {
        self.index(catalog);
    }
}
