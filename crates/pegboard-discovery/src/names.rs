//! The names under which a session's tools are called.

use std::{collections::HashMap, sync::Arc};

use pegboard_core::{Catalog, Selection, Tool, naming};

/// Names that programs of the `explicit` family use for one tool.
const KNOWN_ALIASES: [(&str, &str); 2] =
    [("write_workspace_file", "update_workspace_file"), ("create_workspace_file", "update_workspace_file")];

/// The visible tools of one snapshot by name.
#[derive(Debug)]
pub(crate) struct Names {
    by_name: HashMap<Box<str>, Vec<Arc<Tool>>>,
    by_snake: HashMap<String, Vec<Arc<Tool>>>,
    by_alias: HashMap<Box<str>, Vec<Arc<Tool>>>,
}

impl Names {
    pub(crate) fn new(catalog: &Catalog, selection: &Selection) -> Self {
        let mut names = Self { by_name: HashMap::new(), by_snake: HashMap::new(), by_alias: HashMap::new() };
        for tool in catalog.iter().filter(|tool| selection.allows(tool)) {
            names.by_name.entry(tool.name().into()).or_default().push(Arc::clone(tool));
            names.by_snake.entry(snake_case(tool.name())).or_default().push(Arc::clone(tool));
            for alias in tool.aliases() {
                names.by_alias.entry(alias.as_str().into()).or_default().push(Arc::clone(tool));
            }
        }
        names
    }

    /// The name to show `tool` under: its own, or with its server where several share it.
    pub(crate) fn shown(&self, tool: &Tool) -> String {
        let is_shared = self.by_name.get(tool.name()).is_some_and(|tools| tools.len() > 1);
        match tool.server_name().filter(|_| is_shared) {
            Some(server) => format!("{server}__{}", tool.name()),
            None => tool.name().to_owned(),
        }
    }

    /// The tools with exactly this name, `server__name` or identity.
    pub(crate) fn exact(&self, name: &str) -> Vec<Arc<Tool>> {
        if let Some(tools) = self.by_name.get(name) {
            return tools.clone();
        }
        let qualified = name.split_once("__").or_else(|| name.split_once('/'));
        let tools = qualified.and_then(|(server, bare)| {
            let tools = self.by_name.get(bare)?;
            Some(tools.iter().filter(|tool| tool.server_name() == Some(server)).cloned().collect())
        });
        tools.unwrap_or_default()
    }

    /// The tools that `name` means: exactly, in another spelling, or by an alias.
    pub(crate) fn resolve(&self, name: &str) -> Vec<Arc<Tool>> {
        let exact = self.exact(name);
        if !exact.is_empty() || name.is_empty() {
            return exact;
        }
        let spelled = self.by_snake.get(&snake_case(name)).or_else(|| self.by_alias.get(name));
        if let Some(tools) = spelled {
            return tools.clone();
        }
        let known = KNOWN_ALIASES.iter().find(|(alias, _)| *alias == name);
        known.map(|(_, target)| self.exact(target)).unwrap_or_default()
    }

    /// The one tool that `name` means in any spelling, for calls.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Tool>> {
        if let [tool] = self.resolve(name).as_slice() {
            return Some(Arc::clone(tool));
        }
        let folded = naming::fold(name);
        let mut found = self
            .by_name
            .values()
            .flatten()
            .filter(|tool| naming::fold(tool.name()) == folded || naming::fold(&self.shown(tool)) == folded);
        match (found.next(), found.next()) {
            (Some(tool), None) => Some(Arc::clone(tool)),
            _ => None,
        }
    }

    /// The names nearest to `name`, for somebody who mistyped one.
    pub(crate) fn nearest(&self, name: &str) -> Vec<String> {
        let names = self.by_name.keys().map(|name| &**name);
        naming::nearest(name, names, 3).into_iter().map(str::to_owned).collect()
    }
}

/// `CreateIssue` and `create-issue` as `create_issue`. What is written in capitals
/// throughout stays so: it is a constant's name, not another spelling.
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
