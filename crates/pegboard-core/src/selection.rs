//! Which tools a caller may see at all.

use std::{collections::BTreeSet, sync::Arc};

use crate::{Catalog, Tool, naming::fold};

/// Categories that steer a conversation instead of serving it, folded; no allow list
/// hides them.
const ALWAYS_ALLOWED: [&str; 2] = ["structuredoutput", "human"];

/// An allow list and a deny list over servers and tools, the same for list, search,
/// describe and call.
///
/// Patterns are `server`, `server:tool`, `server:*` or a bare tool name; `-`, `_` and
/// case make no difference. An empty allow list allows everything; several allow
/// entries are a union; deny wins over allow.
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
    /// Whoever narrows a selection cannot see more than its holder.
    outer: Option<Arc<Selection>>,
}

impl Selection {
    /// Everything may be seen.
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

    /// Shows these tools of the host program whatever the allow list says. A deny list still
    /// hides them, and a server's tool of the same name gains nothing.
    #[must_use]
    pub fn exempt(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.exempt.extend(names.into_iter().map(|name| fold(name.as_ref())));
        self
    }

    /// What both this and `inner` show: for somebody who acts on the holder's behalf.
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

    /// Whether nothing is hidden, so that a caller can skip asking tool by tool.
    pub fn is_everything(&self) -> bool {
        let hides_nothing = self.allow.is_empty() && self.deny.is_empty();
        hides_nothing && self.outer.as_ref().is_none_or(|outer| outer.is_everything())
    }

    /// Whether `tool` exists for the caller.
    pub fn allows(&self, tool: &Tool) -> bool {
        if self.is_everything() {
            return true;
        }
        if self.deny.matches(tool) || self.outer.as_ref().is_some_and(|outer| !outer.allows(tool)) {
            return false;
        }
        self.allow.is_empty() || is_always_on(tool) || self.is_exempt(tool) || self.allow.matches(tool)
    }

    /// Whether all of a server may be seen, not only some of its tools: what is no tool
    /// (prompts, resources) is seen with the whole server.
    pub fn allows_server(&self, server: &str) -> bool {
        let folded = fold(server);
        let is_allowed = self.allow.is_empty() || self.allow.servers.contains(&folded);
        let is_outer_allowed = self.outer.as_ref().is_none_or(|outer| outer.allows_server(server));
        is_allowed && !self.deny.servers.contains(&folded) && is_outer_allowed
    }

    /// Whether everything of a server may be seen, with each of its tools. `tools` are those that
    /// are known of it; where none are, a tool that is denied by its bare name may be one of them.
    pub fn allows_all_of<'a>(&self, server: &str, tools: impl IntoIterator<Item = &'a Tool>) -> bool {
        let tools: Vec<&Tool> = tools.into_iter().collect();
        self.allows_server(server)
            && !self.denies_some_of(&fold(server), tools.is_empty())
            && tools.iter().all(|tool| self.allows(tool))
    }

    /// Whether a deny list hides a tool of a server, or of any server where its tools are unknown.
    fn denies_some_of(&self, server: &str, is_unknown: bool) -> bool {
        let denies_one = self.deny.tools.iter().any(|(of, _)| of == server);
        let may_deny_one = is_unknown && !self.deny.names.is_empty();
        let outer = self.outer.as_ref();
        denies_one || may_deny_one || outer.is_some_and(|outer| outer.denies_some_of(server, is_unknown))
    }

    fn is_exempt(&self, tool: &Tool) -> bool {
        tool.is_own() && self.exempt.contains(&fold(tool.name()))
    }

    /// How many tools of `catalog` exist for the caller.
    pub fn count(&self, catalog: &Catalog) -> usize {
        if self.is_everything() {
            return catalog.len();
        }
        catalog.iter().filter(|tool| self.allows(tool)).count()
    }
}

/// Whether `tool` is of a category that steers a conversation (`structured_output`,
/// `human`) and belongs to the host program: no allow list hides it, and it is never
/// deferred.
pub fn is_always_on(tool: &Tool) -> bool {
    own_category(tool).is_some_and(is_always_allowed)
}

/// The category of a tool that the host program registered itself. What a server says of
/// its own tools opens no doors.
fn own_category(tool: &Tool) -> Option<&str> {
    tool.category().filter(|_| tool.is_own())
}

/// Programs name such a category with and without `_tools` behind it.
fn is_always_allowed(category: &str) -> bool {
    let category = fold(category);
    ALWAYS_ALLOWED.contains(&category.strip_suffix("tools").unwrap_or(&category))
}

/// Folded spellings. Ordered sets, so that two equal selections print alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Patterns {
    servers: BTreeSet<String>,
    tools: BTreeSet<(String, String)>,
    names: BTreeSet<String>,
}

impl Patterns {
    fn add(&mut self, pattern: &str) {
        match pattern.split_once(':') {
            Some((server, "*")) => {
                self.servers.insert(fold(server));
            }
            Some((server, tool)) => {
                self.tools.insert((fold(server), fold(tool)));
            }
            None => {
                self.names.insert(fold(pattern));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.tools.is_empty() && self.names.is_empty()
    }

    fn matches(&self, tool: &Tool) -> bool {
        let (name, upstream_name) = (fold(tool.name()), fold(tool.upstream_name()));
        if self.names.contains(&name) || self.names.contains(&upstream_name) {
            return true;
        }
        // Host programs group their own tools by category instead of by server.
        [tool.server_name(), own_category(tool)].into_iter().flatten().any(|group| {
            let group = fold(group);
            let has = |name: &String| self.tools.contains(&(group.clone(), name.clone()));
            self.servers.contains(&group) || has(&name) || has(&upstream_name)
        })
    }
}

#[cfg(test)]
mod tests;
