//! Vectors for the tools of a catalog, and of the next one.

use std::{collections::HashMap, sync::Arc, time::Duration};

use pegboard_core::{Catalog, Ranker, Tool, ToolVectors, vectors::Direction};
use tokio::{sync::watch, time::Instant};

use super::{
    EmbeddingError, Fingerprint,
    embedder::{Embedder, direction},
    text::tool_text,
};

/// How long to wait after a failure before the rest is tried; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(15);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// How often it is looked into whether the model behind the endpoint has become another one.
const DOUBT_EVERY: Duration = Duration::from_secs(60);

/// Bytes of all vectors of a table. Tools beyond it have none, and are ranked without.
const TABLE_BYTES: usize = 1 << 30;

/// Who is told of every table that is more complete than the one before.
pub(super) type Publish<'a> = &'a mut (dyn FnMut(&Arc<ToolVectors>) + Send);

/// The tools that share a text, and so a vector.
#[derive(Debug)]
struct Wanted {
    name: Fingerprint,
    text: String,
    tools: Vec<Arc<Tool>>,
}

impl Embedder {
    /// Gives every tool of `catalog` a vector: those of `before` are taken over, others are
    /// known from the disk or fetched. `publish` is told of each table on the way, so that
    /// searches need not wait for the last tool.
    ///
    /// # Errors
    /// When the endpoint fails. What it sent until then was published and kept.
    pub async fn tools(
        &self,
        catalog: &Catalog,
        before: &ToolVectors,
        publish: Publish<'_>,
    ) -> Result<(), EmbeddingError> {
        let mut rows: Vec<(Arc<Tool>, Arc<Direction>)> = Vec::with_capacity(catalog.len());
        let mut new: Vec<Arc<Tool>> = Vec::new();
        for tool in catalog.iter() {
            match before.row(tool) {
                Some(row) => rows.push((Arc::clone(tool), Arc::clone(row))),
                None => new.push(Arc::clone(tool)),
            }
        }
        let wanted = self.wanted(new).await;
        let known = self.on_disk(wanted.iter().map(|one| one.name)).await;
        let mut missing = Vec::new();
        for one in wanted {
            match known.get(&one.name) {
                Some(row) => rows.extend(one.tools.into_iter().map(|tool| (tool, Arc::clone(row)))),
                None => missing.push(one),
            }
        }
        let is_mixed = rows.windows(2).any(|pair| pair[0].1.dimensions() != pair[1].1.dimensions());
        if is_mixed {
            return self.all_anew(catalog, publish).await;
        }
        match self.fetch(catalog, rows, missing, publish).await {
            Err(EmbeddingError::Dimensions { .. }) => self.all_anew(catalog, publish).await,
            done => done,
        }
    }

    /// Fetches everything, whatever is known: the model behind the name has changed, and what
    /// the old one made cannot be compared with what the new one makes.
    async fn all_anew(&self, catalog: &Catalog, publish: Publish<'_>) -> Result<(), EmbeddingError> {
        tracing::info!("the embeddings endpoint has another model under the same name; all tools are embedded again");
        let wanted = self.wanted(catalog.iter().cloned().collect()).await;
        self.forget(wanted.iter().map(|one| one.name)).await;
        self.fetch(catalog, Vec::new(), wanted, publish).await
    }

    /// Whether the endpoint now sends vectors of another length than the tools have; then all
    /// of them are fetched again.
    pub(super) async fn look_again(
        &self,
        catalog: &Catalog,
        before: &ToolVectors,
        publish: Publish<'_>,
    ) -> Result<(), EmbeddingError> {
        let Some(first) = catalog.iter().next() else { return Ok(()) };
        let text = format!("{}{}", self.settings().document_prefix, tool_text(first));
        let found = self.endpoint.embed(&[text]).await?.first().map_or(0, Vec::len);
        if found == before.dimensions() { Ok(()) } else { self.all_anew(catalog, publish).await }
    }

