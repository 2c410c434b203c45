//! One conversation's tool state.

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
    calls::{Answer, Target},
    error::SessionError,
    prompts::Native,
    visible::Listed,
};
use self::{
    loaded::Loaded,
    visible::{Fixed, Shown},
};
use crate::{
    dialects::{Dialect, DialectName},
    host::HostTool,
    names::Names,
    settings::Settings,
    usage::Trail,
};

/// Which tools one conversation sees, and under which names.
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
    exposed: Option<Vec<Shown>>,
    fixed: Arc<Fixed>,
    /// Whether the host lists all tools, and no meta-tools.
    lists_everything: bool,
    list_changes: u64,
    trail: Trail,
}

impl Session {
    /// A new conversation.
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
        // The others have an answer for that.
        let needs_tools = matches!(dialect, DialectName::Select | DialectName::Explicit | DialectName::Bridge);
        if needs_tools && !session.has_deferred_tools() {
            return Err(SessionError::NoTools);
        }
        Ok(session)
    }

    /// Whether there are tools that are hidden until they are searched for.
    pub fn has_deferred_tools(&self) -> bool {
        self.with_view(|view| view.deferred().any(|tool| !HostTool::is_reader(tool)))
    }

    /// [`new`](Self::new) over a catalog that may have no tools yet: they come by
    /// [`update`](Self::update).
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
        let selection = asked.settled(&catalog);
        let names = Arc::new(Names::new(&catalog, &selection, Some(dialect)));
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
            trail: Trail::default(),
        };
        session.fix();
        session
    }

    /// Makes these tools visible from the start. Names that mean no visible tool do nothing;
    /// [`unmatched_names`](Self::unmatched_names) has them.
    #[must_use]
    pub fn with_pre_discovered(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.pre_discovered.extend(names);
        self.fix();
        self
    }

    /// What is wrong with the names of pre-discovered tools and with the allow patterns of the
    /// selection, in the catalog of now: each that means no tool, with the nearest names.
    pub fn unmatched_names(&self) -> Vec<String> {
        let names = self.pre_discovered.iter().filter(|name| self.names.resolve(name).is_empty());
        let names = names.map(|name| self.names.unknown(name));
        let patterns = self.asked.unmatched(&self.catalog);
        names.chain(patterns.iter().map(ToString::to_string)).collect()
    }

    /// What the prompt says there is, instead of what the catalog tells.
    #[must_use]
    pub fn with_categories(mut self, categories: impl IntoIterator<Item = String>) -> Self {
        self.categories.extend(categories);
        self
    }

    /// For a host that lists all tools by itself, and no meta-tools. Every tool keeps its own name;
    /// meta-tools still answer those who know of them, unless a tool has their name.
    #[must_use]
    pub fn with_everything_listed(mut self) -> Self {
        self.lists_everything = true;
        self.names = Arc::new(Names::new(&self.catalog, &self.selection, self.naming_dialect()));
        self.fix();
        self
    }

    /// Whether the host [lists all tools](Self::with_everything_listed).
    pub fn lists_everything(&self) -> bool {
        self.lists_everything
    }

    /// The dialect whose meta-tools need their names.
    fn naming_dialect(&self) -> Option<DialectName> {
        (!self.lists_everything).then_some(self.dialect)
    }

    /// The dialect in use.
    pub fn dialect(&self) -> &'static dyn Dialect {
        self.dialect.dialect()
    }

    /// Its name.
    pub fn dialect_name(&self) -> DialectName {
        self.dialect
    }

    /// How often the visible list has changed.
    pub fn list_changes(&self) -> u64 {
        self.list_changes
    }

    /// The name that a catalog tool is called by here.
    pub fn name_of(&self, tool: &Tool) -> String {
        self.names.shown(tool)
    }

    /// The one catalog tool that a call of `name` would mean, visible now or not.
    pub fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.names.find(name)
    }

    /// The names of all tools that may be seen, visible now or not, in catalog order.
    pub fn known_names(&self) -> Vec<String> {
        let tools = self.catalog.iter().filter(|tool| self.selection.allows(tool));
        tools.map(|tool| self.names.shown(tool)).collect()
    }

    /// The catalog that the conversation is about.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What of it may be seen.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// A conversation of a sub-agent: the same catalog, at most what this one may see, and
    /// nothing loaded.
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

    /// Whether no call changes what is seen, so that a [copy](Self::fork) answers like this one.
    pub fn is_constant(&self) -> bool {
        let is_constant = match self.dialect {
            DialectName::Bridge => true,
            DialectName::Gateway | DialectName::Ranked => self.settings.has_constant_list(),
            _ => false,
        };
        is_constant && self.loaded.shown().next().is_none() && self.exposed.is_none()
    }

    /// A conversation with the same settings and the same first list that has not begun. It
    /// shares what was worked out for this one, and so costs next to nothing.
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
            trail: Trail::default(),
        }
    }
}

#[cfg(test)]
mod tests;
