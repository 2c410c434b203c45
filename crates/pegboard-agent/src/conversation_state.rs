//! The conversation of an agent: what must be kept consistent whatever interrupts it, and how
//! it gets to disk and back.

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
    agent::{Shared, Tell},
    events::Event,
    run::add,
    settings::Mode,
    sources::Sources,
};

/// The version of the saved form.
const FORMAT: u64 = 1;

/// Bytes of a transcript; a larger one is refused.
const MAX_BYTES: u64 = 256 << 20;

/// What a model reads of a call that was given up.
const GIVEN_UP: &str = "the call was cancelled before it returned; it may or may not have taken effect";

/// Characters of a question that a summary repeats.
const MAX_ASKED: usize = 4000;

/// Hexadecimal digits of a conversation's name.
pub(crate) const ID_DIGITS: usize = 16;

/// Why a saved conversation cannot be gone on with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It could not be kept there.
    #[error("cannot write in the folder of `{}`", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another agent keeps its conversation there.
    #[error("`{}` is in use by another agent", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// There are two to go on with.
    #[error("`{}` already contains another conversation than the one to resume", path.display())]
    Two {
        /// The file.
        path: PathBuf,
    },
    /// It is no saved conversation.
    #[error("not a saved conversation: {reason}")]
    Garbled {
        /// What is wrong.
        reason: String,
    },
    /// It is of another form.
    #[error("the saved conversation has format {found}; this version reads format {FORMAT}")]
    Format {
        /// What it says of itself.
        found: String,
    },
    /// It was held with another kind of provider.
    #[error("the saved conversation is with `{found}`; its messages cannot be sent to `{wanted}`")]
    OtherWire {
        /// The model it was held with.
        found: String,
        /// The model that should go on.
        wanted: String,
    },
    /// Its tool state does not fit.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl ResumeError {
    /// What can be done about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unwritable { .. } => Some("choose a file in a writable folder"),
            Self::InUse { .. } => Some("stop the other agent, or choose another file"),
            Self::Two { .. } => Some("choose another file, or omit one of the two"),
            Self::OtherWire { .. } => Some("continue with a model of the same provider, or choose another file"),
            Self::Garbled { .. } | Self::Format { .. } => Some("choose another file; this one was not changed"),
            _ => None,
        }
    }
}

/// Why a conversation cannot be saved.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`", path.display())]
pub struct SaveError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// One conversation, and the tools that can be found in it.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) id: String,
    pub(crate) conversation: Conversation,
    pub(crate) sources: Sources,
    /// Calls of the last turn that are not answered yet, each with its result if it has one.
    pending: Vec<(ToolCall, Option<CallResult>)>,
    /// Whether the person has said something that the model has not answered.
    pub(crate) is_unanswered: bool,
    /// What the person asked last, for a summary that must not lose it.
    pub(crate) asked: String,
    /// What all runs together cost.
    pub(crate) spent: Usage,
    /// Tokens of the last request and its answer.
    pub(crate) context: u64,
    /// Tokens of a request below which there is no use in compacting again.
    pub(crate) compacts_above: u64,
    /// The delivery that was reported last.
    pub(crate) reported: Option<Delivery>,
    /// How many tools were reported as hidden.
    pub(crate) reported_hidden: usize,
}

impl Talk {
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

    /// What the person says.
    pub(crate) fn ask(&mut self, text: &str) {
        self.asked = text.chars().take(MAX_ASKED).collect();
        self.say(text);
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.conversation.say(text);
        self.is_unanswered = true;
    }

    pub(crate) fn heard(&mut self, turn: &Turn) {
        self.pending = turn.calls.iter().map(|call| (call.clone(), None)).collect();
        self.is_unanswered = false;
        self.spent = add(self.spent, turn.usage);
        self.context = turn.usage.input.saturating_add(turn.usage.output);
    }

    /// Takes note of a result, so that it is not lost if the others never come.
    pub(crate) fn note(&mut self, place: usize, result: CallResult) {
        if let Some((_, noted)) = self.pending.get_mut(place) {
            *noted = Some(result);
        }
    }

    /// Puts the results of all calls into the conversation. A call without one is given up.
    pub(crate) fn answer(&mut self) {
        let given_up = |call: ToolCall| CallResult::error(call, GIVEN_UP);
        let pending = std::mem::take(&mut self.pending).into_iter();
        let results: Vec<CallResult> = pending.map(|(call, noted)| noted.unwrap_or_else(|| given_up(call))).collect();
        if !results.is_empty() {
            self.conversation.add_results(&results);
        }
    }

