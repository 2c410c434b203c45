//! What is approved of a server that has no approvals under its name.
//!
//! Renaming a server must not approve what it offers. So a server that was seen under another
//! name takes over the approvals of that name: one with the same program and arguments or the
//! same address, or, where new servers are approved, one with the same set of tools. That holds
//! for a copy of a server too, which is a second name for the same program or address.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashSet},
    io,
    sync::Mutex,
    time::SystemTime,
};

use pegboard_core::locks::lock;
use pegboard_state::Stamp;

use super::file::{Approved, ApprovedTool, Files, source};
use crate::{
    config::{NewServers, Pinning, ServerConfig},
    listing::Item,
    pins::{PinKind, definition::Definition},
};

/// What is known of each file of approvals, so that none is read twice while it stays the same.
#[derive(Debug, Default)]
pub(super) struct Summaries(Mutex<BTreeMap<String, Remembered>>);

/// What a file looked like from outside, and what it said if it could be read.
type Remembered = (Option<Stamp>, Option<Summary>);

/// By what a server is recognised.
#[derive(Clone, Debug)]
struct Summary {
    place: Option<String>,
    source: String,
    names: BTreeSet<String>,
}

/// Approvals of the same server under other names.
#[derive(Debug)]
struct Predecessors {
    /// The last written first.
    approved: Vec<(Reverse<SystemTime>, String, Approved)>,
    /// Whether they are of the same program or address, and not only of the same set of tools.
    is_same_place: bool,
    /// A file that cannot be read: it may be the one.
    unreadable: Option<String>,
}

impl Files {
    /// The approvals of a server that is seen for the first time under its name.
    pub(super) fn first_approvals(&self, id: &str, config: &ServerConfig, offered: &[Item]) -> io::Result<Approved> {
        let Predecessors { approved, is_same_place, unreadable } = self.predecessors(id, config, offered)?;
        let (server, place) = (config.name.as_str(), self.place(config));
        if let Some((_, _, last)) = approved.first() {
            let tools = last.tools.len();
            tracing::info!(server, from = last.server, tools, "approvals adopted from another server name");
            let mut taken = merged(&approved, config, place, offered);
            if !is_same_place {
                let held = self.held_elsewhere(offered)?;
                taken.tools.retain(|tool| !held.contains(&tool.name));
            }
            return Ok(taken);
        }
        if let Some(file) = unreadable.filter(|_| config.pinning() == Pinning::Hold) {
            let hint = "remove the file if its server is no longer used";
            tracing::error!(server, file = format!("{file}.approved"), hint, "server held: approvals unreadable");
            return Ok(Approved::nothing(config, place));
        }
        if config.new_servers == NewServers::Hold {
            return Ok(Approved::nothing(config, place));
        }
        let held = self.held_elsewhere(offered)?;
        let tools = offered.iter().filter(|item| !held.contains(&item.key));
        tracing::debug!(server, tools = offered.len(), held = held.len(), "new server approved");
        Ok(Approved::new(config, place, tools))
    }

    fn predecessors(&self, id: &str, config: &ServerConfig, offered: &[Item]) -> io::Result<Predecessors> {
        let (place, source) = (self.place(config), source(config));
        let names: BTreeSet<String> = offered.iter().map(|item| item.key.clone()).collect();
        let (mut of_place, mut of_tools, mut unreadable) = (Vec::new(), Vec::new(), None);
        for (other, modified) in self.approved_ids()? {
            if other == id {
                continue;
            }
            let Some(summary) = self.summary(&other) else {
                unreadable.get_or_insert(other);
                continue;
            };
            // Older files tell the source in words alone.
            let is_place = summary.place.as_ref().map_or(summary.source == source, |own| *own == place);
            let is_like = config.new_servers == NewServers::Approve && summary.names == names;
            if !is_place && !is_like {
                continue;
            }
            let Ok(Some(approved)) = self.approved(&other) else { continue };
            let is_same = |item: &Item| approved.tools.iter().any(|tool| tool.is_same(item));
            if is_place {
                of_place.push((Reverse(modified), other, approved));
            } else if offered.iter().any(is_same) {
                of_tools.push((Reverse(modified), other, approved));
            }
        }
        let is_same_place = !of_place.is_empty();
        let approved = if is_same_place { of_place } else { of_tools };
        let mut found = Predecessors { approved, is_same_place, unreadable };
        found.approved.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        Ok(found)
    }

    /// What a file of approvals says of its server; `None` if it cannot be read.
    fn summary(&self, id: &str) -> Option<Summary> {
        let stamp = self.stamp(id);
        let mut known = lock(&self.summaries.0);
        if let Some((_, summary)) = known.get(id).filter(|(then, _)| *then == stamp) {
            return summary.clone();
        }
        // One that was removed meanwhile is like one without approvals.
        let summary = self.approved(id).ok().map(Option::unwrap_or_default).map(|approved| Summary {
            names: approved.tools.iter().map(|tool| tool.name.clone()).collect(),
            place: approved.place,
            source: approved.source,
        });
        known.insert(id.to_owned(), (stamp, summary.clone()));
        summary
    }

    /// The names of tools that are held, in this very form, under the name of another server.
    fn held_elsewhere(&self, offered: &[Item]) -> io::Result<HashSet<String>> {
        let mut held = HashSet::new();
        for id in self.ids()? {
            let Some(waiting) = self.waiting(&id).filter(|waiting| waiting.is_held) else { continue };
            for tool in waiting.tools.iter().filter(|tool| tool.kind != PinKind::Removed) {
                let is_it = |item: &&Item| {
                    let raw = tool.raw.as_ref().filter(|_| item.key == tool.name);
                    raw.is_some_and(|raw| Definition::of(raw) == Definition::of(&item.raw))
                };
                held.extend(offered.iter().find(is_it).map(|item| item.key.clone()));
            }
        }
        Ok(held)
    }
}

/// The approvals that were written last, with every tool that one of the others approves as it
/// is offered.
fn merged(
    approved: &[(Reverse<SystemTime>, String, Approved)],
    config: &ServerConfig,
    place: String,
    offered: &[Item],
) -> Approved {
    let last = approved.first().map(|(_, _, last)| last.clone()).unwrap_or_default();
    let mut tools: BTreeMap<String, ApprovedTool> =
        last.tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
    for item in offered {
        let same = approved.iter().flat_map(|(_, _, one)| &one.tools).find(|tool| tool.is_same(item));
        if let Some(same) = same {
            tools.insert(item.key.clone(), same.clone());
        }
    }
    let tools = tools.into_values().collect();
    Approved { tools, starts_held: last.starts_held, ..Approved::nothing(config, place) }
}
