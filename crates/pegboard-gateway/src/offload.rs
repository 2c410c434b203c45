//! Results that are too long to show, kept in memory for the callers who got them.
//!
//! A result is found by an unguessable reference, by the caller of the tool alone, until its
//! lifetime ends or newer results need its place.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
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
    by_party: HashMap<Party, PartyResults>,
    bytes: usize,
    next: u64,
}

/// The results of one party.
#[derive(Debug, Default)]
struct PartyResults {
    /// References, oldest first.
    references: BTreeMap<u64, String>,
    bytes: usize,
}

impl KeptResults {
    fn add(&mut self, reference: String, owner: ResultOwner, text: Arc<str>) {
        self.next += 1;
        let kept = KeptResult { text, owner, since: Instant::now(), number: self.next };
        let of_party = self.by_party.entry(kept.owner.party).or_default();
        of_party.references.insert(kept.number, reference.clone());
        of_party.bytes += kept.bytes();
        self.bytes += kept.bytes();
        self.by_reference.insert(reference, kept);
    }

    fn remove(&mut self, reference: &str) {
        let Some(gone) = self.by_reference.remove(reference) else { return };
        self.bytes -= gone.bytes();
        if let Some(of_party) = self.by_party.get_mut(&gone.owner.party) {
            of_party.references.remove(&gone.number);
            of_party.bytes -= gone.bytes();
            if of_party.references.is_empty() {
                self.by_party.remove(&gone.owner.party);
            }
        }
    }

    fn remove_expired(&mut self, lifetime: Duration) {
        let old = self.by_reference.iter().filter(|(_, kept)| kept.since.elapsed() >= lifetime);
        let old: Vec<String> = old.map(|(reference, _)| reference.clone()).collect();
        old.iter().for_each(|reference| self.remove(reference));
    }

    /// Returns whether there is room for a new result of a party if every other party keeps as many
    /// bytes as this result has.
    fn is_fair(&self, party: Party, bytes: usize, most: usize) -> bool {
        let others = self.by_party.iter().filter(|(other, _)| **other != party);
        let kept: usize = others.map(|(_, of_party)| of_party.bytes.min(bytes)).sum();
        kept.saturating_add(bytes) <= most
    }

    /// Removes results until all of them, with a new one of `bytes` bytes, have at most `most` bytes:
    /// the oldest of the party with the most bytes, the new ones included, so that one caller does not
    /// push out the results of the others.
    fn make_room(&mut self, new: Option<(Party, usize)>, most: usize) {
        let added = |party: Party| new.filter(|(of, _)| *of == party).map_or(0, |(_, bytes)| bytes);
        let bytes = new.map_or(0, |(_, bytes)| bytes);
        while self.bytes + bytes > most {
            let share = |(party, of_party): &(&Party, &PartyResults)| {
                (
                    of_party.bytes + added(**party),
                    Reverse(of_party.references.first_key_value().map(|(number, _)| *number)),
                )
            };
            let largest = self.by_party.iter().max_by_key(share);
            let Some(oldest) = largest.and_then(|(_, of_party)| of_party.references.values().next().cloned()) else {
                return;
            };
            self.remove(&oldest);
        }
    }
}

/// A result is too large to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResultTooLarge {
    /// It is larger than all results together may be.
    #[error("its result is {bytes} bytes, over the limit of {most} (`offload.maxBytes`); ask the tool for less")]
    Alone { bytes: usize, most: usize },
    /// It would push out smaller results of other callers.
    #[error(
        "its result is {bytes} bytes, over your share of the {most} bytes that all callers have (`offload.maxBytes`); ask \
         the tool for less"
    )]
    Shared { bytes: usize, most: usize },
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
            return Err(ResultTooLarge::Alone { bytes, most });
        }
        let reference = format!("result_{}", random_id());
        let mut kept = lock(&self.kept);
        kept.remove_expired(settings.lifetime);
        if !kept.is_fair(owner.party, bytes + OVERHEAD, most) {
            return Err(ResultTooLarge::Shared { bytes, most });
        }
        kept.make_room(Some((owner.party, bytes + OVERHEAD)), most);
        kept.add(reference.clone(), owner, text);
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
        let turn = match is_short {
            true => None,
            false => Some(self.queue.acquire(whose, TURN_WAIT).await.map_err(|_| ResultError::Busy)?),
        };
        let (program, tokens) = (settings.program.clone(), answer_tokens(settings.tokens));
        let (is_search, search, query) =
            (matches!(request, Request::Search { .. }), self.search.clone(), self.query.clone());
        let reading = async move {
            // Kept for as long as a processor is busy.
            let _turn = turn;
            let reader = Reader { program: program.as_ref(), search: &search, query: &query, tokens };
            reader.answer(Source::Text(text), request).await
        };
        if !is_search {
            return Ok(reading.await?);
        }
        // A thread cannot be stopped: a search whose caller has gone keeps its turn until its end.
        Ok(tokio::spawn(reading).await.map_err(ReadError::Cancelled)??)
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
                kept.make_room(None, settings.max_bytes);
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
