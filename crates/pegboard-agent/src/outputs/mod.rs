//! Context offloading: outputs that are too long for a conversation are written to files, from
//! which the model reads what it needs.
//!
//! An output with more tokens than a threshold is written to the folder of its conversation.
//! Instead of it the model reads the path, a preview, and how to read more. Three tools read it: by
//! ranges of characters, by regular expressions, and by jq filters. Their answers are bounded too,
//! since they would otherwise fill the context after all.
//!
//! Arguments of models are not trusted. A file name only opens files of the same conversation, and
//! filters run in a separate process (see [`worker`]).
//!
//! ```
//! use pegboard_agent::outputs::{OutputSettings, Outputs};
//! use pegboard_discovery::HostTool;
//! use serde_json::json;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let folder = std::env::temp_dir().join(format!("pegboard-outputs-{}", std::process::id()));
//! let outputs = Outputs::new(OutputSettings::new(&folder), "chat-1", None)?;
//! let log = "GET /items took 12 ms\n".repeat(5_000);
//! assert!(outputs.is_large(&log));
//! let offloaded = outputs.store("read_log", log).await?;
//! assert!(offloaded.message.contains("The output of `read_log` is too long to show"));
//! let range = json!({"filename": offloaded.path.to_string_lossy(), "start": 1, "end": 10});
//! assert_eq!(outputs.call_tool(HostTool::ReadLargeOutput, &range).await?, "GET /items");
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod names;
mod settings;
mod store;
#[cfg(test)]
mod tests;

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use pegboard_discovery::{
    HostTool,
    host::{
        arguments::{self, Request},
        outputs::{OffloadedOutput, offload_notice},
    },
};
use pegboard_outputs::{Program, Reader, Source, answer_tokens, estimate, exceeds, preview};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::{sync::Semaphore, task::spawn_blocking};

pub use error::OutputError;
pub use pegboard_outputs::{QueryLimits, ReadError, SearchLimits, worker};
pub use settings::OutputSettings;

use store::{Store, WriteError};

/// Number of concurrent searches and queries of one conversation; each may hold an output in
/// memory.
const AT_ONCE: usize = 1;

/// Interval at which old outputs are removed.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(3600);

/// The offloaded outputs of one conversation.
#[derive(Debug)]
pub struct Outputs {
    settings: OutputSettings,
    store: Arc<Store>,
    program: Option<Program>,
    at_once: Semaphore,
    clock: fn() -> SystemTime,
}

/// An output that was offloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredOutput {
    /// The path of the file.
    pub path: PathBuf,
    /// The size in bytes.
    pub bytes: usize,
    /// The number of characters.
    pub chars: usize,
    /// The estimated number of tokens.
    pub tokens: usize,
    /// The text that the model reads instead of the output.
    pub message: String,
}

impl Outputs {
    /// Creates the outputs of the conversation `session`; two with the same session share their
    /// outputs. Without a `program`, outputs cannot be queried. Nothing is written yet.
    ///
    /// # Errors
    /// If the session cannot be used as a folder name, or the current folder is gone and the
    /// outputs' folder is relative to it.
    pub fn new(mut settings: OutputSettings, session: &str, program: Option<Program>) -> Result<Self, OutputError> {
        let Some(name) = names::session_folder(session) else {
            let session = session.chars().take(80).collect();
            return Err(OutputError::Session { session, limit: names::max_session_bytes() });
        };
        settings.folder = std::path::absolute(&settings.folder)
            .map_err(|source| OutputError::Folder { path: settings.folder.clone(), source })?;
        let store = Arc::new(Store::new(settings.folder.clone(), name));
        Ok(Self { settings, store, program, at_once: Semaphore::new(AT_ONCE), clock: SystemTime::now })
    }

    /// Returns whether outputs can be queried, which needs a program.
    pub fn can_query(&self) -> bool {
        self.program.is_some()
    }

