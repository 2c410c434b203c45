//! What a search stands on: an endpoint, what it sent before, and how it is doing.

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
    Selection,
    vectors::{Direction, VectorStanding, Vectors},
};
use pegboard_upstream::{Breaker, BreakerSettings, BreakerTurn, with_causes};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

use super::{Batch, Cache, EmbeddingError, Embeddings, EndpointSettings, Fingerprint, client::BATCH, recent::Recent};

/// A search waits for a dead endpoint twice; for half a minute the next ones go without.
const BREAKER: BreakerSettings =
    BreakerSettings { failures: 2, window: Duration::from_secs(60), pause: Duration::from_secs(30) };

/// Texts in one request: the queries of a call, of which no dialect has more than 16, and the
/// requests within them.
const MAX_QUERIES: usize = BATCH;

/// Requests for queries at the same time.
const TURNS: usize = 8;

/// How often it is said that the endpoint fails.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// An endpoint, its cache, and how it is doing.
#[derive(Debug)]
pub struct Embedder {
    pub(super) endpoint: Embeddings,
    cache: Option<Arc<Cache>>,
    /// Which tools are embedded.
    pub(super) selection: Selection,
    recent: Mutex<Recent>,
    breaker: Breaker,
    /// Whoever searches may cause requests that cost something, but not any number at once.
    turns: Semaphore,
    /// Of the tools' vectors; 0 while there are none.
    pub(super) dimensions: AtomicUsize,
    /// Told when a query's vector has another length than those of the tools.
    pub(super) doubt: Notify,
    fetched: AtomicU64,
    known: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    embedded: usize,
    tools: usize,
    refused: usize,
    problem: Option<String>,
    /// When the log was last told of a problem.
    said: Option<Instant>,
}

