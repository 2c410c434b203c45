//! Approvals of tool definitions (pins).
//!
//! A server can change the definition of a tool after the user has reviewed it. So the tools of a
//! server are stored as approved when it is first seen, and later differences wait until the user
//! approves them too: tools that are new, changed or removed.
//! Whether they can be used meanwhile is [`Pinning`](crate::config::Pinning). A server that was never seen can start
//! held instead ([`NewServers`](crate::config::NewServers)), and one that was seen under another
//! name takes over the approvals of that name.
//!
//! A folder holds two files for each server, named by the identity of the server
//! ([`Fingerprint::of_identity`](crate::manifest::Fingerprint::of_identity)): the approved definitions, and the
//! waiting ones. Several programs may share it: files are replaced as a whole, under a lock.

mod definition;
mod diff;
mod file;
mod predecessor;
mod report;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

pub(crate) use self::file::describe_source;
use self::file::{Approvals, ApprovedTool, Files, WaitingTool, WaitingTools};
pub use self::{
    file::PinKind,
    report::{PinReport, WaitingPin},
};
use pegboard_state::{LoadError, Stamp};

use crate::{config::ServerConfig, listing::Item};

/// The folder of approvals.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    files: OnceLock<Option<Files>>,
    /// Whether a failure to write was already logged as a warning.
    has_warned: AtomicBool,
}

/// The result of comparing a server's tools with the approved ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Review {
    /// The tools that wait for approval.
    pub(crate) reports: Vec<PinReport>,
    /// The names of the tools that must not be used.
    pub(crate) held: HashSet<String>,
    /// The stamp of the file of approvals.
    pub(crate) stamp: Option<Stamp>,
    /// Whether the waiting tools are not yet written to disk.
    pub(crate) is_unwritten: bool,
    /// Whether the server is held because it is new.
    pub(crate) is_new_server: bool,
}

/// The tools that a server offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered<'a> {
    /// The tools, one of each name.
    pub(crate) tools: &'a [Item],
    /// Other definitions of these tools, on connections of single clients.
    pub(crate) variants: &'a [Item],
    /// Whether the tools are those of a connection of a single client.
    pub(crate) is_of_client: bool,
}

impl<'a> Offered<'a> {
    /// Returns the tools of a connection of a single client.
    pub(crate) fn of_client(tools: &'a [Item]) -> Self {
        Self { tools, variants: &[], is_of_client: true }
    }
}

impl<'a> From<&'a Vec<Item>> for Offered<'a> {
    fn from(tools: &'a Vec<Item>) -> Self {
        Self { tools, variants: &[], is_of_client: false }
    }
}

