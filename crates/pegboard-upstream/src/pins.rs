//! Which tools were approved, and in which form.
//!
//! A server can change what it says of a tool after somebody has looked at it. So what a server
//! offers when it is first seen is kept as approved, and what differs from that later on waits
//! until somebody approves it too: tools that are new, that say something else, that are gone.
//! Whether they can be used meanwhile is [`Pinning`](crate::config::Pinning). A server that was never seen can start
//! held instead ([`NewServers`](crate::config::NewServers)), and one that was seen under another
//! name takes over the approvals of that name.
//!
//! A folder holds two files for each server, named by who the server is
//! ([`Fingerprint::of_identity`](crate::manifest::Fingerprint::of_identity)): the approved definitions, and what waits. Several programs
//! may share it: files are replaced whole, and whoever changes one holds its lock.

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

use self::file::{Approved, ApprovedTool, Files, Waiting, WaitingTool};
pub use self::{
    file::PinKind,
    report::{PinReport, WaitingPin},
};
use pegboard_state::{LoadError, Stamp};

use crate::{config::ServerConfig, listing::Item};

/// A folder of approvals.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    files: OnceLock<Option<Files>>,
    /// Whether it was said that nothing can be kept.
    has_warned: AtomicBool,
}

/// What came of comparing a server's tools with what was approved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Review {
    /// What waits for approval.
    pub(crate) reports: Vec<PinReport>,
    /// The names of the tools that must not be used.
    pub(crate) held: HashSet<String>,
    /// What the file of approvals looked like.
    pub(crate) stamp: Option<Stamp>,
    /// Whether it is still to be written down what waits.
    pub(crate) is_unwritten: bool,
    /// Whether the server is held because it is new.
    pub(crate) is_new_server: bool,
}

