//! Records of searches and of the calls that followed them, on disk, for measuring rankers.
//!
//! A record is a file of JSON Lines that only grows. It holds what models looked for, the tools
//! that they were offered and those that they called, and what the tools are; never arguments,
//! results or secrets. The thread that answers a request passes its notes on and continues: a
//! thread of its own writes, and what it cannot keep up with is left out.
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
use pegboard_discovery::CallAnswer;
use pegboard_mcp::json::Raw;
use serde::{Deserialize, Serialize};

pub use self::write::RecordError;
pub(crate) use self::write::catalog_entry;
use crate::{caller::Caller, exchange::Exchange, ids::random_id};

/// The version of the format of the lines.
pub const FORMAT: u32 = 1;

/// Maximum number of notes that wait to be written.
const QUEUE: usize = 1024;

/// Maximum number of recorded bytes of a query. Rankers reject longer ones.
const MAX_QUERY: usize = 16 << 10;

/// Maximum number of recorded tools of one search, best first.
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

/// The conversation that a line belongs to.
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

/// One event to record.
enum Note {
    Line(Line),
    /// What there is now; tools that are known already are not written again.
    Tools(Catalog, Selection),
    /// There is nothing more.
    End,
}

/// Records searches and calls.
#[derive(Debug)]
pub struct Recorder {
    queue: SyncSender<Note>,
    /// What the names of conversations begin with, so that those of several runs differ.
    run: String,
    is_late: AtomicBool,
}

/// The thread that writes the record, to be joined at the end.
#[derive(Debug)]
pub struct RecordWriter(JoinHandle<()>);

impl RecordWriter {
    /// Waits until everything is written, after
    /// [`Gateway::stop_recording`](crate::Gateway::stop_recording). Blocks.
    pub fn finish(self) {
        let _ = self.0.join();
    }
}

impl Recorder {
    /// Opens a record, or continues one. It stops growing before it exceeds `limit` bytes.
    ///
    /// # Errors
    /// When the file cannot be written, or is something else.
    pub fn open(path: PathBuf, limit: u64) -> Result<(Self, RecordWriter), RecordError> {
        let mut file = write::RecordFile::open(path, limit)?;
        let (queue, notes) = sync_channel(QUEUE);
        let run = random_id()[..8].to_owned();
        let writer = std::thread::Builder::new().name("record".to_owned());
        let writer = writer.spawn(move || file.write_notes(&notes)).map_err(RecordError::Thread)?;
        let recorder = Self { queue, run, is_late: AtomicBool::new(false) };
        recorder.send(Note::Line(Line::Begin {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: now(),
        }));
        Ok((recorder, RecordWriter(writer)))
    }

    /// Passes a note to the writer, without waiting.
    fn send(&self, note: Note) {
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

/// The recorder of a gateway, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Record(OnceLock<Recorder>);

impl Record {
    /// Records searches and calls from now on; `false` if a record was already open.
    pub(crate) fn begin(&self, recorder: Recorder) -> bool {
        self.0.set(recorder).is_ok()
    }

    /// Stops recording.
    pub(crate) fn end(&self) {
        if let Some(recorder) = self.0.get() {
            recorder.send(Note::End);
        }
    }

    /// Records the available tools.
    pub(crate) fn record_tools(&self, catalog: Catalog, selection: &Selection) {
        if let Some(recorder) = self.0.get() {
            recorder.send(Note::Tools(catalog, selection.clone()));
        }
    }

    /// Records the answer to a call of a client.
    pub(crate) fn record_answer(&self, exchange: &Exchange, answer: &CallAnswer) {
        let Some(recorder) = self.0.get() else { return };
        let conversation = recorder.conversation(exchange);
        for searched in &answer.searched {
            let mut query = searched.query.clone();
            query.truncate(query.floor_char_boundary(MAX_QUERY));
            let offered = searched.hits.iter().take(MAX_OFFERED).map(|tool| identity(tool)).collect();
            let (conversation, tools) = (conversation.clone(), searched.tools);
            let search = Search { at: now(), conversation, query, tools, offered };
            recorder.send(Note::Line(Line::Search(search)));
        }
        let target = answer.target.as_ref().filter(|target| target.id.is_some());
        if let Some(tool) = target.map(|target| qualified_name(target.server.as_deref(), &target.name)) {
            recorder.send(Note::Line(Line::Call(ToolCall { at: now(), conversation, tool })));
        }
    }
}

/// Returns the name of a tool in a record and in `pegboard catalog`: names for clients depend on
/// the number of servers.
pub(crate) fn identity(tool: &Tool) -> String {
    qualified_name(tool.server_name(), tool.upstream_name())
}

fn qualified_name(server: Option<&str>, name: &str) -> String {
    server.map_or_else(|| name.to_owned(), |server| format!("{server}/{name}"))
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
