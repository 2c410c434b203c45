//! The tools that a caller may see.

use std::{collections::BTreeSet, fmt, sync::Arc};

use crate::{
    Catalog, Tool,
    naming::{Spelling, fold, nearest},
};

/// Maximum number of names that are suggested for a pattern that matches nothing.
const NEAREST: usize = 3;

/// Categories that steer a conversation instead of serving it, folded; no allow list
/// hides them.
const ALWAYS_ALLOWED: [&str; 2] = ["structuredoutput", "human"];

/// An allow list and a deny list over servers and tools, the same for list, search,
/// describe and call.
///
/// Patterns are `server`, `server:tool`, `server:*` or a bare tool name, in any
/// [spelling](Spelling). An empty allow list allows everything; several allow entries are a union;
/// deny wins over allow, and a deny pattern hides every tool that it can mean. An allow pattern
/// that is not a tool's exact name allows a tool only if it matches exactly one, once the selection
/// is [resolved](Self::resolved_for) for a catalog.
///
/// ```
/// use pegboard_core::{Catalog, RawTool, Selection};
///
/// let tool = |server: &str, name: &str| RawTool {
///     name: name.into(),
///     server: Some(server.into()),
///     ..RawTool::default()
/// };
/// let (catalog, _) = Catalog::from_tools(vec![
///     tool("google-sheets", "GetSheetData"),
///     tool("aws", "get_document"),
///     tool("aws", "delete_document"),
/// ]);
/// let selection = Selection::default()
///     .allow_servers(["google_sheets"])
///     .allow_tools(["aws:GetDocument"]);
/// let seen: Vec<&str> = catalog.iter().filter(|tool| selection.allows(tool)).map(|tool| tool.name()).collect();
/// assert_eq!(seen, ["GetSheetData", "get_document"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    allow: Patterns,
    deny: Patterns,
    /// Folded names of the host's own tools that no allow list hides.
    exempt: BTreeSet<String>,
    /// The selection that this one narrows; nothing outside it is visible.
    outer: Option<Arc<Selection>>,
}

impl Selection {
    /// A selection that allows everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Allows all tools of these servers.
    #[must_use]
    pub fn allow_servers(mut self, servers: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.allow.servers.extend(servers.into_iter().map(|server| fold(server.as_ref())));
        self
    }

    /// Allows the tools that these patterns name.
    #[must_use]
    pub fn allow_tools(mut self, patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        patterns.into_iter().for_each(|pattern| self.allow.add(pattern.as_ref()));
        self
    }

    /// Returns this selection resolved for one catalog: an allow pattern that is not the exact name
    /// of a tool allows the one tool that it matches, and nothing if it matches several.
    ///
    /// ```
    /// # use pegboard_core::{Catalog, RawTool, Selection};
    /// let tool = |server: &str, name: &str| RawTool {
    ///     name: format!("{server}___{name}"),
    ///     upstream_name: Some(name.into()),
    ///     server: Some(server.into()),
    ///     ..RawTool::default()
    /// };
    /// let (catalog, _) = Catalog::from_tools(vec![tool("a", "search"), tool("b", "search"), tool("b", "send")]);
    /// let count = |pattern: &str| Selection::everything().allow_tools([pattern]).resolved_for(&catalog).count(&catalog);
    /// assert_eq!(["a__search", "search", "send"].map(count), [1, 0, 1]);
    /// ```
    #[must_use]
    pub fn resolved_for(&self, catalog: &Catalog) -> Self {
        let mut settled = self.clone();
        if !self.allow.written.is_empty() {
            let meant = self.allow.written.iter().flat_map(|pattern| find_meant_tools(pattern, catalog).0);
            settled.allow.ids = Some(meant.map(|tool| tool.id().to_owned()).collect());
        }
        settled.outer = self.outer.as_ref().map(|outer| Arc::new(outer.resolved_for(catalog)));
        settled
    }

    /// Returns the allow patterns that allow no tool of `catalog`.
    pub fn unmatched(&self, catalog: &Catalog) -> Vec<Unmatched> {
        let mut unmatched: Vec<Unmatched> = Vec::new();
        for pattern in &self.allow.written {
            let (meant, several) = find_meant_tools(pattern, catalog);
            if meant.is_empty() {
                let several: Vec<String> = several.iter().map(|tool| tool.name().to_owned()).collect();
                let names = catalog.iter().flat_map(|tool| [tool.name(), tool.bare_name()]);
                let near = nearest(pattern, names, NEAREST).into_iter().map(str::to_owned);
                let near = if several.is_empty() { near.collect() } else { Vec::new() };
                unmatched.push(Unmatched { pattern: pattern.clone(), several, nearest: near });
            }
        }
        unmatched
    }

