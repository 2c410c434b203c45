//! How approvals are written.

use std::io;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Opened, PinReport, definition::Definition, diff::diff};
use crate::{
    config::{Pinning, ServerConfig, TransportConfig},
    json::{Raw, raw},
    listing::Item,
    manifest::Fingerprint,
    redact::Redactor,
    state::sealed::{Broken, Kind},
};

/// A larger file is neither written nor read.
const MAX_BYTES: usize = 64 << 20;

/// Bytes of what is told of where a server comes from.
const MAX_SOURCE: usize = 200;

const APPROVED: Kind = Kind { name: "pegboard-approved", version: 1 };

const WAITING_KIND: Kind = Kind { name: "pegboard-waiting", version: 1 };

/// What the names of files end with that hold what waits.
pub(super) const WAITING: &str = ".waiting";

pub(super) fn approved_name(id: &Fingerprint) -> String {
    format!("{id}.approved")
}

fn waiting_name(id: &Fingerprint) -> String {
    format!("{id}{WAITING}")
}

pub(super) fn lock_name(id: &Fingerprint) -> String {
    format!("{id}.lock")
}

/// What was approved of a server.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Approved {
    pub(super) server: String,
    /// Where the server comes from, for people.
    pub(super) source: String,
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

impl Approved {
    pub(super) fn new(config: &ServerConfig, offered: &[Item]) -> Self {
        let tool = |item: &Item| ApprovedTool { name: item.key.clone(), raw: item.raw.clone() };
        let mut tools: Vec<ApprovedTool> = offered.iter().map(tool).collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        Self { server: config.name.clone(), source: source(config), tools }
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

impl Opened {
    /// What was approved; `None` where nothing ever was.
    pub(super) fn approved(&self, id: &Fingerprint) -> io::Result<Option<Approved>> {
        self.read(&approved_name(id), APPROVED, id)
    }

    /// What waits, as far as that was written down.
    pub(super) fn waiting(&self, id: &Fingerprint) -> Option<Waiting> {
        self.read(&waiting_name(id), WAITING_KIND, id).ok().flatten()
    }

    pub(super) fn write_approved(&self, id: &Fingerprint, approved: &Approved) -> io::Result<()> {
        let (bytes, _) = APPROVED.seal(raw(approved).get(), id.as_bytes(), &self.key);
        self.write(&approved_name(id), &bytes)
    }

    pub(super) fn write_waiting(&self, id: &Fingerprint, waiting: &Waiting) -> io::Result<()> {
        if waiting.tools.is_empty() {
            return match self.folder.remove(&waiting_name(id)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let (bytes, _) = WAITING_KIND.seal(raw(waiting).get(), id.as_bytes(), &self.key);
        self.write(&waiting_name(id), &bytes)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > MAX_BYTES {
            return Err(io::Error::other(format!(
                "`{name}` has {} bytes, and at most {MAX_BYTES} are kept",
                bytes.len()
            )));
        }
        self.folder.replace(name, bytes)
    }

    fn read<T: DeserializeOwned>(&self, name: &str, kind: Kind, id: &Fingerprint) -> io::Result<Option<T>> {
        let bytes = match self.folder.read(name, MAX_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(io::Error::other(format!("`{name}` has more than {MAX_BYTES} bytes"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let (body, _) = kind.open(&bytes, id.as_bytes(), &self.key).map_err(|broken| match broken {
            Broken::Version => io::Error::other(format!("`{name}` is of another version")),
            Broken::Seal => io::Error::other(format!("`{name}` is damaged, or was made elsewhere")),
        })?;
        serde_json::from_slice(body).map(Some).map_err(io::Error::other)
    }
}

impl ServerConfig {
    /// What becomes of tools that are not as they were approved.
    pub fn pinning(&self) -> Pinning {
        self.pinning.unwrap_or_default()
    }
}
