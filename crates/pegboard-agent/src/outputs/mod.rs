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

mod budget;
mod error;
mod names;
mod query;
mod read;
mod search;
mod settings;
mod store;
#[cfg(test)]
mod tests;
pub mod worker;

use std::{
    fs::File,
    io::Read as _,
    path::PathBuf,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use pegboard_discovery::{
    HostTool,
    host::outputs::{OffloadedOutput, offload_notice, query_cut, query_failed},
};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::{sync::Semaphore, task::spawn_blocking};

pub use error::{OutputError, ReadError};
pub use settings::{OutputSettings, QueryLimits, SearchLimits};

use crate::program::Program;
use pegboard_discovery::host::arguments::{self, Request};
use query::Query;
use search::Bounds;
use store::{Store, WriteError};

/// Number of concurrent searches and queries of one conversation; each may hold an output in
/// memory.
const AT_ONCE: usize = 1;

/// Interval at which old outputs are removed.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(3600);

/// The end of the output is one part in so many of a preview.
const TAIL_SHARE: usize = 4;

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
        budget::exceeds(text, self.settings.threshold_tokens)
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
        let tokens = budget::of_answer(self.settings.threshold_tokens);
        match request {
            Request::Read { start, end } => {
                self.blocking(filename, move |file| read::range(file, start, end, tokens)).await
            }
            Request::Search { pattern, case_sensitive, max_results } => {
                let limits = self.settings.search.clone();
                let _one = self.at_once.acquire().await;
                let search = move |file| {
                    let regex = search::compile(&pattern, case_sensitive, &limits)?;
                    let bounds = Bounds { max_results, tokens, wall: limits.wall };
                    Ok(search::run(&read_all(file)?, &regex, bounds))
                };
                self.blocking(filename, search).await
            }
            Request::Query { filter, compact, raw } => {
                let program = self.program.as_ref().ok_or(ReadError::NoProgram)?;
                let file = self.blocking(filename, Ok).await?;
                let _one = self.at_once.acquire().await;
                let query = Query { filter: &filter, compact, raw };
                let answered = query::run(program, file, query, &self.settings.query).await?;
                spawn_blocking(move || format_results(answered, tokens)).await.map_err(ReadError::Cancelled)?
            }
        }
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

    /// Opens the file that `filename` names and works on it on a blocking thread.
    async fn blocking<T: Send + 'static>(
        &self,
        filename: String,
        work: impl FnOnce(File) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let store = Arc::clone(&self.store);
        let opened = move || work(store.open(&filename).ok_or(ReadError::Unknown)?);
        spawn_blocking(opened).await.map_err(ReadError::Cancelled)?
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
    let (chars, tokens) = (text.chars().count(), budget::estimate(text));
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

/// Returns the start and the end of a text of `chars` characters, and how many characters are
/// between them.
fn preview(text: &str, chars: usize, shown: usize) -> (&str, &str, usize) {
    if chars <= shown {
        return (text, "", 0);
    }
    let in_tail = shown / TAIL_SHARE;
    let head_end = text.char_indices().nth(shown - in_tail).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().rev().take(in_tail).last().map_or(text.len(), |(at, _)| at);
    (&text[..head_end], &text[tail_start..], chars - shown)
}

/// Reads a whole file. It was written as UTF-8; if another program has changed it, invalid bytes
/// are replaced.
fn read_all(mut file: File) -> Result<String, ReadError> {
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(1));
    file.read_to_end(&mut bytes).map_err(ReadError::Io)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Returns the results of a query as far as they fit, with a note on the rest.
fn format_results(answered: query::QueryOutput, tokens: usize) -> Result<String, ReadError> {
    let query::QueryOutput { text, is_cut, failure } = answered;
    match failure {
        Some(failure) if text.is_empty() => return Err(failure),
        _ => {}
    }
    let end = budget::fit(&text, tokens);
    let mut shown = text[..end].to_owned();
    if is_cut || end < text.len() {
        shown.push_str(&query_cut());
    } else if let Some(failure) = failure {
        shown.push_str(&query_failed(&failure.to_string()));
    }
    Ok(shown)
}
