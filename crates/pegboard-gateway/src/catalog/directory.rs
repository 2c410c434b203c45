//! Everything that all servers offer, under the names that clients see.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use pegboard_core::{
    Catalog, Origin, RawTool, Selection, Server, Tool,
    naming::{ShownNames, Style},
};
use pegboard_discovery::policy::{Middleware, Policies};
use pegboard_upstream::{
    Fleet, Item, ListKind, Lists, Upstream,
    headers::{self, MirroredParameter},
    json::{Fields, Raw, SharedRaw, raw},
};

use crate::{
    catalog::uris::UriNames,
    settings::{GatewaySettings, Prefixes},
};

/// A prompt, resource or template as clients see it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Whose it is.
    pub(crate) server: Arc<str>,
    /// Its name or URI there.
    pub(crate) key: String,
    /// Its name or URI here.
    pub(crate) shown: String,
    /// What is said of it, under that name.
    pub(crate) raw: SharedRaw,
}

/// What all servers offer at one moment. Immutable; a change makes a new one.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) catalog: Option<Catalog>,
    prompts: Vec<Entry>,
    resources: Vec<Entry>,
    templates: Vec<Entry>,
    prompt_places: HashMap<String, usize>,
    resource_places: HashMap<String, usize>,
    pub(crate) uris: UriNames,
    /// Parameters that headers repeat, by server and tool.
    mirrored: HashMap<(Arc<str>, String), Vec<MirroredParameter>>,
    /// What each server's part was made from, so that an unchanged one is kept.
    parts: HashMap<Arc<str>, Part>,
    /// Tools that exist and must not be used until somebody approves them.
    pub(crate) held: Vec<Arc<Tool>>,
    /// How servers want to be used.
    pub(crate) instructions: Vec<(Arc<str>, String)>,
}

#[derive(Clone, Debug)]
struct Part {
    tools: Arc<Vec<Item>>,
    names: Vec<String>,
    description: String,
    /// What was done to it on the way, in words.
    policy: String,
}

/// What differs between two directories.
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
    pub(crate) fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Whether there is a difference in the tools that may be seen.
    pub(crate) fn tools_for(&self, selection: &Selection) -> bool {
        self.tools.iter().any(|tool| selection.allows(tool))
    }

    /// Whether there is a difference in the prompts that may be seen.
    pub(crate) fn prompts_for(&self, selection: &Selection) -> bool {
        self.prompts.iter().any(|server| selection.allows_server(server))
    }

    /// Whether there is a difference in the resources that may be seen.
    pub(crate) fn resources_for(&self, selection: &Selection) -> bool {
        self.resources.iter().any(|server| selection.allows_server(server))
    }
}

impl Directory {
    /// The directory of a fleet; what `before` has in common with it is shared.
    pub(crate) fn new(fleet: &Fleet, settings: &GatewaySettings, before: &Self) -> Self {
        let all = fleet.servers();
        let servers: Vec<(&Arc<Upstream>, Arc<Lists>)> = all.iter().map(|server| (server, server.lists())).collect();
        let enabled = all.iter().filter(|server| server.config().is_enabled).count();
        let is_prefixed = match settings.prefixes {
            Prefixes::Always => true,
            Prefixes::Never => false,
            Prefixes::Auto => enabled > 1,
        };
        let style = Style { is_prefixed, ..settings.names.clone() };
        let mut directory = Self {
            uris: UriNames::new(servers.iter().map(|(server, _)| server.name()), is_prefixed),
            ..Self::default()
        };
        directory.add_tools(&servers, settings, &style, before);
        directory.add_entries(&servers, &style);
        for (server, _) in &servers {
            let text = server.hello().and_then(|hello| hello.instructions.clone());
            let text = text.filter(|text| !text.trim().is_empty());
            directory.instructions.extend(text.map(|text| (Arc::from(server.name()), text)));
        }
        directory
    }

