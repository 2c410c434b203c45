//! Vectors of queries for programs that end with them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use pegboard_core::vectors::{Direction, Vectors};

use super::{EmbeddingError, Fingerprint, embedder::Embedder};

impl Embedder {
    /// [`queries`](Self::queries) for a program that ends with them: with the reason where they
    /// cannot be had. Each batch may take `limit`. Nothing is written down.
    ///
    /// # Errors
    /// When the endpoint fails or takes none of them, or its vectors cannot be compared with those
    /// of the tools.
    pub async fn once(&self, queries: &[String], limit: Duration) -> Result<Vectors, EmbeddingError> {
        let mut known = HashMap::new();
        self.add_missing(&self.named(queries), &mut known, limit, false).await
    }

    /// [`once`](Self::once) for queries that are asked again and again, as those of a
    /// measurement: known from the disk, and kept there.
    ///
    /// # Errors
    /// When the endpoint fails or takes none of them, or its vectors cannot be compared with those
    /// of the tools.
    pub async fn kept_queries(&self, queries: &[String], limit: Duration) -> Result<Vectors, EmbeddingError> {
        let named = self.named(queries);
        let mut known = self.on_disk(named.iter().map(|(name, _)| *name)).await;
        let expected = self.dimensions.load(Ordering::Relaxed);
        // The model under this name was another one.
        let old: Vec<Fingerprint> = known
            .iter()
            .filter(|(_, row)| expected != 0 && row.dimensions() != expected)
            .map(|(name, _)| *name)
            .collect();
        old.iter().for_each(|name| _ = known.remove(name));
        self.forget(old.into_iter()).await;
        self.add_missing(&named, &mut known, limit, true).await
    }

    /// Queries, each once, with the names of their vectors.
    fn named<'q>(&self, queries: &'q [String]) -> Vec<(Fingerprint, &'q String)> {
        let wanted: BTreeSet<&String> = queries.iter().filter(|query| !query.trim().is_empty()).collect();
        let (settings, prefix) = (self.settings(), &self.settings().query_prefix);
        wanted.into_iter().map(|query| (Fingerprint::of(settings, prefix, query), query)).collect()
    }

    /// Fetches those queries whose vectors are not among `known`.
    async fn add_missing(
        &self,
        named: &[(Fingerprint, &String)],
        known: &mut HashMap<Fingerprint, Arc<Direction>>,
        limit: Duration,
        is_kept: bool,
    ) -> Result<Vectors, EmbeddingError> {
        let prefix = &self.settings().query_prefix;
        let missing: Vec<&(Fingerprint, &String)> =
            named.iter().filter(|(name, _)| !known.contains_key(name)).collect();
        let texts: Vec<String> = missing.iter().map(|(_, query)| format!("{prefix}{query}")).collect();
        let (mut done, mut refusal) = (0, None);
        while done < texts.len() {
            let batch = tokio::time::timeout(limit, self.endpoint.embed_batch(&texts[done..]));
            let batch = batch.await.map_err(|_| EmbeddingError::Slow(limit))??;
            let mut new = Vec::new();
            for ((name, _), vector) in missing[done..].iter().zip(&batch.vectors) {
                new.extend(self.comparable(vector.as_deref())?.map(|row| (*name, row)));
            }
            done += batch.vectors.len();
            refusal = batch.refusal.or(refusal);
            known.extend(new.iter().cloned());
            if is_kept {
                self.to_disk(new).await;
            }
        }
        if let Some(refusal) = refusal.filter(|_| known.is_empty()) {
            return Err(refusal);
        }
        Ok(named.iter().filter_map(|(name, query)| Some(((*query).clone(), known.get(name)?.to_vector()))).collect())
    }
}
