//! One entry of the activity.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Kind {
    Search,
    Call,
    List,
}

/// Who caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Source {
    Client,
    Console,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Outcome {
    Ok,
    /// The tool reports an error.
    Error,
    /// The server did not answer.
    Failed,
    /// The gateway did not make the call.
    Rejected,
}

impl Outcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
        }
    }
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Call => "call",
            Self::List => "list",
        }
    }
}

/// A search, a call or a list, without its contents.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    /// In milliseconds from 1970 on.
    pub(crate) at: u64,
    pub(crate) kind: Kind,
    pub(crate) source: Source,
    /// What the client calls itself.
    pub(crate) client: String,
    /// The handle of its session.
    pub(crate) session: Option<String>,
    /// The name of its token.
    pub(crate) token: Option<String>,
    pub(crate) server: Option<String>,
    /// The called tool, by its name for models.
    pub(crate) tool: Option<String>,
    pub(crate) query: Option<String>,
    pub(crate) dialect: Option<String>,
    /// The first hits, best first.
    pub(crate) hits: Vec<String>,
    pub(crate) matches: Option<usize>,
    /// The search that the call came from.
    pub(crate) search: Option<u64>,
    /// Which of its hits was called, from 1.
    pub(crate) rank: Option<usize>,
    pub(crate) duration_us: u64,
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<String>,
    pub(crate) bytes_in: usize,
    pub(crate) bytes_out: usize,
    /// Estimated tokens that the model reads.
    pub(crate) tokens: u64,
    /// Whether its contents can be read.
    pub(crate) has_contents: bool,
}

impl Entry {
    /// Returns whether the text is in what people search for.
    pub(super) fn contains(&self, lower: &str) -> bool {
        let texts = [self.query.as_deref(), self.tool.as_deref(), self.error.as_deref(), Some(&self.client)];
        let hits = self.hits.iter().map(String::as_str);
        texts.into_iter().flatten().chain(hits).any(|text| text.to_lowercase().contains(lower))
    }
}

/// Returns the time in milliseconds from 1970 on.
pub(crate) fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
