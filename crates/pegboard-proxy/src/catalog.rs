//! The tools of requests as catalogs. Programs send the same list with every request, so that a list is parsed and
//! indexed once.

use std::{
    collections::HashMap,
    fmt,
    hash::{Hash as _, Hasher as _},
    ops::Range,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use pegboard_core::{Catalog, Ranker, Selection, estimate_tokens};
use pegboard_discovery::{BRIDGE_SEARCH_RESULT, DialectName, Session, Settings, ToolDefinition, Validation};
use pegboard_engine::Hybrid;
use rustc_hash::FxHasher;
use serde_json::value::RawValue;

use crate::{
    route::WireName,
    wires::{ClientTool, Wire},
};

/// Maximum number of bytes of all cached lists.
const MAX_CACHED_BYTES: usize = 96 << 20;

/// Maximum number of cached lists.
const MAX_CACHED_LISTS: usize = 256;

/// The search tool of the model.
pub(crate) const SEARCH: &str = "search_tools";

/// The tool through which the model calls others.
pub(crate) const CALL: &str = "call_tool";

/// The tools of a request, and the search over them.
pub(crate) struct ToolSet {
    /// The list as the client wrote it.
    source: Arc<str>,
    /// The format in which it was read.
    wire: WireName,
    tools: Vec<ListedTool>,
    by_name: HashMap<Box<str>, usize>,
    /// The reason why the list must not be changed.
    pub(crate) bypass: Option<&'static str>,
    /// The mark for the prompt cache that one of the tools has.
    pub(crate) cache_mark: Option<String>,
    /// Tokens (estimated) of all definitions.
    pub(crate) tokens: usize,
    /// The tools that can be deferred.
    catalog: Catalog,
    /// The first conversation; others are copies of it.
    session: OnceLock<Option<Session>>,
    own: OnceLock<Option<[ToolDefinition; 2]>>,
    ranker: Arc<dyn Ranker>,
}

/// One tool of the list.
#[derive(Debug)]
struct ListedTool {
    name: Option<Box<str>>,
    /// Its place in the list's source.
    place: Range<usize>,
    is_deferrable: bool,
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSet").field("tools", &self.tools.len()).field("tokens", &self.tokens).finish()
    }
}

impl ToolSet {
    fn parse(source: &str, wire: &dyn Wire) -> Self {
        let source: Arc<str> = source.into();
        let ranker = Arc::new(Hybrid::default());
        let raw: Option<&RawValue> = serde_json::from_str(&source).ok();
        let parsed = raw.map_or(Err("unreadable-tools"), |raw| wire.tools(raw));
        let mut bypass = parsed.as_ref().err().copied();
        let (mut tools, mut raw_tools) = (Vec::new(), Vec::new());
        let (mut by_name, mut cache_mark) = (HashMap::new(), None);
        for tool in parsed.unwrap_or_default() {
            let ClientTool { raw, name, searchable, mark } = tool;
            cache_mark = mark.or(cache_mark);
            let start = raw.get().as_ptr() as usize - source.as_ptr() as usize;
            if name.as_deref().is_some_and(|name| [SEARCH, CALL].contains(&name)) {
                bypass = Some("tool-name-taken");
            }
            if let Some(name) = &name
                && by_name.insert(name.as_str().into(), tools.len()).is_some()
            {
                bypass = Some("duplicate-tools");
            }
            let place = start..start + raw.get().len();
            tools.push(ListedTool { name: name.map(Into::into), place, is_deferrable: searchable.is_some() });
            raw_tools.extend(searchable);
        }
        let tokens = estimate_tokens(&source);
        let (catalog, _) = Catalog::from_tools(raw_tools);
        Self {
            wire: wire.name(),
            tools,
            by_name,
            bypass,
            cache_mark,
            tokens,
            catalog,
            session: OnceLock::new(),
            own: OnceLock::new(),
            ranker,
            source,
        }
    }

    /// Returns the list as the client wrote it.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the number of tools.
    pub(crate) fn len(&self) -> usize {
        self.tools.len()
    }

    /// Returns the number of tools that can be deferred.
    pub(crate) fn deferrable(&self) -> usize {
        self.catalog.len()
    }

    /// Returns the definitions of all tools that are never deferred, as the client wrote them.
    pub(crate) fn never_deferred(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let kept = self.tools.iter().filter(|tool| !tool.is_deferrable);
        kept.map(|tool| (tool.name.as_deref(), &self.source[tool.place.clone()]))
    }

    /// Returns the definition of a tool as the client wrote it.
    pub(crate) fn definition(&self, name: &str) -> Option<&str> {
        let tool = &self.tools[*self.by_name.get(name)?];
        Some(&self.source[tool.place.clone()])
    }

