//! Reports of tools that wait for approval.

use pegboard_mcp::json::Raw;
use serde::{Deserialize, Serialize};

use super::file::PinKind;

/// A tool that differs from its approval.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PinReport {
    /// The server of the tool.
    pub server: String,
    /// The name of the tool at the server.
    pub tool: String,
    /// The kind of difference.
    pub kind: PinKind,
    /// Whether the tool cannot be used until it is approved.
    pub is_held: bool,
    /// Time at which the difference was first seen, in milliseconds since 1970.
    pub since: u64,
    /// The difference as lines: the part, its old value (`- `) and its new one (`+ `).
    pub diff: Vec<String>,
}

/// A tool that waits for approval, with the definition that would be approved.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaitingPin {
    /// The report to show.
    pub report: PinReport,
    /// The id of the file that has the tool.
    pub(super) id: String,
    /// The definition that would be approved; `None` for a removed tool.
    pub(super) definition: Option<Raw>,
}

impl WaitingPin {
    /// Returns the sort key for display.
    pub(super) fn order(&self) -> (&str, &str, &str) {
        (&self.report.server, &self.report.tool, &self.id)
    }
}