/// The error of reading or writing approvals.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinsError {
    /// The folder or a file in it cannot be read or written.
    #[error("cannot save approvals in `{}`", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Pins {
    /// Uses the folder at `path`, which is created with the first approvals.
    pub fn at(path: PathBuf) -> Self {
        Self { path, files: OnceLock::new(), has_warned: AtomicBool::new(false) }
    }

    /// Compares the tools of a server with the approved ones; when a server is first seen, all are
    /// approved. Reads and writes files.
    pub(crate) fn review<'a>(&self, config: &ServerConfig, offered: impl Into<Offered<'a>>, may_write: bool) -> Review {
        let offered = offered.into();
        let reviewed = self.files().map(|files| files.review(config, offered, may_write));
        match reviewed {
            Some(Ok(review)) => review,
            failed => {
                if let Some(Err(error)) = failed {
                    self.warn(&error);
                }
                // A user who wants to approve tools must not get unapproved ones.
                let held = offered.tools.iter().filter(|_| config.holds_unseen());
                Review { held: held.map(|item| item.key.clone()).collect(), ..Review::default() }
            }
        }
    }

    /// Returns the stamp of a server's file of approvals.
    pub(crate) fn stamp(&self, config: &ServerConfig) -> Option<Stamp> {
        let files = self.files()?;
        files.stamp(&files.server_id(config))
    }

    /// Returns all tools that wait for approval, by server and tool.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn waiting(&self) -> Result<Vec<WaitingPin>, PinsError> {
        let failed = |source| PinsError::Io { path: self.path.clone(), source };
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let files = Files::open(&self.path).map_err(failed)?;
        let mut all = Vec::new();
        for id in files.waiting_ids().map_err(failed)? {
            let Some(waiting) = files.read_waiting(&id) else { continue };
            let approved = files.read_approvals(&id).ok().flatten().unwrap_or_default();
            let pin = |(report, tool): (PinReport, &WaitingTool)| WaitingPin {
                id: id.clone(),
                report,
                definition: tool.raw.clone(),
                approved: approved.definition_of(&tool.name),
            };
            all.extend(waiting.reports(&approved).into_iter().zip(&waiting.tools).map(pin));
        }
        all.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(all)
    }

    /// Approves tools that [`waiting`](Self::waiting) returned, with the definitions that it
    /// returned.
    ///
    /// # Errors
    /// When the approvals cannot be written.
    pub fn approve(&self, chosen: &[&WaitingPin]) -> Result<(), PinsError> {
        let failed = |source| PinsError::Io { path: self.path.clone(), source };
        let files = Files::open(&self.path).map_err(failed)?;
        let mut by_server: BTreeMap<&str, Vec<&WaitingPin>> = BTreeMap::new();
        chosen.iter().for_each(|pin| by_server.entry(&pin.id).or_default().push(pin));
        for (id, pins) in by_server {
            files.approve(id, &pins).map_err(failed)?;
        }
        Ok(())
    }

    fn files(&self) -> Option<&Files> {
        let open = || match Files::open(&self.path) {
            Ok(files) => Some(files),
            Err(error) => {
                self.warn(&error);
                None
            }
        };
        self.files.get_or_init(open).as_ref()
    }

    fn warn(&self, error: &io::Error) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(folder = %self.path.display(), %error, "cannot save approvals");
        }
    }
}

impl Files {
    fn review(&self, config: &ServerConfig, offered: Offered<'_>, may_write: bool) -> io::Result<Review> {
        let id = self.server_id(config);
        // Taken before the file is read: a change in between is then noticed the next time.
        let mut stamp = self.stamp(&id);
        let approved = match self.read_approvals(&id) {
            Ok(Some(approved)) => approved,
            Ok(None) => {
                let approved = self.approve_first_sight(&id, config, offered.tools)?;
                stamp = self.stamp(&id);
                approved
            }
            Err(error) => self.replace_damaged(&id, config, offered.tools, &error)?,
        };
        let known = self.read_waiting(&id);
        let waiting = find_differences(config, &approved, offered, known.as_ref());
        let is_held = waiting.is_held;
        let has_changed = known.as_ref().map_or(!waiting.tools.is_empty(), |known| !known.is_same(&waiting));
        if has_changed && may_write {
            let _lock = self.lock(&id)?;
            self.write_waiting(&id, &waiting)?;
        }
        // A held variant does not hold the tool itself.
        let may_hold = |tool: &&WaitingTool| is_held && tool.kind != PinKind::Removed && !tool.is_variant;
        let held = waiting.tools.iter().filter(may_hold);
        Ok(Review {
            held: held.map(|tool| tool.name.clone()).collect(),
            reports: waiting.reports(&approved),
            stamp,
            is_unwritten: has_changed && !may_write,
            is_new_server: is_held && approved.starts_held && approved.tools.is_empty(),
        })
    }

    /// Decides which tools of a server without approvals are approved, and writes them.
    fn approve_first_sight(&self, id: &str, config: &ServerConfig, offered: &[Item]) -> io::Result<Approvals> {
        let _lock = self.lock(id)?;
        // Another program may have been first.
        if let Ok(Some(approved)) = self.read_approvals(id) {
            return Ok(approved);
        }
        // A server that lists nothing yet does not count as seen.
        if offered.is_empty() {
            return Ok(Approvals::none(config, self.location(config)));
        }
        let approved = self.first_approvals(id, config, offered)?;
        self.write_approvals(id, &approved)?;
        Ok(approved)
    }

