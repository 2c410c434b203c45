//! The `inheritEnv` setting: variables of this process that servers inherit.

use pegboard_config::{
    document::{Node, Problems},
    keys::{Kind, Scope},
    variables::referenced_variables,
};

use super::servers::entries;
use crate::environment::{InheritEnv, ReservedVariables};

/// The kind of value under `inheritEnv`.
pub const KIND: Kind = Kind::Either(&[Kind::Flag, Kind::List(&VARIABLE)]);

const VARIABLE: Kind = Kind::Shaped {
    pattern: r"^[^=\s]{1,256}$",
    fits: "a variable name of at most 256 characters, in which `*` matches any text",
};

/// Reads `inheritEnv`.
pub fn read_inherit_env(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<InheritEnv> {
    if let Some(is_all) = node.to_json().as_bool() {
        return Some(if is_all { InheritEnv::All } else { InheritEnv::Matching(Vec::new()) });
    }
    if !node.is_list() {
        node.must_be(KIND, scope.problems);
        return None;
    }
    let mut patterns = Vec::new();
    for item in node.as_list(scope.problems).unwrap_or_default() {
        let text = item.text().filter(|text| is_pattern(text));
        if text.is_none() {
            item.must_be(VARIABLE, scope.problems);
        }
        patterns.extend(text.map(str::to_owned));
    }
    Some(InheritEnv::Matching(patterns))
}

fn is_pattern(text: &str) -> bool {
    let is_fine = |c: char| !c.is_whitespace() && !c.is_control() && c != '=';
    (1..=256).contains(&text.chars().count()) && text.chars().all(is_fine)
}

/// Returns the variables that supply the front-door tokens of the configuration at `root`.
pub fn reserved_variables(root: &Node<'_>) -> ReservedVariables {
    let tokens = root.get("pegboard").and_then(|section| section.get("tokens"));
    let tokens = tokens.map(|tokens| tokens.items()).unwrap_or_default();
    let texts = tokens.iter().filter_map(|token| token.get("token")).filter_map(|token| token.text());
    ReservedVariables::new(texts.flat_map(referenced_variables).map(str::to_owned))
}

/// Reports every `inheritEnv` that names a reserved variable, which would have no effect.
pub fn report_reserved(root: &Node<'_>, problems: &mut Problems) {
    let reserved = reserved_variables(root);
    let servers = entries(root, &mut Problems::new()).into_iter().filter_map(|entry| entry.get("pegboard"));
    for section in servers.chain(root.get("pegboard")) {
        for item in section.get("inheritEnv").map(|list| list.items()).unwrap_or_default() {
            if let Some(name) = item.text().filter(|name| reserved.contains(name)) {
                let problem = item.problem(format!("names `{name}`, which supplies a token in `pegboard.tokens`"));
                problems.push(problem.hint("servers never inherit such a variable; use another one"));
            }
        }
    }
}
