//! The names under which the tools of a session are called.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use pegboard_core::{
    Catalog, Origin, Selection, Tool,
    naming::{self, Spelling, Style},
};

use crate::{
    dialects::DialectName,
    host::HostTool,
    outcome::ToolDefinition,
    signature::{Signature, Signatures},
};

/// Aliases that programs of the `explicit` family use for one tool.
const KNOWN_ALIASES: [(&str, &str); 2] =
    [("write_workspace_file", "update_workspace_file"), ("create_workspace_file", "update_workspace_file")];

/// Maximum number of bytes of a name; a longer one matches no tool.
pub(crate) const MAX_NAME_BYTES: usize = 1024;

/// The advice for a model that calls an unknown tool and can search.
pub(crate) const SEARCH_FIRST: &str = "search for what you want to do";

/// The visible tools of one snapshot by name.
#[derive(Debug)]
pub(crate) struct Names {
    by_name: HashMap<Box<str>, Vec<Arc<Tool>>>,
    /// By the names without their servers, where those are others.
    by_bare_name: HashMap<Box<str>, Vec<Arc<Tool>>>,
    /// By the full names of tools that are shown under a shortened or repaired one.
    by_full_name: HashMap<Box<str>, Vec<Arc<Tool>>>,
    by_snake: HashMap<String, Vec<Arc<Tool>>>,
    by_alias: HashMap<Box<str>, Vec<Arc<Tool>>>,
    /// By the form in which all spellings of a name are equal: of their names with and without
    /// their servers.
    by_folded: HashMap<Box<str>, Vec<Arc<Tool>>>,
    /// Tools that the user has renamed; a call by the name at the server is told the new name.
    renamed: Vec<Arc<Tool>>,
    /// The names that differ from the tools' own, by identity, and back.
    shown: HashMap<Box<str>, String>,
    by_shown: HashMap<String, Arc<Tool>>,
    /// How many tools may be seen, those aside that read outputs.
    count: usize,
    complete: Cache<Signature>,
    signatures: Cache<Signatures>,
    definitions: Cache<ToolDefinition>,
}

/// Values computed for tools, by identity. Parsing a schema takes longer than a search.
#[derive(Debug)]
struct Cache<T>(RwLock<HashMap<Box<str>, Arc<T>>>);

/// Maximum number of cached tools; then the cache is cleared.
const MAX_CACHED: usize = 1024;

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> Cache<T> {
    fn get(&self, tool: &Tool, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(tool.id()) {
            return Arc::clone(known);
        }
        let made = Arc::new(make());
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_CACHED {
            all.clear();
        }
        all.insert(tool.id().into(), Arc::clone(&made));
        made
    }
}

impl Names {
    /// Names the visible tools; none is shown under a name that `dialect` needs, or that is one of
    /// `others`.
    pub(crate) fn new(catalog: &Catalog, selection: &Selection, dialect: Option<DialectName>, others: &[&str]) -> Self {
        let mut names = Self {
            by_name: HashMap::new(),
            by_bare_name: HashMap::new(),
            by_full_name: HashMap::new(),
            by_snake: HashMap::new(),
            by_alias: HashMap::new(),
            by_folded: HashMap::new(),
            renamed: Vec::new(),
            shown: HashMap::new(),
            by_shown: HashMap::new(),
            count: 0,
            complete: Cache::default(),
            signatures: Cache::default(),
            definitions: Cache::default(),
        };
        for tool in catalog.iter().filter(|tool| selection.allows(tool)) {
            names.count += usize::from(!HostTool::is_reader(tool));
            names.by_name.entry(tool.name().into()).or_default().push(Arc::clone(tool));
            if tool.bare_name() != tool.name() {
                names.by_bare_name.entry(tool.bare_name().into()).or_default().push(Arc::clone(tool));
            }
            if let Some(full) = full_name(tool) {
                names.by_full_name.entry(full.into()).or_default().push(Arc::clone(tool));
            }
            names.by_snake.entry(snake_case(tool.name())).or_default().push(Arc::clone(tool));
            for alias in tool.aliases() {
                names.by_alias.entry(alias.as_str().into()).or_default().push(Arc::clone(tool));
            }
        }
        for tool in catalog.iter().filter(|tool| selection.allows(tool)) {
            let is_shared = names.by_name.get(tool.name()).is_some_and(|tools| tools.len() > 1);
            let reserved = dialect.map_or(&[][..], |dialect| dialect.reserved_from(tool));
            let is_reserved = |name: &str| reserved.contains(&name) || others.contains(&name);
            if is_shared || is_reserved(tool.name()) {
                names.qualify(tool, is_reserved);
            }
        }
        for tool in catalog.iter().filter(|tool| selection.allows(tool)) {
            names.fold(tool.name(), tool);
            names.fold(tool.bare_name(), tool);
            if tool.is_renamed() {
                names.renamed.push(Arc::clone(tool));
            }
            if let Some(shown) = names.shown.get(tool.id()).cloned() {
                names.fold(&shown, tool);
            }
        }
        names
    }

