//! How approvals are written.

use std::{io, path::Path, time::SystemTime};

use pegboard_mcp::json::{Raw, raw};
use pegboard_state::{Kind, LoadError, Lock, Stamp, Store};
use serde::{Deserialize, Serialize};

use super::{PinReport, definition::Definition, diff::diff, predecessor::Summaries};
use crate::{
    config::{NewServers, Pinning, ServerConfig, TransportConfig},
    listing::Item,
    manifest::Fingerprint,
    redact::Redactor,
};

/// A larger file is neither written nor read.
const MAX_BYTES: usize = 64 << 20;

/// Bytes of what is told of where a server comes from.
const MAX_SOURCE: usize = 200;

const APPROVED: Kind = Kind { name: "approved", version: 1, max_bytes: MAX_BYTES };

const WAITING: Kind = Kind { name: "waiting", version: 1, max_bytes: MAX_BYTES };

/// What was approved of a server.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Approved {
    pub(super) server: String,
    /// Where the server comes from, for people.
    pub(super) source: String,
    /// The fingerprint of where the server comes from; files of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<String>,
    /// Whether the server was held when it was first seen, and some of its tools still wait.
    #[serde(default, rename = "startsHeld", skip_serializing_if = "std::ops::Not::not")]
    pub(super) starts_held: bool,
    pub(super) tools: Vec<ApprovedTool>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct ApprovedTool {
    pub(super) name: String,
    /// What the server said of it.
    pub(super) raw: Raw,
}

/// What waits for approval.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
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
    /// What the server says of it now.
    pub(super) raw: Option<Raw>,
}

/// What is different about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PinKind {
    /// It was not there.
    New,
    /// Something else is said of it.
    Changed,
    /// It is not there any more.
    Removed,
}

impl PinKind {
    /// The name that people and programs use.
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
        Self { name: item.key.clone(), raw: (*item.raw).to_owned() }
    }

    /// Whether the server still says the same of it.
    pub(super) fn is_same(&self, item: &Item) -> bool {
        // Most are the same to the byte.
        self.name == item.key
            && (self.raw.get() == item.raw.get() || Definition::of(&self.raw) == Definition::of(&item.raw))
    }
}

impl Approved {
    /// Approvals of these tools.
    pub(super) fn new<'a>(config: &ServerConfig, place: String, tools: impl Iterator<Item = &'a Item>) -> Self {
        let mut tools: Vec<ApprovedTool> = tools.map(ApprovedTool::new).collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        Self { server: config.name.clone(), source: source(config), place: Some(place), starts_held: false, tools }
    }

    /// The approvals of a server of which nothing was approved, which keeps it held.
    pub(super) fn nothing(config: &ServerConfig, place: String) -> Self {
        Self { starts_held: true, ..Self::new(config, place, std::iter::empty()) }
    }

    /// Whether tools of this server that are not approved must not be used.
    pub(super) fn is_holding(&self, config: &ServerConfig) -> bool {
        config.pinning() == Pinning::Hold || self.starts_held && config.holds_unseen()
    }
}

impl Waiting {
    /// Whether both say the same of the same tools.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let says =
            |tool: &WaitingTool| (tool.kind, tool.name.clone(), tool.raw.as_ref().map(|raw| raw.get().to_owned()));
        self.is_held == other.is_held && self.tools.iter().map(says).eq(other.tools.iter().map(says))
    }

    /// For whoever asks, in the order of the tools.
    pub(super) fn reports(&self, approved: &Approved) -> Vec<PinReport> {
        let report = |tool: &WaitingTool| {
            let old = approved.tools.binary_search_by(|one| one.name.as_str().cmp(&tool.name)).ok();
            let old = old.map(|at| Definition::of(&approved.tools[at].raw));
            let new = tool.raw.as_ref().map(|raw| Definition::of(raw));
            PinReport {
                server: self.server.clone(),
                tool: tool.name.clone(),
                kind: tool.kind,
                is_held: self.is_held && tool.kind != PinKind::Removed,
                since: tool.since,
                diff: diff(old.as_ref(), new.as_ref()),
            }
        };
        self.tools.iter().map(report).collect()
    }
}

/// Where a server comes from, for people, without its secrets.
pub(super) fn source(config: &ServerConfig) -> String {
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
    /// What is known of the files of approvals.
    pub(super) summaries: Summaries,
}

impl Files {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let approved = Store::open_with_key(path, APPROVED)?;
        Ok(Self { approved, waiting: Store::open(path, WAITING)?, summaries: Summaries::default() })
    }

    /// By what the files of a server are found; servers inside this process have none.
    pub(super) fn id(&self, config: &ServerConfig) -> String {
        Fingerprint::of_identity(config, self.approved.key()).to_string()
    }

    /// The fingerprint of where a server comes from.
    pub(super) fn place(&self, config: &ServerConfig) -> String {
        Fingerprint::of_place(config, self.approved.key()).to_string()
    }

    /// Of which servers there are approvals, each with when they were last written.
    pub(super) fn approved_ids(&self) -> io::Result<Vec<(String, SystemTime)>> {
        Ok(self.approved.names()?.into_iter().filter(|(id, _)| Fingerprint::is_one(id)).collect())
    }

    /// Of which servers something waits.
    pub(super) fn ids(&self) -> io::Result<Vec<String>> {
        let ids = self.waiting.names()?.into_iter().map(|(id, _)| id);
        Ok(ids.filter(|id| Fingerprint::is_one(id)).collect())
    }

    /// Whoever writes has this.
    pub(super) fn lock(&self, id: &str) -> io::Result<Lock> {
        self.approved.lock(id)
    }

    /// What the approvals of a server look like from outside.
    pub(super) fn stamp(&self, id: &str) -> Option<Stamp> {
        self.approved.stamp(id)
    }

    /// What was approved; `None` where nothing ever was.
    pub(super) fn approved(&self, id: &str) -> Result<Option<Approved>, LoadError> {
        match self.approved.load(id) {
            // What has our seal can be read.
            Ok(body) => serde_json::from_slice(&body).map(Some).map_err(|_| LoadError::Version),
            Err(LoadError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What waits, as far as that was written down.
    pub(super) fn waiting(&self, id: &str) -> Option<Waiting> {
        serde_json::from_slice(&self.waiting.load(id).ok()?).ok()
    }

    pub(super) fn write_approved(&self, id: &str, approved: &Approved) -> io::Result<()> {
        self.approved.save_surely(id, raw(approved).get().as_bytes())
    }

    pub(super) fn write_waiting(&self, id: &str, waiting: &Waiting) -> io::Result<()> {
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
    /// What becomes of tools that are not as they were approved.
    pub fn pinning(&self) -> Pinning {
        self.pinning.unwrap_or_default()
    }

    /// Whether tools must not be used before they were compared with the approvals.
    pub fn holds_unseen(&self) -> bool {
        match self.pinning() {
            Pinning::Hold => true,
            Pinning::Warn => self.new_servers == NewServers::Hold,
            Pinning::Off => false,
        }
    }
}