    fn add_tools(
        &mut self,
        servers: &[(&Arc<Upstream>, Arc<Lists>)],
        settings: &GatewaySettings,
        style: &Style,
        before: &Self,
    ) {
        let kept = shown_items(servers, settings, |lists| &lists.tools);
        let held = shown_items(servers, settings, |lists| &lists.held);
        // With those that are held back: a name is the same before and after.
        let all: Vec<(&str, &str)> = servers
            .iter()
            .zip(kept.iter().zip(&held))
            .flat_map(|((server, _), (kept, held))| {
                kept.iter().chain(held).map(|item| (server.name(), item.key.as_str()))
            })
            .collect();
        let names = ShownNames::new(style, all.iter().copied());
        let mut names = names.iter();
        let mut catalog = before.catalog.clone().unwrap_or_else(Catalog::empty);
        for ((server, lists), (items, held)) in servers.iter().zip(kept.iter().zip(&held)) {
            let name: Arc<str> = server.name().into();
            let shown: Vec<String> = names.by_ref().take(items.len()).map(str::to_owned).collect();
            let policies = &settings.policies;
            let instructions = &server.config().prompt_instructions;
            let tool = |item: &Item, shown: &str| {
                let tool = tool(item, shown, &name, policies)?;
                Some(RawTool { prompt_instructions: instructions.of(&item.key).map(str::to_owned), ..tool })
            };
            let part = Part {
                tools: Arc::clone(&lists.tools),
                names: shown,
                description: server.description(),
                policy: format!("{:?} {instructions:?}", policies.of(&name)),
            };
            self.mirror(&name, items);
            if !before.parts.get(&name).is_some_and(|old| old.is_same(&part)) {
                let tools = items.iter().zip(&part.names).filter_map(|(item, shown)| tool(item, shown));
                let server = part.server(&name);
                let (newer, warnings) = catalog.with_server(server, tools);
                warnings.iter().for_each(|warning| tracing::warn!(server = %name, "{warning}"));
                catalog = newer;
            }
            let away = held.iter().zip(names.by_ref()).filter_map(|(item, shown)| tool(item, shown));
            let away = away.collect::<Vec<RawTool>>();
            if !away.is_empty() {
                let (away, _) = Catalog::empty().with_server(part.server(&name), away);
                self.held.extend(away.iter().cloned());
            }
            self.parts.insert(name, part);
        }
        for gone in before.parts.keys().filter(|name| !self.parts.contains_key(*name)) {
            catalog = catalog.without_server(gone);
        }
        let order: Vec<&str> = servers.iter().map(|(server, _)| server.name()).collect();
        let catalog = catalog.ordered_by(&order);
        // A snapshot that says nothing new would only make everybody work things out again.
        let is_same = |old: &Catalog| old.iter().map(Arc::as_ptr).eq(catalog.iter().map(Arc::as_ptr));
        self.catalog = before.catalog.clone().filter(is_same).or(Some(catalog));
    }

    fn mirror(&mut self, server: &Arc<str>, items: &[&Item]) {
        for item in items.iter().filter(|item| item.raw.get().contains("x-mcp-header")) {
            let schema = Fields::of(&item.raw).and_then(|fields| fields.read("inputSchema"));
            match schema.as_ref().map(headers::mirrored) {
                Some(Ok(parameters)) if !parameters.is_empty() => {
                    self.mirrored.insert((Arc::clone(server), item.key.clone()), parameters);
                }
                _ => {}
            }
        }
    }

    fn add_entries(&mut self, servers: &[(&Arc<Upstream>, Arc<Lists>)], style: &Style) {
        let all = servers.iter().flat_map(|(server, lists)| {
            lists.prompts.iter().map(|item| (server.name(), item.key.as_str())).collect::<Vec<_>>()
        });
        let names = ShownNames::new(style, all);
        let mut names = names.iter();
        for (server, lists) in servers {
            let server: Arc<str> = server.name().into();
            for item in lists.prompts.iter() {
                let shown = names.next().unwrap_or(&item.key).to_owned();
                self.prompt_places.insert(shown.clone(), self.prompts.len());
                self.prompts.push(entry(&server, item, shown, "name"));
            }
            for (kind, entries) in
                [(ListKind::Resources, &mut self.resources), (ListKind::Templates, &mut self.templates)]
            {
                for item in lists.of(kind).iter() {
                    let shown = self.uris.shown(&server, &item.key);
                    if kind == ListKind::Resources {
                        self.resource_places.entry(shown.clone()).or_insert(entries.len());
                    }
                    entries.push(entry(&server, item, shown, kind.key()));
                }
            }
        }
    }

