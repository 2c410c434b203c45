//! Tools that a conversation has loaded.

use std::{collections::HashSet, sync::Arc};

use pegboard_core::{Catalog, Selection, Tool};

use super::{
    Session,
    visible::{Fixed, Shown, find_allowed},
};
use crate::names::Names;

/// Loaded tools, in the order of their loading.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) tools: Vec<LoadedTool>,
    pub(super) away: Vec<Away>,
    /// Counts what is loaded or called, to tell what was used last.
    pub(super) clock: u64,
}

#[derive(Debug)]
pub(super) struct LoadedTool {
    pub(super) shown: Shown,
    pub(super) is_pinned: bool,
    /// When it was loaded or called last.
    pub(super) used: u64,
}

/// A loaded tool that the catalog does not have now. It is loaded again when it comes back:
/// a server that restarts has no tools for a moment.
#[derive(Debug)]
pub(super) struct Away {
    pub(super) id: String,
    pub(super) shown_as: String,
    pub(super) is_pinned: bool,
    pub(super) used: u64,
}

impl Away {
    /// Those that are remembered; the oldest give way.
    pub(super) const MOST: usize = 1000;

    fn of(loaded: &LoadedTool) -> Self {
        Self {
            id: loaded.shown.tool.id().to_owned(),
            shown_as: loaded.shown.name().to_owned(),
            is_pinned: loaded.is_pinned,
            used: loaded.used,
        }
    }

    /// The tool, if it is back.
    fn find(&self, catalog: &Catalog, selection: &Selection, names: &Names) -> Option<LoadedTool> {
        let tool = find_allowed(catalog, selection, &self.id)?;
        let shown = Shown::new(tool, &self.shown_as, names);
        Some(LoadedTool { shown, is_pinned: self.is_pinned, used: self.used })
    }
}

impl Loaded {
    pub(super) fn shown(&self) -> impl Iterator<Item = &Shown> {
        self.tools.iter().map(|loaded| &loaded.shown)
    }

    /// Whether a tool of this name is loaded.
    pub(super) fn has(&self, name: &str) -> bool {
        self.shown().any(|shown| shown.name() == name)
    }

    /// How many tools one call can load where at most `most` are kept; 0 keeps all.
    pub(super) fn room(&self, most: usize) -> usize {
        let pinned = self.tools.iter().filter(|loaded| loaded.is_pinned).count();
        if most == 0 { usize::MAX } else { most.saturating_sub(pinned) }
    }

    /// Loads a tool at this time of the clock, unless it is visible anyway.
    fn load(&mut self, tool: &Arc<Tool>, name: &str, used: u64, is_visible: bool, names: &Names) {
        // The same tool under the same name: comparing addresses first is cheap.
        let is_it = |loaded: &&mut LoadedTool| Arc::ptr_eq(&loaded.shown.tool, tool) && loaded.shown.name() == name;
        match self.tools.iter_mut().find(is_it) {
            Some(loaded) => loaded.used = used,
            None if is_visible => {}
            None => self.tools.push(LoadedTool { shown: Shown::new(tool, name, names), is_pinned: false, used }),
        }
    }

    /// Lets the least recently used tools go until there are at most `most`, if that is not 0;
    /// their names. The order of the others stays, and pinned tools stay.
    fn evict(&mut self, most: usize) -> Vec<String> {
        let mut evicted = Vec::new();
        while most > 0 && self.tools.len() > most {
            let free = self.tools.iter().enumerate().filter(|(_, loaded)| !loaded.is_pinned);
            let Some((oldest, _)) = free.min_by_key(|(_, loaded)| loaded.used) else { break };
            evicted.push(self.tools.remove(oldest).shown.name().to_owned());
        }
        evicted
    }

    fn unload(&mut self, names: &[String]) {
        self.away.retain(|away| !names.contains(&away.shown_as));
        self.tools.retain(|loaded| !names.iter().any(|name| name == loaded.shown.name()));
    }

    /// Notes that something was called by this name.
    pub(super) fn touch(&mut self, name: &str) {
        self.clock += 1;
        if let Some(loaded) = self.tools.iter_mut().find(|loaded| loaded.shown.name() == name) {
            loaded.used = self.clock;
        }
    }

    /// Notes that a tool was called, if it is loaded.
    pub(super) fn touch_tool(&mut self, tool: &Arc<Tool>) {
        if let Some(loaded) = self.tools.iter_mut().find(|loaded| Arc::ptr_eq(&loaded.shown.tool, tool)) {
            self.clock += 1;
            loaded.used = self.clock;
        }
    }

    /// Follows the catalog: what it lacks is away, and what it has again is back. The names of
    /// those that are gone now.
    pub(super) fn renew(&mut self, catalog: &Catalog, selection: &Selection, names: &Names) -> Vec<String> {
        let mut vanished = Vec::new();
        let (tools, away) = (&mut self.tools, &mut self.away);
        tools.retain_mut(|loaded| {
            let is_there = loaded.shown.renew(catalog, selection, names);
            if !is_there {
                vanished.push(loaded.shown.name().to_owned());
                away.push(Away::of(loaded));
            }
            is_there
        });
        away.retain(|one| {
            let back = one.find(catalog, selection, names);
            let is_away = back.is_none();
            tools.extend(back);
            is_away
        });
        away.drain(..away.len().saturating_sub(Away::MOST));
        vanished
    }

    /// Lets go what is visible anyway now.
    pub(super) fn drop_visible(&mut self, fixed: &Fixed) {
        let visible: HashSet<*const Tool> = fixed.tools().map(|shown| Arc::as_ptr(&shown.tool)).collect();
        self.tools.retain(|loaded| !visible.contains(&Arc::as_ptr(&loaded.shown.tool)));
    }
}

impl Session {
    /// Keeps a loaded tool from being evicted, by any spelling of its name; whether it is loaded.
    pub fn pin(&mut self, name: &str) -> bool {
        let found = self.names.find(name).filter(|_| !self.loaded.has(name));
        let is_it = |loaded: &&mut LoadedTool| match &found {
            Some(tool) => Arc::ptr_eq(&loaded.shown.tool, tool),
            None => loaded.shown.name() == name,
        };
        let loaded = self.loaded.tools.iter_mut().find(is_it);
        loaded.map(|loaded| loaded.is_pinned = true).is_some()
    }

    /// Loads tools; the names of those that had to give way.
    pub(super) fn load(&mut self, tools: &[(Arc<Tool>, String)]) -> Vec<String> {
        if !self.dialect().lists_catalog() {
            return Vec::new();
        }
        // The first are the best, and give way last.
        let times = (1..=tools.len() as u64).rev().map(|later| self.loaded.clock + later).collect::<Vec<_>>();
        for ((tool, name), used) in tools.iter().zip(times) {
            let is_fixed = self.exposed.is_none() && self.fixed.tools().any(|shown| Arc::ptr_eq(&shown.tool, tool));
            self.loaded.load(tool, name, used, is_fixed, &self.names);
        }
        self.loaded.clock += tools.len() as u64;
        self.loaded.evict(self.settings.max_loaded)
    }

    /// Puts tools away, those that were visible from the start included.
    pub(super) fn unload(&mut self, names: &[String]) {
        self.loaded.unload(names);
        let pre_discovered = self.pre_discovered_tools();
        let gone = pre_discovered.iter().filter(|tool| names.contains(&self.names.shown(tool)));
        let gone: Vec<String> = gone.map(|tool| tool.id().to_owned()).collect();
        if !gone.is_empty() {
            self.removed.extend(gone);
            self.fix();
        }
    }
}
