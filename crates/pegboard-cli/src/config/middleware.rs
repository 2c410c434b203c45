//! `middleware`: processing of lists and calls, at the top level of the file, in a server's entry,
//! and under `httpServer` in the form of MCProxy.

use std::collections::BTreeSet;

use pegboard_config::{
    document::{Node, Problems},
    keys::{Key, Kind, Scope, Section, Shape, did_you_mean},
};
use pegboard_discovery::policy::Middleware;
use pegboard_upstream::config::servers;

use super::{
    middleware_types::{DESCRIPTION_ENRICHER, LOGGING, SECURITY, Search, TOOL_FILTER, TOOL_SEARCH},
    misplaced_keys,
};

/// The middleware of a file.
#[derive(Debug, Default)]
pub(super) struct MiddlewareConfig {
    /// The list for every server without a list of its own.
    pub(super) default: Vec<Middleware>,
    /// The lists of single servers.
    pub(super) servers: Vec<(String, Vec<Middleware>)>,
    /// The last `tool_search`, enabled or not.
    pub(super) search: Option<Search>,
    /// Middleware that is appended to every list, also to those of single servers.
    always: Vec<Middleware>,
}

/// The kind of `middleware`.
pub(super) const KIND: Kind = Kind::Either(&[Kind::Reference("middleware"), Kind::Object(|| GROUPS.shape())]);

/// The kind of `httpServer.middleware`.
pub(super) const STAGES_KIND: Kind = Kind::Object(|| STAGES.shape());

/// Reads the middleware of the file and of its servers.
pub(super) fn read(root: &Node<'_>, found: &mut MiddlewareConfig, scope: &mut Scope<'_>) {
    let own = root.get("middleware");
    match &own {
        Some(node) if node.is_list() => found.default = read_list(node, ListPlace::General, &mut found.search, scope),
        Some(node) if node.is_object() => GROUPS.read(node, found, scope),
        Some(node) => node.must_be(KIND, scope.problems),
        None => {}
    }
    let stages = root.get("httpServer").and_then(|http| http.get("middleware"));
    if let Some(node) = &stages {
        if own.is_some() {
            let problem = node.problem("cannot be combined with the top-level `middleware`");
            scope.problems.push(problem.hint("keep all steps in one of them"));
        }
        STAGES.read(node, found, scope);
    }
    // Mistakes in the entries themselves were reported when they were read as servers.
    let entries = servers::entries(root, &mut Problems::new());
    for groups in own.into_iter().chain(stages.and_then(|node| node.get("client"))) {
        if let Some(lists) = groups.get("servers") {
            check_names(&lists, &entries, scope.problems);
        }
    }
    read_own_lists(&entries, found, scope);
    let lists = found.servers.iter_mut().map(|(_, list)| list);
    lists.chain([&mut found.default]).for_each(|list| list.extend(found.always.iter().cloned()));
}

/// Reads the lists in the entries of servers.
fn read_own_lists(entries: &[Node<'_>], found: &mut MiddlewareConfig, scope: &mut Scope<'_>) {
    for entry in entries {
        let Some(node) = entry.get("middleware").filter(|node| !node.is_null()) else { continue };
        let server = entry.key();
        if found.servers.iter().any(|(name, _)| name == server) {
            scope.problems.push(node.problem("is a duplicate list for this server").hint("keep one of them"));
        }
        let list = read_list(&node, ListPlace::Server, &mut found.search, scope);
        found.servers.push((server.to_owned(), list));
    }
}

/// Reports lists for servers that do not exist: they would silently do nothing.
fn check_names(lists: &Node<'_>, servers: &[Node<'_>], problems: &mut Problems) {
    let names: BTreeSet<&str> = servers.iter().map(|server| server.key()).collect();
    // That the lists are not an object was reported before.
    for list in lists.as_object(&mut Problems::new()).unwrap_or_default() {
        if !names.contains(list.key()) {
            let problem = list.problem("is not a server of this file");
            let near = did_you_mean(list.key(), names.iter().copied());
            problems.push(match near {
                Some(near) => problem.hint(near),
                None => problem,
            });
        }
    }
}

