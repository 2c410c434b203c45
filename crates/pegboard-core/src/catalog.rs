//! Immutable snapshots of tools, cheap to share and cheap to change.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, OnceLock},
};

use crate::{
    naming,
    tool::{Location, Origin, RawTool, Server, Tool},
};

/// A snapshot of tools in a stable order.
///
/// Cloning shares it. A change makes a new snapshot that shares every tool the change did not
/// touch, so that an index can recognize new tools by their address.
#[derive(Clone)]
pub struct Catalog {
    snapshot: Arc<Snapshot>,
}

struct Snapshot {
    version: u64,
    groups: Vec<Arc<Group>>,
    len: usize,
}

/// Adjacent tools of one server. Input order is kept even where servers alternate; a server may
/// then have several groups.
struct Group {
    server: Option<Arc<Server>>,
    tools: Vec<Arc<Tool>>,
    positions: OnceLock<HashMap<Box<str>, usize>>,
}

/// The differences between two snapshots.
#[derive(Debug, Default)]
pub struct Changes {
    /// Tools of the newer snapshot only, in its order.
    pub added: Vec<Arc<Tool>>,
    /// Tools of the older snapshot only, in its order.
    pub removed: Vec<Arc<Tool>>,
}

/// The kind of a warning, by the name in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// A second tool with the identity of an earlier one; the first is kept.
    DuplicateTool,
    /// A tool without a name; it is left out.
    EmptyName,
    /// A schema that is not a JSON object; the tool is kept without it.
    SchemaNotObject,
    /// A line that is not JSON; it is left out.
    MalformedLine,
    /// A JSON value that does not describe a tool; it is left out.
    NotATool,
    /// A field of the wrong type; it is taken as missing.
    WrongType,
    /// A text or schema over its limit; what is over is left out.
    TooLong,
    /// Invisible characters, or characters that control a terminal; they are removed.
    HiddenCharacters,
    /// A reference that leads to nothing in its document; it is taken as missing.
    UnresolvedReference,
}

impl WarningKind {
    /// Returns the name that messages and documentation use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DuplicateTool => "duplicate-tool",
            Self::EmptyName => "empty-name",
            Self::SchemaNotObject => "schema-not-object",
            Self::MalformedLine => "malformed-line",
            Self::NotATool => "not-a-tool",
            Self::WrongType => "wrong-type",
            Self::TooLong => "too-long",
            Self::HiddenCharacters => "hidden-characters",
            Self::UnresolvedReference => "unresolved-reference",
        }
    }
}

/// A problem with one tool of a source; the rest of the source is usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// What was found and what became of it.
    pub message: String,
    /// Where it was found.
    pub location: Option<Location>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.kind.as_str())
    }
}

impl Catalog {
    /// A catalog without tools.
    pub fn empty() -> Self {
        Self::from_groups(Vec::new(), 0)
    }

    /// Returns a catalog of `tools` in their order. Tools that cannot be kept are reported.
    pub fn from_tools(tools: Vec<RawTool>) -> (Self, Vec<Warning>) {
        let mut warnings = Vec::new();
        let servers = servers_of(&tools);
        let mut seen: HashSet<ById> = HashSet::with_capacity(tools.len());
        let mut kept: Vec<Arc<Tool>> = Vec::with_capacity(tools.len());
        for raw in tools {
            let location = raw.location.clone();
            let server = server_name(&raw).and_then(|name| servers.get(name)).cloned();
            let Some(tool) = admit(raw, server, &mut warnings) else { continue };
            let tool = Arc::new(tool);
            if seen.insert(ById(Arc::clone(&tool))) {
                kept.push(tool);
            } else {
                warnings.push(duplicate(tool.id(), location));
            }
        }
        let runs = kept.chunk_by(|a, b| same_server(a.server(), b.server()));
        let groups = runs.map(|run| Group::new(run[0].server().cloned(), run.to_vec())).collect();
        (Self::from_groups(groups, 1), warnings)
    }

    fn from_groups(groups: Vec<Arc<Group>>, version: u64) -> Self {
        let len = groups.iter().map(|group| group.tools.len()).sum();
        Self { snapshot: Arc::new(Snapshot { version, groups, len }) }
    }

    /// Returns the version, which grows with every change along a line of snapshots.
    pub fn version(&self) -> u64 {
        self.snapshot.version
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.snapshot.len
    }