    /// Replaces approvals that cannot be read. They may have been damaged on purpose: with
    /// `hold`, all tools wait for approval again.
    fn replace_damaged(
        &self,
        id: &str,
        config: &ServerConfig,
        offered: &[Item],
        error: &LoadError,
    ) -> io::Result<Approvals> {
        tracing::error!(server = config.name, %error, "cannot read approvals");
        if config.holds_unseen() {
            return Ok(Approvals::none(config, self.location(config)));
        }
        let _lock = self.lock(id)?;
        let approved = Approvals::new(config, self.location(config), offered.iter());
        self.write_approvals(id, &approved)?;
        Ok(approved)
    }

    fn approve(&self, id: &str, pins: &[&WaitingPin]) -> io::Result<()> {
        let _lock = self.lock(id)?;
        // If the approvals cannot be read, tools that were not approved stay held.
        let nothing = Approvals { starts_held: true, ..Approvals::default() };
        let mut approved = self.read_approvals(id).ok().flatten().unwrap_or(nothing);
        let known = self.read_waiting(id);
        let is_known = known.is_some();
        let mut waiting = known.unwrap_or_default();
        if approved.server.is_empty() {
            approved.server.clone_from(&waiting.server);
            approved.source.clone_from(&waiting.source);
        }
        for pin in pins {
            let name = &pin.report.tool;
            approved.approve(name, pin.definition.clone(), pin.report.is_variant);
            // A definition that has changed again was not the approved one.
            let text = |raw: &Option<pegboard_mcp::json::Raw>| raw.as_ref().map(|raw| raw.get().to_owned());
            waiting.tools.retain(|tool| tool.name != *name || text(&tool.raw) != text(&pin.definition));
        }
        // A server that started held is like any other once all its tools were approved.
        approved.starts_held &= !is_known || !waiting.tools.is_empty();
        self.write_approvals(id, &approved)?;
        self.write_waiting(id, &waiting)
    }
}

/// Returns the tools of a server that differ from the approved ones.
fn find_differences(
    config: &ServerConfig,
    approved: &Approvals,
    offered: Offered<'_>,
    known: Option<&WaitingTools>,
) -> WaitingTools {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let since = |name: &str, kind: PinKind, is_variant: bool| {
        let is_it = |tool: &&WaitingTool| tool.name == name && tool.kind == kind && tool.is_variant == is_variant;
        let before = known.and_then(|known| known.tools.iter().find(is_it));
        before.map_or(now, |tool| tool.since)
    };
    let by_name: BTreeMap<&str, &ApprovedTool> = approved.tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
    let mut tools = Vec::new();
    for item in offered.tools {
        let kind = match by_name.get(item.key.as_str()) {
            None => PinKind::New,
            Some(tool) if tool.is_same(item) => continue,
            Some(tool) if offered.is_of_client && tool.is_approved_variant(item) => continue,
            Some(_) => PinKind::Changed,
        };
        let (name, since) = (item.key.clone(), since(&item.key, kind, false));
        tools.push(WaitingTool { name, kind, since, raw: Some((*item.raw).to_owned()), is_variant: false });
    }
    let is_approved = |item: &Item| by_name.get(item.key.as_str()).is_none_or(|tool| tool.is_approved_variant(item));
    // What the list has by now is approved with it.
    let is_listed = |item: &Item| offered.tools.iter().any(|tool| ApprovedTool::new(tool).is_same(item));
    for item in offered.variants.iter().filter(|item| !is_approved(item) && !is_listed(item)) {
        let (name, kind) = (item.key.clone(), PinKind::Changed);
        let (since, raw) = (since(&item.key, kind, true), Some((*item.raw).to_owned()));
        tools.push(WaitingTool { name, kind, since, raw, is_variant: true });
    }
    let names: HashSet<&str> = offered.tools.iter().map(|item| item.key.as_str()).collect();
    for tool in approved.tools.iter().filter(|tool| !names.contains(tool.name.as_str())) {
        let (kind, name) = (PinKind::Removed, tool.name.clone());
        let since = since(&name, kind, false);
        tools.push(WaitingTool { since, name, kind, raw: None, is_variant: false });
    }
    // Stable: several definitions of a tool stay in the order in which they came.
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    WaitingTools {
        server: config.name.clone(),
        source: file::describe_source(config),
        is_held: approved.is_hold_required(config),
        tools,
    }
}
