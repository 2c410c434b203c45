//! All items of all servers, under the names that clients see.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use pegboard_core::{
    Catalog, Origin, RawTool, Selection, Server, Tool,
    naming::{ShownNames, Style},
};
use pegboard_discovery::policy::{Middleware, Policies};
use pegboard_mcp::{
    headers::{self, MirroredParameter},
    json::{Fields, Raw, SharedRaw, raw},
};
use pegboard_upstream::{
    Fleet, Item, ListKind, Lists, OwnTools, Presentation, PresentedTool, Upstream, config::ServerConfig,
};

use crate::{
    catalog::{apps, entries::VisibleEntries, uris::UriNames},
    lock,
    settings::GatewaySettings,
};

/// The items of all servers at one moment. Immutable; a change makes a new one.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) catalog: Option<Catalog>,
    /// The servers, in order.
    pub(crate) servers: Arc<[Arc<Upstream>]>,
    /// The servers and their lists, in the same order.
    lists: Vec<(Arc<str>, Arc<Lists>)>,
    /// How prompts are named.
    style: Style,
    pub(crate) uris: Arc<UriNames>,
    /// Entries that were asked for, by which of the servers are visible.
    entries: Mutex<HashMap<Vec<bool>, Arc<VisibleEntries>>>,
    /// Parameters that headers repeat, by server and tool.
    mirrored: HashMap<(Arc<str>, String), Vec<MirroredParameter>>,
    /// What each server's part was made from, so that an unchanged one is kept.
    parts: HashMap<Arc<str>, ServerPart>,
    /// Tools that must not be used until the user approves them.
    pub(crate) held: Vec<Arc<Tool>>,
    /// How servers want to be used.
    pub(crate) instructions: Vec<(Arc<str>, String)>,
}

/// Whether what is found out about the tools of a server is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Findings {
    /// Findings are logged.
    New,
    /// Findings are not logged again: the directory of one client repeats those of all.
    Known,
}

#[derive(Clone, Debug)]
struct ServerPart {
    tools: Arc<Vec<Item>>,
    names: Vec<String>,
    description: String,
    summary: Option<String>,
    /// What was done to it on the way, in words.
    policy: String,
}

/// The differences between two directories.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// Tools that came or went.
    tools: Vec<Arc<Tool>>,
    /// Servers whose prompts changed.
    prompts: BTreeSet<Arc<str>>,
    /// Servers whose resources or templates changed.
    resources: BTreeSet<Arc<str>>,
}

impl Difference {
    /// Returns the difference between the tools of two catalogs.
    pub(crate) fn of_tools(new: &Catalog, old: &Catalog) -> Self {
        let changes = new.changes_since(old);
        Self { tools: changes.added.into_iter().chain(changes.removed).collect(), ..Self::default() }
    }

    pub(crate) fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Returns whether the visible tools differ.
    pub(crate) fn has_tools_for(&self, selection: &Selection) -> bool {
        self.tools.iter().any(|tool| selection.allows(tool))
    }

    /// Returns whether the visible prompts differ.
    pub(crate) fn has_prompts_for(&self, selection: &Selection) -> bool {
        self.prompts.iter().any(|server| selection.allows_server(server))
    }

    /// Returns whether the visible resources differ.
    pub(crate) fn has_resources_for(&self, selection: &Selection) -> bool {
        self.resources.iter().any(|server| selection.allows_server(server))
    }
}

impl Directory {
    /// Returns whether a caller sees all of a server, or one of its tools.
    pub(crate) fn has_visible_tool(&self, selection: &Selection, server: &str) -> bool {
        let of_server = |tool: &&Arc<Tool>| tool.server_name() == Some(server);
        let mut tools = self.catalog.iter().flat_map(Catalog::iter).filter(of_server);
        selection.allows_server(server) || tools.any(|tool| selection.allows(tool))
    }

