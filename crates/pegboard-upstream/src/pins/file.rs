//! The files of approvals.

use std::{io, path::Path, time::SystemTime};

use pegboard_mcp::json::{Raw, raw};
use pegboard_state::{FileKind, LoadError, Lock, Stamp, Store};
use serde::{Deserialize, Serialize};

use super::{PinReport, definition::Definition, diff::diff, predecessor::Summaries};
use crate::{
    config::{NewServers, Pinning, ServerConfig, TransportConfig},
    listing::Item,
    manifest::Fingerprint,
    redact::Redactor,
};

/// Maximum number of bytes of a file that is written or read.
const MAX_BYTES: usize = 64 << 20;

/// Maximum number of bytes of the description of a server's source.
const MAX_SOURCE: usize = 200;

/// Maximum number of further definitions of a tool that are approved.
const MAX_VARIANTS: usize = 16;

const APPROVED: FileKind = FileKind { name: "approved", version: 1, max_bytes: MAX_BYTES };

const WAITING: FileKind = FileKind { name: "waiting", version: 1, max_bytes: MAX_BYTES };

/// The approved tools of a server.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Approvals {
    pub(super) server: String,
    /// The source of the server, for display.
    pub(super) source: String,
    /// The fingerprint of the server's program or URL; files of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<String>,
    /// Whether the server was held when it was first seen and some of its tools still wait.
    #[serde(default, rename = "startsHeld", skip_serializing_if = "std::ops::Not::not")]
    pub(super) starts_held: bool,
    pub(super) tools: Vec<ApprovedTool>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct ApprovedTool {
    pub(super) name: String,
    /// The approved definition.
    pub(super) raw: Raw,
    /// Further approved definitions, of connections of single clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) variants: Vec<Raw>,
}

/// The tools of a server that wait for approval.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitingTools {
    pub(super) server: String,
    pub(super) source: String,
    pub(super) is_held: bool,
    pub(super) tools: Vec<WaitingTool>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct WaitingTool {
    pub(super) name: String,
    pub(super) kind: PinKind,
    pub(super) since: u64,
    /// The current definition; `None` if the tool was removed.
    pub(super) raw: Option<Raw>,
    /// Whether the definition is that of another connection than the one that the server's list comes from.
    #[serde(default, rename = "isVariant", skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_variant: bool,
}

/// The difference between a tool and its approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PinKind {
    /// The tool is new.
    New,
    /// The definition has changed.
    Changed,
    /// The tool was removed.
    Removed,
}

impl PinKind {
    /// Returns the name that is used in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

impl ApprovedTool {
    pub(super) fn new(item: &Item) -> Self {
        Self { name: item.key.clone(), raw: (*item.raw).to_owned(), variants: Vec::new() }
    }

    /// Returns whether the definition is unchanged.
    pub(super) fn is_same(&self, item: &Item) -> bool {
        // Most are identical byte by byte.
        self.name == item.key
            && (self.raw.get() == item.raw.get() || Definition::of(&self.raw) == Definition::of(&item.raw))
    }

    /// Returns whether the definition is approved for connections of single clients.
    pub(super) fn is_approved_variant(&self, item: &Item) -> bool {
        let is_it = |raw: &Raw| Definition::of(raw) == Definition::of(&item.raw);
        self.is_same(item) || self.name == item.key && self.variants.iter().any(is_it)
    }

    /// Adds an approved definition; the oldest one makes room.
    fn add_variant(&mut self, raw: Raw) {
        self.variants.retain(|known| Definition::of(known) != Definition::of(&raw));
        self.variants.push(raw);
        let surplus = self.variants.len().saturating_sub(MAX_VARIANTS);
        self.variants.drain(..surplus);
    }
}

impl Approvals {
    /// Creates approvals of these tools.
    pub(super) fn new<'a>(config: &ServerConfig, place: String, tools: impl Iterator<Item = &'a Item>) -> Self {
        let mut tools: Vec<ApprovedTool> = tools.map(ApprovedTool::new).collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        Self {
            server: config.name.clone(),
            source: describe_source(config),
            place: Some(place),
            starts_held: false,
            tools,
        }
    }

    /// Creates the approvals of a server without approved tools, which stays held.
    pub(super) fn none(config: &ServerConfig, place: String) -> Self {
        Self { starts_held: true, ..Self::new(config, place, std::iter::empty()) }
    }

    /// Approves the definition of a tool; `None` approves that it was removed. A variant is approved beside what is
    /// approved already.
    pub(super) fn approve(&mut self, name: &str, definition: Option<Raw>, is_variant: bool) {
        let at = self.tools.iter().position(|tool| tool.name == *name);
        match (at, definition) {
            (Some(at), None) => _ = self.tools.remove(at),
            (Some(at), Some(raw)) if is_variant => self.tools[at].add_variant(raw),
            (Some(at), Some(raw)) => self.tools[at].raw = raw,
            (None, Some(raw)) => {
                self.tools.push(ApprovedTool { name: name.to_owned(), raw, variants: Vec::new() });
                self.tools.sort_by(|one, other| one.name.cmp(&other.name));
            }
            (None, None) => {}
        }
    }

