//! Embeddings for searches: an endpoint, its cache and its state.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use pegboard_core::{
    Selection, ToolVectors,
    breaker::{Breaker, BreakerSettings},
    vectors::{Direction, VectorSourceStatus},
};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

use super::{Cache, EmbeddingError, Embeddings, EndpointSettings, Fingerprint, recent::RecentVectors};
use crate::causes::with_causes;

/// After two failures within a minute, searches skip the endpoint for half a minute.
const BREAKER: BreakerSettings =
    BreakerSettings { failures: 2, window: Duration::from_secs(60), pause: Duration::from_secs(30) };

/// How many requests for queries run at the same time.
pub(super) const MAX_CONCURRENT_QUERIES: usize = 8;

/// How often a failing endpoint is logged.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// An embeddings endpoint with its cache, circuit breakers and counters.
#[derive(Debug)]
pub struct Embedder {
    pub(super) endpoint: Embeddings,
    cache: Option<Arc<Cache>>,
    /// Which tools are embedded.
    pub(super) selection: Selection,
    pub(super) recent: Mutex<RecentVectors>,
    pub(super) breaker: Breaker,
    /// For single requests within queries: what is too slow for many texts may be fast enough for
    /// one.
    pub(super) requests_breaker: Breaker,
    /// Limits how many requests, which may cost money, searches cause at the same time.
    pub(super) query_permits: Semaphore,
    /// The dimensions of the tools' vectors; 0 while there are none.
    pub(super) dimensions: AtomicUsize,
    /// Notified when a query's vector has other dimensions than those of the tools.
    pub(super) dimension_change: Notify,
    pub(super) fetched: AtomicU64,
    pub(super) known: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) skipped: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    table: Arc<ToolVectors>,
    tools: usize,
    refused: usize,
    problem: Option<String>,
    /// When a problem was last logged.
    said: Option<Instant>,
}