    /// Hides the servers or tools that these patterns name.
    #[must_use]
    pub fn deny(mut self, patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        for pattern in patterns {
            let pattern = pattern.as_ref();
            self.deny.add(pattern);
            if !pattern.contains(':') {
                self.deny.servers.insert(fold(pattern));
            }
        }
        self
    }

    /// Shows these tools of the host program regardless of the allow list. A deny list still hides
    /// them, and a server's tool of the same name is not exempted.
    #[must_use]
    pub fn exempt(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.exempt.extend(names.into_iter().map(|name| fold(name.as_ref())));
        self
    }

    /// Returns the intersection of this selection and `inner`, for a caller that acts on behalf of
    /// its holder.
    ///
    /// ```
    /// # use pegboard_core::Selection;
    /// let ours = Selection::everything().allow_servers(["github", "slack"]);
    /// let theirs = ours.narrowed_to(Selection::everything().allow_servers(["slack", "mail"]));
    /// assert!(!theirs.is_everything());
    /// ```
    #[must_use]
    pub fn narrowed_to(&self, inner: Self) -> Self {
        // What narrows `inner` already goes on doing so.
        let outer = match &inner.outer {
            Some(outer) => self.narrowed_to(Self::clone(outer)),
            None => self.clone(),
        };
        Self { outer: Some(Arc::new(outer)), ..inner }
    }

    /// Returns whether nothing is hidden, so that a caller can skip the check of each tool.
    pub fn is_everything(&self) -> bool {
        let hides_nothing = self.allow.is_empty() && self.deny.is_empty();
        hides_nothing && self.outer.as_ref().is_none_or(|outer| outer.is_everything())
    }

    /// Returns whether `tool` is visible to the caller.
    pub fn allows(&self, tool: &Tool) -> bool {
        if self.is_everything() {
            return true;
        }
        if self.deny.matches(tool) || self.outer.as_ref().is_some_and(|outer| !outer.allows(tool)) {
            return false;
        }
        self.allow.is_empty() || is_always_on(tool) || self.is_exempt(tool) || self.allow.matches(tool)
    }

    /// Returns whether all of a server may be seen, not only some of its tools: prompts and
    /// resources are visible only with the whole server.
    pub fn allows_server(&self, server: &str) -> bool {
        let folded = fold(server);
        let is_allowed = self.allow.is_empty() || self.allow.servers.contains(&folded);
        let is_outer_allowed = self.outer.as_ref().is_none_or(|outer| outer.allows_server(server));
        is_allowed && !self.deny.servers.contains(&folded) && is_outer_allowed
    }

    /// Returns whether all of a server may be seen, including each of its tools. `tools` are its
    /// known tools; without any, a tool that is denied by its bare name may be one of them.
    pub fn allows_all_of<'a>(&self, server: &str, tools: impl IntoIterator<Item = &'a Tool>) -> bool {
        let tools: Vec<&Tool> = tools.into_iter().collect();
        self.allows_server(server)
            && !self.denies_some_of(&fold(server), tools.is_empty())
            && tools.iter().all(|tool| self.allows(tool))
    }

    /// Returns whether a deny list hides a tool of a server, or of any server if its tools are
    /// unknown.
    fn denies_some_of(&self, server: &str, is_unknown: bool) -> bool {
        let denies_one = self.deny.tools.iter().any(|(of, _)| of == server);
        let may_deny_one = is_unknown && !self.deny.names.is_empty();
        let outer = self.outer.as_ref();
        denies_one || may_deny_one || outer.is_some_and(|outer| outer.denies_some_of(server, is_unknown))
    }

    fn is_exempt(&self, tool: &Tool) -> bool {
        tool.is_own() && self.exempt.contains(&fold(tool.name()))
    }

    /// Returns how many tools of `catalog` the caller may see.
    pub fn count(&self, catalog: &Catalog) -> usize {
        if self.is_everything() {
            return catalog.len();
        }
        catalog.iter().filter(|tool| self.allows(tool)).count()
    }
}

/// Returns whether `tool` belongs to the host program and is of a category that steers a
/// conversation (`structured_output`, `human`): no allow list hides it, and it is never deferred.
pub fn is_always_on(tool: &Tool) -> bool {
    own_category(tool).is_some_and(is_always_allowed)
}

/// Returns the category of a tool that the host program registered itself. The category that a
/// server declares has no effect here.
fn own_category(tool: &Tool) -> Option<&str> {
    tool.category().filter(|_| tool.is_own())
}

