//! The tool state of one conversation.

mod callee;
mod calls;
mod error;
mod follow;
mod loaded;
mod prompts;
mod saved;
mod vectors;
mod view;
mod visible;

use std::{collections::BTreeSet, sync::Arc};

use pegboard_core::{Catalog, Ranker, Selection, Tool};

pub use self::{
    callee::{Callee, arguments_key, is_beside_name, wrapped_arguments},
    calls::{CallAnswer, Target},
    error::SessionError,
    loaded::SessionTool,
    prompts::NativeTools,
    visible::ListedTool,
};
use self::{
    loaded::Loaded,
    visible::{AlwaysVisible, VisibleTool},
};
use crate::{
    dialects::{Dialect, DialectName},
    host::HostTool,
    names::Names,
    settings::Settings,
    usage::SearchTrail,
};

/// The tool state of one conversation: the visible tools and their names.
#[derive(Debug)]
pub struct Session {
    dialect: DialectName,
    settings: Arc<Settings>,
    catalog: Catalog,
    /// As it was given; it means what it means in the catalog of the moment.
    asked: Arc<Selection>,
    /// The same, settled for the catalog.
    selection: Arc<Selection>,
    ranker: Arc<dyn Ranker>,
    names: Arc<Names>,
    categories: Vec<String>,
    pre_discovered: Vec<String>,
    /// Identities of pre-discovered tools that were put away.
    removed: BTreeSet<String>,
    loaded: Loaded,
    /// What a search of the gateway exposes instead of the first tools.
    exposed: Option<Vec<VisibleTool>>,
    fixed: Arc<AlwaysVisible>,
    /// Whether the host lists all tools, and no meta-tools.
    lists_everything: bool,
    list_changes: u64,
    trail: SearchTrail,
}

impl Session {
    /// Creates the session of a new conversation.
    ///
    /// # Errors
    /// When there is no tool to search for, in a dialect that has no answer for that.
    pub fn new(
        dialect: DialectName,
        settings: Settings,
        catalog: Catalog,
        selection: Selection,
        ranker: Arc<dyn Ranker>,
    ) -> Result<Self, SessionError> {
        let session = Self::expecting(dialect, settings, catalog, selection, ranker);
        if session.dialect().needs_tools() && !session.has_deferred_tools() {
            return Err(SessionError::NoTools);
        }
        Ok(session)
    }

    /// Returns whether there are tools that are hidden until they are searched for.
    pub fn has_deferred_tools(&self) -> bool {
        self.with_view(|view| view.deferred().any(|tool| !HostTool::is_reader(tool)))
    }

    /// Creates a session like [`new`](Self::new), over a catalog that may have no tools yet: they
    /// are added by [`update`](Self::update).
    pub fn expecting(
        dialect: DialectName,
        settings: Settings,
        catalog: Catalog,
        selection: Selection,
        ranker: Arc<dyn Ranker>,
    ) -> Self {
        let asked = if settings.output_offloading {
            selection.exempt(HostTool::OUTPUTS.map(HostTool::name))
        } else {
            selection
        };
        let selection = asked.resolved_for(&catalog);
        let names = Arc::new(Names::new(&catalog, &selection, Some(dialect), settings.added_names()));
        let mut session = Self {
            dialect,
            settings: Arc::new(settings),
            catalog,
            asked: Arc::new(asked),
            selection: Arc::new(selection),
            ranker,
            names,
            categories: Vec::new(),
            pre_discovered: Vec::new(),
            removed: BTreeSet::new(),
            loaded: Loaded::default(),
            exposed: None,
            fixed: Arc::default(),
            lists_everything: false,
            list_changes: 0,
            trail: SearchTrail::default(),
        };
        session.compute_always_visible();
        session
    }

    /// Makes these tools visible from the start. Names that match no visible tool are ignored;
    /// [`unmatched_names`](Self::unmatched_names) returns them.
    #[must_use]
    pub fn with_pre_discovered(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.pre_discovered.extend(names);
        self.compute_always_visible();
        self
    }