static GROUPS: Section<MiddlewareConfig> = Section::new(
    "middlewareGroups",
    "A default list of steps, and lists for individual servers.",
    &[
        Key::new(
            "default",
            Kind::Reference("middleware"),
            "Steps for every server without its own list.",
            |node, found: &mut MiddlewareConfig, scope| {
                found.default = read_list(node, ListPlace::General, &mut found.search, scope);
            },
        )
        .default("[]"),
        Key::new(
            "servers",
            Kind::Map(&Kind::Reference("serverMiddleware")),
            "Steps for individual servers, instead of the default.",
            |node, found: &mut MiddlewareConfig, scope| read_server_lists(node, ListPlace::Server, found, scope),
        )
        .default("{}"),
    ],
);

static STAGES: Section<MiddlewareConfig> = Section {
    advise: misplaced_keys::advice,
    ..Section::new(
        "httpMiddlewareStages",
        "Steps in the format of MCProxy. A call or list passes the steps of `client` first, then those of `proxy`.",
        &[
            Key::new(
                "proxy",
                Kind::Reference("middleware"),
                "Steps for all servers together; they run after the steps of the individual server.",
                |node, found: &mut MiddlewareConfig, scope| {
                    found.always = read_list(node, ListPlace::General, &mut found.search, scope);
                },
            )
            .default("[]"),
            Key::new(
                "client",
                Kind::Object(|| CLIENT.shape()),
                "Steps per server.",
                |node, found: &mut MiddlewareConfig, scope| CLIENT.read(node, found, scope),
            )
            .default("{}"),
        ],
    )
};

static CLIENT: Section<MiddlewareConfig> = Section {
    advise: misplaced_keys::advice,
    ..Section::new(
        "clientMiddleware",
        "Steps per server.",
        &[
            Key::new(
                "default",
                Kind::Reference("serverMiddleware"),
                "Steps for every server without its own list.",
                |node, found: &mut MiddlewareConfig, scope| {
                    found.default = read_list(node, ListPlace::Client, &mut found.search, scope);
                },
            )
            .default("[]"),
            Key::new(
                "servers",
                Kind::Map(&Kind::Reference("serverMiddleware")),
                "Steps for individual servers, instead of the default.",
                |node, found: &mut MiddlewareConfig, scope| read_server_lists(node, ListPlace::Client, found, scope),
            )
            .default("{}"),
        ],
    )
};

/// Reads lists of single servers, by the name of the server.
fn read_server_lists(node: &Node<'_>, place: ListPlace, found: &mut MiddlewareConfig, scope: &mut Scope<'_>) {
    for entry in node.as_object(scope.problems).unwrap_or_default() {
        let list = read_list(&entry, place, &mut found.search, scope);
        found.servers.push((entry.key().to_owned(), list));
    }
}

/// The place of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListPlace {
    /// A list for all servers together.
    General,
    /// A list for one server.
    Server,
    /// Under `httpServer.middleware.client`.
    Client,
}

impl ListPlace {
    /// Returns where a search belongs, if not in this place.
    fn elsewhere(self) -> Option<&'static str> {
        match self {
            Self::General => None,
            Self::Server => Some("move it to the top-level `middleware`"),
            Self::Client => Some("move it to `httpServer.middleware.proxy`"),
        }
    }
}

/// Reads the steps of one list. Disabled steps are read as well, to report their mistakes.
fn read_list(node: &Node<'_>, place: ListPlace, search: &mut Option<Search>, scope: &mut Scope<'_>) -> Vec<Middleware> {
    let mut list = Vec::new();
    for item in node.as_list(scope.problems).unwrap_or_default() {
        let mut entry = ListEntry { is_enabled: true, step: None };
        ENTRY.read(&item, &mut entry, scope);
        let Some(step) = entry.step else { continue };
        if let Some(hint) = place.elsewhere().filter(|_| step.name == SEARCH) {
            let problem = item.problem("is not supported per server: a search covers all servers");
            scope.problems.push(problem.hint(hint));
        }
        match (step.read)(&item, scope) {
            ParsedStep::Search(found) => *search = Some(Search { is_off: found.is_off || !entry.is_enabled, ..found }),
            ParsedStep::Step(_) if !entry.is_enabled => {}
            ParsedStep::Step(step) => list.push(step),
        }
    }
    list
}

