//! The sources of the agent's tools: servers, the host program, and the agent itself.

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
use pegboard_upstream::{Fleet, Item, ListKind, Lists, Presentation, PresentedTool, Upstream};
use tokio::sync::watch;

use crate::{approval::CallPolicy, custom::Registry};

/// Maximum number of assigned names that are remembered for one server.
const MAX_ASSIGNED: usize = 100_000;

/// The inputs from which a server's part of the catalog was built.
#[derive(Debug)]
struct ServerPart {
    tools: Arc<Vec<Item>>,
    names: Vec<String>,
    description: String,
}

/// All tools as one catalog, which is updated from its sources.
pub(crate) struct Sources {
    fleet: Arc<Fleet>,
    changes: watch::Receiver<u64>,
    registry: Registry,
    registered: Option<u64>,
    has_human: bool,
    has_outputs: bool,
    selection: Selection,
    policy: Option<Arc<dyn CallPolicy>>,
    /// How tools of servers are named.
    style: Style,
    prefixes: Prefixes,
    /// Names that are reserved for the conversation's meta-tools.
    reserved: BTreeSet<&'static str>,
    parts: HashMap<String, ServerPart>,
    /// The assigned names, by server and by the tool's own name.
    assigned: HashMap<String, HashMap<String, String>>,
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
            assigned: HashMap::new(),
            catalog: Catalog::empty(),
        }
    }

    /// Sets whether there is a user to ask, and whether large outputs are offloaded.
    pub(crate) fn with_host_tools(mut self, has_human: bool, has_outputs: bool) -> Self {
        (self.has_human, self.has_outputs) = (has_human, has_outputs);
        self
    }

    /// Sets the policy that decides which tools of servers are visible.
    pub(crate) fn with_policy(mut self, policy: Option<Arc<dyn CallPolicy>>) -> Self {
        self.policy = policy;
        self
    }

    /// Sets how tools of servers are named, and when with their server.
    pub(crate) fn with_names(mut self, style: Style, prefixes: Prefixes) -> Self {
        (self.style, self.prefixes) = (style, prefixes);
        self
    }

    /// Reserves names for the meta-tools of a dialect.
    pub(crate) fn reserve(&mut self, names: &[&'static str]) {
        self.reserved.extend(names.iter().copied());
        self.assigned.clear();
        self.changes.mark_changed();
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Updates the catalog; returns whether it has changed.
    pub(crate) fn refresh(&mut self) -> bool {
        let registered = self.registry.version();
        let is_same = self.registered == Some(registered);
        // A fleet that was dropped does not change any more.
        if is_same && !self.changes.has_changed().unwrap_or(false) {
            return false;
        }
        self.changes.mark_unchanged();
        self.registered = Some(registered);
        let before = self.catalog.clone();
        self.update_servers();
        self.update_own_tools();
        let servers = self.fleet.servers();
        let order: Vec<&str> = servers.iter().map(|server| server.name()).collect();
        self.catalog = self.catalog.ordered_by(&order);
        let is_new = !self.catalog.iter().map(Arc::as_ptr).eq(before.iter().map(Arc::as_ptr));
        if !is_new {
            // An equal snapshot would only invalidate everything that was computed from the old
            // one.
            self.catalog = before;
        }
        is_new
    }

    fn update_servers(&mut self) {
        let servers = self.fleet.servers();
        let lists: Vec<Arc<Lists>> = servers.iter().map(|server| server.lists()).collect();
        let shown: Vec<(&Arc<Upstream>, Presentation<'_>)> =
            servers.iter().zip(&lists).map(|(server, lists)| (server, self.present(server, lists))).collect();
        let mut names = self.names(&shown).into_iter();
        for ((server, presentation), lists) in shown.iter().zip(&lists) {
            let items = &presentation.tools;
            let names: Vec<String> = names.by_ref().take(items.len()).collect();
            let assigned = self.assigned.entry(server.name().to_owned()).or_default();
            if assigned.len() > MAX_ASSIGNED {
                // A server that keeps renaming its tools must not fill the memory.
                assigned.retain(|key, _| items.iter().any(|tool| tool.item.key == *key));
            }
            assigned.extend(items.iter().map(|tool| tool.item.key.clone()).zip(names.iter().cloned()));
            let part = ServerPart { tools: Arc::clone(&lists.tools), names, description: server.description() };
            if !self.parts.get(server.name()).is_some_and(|old| old.is_same(&part)) {
                presentation.log(server.config());
                let tool = |(tool, shown): (&PresentedTool<'_>, &String)| {
                    // Its identity is the server's affair, whatever it is called here.
                    let id = Some(format!("{}/{}", server.name(), tool.item.key));
                    let tool = tool.to_raw(shown)?;
                    let policy = self.policy.as_ref();
                    let described =
                        policy.and_then(|policy| policy.rewrite_description(server.name(), &tool.description));
                    let description = described.unwrap_or_else(|| tool.description.clone());
                    Some(RawTool { id, description, ..tool })
                };
                let raw = items.iter().zip(&part.names).filter_map(tool);
                let whose = Server {
                    name: server.name().to_owned(),
                    description: part.description.clone(),
                    summary: server.config().summary.clone(),
                    origin: Origin::Mcp,
                };
                let (catalog, warnings) = self.catalog.with_server(whose, raw);
                warnings.iter().for_each(|warning| tracing::warn!(server = server.name(), "{warning}"));
                self.catalog = catalog;
                self.parts.insert(server.name().to_owned(), part);
            }
        }
    }

    /// Returns the tools of a server that the policy shows and that can be called, as its settings present
    /// them.
    fn present<'a>(&self, server: &'a Upstream, lists: &'a Lists) -> Presentation<'a> {
        let is_visible = |key: &str| self.policy.as_ref().is_none_or(|policy| policy.is_visible(server.name(), key));
        Presentation::of_shown(server.config(), lists, |item| is_visible(&item.key) && server.can_call(item))
    }

    /// The names that the gateway is_visible too: `server___tool`, or the tool's own where names carry no
    /// server and no other tool has it. An assigned name never changes, since the model may know it.
    fn names(&self, servers: &[(&Arc<Upstream>, Presentation<'_>)]) -> Vec<String> {
        let listed: Vec<(&str, &PresentedTool<'_>)> =
            servers.iter().flat_map(|(server, shown)| shown.tools.iter().map(|tool| (server.name(), tool))).collect();
        let enabled = servers.iter().filter(|(server, _)| server.config().is_enabled).count();
        let full = Style { is_prefixed: true, ..self.style.clone() };
        let style = Style { is_prefixed: self.prefixes.applies_to(enabled), ..full.clone() };
        let mut shown: Vec<String> = Vec::with_capacity(listed.len());
        for (server, presentation) in servers {
            let names = ShownNames::new(&style, presentation.tools.iter().map(|tool| (server.name(), tool.name)));
            shown.extend(names.iter().map(str::to_owned));
        }
        let mut seen: HashMap<&str, usize> = HashMap::new();
        shown.iter().for_each(|name| *seen.entry(name).or_default() += 1);
        // Names of the agent and of the host program take precedence over those of servers.
        let mut taken: BTreeSet<String> = self.reserved.iter().map(|name| (*name).to_owned()).collect();
        taken.extend(self.registry.names());
        let assigned = |server: &str, tool: &PresentedTool<'_>| {
            self.assigned.get(server).and_then(|names| names.get(&tool.item.key))
        };
        taken.extend(listed.iter().filter_map(|(server, tool)| assigned(server, tool)).cloned());
        let mut names = Vec::with_capacity(listed.len());
        for ((server, tool), shown) in listed.iter().zip(&shown) {
            let name = assigned(server, tool).cloned().unwrap_or_else(|| {
                // Not every provider takes a name that begins with a digit.
                let is_accepted = shown.starts_with(|c: char| c.is_alphabetic() || c == '_');
                let is_alone = seen.get(shown.as_str()) == Some(&1) && !taken.contains(shown);
                if is_accepted && is_alone { shown.to_owned() } else { free_name(&full, (server, tool.name), &taken) }
            });
            taken.insert(name.clone());
            names.push(name);
        }
        names
    }

    fn update_own_tools(&mut self) {
        let mut own = self.registry.to_raw(self.has_human);
        let deferred = |tool: HostTool| RawTool { deferred: Some(true), ..tool.to_raw() };
        if !self.offers(ListKind::Prompts).is_empty() {
            own.push(deferred(HostTool::GetPrompt));
        }
        if !self.offers(ListKind::Resources).is_empty() || !self.offers(ListKind::Templates).is_empty() {
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

    /// Returns the prompts or resources of the servers that are selected.
    pub(crate) fn offers(&self, kind: ListKind) -> Vec<ServerOffer> {
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

/// Returns the full name of a tool, with a number if it is taken.
fn free_name(style: &Style, item: (&str, &str), taken: &BTreeSet<String>) -> String {
    let taken = taken.iter().map(|name| ("", name.as_str()));
    // The first of several equal names keeps its name.
    let bare = Style { is_prefixed: false, ..style.clone() };
    let full = style.name(item.0, item.1);
    let all = ShownNames::new(&bare, taken.chain([(item.0, full.as_str())]));
    all.iter().last().unwrap_or_default().to_owned()
}

impl ServerPart {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tools, &other.tools) && self.names == other.names && self.description == other.description
    }
}