    /// Returns whether the list has a tool that can be deferred under this name.
    pub(crate) fn is_deferrable(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|at| self.tools[*at].is_deferrable)
    }

    /// Returns all names in the order of the list.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter_map(|tool| tool.name.as_deref())
    }

    /// Returns a session over the tools that can be deferred; `None` if there are none.
    pub(crate) fn session(&self) -> Option<Session> {
        let template = self.session.get_or_init(|| {
            let settings = Settings { validation: Validation::on(), ..Settings::default() };
            let ranker = Arc::clone(&self.ranker);
            Session::new(DialectName::Bridge, settings, self.catalog.clone(), Selection::everything(), ranker).ok()
        });
        template.as_ref().map(Session::fork)
    }

    /// Returns the tools of the proxy: the search, and the tool that calls others unless the model `calls_directly`.
    pub(crate) fn own_tools(&self, calls_directly: bool) -> Option<Vec<ToolDefinition>> {
        // The search describes the whole list, which takes time.
        let own = self.own.get_or_init(|| {
            let visible = self.session()?.visible();
            let named =
                |name: &str| visible.iter().find(|tool| tool.name == name).map(|tool| ToolDefinition::clone(tool));
            Some([named(SEARCH)?, named(CALL)?])
        });
        let [search, call] = own.clone()?;
        if !calls_directly {
            return Some(vec![search, call]);
        }
        let how = "The tools that it finds can be called from then on.";
        let description = search.description.replace(BRIDGE_SEARCH_RESULT, how);
        Some(vec![ToolDefinition { description, ..search }])
    }

    /// Builds the index, so that the first search does not wait for it.
    pub(crate) fn prepare(&self) {
        if let Some(session) = self.session() {
            self.ranker.prepare(session.catalog());
        }
    }

    fn bytes(&self) -> usize {
        // The catalog and its index take about as much as the list again.
        self.source.len() * 2
    }
}

/// A list that is parsed once, by the request that brings it first.
type Cell = Arc<OnceLock<Arc<ToolSet>>>;

/// The lists that were seen last.
#[derive(Debug, Default)]
pub(crate) struct ToolSets(Mutex<CachedSets>);

#[derive(Debug, Default)]
struct CachedSets {
    /// By fingerprint; text and format are compared too.
    sets: HashMap<u64, CachedSet>,
    clock: u64,
}

#[derive(Debug)]
struct CachedSet {
    cell: Cell,
    used: u64,
}

impl ToolSets {
    /// Returns the tools of a list, and whether they were parsed just now.
    pub(crate) fn get(&self, source: &str, wire: &dyn Wire) -> (Arc<ToolSet>, bool) {
        let fingerprint = fingerprint(source, wire.name());
        let cell = self.cell(fingerprint);
        let mut is_new = false;
        let set = cell.get_or_init(|| {
            is_new = true;
            Arc::new(ToolSet::parse(source, wire))
        });
        if *set.source == *source && set.wire == wire.name() {
            if is_new {
                self.evict(fingerprint);
            }
            return (Arc::clone(set), is_new);
        }
        // Another list with the same fingerprint; the newer one stays.
        let set = Arc::new(ToolSet::parse(source, wire));
        let cell = Cell::default();
        let _ = cell.set(Arc::clone(&set));
        self.lock().sets.insert(fingerprint, CachedSet { cell, used: u64::MAX });
        (set, true)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CachedSets> {
        // Entries are only inserted and removed whole, so that poison does not matter.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, fingerprint: u64) -> Cell {
        let mut cached = self.lock();
        cached.clock += 1;
        let used = cached.clock;
        let entry = cached.sets.entry(fingerprint).or_insert_with(|| CachedSet { cell: Cell::default(), used });
        entry.used = used;
        Arc::clone(&entry.cell)
    }

    /// Removes the least recently used lists beyond the limits, except the one that was just added.
    fn evict(&self, newest: u64) {
        let mut cached = self.lock();
        loop {
            let bytes: usize = cached.sets.values().filter_map(|set| set.cell.get()).map(|set| set.bytes()).sum();
            if bytes <= MAX_CACHED_BYTES && cached.sets.len() <= MAX_CACHED_LISTS {
                return;
            }
            let others = cached.sets.iter().filter(|(key, _)| **key != newest);
            let Some(oldest) = others.min_by_key(|(_, set)| set.used).map(|(key, _)| *key) else { return };
            cached.sets.remove(&oldest);
        }
    }
}

/// A fast hash of a list and its format. Equal hashes prove nothing: both are compared as well.
fn fingerprint(source: &str, wire: WireName) -> u64 {
    let mut hasher = FxHasher::default();
    source.hash(&mut hasher);
    wire.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