/// Why approvals cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinsError {
    /// The folder or a file in it cannot be read or written.
    #[error("cannot save approvals in `{}`", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Pins {
    /// The approvals in the folder at `path`. It is made when something is to be kept.
    pub fn at(path: PathBuf) -> Self {
        Self { path, files: OnceLock::new(), has_warned: AtomicBool::new(false) }
    }

    /// Compares what a server offers with what was approved of it; on first sight everything
    /// is. Reads and writes files.
    pub(crate) fn review(&self, config: &ServerConfig, offered: &[Item], may_write: bool) -> Review {
        let reviewed = self.files().map(|files| files.review(config, offered, may_write));
        match reviewed {
            Some(Ok(review)) => review,
            failed => {
                if let Some(Err(error)) = failed {
                    self.warn(&error);
                }
                // Whoever wants to be asked must not find out that nobody was.
                let held = offered.iter().filter(|_| config.holds_unseen());
                Review { held: held.map(|item| item.key.clone()).collect(), ..Review::default() }
            }
        }
    }

    /// What a server's file of approvals looks like from outside.
    pub(crate) fn stamp(&self, config: &ServerConfig) -> Option<Stamp> {
        let files = self.files()?;
        files.stamp(&files.id(config))
    }

    /// Everything that waits for approval, by server and tool.
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
        for id in files.ids().map_err(failed)? {
            let Some(waiting) = files.waiting(&id) else { continue };
            let approved = files.approved(&id).ok().flatten().unwrap_or_default();
            let pin = |(report, tool): (PinReport, &WaitingTool)| WaitingPin {
                id: id.clone(),
                report,
                definition: tool.raw.clone(),
            };
            all.extend(waiting.reports(&approved).into_iter().zip(&waiting.tools).map(pin));
        }
        all.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(all)
    }

    /// Approves what [`waiting`](Self::waiting) has told of, in the form that was shown.
    ///
    /// # Errors
    /// When it cannot be written.
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
    fn review(&self, config: &ServerConfig, offered: &[Item], may_write: bool) -> io::Result<Review> {
        let id = self.id(config);
        // Before it is read: a change meanwhile is seen the next time.
        let mut stamp = self.stamp(&id);
        let approved = match self.approved(&id) {
            Ok(Some(approved)) => approved,
            Ok(None) => {
                let approved = self.first_sight(&id, config, offered)?;
                stamp = self.stamp(&id);
                approved
            }
            Err(error) => self.damaged(&id, config, offered, &error)?,
        };
        let known = self.waiting(&id);
        let waiting = compare(config, &approved, offered, known.as_ref());
        let is_held = waiting.is_held;
        let is_news = known.as_ref().map_or(!waiting.tools.is_empty(), |known| !known.is_same(&waiting));
        if is_news && may_write {
            let _lock = self.lock(&id)?;
            self.write_waiting(&id, &waiting)?;
        }
        let held = waiting.tools.iter().filter(|tool| is_held && tool.kind != PinKind::Removed);
        Ok(Review {
            held: held.map(|tool| tool.name.clone()).collect(),
            reports: waiting.reports(&approved),
            stamp,
            is_unwritten: is_news && !may_write,
            is_new_server: is_held && approved.starts_held && approved.tools.is_empty(),
        })
    }

    /// Decides what is approved of a server without approvals of its own, and writes it down.
    fn first_sight(&self, id: &str, config: &ServerConfig, offered: &[Item]) -> io::Result<Approved> {
        let _lock = self.lock(id)?;
        // Another program may have been first.
        if let Ok(Some(approved)) = self.approved(id) {
            return Ok(approved);
        }
        // One that offers nothing yet was not seen yet.
        if offered.is_empty() {
            return Ok(Approved::nothing(config, self.place(config)));
        }
        let approved = self.first_approvals(id, config, offered)?;
        self.write_approved(id, &approved)?;
        Ok(approved)
    }

    /// Approvals that cannot be read may have been somebody's on purpose: whoever holds tools
    /// back is asked about all of them.
    fn damaged(&self, id: &str, config: &ServerConfig, offered: &[Item], error: &LoadError) -> io::Result<Approved> {
        tracing::error!(server = config.name, %error, "cannot read approvals");
        if config.holds_unseen() {
            return Ok(Approved::nothing(config, self.place(config)));
        }
        let _lock = self.lock(id)?;
        let approved = Approved::new(config, self.place(config), offered.iter());
        self.write_approved(id, &approved)?;
        Ok(approved)
    }

    fn approve(&self, id: &str, pins: &[&WaitingPin]) -> io::Result<()> {
        let _lock = self.lock(id)?;
        // Where nothing can be read, what was not approved stays held.
        let nothing = Approved { starts_held: true, ..Approved::default() };
        let mut approved = self.approved(id).ok().flatten().unwrap_or(nothing);
        let known = self.waiting(id);
        let is_known = known.is_some();
        let mut waiting = known.unwrap_or_default();
        if approved.server.is_empty() {
            approved.server.clone_from(&waiting.server);
            approved.source.clone_from(&waiting.source);
        }
        for pin in pins {
            let name = &pin.report.tool;
            approved.tools.retain(|tool| tool.name != *name);
            approved.tools.extend(pin.definition.clone().map(|raw| ApprovedTool { name: name.clone(), raw }));
            // What has changed once more was not what was approved.
            let text = |raw: &Option<pegboard_mcp::json::Raw>| raw.as_ref().map(|raw| raw.get().to_owned());
            waiting.tools.retain(|tool| tool.name != *name || text(&tool.raw) != text(&pin.definition));
        }
        approved.tools.sort_by(|one, other| one.name.cmp(&other.name));
        // A server that started held is like any other once everything of it was approved.
        approved.starts_held &= !is_known || !waiting.tools.is_empty();
        self.write_approved(id, &approved)?;
        self.write_waiting(id, &waiting)
    }
}

/// What of the server's tools is not as it was approved.
fn compare(config: &ServerConfig, approved: &Approved, offered: &[Item], known: Option<&Waiting>) -> Waiting {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let since = |name: &str, kind: PinKind| {
        let before = known.and_then(|known| known.tools.iter().find(|tool| tool.name == name && tool.kind == kind));
        before.map_or(now, |tool| tool.since)
    };
    let by_name: BTreeMap<&str, &ApprovedTool> = approved.tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
    let mut tools = Vec::new();
    for item in offered {
        let kind = match by_name.get(item.key.as_str()) {
            None => PinKind::New,
            Some(tool) if tool.is_same(item) => continue,
            Some(_) => PinKind::Changed,
        };
        let (name, since) = (item.key.clone(), since(&item.key, kind));
        tools.push(WaitingTool { name, kind, since, raw: Some((*item.raw).to_owned()) });
    }
    let names: HashSet<&str> = offered.iter().map(|item| item.key.as_str()).collect();
    for tool in approved.tools.iter().filter(|tool| !names.contains(tool.name.as_str())) {
        let (kind, name) = (PinKind::Removed, tool.name.clone());
        tools.push(WaitingTool { since: since(&name, kind), name, kind, raw: None });
    }
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    Waiting { server: config.name.clone(), source: file::source(config), is_held: approved.is_holding(config), tools }
}
