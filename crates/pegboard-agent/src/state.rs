//! The conversation of an agent: what must be kept consistent whatever interrupts it, and how
//! it gets to disk and back.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use pegboard_discovery::SessionError;
use pegboard_llm::{
    Conversation,
    wire::{CallResult, ToolCall, ToolChoice, Turn, Usage},
};
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
const GIVEN_UP: &str = "the call was given up before it had a result; whether it took effect is not known";

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
    /// It is no saved conversation.
    #[error("not a saved conversation: {reason}")]
    Garbled {
        /// What is wrong.
        reason: String,
    },
    /// It is of another form.
    #[error("a conversation of format {found}, this build reads {FORMAT}")]
    Format {
        /// What it says of itself.
        found: String,
    },
    /// It was held with another kind of provider.
    #[error("a conversation with `{found}`, whose messages are not those of `{wanted}`")]
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
    /// Calls of the last turn that have no result yet.
    pending: Vec<ToolCall>,
    /// Whether the person has said something that the model has not answered.
    pub(crate) is_unanswered: bool,
    /// What all runs together cost.
    pub(crate) spent: Usage,
    /// Tokens of the last request and its answer.
    pub(crate) context: u64,
}

impl Talk {
    pub(crate) fn new(id: String, conversation: Conversation, sources: Sources) -> Self {
        Self {
            id,
            conversation,
            sources,
            pending: Vec::new(),
            is_unanswered: false,
            spent: Usage::default(),
            context: 0,
        }
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.conversation.say(text);
        self.is_unanswered = true;
    }

    pub(crate) fn heard(&mut self, turn: &Turn) {
        self.pending = turn.calls.clone();
        self.is_unanswered = false;
        self.spent = add(self.spent, turn.usage);
        self.context = turn.usage.input + turn.usage.output;
    }

    pub(crate) fn answer(&mut self, results: &[CallResult]) {
        self.conversation.answer(results);
        self.pending.clear();
    }

    /// Brings a conversation that was interrupted into a state that providers take: calls
    /// without a result get one, and a question without an answer is taken back.
    pub(crate) fn settle(&mut self) {
        self.conversation.set_tool_choice(ToolChoice::Auto);
        if std::mem::take(&mut self.is_unanswered) {
            self.conversation.unsay();
        }
        let given_up =
            |call: ToolCall| CallResult { call, text: GIVEN_UP.to_owned(), is_error: true, references: Vec::new() };
        let results: Vec<CallResult> = std::mem::take(&mut self.pending).into_iter().map(given_up).collect();
        if !results.is_empty() {
            self.conversation.answer(&results);
        }
    }

    pub(crate) fn to_json(&self, mode: Mode) -> Value {
        let pending = |call: &ToolCall| json!({"id": call.id, "name": call.name, "arguments": call.arguments, "is_search": call.is_search});
        json!({
            "version": FORMAT,
            "id": self.id,
            "model": self.conversation.model().to_string(),
            "mode": mode.as_str(),
            "session": self.conversation.session().to_json(),
            "messages": self.conversation.messages(),
            "pending": self.pending.iter().map(pending).collect::<Vec<_>>(),
            "is_unanswered": self.is_unanswered,
            "spent": {"input": self.spent.input, "cached": self.spent.cached, "output": self.spent.output},
            "context": self.context,
        })
    }

    /// Goes on with what was saved.
    pub(crate) fn restore(&mut self, saved: &Value) -> Result<(), ResumeError> {
        check(saved, &self.conversation)?;
        let garbled = |reason: &str| ResumeError::Garbled { reason: reason.to_owned() };
        let messages = saved["messages"].as_array().ok_or_else(|| garbled("it has no `messages`"))?;
        // In another dialect the history alone says what was found.
        let is_same_dialect = saved["session"]["dialect"] == self.conversation.session().dialect_name().as_str();
        if is_same_dialect {
            self.conversation.session_mut().restore(&saved["session"])?;
        }
        self.conversation.resume(messages.clone());
        let call = |call: &Value| ToolCall {
            id: call["id"].as_str().unwrap_or_default().to_owned(),
            name: call["name"].as_str().unwrap_or_default().to_owned(),
            arguments: call["arguments"].clone(),
            is_search: call["is_search"] == true,
        };
        self.pending = saved["pending"].as_array().into_iter().flatten().map(call).collect();
        self.is_unanswered = saved["is_unanswered"] == true;
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let spent = &saved["spent"];
        self.spent = Usage {
            input: number(&spent["input"]),
            cached: number(&spent["cached"]),
            output: number(&spent["output"]),
        };
        self.context = number(&saved["context"]);
        self.settle();
        Ok(())
    }
}

/// The name under which a saved conversation keeps its files.
pub(crate) fn saved_id(saved: &Value) -> Option<String> {
    saved["id"].as_str().map(str::to_owned)
}

fn check(saved: &Value, conversation: &Conversation) -> Result<(), ResumeError> {
    if saved["version"].as_u64() != Some(FORMAT) {
        let found = saved.get("version").map_or_else(|| "none".to_owned(), Value::to_string);
        return Err(ResumeError::Format { found });
    }
    let found = saved["model"].as_str().unwrap_or_default();
    let wire = pegboard_llm::Model::parse(found).ok().map(|model| model.provider.wire());
    if wire != Some(conversation.wire()) {
        let wanted = conversation.model().to_string();
        return Err(ResumeError::OtherWire { found: found.to_owned(), wanted });
    }
    Ok(())
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
        return Err(ResumeError::Garbled { reason: format!("it has {length} bytes, more than {MAX_BYTES}") });
    }
    if length == 0 {
        return Ok(None);
    }
    let saved = serde_json::from_reader(io::BufReader::new(file));
    saved.map(Some).map_err(|error| ResumeError::Garbled { reason: error.to_string() })
}

/// Writes so that a crash leaves the old file or the new one, readable for the owner alone.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let moved = written.and_then(|()| fs::rename(&beside, path));
    if moved.is_err() {
        let _ = fs::remove_file(&beside);
    }
    moved
}

impl Shared {
    /// Writes the transcript, where there is one.
    pub(crate) async fn write(&self, talk: &Talk) -> Result<(), SaveError> {
        let Some(path) = self.transcript.clone() else { return Ok(()) };
        let text = talk.to_json(self.mode).to_string();
        let target = path.clone();
        let written = tokio::task::spawn_blocking(move || write(&target, &text)).await;
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
