//! Results that are too long to show, kept in memory for the callers who got them.
//!
//! A result is found by an unguessable reference, by the caller of the tool alone, until its
//! lifetime ends or newer results need its place.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_outputs::{Program, QueryLimits, ReadError, Reader, SearchLimits, Source, answer_tokens};
use pegboard_upstream::{CallQueue, CallerKey};
use serde_json::Value;
use tokio::time::Instant;

use crate::{caller::Caller, ids::random_id, lock, shares::Party};

/// Searches and queries at the same time; each keeps a processor busy.
const READS_AT_ONCE: usize = 2;

/// How long a search or a query waits for its turn.
const TURN_WAIT: Duration = Duration::from_secs(30);

/// Memory of the process of one query. There, JSON takes up to fifteen times its size.
const QUERY_MEMORY: u64 = 512 << 20;

/// Number of bytes that a result takes in addition to its text.
const OVERHEAD: usize = 512;

/// When results are offloaded, and for how long they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffloadSettings {
    /// Results of more tokens than this (estimated) are offloaded.
    pub tokens: usize,
    /// How long a result is kept.
    pub lifetime: Duration,
    /// Bytes of all results together; the oldest of the caller with the most bytes make room.
    pub max_bytes: usize,
    /// The program that runs jq filters. `None` answers them with an error.
    pub program: Option<Program>,
}

impl Default for OffloadSettings {
    fn default() -> Self {
        Self { tokens: 10_000, lifetime: Duration::from_secs(30 * 60), max_bytes: 256 << 20, program: None }
    }
}

/// The owner of a result.
#[derive(Clone, Debug)]
pub(crate) struct ResultOwner {
    pub(crate) caller: Caller,
    /// Whose share of the memory it takes.
    pub(crate) party: Party,
    /// The server that it came from.
    pub(crate) server: Arc<str>,
}

#[derive(Debug)]
struct KeptResult {
    text: Arc<str>,
    owner: ResultOwner,
    since: Instant,
    /// Grows with every result.
    number: u64,
}

impl KeptResult {
    fn bytes(&self) -> usize {
        self.text.len() + OVERHEAD
    }
}

#[derive(Debug, Default)]
struct KeptResults {
    by_reference: HashMap<String, KeptResult>,
    bytes: usize,
    next: u64,
}

impl KeptResults {
    fn remove(&mut self, reference: &str) {
        if let Some(gone) = self.by_reference.remove(reference) {
            self.bytes -= gone.bytes();
        }
    }

    fn remove_expired(&mut self, lifetime: Duration) {
        let old = self.by_reference.iter().filter(|(_, kept)| kept.since.elapsed() >= lifetime);
        let old: Vec<String> = old.map(|(reference, _)| reference.clone()).collect();
        old.iter().for_each(|reference| self.remove(reference));
    }

    /// Removes results until all of them have at most `most` bytes: the oldest of the party with the
    /// most bytes, so that one caller does not push out the results of the others.
    fn make_room(&mut self, most: usize) {
        while self.bytes > most {
            let mut shares: HashMap<Party, usize> = HashMap::new();
            for kept in self.by_reference.values() {
                *shares.entry(kept.owner.party).or_default() += kept.bytes();
            }
            let order = |kept: &KeptResult| {
                (std::cmp::Reverse(shares.get(&kept.owner.party).copied().unwrap_or_default()), kept.number)
            };
            let first = self.by_reference.iter().min_by_key(|(_, kept)| order(kept));
            let Some(first) = first.map(|(reference, _)| reference.clone()) else { return };
            self.remove(&first);
        }
    }
}

/// A result is larger than all results together may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its result is {bytes} bytes, over the limit of {most} (`offload.maxBytes`); ask the tool for less")]
pub(crate) struct ResultTooLarge {
    bytes: usize,
    most: usize,
}

/// Why a result cannot be read; the model gets it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResultError {
    /// The same words for every reason, so that references cannot be tried out.
    #[error(
        "unknown reference `{reference}`: results are kept for {lifetime}, and the oldest are removed above {most} bytes \
         in all (`offload`); call the tool again"
    )]
    Unknown { reference: String, lifetime: String, most: usize },
    #[error("the gateway is busy with other results; try again")]
    Busy,
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl ResultError {
    /// Returns the error as a text for the model.
    pub(crate) fn to_text(&self) -> String {
        let hint = match self {
            // How the program of the gateway is found does not concern the model.
            Self::Unknown { .. } | Self::Busy | Self::Read(ReadError::NoProgram | ReadError::OtherProgram(_)) => None,
            Self::Read(error) => error.hint(),
        };
        hint.map_or_else(|| self.to_string(), |hint| format!("{self}; {hint}"))
    }
}

