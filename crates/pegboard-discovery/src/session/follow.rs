//! Updates of a session from outside: from a transcript, and from a changed catalog.

use std::{collections::HashSet, sync::Arc};

use pegboard_core::Catalog;
use serde_json::Value;

use super::Session;
use crate::{
    dialects::DialectName,
    names::Names,
    outcome::ToolDefinition,
    settings::Exposed,
    transcript::{ToolResult, Transcript},
};

impl Session {
    /// Loads the tools that the results in `transcript` had loaded, and updates its reminder;
    /// returns the names of the loaded tools.
    pub fn follow(&mut self, transcript: &mut impl Transcript) -> Vec<String> {
        if !self.dialect().lists_catalog() {
            transcript.keep_loaded(&[]);
            return Vec::new();
        }
        let before = self.visible_names();
        let mut loaded: Vec<String> = Vec::new();
        let mut seen: HashSet<String> = HashSet::new();
        // What is left of results that a compaction has dropped.
        let mut kept = Vec::new();
        for name in transcript.kept_loaded() {
            if let [tool] = &self.names.exact(&name)[..] {
                kept.push((Arc::clone(tool), name.clone()));
                seen.insert(name.clone());
                loaded.push(name);
            }
        }
        let replaces = self.dialect == DialectName::Gateway && self.settings.exposed == Exposed::Replace;
        if replaces && !kept.is_empty() {
            self.expose(&kept);
        } else {
            self.load(&kept);
        }
        for ToolResult { name, arguments, text, references } in transcript.results() {
            let gone = self.dialect().unloaded_by(&name, &text);
            if !gone.is_empty() {
                loaded.retain(|name| !gone.contains(name));
                seen.retain(|name| !gone.contains(name));
                self.unload(&gone);
            }
            let said = self.dialect().loaded_by(&name, &text);
            let Some(names) = Some(references).filter(|names| !names.is_empty()).or(said) else {
                self.loaded.touch(&name);
                continue;
            };
            let server = arguments.get("server").and_then(Value::as_str);
            let mut tools = Vec::new();
            for name in names {
                let mut meant = self.names.exact(&name);
                if meant.len() > 1 {
                    // A bare name that several have was asked for with its server.
                    meant.retain(|tool| tool.server_name() == server);
                }
                let [tool] = &meant[..] else { continue };
                tools.push((Arc::clone(tool), name.clone()));
                if seen.insert(name.clone()) {
                    loaded.push(name);
                }
            }
            if tools.is_empty() {
                continue;
            }
            if replaces {
                self.expose(&tools);
            } else {
                self.load(&tools);
            }
        }
        if let Some(reminder) = &self.fixed.reminder {
            transcript.remind(reminder);
        }
        let exposed = self.exposed.iter().flatten();
        let kept = exposed.chain(self.loaded.visible());
        let kept: Vec<String> = kept.map(|shown| shown.name().to_owned()).collect();
        transcript.keep_loaded(&kept);
        self.list_changes += u64::from(before != self.visible_names());
        loaded
    }

    /// Switches to another catalog; returns the names of loaded tools that it no longer has.
    pub fn update(&mut self, catalog: Catalog) -> Vec<String> {
        let before = self.visible();
        self.selection = Arc::new(self.asked.resolved_for(&catalog));
        self.names =
            Arc::new(Names::new(&catalog, &self.selection, self.naming_dialect(), self.settings.added_names()));
        self.catalog = catalog;
        self.compute_always_visible();
        self.refresh_tools(&before)
    }

    /// Switches to the catalog, the selection and the options of `other`, a session of the same
    /// dialect such as the one that this was forked from, and shares its computed data; returns the
    /// names of loaded tools that are gone.
    pub fn update_like(&mut self, other: &Self) -> Vec<String> {
        self.asked = Arc::clone(&other.asked);
        self.selection = Arc::clone(&other.selection);
        self.settings = Arc::clone(&other.settings);
        self.ranker = Arc::clone(&other.ranker);
        self.lists_everything = other.lists_everything;
        if self.removed != other.removed {
            return self.update(other.catalog.clone());
        }
        let before = self.visible();
        self.names = Arc::clone(&other.names);
        self.catalog = other.catalog.clone();
        self.fixed = Arc::clone(&other.fixed);
        self.refresh_tools(&before)
    }

    /// Updates the loaded and exposed tools from the catalog; returns the names of those that are
    /// gone.
    fn refresh_tools(&mut self, before: &[Arc<ToolDefinition>]) -> Vec<String> {
        let mut vanished = self.loaded.refresh(&self.catalog, &self.selection, &self.names);
        self.exposed.iter_mut().for_each(|exposed| {
            exposed.retain_mut(|shown| {
                let is_there = shown.refresh(&self.catalog, &self.selection, &self.names);
                if !is_there {
                    vanished.push(shown.name().to_owned());
                }
                is_there
            });
        });
        // One that is visible anyway now need not be loaded as well.
        self.loaded.drop_visible(&self.fixed);
        self.list_changes += u64::from(before != self.visible().as_slice());
        vanished
    }
}
