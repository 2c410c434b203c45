//! What waits for approval, for people and programs that ask.

use pegboard_mcp::json::Raw;
use serde::{Deserialize, Serialize};

use super::file::PinKind;

/// One tool that is not as it was approved.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PinReport {
    /// Whose it is.
    pub server: String,
    /// Its name at the server.
    pub tool: String,
    /// What is different.
    pub kind: PinKind,
    /// Whether it cannot be used until it is approved.
    pub is_held: bool,
    /// Since when it waits, in milliseconds from 1970 on.
    pub since: u64,
    /// What has changed, in lines: the part, what it was (`- `), what it is (`+ `).
    pub diff: Vec<String>,
}

/// One tool that waits for approval, and what would be approved.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaitingPin {
    /// What is told of it.
    pub report: PinReport,
    /// In which file it stands.
    pub(super) id: String,
    /// What would be approved; `None` that it is gone.
    pub(super) definition: Option<Raw>,
}

impl WaitingPin {
    /// The order in which they are shown.
    pub(super) fn order(&self) -> (&str, &str, &str) {
        (&self.report.server, &self.report.tool, &self.id)
    }
}
