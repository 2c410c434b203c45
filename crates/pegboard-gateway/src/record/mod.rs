//! What was searched for and what was called then, on disk, to measure rankers with.
//!
//! A record is a file of JSON Lines that only grows. It holds what models looked for, the tools
//! that they were offered and those that they called, and what the tools are; never arguments,
//! results or secrets. Whoever answers a request hands over what there is to note and goes on:
//! a thread of its own writes, and what it cannot keep up with is left out.
//!
//! A conversation is known by a number that means nothing elsewhere. Requests of protocol
//! versions without sessions belong to none, unless they come through a pipe; those of one
//! caller are kept together, as [a guess](Conversation::is_guess).

mod write;

use std::{
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::{SystemTime, UNIX_EPOCH},
};

use pegboard_core::{Catalog, Selection, Tool};
use pegboard_discovery::Answer;
use pegboard_mcp::json::Raw;
use serde::{Deserialize, Serialize};

pub use self::write::RecordError;
use crate::{caller::Caller, exchange::Exchange, ids::random_id};

/// The form of the lines.
pub const FORMAT: u32 = 1;

/// What may wait to be written.
const QUEUE: usize = 1024;

/// Bytes of a query that are kept. Rankers refuse longer ones.
const MAX_QUERY: usize = 16 << 10;

/// Tools of one search that are kept, best first.
const MAX_OFFERED: usize = 200;

/// A line of a record.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Line {
    /// A gateway begins to record.
    Begin {
        /// The form of what follows, [`FORMAT`].
        format: u32,
        /// The gateway's version.
        version: String,
        /// When, in milliseconds from 1970 on.
        at: u64,
    },
    /// What a tool is, from now on; in the form of a catalog, with its `id`.
    Tool(Raw),
    /// A search.
    Search(Search),
    /// A call of a tool.
    Call(ToolCall),
}

/// A search.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Search {
    /// When, in milliseconds from 1970 on.
    pub at: u64,
    /// Where.
    #[serde(flatten)]
    pub conversation: Conversation,
    /// What was looked for.
    pub query: String,
    /// How many tools there were to look through.
    pub tools: usize,
    /// The identities of those that were offered, best first.
    pub offered: Vec<String>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolCall {
    /// When, in milliseconds from 1970 on.
    pub at: u64,
    /// Where.
    #[serde(flatten)]
    pub conversation: Conversation,
    /// The identity of the tool.
    pub tool: String,
}

/// What belongs together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// Its name in this record.
    pub conversation: String,
    /// Whether it is only known that one caller made these requests, in one or in several
    /// conversations at a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_guess: bool,
}

/// What is to be noted.
enum Note {
    Line(Line),
    /// What there is now; tools that are known already are not written again.
    Tools(Catalog, Selection),
    /// There is nothing more.
    End,
}

/// Notes searches and calls.
#[derive(Debug)]
pub struct Recorder {
    queue: SyncSender<Note>,
    /// What the names of conversations begin with, so that those of several runs differ.
    run: String,
    is_late: AtomicBool,
}

/// The thread that writes, to be waited for when everything was noted.
#[derive(Debug)]
pub struct Writing(JoinHandle<()>);

impl Writing {
    /// Waits until everything is written, which [`Gateway::stop_recording`](crate::Gateway::stop_recording) begins. Blocks.
    pub fn finish(self) {
        let _ = self.0.join();
    }
}

impl Recorder {
    /// Opens a record, or goes on with one. It stops growing before it has more than
    /// `limit` bytes.
    ///
    /// # Errors
    /// When the file cannot be written, or is something else.
    pub fn open(path: PathBuf, limit: u64) -> Result<(Self, Writing), RecordError> {
        let mut file = write::Record::open(path, limit)?;
        let (queue, notes) = sync_channel(QUEUE);
        let run = random_id()[..8].to_owned();
        let writer = std::thread::Builder::new().name("record".to_owned());
        let writer = writer.spawn(move || file.follow(&notes)).map_err(RecordError::Thread)?;
        let recorder = Self { queue, run, is_late: AtomicBool::new(false) };
        recorder.note(Note::Line(Line::Begin {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: now(),
        }));
        Ok((recorder, Writing(writer)))
    }

    /// Hands something over, and never waits.
    fn note(&self, note: Note) {
        match self.queue.try_send(note) {
            Ok(()) => self.is_late.store(false, Ordering::Relaxed),
            // The writer has stopped, and has said why.
            Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                if !self.is_late.swap(true, Ordering::Relaxed) {
                    tracing::warn!("record incomplete: writing is too slow");
                }
            }
        }
    }

    fn conversation(&self, exchange: &Exchange) -> Conversation {
        let (name, is_guess) = match (&exchange.session, exchange.viewer.caller) {
            (Some(session), _) => (session.owner.to_string(), false),
            (None, Caller::Pipe) => ("pipe".to_owned(), false),
            (None, Caller::Anybody) => ("anybody".to_owned(), true),
            (None, Caller::Token(holder)) => (format!("token{}", holder.0), true),
        };
        Conversation { conversation: format!("{}-{name}", self.run), is_guess }
    }
}

/// Where searches and calls are noted, if they are.
#[derive(Debug, Default)]
pub(crate) struct Record(OnceLock<Recorder>);

impl Record {
    /// Notes searches and calls from now on; whether that is new.
    pub(crate) fn begin(&self, recorder: Recorder) -> bool {
        self.0.set(recorder).is_ok()
    }

    /// Notes nothing more.
    pub(crate) fn end(&self) {
        if let Some(recorder) = self.0.get() {
            recorder.note(Note::End);
        }
    }

    /// Notes what tools there are.
    pub(crate) fn tools(&self, catalog: Catalog, selection: &Selection) {
        if let Some(recorder) = self.0.get() {
            recorder.note(Note::Tools(catalog, selection.clone()));
        }
    }

    /// Notes what a call of a client led to.
    pub(crate) fn answer(&self, exchange: &Exchange, answer: &Answer) {
        let Some(recorder) = self.0.get() else { return };
        let conversation = recorder.conversation(exchange);
        for searched in &answer.searched {
            let mut query = searched.query.clone();
            query.truncate(query.floor_char_boundary(MAX_QUERY));
            let offered = searched.hits.iter().take(MAX_OFFERED).map(|tool| identity(tool)).collect();
            let (conversation, tools) = (conversation.clone(), searched.tools);
            let search = Search { at: now(), conversation, query, tools, offered };
            recorder.note(Note::Line(Line::Search(search)));
        }
        let target = answer.target.as_ref().filter(|target| target.id.is_some());
        if let Some(tool) = target.map(|target| named(target.server.as_deref(), &target.name)) {
            recorder.note(Note::Line(Line::Call(ToolCall { at: now(), conversation, tool })));
        }
    }
}

/// What a tool is called in a record and in `pegboard catalog`: names that are made for clients
/// change with the number of servers.
fn identity(tool: &Tool) -> String {
    named(tool.server_name(), tool.upstream_name())
}

fn named(server: Option<&str>, name: &str) -> String {
    server.map_or_else(|| name.to_owned(), |server| format!("{server}/{name}"))
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