    /// Builds the directory of a fleet; unchanged parts are shared with `before`.
    pub(crate) fn new(fleet: &Fleet, settings: &GatewaySettings, before: &Self) -> Self {
        let all = fleet.servers();
        let servers: Vec<(&Arc<Upstream>, Arc<Lists>)> = all.iter().map(|server| (server, server.lists())).collect();
        let enabled = all.iter().filter(|server| server.config().is_enabled).count();
        let is_prefixed = settings.prefixes.applies_to(enabled);
        let style = Style { is_prefixed, ..settings.names.clone() };
        let mut directory = Self {
            servers: Arc::clone(&all),
            lists: servers.iter().map(|(server, lists)| (server.name().into(), Arc::clone(lists))).collect(),
            uris: Arc::new(UriNames::new(servers.iter().map(|(server, _)| server.name()), is_prefixed)),
            ..Self::default()
        };
        directory.style = style;
        directory.add_tools(&servers, settings, before);
        for (server, _) in &servers {
            let text = server.hello().and_then(|hello| hello.instructions.clone());
            let text = text.filter(|text| !text.trim().is_empty());
            directory.instructions.extend(text.map(|text| (Arc::from(server.name()), text)));
        }
        directory
    }

    /// Returns this directory with the tools that only the connections of one client have, by the position of
    /// their server.
    pub(crate) fn with_own_tools(&self, own: &[(usize, Arc<OwnTools>)], settings: &GatewaySettings) -> Self {
        let mut directory = Self {
            catalog: None,
            servers: Arc::clone(&self.servers),
            lists: self.lists.clone(),
            style: self.style.clone(),
            uris: Arc::clone(&self.uris),
            entries: Mutex::default(),
            mirrored: self.mirrored.clone(),
            parts: HashMap::new(),
            held: self.held.clone(),
            instructions: self.instructions.clone(),
        };
        let mut catalog = self.catalog.clone().unwrap_or_else(Catalog::empty);
        for (at, own) in own {
            let (Some(server), Some((name, lists))) = (self.servers.get(*at), self.lists.get(*at)) else { continue };
            directory.held.retain(|tool| tool.server_name() != Some(name));
            catalog =
                directory.add_server_tools(catalog, server, &own.added_to(lists), settings, self, Findings::Known);
        }
        directory.catalog = Some(catalog.ordered_by(&self.server_names()));
        directory
    }

    fn server_names(&self) -> Vec<&str> {
        self.lists.iter().map(|(name, _)| &**name).collect()
    }

    fn add_tools(&mut self, servers: &[(&Arc<Upstream>, Arc<Lists>)], settings: &GatewaySettings, before: &Self) {
        let mut catalog = before.catalog.clone().unwrap_or_else(Catalog::empty);
        for (server, lists) in servers {
            catalog = self.add_server_tools(catalog, server, lists, settings, before, Findings::New);
        }
        for gone in before.parts.keys().filter(|name| !self.parts.contains_key(*name)) {
            catalog = catalog.without_server(gone);
        }
        let catalog = catalog.ordered_by(&self.server_names());
        // A snapshot that says nothing new would only make everybody work things out again.
        let is_same = |old: &Catalog| old.iter().map(Arc::as_ptr).eq(catalog.iter().map(Arc::as_ptr));
        self.catalog = before.catalog.clone().filter(is_same).or(Some(catalog));
    }

