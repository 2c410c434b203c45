//! Vectors of queries for programs that run one search or a measurement.

use std::{
    collections::{BTreeSet, HashMap},
    iter,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use pegboard_core::vectors::{Direction, QueryTexts, Vectors};
use tokio::time::Instant;

use super::{EmbeddingError, Fingerprint, embedder::Embedder};
use crate::causes::with_causes;

impl Embedder {
    /// Returns the vectors of one query, or the reason why the whole text has none. Its single
    /// requests use the time that is left of `limit`, and are left out on failure. Nothing is
    /// cached on disk.
    ///
    /// # Errors
    /// When the endpoint fails or does not take the text, or its vector cannot be compared with
    /// those of the tools.
    pub async fn embed_query(&self, query: &QueryTexts, limit: Duration) -> Result<Vectors, EmbeddingError> {
        let (began, mut known) = (Instant::now(), HashMap::new());
        let mut named = self.named(iter::once(&query.whole));
        self.add_missing(&named, &mut known, limit, false).await?;
        let requests = self.named(query.requests.iter());
        let left = limit.saturating_sub(began.elapsed());
        if let Err(error) = self.add_missing(&requests, &mut known, left, false).await {
            tracing::debug!("query ranked without embeddings of its parts: {}", with_causes(&error));
        }
        named.extend(requests);
        Ok(vectors(&named, &known))
    }

    /// Returns the vectors of queries that are repeated, such as those of a measurement, from the
    /// cache on disk or from the endpoint. Each batch may take `limit`.
    ///
    /// # Errors
    /// When the endpoint fails or takes none of the texts, or its vectors cannot be compared with
    /// those of the tools.
    pub async fn embed_cached_queries(
        &self,
        queries: &[QueryTexts],
        limit: Duration,
    ) -> Result<Vectors, EmbeddingError> {
        let named = self.named(queries.iter().flat_map(|query| iter::once(&query.whole).chain(&query.requests)));
        let mut known = self.load_cached(named.iter().map(|(name, _)| *name)).await;
        let expected = self.dimensions.load(Ordering::Relaxed);
        // The model under this name was another one.
        let old: Vec<Fingerprint> = known
            .iter()
            .filter(|(_, row)| expected != 0 && row.dimensions() != expected)
            .map(|(name, _)| *name)
            .collect();
        old.iter().for_each(|name| _ = known.remove(name));
        self.forget(old.into_iter()).await;
        self.add_missing(&named, &mut known, limit, true).await?;
        Ok(vectors(&named, &known))
    }

    /// Returns the texts, each once, with the fingerprints of their vectors.
    fn named<'q>(&self, texts: impl Iterator<Item = &'q String>) -> Vec<(Fingerprint, &'q String)> {
        let wanted: BTreeSet<&String> = texts.filter(|text| !text.trim().is_empty()).collect();
        let (settings, prefix) = (self.settings(), &self.settings().query_prefix);
        wanted.into_iter().map(|text| (Fingerprint::of(settings, prefix, text), text)).collect()
    }

    /// Fetches those texts whose vectors are not among `known`.
    async fn add_missing(
        &self,
        named: &[(Fingerprint, &String)],
        known: &mut HashMap<Fingerprint, Arc<Direction>>,
        limit: Duration,
        is_kept: bool,
    ) -> Result<(), EmbeddingError> {
        let prefix = &self.settings().query_prefix;
        let missing: Vec<&(Fingerprint, &String)> =
            named.iter().filter(|(name, _)| !known.contains_key(name)).collect();
        let texts: Vec<String> = missing.iter().map(|(_, text)| format!("{prefix}{text}")).collect();
        let (mut done, mut refusal) = (0, None);
        while done < texts.len() {
            let batch = tokio::time::timeout(limit, self.endpoint.embed_batch(&texts[done..]));
            let batch = batch.await.map_err(|_| EmbeddingError::Timeout(limit))??;
            let mut new = Vec::new();
            for ((name, _), vector) in missing[done..].iter().zip(&batch.vectors) {
                new.extend(self.check_dimensions(vector.as_deref())?.map(|row| (*name, row)));
            }
            done += batch.vectors.len();
            refusal = batch.refusal.or(refusal);
            known.extend(new.iter().cloned());
            if is_kept {
                self.store_cached(new).await;
            }
        }
        refusal.filter(|_| known.is_empty()).map_or(Ok(()), Err)
    }
}

/// Returns the vectors of those texts that have one.
fn vectors(named: &[(Fingerprint, &String)], known: &HashMap<Fingerprint, Arc<Direction>>) -> Vectors {
    named.iter().filter_map(|(name, text)| Some(((*text).clone(), known.get(name)?.to_vector()))).collect()
}
