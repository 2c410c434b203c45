//! Large outputs of tools, read in parts.
//!
//! An output that is too long for a conversation is kept aside, by the agent in a file and by the
//! gateway in memory. This crate answers requests about it: ranges of characters or lines, regular
//! expressions, and jq filters. Every answer has at most a number of tokens, or reading would do
//! what the output was kept from doing.
//!
//! Patterns and filters come from models and are not trusted: a search has a time limit, and a
//! filter runs in a process of its own (see the module `worker`).
//!
//! ```
//! use pegboard_discovery::host::arguments::Request;
//! use pegboard_outputs::{QueryLimits, Reader, SearchLimits, Source};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let (search, query) = (SearchLimits::default(), QueryLimits::default());
//! let reader = Reader { program: None, search: &search, query: &query, tokens: 9_000 };
//! let log = Source::Text("one\ntwo\nthree".into());
//! let answer = reader.answer(log, Request::Lines { first: 2, last: Some(2) }).await?;
//! assert_eq!(answer, "two");
//! # Ok::<(), pegboard_outputs::ReadError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod error;
mod exit;
mod limits;
#[cfg(feature = "worker")]
mod platform;
mod program;
mod query;
mod read;
mod search;
#[cfg(feature = "worker")]
pub mod worker;

use std::{fs::File, io::Read as _, sync::Arc};

use pegboard_discovery::host::{
    arguments::Request,
    outputs::{query_cut, query_failed},
};
use tokio::task::spawn_blocking;

pub use budget::{answer_tokens, estimate, exceeds};
pub use error::ReadError;
pub use limits::{QueryLimits, SearchLimits};
pub use program::Program;

use query::Query;
use search::Bounds;

/// What share of a preview is the end of the output.
const TAIL_SHARE: usize = 4;

/// An output.
#[derive(Debug)]
pub enum Source {
    /// A file.
    File(File),
    /// A text in memory.
    Text(Arc<str>),
}

/// What answers may use.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The program that runs jq filters. Without it, nothing can be queried.
    pub program: Option<&'a Program>,
    /// The limits of a search.
    pub search: &'a SearchLimits,
    /// The limits of a query.
    pub query: &'a QueryLimits,
    /// The maximum number of tokens of an answer (estimated).
    pub tokens: usize,
}

impl Reader<'_> {
    /// Returns the answer to a request about an output. Long work is done on threads that may wait.
    ///
    /// # Errors
    /// When the request cannot be carried out; the model gets the reason.
    pub async fn answer(&self, source: Source, request: Request) -> Result<String, ReadError> {
        let tokens = self.tokens;
        match request {
            Request::Read { start, end } => {
                off_thread(move || match source {
                    Source::File(file) => read::range(file, start, end, tokens),
                    Source::Text(text) => read::range(text.as_bytes(), start, end, tokens),
                })
                .await
            }
            Request::Lines { first, last } => {
                off_thread(move || read::lines(&source.whole()?, first, last, tokens)).await
            }
            Request::Search { pattern, case_sensitive, max_results } => {
                let limits = self.search.clone();
                off_thread(move || {
                    let regex = search::compile(&pattern, case_sensitive, &limits)?;
                    let bounds = Bounds { max_results, tokens, wall: limits.wall };
                    Ok(search::run(&source.whole()?, &regex, bounds))
                })
                .await
            }
            Request::Query { filter, compact, raw } => {
                let program = self.program.ok_or(ReadError::NoProgram)?;
                let query = Query { filter: &filter, compact, raw };
                let answered = query::run(program, source, query, self.query).await?;
                off_thread(move || show(answered, tokens)).await
            }
        }
    }
}

async fn off_thread(work: impl FnOnce() -> Result<String, ReadError> + Send + 'static) -> Result<String, ReadError> {
    spawn_blocking(work).await.map_err(ReadError::Cancelled)?
}

impl Source {
    /// Returns the whole text. Bytes of a file that are not text are replaced.
    fn whole(self) -> Result<Arc<str>, ReadError> {
        let mut file = match self {
            Self::Text(text) => return Ok(text),
            Self::File(file) => file,
        };
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(1));
        file.read_to_end(&mut bytes).map_err(ReadError::Io)?;
        let text = String::from_utf8(bytes);
        Ok(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()).into())
    }
}

/// Returns the beginning and the end of a text of `chars` characters, together at most `shown`
/// characters, and the number of characters between them.
pub fn preview(text: &str, chars: usize, shown: usize) -> (&str, &str, usize) {
    if chars <= shown {
        return (text, "", 0);
    }
    let in_tail = shown / TAIL_SHARE;
    let head_end = text.char_indices().nth(shown - in_tail).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().rev().take(in_tail).last().map_or(text.len(), |(at, _)| at);
    (&text[..head_end], &text[tail_start..], chars - shown)
}

/// Returns the results of a query, as far as they fit, and what became of the rest.
fn show(answered: query::QueryOutput, tokens: usize) -> Result<String, ReadError> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_preview_and_what_is_left_out_are_the_whole(text in "[aä𝄞\n ]{0,80}", shown in 0_usize..60) {
            let chars = text.chars().count();
            let (head, tail, omitted) = preview(&text, chars, shown);
            prop_assert!(head.chars().count() + tail.chars().count() <= shown);
            let from = head.chars().count();
            let between: String = text.chars().skip(from).take(omitted).collect();
            prop_assert_eq!(format!("{head}{between}{tail}"), &*text);
        }
    }
}
