//! The first approvals of a server that has none under its name.
//!
//! Renaming a server must not approve its tools. So a server that was seen under another
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

use super::file::{Approvals, ApprovedTool, Files, describe_source};
use crate::{
    config::{NewServers, Pinning, ServerConfig},
    listing::Item,
    pins::{PinKind, definition::Definition},
};

/// A cache of the summaries of all files of approvals, so that an unchanged file is read once.
#[derive(Debug, Default)]
pub(super) struct Summaries(Mutex<BTreeMap<String, CachedSummary>>);

/// The stamp of a file, and its summary if it could be read.
type CachedSummary = (Option<Stamp>, Option<Summary>);

/// The data by which a server is recognized.
#[derive(Clone, Debug)]
struct Summary {
    place: Option<String>,
    source: String,
    names: BTreeSet<String>,
}

/// Approvals of the same server under other names.
#[derive(Debug)]
struct Predecessors {
    /// Newest first.
    approved: Vec<(Reverse<SystemTime>, String, Approvals)>,
    /// Whether the program or URL is the same, and not only the set of tools.
    is_same_place: bool,
    /// A file that cannot be read, which may be a predecessor.
    unreadable: Option<String>,
}

impl Files {
    /// Returns the approvals of a server that is seen for the first time under its name.
    pub(super) fn first_approvals(&self, id: &str, config: &ServerConfig, offered: &[Item]) -> io::Result<Approvals> {
        let Predecessors { approved, is_same_place, unreadable } = self.predecessors(id, config, offered)?;
        let (server, place) = (config.name.as_str(), self.location(config));
        if let Some((_, _, last)) = approved.first() {
            let tools = last.tools.len();
            tracing::info!(server, from = last.server, tools, "approvals adopted from another server name");
            let mut taken = merge_approvals(&approved, config, place, offered);
            if !is_same_place {
                let held = self.held_elsewhere(offered)?;
                taken.tools.retain(|tool| !held.contains(&tool.name));
            }
            return Ok(taken);
        }
        if let Some(file) = unreadable.filter(|_| config.pinning() == Pinning::Hold) {
            let hint = "remove the file if its server is no longer used";
            tracing::error!(server, file = format!("{file}.approved"), hint, "server held: approvals unreadable");
            return Ok(Approvals::none(config, place));
        }
        if config.new_servers == NewServers::Hold {
            return Ok(Approvals::none(config, place));
        }
        let held = self.held_elsewhere(offered)?;
        let tools = offered.iter().filter(|item| !held.contains(&item.key));
        tracing::debug!(server, tools = offered.len(), held = held.len(), "new server approved");
        Ok(Approvals::new(config, place, tools))
    }

    fn predecessors(&self, id: &str, config: &ServerConfig, offered: &[Item]) -> io::Result<Predecessors> {
        let (place, source) = (self.location(config), describe_source(config));
        let names: BTreeSet<String> = offered.iter().map(|item| item.key.clone()).collect();
        let (mut of_place, mut of_tools, mut unreadable) = (Vec::new(), Vec::new(), None);
        for (other, modified) in self.approved_ids()? {
            if other == id {
                continue;
            }
            let Some(summary) = self.read_summary(&other) else {
                unreadable.get_or_insert(other);
                continue;
            };
            // Older files have only the description of the source.
            let is_place = summary.place.as_ref().map_or(summary.source == source, |own| *own == place);
            let is_like = config.new_servers == NewServers::Approve && summary.names == names;
            if !is_place && !is_like {
                continue;
            }
            let Ok(Some(approved)) = self.read_approvals(&other) else { continue };
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

    /// Returns the summary of a file of approvals; `None` if it cannot be read.
    fn read_summary(&self, id: &str) -> Option<Summary> {
        let stamp = self.stamp(id);
        let mut known = lock(&self.summaries.0);
        if let Some((_, summary)) = known.get(id).filter(|(then, _)| *then == stamp) {
            return summary.clone();
        }
        // A file that was removed meanwhile is like one without approvals.
        let summary = self.read_approvals(id).ok().map(Option::unwrap_or_default).map(|approved| Summary {
            names: approved.tools.iter().map(|tool| tool.name.clone()).collect(),
            place: approved.place,
            source: approved.source,
        });
        known.insert(id.to_owned(), (stamp, summary.clone()));
        summary
    }

    /// Returns the names of tools that are held with the same definition under another server.
    fn held_elsewhere(&self, offered: &[Item]) -> io::Result<HashSet<String>> {
        let mut held = HashSet::new();
        for id in self.waiting_ids()? {
            let Some(waiting) = self.read_waiting(&id).filter(|waiting| waiting.is_held) else { continue };
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

/// Merges approvals: the newest, with every tool whose current definition another one approves.
fn merge_approvals(
    approved: &[(Reverse<SystemTime>, String, Approvals)],
    config: &ServerConfig,
    place: String,
    offered: &[Item],
) -> Approvals {
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
    Approvals { tools, starts_held: last.starts_held, ..Approvals::none(config, place) }
}