    /// Adds the tools of one server; returns the catalog with them. It stays the same if they do.
    fn add_server_tools(
        &mut self,
        mut catalog: Catalog,
        server: &Upstream,
        lists: &Lists,
        settings: &GatewaySettings,
        before: &Self,
        findings: Findings,
    ) -> Catalog {
        let name: Arc<str> = server.name().into();
        let presentation = shown_tools(server, lists, settings);
        let (items, held) = (&presentation.tools, &presentation.held);
        // Of this server alone: a session tells apart what its caller sees of several. With the
        // tools that are held back, so that a name is the same before and after approval.
        let names = ShownNames::new(&self.style, items.iter().chain(held).map(|tool| (&*name, tool.name)));
        let mut names = names.iter();
        let shown: Vec<String> = names.by_ref().take(items.len()).map(str::to_owned).collect();
        let policies = &settings.policies;
        let uris = Arc::clone(&self.uris);
        let tool = |tool: &PresentedTool<'_>, shown: &str| to_raw_tool(tool, shown, &name, policies, &uris);
        let part = ServerPart {
            tools: Arc::clone(&lists.tools),
            names: shown,
            description: server.description(),
            policy: format!("{} {}", policies_in_words(server.config(), policies), self.uris.shown_uri(&name, "")),
            summary: server.config().summary.clone(),
        };
        self.add_mirrored_parameters(&name, items);
        if !before.parts.get(&name).is_some_and(|old| old.is_same(&part)) {
            let tools = items.iter().zip(&part.names).filter_map(|(one, shown)| tool(one, shown));
            let (newer, warnings) = catalog.with_server(part.server(&name), tools);
            if findings == Findings::New {
                presentation.log(server.config());
                warnings.iter().for_each(|warning| tracing::warn!(server = %name, "{warning}"));
            }
            catalog = newer;
        }
        let away = held.iter().zip(names).filter_map(|(one, shown)| tool(one, shown));
        let away = away.collect::<Vec<RawTool>>();
        if !away.is_empty() {
            let (away, _) = Catalog::empty().with_server(part.server(&name), away);
            self.held.extend(away.iter().cloned());
        }
        self.parts.insert(name, part);
        catalog
    }