    /// Makes `tool` findable by any spelling of `name`.
    fn fold(&mut self, name: &str, tool: &Arc<Tool>) {
        let found = self.by_folded.entry(naming::fold(name).into()).or_default();
        if !found.iter().any(|other| Arc::ptr_eq(other, tool)) {
            found.push(Arc::clone(tool));
        }
    }

    /// Gives `tool` a unique name: with its server, and a number if that is taken too.
    fn qualify(&mut self, tool: &Arc<Tool>, is_reserved: impl Fn(&str) -> bool) {
        let base = match tool.server_name() {
            Some(server) if tool.origin() == Origin::Mcp => Style::default().name(server, tool.bare_name()),
            Some(server) => format!("{server}__{}", tool.name()),
            None => tool.name().to_owned(),
        };
        let is_taken = |name: &str, names: &Self| {
            names.by_shown.contains_key(name) || names.by_name.contains_key(name) || is_reserved(name)
        };
        let mut name = base.clone();
        let mut number = 2;
        while is_taken(&name, self) {
            name = format!("{base}_{number}");
            number += 1;
        }
        self.by_shown.insert(name.clone(), Arc::clone(tool));
        self.shown.insert(tool.id().into(), name);
    }

    /// Returns the name to show `tool` under: its own, or with its server if several tools share
    /// it.
    pub(crate) fn shown(&self, tool: &Tool) -> String {
        self.shown.get(tool.id()).cloned().unwrap_or_else(|| tool.name().to_owned())
    }

    /// Returns whether another server has a tool of the same name.
    pub(crate) fn is_shared(&self, tool: &Tool) -> bool {
        let name = tool.bare_name();
        let named = self.by_name.get(name).into_iter().chain(self.by_bare_name.get(name)).flatten();
        named.into_iter().any(|other| other.server_name() != tool.server_name())
    }

    /// Returns the number of visible tools, without those that read outputs: they are not the
    /// user's.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns a tool in one line with all allowed values, under its shown name.
    pub(crate) fn complete_signature(&self, tool: &Tool) -> Arc<Signature> {
        self.complete.get(tool, || Signature::new(tool, &self.shown(tool)))
    }

    /// Returns a tool in one line, in each level of detail, under its shown name.
    pub(crate) fn signatures(&self, tool: &Tool) -> Arc<Signatures> {
        self.signatures.get(tool, || Signatures::new(tool, &self.shown(tool)))
    }

    /// Returns the definition of a tool under this name, for models.
    pub(crate) fn definition(&self, tool: &Tool, name: &str) -> Arc<ToolDefinition> {
        if name != self.shown.get(tool.id()).map_or_else(|| tool.name(), String::as_str) {
            return Arc::new(ToolDefinition::of(tool, name));
        }
        self.definitions.get(tool, || ToolDefinition::of(tool, name))
    }

    /// Returns the tools with exactly this name, shown name or identity.
    pub(crate) fn exact(&self, name: &str) -> Vec<Arc<Tool>> {
        if let Some(tool) = self.by_shown.get(name) {
            return vec![Arc::clone(tool)];
        }
        if let Some(tools) = self.by_name.get(name) {
            return tools.clone();
        }
        // An identity such as `server/name`; which part is which, the tools themselves say.
        let bare = name.rsplit('/').next().unwrap_or(name);
        let tools = self.by_name.get(bare).into_iter().flatten();
        tools.filter(|tool| tool.id() == name).cloned().collect()
    }

    /// Returns the tools that `name` can mean: those with exactly this name, else those with
    /// another spelling of it or with this alias.
    pub(crate) fn candidates(&self, name: &str) -> Vec<Arc<Tool>> {
        let exact = self.exact(name);
        if !exact.is_empty() || name.is_empty() || name.len() > MAX_NAME_BYTES {
            return exact;
        }
        if let Some(tools) = self.by_snake.get(&snake_case(name)).or_else(|| self.by_alias.get(name)) {
            return tools.clone();
        }
        if let Some((_, target)) = KNOWN_ALIASES.iter().find(|(alias, _)| *alias == name) {
            return self.exact(target);
        }
        let spelling = Spelling::new(name);
        let mut found = self.by_folded.get(spelling.folded()).cloned().unwrap_or_default();
        if found.len() == 1 {
            return found;
        }
        // With its server, a name that several tools share may mean one of them.
        let mut of_server: Vec<Arc<Tool>> = Vec::new();
        for (server, name) in spelling.qualified() {
            for tool in self.by_folded.get(name).into_iter().flatten() {
                let is_of_server = tool.server_name().is_some_and(|of| naming::fold(of) == server);
                if is_of_server && !of_server.iter().any(|other| Arc::ptr_eq(other, tool)) {
                    of_server.push(Arc::clone(tool));
                }
            }
        }
        if !of_server.is_empty() {
            found = of_server;
        }
        found
    }

