//! What the gateway lists, compared with what the servers list by themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    listing::{self, Alone, Era, Tool},
    names,
};

/// Values in the definitions of some tools that differ through the gateway, with the reason.
pub(super) struct Known {
    pub(super) server: &'static str,
    pub(super) tools: &'static [&'static str],
    /// JSON pointers to the values. Everything else must be equal.
    pub(super) at: &'static [&'static str],
    pub(super) reason: &'static str,
}

impl Known {
    fn covers(&self, server: &str, tool: &str) -> bool {
        self.server == server && self.tools.contains(&tool)
    }

    /// Returns whether two definitions are equal but for the values that may differ.
    fn explains(&self, one: &str, other: &str) -> bool {
        let rest = |text: &str| {
            let mut value: Value = serde_json::from_str(text).unwrap_or_default();
            for pointer in self.at {
                value.pointer_mut(pointer).map(Value::take);
            }
            value
        };
        let (one, other) = (rest(one), rest(other));
        !one.is_null() && one == other
    }
}

/// Returns the problems of a list of the gateway in one revision: names that are not valid, not unique or
/// of no tool, and tools that are missing or defined differently.
pub(super) fn compare(alone: &BTreeMap<String, Alone>, listed: &[Tool], revision: Era, known: &[Known]) -> Vec<String> {
    let mut problems = names::find_invalid(listed);
    let servers: Vec<&str> = alone.keys().map(String::as_str).collect();
    let mut by_server: BTreeMap<&str, Vec<&Tool>> = BTreeMap::new();
    for tool in listed {
        match names::find_server(&tool.name, &servers) {
            Some(server) => by_server.entry(server).or_default().push(tool),
            None => problems.push(format!("`{}` is a tool of no server", tool.name)),
        }
    }
    for (server, own) in alone {
        let listed = by_server.remove(server.as_str()).unwrap_or_default();
        problems.extend(compare_server(server, own, &listed, revision, known));
    }
    problems
}

fn compare_server(server: &str, alone: &Alone, listed: &[&Tool], revision: Era, known: &[Known]) -> Vec<String> {
    let own = alone.tools(revision);
    let mut problems = Vec::new();
    let mut found: BTreeMap<&str, &Tool> = BTreeMap::new();
    for shown in listed {
        match names::find_tool(shown, server, own) {
            Ok(tool) => {
                if let Some(other) = found.insert(&tool.name, shown) {
                    let names = format!("`{}` and `{}`", other.name, shown.name);
                    problems.push(format!("{server}: {names} are both the tool `{}`", tool.name));
                }
            }
            Err(problem) => problems.push(format!("{server}: {problem}")),
        }
    }
    for tool in own {
        let Some(shown) = found.get(tool.name.as_str()) else {
            problems.push(format!("{server}: the tool `{}` is missing", tool.name));
            continue;
        };
        let definition = listing::without_ui_server(&shown.definition, server);
        let row = known.iter().find(|row| row.covers(server, &tool.name));
        match (is_own(&definition, tool, alone, revision), row) {
            (true, None) => {}
            (true, Some(_)) => {
                problems.push(format!("{server}: `{}` no longer differs: remove it from `KNOWN`", tool.name));
            }
            (false, Some(row)) if row.explains(&definition, &tool.definition) => {}
            (false, _) => {
                let change = listing::show_change(&definition, &tool.definition);
                problems.push(format!("{server}: the definition of `{}` differs{change}", tool.name));
            }
        }
    }
    problems
}

/// Returns whether a definition is the server's own in this revision. The gateway has one list for both: a
/// definition that the server writes differently in the other revision, but that says the same, is its own.
fn is_own(definition: &str, own: &Tool, alone: &Alone, revision: Era) -> bool {
    let is_same_value = |one: &str, other: &str| {
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        read(one).is_some_and(|one| read(other) == Some(one))
    };
    let mut others = alone.tools(revision.other()).iter().filter(|tool| tool.name == own.name);
    definition == own.definition
        || others.any(|other| definition == other.definition && is_same_value(definition, &own.definition))
}