    fn add_mirrored_parameters(&mut self, server: &Arc<str>, tools: &[PresentedTool<'_>]) {
        for item in tools.iter().map(|tool| tool.item).filter(|item| item.raw.get().contains("x-mcp-header")) {
            let schema = Fields::of(&item.raw).and_then(|fields| fields.read("inputSchema"));
            match schema.as_ref().map(headers::mirrored_parameters) {
                Some(Ok(parameters)) if !parameters.is_empty() => {
                    self.mirrored.insert((Arc::clone(server), item.key.clone()), parameters);
                }
                _ => {}
            }
        }
    }

    /// Returns the prompts, resources and templates that `selection` allows.
    pub(crate) fn entries(&self, selection: &Selection) -> Arc<VisibleEntries> {
        self.entries_of(self.lists.iter().map(|(server, _)| selection.allows_server(server)).collect())
    }

    /// Returns the prompts, resources and templates of all servers.
    pub(crate) fn all_entries(&self) -> Arc<VisibleEntries> {
        self.entries_of(vec![true; self.lists.len()])
    }

    fn entries_of(&self, is_visible: Vec<bool>) -> Arc<VisibleEntries> {
        if let Some(known) = lock(&self.entries).get(&is_visible) {
            return Arc::clone(known);
        }
        let servers: Vec<_> = self.lists.iter().zip(&is_visible).filter(|(_, is)| **is).map(|(one, _)| one).collect();
        let made = Arc::new(VisibleEntries::new(&servers, &self.style, &self.uris));
        lock(&self.entries).insert(is_visible, Arc::clone(&made));
        made
    }

    /// Returns the parameters of a tool that are repeated in headers.
    pub(crate) fn mirrored_parameters(&self, server: &str, tool: &str) -> &[MirroredParameter] {
        let key = (Arc::from(server), tool.to_owned());
        self.mirrored.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns whether any tool has parameters that are repeated in headers.
    pub(crate) fn has_mirrored_parameters(&self) -> bool {
        !self.mirrored.is_empty()
    }

    /// Returns the changes to announce to clients when this directory replaces `before`.
    pub(crate) fn difference(&self, before: &Self) -> Difference {
        let empty = Catalog::empty();
        let (new, old) = (self.catalog.as_ref().unwrap_or(&empty), before.catalog.as_ref().unwrap_or(&empty));
        Difference {
            prompts: self.changed_servers(before, &[ListKind::Prompts]),
            resources: self.changed_servers(before, &[ListKind::Resources, ListKind::Templates]),
            ..Difference::of_tools(new, old)
        }
    }

    /// Returns the servers whose entries differ.
    fn changed_servers(&self, before: &Self, kinds: &[ListKind]) -> BTreeSet<Arc<str>> {
        let is_renamed = self.style != before.style;
        let of = |directory: &Self, server: &str| {
            directory.lists.iter().find(|(name, _)| **name == *server).map(|(_, lists)| Arc::clone(lists))
        };
        let is_changed = |server: &Arc<str>| match (of(self, server), of(before, server)) {
            (Some(new), Some(old)) => kinds.iter().any(|kind| {
                let (new, old) = (new.of(*kind), old.of(*kind));
                let is_same = || new.iter().map(|item| item.raw.get()).eq(old.iter().map(|item| item.raw.get()));
                (is_renamed && !new.is_empty()) || !(Arc::ptr_eq(new, old) || is_same())
            }),
            (new, old) => new.or(old).is_some_and(|lists| kinds.iter().any(|kind| !lists.of(*kind).is_empty())),
        };
        let servers = self.lists.iter().chain(&before.lists).map(|(server, _)| Arc::clone(server));
        servers.filter(is_changed).collect()
    }
}

/// Returns the tools of a server that its policies show and that can be called, as its settings
/// present them.
fn shown_tools<'a>(server: &'a Upstream, lists: &'a Lists, settings: &GatewaySettings) -> Presentation<'a> {
    let is_shown = |item: &Item| settings.policies.shows(server.name(), &item.key) && server.can_call(item);
    Presentation::of_shown(server.config(), lists, is_shown)
}

/// Returns everything in the configuration of a server that changes its tools, for comparison.
fn policies_in_words(config: &ServerConfig, policies: &Policies) -> String {
    let ServerConfig { prompt_instructions, overrides, always_load, .. } = config;
    format!("{:?} {prompt_instructions:?} {overrides:?} {always_load:?}", policies.of(&config.name))
}

impl ServerPart {
    /// Returns the server of this part.
    fn server(&self, name: &str) -> Server {
        let (description, summary) = (self.description.clone(), self.summary.clone());
        Server { name: name.to_owned(), description, summary, origin: Origin::Mcp }
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tools, &other.tools)
            && self.names == other.names
            && self.description == other.description
            && self.summary == other.summary
            && self.policy == other.policy
    }
}

/// Returns the object with another name.
pub(crate) fn with_name(value: &serde_json::value::RawValue, field: &str, name: &str) -> Raw {
    let mut fields = Fields::of(value).unwrap_or_default();
    fields.set(field, raw(name));
    fields.to_raw()
}

/// Converts a tool of a server for the catalog.
fn to_raw_tool(
    tool: &PresentedTool<'_>,
    shown: &str,
    server: &str,
    policies: &Policies,
    uris: &UriNames,
) -> Option<RawTool> {
    let mut exposed = tool.definition(shown);
    if let Some(changed) = apps::with_shown_ui(uris, server, &exposed) {
        exposed = changed.into();
    }
    let enriches = policies.of(server).iter().any(|step| matches!(step, Middleware::DescriptionEnricher { .. }));
    if enriches {
        let mut fields = Fields::of(&exposed)?;
        if let Some(text) = policies.enriched(server, &fields.text("description").unwrap_or_default()) {
            fields.set("description", raw(&text));
            exposed = fields.to_raw().into();
        }
    }
    tool.read(exposed, shown)
}

/// Returns the definition of a catalog tool under `name`, for clients.
pub(crate) fn definition(tool: &Tool, name: &str) -> SharedRaw {
    match tool.original() {
        Some(original) if name == tool.name() => Arc::clone(original),
        Some(original) => with_name(original, "name", name).into(),
        None => raw(&pegboard_discovery::ToolDefinition::of(tool, name).to_json()).into(),
    }
}