/// Returns whether a category is always allowed, with or without the suffix `_tools`.
fn is_always_allowed(category: &str) -> bool {
    let category = fold(category);
    ALWAYS_ALLOWED.contains(&category.strip_suffix("tools").unwrap_or(&category))
}

/// An allow pattern that allows no tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// The pattern as it was written.
    pub pattern: String,
    /// The tools that the pattern matches, if there are several.
    pub several: Vec<String>,
    /// Similar names, if the pattern matches no tool.
    pub nearest: Vec<String>,
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.several.as_slice(), self.nearest.as_slice()) {
            ([], []) => write!(f, "`{}` matches no tool", self.pattern),
            ([], nearest) => write!(f, "`{}` matches no tool; nearest names: {}", self.pattern, nearest.join(", ")),
            (several, _) => write!(f, "`{}` is ambiguous: {}", self.pattern, several.join(", ")),
        }
    }
}

/// Returns the tools that an allow pattern allows, and those that it matches if there are several.
fn find_meant_tools<'a>(pattern: &str, catalog: &'a Catalog) -> (Vec<&'a Arc<Tool>>, Vec<&'a Arc<Tool>>) {
    let is_shown = |tool: &&Arc<Tool>| is_exactly(pattern, tool, &[tool.name(), tool.bare_name()]);
    let exact: Vec<&Arc<Tool>> =
        catalog.iter().filter(|tool| is_shown(tool) || is_exactly(pattern, tool, &[tool.upstream_name()])).collect();
    // Where the user has exchanged the names of two tools, one of them is meant, and not both.
    if exact.iter().any(is_shown) && !exact.iter().all(is_shown) {
        return (Vec::new(), exact);
    }
    if !exact.is_empty() {
        return (exact, Vec::new());
    }
    let mut patterns = Patterns::default();
    patterns.add(pattern);
    let spelling = Spelling::new(pattern);
    let loose: Vec<&Arc<Tool>> = catalog.iter().filter(|tool| spelling.fits(tool) || patterns.matches(tool)).collect();
    if loose.len() == 1 { (loose, Vec::new()) } else { (Vec::new(), loose) }
}

/// Returns whether a pattern is exactly `tool`, or one of its `names` at its server.
fn is_exactly(pattern: &str, tool: &Tool, names: &[&str]) -> bool {
    let of_server = |server: &str| {
        let name = pattern.strip_prefix(server).and_then(|rest| rest.strip_prefix(':'));
        name.is_some_and(|name| names.contains(&name))
    };
    pattern == tool.name() || pattern == tool.id() || tool.server_name().is_some_and(of_server)
}

/// Folded spellings. Ordered sets, so that two equal selections print alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Patterns {
    servers: BTreeSet<String>,
    tools: BTreeSet<(String, String)>,
    names: BTreeSet<String>,
    /// The patterns of tools as they were written.
    written: BTreeSet<String>,
    /// The identities of the tools that those mean in one catalog.
    ids: Option<BTreeSet<String>>,
}

impl Patterns {
    fn add(&mut self, pattern: &str) {
        match pattern.split_once(':') {
            Some((server, "*")) => {
                self.servers.insert(fold(server));
            }
            Some((server, tool)) => {
                self.tools.insert((fold(server), fold(tool)));
                self.written.insert(pattern.to_owned());
            }
            None => {
                self.names.insert(fold(pattern));
                self.written.insert(pattern.to_owned());
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.tools.is_empty() && self.names.is_empty()
    }

    fn matches(&self, tool: &Tool) -> bool {
        // Host programs group their own tools by category instead of by server.
        let mut groups = [tool.server_name(), own_category(tool)].into_iter().flatten().map(fold);
        if let Some(ids) = &self.ids {
            return ids.contains(tool.id()) || groups.any(|group| self.servers.contains(&group));
        }
        // A tool that the user has renamed is still denied under the name at its server.
        let bare = tool.is_renamed().then(|| fold(tool.bare_name()));
        let names = [Some(fold(tool.name())), Some(fold(tool.upstream_name())), bare];
        let (all, own) = (|| names.iter().flatten(), || names[1..].iter().flatten());
        if all().any(|name| self.names.contains(name)) {
            return true;
        }
        groups.any(|group| {
            let has = |name: &String| self.tools.contains(&(group.clone(), name.clone()));
            let has_qualified = |name: &String| {
                let qualified = format!("{group}{name}");
                self.names.contains(&qualified) || self.names.contains(&format!("mcp{qualified}"))
            };
            self.servers.contains(&group) || all().any(has) || own().any(has_qualified)
        })
    }
}

#[cfg(test)]
mod tests;
