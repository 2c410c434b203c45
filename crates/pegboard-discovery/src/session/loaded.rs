//! The loaded tools of a session.

use std::{collections::HashSet, sync::Arc};

use pegboard_core::{Catalog, Selection, Tool};

use super::{
    Session,
    visible::{AlwaysVisible, VisibleTool, find_allowed},
};
use crate::{names::Names, outcome::ToolDefinition};

/// Loaded tools, in the order in which they were loaded.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) tools: Vec<LoadedTool>,
    pub(super) away: Vec<MissingTool>,
    /// Counts what is loaded or called, to tell what was used last.
    pub(super) clock: u64,
}

#[derive(Debug)]
pub(super) struct LoadedTool {
    pub(super) shown: VisibleTool,
    pub(super) is_pinned: bool,
    /// When it was loaded or called last.
    pub(super) used: u64,
}

/// A loaded tool that the catalog does not have at the moment. It is loaded again when it returns:
/// a server that restarts has no tools for a moment.
#[derive(Debug)]
pub(super) struct MissingTool {
    pub(super) id: String,
    pub(super) shown_as: String,
    pub(super) is_pinned: bool,
    pub(super) used: u64,
}

impl MissingTool {
    /// Maximum number of remembered missing tools; the oldest are dropped.
    pub(super) const MOST: usize = 1000;

    fn of(loaded: &LoadedTool) -> Self {
        Self {
            id: loaded.shown.tool.id().to_owned(),
            shown_as: loaded.shown.name().to_owned(),
            is_pinned: loaded.is_pinned,
            used: loaded.used,
        }
    }

    /// Returns the tool if the catalog has it again.
    fn find(&self, catalog: &Catalog, selection: &Selection, names: &Names) -> Option<LoadedTool> {
        let tool = find_allowed(catalog, selection, &self.id)?;
        let shown = VisibleTool::new(tool, &self.shown_as, names);
        Some(LoadedTool { shown, is_pinned: self.is_pinned, used: self.used })
    }
}

impl Loaded {
    pub(super) fn visible(&self) -> impl Iterator<Item = &VisibleTool> {
        self.tools.iter().map(|loaded| &loaded.shown)
    }

    /// Returns whether a tool of this name is loaded.
    pub(super) fn is_loaded(&self, name: &str) -> bool {
        self.visible().any(|shown| shown.name() == name)
    }

    /// Returns how many tools one call can load if at most `most` are kept; 0 keeps all.
    pub(super) fn room(&self, most: usize) -> usize {
        let pinned = self.tools.iter().filter(|loaded| loaded.is_pinned).count();
        if most == 0 { usize::MAX } else { most.saturating_sub(pinned) }
    }

    /// Loads a tool at this time of the clock, unless it is always visible.
    fn load(&mut self, tool: &Arc<Tool>, name: &str, used: u64, is_visible: bool, names: &Names) {
        // The same tool under the same name: comparing addresses first is cheap.
        let is_it = |loaded: &&mut LoadedTool| Arc::ptr_eq(&loaded.shown.tool, tool) && loaded.shown.name() == name;
        match self.tools.iter_mut().find(is_it) {
            Some(loaded) => loaded.used = used,
            None if is_visible => {}
            None => self.tools.push(LoadedTool { shown: VisibleTool::new(tool, name, names), is_pinned: false, used }),
        }
    }

    /// Unloads the least recently used tools until there are at most `most`, if that is not 0;
    /// returns their names. The order of the others stays, and pinned tools stay.
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

    /// Records a call by this name.
    pub(super) fn touch(&mut self, name: &str) {
        self.clock += 1;
        if let Some(loaded) = self.tools.iter_mut().find(|loaded| loaded.shown.name() == name) {
            loaded.used = self.clock;
        }
    }

    /// Records a call of a tool, if it is loaded.
    pub(super) fn touch_tool(&mut self, tool: &Arc<Tool>) {
        if let Some(loaded) = self.tools.iter_mut().find(|loaded| Arc::ptr_eq(&loaded.shown.tool, tool)) {
            self.clock += 1;
            loaded.used = self.clock;
        }
    }

