//! The state of an agent's conversation: kept consistent when a run is interrupted, saved to disk
//! and restored.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{self, BufWriter},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use pegboard_discovery::SessionError;
use pegboard_llm::{
    Conversation, Delivery, Model,
    wire::{CallResult, ToolCall, ToolChoice, Turn, Usage},
};
use pegboard_state::platform::restrict_to_owner;
use serde_json::{Value, json};

use crate::{
    agent::{EventSender, Shared},
    events::AgentEvent,
    run::add_usage,
    settings::Mode,
    sources::Sources,
};

/// The version of the saved format.
const FORMAT: u64 = 1;

/// Maximum size of a transcript in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The result of a call that was cancelled, for the model.
const GIVEN_UP: &str = "the call was cancelled before it returned; it may or may not have taken effect";

/// Maximum number of characters of the user's message in a summary.
const MAX_ASKED: usize = 4000;

/// Number of hexadecimal digits of a conversation's identifier.
pub(crate) const ID_DIGITS: usize = 16;

/// Why a saved conversation cannot be continued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write in the folder of `{}`", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another agent uses the file.
    #[error("`{}` is in use by another agent", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Both a saved conversation and a transcript with content were given.
    #[error("`{}` already contains another conversation than the one to resume", path.display())]
    TwoSources {
        /// The file.
        path: PathBuf,
    },
    /// The content is not a saved conversation.
    #[error("not a saved conversation: {reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
    /// The format has another version.
    #[error("the saved conversation has format {found}; this version reads format {FORMAT}")]
    Format {
        /// The version in the file.
        found: String,
    },
    /// The conversation was held with a model of another kind of provider.
    #[error("the saved conversation is with `{found}`; its messages cannot be sent to `{wanted}`")]
    OtherWire {
        /// The model in the file.
        found: String,
        /// The model of this agent.
        wanted: String,
    },
    /// The state of the session does not fit.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl ResumeError {
    /// Returns what the user can do about the error, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unwritable { .. } => Some("choose a file in a writable folder"),
            Self::InUse { .. } => Some("stop the other agent, or choose another file"),
            Self::TwoSources { .. } => Some("choose another file, or omit one of the two"),
            Self::OtherWire { .. } => Some("continue with a model of the same provider, or choose another file"),
            Self::Invalid { .. } | Self::Format { .. } => Some("choose another file; this one was not changed"),
            _ => None,
        }
    }
}

/// A conversation cannot be written to its transcript.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`", path.display())]
pub struct SaveError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub source: io::Error,
}

/// The state of one conversation, and the sources of its tools.
#[derive(Debug)]
pub(crate) struct ConversationState {
    pub(crate) id: String,
    pub(crate) conversation: Conversation,
    pub(crate) sources: Sources,
    /// The unanswered calls of the last turn, each with its result if there is one already.
    pending: Vec<(ToolCall, Option<CallResult>)>,
    /// Whether the model has not yet answered the last user message.
    pub(crate) is_unanswered: bool,
    /// The last prompt of the user, which a summary must not lose.
    pub(crate) asked: String,
    /// The token usage of all runs.
    pub(crate) spent: Usage,
    /// Number of tokens of the last request and its answer.
    pub(crate) context: u64,
    /// Number of tokens of a request below which compacting again is useless.
    pub(crate) compacts_above: u64,
    /// The delivery that was reported last.
    pub(crate) reported: Option<Delivery>,
    /// The number of hidden tools that was reported last.
    pub(crate) reported_hidden: usize,
}

impl ConversationState {
    pub(crate) fn new(id: String, conversation: Conversation, sources: Sources) -> Self {
        Self {
            id,
            conversation,
            sources,
            pending: Vec::new(),
            is_unanswered: false,
            asked: String::new(),
            spent: Usage::default(),
            context: 0,
            compacts_above: 0,
            reported: None,
            reported_hidden: 0,
        }
    }

    /// Adds a prompt of the user.
    pub(crate) fn add_prompt(&mut self, text: &str) {
        self.asked = text.chars().take(MAX_ASKED).collect();
        self.add_message(text);
    }

    pub(crate) fn add_message(&mut self, text: &str) {
        self.conversation.say(text);
        self.is_unanswered = true;
    }