    /// Returns whether the catalog has no tools.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over all tools in catalog order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Tool>> {
        self.snapshot.groups.iter().flat_map(|group| &group.tools)
    }

    /// Returns the servers in the order in which they first appear.
    pub fn servers(&self) -> Vec<&Arc<Server>> {
        let mut seen = HashSet::new();
        self.snapshot
            .groups
            .iter()
            .filter_map(|group| group.server.as_ref())
            .filter(|server| seen.insert(server.name.as_str()))
            .collect()
    }

    /// Returns the tool with this identity.
    pub fn find(&self, id: &str) -> Option<&Arc<Tool>> {
        self.snapshot.groups.iter().find_map(|group| group.find(id))
    }

    /// Returns the first tool with this [`upstream_id`](Tool::upstream_id).
    pub fn find_upstream(&self, id: &str) -> Option<&Arc<Tool>> {
        // Only servers whose name it begins with are looked through.
        let may_be = |group: &&Arc<Group>| group.server.as_ref().is_none_or(|server| id.starts_with(&server.name));
        let tools = self.snapshot.groups.iter().filter(may_be).flat_map(|group| &group.tools);
        tools.into_iter().find(|tool| tool.is_upstream_id(id))
    }

    /// Returns whether both are the same snapshot, not merely equal ones.
    pub fn same_snapshot(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.snapshot, &other.snapshot)
    }

    /// Returns a snapshot in which `server` has exactly `tools`, at its first position in the
    /// catalog, else at the end. Tools that did not change stay shared.
    ///
    /// Each of `tools` is taken in before the next is asked for, so that many of them need not be
    /// there at a time.
    pub fn with_server(&self, server: Server, tools: impl IntoIterator<Item = RawTool>) -> (Self, Vec<Warning>) {
        self.with_group(Some(&Arc::new(server.cleaned())), tools)
    }

    /// Returns a snapshot in which the host program has exactly these tools of its own, without a
    /// server.
    pub fn with_own_tools(&self, tools: impl IntoIterator<Item = RawTool>) -> (Self, Vec<Warning>) {
        self.with_group(None, tools)
    }

    fn with_group(
        &self,
        server: Option<&Arc<Server>>,
        tools: impl IntoIterator<Item = RawTool>,
    ) -> (Self, Vec<Warning>) {
        let mut warnings = Vec::new();
        let is_replaced = |group: &Arc<Group>| same_server(group.server.as_ref(), server);
        let mut seen = HashSet::new();
        let mut kept = Vec::new();
        for mut raw in tools {
            let location = raw.location.clone();
            raw.origin = server.map_or(Origin::Host, |server| server.origin);
            let Some(tool) = admit(raw, server.cloned(), &mut warnings) else { continue };
            let elsewhere =
                self.snapshot.groups.iter().any(|group| !is_replaced(group) && group.find(tool.id()).is_some());
            if elsewhere || !seen.insert(Box::<str>::from(tool.id())) {
                warnings.push(duplicate(tool.id(), location));
                continue;
            }
            let before = self.snapshot.groups.iter().filter(|group| is_replaced(group)).find_map(|g| g.find(tool.id()));
            kept.push(match before {
                Some(before) if before.same_content(&tool) => Arc::clone(before),
                _ => Arc::new(tool),
            });
        }
        kept.shrink_to_fit();
        let mut replacement = Some(Group::new(server.cloned(), kept));
        let mut groups = Vec::with_capacity(self.snapshot.groups.len() + 1);
        for group in &self.snapshot.groups {
            if is_replaced(group) {
                groups.extend(replacement.take());
            } else {
                groups.push(Arc::clone(group));
            }
        }
        groups.extend(replacement);
        groups.retain(|group| !group.tools.is_empty());
        (Self::from_groups(groups, self.version() + 1), warnings)
    }

    /// Returns a snapshot in which `raw` replaces the tool with identity `id`, on the same server;
    /// `None` if there is no such tool or `raw` has no name.
    pub fn with_tool(&self, id: &str, mut raw: RawTool) -> Option<Self> {
        let at = self.snapshot.groups.iter().position(|group| group.find(id).is_some())?;
        let group = &self.snapshot.groups[at];
        raw.origin = group.server.as_ref().map_or(raw.origin, |server| server.origin);
        let tool = Arc::new(admit(raw, group.server.clone(), &mut Vec::new())?);
        let is_taken = tool.id() != id && self.find(tool.id()).is_some();
        let mut tools = group.tools.clone();
        let place = tools.iter_mut().find(|tool| tool.id() == id).filter(|_| !is_taken)?;
        *place = tool;
        let mut groups = self.snapshot.groups.clone();
        groups[at] = Group::new(group.server.clone(), tools);
        Some(Self::from_groups(groups, self.version() + 1))
    }

    /// Returns a snapshot without the tools of `server`.
    #[must_use]
    pub fn without_server(&self, server: &str) -> Self {
        let stays = |group: &&Arc<Group>| group.server.as_ref().is_none_or(|known| known.name != server);
        let groups = self.snapshot.groups.iter().filter(stays).map(Arc::clone).collect();
        Self::from_groups(groups, self.version() + 1)
    }

    /// Returns the same tools with the servers in this order; other servers follow in their own
    /// order.
    #[must_use]
    pub fn ordered_by(&self, servers: &[&str]) -> Self {
        let place = |group: &Arc<Group>| {
            let name = group.server.as_ref().map(|server| server.name.as_str());
            servers.iter().position(|server| Some(*server) == name).unwrap_or(servers.len())
        };
        let groups = &self.snapshot.groups;
        if groups.is_sorted_by_key(place) {
            return self.clone();
        }
        let mut groups = groups.clone();
        groups.sort_by_key(place);
        Self::from_groups(groups, self.version() + 1)
    }

    /// Returns the tools to add and to remove to turn an index of `older` into one of `self`.
    ///
    /// Work grows with the number of groups and the size of the changed ones, not with
    /// the catalog.
    pub fn changes_since(&self, older: &Self) -> Changes {
        let addresses =
            |catalog: &Self| -> HashSet<*const Group> { catalog.snapshot.groups.iter().map(Arc::as_ptr).collect() };
        let (before, after) = (addresses(older), addresses(self));
        let only_in = |catalog: &Self, other: &HashSet<*const Group>| -> Vec<Arc<Tool>> {
            let groups = catalog.snapshot.groups.iter().filter(|group| !other.contains(&Arc::as_ptr(group)));
            groups.flat_map(|group| group.tools.iter().cloned()).collect()
        };
        let mut added = only_in(self, &before);
        let mut removed = only_in(older, &after);
        let kept: HashSet<*const Tool> = removed.iter().map(Arc::as_ptr).collect();
        let kept: HashSet<*const Tool> = added.iter().map(Arc::as_ptr).filter(|tool| kept.contains(tool)).collect();
        added.retain(|tool| !kept.contains(&Arc::as_ptr(tool)));
        removed.retain(|tool| !kept.contains(&Arc::as_ptr(tool)));
        Changes { added, removed }
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("version", &self.version()).field("tools", &self.len()).finish()
    }
}