    /// The entries of one of the lists that are not tools.
    pub(crate) fn entries(&self, kind: ListKind) -> &[Entry] {
        match kind {
            ListKind::Tools => &[],
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }

    /// The prompt with this name here.
    pub(crate) fn prompt(&self, shown: &str) -> Option<&Entry> {
        self.prompt_places.get(shown).map(|at| &self.prompts[*at])
    }

    /// The parameters of a tool that headers repeat.
    pub(crate) fn mirrored(&self, server: &str, tool: &str) -> &[MirroredParameter] {
        let key = (Arc::from(server), tool.to_owned());
        self.mirrored.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether any tool has such parameters.
    pub(crate) fn mirrors_any(&self) -> bool {
        !self.mirrored.is_empty()
    }

    /// Whose resource a URI means, and how it is called there: as listed, by the server in
    /// it, by a template that fits, or by the only server that has resources.
    pub(crate) fn resource(&self, uri: &str) -> Option<(Arc<str>, String)> {
        if let Some(at) = self.resource_places.get(uri) {
            let entry = &self.resources[*at];
            return Some((Arc::clone(&entry.server), entry.key.clone()));
        }
        if let Some((server, uri)) = self.uris.original(uri) {
            return Some((server, uri));
        }
        let listed = self.resources.iter().find(|entry| entry.key == uri);
        let fitting = || self.templates.iter().find(|entry| crate::catalog::uris::fits(&entry.key, uri));
        if let Some(entry) = listed.or_else(fitting) {
            return Some((Arc::clone(&entry.server), uri.to_owned()));
        }
        let mut with_resources = self.resources.iter().chain(&self.templates).map(|entry| &entry.server);
        let first = with_resources.next()?;
        with_resources.all(|server| server == first).then(|| (Arc::clone(first), uri.to_owned()))
    }

    /// What clients must be told when this takes the place of `before`.
    pub(crate) fn difference(&self, before: &Self) -> Difference {
        let empty = Catalog::empty();
        let (new, old) = (self.catalog.as_ref().unwrap_or(&empty), before.catalog.as_ref().unwrap_or(&empty));
        let changes = new.changes_since(old);
        Difference {
            tools: changes.added.into_iter().chain(changes.removed).collect(),
            prompts: changed_servers(&[&self.prompts], &[&before.prompts]),
            resources: changed_servers(&[&self.resources, &self.templates], &[&before.resources, &before.templates]),
        }
    }
}

/// The tools of one list of each server that its middleware shows and that can be called.
fn shown_items<'a>(
    servers: &'a [(&Arc<Upstream>, Arc<Lists>)],
    settings: &GatewaySettings,
    list: fn(&Lists) -> &Arc<Vec<Item>>,
) -> Vec<Vec<&'a Item>> {
    let mut all = Vec::with_capacity(servers.len());
    for (server, lists) in servers {
        let is_shown = |item: &&Item| settings.policies.shows(server.name(), &item.key);
        all.push(list(lists).iter().filter(|item| is_shown(item) && server.can_call(item)).collect());
    }
    all
}

/// The servers whose entries are not the same in both.
fn changed_servers(new: &[&Vec<Entry>], old: &[&Vec<Entry>]) -> BTreeSet<Arc<str>> {
    let by_server = |lists: &[&Vec<Entry>]| {
        let mut entries: BTreeMap<Arc<str>, Vec<SharedRaw>> = BTreeMap::new();
        for entry in lists.iter().flat_map(|list| list.iter()) {
            entries.entry(Arc::clone(&entry.server)).or_default().push(Arc::clone(&entry.raw));
        }
        entries
    };
    let (new, old) = (by_server(new), by_server(old));
    let texts = |entries: Option<&Vec<SharedRaw>>| -> Vec<String> {
        entries.into_iter().flatten().map(|raw| raw.get().to_owned()).collect()
    };
    let servers: BTreeSet<Arc<str>> = new.keys().chain(old.keys()).cloned().collect();
    servers.into_iter().filter(|server| texts(new.get(server)) != texts(old.get(server))).collect()
}

impl Part {
    /// The server whose part it is.
    fn server(&self, name: &str) -> Server {
        Server { name: name.to_owned(), description: self.description.clone(), origin: Origin::Mcp }
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tools, &other.tools)
            && self.names == other.names
            && self.description == other.description
            && self.policy == other.policy
    }
}

fn entry(server: &Arc<str>, item: &Item, shown: String, field: &str) -> Entry {
    let raw = if shown == item.key { Arc::clone(&item.raw) } else { renamed(&item.raw, field, &shown).into() };
    Entry { server: Arc::clone(server), key: item.key.clone(), shown, raw }
}

/// The same object under another name.
pub(crate) fn renamed(value: &serde_json::value::RawValue, field: &str, name: &str) -> Raw {
    let mut fields = Fields::of(value).unwrap_or_default();
    fields.set(field, raw(name));
    fields.to_raw()
}

/// A tool of a server as the catalog takes it in.
fn tool(item: &Item, shown: &str, server: &str, policies: &Policies) -> Option<RawTool> {
    let mut exposed = Arc::clone(&item.raw);
    if shown != item.key {
        exposed = renamed(&exposed, "name", shown).into();
    }
    let enriches = policies.of(server).iter().any(|step| matches!(step, Middleware::DescriptionEnricher { .. }));
    if enriches {
        let mut fields = Fields::of(&exposed)?;
        if let Some(text) = policies.enriched(server, &fields.text("description").unwrap_or_default()) {
            fields.set("description", raw(&text));
            exposed = fields.to_raw().into();
        }
    }
    Item::read_tool(exposed, shown, &item.key)
}

/// What a client is shown of a catalog tool under `name`.
pub(crate) fn definition(tool: &Tool, name: &str) -> SharedRaw {
    match tool.original() {
        Some(original) if name == tool.name() => Arc::clone(original),
        Some(original) => renamed(original, "name", name).into(),
        None => raw(&pegboard_discovery::ToolDefinition::of(tool, name).to_json()).into(),
    }
}
