//! Keeps the vectors of tools current while catalogs change.

use std::{collections::HashMap, sync::Arc, time::Duration};

use pegboard_core::{Catalog, Ranker, Tool, ToolVectors, vectors::Direction};
use tokio::{sync::watch, time::Instant};

use super::{
    EmbeddingError, Fingerprint,
    embedder::{Embedder, direction},
    text::tool_text,
};

/// The delay after a failure; it doubles.
const INITIAL_BACKOFF: Duration = Duration::from_secs(15);

/// The longest delay.
const MAX_BACKOFF: Duration = Duration::from_secs(600);

/// How often the dimensions are checked, which tell whether the model behind the endpoint changed.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Number of consecutive batches without an accepted text after which embedding stops.
const MOST_FRUITLESS: usize = 2;

/// Maximum size of all vectors of a table in bytes. Further tools have none, and are ranked
/// without.
const TABLE_BYTES: usize = 1 << 30;

/// Receives every table that is more complete than the one before.
pub(super) type Publish<'a> = &'a mut (dyn FnMut(&Arc<ToolVectors>) + Send);

/// The tools that share a text, and therefore a vector.
#[derive(Debug)]
struct Wanted {
    name: Fingerprint,
    text: String,
    tools: Vec<Arc<Tool>>,
}

impl Embedder {
    /// Embeds every selected tool of `catalog`. Vectors of `before` and of the cache are reused, the
    /// others are fetched. `publish` receives each table on the way, so that searches need not wait
    /// for the last tool.
    ///
    /// # Errors
    /// When the endpoint fails. Vectors that came before were published and cached.
    pub async fn embed_tools(
        &self,
        catalog: &Catalog,
        before: &ToolVectors,
        publish: Publish<'_>,
    ) -> Result<(), EmbeddingError> {
        let mut rows: Vec<(Arc<Tool>, Arc<Direction>)> = Vec::with_capacity(catalog.len());
        let mut new: Vec<Arc<Tool>> = Vec::new();
        for tool in self.visible_tools(catalog) {
            match before.row(tool) {
                Some(row) => rows.push((Arc::clone(tool), Arc::clone(row))),
                None => new.push(Arc::clone(tool)),
            }
        }
        let wanted = self.unique_texts(new).await;
        let known = self.load_cached(wanted.iter().map(|one| one.name)).await;
        let mut missing = Vec::new();
        for one in wanted {
            match known.get(&one.name) {
                Some(_) if is_full(&rows) => {}
                Some(row) => rows.extend(one.tools.into_iter().map(|tool| (tool, Arc::clone(row)))),
                None => missing.push(one),
            }
        }
        let is_mixed = rows.windows(2).any(|pair| pair[0].1.dimensions() != pair[1].1.dimensions());
        if is_mixed {
            return self.refetch_all(catalog, publish).await;
        }
        match self.fetch(catalog, rows, missing, publish).await {
            Err(EmbeddingError::Dimensions { .. }) => self.refetch_all(catalog, publish).await,
            done => done,
        }
    }

    /// Fetches all vectors again, because the model behind the name has changed and its vectors
    /// cannot be compared with the old ones.
    async fn refetch_all(&self, catalog: &Catalog, publish: Publish<'_>) -> Result<(), EmbeddingError> {
        tracing::info!("embedding model changed, embedding all tools again");
        let wanted = self.unique_texts(self.visible_tools(catalog).cloned().collect()).await;
        self.forget(wanted.iter().map(|one| one.name)).await;
        self.fetch(catalog, Vec::new(), wanted, publish).await
    }

    /// Embeds tools like [`embed_tools`](Self::embed_tools), after a check of the dimensions: if the
    /// endpoint now sends vectors of another length, all of them are fetched again.
    pub(super) async fn refresh_if_dimensions_changed(
        &self,
        catalog: &Catalog,
        before: &ToolVectors,
        publish: Publish<'_>,
    ) -> Result<(), EmbeddingError> {
        if !before.is_empty() && !catalog.is_empty() {
            let found = self.endpoint.dimensions().await?;
            self.note_success();
            if found != before.dimensions() {
                return self.refetch_all(catalog, publish).await;
            }
        }
        self.embed_tools(catalog, before, publish).await
    }