/// All results that are kept.
#[derive(Debug)]
pub(crate) struct OffloadedResults {
    kept: Mutex<KeptResults>,
    queue: Arc<CallQueue>,
    search: SearchLimits,
    query: QueryLimits,
}

impl Default for OffloadedResults {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            queue: CallQueue::new(READS_AT_ONCE),
            search: SearchLimits::default(),
            query: QueryLimits { memory_bytes: QUERY_MEMORY, ..QueryLimits::default() },
        }
    }
}

impl OffloadedResults {
    /// Keeps a result, and returns its reference. Older results may make room.
    ///
    /// # Errors
    /// When it is larger than all results together may be.
    pub(crate) fn keep(
        &self,
        settings: &OffloadSettings,
        owner: ResultOwner,
        text: Arc<str>,
    ) -> Result<String, ResultTooLarge> {
        let (bytes, most) = (text.len(), settings.max_bytes);
        if bytes.saturating_add(OVERHEAD) > most {
            return Err(ResultTooLarge { bytes, most });
        }
        let reference = format!("result_{}", random_id());
        let mut kept = lock(&self.kept);
        kept.remove_expired(settings.lifetime);
        kept.make_room(most - bytes - OVERHEAD);
        kept.next += 1;
        kept.bytes += bytes + OVERHEAD;
        let result = KeptResult { text, owner, since: Instant::now(), number: kept.next };
        kept.by_reference.insert(reference.clone(), result);
        Ok(reference)
    }

    /// Returns the answer to a call of `read_result`.
    ///
    /// # Errors
    /// When the caller has no such result, or the part cannot be read.
    pub(crate) async fn read(
        &self,
        settings: &OffloadSettings,
        caller: Caller,
        party: Party,
        is_visible: &(dyn Fn(&str) -> bool + Sync),
        arguments: &Value,
    ) -> Result<String, ResultError> {
        use pegboard_discovery::host::{arguments::Request, results};
        let (reference, request) = results::parse(arguments).map_err(ReadError::from)?;
        let found = self.find(settings, caller, is_visible, &reference);
        let text = found.ok_or_else(|| ResultError::Unknown {
            reference: crate::text::shorten(&reference),
            lifetime: duration_text(settings.lifetime),
            most: settings.max_bytes,
        })?;
        let is_short = matches!(request, Request::Read { .. } | Request::Lines { .. });
        let whose = CallerKey { party: Some(party.key()), member: 0 };
        let _turn = match is_short {
            true => None,
            false => Some(self.queue.acquire(whose, TURN_WAIT).await.map_err(|_| ResultError::Busy)?),
        };
        let (program, tokens) = (settings.program.as_ref(), answer_tokens(settings.tokens));
        let reader = Reader { program, search: &self.search, query: &self.query, tokens };
        Ok(reader.answer(Source::Text(text), request).await?)
    }

    /// Returns a result of a caller who may still see something of its server.
    fn find(
        &self,
        settings: &OffloadSettings,
        caller: Caller,
        is_visible: &(dyn Fn(&str) -> bool + Sync),
        reference: &str,
    ) -> Option<Arc<str>> {
        let mut kept = lock(&self.kept);
        kept.remove_expired(settings.lifetime);
        let found = kept.by_reference.get(reference.trim())?;
        let is_theirs = found.owner.caller == caller && is_visible(&found.owner.server);
        is_theirs.then(|| Arc::clone(&found.text))
    }

    /// Removes results that are too old, or all of them if nothing is offloaded any more.
    pub(crate) fn sweep(&self, settings: Option<&OffloadSettings>) {
        let mut kept = lock(&self.kept);
        match settings {
            Some(settings) => {
                kept.remove_expired(settings.lifetime);
                kept.make_room(settings.max_bytes);
            }
            None => *kept = KeptResults { next: kept.next, ..KeptResults::default() },
        }
    }
}

/// Returns a duration for people and models, such as `30 min`.
pub(crate) fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        _ if seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests;
