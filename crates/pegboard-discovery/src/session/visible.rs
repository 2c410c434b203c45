//! What the model sees now.

use std::{collections::HashSet, sync::Arc};

use pegboard_core::{Catalog, Selection, Tool, selection};

use super::Session;
use crate::{host::HostTool, names::Names, outcome::ToolDefinition};

/// A tool that the model sees.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// What the model is told of it.
    pub definition: &'a Arc<ToolDefinition>,
    /// The catalog tool that it is; `None` for a meta-tool.
    pub tool: Option<&'a Arc<Tool>>,
}

/// A catalog tool that is visible, as the model is told of it. Made once, so that listing
/// costs nothing but pointers.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) tool: Arc<Tool>,
    pub(super) definition: Arc<ToolDefinition>,
}

impl Shown {
    pub(super) fn new(tool: &Arc<Tool>, name: &str, names: &Names) -> Self {
        Self { tool: Arc::clone(tool), definition: names.definition(tool, name) }
    }

    pub(super) fn name(&self) -> &str {
        &self.definition.name
    }

    fn listed(&self) -> Listed<'_> {
        Listed { definition: &self.definition, tool: Some(&self.tool) }
    }

    /// Follows the catalog; whether the tool is still there.
    pub(super) fn renew(&mut self, catalog: &Catalog, selection: &Selection, names: &Names) -> bool {
        let Some(newer) = find_allowed(catalog, selection, self.tool.id()) else { return false };
        if !Arc::ptr_eq(newer, &self.tool) {
            *self = Self::new(newer, self.name(), names);
        }
        true
    }
}

/// The tool with this identity, if it is there and may be seen.
pub(super) fn find_allowed<'a>(catalog: &'a Catalog, selection: &Selection, id: &str) -> Option<&'a Arc<Tool>> {
    catalog.find(id).filter(|tool| selection.allows(tool))
}

/// What is visible whatever is loaded, for one snapshot.
#[derive(Debug, Default)]
pub(super) struct Fixed {
    /// Tools that are never hidden, or the first that a gateway exposes.
    pub(super) first: Vec<Shown>,
    pub(super) meta: Vec<Arc<ToolDefinition>>,
    /// Always-on categories, then pre-discovered tools.
    pub(super) always: Vec<Shown>,
    pub(super) reminder: Option<String>,
}

impl Fixed {
    /// The catalog tools among it.
    pub(super) fn tools(&self) -> impl Iterator<Item = &Shown> {
        self.first.iter().chain(&self.always)
    }
}

impl Session {
    /// The tools that the model sees now, in their order.
    pub fn visible(&self) -> Vec<Arc<ToolDefinition>> {
        self.listed().into_iter().map(|listed| Arc::clone(listed.definition)).collect()
    }

    /// The same with the catalog tools behind them, for doors that show more than a name,
    /// a description and a schema.
    pub fn listed(&self) -> Vec<Listed<'_>> {
        let (first, rest) = self.shown();
        let meta = self.fixed.meta.iter().map(|definition| Listed { definition, tool: None });
        let mut listed = Vec::with_capacity(first.len() + meta.len() + rest.len());
        listed.extend(first.into_iter().map(Shown::listed));
        if self.dialect().lists_last() {
            listed.extend(rest.into_iter().map(Shown::listed));
            listed.extend(meta);
        } else {
            listed.extend(meta);
            listed.extend(rest.into_iter().map(Shown::listed));
        }
        listed
    }

    /// The names of [`visible`](Self::visible).
    pub fn visible_names(&self) -> Vec<String> {
        self.visible().into_iter().map(|tool| tool.name.clone()).collect()
    }

    /// The catalog tools that are visible, each once: the first ones, and behind them the
    /// always-on categories, the pre-discovered tools and the loaded ones in the order of
    /// their loading.
    pub(super) fn shown(&self) -> (Vec<&Shown>, Vec<&Shown>) {
        let first: Vec<&Shown> = self.exposed.as_ref().unwrap_or(&self.fixed.first).iter().collect();
        let is_first = |shown: &&Shown| !first.iter().any(|other| Arc::ptr_eq(&other.tool, &shown.tool));
        let rest = self.fixed.always.iter().chain(self.loaded.shown());
        // A gateway's search may expose what is shown behind it as well.
        let rest: Vec<&Shown> = if self.exposed.is_some() { rest.filter(is_first).collect() } else { rest.collect() };
        (first, rest)
    }

    /// The catalog tool that is visible under this name.
    pub(super) fn shown_as(&self, name: &str) -> Option<Arc<Tool>> {
        let (first, rest) = self.shown();
        first.iter().chain(&rest).find(|shown| shown.name() == name).map(|shown| Arc::clone(&shown.tool))
    }

    /// Shows these tools in place of the first ones.
    pub(super) fn expose(&mut self, tools: &[(Arc<Tool>, String)]) {
        self.exposed = Some(tools.iter().map(|(tool, name)| Shown::new(tool, name, &self.names)).collect());
    }

    /// Works out what is visible whatever is loaded. Done once for a snapshot.
    pub(super) fn fix(&mut self) {
        let lists = self.dialect().lists_catalog();
        let mut seen: HashSet<*const Tool> = HashSet::new();
        let mut show = |tool: &Arc<Tool>| {
            seen.insert(Arc::as_ptr(tool)).then(|| Shown::new(tool, &self.names.shown(tool), &self.names))
        };
        let first: Vec<Shown> = if self.dialect().lists_last() {
            self.with_view(|view| self.dialect().exposed_at_first(view)).iter().filter_map(&mut show).collect()
        } else {
            let tools = self.catalog.iter().filter(|tool| self.selection.allows(tool) && self.is_static(tool));
            tools.filter(|_| lists).filter_map(&mut show).collect()
        };
        let mut always: Vec<Shown> =
            self.catalog.iter().filter(|tool| self.is_always_on(tool)).filter_map(&mut show).collect();
        for name in self.pre_discovered.iter().filter(|_| lists) {
            let tools = self.names.resolve(name);
            let kept = tools.iter().filter(|tool| !self.removed.contains(tool.id()));
            always.extend(kept.filter_map(&mut show));
        }
        let meta = self.with_view(|view| self.dialect().meta_tools(view)).into_iter().map(Arc::new).collect();
        self.fixed = Arc::new(Fixed { first, meta, always, reminder: self.reminder() });
    }

    /// Whether a tool is shown whatever was searched for.
    pub(super) fn is_static(&self, tool: &Tool) -> bool {
        !tool.deferred().unwrap_or_else(|| self.dialect().defers(tool))
    }

    /// Tools that are visible from the start, and can be put away.
    pub(super) fn pre_discovered_tools(&self) -> Vec<Arc<Tool>> {
        let tools = self.pre_discovered.iter().flat_map(|name| self.names.resolve(name));
        tools.filter(|tool| !self.is_always_on(tool) && !self.is_static(tool)).collect()
    }

    /// Whether a tool is shown because of what it is for.
    fn is_always_on(&self, tool: &Tool) -> bool {
        let is_special = selection::is_always_on(tool);
        let reads_outputs = self.settings.output_offloading && HostTool::is_reader(tool);
        (is_special || reads_outputs) && self.selection.allows(tool)
    }
}