    /// Returns the selected tools. The texts of others are not sent to the endpoint.
    fn visible_tools<'c>(&self, catalog: &'c Catalog) -> impl Iterator<Item = &'c Arc<Tool>> {
        catalog.iter().filter(|tool| self.selection.allows(tool))
    }

    /// Returns the texts of tools in their order, each once.
    async fn unique_texts(&self, tools: Vec<Arc<Tool>>) -> Vec<Wanted> {
        let settings = self.settings().clone();
        let made = tokio::task::spawn_blocking(move || {
            let mut wanted: Vec<Wanted> = Vec::new();
            let mut places: HashMap<Fingerprint, usize> = HashMap::new();
            for tool in tools {
                let text = tool_text(&tool);
                let name = Fingerprint::of(&settings, &settings.document_prefix, &text);
                let place = *places.entry(name).or_insert(wanted.len());
                match wanted.get_mut(place) {
                    Some(one) => one.tools.push(tool),
                    None => wanted.push(Wanted { name, text, tools: vec![tool] }),
                }
            }
            wanted
        });
        made.await.unwrap_or_default()
    }

    /// Fetches the vectors that are not in `rows`.
    async fn fetch(
        &self,
        catalog: &Catalog,
        rows: Vec<(Arc<Tool>, Arc<Direction>)>,
        missing: Vec<Wanted>,
        publish: Publish<'_>,
    ) -> Result<(), EmbeddingError> {
        let prefix = &self.settings().document_prefix;
        let texts: Vec<String> = missing.iter().map(|one| format!("{prefix}{}", one.text)).collect();
        let mut progress = Progress { rows, refused: 0, published: 0, tools: self.visible_tools(catalog).count() };
        progress.publish(self, publish);
        let (mut done, mut fruitless) = (0, 0);
        let outcome = loop {
            if done >= texts.len() || progress.is_full() {
                break Ok(());
            }
            let batch = match self.endpoint.embed_batch(&texts[done..]).await {
                Ok(batch) => batch,
                Err(error) => break Err(error),
            };
            self.note_success();
            match progress.take(&missing[done..], &batch.vectors) {
                Ok(new) => {
                    fruitless = if new.is_empty() { fruitless + 1 } else { 0 };
                    self.store_cached(new).await;
                }
                Err(error) => break Err(error),
            }
            done += batch.vectors.len();
            // The endpoint accepts something, but hardly any tool: then it is not asked about each
            // of them.
            if let Some(refusal) = batch.refusal.filter(|_| fruitless == MOST_FRUITLESS) {
                break Err(refusal);
            }
            if progress.is_worth_publishing() {
                progress.publish(self, publish);
            }
        };
        progress.publish(self, publish);
        outcome
    }
}

/// A table that grows.
struct Progress {
    rows: Vec<(Arc<Tool>, Arc<Direction>)>,
    refused: usize,
    /// The number of rows of the last published table.
    published: usize,
    tools: usize,
}

impl Progress {
    /// Adds one batch; returns the part of it that must be cached.
    fn take(
        &mut self,
        wanted: &[Wanted],
        batch: &[Option<Vec<f32>>],
    ) -> Result<Vec<(Fingerprint, Arc<Direction>)>, EmbeddingError> {
        let mut new = Vec::new();
        for (one, vector) in wanted.iter().zip(batch) {
            let Some(vector) = vector else {
                self.refused += one.tools.len();
                continue;
            };
            if self.is_full() {
                break;
            }
            let row = direction(vector)?;
            let expected = self.rows.first().map_or(row.dimensions(), |(_, row)| row.dimensions());
            if row.dimensions() != expected {
                return Err(EmbeddingError::Dimensions { expected, found: row.dimensions() });
            }
            self.rows.extend(one.tools.iter().map(|tool| (Arc::clone(tool), Arc::clone(&row))));
            new.push((one.name, row));
        }
        Ok(new)
    }

    /// Returns whether the table has grown enough to be published: the cost of a table is
    /// proportional to its rows, so each is half as large again as the previous one.
    fn is_worth_publishing(&self) -> bool {
        self.rows.len() > self.published + self.published / 2
    }

    fn is_full(&self) -> bool {
        is_full(&self.rows)
    }

