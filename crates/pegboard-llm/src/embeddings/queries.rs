//! Vectors of queries, within the time that a search waits.

use std::{
    collections::HashMap,
    slice,
    sync::{Arc, atomic::Ordering},
};

use pegboard_core::{
    breaker::{Breaker, Transition},
    vectors::{Direction, QueryTexts, Vectors},
};
use tokio::time::Instant;

use super::{
    Batch, EmbeddingError,
    client::BATCH,
    embedder::{Embedder, lock},
};
use crate::causes::with_causes;

/// Whole texts of a call, of which no dialect has more than 16; and single requests within them.
const MAX_TEXTS: usize = BATCH;

/// Vectors by their texts.
type Rows = HashMap<String, Arc<Direction>>;

/// Which texts of a query are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Wholes,
    Requests,
}

impl Embedder {
    /// Returns the vectors of queries, within
    /// [`query_timeout`](super::EndpointSettings::query_timeout): whole texts first, single requests
    /// with the time that is left. Failures are logged and counted, and their vectors left out.
    /// Queries are only kept in memory, never on disk.
    pub async fn embed_queries(&self, queries: Vec<QueryTexts>) -> Vectors {
        // Without vectors of tools there is nothing to compare with.
        if self.dimensions.load(Ordering::Relaxed) == 0 {
            return Vectors::default();
        }
        let deadline = Instant::now() + self.settings().query_timeout;
        let (wholes, left_out) = fitting(queries.iter().map(|query| slice::from_ref(&query.whole)));
        self.skip(left_out);
        let mut rows = self.rows_of(wholes, Part::Wholes, deadline).await;
        // Requests say something beside the whole alone.
        let (alone, whole): (Vec<_>, Vec<_>) = queries.iter().partition(|query| !rows.contains_key(&query.whole));
        let (requests, left_out) = fitting(whole.iter().map(|query| &*query.requests));
        self.skip(left_out + alone.iter().map(|query| query.requests.len()).sum::<usize>());
        rows.extend(self.rows_of(requests, Part::Requests, deadline).await);
        rows.into_iter().map(|(text, row)| (text, row.to_vector())).collect()
    }

    /// Returns the vectors of these texts, from memory or from the endpoint.
    async fn rows_of(&self, texts: Vec<String>, part: Part, deadline: Instant) -> Rows {
        let dimensions = self.dimensions.load(Ordering::Relaxed);
        let (mut rows, mut missing) = (Rows::new(), Vec::new());
        {
            let mut recent = lock(&self.recent);
            for text in texts {
                // One that was on its way while all tools were embedded anew may be of the old
                // model.
                match recent.get(&text).filter(|row| row.dimensions() == dimensions) {
                    Some(row) => _ = rows.insert(text, row),
                    None => missing.push(text),
                }
            }
        }
        self.known.fetch_add(rows.len() as u64, Ordering::Relaxed);
        if !missing.is_empty() {
            rows.extend(self.fetch_unless_failing(missing, part, deadline).await);
        }
        rows
    }

    /// Fetches the vectors of texts, unless a circuit breaker is open or no permit comes in time.
    async fn fetch_unless_failing(&self, texts: Vec<String>, part: Part, deadline: Instant) -> Rows {
        let (count, now) = (texts.len(), Instant::now());
        // At least half of the time is left for the answer, so that many searches at once do not
        // look like a slow endpoint.
        let permit =
            tokio::time::timeout_at(now + deadline.duration_since(now) / 2, self.query_permits.acquire()).await;
        let pass = permit.is_ok().then(|| self.breaker_of(part).admit(Instant::now().into_std()).ok()).flatten();
        let Some(pass) = pass else {
            self.skip(count);
            return Rows::new();
        };
        let outcome = self.fetch_batch(&texts, deadline).await;
        let failure = outcome.as_ref().err().map(|error| with_causes(error).into());
        if pass.record(failure, Instant::now().into_std()) == Transition::Opened {
            tracing::debug!(?part, "embeddings circuit breaker opened");
        }
        match outcome {
            Ok(rows) => {
                self.note_success();
                let rows: Rows = texts.into_iter().zip(rows).filter_map(|(text, row)| Some((text, row?))).collect();
                self.fetched.fetch_add(rows.len() as u64, Ordering::Relaxed);
                self.failed.fetch_add((count - rows.len()) as u64, Ordering::Relaxed);
                let mut recent = lock(&self.recent);
                rows.iter().for_each(|(text, row)| recent.put(text, Arc::clone(row)));
                rows
            }
            Err(error) => {
                self.failed.fetch_add(count as u64, Ordering::Relaxed);
                // They had what the whole texts left of the time, which says nothing of the endpoint.
                if part == Part::Wholes || !matches!(error, EmbeddingError::Timeout(_)) {
                    self.note_failure(&error);
                }
                Rows::new()
            }
        }
    }

    fn breaker_of(&self, part: Part) -> &Breaker {
        match part {
            Part::Wholes => &self.breaker,
            Part::Requests => &self.requests_breaker,
        }
    }

    /// Counts texts that are not sent to the endpoint.
    fn skip(&self, count: usize) {
        self.skipped.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Fetches the vectors of texts in one request. A text that the endpoint rejects has none; the
    /// others are not affected.
    async fn fetch_batch(
        &self,
        texts: &[String],
        deadline: Instant,
    ) -> Result<Vec<Option<Arc<Direction>>>, EmbeddingError> {
        let prefix = &self.settings().query_prefix;
        let texts: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let mut batch = Batch::default();
        match tokio::time::timeout_at(deadline, self.endpoint.embed_into(&texts, &mut batch)).await {
            Ok(done) => done?,
            // Some texts were answered, so the endpoint itself works.
            Err(_) if batch.has_answered => {}
            Err(_) => return Err(EmbeddingError::Timeout(self.settings().query_timeout)),
        }
        let rows = batch.vectors.iter().map(|vector| self.check_dimensions(vector.as_deref())).collect();
        if matches!(rows, Err(EmbeddingError::Dimensions { .. })) {
            self.dimension_change.notify_one();
        }
        rows
    }
}

/// The texts of the first groups that go into one request, each once, and how many are left out.
/// Half of a group would be of no use. What is known takes its place too, so that the same queries
/// get the same vectors the next time.
fn fitting<'q>(groups: impl Iterator<Item = &'q [String]>) -> (Vec<String>, usize) {
    let (mut fitting, mut left_out): (Vec<String>, usize) = (Vec::new(), 0);
    for group in groups {
        let mut new: Vec<&String> = Vec::new();
        for text in group.iter().filter(|text| !text.trim().is_empty()) {
            if !fitting.contains(text) && !new.contains(&text) {
                new.push(text);
            }
        }
        if left_out > 0 || fitting.len() + new.len() > MAX_TEXTS {
            left_out += new.len();
        } else {
            fitting.extend(new.into_iter().cloned());
        }
    }
    (fitting, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_query_by_query() {
        let check = |groups: &[Vec<String>], expected: (usize, usize)| {
            let (texts, left_out) = fitting(groups.iter().map(|group| &**group));
            assert_eq!((texts.len(), left_out), expected, "{groups:?}");
        };
        let group = |name: &str, count: usize| (0..count).map(|at| format!("{name} {at}")).collect::<Vec<_>>();
        check(&[], (0, 0));
        check(&[vec!["a".into(), " ".into(), "a".into()], vec!["a".into()]], (1, 0));
        check(&[group("a", 16), group("b", 16)], (32, 0));
        check(&[group("a", 16), group("b", 15), group("c", 2), group("d", 1)], (31, 3));
        check(&[group("a", 33)], (0, 33));
    }
}