impl Embedder {
    /// Creates an embedder that caches the vectors of tools in `folder`.
    ///
    /// # Errors
    /// When the HTTP client cannot be created. A folder that cannot be used is logged, and nothing
    /// is cached.
    pub fn new(settings: EndpointSettings, folder: Option<&Path>) -> Result<Self, EmbeddingError> {
        let open = |folder: &Path| {
            let log = |error: &std::io::Error| {
                tracing::warn!(folder = %folder.display(), %error, "cannot open the embeddings cache");
            };
            Cache::open(folder).inspect_err(log).ok().map(Arc::new)
        };
        Ok(Self {
            endpoint: Embeddings::new(settings)?,
            cache: folder.and_then(open),
            selection: Selection::everything(),
            recent: Mutex::default(),
            breaker: Breaker::new(BREAKER),
            requests_breaker: Breaker::new(BREAKER),
            query_permits: Semaphore::new(MAX_CONCURRENT_QUERIES),
            dimensions: AtomicUsize::new(0),
            dimension_change: Notify::new(),
            fetched: AtomicU64::new(0),
            known: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    /// Restricts the embedder to the tools of `selection`: texts of others are not sent.
    #[must_use]
    pub fn with_selection(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }

    /// The settings of the endpoint.
    pub fn settings(&self) -> &EndpointSettings {
        self.endpoint.settings()
    }

    /// Returns the direction of a query's vector, if its dimensions are those of the tools.
    pub(super) fn check_dimensions(&self, vector: Option<&[f32]>) -> Result<Option<Arc<Direction>>, EmbeddingError> {
        let Some(row) = vector.map(direction).transpose()? else { return Ok(None) };
        match (self.dimensions.load(Ordering::Relaxed), row.dimensions()) {
            (expected, found) if expected != 0 && expected != found => {
                Err(EmbeddingError::Dimensions { expected, found })
            }
            _ => Ok(Some(row)),
        }
    }

    /// Returns the cached vectors of these.
    pub(super) async fn load_cached(
        &self,
        wanted: impl Iterator<Item = Fingerprint>,
    ) -> HashMap<Fingerprint, Arc<Direction>> {
        let wanted: HashSet<Fingerprint> = wanted.collect();
        let Some(cache) = self.cache.clone().filter(|_| !wanted.is_empty()) else { return HashMap::new() };
        let found = tokio::task::spawn_blocking(move || cache.find(&wanted)).await.unwrap_or_default();
        found.into_iter().map(|(name, row)| (name, Arc::new(row))).collect()
    }

    /// Adds vectors to the cache, if there is one.
    pub(super) async fn store_cached(&self, rows: Vec<(Fingerprint, Arc<Direction>)>) {
        let Some(cache) = self.cache.clone().filter(|_| !rows.is_empty()) else { return };
        let kept = tokio::task::spawn_blocking(move || {
            let rows: Vec<(Fingerprint, &Direction)> = rows.iter().map(|(name, row)| (*name, &**row)).collect();
            cache.save(&rows)
        });
        if let Ok(Err(error)) = kept.await {
            tracing::warn!(%error, "cannot save embeddings");
        }
    }

    /// Removes vectors from the cache.
    pub(super) async fn forget(&self, names: impl Iterator<Item = Fingerprint>) {
        let names: HashSet<Fingerprint> = names.collect();
        let Some(cache) = self.cache.clone().filter(|_| !names.is_empty()) else { return };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || cache.forget(&names)).await {
            tracing::warn!(%error, "cannot remove old embeddings");
        }
    }

    /// The vectors of tools that were published last, for the next ranker over the same tools.
    pub(super) fn table(&self) -> Arc<ToolVectors> {
        Arc::clone(&lock(&self.state).table)
    }

    /// Records the vectors of tools, and the number of tools.
    pub(super) fn note_tools(&self, table: &Arc<ToolVectors>, refused: usize, tools: usize) {
        let dimensions = table.dimensions();
        if self.dimensions.swap(dimensions, Ordering::Relaxed) != dimensions {
            // They belong to another model under the same name.
            lock(&self.recent).clear();
        }
        let mut state = lock(&self.state);
        (state.table, state.refused, state.tools) = (Arc::clone(table), refused, tools);
    }

    /// Records a success of the endpoint.
    pub(super) fn note_success(&self) {
        let mut state = lock(&self.state);
        if state.problem.take().is_some() {
            state.said = None;
            tracing::info!(endpoint = self.settings().redacted_url(), "embeddings endpoint recovered");
        }
    }

    /// Records a failure of the endpoint, and logs it at intervals.
    pub(super) fn note_failure(&self, error: &EmbeddingError) {
        let mut state = lock(&self.state);
        let text = with_causes(error);
        let is_due = state.said.is_none_or(|said| said.elapsed() >= WARN_INTERVAL);
        if is_due {
            state.said = Some(Instant::now());
            let (endpoint, hint) = (self.settings().redacted_url(), error.hint().unwrap_or_default());
            tracing::warn!(endpoint, hint, "embeddings endpoint failed, searching without it: {text}");
        }
        state.problem = Some(text);
    }

    /// Returns the state and the counters.
    pub fn status(&self) -> VectorSourceStatus {
        let state = lock(&self.state);
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        VectorSourceStatus {
            endpoint: self.settings().redacted_url(),
            model: self.settings().model.clone(),
            embedded: state.table.len(),
            tools: state.tools,
            refused: state.refused,
            fetched: number(&self.fetched),
            known: number(&self.known),
            failed: number(&self.failed),
            skipped: number(&self.skipped),
            problem: state.problem.clone(),
        }
    }
}

/// The direction of a vector that was checked.
pub(super) fn direction(vector: &[f32]) -> Result<Arc<Direction>, EmbeddingError> {
    let none = || EmbeddingError::InvalidResponse("a vector has no direction".to_owned());
    Direction::of(vector).map(Arc::new).ok_or_else(none)
}

/// Locks a mutex. The guarded data is consistent at any time, so poison does not matter.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