/// A tool that is compared by its identity alone.
struct ById(Arc<Tool>);

impl Eq for ById {}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id() == other.0.id()
    }
}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id().hash(state);
    }
}

impl Group {
    fn new(server: Option<Arc<Server>>, tools: Vec<Arc<Tool>>) -> Arc<Self> {
        Arc::new(Self { server, tools, positions: OnceLock::new() })
    }

    fn find(&self, id: &str) -> Option<&Arc<Tool>> {
        let positions = self
            .positions
            .get_or_init(|| self.tools.iter().enumerate().map(|(at, tool)| (tool.id().into(), at)).collect());
        positions.get(id).map(|at| &self.tools[*at])
    }
}

fn same_server(a: Option<&Arc<Server>>, b: Option<&Arc<Server>>) -> bool {
    a.map(|server| &server.name) == b.map(|server| &server.name)
}

/// Returns the name of the server that a tool belongs to, given or in its own name.
fn server_name(raw: &RawTool) -> Option<&str> {
    let given = raw.server.as_deref().filter(|server| !server.is_empty());
    given.or_else(|| naming::server_prefix(&raw.name))
}

/// Returns one server for each name, with the first description that any of its tools carries.
fn servers_of(tools: &[RawTool]) -> HashMap<Box<str>, Arc<Server>> {
    let mut servers: HashMap<Box<str>, Server> = HashMap::new();
    for raw in tools {
        let Some(name) = server_name(raw) else { continue };
        if !servers.contains_key(name) {
            let server = Server { name: name.into(), origin: raw.origin, ..Server::default() };
            servers.insert(name.into(), server);
        }
        if let (Some(server), Some(description)) = (servers.get_mut(name), &raw.server_description)
            && server.description.is_empty()
        {
            server.description = description.clone();
        }
    }
    servers.into_iter().map(|(name, server)| (name, Arc::new(server.cleaned()))).collect()
}

fn admit(raw: RawTool, server: Option<Arc<Server>>, warnings: &mut Vec<Warning>) -> Option<Tool> {
    let location = raw.location.clone();
    let tool = Tool::new(raw, server);
    if tool.name().trim().is_empty() {
        let message = "tool skipped: no name".to_owned();
        warnings.push(Warning { kind: WarningKind::EmptyName, message, location });
        return None;
    }
    Some(tool)
}

fn duplicate(id: &str, location: Option<Location>) -> Warning {
    let message = format!("duplicate tool `{id}` skipped");
    Warning { kind: WarningKind::DuplicateTool, message, location }
}

#[cfg(test)]
mod tests;