    /// Returns the one tool that `name` means in any spelling.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Tool>> {
        match self.candidates(name).as_slice() {
            [tool] => Some(Arc::clone(tool)),
            _ => None,
        }
    }

    /// Returns the tools that `name` means to a caller who may mean several: all with exactly this
    /// name, else the one that a loose spelling means.
    pub(crate) fn resolve(&self, name: &str) -> Vec<Arc<Tool>> {
        let exact = self.exact(name);
        if exact.is_empty() { self.find(name).into_iter().collect() } else { exact }
    }

    /// Returns the error text for a name that does not mean exactly one tool, with `advice` where no
    /// name is near.
    pub(crate) fn unknown(&self, name: &str, advice: &str) -> String {
        let several = self.candidates(name);
        if several.len() > 1 {
            let shown: Vec<String> = several.iter().map(|tool| self.shown(tool)).collect();
            return format!("`{}` is on several servers: {}", echo(name), shown.join(", "));
        }
        match self.nearest(name).as_slice() {
            [] if advice.is_empty() => format!("no tool `{}`", echo(name)),
            [] => format!("no tool `{}`; {advice}", echo(name)),
            nearest => format!("no tool `{}`; nearest names: {}", echo(name), nearest.join(", ")),
        }
    }

    /// Returns the tools that the user has renamed and whose servers call them `name`, in any spelling.
    fn renamed_from(&self, name: &str) -> Vec<&Arc<Tool>> {
        if self.renamed.is_empty() {
            return Vec::new();
        }
        let spelling = Spelling::new(name);
        self.renamed.iter().filter(|tool| spelling.fits_name(tool.upstream_name(), tool.server_name())).collect()
    }

    /// Returns the names nearest to `name`, for suggestions.
    pub(crate) fn nearest(&self, name: &str) -> Vec<String> {
        if name.len() > MAX_NAME_BYTES {
            return Vec::new();
        }
        let several = self.candidates(name);
        if !several.is_empty() {
            return several.iter().take(3).map(|tool| self.shown(tool)).collect();
        }
        let renamed = self.renamed_from(name);
        if !renamed.is_empty() {
            return renamed.iter().take(3).map(|tool| self.shown(tool)).collect();
        }
        let maps = [&self.by_name, &self.by_bare_name, &self.by_full_name];
        let names = maps.iter().flat_map(|map| map.keys()).map(|name| &**name);
        let nearest = naming::nearest(name, names, 3);
        let tools = nearest.into_iter().flat_map(|name| maps.iter().filter_map(|map| map.get(name)).flatten());
        let mut shown: Vec<String> = Vec::new();
        for name in tools.map(|tool| self.shown(tool)) {
            if !shown.contains(&name) {
                shown.push(name);
            }
        }
        shown.truncate(3);
        shown
    }
}

/// Returns the full name of a tool that is shown under a shortened or repaired one.
fn full_name(tool: &Tool) -> Option<String> {
    let server = tool.server_name().filter(|_| tool.origin() == Origin::Mcp)?;
    let is_repaired = !tool.name().ends_with(tool.bare_name());
    is_repaired.then(|| format!("{server}___{}", tool.bare_name()))
}

/// Returns a name from outside for an error text: on one line and of bounded length.
pub(crate) fn echo(name: &str) -> String {
    const MOST: usize = 256;
    pegboard_core::text::brief(name, MOST)
}

/// Returns `CreateIssue` and `create-issue` as `create_issue`. A name in capitals stays unchanged:
/// it is a constant's name, not another spelling.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let has_lower = name.chars().any(char::is_lowercase);
    let mut previous: Option<char> = None;
    for c in name.chars() {
        let after_word = previous.is_some_and(|previous| previous.is_lowercase() || previous.is_numeric());
        if c.is_uppercase() && has_lower {
            if after_word {
                snake.push('_');
            }
            snake.extend(c.to_lowercase());
        } else {
            snake.push(if c == '-' { '_' } else { c });
        }
        previous = Some(c);
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let check = |name, expected| assert_eq!(snake_case(name), expected);
        check("ReadFile", "read_file");
        check("readFile", "read_file");
        check("read-file", "read_file");
        check("READ_FILE", "READ_FILE");
        check("getURL", "get_url");
    }
}