    fn publish(&mut self, embedder: &Embedder, publish: Publish<'_>) {
        self.published = self.rows.len();
        let table = Arc::new(ToolVectors::new(self.rows.iter().cloned()));
        embedder.note_tools(&table, self.refused, self.tools);
        publish(&table);
    }
}

/// Returns whether a table must not grow any more.
fn is_full(rows: &[(Arc<Tool>, Arc<Direction>)]) -> bool {
    let dimensions = rows.first().map_or(0, |(_, row)| row.dimensions());
    rows.len().saturating_mul(dimensions) > TABLE_BYTES
}

/// Keeps the vectors of `ranker` current with the catalogs, until their sender is dropped.
pub(super) async fn keep_current(
    embedder: Arc<Embedder>,
    ranker: Arc<dyn Ranker>,
    mut catalogs: watch::Receiver<Option<Catalog>>,
) {
    let mut gone = catalogs.clone();
    let kept = async {
        if catalogs.wait_for(Option::is_some).await.is_err() {
            return;
        }
        let mut table = embedder.table();
        let (mut pause, mut check_at) = (INITIAL_BACKOFF, None);
        loop {
            let catalog = catalogs.borrow_and_update().clone().unwrap_or_else(Catalog::empty);
            let before = Arc::clone(&table);
            let mut publish = |new: &Arc<ToolVectors>| {
                ranker.use_vectors(new);
                table = Arc::clone(new);
            };
            let done = if check_at.take_if(|at| *at <= Instant::now()).is_some() {
                embedder.refresh_if_dimensions_changed(&catalog, &before, &mut publish).await
            } else {
                embedder.embed_tools(&catalog, &before, &mut publish).await
            };
            match done {
                Ok(()) => {
                    pause = INITIAL_BACKOFF;
                    if !wait_for_change(&embedder, &mut catalogs, &mut check_at).await {
                        return;
                    }
                }
                Err(error) => {
                    embedder.note_failure(&error);
                    // Vectors of another catalog may be cached.
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        changed = catalogs.changed() => if changed.is_err() { return },
                    }
                    pause = (pause * 2).min(MAX_BACKOFF);
                }
            }
        }
    };
    // A running request ends as well when the sender is dropped.
    tokio::select! {
        () = kept => {}
        () = async { while gone.changed().await.is_ok() {} } => {}
    }
}

/// Waits for another catalog or for the next check of the dimensions, whose time `check_at` keeps
/// across catalogs; `false` if the sender was dropped.
async fn wait_for_change(
    embedder: &Embedder,
    catalogs: &mut watch::Receiver<Option<Catalog>>,
    check_at: &mut Option<Instant>,
) -> bool {
    let looked = Instant::now();
    loop {
        let dimension_change = async {
            match *check_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => embedder.dimension_change.notified().await,
            }
        };
        tokio::select! {
            changed = catalogs.changed() => return changed.is_ok(),
            () = dimension_change => {}
        }
        if check_at.is_some() {
            return true;
        }
        *check_at = Some(looked + CHECK_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embeddings::EndpointSettings;

    #[tokio::test(start_paused = true)]
    async fn a_doubt_does_not_hide_another_catalog() {
        let embedder = Embedder::new(EndpointSettings::new("http://127.0.0.1:1", "m"), None).expect("an embedder");
        let (sender, mut catalogs) = watch::channel(None);
        let (start, mut check_at) = (Instant::now(), None);
        embedder.dimension_change.notify_one();
        // The doubt is noted first, and the catalog comes while it waits for its time.
        let other = async {
            tokio::time::sleep(CHECK_INTERVAL / 2).await;
            sender.send_replace(Some(Catalog::empty()));
        };
        let (is_next_one, ()) = tokio::join!(wait_for_change(&embedder, &mut catalogs, &mut check_at), other);
        assert!(is_next_one && catalogs.borrow_and_update().is_some());
        assert_eq!(
            (start.elapsed(), check_at),
            (CHECK_INTERVAL / 2, Some(start + CHECK_INTERVAL)),
            "the dimension_change is kept"
        );
        assert!(wait_for_change(&embedder, &mut catalogs, &mut check_at).await);
        assert_eq!(start.elapsed(), CHECK_INTERVAL);
        drop(sender);
        assert!(!wait_for_change(&embedder, &mut catalogs, &mut None).await);
    }
}