    /// Returns the approved definition of a tool.
    pub(super) fn definition_of(&self, name: &str) -> Option<Raw> {
        self.tools.iter().find(|tool| tool.name == name).map(|tool| tool.raw.clone())
    }

    /// Returns whether unapproved tools of this server must not be used.
    pub(super) fn is_hold_required(&self, config: &ServerConfig) -> bool {
        config.pinning() == Pinning::Hold || self.starts_held && config.holds_unseen()
    }
}

impl WaitingTools {
    /// Returns whether both have the same tools with the same definitions.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let says =
            |tool: &WaitingTool| (tool.kind, tool.name.clone(), tool.raw.as_ref().map(|raw| raw.get().to_owned()));
        self.is_held == other.is_held && self.tools.iter().map(says).eq(other.tools.iter().map(says))
    }

    /// Returns a report for each tool, in the order of the tools.
    pub(super) fn reports(&self, approved: &Approvals) -> Vec<PinReport> {
        let report = |tool: &WaitingTool| {
            let old = approved.tools.binary_search_by(|one| one.name.as_str().cmp(&tool.name)).ok();
            let old = old.map(|at| Definition::of(&approved.tools[at].raw));
            let new = tool.raw.as_ref().map(|raw| Definition::of(raw));
            PinReport {
                server: self.server.clone(),
                tool: tool.name.clone(),
                kind: tool.kind,
                is_held: self.is_held && tool.kind != PinKind::Removed,
                is_variant: tool.is_variant,
                since: tool.since,
                diff: diff(old.as_ref(), new.as_ref()),
            }
        };
        self.tools.iter().map(report).collect()
    }
}

/// Returns a description of a server's program or URL without secrets.
pub(crate) fn describe_source(config: &ServerConfig) -> String {
    let text = match &config.transport {
        TransportConfig::Stdio { command, args, .. } => {
            [command].into_iter().chain(args).map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        TransportConfig::Http { url, .. } => url.clone(),
        TransportConfig::Local(_) => String::new(),
    };
    pegboard_core::text::brief(&Redactor::of(config).redact(&text), MAX_SOURCE)
}

/// The files of all servers.
#[derive(Debug)]
pub(super) struct Files {
    approved: Store,
    waiting: Store,
    /// Cached summaries of the files of approvals.
    pub(super) summaries: Summaries,
}

impl Files {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let approved = Store::open_with_key(path, APPROVED)?;
        Ok(Self { approved, waiting: Store::open(path, WAITING)?, summaries: Summaries::default() })
    }

    /// Returns the id that names the files of a server.
    pub(super) fn server_id(&self, config: &ServerConfig) -> String {
        Fingerprint::of_identity(config, self.approved.key()).to_string()
    }

    /// Returns the fingerprint of a server's program or URL.
    pub(super) fn location(&self, config: &ServerConfig) -> String {
        Fingerprint::of_location(config, self.approved.key()).to_string()
    }

    /// Returns the ids of servers with approvals, each with the time of their last write.
    pub(super) fn approved_ids(&self) -> io::Result<Vec<(String, SystemTime)>> {
        Ok(self.approved.names()?.into_iter().filter(|(id, _)| Fingerprint::is_valid(id)).collect())
    }

    /// Returns the ids of servers with waiting tools.
    pub(super) fn waiting_ids(&self) -> io::Result<Vec<String>> {
        let ids = self.waiting.names()?.into_iter().map(|(id, _)| id);
        Ok(ids.filter(|id| Fingerprint::is_valid(id)).collect())
    }

    /// Locks the files of a server for writing.
    pub(super) fn lock(&self, id: &str) -> io::Result<Lock> {
        self.approved.lock(id)
    }

    /// Returns the stamp of a server's file of approvals.
    pub(super) fn stamp(&self, id: &str) -> Option<Stamp> {
        self.approved.stamp(id)
    }

    /// Reads the approvals of a server; `None` if there are none.
    pub(super) fn read_approvals(&self, id: &str) -> Result<Option<Approvals>, LoadError> {
        match self.approved.load(id) {
            // A file with a valid seal can be parsed.
            Ok(body) => serde_json::from_slice(&body).map(Some).map_err(|_| LoadError::Version),
            Err(LoadError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the waiting tools of a server, if they were written.
    pub(super) fn read_waiting(&self, id: &str) -> Option<WaitingTools> {
        serde_json::from_slice(&self.waiting.load(id).ok()?).ok()
    }

    pub(super) fn write_approvals(&self, id: &str, approved: &Approvals) -> io::Result<()> {
        self.approved.save_durably(id, raw(approved).get().as_bytes())
    }

    pub(super) fn write_waiting(&self, id: &str, waiting: &WaitingTools) -> io::Result<()> {
        if !waiting.tools.is_empty() {
            return self.waiting.save(id, raw(waiting).get().as_bytes());
        }
        match self.waiting.remove(id) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl ServerConfig {
    /// Returns how tools that differ from their approval are treated.
    pub fn pinning(&self) -> Pinning {
        self.pinning.unwrap_or_default()
    }

    /// Returns whether tools must not be used before they were compared with the approvals.
    pub fn holds_unseen(&self) -> bool {
        match self.pinning() {
            Pinning::Hold => true,
            Pinning::Warn => self.new_servers == NewServers::Hold,
            Pinning::Off => false,
        }
    }
}
