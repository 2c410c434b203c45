//! Where the agent's tools come from: servers, the host program, and itself.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use pegboard_core::{
    Catalog, Origin, RawTool, Selection, Server,
    naming::{Prefixes, ShownNames, Style},
};
use pegboard_discovery::{HostTool, host::offers::ServerOffer};
use pegboard_mcp::json::Fields;
use pegboard_upstream::{Fleet, Item, ListKind, Upstream};
use tokio::sync::watch;

use crate::{approval::Policy, custom::Registry};

/// Names that are remembered for one server.
const MAX_GIVEN: usize = 100_000;

/// What each server's part of the catalog was made from.
#[derive(Debug)]
struct Part {
    tools: Arc<Vec<Item>>,
    names: Vec<String>,
    description: String,
}

/// The tools there are, as one catalog that follows its sources.
pub(crate) struct Sources {
    fleet: Arc<Fleet>,
    changes: watch::Receiver<u64>,
    registry: Registry,
    registered: Option<u64>,
    has_human: bool,
    has_outputs: bool,
    selection: Selection,
    policy: Option<Arc<dyn Policy>>,
    /// How tools of servers are named, and when with their server.
    style: Style,
    prefixes: Prefixes,
    /// Names that the conversation needs for itself.
    reserved: BTreeSet<&'static str>,
    parts: HashMap<String, Part>,
    /// The names that tools were given, by server and their own name.
    given: HashMap<String, HashMap<String, String>>,
    catalog: Catalog,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl Sources {
    pub(crate) fn new(fleet: Arc<Fleet>, registry: Registry, selection: Selection, reserved: &[&'static str]) -> Self {
        let mut changes = fleet.changes();
        changes.mark_changed();
        let own = HostTool::ALL.map(HostTool::name);
        Self {
            fleet,
            changes,
            registry,
            registered: None,
            has_human: false,
            has_outputs: false,
            selection,
            policy: None,
            style: Style::default(),
            prefixes: Prefixes::default(),
            reserved: own.into_iter().chain(reserved.iter().copied()).collect(),
            parts: HashMap::new(),
            given: HashMap::new(),
            catalog: Catalog::empty(),
        }
    }

    /// Whether there is somebody to ask, and whether large outputs are offloaded.
    pub(crate) fn with_host_tools(mut self, has_human: bool, has_outputs: bool) -> Self {
        (self.has_human, self.has_outputs) = (has_human, has_outputs);
        self
    }

    /// What servers' tools are there at all.
    pub(crate) fn with_policy(mut self, policy: Option<Arc<dyn Policy>>) -> Self {
        self.policy = policy;
        self
    }

    /// How tools of servers are named, and when with their server.
    pub(crate) fn with_names(mut self, style: Style, prefixes: Prefixes) -> Self {
        (self.style, self.prefixes) = (style, prefixes);
        self
    }

    /// Keeps names free that a dialect needs.
    pub(crate) fn reserve(&mut self, names: &[&'static str]) {
        self.reserved.extend(names.iter().copied());
        self.given.clear();
        self.changes.mark_changed();
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Takes in what has changed; whether anything has.
    pub(crate) fn refresh(&mut self) -> bool {
        let registered = self.registry.version();
        let is_same = self.registered == Some(registered);
        // A fleet that is gone changes no more.
        if is_same && !self.changes.has_changed().unwrap_or(false) {
            return false;
        }
        self.changes.mark_unchanged();
        self.registered = Some(registered);
        let before = self.catalog.clone();
        self.take_servers();
        self.take_own();
        let servers = self.fleet.servers();
        let order: Vec<&str> = servers.iter().map(|server| server.name()).collect();
        self.catalog = self.catalog.ordered_by(&order);
        let is_new = !self.catalog.iter().map(Arc::as_ptr).eq(before.iter().map(Arc::as_ptr));
        if !is_new {
            // A snapshot that says nothing new would only make everybody work things out again.
            self.catalog = before;
        }
        is_new
    }

    fn take_servers(&mut self) {
        let servers = self.fleet.servers();
        let listed: Vec<(&Arc<Upstream>, Arc<Vec<Item>>)> =
            servers.iter().map(|server| (server, Arc::clone(server.lists().of(ListKind::Tools)))).collect();
        let kept: Vec<Vec<&Item>> = listed
            .iter()
            .map(|(server, items)| items.iter().filter(|item| self.is_there(server, item)).collect())
            .collect();
        let mut names = self.names(&listed, &kept).into_iter();
        for ((server, tools), items) in listed.iter().zip(&kept) {
            let names: Vec<String> = names.by_ref().take(items.len()).collect();
            let given = self.given.entry(server.name().to_owned()).or_default();
            if given.len() > MAX_GIVEN {
                // A server that keeps renaming its tools must not fill the memory.
                given.retain(|key, _| items.iter().any(|item| item.key == *key));
            }
            given.extend(items.iter().map(|item| item.key.clone()).zip(names.iter().cloned()));
            let part = Part { tools: Arc::clone(tools), names, description: server.description() };
            if !self.parts.get(server.name()).is_some_and(|old| old.is_same(&part)) {
                let tool = |(item, shown): (&&Item, &String)| {
                    // Its identity is the server's affair, whatever it is called here.
                    let id = Some(format!("{}/{}", server.name(), item.key));
                    let tool = item.to_tool(shown)?;
                    let policy = self.policy.as_ref();
                    let described = policy.and_then(|policy| policy.describes(server.name(), &tool.description));
                    let prompt_instructions = server.config().prompt_instructions.of(&item.key).map(str::to_owned);
                    let description = described.unwrap_or_else(|| tool.description.clone());
                    Some(RawTool { id, description, prompt_instructions, ..tool })
                };
                let raw = items.iter().zip(&part.names).filter_map(tool);
                let whose = Server {
                    name: server.name().to_owned(),
                    description: part.description.clone(),
                    origin: Origin::Mcp,
                };
                let (catalog, warnings) = self.catalog.with_server(whose, raw);
                warnings.iter().for_each(|warning| tracing::warn!(server = server.name(), "{warning}"));
                self.catalog = catalog;
                self.parts.insert(server.name().to_owned(), part);
            }
        }
    }

    fn is_there(&self, server: &Upstream, item: &Item) -> bool {
        let is_shown = self.policy.as_ref().is_none_or(|policy| policy.shows(server.name(), &item.key));
        is_shown && server.can_call(item)
    }

    /// The names that the gateway shows too: `server___tool`, or the tool's own where names carry no
    /// server and no other tool has it. A name that was given stays given: the model may know it.
    fn names(&self, servers: &[(&Arc<Upstream>, Arc<Vec<Item>>)], kept: &[Vec<&Item>]) -> Vec<String> {
        let listed: Vec<(&str, &str)> = servers
            .iter()
            .zip(kept)
            .flat_map(|((server, _), items)| items.iter().map(|item| (server.name(), item.key.as_str())))
            .collect();
        let enabled = servers.iter().filter(|(server, _)| server.config().is_enabled).count();
        let full = Style { is_prefixed: true, ..self.style.clone() };
        let style = Style { is_prefixed: self.prefixes.applies_to(enabled), ..full.clone() };
        let mut shown: Vec<String> = Vec::with_capacity(listed.len());
        for ((server, _), items) in servers.iter().zip(kept) {
            let names = ShownNames::new(&style, items.iter().map(|item| (server.name(), item.key.as_str())));
            shown.extend(names.iter().map(str::to_owned));
        }
        let mut seen: HashMap<&str, usize> = HashMap::new();
        shown.iter().for_each(|name| *seen.entry(name).or_default() += 1);
        // The names of the agent and of the host program never give way to those of a server.
        let mut taken: BTreeSet<String> = self.reserved.iter().map(|name| (*name).to_owned()).collect();
        taken.extend(self.registry.names());
        let given = |(server, key): (&str, &str)| self.given.get(server).and_then(|names| names.get(key));
        taken.extend(listed.iter().filter_map(|item| given(*item)).cloned());
        let mut names = Vec::with_capacity(listed.len());
        for (item, shown) in listed.iter().zip(&shown) {
            let name = given(*item).cloned().unwrap_or_else(|| {
                // Not every provider takes a name that begins with a digit.
                let is_accepted = shown.starts_with(|c: char| c.is_alphabetic() || c == '_');
                let is_alone = seen.get(shown.as_str()) == Some(&1) && !taken.contains(shown);
                if is_accepted && is_alone { shown.to_owned() } else { free_name(&full, *item, &taken) }
            });
            taken.insert(name.clone());
            names.push(name);
        }
        names
    }

    fn take_own(&mut self) {
        let mut own = self.registry.to_raw(self.has_human);
        let deferred = |tool: HostTool| RawTool { deferred: Some(true), ..tool.to_raw() };
        if !self.kept(ListKind::Prompts).is_empty() {
            own.push(deferred(HostTool::GetPrompt));
        }
        if !self.kept(ListKind::Resources).is_empty() || !self.kept(ListKind::Templates).is_empty() {
            own.push(deferred(HostTool::GetResource));
        }
        if self.has_outputs {
            own.extend(HostTool::OUTPUTS.map(HostTool::to_raw));
        }
        if self.has_human {
            own.push(HostTool::AskHuman.to_raw());
        }
        let (catalog, warnings) = self.catalog.with_own_tools(own);
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        self.catalog = catalog;
    }

    /// What servers keep beside their tools, as far as it may be seen.
    pub(crate) fn kept(&self, kind: ListKind) -> Vec<ServerOffer> {
        let servers = self.fleet.servers();
        let servers = servers.iter().filter(|server| self.selection.allows_server(server.name()));
        let entries = servers.flat_map(|server| {
            let items = Arc::clone(server.lists().of(kind));
            let whose = server.name().to_owned();
            let entry = move |item: &Item| {
                let text = Fields::of(&item.raw).and_then(|fields| fields.text("description"));
                ServerOffer { server: whose.clone(), key: item.key.clone(), description: text.unwrap_or_default() }
            };
            items.iter().map(entry).collect::<Vec<_>>()
        });
        entries.collect()
    }
}

/// The full name of a tool, with digits where it is taken.
fn free_name(style: &Style, item: (&str, &str), taken: &BTreeSet<String>) -> String {
    let taken = taken.iter().map(|name| ("", name.as_str()));
    // What comes first keeps its name.
    let bare = Style { is_prefixed: false, ..style.clone() };
    let full = style.name(item.0, item.1);
    let all = ShownNames::new(&bare, taken.chain([(item.0, full.as_str())]));
    all.iter().last().unwrap_or_default().to_owned()
}

impl Part {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tools, &other.tools) && self.names == other.names && self.description == other.description
    }
}
