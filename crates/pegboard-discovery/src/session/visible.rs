//! The visible tools of a session.

use std::{collections::HashSet, sync::Arc};

use pegboard_core::{Catalog, Selection, Tool, selection};

use super::Session;
use crate::{
    host::{HostTool, results},
    names::Names,
    outcome::ToolDefinition,
};

/// A visible tool, or a meta-tool.
#[derive(Clone, Copy, Debug)]
pub struct ListedTool<'a> {
    /// The definition for the model.
    pub definition: &'a Arc<ToolDefinition>,
    /// The catalog tool; `None` for a meta-tool.
    pub tool: Option<&'a Arc<Tool>>,
}

/// A visible catalog tool with its definition. The definition is made once, so that listing only
/// copies pointers.
#[derive(Clone, Debug)]
pub(super) struct VisibleTool {
    pub(super) tool: Arc<Tool>,
    pub(super) definition: Arc<ToolDefinition>,
}

impl VisibleTool {
    pub(super) fn new(tool: &Arc<Tool>, name: &str, names: &Names) -> Self {
        Self { tool: Arc::clone(tool), definition: names.definition(tool, name) }
    }

    pub(super) fn name(&self) -> &str {
        &self.definition.name
    }

    fn as_listed(&self) -> ListedTool<'_> {
        ListedTool { definition: &self.definition, tool: Some(&self.tool) }
    }

    /// Updates the tool from the catalog; `false` if it is gone.
    pub(super) fn refresh(&mut self, catalog: &Catalog, selection: &Selection, names: &Names) -> bool {
        let Some(newer) = find_allowed(catalog, selection, self.tool.id()) else { return false };
        if !Arc::ptr_eq(newer, &self.tool) {
            *self = Self::new(newer, self.name(), names);
        }
        true
    }
}

/// Returns the tool with this identity, if it exists and may be seen.
pub(super) fn find_allowed<'a>(catalog: &'a Catalog, selection: &Selection, id: &str) -> Option<&'a Arc<Tool>> {
    catalog.find(id).filter(|tool| selection.allows(tool))
}

/// The tools that are visible regardless of what is loaded, for one snapshot.
#[derive(Debug, Default)]
pub(super) struct AlwaysVisible {
    /// Tools that are never hidden, or the first that a gateway exposes.
    pub(super) first: Vec<VisibleTool>,
    pub(super) meta: Vec<Arc<ToolDefinition>>,
    /// Always-on categories, then pre-discovered tools.
    pub(super) always: Vec<VisibleTool>,
    pub(super) reminder: Option<String>,
}

impl AlwaysVisible {
    /// Returns the catalog tools among them.
    pub(super) fn tools(&self) -> impl Iterator<Item = &VisibleTool> {
        self.first.iter().chain(&self.always)
    }
}

impl Session {
    /// Returns the definitions that the model sees now, in their order.
    pub fn visible(&self) -> Vec<Arc<ToolDefinition>> {
        self.listed_tools().into_iter().map(|listed| Arc::clone(listed.definition)).collect()
    }

