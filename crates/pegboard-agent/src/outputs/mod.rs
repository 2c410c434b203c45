//! Context offloading: outputs that are too long for a conversation go to files, and the
//! model reads there what it needs.
//!
//! An output of more tokens than a threshold is kept in a folder of its conversation; in
//! its place the model reads where it is, how it begins and ends, and how to go on. Three
//! tools read it: by ranges of characters, by regular expressions, and by jq filters. What
//! they answer is bounded too, or reading would do what the output was kept from doing.
//!
//! What models write is not trusted. A file name leads to files of the same conversation
//! and nowhere else, and filters run in a process of their own (see [`worker`]).
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
//! let offloaded = outputs.put("read_log", log).await?;
//! assert!(offloaded.message.contains("The output of `read_log` is too long to show"));
//! let range = json!({"filename": offloaded.path.to_string_lossy(), "start": 1, "end": 10});
//! assert_eq!(outputs.answer(HostTool::ReadLargeOutput, &range).await?, "GET /items");
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

/// Searches and queries of one conversation at the same time; each may hold an output in
/// memory, and the others wait.
const AT_ONCE: usize = 1;

/// How often old outputs are looked for.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);

/// What share of a preview is the end of the output.
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

/// An output that was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offloaded {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: usize,
    /// Its length in characters.
    pub chars: usize,
    /// Its length in tokens, estimated.
    pub tokens: usize,
    /// What the model reads in its place.
    pub message: String,
}

impl Outputs {
    /// The outputs of the conversation `session`; whoever has the same name for it has the
    /// same outputs. Without a `program`, nothing can be queried. Nothing is written yet.
    ///
    /// # Errors
    /// When no folder can be named after the session, or the current folder is gone and
    /// the outputs' folder is relative to it.
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

    /// Whether outputs can be queried: that takes a program.
    pub fn can_query(&self) -> bool {
        self.program.is_some()
    }

    /// Whether `text` is to be put aside. Reads no more of it than is needed to say so.
    pub fn is_large(&self, text: &str) -> bool {
        budget::exceeds(text, self.settings.threshold_tokens)
    }

    /// Puts an output aside.
    ///
    /// # Errors
    /// When it is larger than what is kept, or cannot be written; then no part of it is
    /// left on the disk.
    pub async fn put(&self, tool: &str, text: String) -> Result<Offloaded, OutputError> {
        let (bytes, limit) = (text.len(), self.settings.max_output_bytes);
        if bytes > limit {
            return Err(OutputError::TooLarge { bytes, limit });
        }
        let (store, tool) = (Arc::clone(&self.store), tool.to_owned());
        let (now, preview_chars) = ((self.clock)(), self.settings.preview_chars);
        let can_query = self.can_query();
        spawn_blocking(move || put(&store, &tool, &text, now, preview_chars, can_query))
            .await
            .map_err(OutputError::GivenUp)?
    }

    /// What one of [`HostTool::OUTPUTS`] answers.
    ///
    /// # Errors
    /// When the arguments are wrong, the file is not one of this conversation's outputs, or
    /// what was asked for cannot be done; all of it is to be told to the model.
    pub async fn answer(&self, tool: HostTool, arguments: &Value) -> Result<String, ReadError> {
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
                    Ok(search::run(&whole(file)?, &regex, bounds))
                };
                self.blocking(filename, search).await
            }
            Request::Query { filter, compact, raw } => {
                let program = self.program.as_ref().ok_or(ReadError::NoProgram)?;
                let file = self.blocking(filename, Ok).await?;
                let _one = self.at_once.acquire().await;
                let query = Query { filter: &filter, compact, raw };
                let answered = query::run(program, file, query, &self.settings.query).await?;
                spawn_blocking(move || show(answered, tokens)).await.map_err(ReadError::GivenUp)?
            }
        }
    }

    /// Removes outputs of all conversations in the folder that are older than they are
    /// kept. Links are not followed, and what is not named like an output stays.
    pub async fn clean(&self) {
        let (root, now, retention) = (self.settings.folder.clone(), (self.clock)(), self.settings.retention);
        match spawn_blocking(move || store::clean(&root, now, retention)).await {
            Ok(Ok(0)) => {}
            Ok(Ok(removed)) => tracing::debug!(removed, "old outputs removed"),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot remove old outputs"),
            Err(error) => tracing::warn!(%error, "cannot remove old outputs"),
        }
    }

    /// [`clean`](Self::clean), now and then, as long as the agent lives.
    pub(crate) async fn keep_clean(outputs: Weak<Self>) {
        while let Some(outputs) = outputs.upgrade() {
            outputs.clean().await;
            drop(outputs);
            tokio::time::sleep(CLEAN_EVERY).await;
        }
    }

    /// Opens the file that `filename` means and works on it where waiting for a disk holds
    /// nobody up.
    async fn blocking<T: Send + 'static>(
        &self,
        filename: String,
        work: impl FnOnce(File) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let store = Arc::clone(&self.store);
        let opened = move || work(store.open(&filename).ok_or(ReadError::Unknown)?);
        spawn_blocking(opened).await.map_err(ReadError::GivenUp)?
    }
}

fn put(
    store: &Store,
    tool: &str,
    text: &str,
    now: SystemTime,
    preview_chars: usize,
    can_query: bool,
) -> Result<Offloaded, OutputError> {
    // Read through, not built: as a tree it would be many times its size.
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    let name = store.write(|| names::file_name(now, tool, is_json), text).map_err(|error| match error {
        WriteError::Folder(source) => OutputError::Folder { path: store.path(), source },
        WriteError::File(source) => OutputError::Write { path: store.path(), source },
    })?;
    let path = store.path().join(&name);
    let (chars, tokens) = (text.chars().count(), budget::estimate(text));
    let (head, tail, omitted) = preview(text, chars, preview_chars);
    let shown_path = path.to_string_lossy();
    let aside = OffloadedOutput {
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
    let message = offload_notice(&aside);
    Ok(Offloaded { path, bytes: text.len(), chars, tokens, message })
}

/// The beginning and the end of a text of `chars` characters, and how many are between.
fn preview(text: &str, chars: usize, shown: usize) -> (&str, &str, usize) {
    if chars <= shown {
        return (text, "", 0);
    }
    let in_tail = shown / TAIL_SHARE;
    let head_end = text.char_indices().nth(shown - in_tail).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().rev().take(in_tail).last().map_or(text.len(), |(at, _)| at);
    (&text[..head_end], &text[tail_start..], chars - shown)
}

/// All of a file. We wrote it, so it is text; if somebody else has since, what is not text
/// shows as such.
fn whole(mut file: File) -> Result<String, ReadError> {
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(1));
    file.read_to_end(&mut bytes).map_err(ReadError::Io)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The results of a query, as far as they fit, and what became of the rest.
fn show(answered: query::Answered, tokens: usize) -> Result<String, ReadError> {
    let query::Answered { text, is_cut, failure } = answered;
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