impl Embedder {
    /// An endpoint whose vectors of tools are kept in `folder`.
    ///
    /// # Errors
    /// When HTTP cannot be set up. A folder that cannot be used is said in the log, and nothing
    /// is kept then.
    pub fn new(settings: EndpointSettings, folder: Option<&Path>) -> Result<Self, EmbeddingError> {
        let open = |folder: &Path| {
            let told = |error: &std::io::Error| {
                tracing::warn!(folder = %folder.display(), %error, "vectors of tools are not kept");
            };
            Cache::open(folder).inspect_err(told).ok().map(Arc::new)
        };
        Ok(Self {
            endpoint: Embeddings::new(settings)?,
            cache: folder.and_then(open),
            selection: Selection::everything(),
            recent: Mutex::default(),
            breaker: Breaker::new(BREAKER),
            turns: Semaphore::new(TURNS),
            dimensions: AtomicUsize::new(0),
            doubt: Notify::new(),
            fetched: AtomicU64::new(0),
            known: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    /// One that embeds only the tools of `selection`: texts of others are not sent anywhere.
    #[must_use]
    pub fn seeing(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }

    /// How it is asked.
    pub fn settings(&self) -> &EndpointSettings {
        self.endpoint.settings()
    }

    /// The vectors of queries, within [`query_timeout`](EndpointSettings::query_timeout). What
    /// cannot be had is left out, the log is told, and it is counted. They stay in memory alone:
    /// what people look for is not written down.
    pub async fn queries(&self, queries: Vec<String>) -> Vectors {
        let mut seen = HashSet::new();
        let mut queries = queries;
        queries.retain(|query| !query.trim().is_empty() && seen.insert(query.clone()));
        // Without vectors of tools there is nothing to compare with.
        let dimensions = self.dimensions.load(Ordering::Relaxed);
        if queries.is_empty() || dimensions == 0 {
            return Vectors::default();
        }
        let mut rows: Vec<(String, Arc<Direction>)> = Vec::new();
        let mut missing: Vec<String> = Vec::new();
        {
            let mut recent = lock(&self.recent);
            for query in queries {
                // One that was on its way while all tools were embedded anew may be of the old
                // model.
                let row = recent.get(&query).filter(|row| row.dimensions() == dimensions);
                match row {
                    Some(row) => rows.push((query, row)),
                    None => missing.push(query),
                }
            }
        }
        self.known.fetch_add(rows.len() as u64, Ordering::Relaxed);
        missing.truncate(MAX_QUERIES);
        if !missing.is_empty() {
            rows.extend(self.asked(missing).await);
        }
        rows.into_iter().map(|(query, row)| (query, row.to_vector())).collect()
    }

    /// The vectors of queries that are not known, unless the endpoint is better left alone.
    async fn asked(&self, queries: Vec<String>) -> Vec<(String, Arc<Direction>)> {
        let (count, limit) = (queries.len() as u64, self.settings().query_timeout);
        let start = Instant::now();
        // Whoever waits for a turn leaves at least half of the time for the answer, so that many
        // searches at once do not look like a slow endpoint.
        let turn = tokio::time::timeout_at(start + limit / 2, self.turns.acquire()).await;
        let pass = turn.is_ok().then(|| self.breaker.admit(Instant::now()).ok()).flatten();
        let Some(pass) = pass else {
            self.skipped.fetch_add(count, Ordering::Relaxed);
            return Vec::new();
        };
        let outcome = self.fetched(&queries, start + limit).await;
        let failure = outcome.as_ref().err().map(|error| with_causes(error).into());
        if pass.settle(failure, Instant::now()) == BreakerTurn::Opened {
            tracing::debug!("the embeddings endpoint is left alone for a while");
        }
        match outcome {
            Ok(rows) => {
                self.note_success();
                let rows: Vec<(String, Arc<Direction>)> =
                    queries.into_iter().zip(rows).filter_map(|(query, row)| Some((query, row?))).collect();
                self.fetched.fetch_add(rows.len() as u64, Ordering::Relaxed);
                self.failed.fetch_add(count - rows.len() as u64, Ordering::Relaxed);
                let mut recent = lock(&self.recent);
                rows.iter().for_each(|(query, row)| recent.put(query, Arc::clone(row)));
                rows
            }
            Err(error) => {
                self.failed.fetch_add(count, Ordering::Relaxed);
                self.note_failure(&error);
                Vec::new()
            }
        }
    }

    /// Fetches the vectors of queries in one request. One that the endpoint does not take has
    /// none, and is nobody else's concern.
    async fn fetched(
        &self,
        queries: &[String],
        deadline: Instant,
    ) -> Result<Vec<Option<Arc<Direction>>>, EmbeddingError> {
        let prefix = &self.settings().query_prefix;
        let texts: Vec<String> = queries.iter().map(|query| format!("{prefix}{query}")).collect();
        let mut batch = Batch::default();
        match tokio::time::timeout_at(deadline, self.endpoint.embed_into(&texts, &mut batch)).await {
            Ok(done) => done?,
            // Then it was the queries that took long.
            Err(_) if batch.has_answered => {}
            Err(_) => return Err(EmbeddingError::Slow(self.settings().query_timeout)),
        }
        let rows = batch.vectors.iter().map(|vector| self.comparable(vector.as_deref())).collect();
        if matches!(rows, Err(EmbeddingError::Dimensions { .. })) {
            self.doubt.notify_one();
        }
        rows
    }

    /// The direction of a query's vector, if it can be compared with those of the tools.
    pub(super) fn comparable(&self, vector: Option<&[f32]>) -> Result<Option<Arc<Direction>>, EmbeddingError> {
        let Some(row) = vector.map(direction).transpose()? else { return Ok(None) };
        match (self.dimensions.load(Ordering::Relaxed), row.dimensions()) {
            (expected, found) if expected != 0 && expected != found => {
                Err(EmbeddingError::Dimensions { expected, found })
            }
            _ => Ok(Some(row)),
        }
    }

    /// What the disk knows of these.
    pub(super) async fn on_disk(
        &self,
        wanted: impl Iterator<Item = Fingerprint>,
    ) -> HashMap<Fingerprint, Arc<Direction>> {
        let wanted: HashSet<Fingerprint> = wanted.collect();
        let Some(cache) = self.cache.clone().filter(|_| !wanted.is_empty()) else { return HashMap::new() };
        let found = tokio::task::spawn_blocking(move || cache.find(&wanted)).await.unwrap_or_default();
        found.into_iter().map(|(name, row)| (name, Arc::new(row))).collect()
    }

    /// Keeps vectors, if they can be kept.
    pub(super) async fn to_disk(&self, rows: Vec<(Fingerprint, Arc<Direction>)>) {
        let Some(cache) = self.cache.clone().filter(|_| !rows.is_empty()) else { return };
        let kept = tokio::task::spawn_blocking(move || {
            let rows: Vec<(Fingerprint, &Direction)> = rows.iter().map(|(name, row)| (*name, &**row)).collect();
            cache.keep(&rows)
        });
        if let Ok(Err(error)) = kept.await {
            tracing::warn!(%error, "vectors of tools could not be kept");
        }
    }

    /// Removes vectors from the disk.
    pub(super) async fn forget(&self, names: impl Iterator<Item = Fingerprint>) {
        let names: HashSet<Fingerprint> = names.collect();
        let Some(cache) = self.cache.clone().filter(|_| !names.is_empty()) else { return };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || cache.forget(&names)).await {
            tracing::warn!(%error, "old vectors could not be removed");
        }
    }

    /// Takes note of how many tools have a vector, and of how many dimensions.
    pub(super) fn note_tools(&self, dimensions: usize, embedded: usize, refused: usize, tools: usize) {
        if self.dimensions.swap(dimensions, Ordering::Relaxed) != dimensions {
            // They belong to another model under the same name.
            lock(&self.recent).clear();
        }
        let mut state = lock(&self.state);
        (state.embedded, state.refused, state.tools) = (embedded, refused, tools);
    }

    /// Takes note that the endpoint works.
    pub(super) fn note_success(&self) {
        let mut state = lock(&self.state);
        if state.problem.take().is_some() {
            state.said = None;
            tracing::info!(endpoint = self.settings().shown(), "the embeddings endpoint answers again");
        }
    }

    /// Takes note that it does not, and tells the log now and then.
    pub(super) fn note_failure(&self, error: &EmbeddingError) {
        let mut state = lock(&self.state);
        let text = with_causes(error);
        let is_due = state.said.is_none_or(|said| said.elapsed() >= SAID_EVERY);
        if is_due {
            state.said = Some(Instant::now());
            let (endpoint, hint) = (self.settings().shown(), error.hint().unwrap_or_default());
            tracing::warn!(endpoint, hint, "searches go on without the vectors of the embeddings endpoint: {text}");
        }
        state.problem = Some(text);
    }

    /// How it is doing.
    pub fn standing(&self) -> VectorStanding {
        let state = lock(&self.state);
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        VectorStanding {
            endpoint: self.settings().shown(),
            model: self.settings().model.clone(),
            embedded: state.embedded,
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
    let none = || EmbeddingError::Garbled("a vector without a direction".to_owned());
    Direction::of(vector).map(Arc::new).ok_or_else(none)
}

/// What is guarded is whole at any time, so poison does not matter.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