    /// Updates the loaded tools from the catalog: tools that it lacks become missing, and missing
    /// ones that it has again are loaded. Returns the names of those that are gone now.
    pub(super) fn refresh(&mut self, catalog: &Catalog, selection: &Selection, names: &Names) -> Vec<String> {
        let mut vanished = Vec::new();
        let (tools, away) = (&mut self.tools, &mut self.away);
        tools.retain_mut(|loaded| {
            let is_there = loaded.shown.refresh(catalog, selection, names);
            if !is_there {
                vanished.push(loaded.shown.name().to_owned());
                away.push(MissingTool::of(loaded));
            }
            is_there
        });
        away.retain(|one| {
            let back = one.find(catalog, selection, names);
            let is_away = back.is_none();
            tools.extend(back);
            is_away
        });
        away.drain(..away.len().saturating_sub(MissingTool::MOST));
        vanished
    }

    /// Unloads tools that are always visible now.
    pub(super) fn drop_visible(&mut self, fixed: &AlwaysVisible) {
        let visible: HashSet<*const Tool> = fixed.tools().map(|shown| Arc::as_ptr(&shown.tool)).collect();
        self.tools.retain(|loaded| !visible.contains(&Arc::as_ptr(&loaded.shown.tool)));
    }
}

/// A tool that a session has loaded, or shows from the start.
#[derive(Clone, Debug)]
pub struct SessionTool {
    /// The name that the model calls it by.
    pub name: String,
    /// The tool of the catalog.
    pub tool: Arc<Tool>,
    /// Whether it is never evicted for others.
    pub is_pinned: bool,
    /// Whether it is visible from the start.
    pub is_fixed: bool,
}

impl Session {
    /// Returns the visible tools of the catalog, in the order in which they are listed.
    pub fn session_tools(&self) -> Vec<SessionTool> {
        let listed = self.listed_tools().into_iter().filter_map(|listed| Some((listed.definition, listed.tool?)));
        let describe = |(definition, tool): (&Arc<ToolDefinition>, &Arc<Tool>)| {
            let loaded = self.loaded.tools.iter().find(|loaded| loaded.shown.name() == definition.name);
            SessionTool {
                name: definition.name.clone(),
                tool: Arc::clone(tool),
                is_pinned: loaded.is_some_and(|loaded| loaded.is_pinned),
                is_fixed: loaded.is_none(),
            }
        };
        listed.map(describe).collect()
    }

    /// Lets a loaded tool be evicted again; `false` if no tool of this name is loaded.
    pub fn unpin(&mut self, name: &str) -> bool {
        let loaded = self.loaded.tools.iter_mut().find(|loaded| loaded.shown.name() == name);
        loaded.map(|loaded| loaded.is_pinned = false).is_some()
    }

    /// Hides loaded tools on request of the user; returns whether the visible list has changed.
    pub fn put_away(&mut self, names: &[String]) -> bool {
        let before = self.visible_names();
        self.unload(names);
        let is_changed = before != self.visible_names();
        self.list_changes += u64::from(is_changed);
        is_changed
    }

    /// Keeps a loaded tool from being evicted, by any spelling of its name; `false` if it is not
    /// loaded.
    pub fn pin(&mut self, name: &str) -> bool {
        let found = self.names.find(name).filter(|_| !self.loaded.is_loaded(name));
        let is_it = |loaded: &&mut LoadedTool| match &found {
            Some(tool) => Arc::ptr_eq(&loaded.shown.tool, tool),
            None => loaded.shown.name() == name,
        };
        let loaded = self.loaded.tools.iter_mut().find(is_it);
        loaded.map(|loaded| loaded.is_pinned = true).is_some()
    }

    /// Loads tools; returns the names of those that were evicted.
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

    /// Unloads tools, including those that were visible from the start.
    pub(super) fn unload(&mut self, names: &[String]) {
        self.loaded.unload(names);
        let pre_discovered = self.pre_discovered_tools();
        let gone = pre_discovered.iter().filter(|tool| names.contains(&self.names.shown(tool)));
        let gone: Vec<String> = gone.map(|tool| tool.id().to_owned()).collect();
        if !gone.is_empty() {
            self.removed.extend(gone);
            self.compute_always_visible();
        }
    }
}