    /// The texts of tools, in the order of the tools, each once.
    async fn wanted(&self, tools: Vec<Arc<Tool>>) -> Vec<Wanted> {
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

    /// Fetches what is missing beside `rows`.
    async fn fetch(
        &self,
        catalog: &Catalog,
        rows: Vec<(Arc<Tool>, Arc<Direction>)>,
        missing: Vec<Wanted>,
        publish: Publish<'_>,
    ) -> Result<(), EmbeddingError> {
        let prefix = &self.settings().document_prefix;
        let texts: Vec<String> = missing.iter().map(|one| format!("{prefix}{}", one.text)).collect();
        let mut progress = Progress { rows, refused: 0, published: 0, tools: catalog.len() };
        progress.publish(self, publish);
        let (mut done, mut outcome) = (0, Ok(()));
        while done < texts.len() && !progress.is_full() {
            let batch = match self.endpoint.embed_batch(&texts[done..]).await {
                Ok(batch) => batch,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            };
            self.note_success();
            match progress.take(&missing[done..], &batch) {
                Ok(new) => self.to_disk(new).await,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
            done += batch.len();
            if progress.is_worth_telling() {
                progress.publish(self, publish);
            }
        }
        progress.publish(self, publish);
        outcome
    }
}

/// A table that grows.
struct Progress {
    rows: Vec<(Arc<Tool>, Arc<Direction>)>,
    refused: usize,
    /// How many rows the last table had that was published.
    published: usize,
    tools: usize,
}

impl Progress {
    /// Takes in one batch; what of it is to be kept.
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

    /// A table costs as much as it has rows; each is half as large again as the one before.
    fn is_worth_telling(&self) -> bool {
        self.rows.len() > self.published + self.published / 2
    }

    fn is_full(&self) -> bool {
        let dimensions = self.rows.first().map_or(0, |(_, row)| row.dimensions());
        self.rows.len().saturating_mul(dimensions) > TABLE_BYTES
    }

    fn publish(&mut self, embedder: &Embedder, publish: Publish<'_>) {
        self.published = self.rows.len();
        let table = Arc::new(ToolVectors::new(self.rows.iter().cloned()));
        embedder.note_tools(table.dimensions(), table.len(), self.refused, self.tools);
        publish(&table);
    }
}

/// Keeps the vectors of `ranker` up to the catalogs that come by, until nobody sends any.
pub(super) async fn follow(
    embedder: Arc<Embedder>,
    ranker: Arc<dyn Ranker>,
    mut catalogs: watch::Receiver<Option<Catalog>>,
) {
    let mut gone = catalogs.clone();
    let kept = async {
        let mut table: Arc<ToolVectors> = Arc::default();
        let (mut pause, mut is_doubted) = (FIRST_PAUSE, false);
        loop {
            let catalog = catalogs.borrow_and_update().clone().unwrap_or_else(Catalog::empty);
            let before = Arc::clone(&table);
            let mut publish = |new: &Arc<ToolVectors>| {
                ranker.use_vectors(new);
                table = Arc::clone(new);
            };
            let done = if std::mem::take(&mut is_doubted) {
                embedder.look_again(&catalog, &before, &mut publish).await
            } else {
                embedder.tools(&catalog, &before, &mut publish).await
            };
            let looked = Instant::now();
            match done {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    tokio::select! {
                        changed = catalogs.changed() => if changed.is_err() { return },
                        () = embedder.doubt.notified() => {
                            tokio::time::sleep_until(looked + DOUBT_EVERY).await;
                            is_doubted = true;
                        }
                    }
                }
                Err(error) => {
                    embedder.note_failure(&error);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    };
    // A request that is under way ends as well when nobody is there to use what it brings.
    tokio::select! {
        () = kept => {}
        () = async { while gone.changed().await.is_ok() {} } => {}
    }
}