    pub(crate) fn record_turn(&mut self, turn: &Turn) {
        self.pending = turn.calls.iter().map(|call| (call.clone(), None)).collect();
        self.is_unanswered = false;
        self.spent = add_usage(self.spent, turn.usage);
        self.context = turn.usage.input.saturating_add(turn.usage.output);
    }

    /// Records the result of a call, so that it is not lost if the run is interrupted.
    pub(crate) fn record_result(&mut self, place: usize, result: CallResult) {
        if let Some((_, noted)) = self.pending.get_mut(place) {
            *noted = Some(result);
        }
    }

    /// Adds the results of all pending calls to the conversation. A call without a result is
    /// reported as cancelled.
    pub(crate) fn commit_results(&mut self) {
        let given_up = |call: ToolCall| CallResult::error(call, GIVEN_UP);
        let pending = std::mem::take(&mut self.pending).into_iter();
        let results: Vec<CallResult> = pending.map(|(call, noted)| noted.unwrap_or_else(|| given_up(call))).collect();
        if !results.is_empty() {
            self.conversation.add_results(&results);
        }
    }

    /// Repairs a conversation that was interrupted, so that providers accept it: calls without a
    /// result get one, and a prompt without an answer is removed.
    pub(crate) fn repair_interrupted(&mut self) {
        self.conversation.set_tool_choice(ToolChoice::Auto);
        if std::mem::take(&mut self.is_unanswered) {
            self.conversation.remove_unanswered();
        }
        self.commit_results();
    }

    pub(crate) fn to_json(&self, mode: Mode) -> Value {
        let pending = |(call, noted): &(ToolCall, Option<CallResult>)| {
            let noted = noted.as_ref();
            json!({
                "id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "is_search": call.is_search,
                "text": noted.map(|result| &result.text),
                "is_error": noted.map(|result| result.is_error),
                "references": noted.map(|result| &result.references),
                "note": noted.and_then(|result| result.note.as_ref()),
            })
        };
        json!({
            "version": FORMAT,
            "id": self.id,
            "model": self.conversation.model().to_string(),
            "mode": mode.as_str(),
            "session": self.conversation.session().to_json(),
            "messages": self.conversation.messages(),
            "pending": self.pending.iter().map(pending).collect::<Vec<_>>(),
            "is_unanswered": self.is_unanswered,
            "asked": self.asked,
            "spent": {
                "input": self.spent.input,
                "cached": self.spent.cached,
                "cache_written": self.spent.cache_written,
                "output": self.spent.output,
            },
            "context": self.context,
        })
    }

    /// Restores a saved conversation.
    pub(crate) fn restore(&mut self, saved: &Value) -> Result<(), ResumeError> {
        let model = check(saved, &self.conversation)?;
        let garbled = |reason: &str| ResumeError::Invalid { reason: reason.to_owned() };
        let messages = saved["messages"].as_array().ok_or_else(|| garbled("`messages` is missing"))?;
        // In another dialect, only the history determines what was found.
        let is_same_dialect = saved["session"]["dialect"] == self.conversation.session().dialect_name().as_str();
        if is_same_dialect {
            self.conversation.session_mut().restore(&saved["session"])?;
        }
        self.conversation.resume_from(messages.clone(), &model);
        self.pending = saved["pending"].as_array().into_iter().flatten().map(read_pending).collect();
        self.is_unanswered = saved["is_unanswered"] == true;
        self.asked = saved["asked"].as_str().unwrap_or_default().to_owned();
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let spent = &saved["spent"];
        self.spent = Usage {
            input: number(&spent["input"]),
            cached: number(&spent["cached"]),
            cache_written: number(&spent["cache_written"]),
            output: number(&spent["output"]),
        };
        self.context = number(&saved["context"]);
        self.repair_interrupted();
        Ok(())
    }
}

fn read_pending(saved: &Value) -> (ToolCall, Option<CallResult>) {
    let call = ToolCall {
        id: saved["id"].as_str().unwrap_or_default().to_owned(),
        name: saved["name"].as_str().unwrap_or_default().to_owned(),
        arguments: saved["arguments"].clone(),
        is_search: saved["is_search"] == true,
    };
    let noted = saved["text"].as_str().map(|text| CallResult {
        call: call.clone(),
        text: text.to_owned(),
        is_error: saved["is_error"] == true,
        references: saved["references"].as_array().cloned().unwrap_or_default(),
        note: saved["note"].as_str().map(str::to_owned),
        metadata: None,
    });
    (call, noted)
}