/// Returns the servers of which the first list lacks tools that an earlier start listed.
pub(super) fn find_missing(before: &[Tool], first: &[Tool]) -> Vec<String> {
    let first: BTreeSet<&str> = first.iter().map(|tool| tool.name.as_str()).collect();
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in before.iter().map(|tool| tool.name.as_str()).filter(|name| !first.contains(name)) {
        let server = name.split_once(names::SEPARATOR).map_or(name, |(server, _)| server);
        missing.entry(server).or_default().push(name);
    }
    let problem = |(server, names): (&str, Vec<&str>)| {
        format!("{server}: the first list lacks {} known tools, such as `{}`", names.len(), names[0])
    };
    missing.into_iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(tools: &[(&str, &str)]) -> Vec<Tool> {
        let tool =
            |(name, definition): &(&str, &str)| Tool { name: (*name).to_owned(), definition: (*definition).to_owned() };
        tools.iter().map(tool).collect()
    }

    fn alone(legacy: &[(&str, &str)], modern: Option<&[(&str, &str)]>) -> BTreeMap<String, Alone> {
        let alone = Alone { legacy: tools(legacy), modern: modern.map(tools) };
        BTreeMap::from([("one".to_owned(), alone)])
    }

    const KNOWN: &[Known] = &[Known {
        server: "one",
        tools: &["random"],
        at: &["/inputSchema/properties/fields/default"],
        reason: "random order",
    }];

    #[track_caller]
    fn check(alone: &BTreeMap<String, Alone>, listed: &[(&str, &str)], expected: [&[&str]; 2]) {
        for (revision, expected) in [Era::Legacy, Era::Modern].into_iter().zip(expected) {
            let found = compare(alone, &tools(listed), revision, KNOWN);
            let is_expected = |(found, expected): (&String, &&str)| found.contains(*expected);
            let are_expected = found.iter().zip(expected).all(is_expected) && found.len() == expected.len();
            assert!(are_expected, "{revision:?}: {found:?}, expected {expected:?}");
        }
    }

    #[test]
    fn missing_added_and_changed_tools() {
        let one = alone(&[("a", "{1}"), ("b", "{2}")], None);
        let both = |expected: &'static [&'static str]| [expected, expected];
        check(&one, &[("one___a", "{1}"), ("one___b", "{2}")], both(&[]));
        check(&one, &[("one___a", "{1}")], both(&["the tool `b` is missing"]));
        check(&one, &[("one___a", "{1}"), ("one___b", "{3}")], both(&["the definition of `b` differs"]));
        let added = [("one___a", "{1}"), ("one___b", "{2}"), ("one___c", "{2}")];
        check(&one, &added, both(&["`one___c` is not a tool"]));
        let of_none = [("one___a", "{1}"), ("one___b", "{2}"), ("two___a", "{1}")];
        check(&one, &of_none, both(&["`two___a` is a tool of no server"]));
        let twice = [("one___a", "{1}"), ("one___b", "{2}"), ("one___b", "{2}")];
        check(&one, &twice, both(&["`one___b` is listed twice", "are both the tool `b`"]));
        // The definition of another tool.
        let swapped = [("one___a", "{2}"), ("one___b", "{1}")];
        check(&one, &swapped, both(&["the definition of `a`", "the definition of `b`"]));
    }

    #[test]
    fn a_revision_is_compared_with_itself() {
        let (legacy, modern) = (r#"{"x":1,"y":2}"#, r#"{"y":2,"x":1}"#);
        let written = alone(&[("a", legacy)], Some(&[("a", modern)]));
        for definition in [legacy, modern] {
            check(&written, &[("one___a", definition)], [&[], &[]]);
        }
        // The same value, but nothing that the server wrote.
        check(&written, &[("one___a", r#"{"x":1, "y":2}"#)], [&["differs"], &["differs"]]);
        let changed = alone(&[("a", r#"{"x":1}"#)], Some(&[("a", r#"{"x":2}"#), ("b", "{}")]));
        check(&changed, &[("one___a", r#"{"x":1}"#)], [&[], &["`a` differs", "`b` is missing"]]);
        check(&changed, &[("one___a", r#"{"x":2}"#)], [&["`a` differs"], &["`b` is missing"]]);
    }

    #[test]
    fn only_the_known_value_may_differ() {
        let definition = |default: &str, text: &str| {
            let fields = format!(r#"{{"fields":{{"default":"{default}"}}}}"#);
            format!(r#"{{"description":"{text}","inputSchema":{{"properties":{fields}}}}}"#)
        };
        let own = definition("a,b", "Reads.");
        let one = alone(&[("random", &own), ("other", &own)], None);
        let listed = |random: &str, other: &str, expected: &'static [&'static str]| {
            check(&one, &[("one___random", random), ("one___other", other)], [expected, expected]);
        };
        let reordered = definition("b,a", "Reads.");
        listed(&reordered, &own, &[]);
        listed(&own, &own, &["`random` no longer differs"]);
        listed(&reordered, &reordered, &["`other` differs"]);
        listed(&definition("b,a", "Writes."), &own, &["`random` differs"]);
    }

    #[test]
    fn the_first_list_holds_what_is_known() {
        let before = tools(&[("one___a", "{}"), ("one___b", "{}"), ("two___a", "{}")]);
        assert!(find_missing(&before, &before).is_empty());
        let problems = find_missing(&before, &tools(&[("one___a", "{}"), ("three___a", "{}")]));
        let expected = ["one: the first list lacks 1 known tools, such as `one___b`", "two: the first list lacks 1"];
        assert!(problems.len() == 2 && problems.iter().zip(expected).all(|(problem, text)| problem.starts_with(text)));
    }
}