/// An entry of a list, before its `config` is read.
#[derive(Debug)]
struct ListEntry {
    is_enabled: bool,
    step: Option<&'static Type>,
}

static ENTRY: Section<ListEntry> = Section {
    required: &["type"],
    ..Section::new(
        "step",
        "One middleware step for lists and calls.",
        &[
            Key::new("type", Kind::OneOf(TYPE_NAMES), "Type of the step.", |node, entry: &mut ListEntry, scope| {
                let name = node.as_one_of(TYPE_NAMES, scope.problems);
                entry.step = TYPES.iter().find(|step| Some(step.name) == name);
            }),
            Key::new("enabled", Kind::Flag, "Whether the step is applied.", |node, entry: &mut ListEntry, scope| {
                entry.is_enabled = node.as_bool(scope.problems).unwrap_or(true);
            })
            .default("true"),
            // Read by the type.
            Key::new("config", Kind::Map(&Kind::Any), "Settings of the step, depending on the type.", |_, _, _| {})
                .default("{}"),
        ],
    )
};

/// Returns the keys of an entry, for the schema and the reference.
pub(super) fn entry_shape() -> Shape {
    ENTRY.shape()
}

/// A type of middleware.
#[derive(Debug)]
pub(super) struct Type {
    /// Its name.
    pub(super) name: &'static str,
    /// The keys of its `config`.
    pub(super) shape: fn() -> Shape,
    read: fn(&Node<'_>, &mut Scope<'_>) -> ParsedStep,
}

/// The result of reading an entry.
enum ParsedStep {
    Step(Middleware),
    Search(Search),
}

const SEARCH: &str = "tool_search";

/// The names of [`TYPES`].
pub(super) const TYPE_NAMES: &[&str] = &[SEARCH, "tool_filter", "logging", "security", "description_enricher"];

/// All types.
pub(super) static TYPES: [Type; 5] = [
    Type {
        name: SEARCH,
        shape: || TOOL_SEARCH.shape(),
        read: |entry, scope| ParsedStep::Search(read_config(&TOOL_SEARCH, entry, scope)),
    },
    Type {
        name: "tool_filter",
        shape: || TOOL_FILTER.shape(),
        read: |entry, scope| ParsedStep::Step(read_config(&TOOL_FILTER, entry, scope).into()),
    },
    Type {
        name: "logging",
        shape: || LOGGING.shape(),
        read: |entry, scope| ParsedStep::Step(read_config(&LOGGING, entry, scope).into()),
    },
    Type {
        name: "security",
        shape: || SECURITY.shape(),
        read: |entry, scope| ParsedStep::Step(read_config(&SECURITY, entry, scope).into()),
    },
    Type {
        name: "description_enricher",
        shape: || DESCRIPTION_ENRICHER.shape(),
        read: |entry, scope| ParsedStep::Step(read_config(&DESCRIPTION_ENRICHER, entry, scope).into()),
    },
];

/// Returns whether a type is allowed in the list of a single server.
pub(super) fn is_for_servers(step: &Type) -> bool {
    step.name != SEARCH
}

/// Reads the `config` of an entry, which may be missing unless it has required keys.
fn read_config<T: Default>(section: &Section<T>, entry: &Node<'_>, scope: &mut Scope<'_>) -> T {
    let mut config = T::default();
    match entry.get("config") {
        Some(node) => section.read(&node, &mut config, scope),
        None if section.required.is_empty() => {}
        None => scope.problems.push(entry.problem("needs `config`")),
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_name() {
        let names: Vec<&str> = TYPES.iter().map(|step| step.name).collect();
        assert_eq!(names, TYPE_NAMES);
    }
}