    /// Returns the visible definitions with their catalog tools, for endpoints that show more than a name,
    /// a description and a schema.
    pub fn listed_tools(&self) -> Vec<ListedTool<'_>> {
        let (first, rest) = self.visible_tools();
        let meta = self.fixed.meta.iter().map(|definition| ListedTool { definition, tool: None });
        let mut listed = Vec::with_capacity(first.len() + meta.len() + rest.len());
        listed.extend(first.into_iter().map(VisibleTool::as_listed));
        if self.dialect().lists_last() {
            listed.extend(rest.into_iter().map(VisibleTool::as_listed));
            listed.extend(meta);
        } else {
            listed.extend(meta);
            listed.extend(rest.into_iter().map(VisibleTool::as_listed));
        }
        listed
    }

    /// Returns the names of [`visible`](Self::visible).
    pub fn visible_names(&self) -> Vec<String> {
        self.visible().into_iter().map(|tool| tool.name.clone()).collect()
    }

    /// Returns the visible catalog tools, each once: the first ones, then the always-on categories,
    /// the pre-discovered tools and the loaded ones in the order in which they were loaded.
    pub(super) fn visible_tools(&self) -> (Vec<&VisibleTool>, Vec<&VisibleTool>) {
        let first: Vec<&VisibleTool> = self.exposed.as_ref().unwrap_or(&self.fixed.first).iter().collect();
        let is_first = |shown: &&VisibleTool| !first.iter().any(|other| Arc::ptr_eq(&other.tool, &shown.tool));
        let rest = self.fixed.always.iter().chain(self.loaded.visible());
        // A gateway's search may expose what is shown behind it as well.
        let rest: Vec<&VisibleTool> =
            if self.exposed.is_some() { rest.filter(is_first).collect() } else { rest.collect() };
        (first, rest)
    }

    /// Returns the catalog tool that is visible under this name.
    pub(super) fn find_visible(&self, name: &str) -> Option<Arc<Tool>> {
        let (first, rest) = self.visible_tools();
        first.iter().chain(&rest).find(|shown| shown.name() == name).map(|shown| Arc::clone(&shown.tool))
    }

    /// Shows these tools in place of the first ones.
    pub(super) fn expose(&mut self, tools: &[(Arc<Tool>, String)]) {
        self.exposed = Some(tools.iter().map(|(tool, name)| VisibleTool::new(tool, name, &self.names)).collect());
    }

    /// Computes the tools that are visible regardless of what is loaded, once for a snapshot.
    pub(super) fn compute_always_visible(&mut self) {
        let lists = self.dialect().lists_catalog();
        let mut seen: HashSet<*const Tool> = HashSet::new();
        let mut show = |tool: &Arc<Tool>| {
            seen.insert(Arc::as_ptr(tool)).then(|| VisibleTool::new(tool, &self.names.shown(tool), &self.names))
        };
        let first: Vec<VisibleTool> = if self.dialect().lists_last() {
            self.with_view(|view| self.dialect().exposed_at_first(view)).iter().filter_map(&mut show).collect()
        } else {
            let tools = self.catalog.iter().filter(|tool| self.selection.allows(tool) && self.is_static(tool));
            tools.filter(|_| lists).filter_map(&mut show).collect()
        };
        let mut always: Vec<VisibleTool> =
            self.catalog.iter().filter(|tool| self.is_always_on(tool)).filter_map(&mut show).collect();
        for name in self.pre_discovered.iter().filter(|_| lists) {
            let tools = self.names.resolve(name);
            let kept = tools.iter().filter(|tool| !self.removed.contains(tool.id()));
            always.extend(kept.filter_map(&mut show));
        }
        let added = self.settings.has_read_result.then(results::definition);
        let meta = self.with_view(|view| self.dialect().meta_tools(view));
        let meta = meta.into_iter().chain(added).map(Arc::new).collect();
        self.fixed = Arc::new(AlwaysVisible { first, meta, always, reminder: self.reminder() });
    }

    /// Returns whether a tool is shown regardless of searches.
    pub(super) fn is_static(&self, tool: &Tool) -> bool {
        !tool.deferred().unwrap_or_else(|| self.dialect().defers(tool))
    }

    /// Returns the tools that are visible from the start and can be unloaded.
    pub(super) fn pre_discovered_tools(&self) -> Vec<Arc<Tool>> {
        let tools = self.pre_discovered.iter().flat_map(|name| self.names.resolve(name));
        tools.filter(|tool| !self.is_always_on(tool) && !self.is_static(tool)).collect()
    }

    /// Returns whether a tool is always shown because of its category.
    fn is_always_on(&self, tool: &Tool) -> bool {
        let is_special = selection::is_always_on(tool);
        let reads_outputs = self.settings.output_offloading && HostTool::is_reader(tool);
        (is_special || reads_outputs) && self.selection.allows(tool)
    }
}