/// Returns the identifier of a saved conversation if it is valid. It becomes part of paths.
pub(crate) fn saved_id(saved: &Value) -> Option<String> {
    let is_ours = |id: &&str| id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    saved["id"].as_str().filter(is_ours).map(str::to_owned)
}

/// Returns the model of a saved conversation, if this agent can continue it.
fn check(saved: &Value, conversation: &Conversation) -> Result<Model, ResumeError> {
    if saved["version"].as_u64() != Some(FORMAT) {
        let missing = || ResumeError::Invalid { reason: "`version` is missing".to_owned() };
        let found = saved.get("version").ok_or_else(missing)?.to_string();
        return Err(ResumeError::Format { found });
    }
    let found = saved["model"].as_str().unwrap_or_default();
    let model = Model::parse(found).ok().filter(|model| model.provider.wire() == conversation.wire());
    let wanted = || conversation.model().to_string();
    model.ok_or_else(|| ResumeError::OtherWire { found: found.to_owned(), wanted: wanted() })
}

/// Reads a saved conversation; `None` if there is none yet.
pub(crate) fn read_saved(path: &Path) -> Result<Option<Value>, ResumeError> {
    let unreadable = |source| ResumeError::Unreadable { path: path.to_owned(), source };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let length = file.metadata().map_err(unreadable)?.len();
    if length > MAX_BYTES {
        return Err(ResumeError::Invalid {
            reason: format!("`{}` has {length} bytes, over the limit of {MAX_BYTES}", path.display()),
        });
    }
    if length == 0 {
        return Ok(None);
    }
    let saved = serde_json::from_reader(io::BufReader::new(file));
    saved
        .map(Some)
        .map_err(|error| ResumeError::Invalid { reason: format!("`{}` is not valid JSON: {error}", path.display()) })
}

/// Writes the transcript file. Writes are numbered: a cancelled one may still be in progress and
/// must not overwrite a later one.
#[derive(Debug)]
pub(crate) struct TranscriptWriter {
    path: PathBuf,
    /// The numbers of the last write that was started and of the last that was finished.
    begun: AtomicU64,
    written: Mutex<u64>,
    /// Held for the life of the agent: two agents that write one file would destroy both
    /// conversations.
    _lock: File,
}

impl TranscriptWriter {
    /// Locks the file.
    pub(crate) fn new(path: PathBuf) -> Result<Self, ResumeError> {
        let unwritable = |source| ResumeError::Unwritable { path: path.clone(), source };
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".lock");
        let lock = open_private(&path.with_file_name(name), false).map_err(unwritable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, begun: AtomicU64::new(0), written: Mutex::new(0), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(ResumeError::InUse { path }),
            Err(TryLockError::Error(source)) => Err(ResumeError::Unwritable { path, source }),
        }
    }

    /// Writes the file atomically, readable only by its owner.
    fn write(&self, number: u64, state: &Value) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written > number {
            return Ok(());
        }
        let mut name = OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(format!(".{:016x}.tmp", random()?));
        let beside = self.path.with_file_name(name);
        let filled = open_private(&beside, true).and_then(|file| {
            let mut file = BufWriter::new(file);
            serde_json::to_writer(&mut file, state)?;
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        });
        let moved = filled.and_then(|()| fs::rename(&beside, &self.path));
        match moved {
            Ok(()) => *written = number,
            Err(_) => drop(fs::remove_file(&beside)),
        }
        moved
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Opens a file that only its owner may read.
fn open_private(path: &Path, is_new: bool) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(!is_new).create_new(is_new).truncate(false);
    restrict_to_owner(&mut options).open(path)
}

impl Shared {
    /// Writes the transcript, if there is one.
    pub(crate) async fn write_transcript(&self, state: &ConversationState) -> Result<(), SaveError> {
        let Some(writer) = self.transcript.clone() else { return Ok(()) };
        let number = writer.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let (state, path) = (state.to_json(self.mode), writer.path.clone());
        let written = tokio::task::spawn_blocking(move || writer.write(number, &state)).await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|source| SaveError { path, source })
    }

    /// Writes the transcript; a failure is only reported as a warning.
    pub(crate) async fn write_or_warn(&self, state: &ConversationState, events: &EventSender) {
        if let Err(error) = self.write_transcript(state).await {
            let _ = events.send(AgentEvent::Warning(format!("{error}: {}", error.source)));
        }
    }
}
