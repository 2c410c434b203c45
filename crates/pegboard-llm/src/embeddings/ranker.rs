//! A ranker that uses vectors of an external endpoint.

use std::sync::Arc;

use pegboard_core::{
    Catalog, Query, QueryError, Ranker, Ranking, Selection, ToolVectors, VectorSource, Vectors,
    vectors::{BoxFuture, QueryTexts, VectorSourceStatus},
};
use tokio::{runtime::Handle, sync::watch};

use super::{embedder::Embedder, upkeep};

/// A ranker whose tools are embedded in the background, for every catalog it ranks.
///
/// It ranks like the inner ranker, with the vectors that are available. Dropping it stops requests
/// to the endpoint.
#[derive(Debug)]
pub struct EmbeddingRanker {
    inner: Arc<dyn Ranker>,
    source: Arc<dyn VectorSource>,
    catalogs: watch::Sender<Option<Catalog>>,
}

/// The embedder as a source of vectors.
#[derive(Debug)]
struct Source(Arc<Embedder>);

impl VectorSource for Source {
    fn ask(&self, queries: Vec<QueryTexts>) -> BoxFuture<Vectors> {
        let embedder = Arc::clone(&self.0);
        Box::pin(async move { embedder.embed_queries(queries).await })
    }

    fn status(&self) -> VectorSourceStatus {
        self.0.status()
    }
}

impl EmbeddingRanker {
    /// Wraps `inner` so that it gets vectors of `embedder`, which works on `runtime`. Returns `inner`
    /// itself if it does not use vectors.
    pub fn wrap(inner: Arc<dyn Ranker>, embedder: &Arc<Embedder>, runtime: &Handle) -> Arc<dyn Ranker> {
        if !inner.use_vectors(&Arc::new(ToolVectors::default())) {
            return inner;
        }
        let (catalogs, news) = watch::channel(None);
        runtime.spawn(upkeep::keep_current(Arc::clone(embedder), Arc::clone(&inner), news));
        Arc::new(Self { inner, source: Arc::new(Source(Arc::clone(embedder))), catalogs })
    }

    /// Wraps `inner` like [`wrap`](Self::wrap) without background work, for programs that call
    /// [`Embedder::embed_tools`] themselves.
    pub fn wrap_static(inner: Arc<dyn Ranker>, embedder: &Arc<Embedder>) -> Arc<dyn Ranker> {
        let (catalogs, _) = watch::channel(None);
        Arc::new(Self { inner, source: Arc::new(Source(Arc::clone(embedder))), catalogs })
    }

    /// Passes a catalog to the background work, unless it is an older version that a session still
    /// uses.
    fn note_catalog(&self, catalog: &Catalog, is_current: bool) {
        let is_news = |seen: &Option<Catalog>| match seen {
            Some(seen) => !seen.same_snapshot(catalog) && (is_current || catalog.version() >= seen.version()),
            None => true,
        };
        if is_news(&self.catalogs.borrow()) {
            self.catalogs.send_if_modified(|seen| {
                let is_news = is_news(seen);
                if is_news {
                    *seen = Some(catalog.clone());
                }
                is_news
            });
        }
    }
}

impl Ranker for EmbeddingRanker {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn learns_from_usage(&self) -> bool {
        self.inner.learns_from_usage()
    }

    fn reads_required_words(&self) -> bool {
        self.inner.reads_required_words()
    }

    fn returns_all_matches(&self) -> bool {
        self.inner.returns_all_matches()
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        self.note_catalog(catalog, false);
        self.inner.rank(query, catalog, selection)
    }

    fn prepare(&self, catalog: &Catalog) {
        self.note_catalog(catalog, true);
        self.inner.prepare(catalog);
    }

    fn use_vectors(&self, vectors: &Arc<ToolVectors>) -> bool {
        self.inner.use_vectors(vectors)
    }

    fn requests<'q>(&self, query: &'q str) -> Vec<&'q str> {
        self.inner.requests(query)
    }

    fn vector_source(&self) -> Option<Arc<dyn VectorSource>> {
        Some(Arc::clone(&self.source))
    }
}