    /// Returns whether `text` must be offloaded. Reads no more of it than necessary.
    pub fn is_large(&self, text: &str) -> bool {
        exceeds(text, self.settings.threshold_tokens)
    }

    /// Writes an output to a file.
    ///
    /// # Errors
    /// If the output is too large or cannot be written; then no part of it is left on the disk.
    pub async fn store(&self, tool: &str, text: String) -> Result<StoredOutput, OutputError> {
        let (bytes, limit) = (text.len(), self.settings.max_output_bytes);
        if bytes > limit {
            return Err(OutputError::TooLarge { bytes, limit });
        }
        let (store, tool) = (Arc::clone(&self.store), tool.to_owned());
        let (now, preview_chars) = ((self.clock)(), self.settings.preview_chars);
        let can_query = self.can_query();
        spawn_blocking(move || store_text(&store, &tool, &text, now, preview_chars, can_query))
            .await
            .map_err(OutputError::Cancelled)?
    }

    /// Runs one of the tools [`HostTool::OUTPUTS`].
    ///
    /// # Errors
    /// If the arguments are invalid, the file is not an output of this conversation, or the
    /// operation fails; the model should read the message.
    pub async fn call_tool(&self, tool: HostTool, arguments: &Value) -> Result<String, ReadError> {
        let (filename, request) = arguments::parse(tool, arguments)?;
        let store = Arc::clone(&self.store);
        let opened = spawn_blocking(move || store.open(&filename)).await.map_err(ReadError::Cancelled)?;
        let source = Source::File(opened.ok_or(ReadError::Unknown)?);
        let is_short = matches!(request, Request::Read { .. });
        let _one = if is_short { None } else { self.at_once.acquire().await.ok() };
        let OutputSettings { search, query, threshold_tokens, .. } = &self.settings;
        let tokens = answer_tokens(*threshold_tokens);
        let reader = Reader { program: self.program.as_ref(), search, query, tokens };
        reader.answer(source, request).await
    }

    /// Removes outputs of all conversations in the folder that are older than the retention time.
    /// Links are not followed, and files with other names are kept.
    pub async fn remove_old(&self) {
        let (root, now, retention) = (self.settings.folder.clone(), (self.clock)(), self.settings.retention);
        match spawn_blocking(move || store::clean(&root, now, retention)).await {
            Ok(Ok(0)) => {}
            Ok(Ok(removed)) => tracing::debug!(removed, "old outputs removed"),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot remove old outputs"),
            Err(error) => tracing::warn!(%error, "cannot remove old outputs"),
        }
    }

    /// Removes old outputs at intervals, for the life of the agent.
    pub(crate) async fn remove_old_periodically(outputs: Weak<Self>) {
        while let Some(outputs) = outputs.upgrade() {
            outputs.remove_old().await;
            drop(outputs);
            tokio::time::sleep(CLEANUP_INTERVAL).await;
        }
    }
}

fn store_text(
    store: &Store,
    tool: &str,
    text: &str,
    now: SystemTime,
    preview_chars: usize,
    can_query: bool,
) -> Result<StoredOutput, OutputError> {
    // Parsed without building a tree, which would be many times its size.
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    let name = store.write(|| names::file_name(now, tool, is_json), text).map_err(|error| match error {
        WriteError::Folder(source) => OutputError::Folder { path: store.path(), source },
        WriteError::File(source) => OutputError::Write { path: store.path(), source },
    })?;
    let path = store.path().join(&name);
    let (chars, tokens) = (text.chars().count(), estimate(text));
    let (head, tail, omitted) = preview(text, chars, preview_chars);
    let shown_path = path.to_string_lossy();
    let offloaded = OffloadedOutput {
        tool,
        filename: &name,
        path: &shown_path,
        chars,
        tokens,
        is_json,
        can_query: is_json && can_query,
        head,
        tail,
        omitted,
    };
    let message = offload_notice(&offloaded);
    Ok(StoredOutput { path, bytes: text.len(), chars, tokens, message })
}
