//! Prompts, resources and templates under the names that a caller sees.

use std::{collections::HashMap, sync::Arc};

use pegboard_core::naming::{ShownNames, Style};
use pegboard_mcp::json::SharedRaw;
use pegboard_upstream::{Item, ListKind, Lists};

use crate::catalog::{
    directory::with_name,
    uris::{self, UriNames},
};

/// A prompt, resource or template as clients see it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The server that offers it.
    pub(crate) server: Arc<str>,
    /// Its name or URI there.
    pub(crate) key: String,
    /// Its name or URI here.
    pub(crate) shown: String,
    /// Its description in JSON, under that name.
    pub(crate) raw: SharedRaw,
}

/// The prompts, resources and templates of the servers that a caller may see. Names are derived
/// from these servers alone, so that a hidden server changes nothing.
#[derive(Debug, Default)]
pub(crate) struct VisibleEntries {
    servers: Vec<Arc<str>>,
    prompts: Vec<Entry>,
    resources: Vec<Entry>,
    templates: Vec<Entry>,
    prompt_places: HashMap<String, usize>,
    resource_places: HashMap<String, usize>,
    uris: Arc<UriNames>,
}

impl VisibleEntries {
    /// Builds the entries of `servers`, in their order.
    pub(crate) fn new(servers: &[&(Arc<str>, Arc<Lists>)], style: &Style, uris: &Arc<UriNames>) -> Self {
        let prompts =
            servers.iter().flat_map(|(server, lists)| lists.prompts.iter().map(|item| (&**server, item.key.as_str())));
        let names = ShownNames::new(style, prompts);
        let mut names = names.iter();
        let mut entries = Self { uris: Arc::clone(uris), ..Self::default() };
        for (server, lists) in servers {
            for item in lists.prompts.iter() {
                let shown = names.next().unwrap_or(&item.key).to_owned();
                entries.prompt_places.insert(shown.clone(), entries.prompts.len());
                entries.prompts.push(entry(server, item, shown, "name"));
            }
            for item in lists.of(ListKind::Resources).iter() {
                let shown = uris.shown_uri(server, &item.key);
                entries.resource_places.entry(shown.clone()).or_insert(entries.resources.len());
                entries.resources.push(entry(server, item, shown, ListKind::Resources.key()));
            }
            for item in lists.of(ListKind::Templates).iter() {
                let shown = uris.shown_uri(server, &item.key);
                entries.templates.push(entry(server, item, shown, ListKind::Templates.key()));
            }
            entries.servers.push(Arc::clone(server));
        }
        entries
    }

    /// Returns the entries of one of the lists other than tools.
    pub(crate) fn of(&self, kind: ListKind) -> &[Entry] {
        match kind {
            ListKind::Tools => &[],
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }

    /// Returns the prompt with this shown name.
    pub(crate) fn prompt(&self, shown: &str) -> Option<&Entry> {
        self.prompt_places.get(shown).map(|at| &self.prompts[*at])
    }

    /// Returns the server of a resource and its URI there: as listed, by the server in the URI, by
    /// a matching template, or by the only server that has resources.
    pub(crate) fn resource(&self, uri: &str) -> Option<(Arc<str>, String)> {
        if let Some(at) = self.resource_places.get(uri) {
            let entry = &self.resources[*at];
            return Some((Arc::clone(&entry.server), entry.key.clone()));
        }
        if let Some((server, uri)) = self.uris.parse_shown(uri) {
            return self.servers.contains(&server).then_some((server, uri));
        }
        let listed = self.resources.iter().find(|entry| entry.key == uri);
        let fitting = || self.templates.iter().find(|entry| uris::matches_template(&entry.key, uri));
        if let Some(entry) = listed.or_else(fitting) {
            return Some((Arc::clone(&entry.server), uri.to_owned()));
        }
        let mut with_resources = self.resources.iter().chain(&self.templates).map(|entry| &entry.server);
        let first = with_resources.next()?;
        with_resources.all(|server| server == first).then(|| (Arc::clone(first), uri.to_owned()))
    }
}

fn entry(server: &Arc<str>, item: &Item, shown: String, field: &str) -> Entry {
    let raw = if shown == item.key { Arc::clone(&item.raw) } else { with_name(&item.raw, field, &shown).into() };
    Entry { server: Arc::clone(server), key: item.key.clone(), shown, raw }
}
