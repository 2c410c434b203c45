//! Reports of tools that wait for approval.

use pegboard_mcp::json::Raw;
use pegboard_state::digest;
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
    /// Whether it is another definition of an approved tool, which a client gets on a connection of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_variant: bool,
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
    /// The approved definition; `None` for a new tool.
    pub(super) approved: Option<Raw>,
}

impl WaitingPin {
    /// Returns a name of this form of the tool: another definition has another one.
    pub fn id(&self) -> String {
        let definition = self.definition.as_ref().map_or("", |raw| raw.get());
        let place = if self.report.is_variant { "variant" } else { "" };
        let text = [&self.id, &self.report.tool, self.report.kind.as_str(), place, definition].join("\n");
        digest(text.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the definition that would be approved; `None` for a removed tool.
    pub fn definition(&self) -> Option<&Raw> {
        self.definition.as_ref()
    }

    /// Returns the approved definition; `None` for a new tool.
    pub fn approved(&self) -> Option<&Raw> {
        self.approved.as_ref()
    }

    /// Returns the sort key for display.
    pub(super) fn order(&self) -> (&str, &str, &str) {
        (&self.report.server, &self.report.tool, &self.id)
    }
}