    /// Returns the names of pre-discovered tools and the allow patterns of the selection that match
    /// no tool of the current catalog, each with the nearest names.
    pub fn unmatched_names(&self) -> Vec<String> {
        let names = self.pre_discovered.iter().filter(|name| self.names.resolve(name).is_empty());
        let names = names.map(|name| self.names.unknown(name, ""));
        let patterns = self.asked.unmatched(&self.catalog);
        names.chain(patterns.iter().map(ToString::to_string)).collect()
    }

    /// Uses these categories in the prompt instead of those derived from the catalog.
    #[must_use]
    pub fn with_categories(mut self, categories: impl IntoIterator<Item = String>) -> Self {
        self.categories.extend(categories);
        self
    }

    /// Configures the session for a host that lists all tools itself, and no meta-tools. Every tool
    /// keeps its own name; meta-tools can still be called, unless a tool has their name.
    #[must_use]
    pub fn with_everything_listed(mut self) -> Self {
        self.lists_everything = true;
        self.names = Arc::new(self.new_names());
        self.compute_always_visible();
        self
    }

    /// Returns whether the host [lists all tools](Self::with_everything_listed).
    pub fn lists_everything(&self) -> bool {
        self.lists_everything
    }

    fn new_names(&self) -> Names {
        Names::new(&self.catalog, &self.selection, self.naming_dialect(), self.settings.added_names())
    }

    /// Returns the dialect whose meta-tools reserve their names.
    fn naming_dialect(&self) -> Option<DialectName> {
        (!self.lists_everything).then_some(self.dialect)
    }

    /// Returns the dialect.
    pub fn dialect(&self) -> &'static dyn Dialect {
        self.dialect.dialect()
    }

    /// Returns the name of the dialect.
    pub fn dialect_name(&self) -> DialectName {
        self.dialect
    }

    /// Returns how often the visible list has changed.
    pub fn list_changes(&self) -> u64 {
        self.list_changes
    }

    /// Returns the name under which a catalog tool is called in this session.
    pub fn name_of(&self, tool: &Tool) -> String {
        self.names.shown(tool)
    }

    /// Returns the one catalog tool that a call of `name` would mean, visible now or not.
    pub fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.names.find(name)
    }

    /// Returns the names of all tools that may be seen, visible now or not, in catalog order.
    pub fn known_names(&self) -> Vec<String> {
        let tools = self.catalog.iter().filter(|tool| self.selection.allows(tool));
        tools.map(|tool| self.names.shown(tool)).collect()
    }

    /// Returns the catalog of the session.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the selection of the session.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Creates the session of a sub-agent: the same catalog, at most the tools that this session
    /// may see, and nothing loaded.
    ///
    /// # Errors
    /// When the dialect needs tools and the narrower selection shows none.
    pub fn sub_session(&self, selection: Selection) -> Result<Self, SessionError> {
        let selection = self.asked.narrowed_to(selection);
        let ranker = Arc::clone(&self.ranker);
        let session =
            Self::new(self.dialect, Settings::clone(&self.settings), self.catalog.clone(), selection, ranker)?;
        Ok(session.with_pre_discovered(self.pre_discovered.clone()))
    }

    /// Returns whether no call changes the visible list, so that a [copy](Self::fork) answers like
    /// this session.
    pub fn is_constant(&self) -> bool {
        let is_constant = match self.dialect {
            DialectName::Bridge => true,
            DialectName::Gateway | DialectName::Ranked => self.settings.has_constant_list(),
            _ => false,
        };
        is_constant && self.loaded.visible().next().is_none() && self.exposed.is_none()
    }

    /// Returns a new session with the same settings and the same first list. It shares all computed
    /// data, so that it is cheap.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            dialect: self.dialect,
            settings: Arc::clone(&self.settings),
            catalog: self.catalog.clone(),
            asked: Arc::clone(&self.asked),
            selection: Arc::clone(&self.selection),
            ranker: Arc::clone(&self.ranker),
            names: Arc::clone(&self.names),
            categories: self.categories.clone(),
            pre_discovered: self.pre_discovered.clone(),
            removed: self.removed.clone(),
            loaded: Loaded::default(),
            exposed: None,
            fixed: Arc::clone(&self.fixed),
            lists_everything: self.lists_everything,
            list_changes: 0,
            trail: SearchTrail::default(),
        }
    }
}

#[cfg(test)]
mod tests;