    /// Brings a conversation that was interrupted into a state that providers take: calls
    /// without a result get one, and a question without an answer is taken back.
    pub(crate) fn settle(&mut self) {
        self.conversation.set_tool_choice(ToolChoice::Auto);
        if std::mem::take(&mut self.is_unanswered) {
            self.conversation.remove_unanswered();
        }
        self.answer();
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

    /// Goes on with what was saved.
    pub(crate) fn restore(&mut self, saved: &Value) -> Result<(), ResumeError> {
        let model = check(saved, &self.conversation)?;
        let garbled = |reason: &str| ResumeError::Garbled { reason: reason.to_owned() };
        let messages = saved["messages"].as_array().ok_or_else(|| garbled("`messages` is missing"))?;
        // In another dialect the history alone says what was found.
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
        self.settle();
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

/// The name under which a saved conversation keeps its files, if it is one that we give. It
/// becomes part of paths.
pub(crate) fn saved_id(saved: &Value) -> Option<String> {
    let is_ours = |id: &&str| id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    saved["id"].as_str().filter(is_ours).map(str::to_owned)
}

/// The model that a saved conversation was held with, if that can be gone on with.
fn check(saved: &Value, conversation: &Conversation) -> Result<Model, ResumeError> {
    if saved["version"].as_u64() != Some(FORMAT) {
        let found = saved.get("version").map_or_else(|| "none".to_owned(), Value::to_string);
        return Err(ResumeError::Format { found });
    }
    let found = saved["model"].as_str().unwrap_or_default();
    let model = Model::parse(found).ok().filter(|model| model.provider.wire() == conversation.wire());
    let wanted = || conversation.model().to_string();
    model.ok_or_else(|| ResumeError::OtherWire { found: found.to_owned(), wanted: wanted() })
}

/// Reads a saved conversation; `None` when there is none yet.
pub(crate) fn read(path: &Path) -> Result<Option<Value>, ResumeError> {
    let unreadable = |source| ResumeError::Unreadable { path: path.to_owned(), source };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let length = file.metadata().map_err(unreadable)?.len();
    if length > MAX_BYTES {
        return Err(ResumeError::Garbled {
            reason: format!("the file is {length} bytes, over the limit of {MAX_BYTES}"),
        });
    }
    if length == 0 {
        return Ok(None);
    }
    let saved = serde_json::from_reader(io::BufReader::new(file));
    saved.map(Some).map_err(|error| ResumeError::Garbled { reason: error.to_string() })
}

/// Writes the transcript, one step at a time. A step that was given up may still be on its way
/// to the disk; it must not overtake a later one.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    /// The number of the last step that was begun, and of the last that was written.
    begun: AtomicU64,
    written: Mutex<u64>,
    /// Held as long as the agent lives: two that write one file would lose both.
    _lock: File,
}

impl Writer {
    /// Makes the file ours.
    pub(crate) fn new(path: PathBuf) -> Result<Self, ResumeError> {
        let unwritable = |source| ResumeError::Unwritable { path: path.clone(), source };
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".lock");
        let lock = owned(&path.with_file_name(name), false).map_err(unwritable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, begun: AtomicU64::new(0), written: Mutex::new(0), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(ResumeError::InUse { path }),
            Err(TryLockError::Error(source)) => Err(ResumeError::Unwritable { path, source }),
        }
    }

    /// Writes so that a crash leaves the old file or the new one, readable for the owner alone.
    fn write(&self, number: u64, state: &Value) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written > number {
            return Ok(());
        }
        let mut name = OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(format!(".{:016x}.tmp", random()?));
        let beside = self.path.with_file_name(name);
        let filled = owned(&beside, true).and_then(|file| {
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

/// Opens a file that its owner alone may read.
fn owned(path: &Path, is_new: bool) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(!is_new).create_new(is_new).truncate(false);
    restrict_to_owner(&mut options).open(path)
}

impl Shared {
    /// Writes the transcript, where there is one.
    pub(crate) async fn write(&self, talk: &Talk) -> Result<(), SaveError> {
        let Some(writer) = self.transcript.clone() else { return Ok(()) };
        let number = writer.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let (state, path) = (talk.to_json(self.mode), writer.path.clone());
        let written = tokio::task::spawn_blocking(move || writer.write(number, &state)).await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|source| SaveError { path, source })
    }

    /// [`write`](Self::write); a failure does not end the run.
    pub(crate) async fn keep(&self, talk: &Talk, tell: &Tell) {
        if let Err(error) = self.write(talk).await {
            let _ = tell.send(Event::Warning(format!("{error}: {}", error.source)));
        }
    }
}
