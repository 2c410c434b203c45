//! The names under which the gateway lists tools.

use std::collections::BTreeSet;

use super::listing::Tool;

/// The separator between server and tool in the names of the gateway.
pub(super) const SEPARATOR: &str = "___";

/// Maximum number of characters that all providers accept.
const MAX_LENGTH: usize = 64;

/// Number of hexadecimal digits at the end of a name that is shortened.
const DIGITS: usize = 8;

/// Minimum number of characters of a server that are left in a shortened name.
const SERVER_KEEPS: usize = 24;

/// Returns the names that providers reject, and those that are listed twice.
pub(super) fn find_invalid(tools: &[Tool]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for name in tools.iter().map(|tool| tool.name.as_str()) {
        if !is_valid(name) {
            problems.push(format!("`{name}` is not a valid name: 1 to {MAX_LENGTH} letters, digits, `_` or `-`"));
        }
        if !seen.insert(name) {
            problems.push(format!("`{name}` is listed twice"));
        }
    }
    problems
}

fn is_valid(name: &str) -> bool {
    (1..=MAX_LENGTH).contains(&name.len()) && name.chars().all(is_valid_char)
}

fn is_valid_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns the server that a listed name begins with. In a shortened name it may be cut.
pub(super) fn find_server<'a>(shown: &str, servers: &[&'a str]) -> Option<&'a str> {
    let (server, _) = shown.split_once(SEPARATOR)?;
    let exact = servers.iter().find(|name| **name == server);
    let mut cut = servers.iter().filter(|name| server.len() >= SERVER_KEEPS && name.starts_with(server));
    match (exact, cut.next(), cut.next()) {
        (Some(name), ..) | (None, Some(name), None) => Some(name),
        _ => None,
    }
}

/// Returns the tool of a server that a listed one is: the one with exactly this name, else the only one
/// whose full name providers reject and that this name can be made from.
pub(super) fn find_tool<'a>(shown: &Tool, server: &str, own: &'a [Tool]) -> Result<&'a Tool, String> {
    let full = |tool: &Tool| format!("{server}{SEPARATOR}{}", tool.name);
    if let Some(tool) = own.iter().find(|tool| full(tool) == shown.name) {
        return Ok(tool);
    }
    let name = shown.name.split_once(SEPARATOR).map_or("", |(_, name)| name);
    let is_made_from = |tool: &&Tool| !is_valid(&full(tool)) && is_repaired(name, &tool.name);
    let candidates: Vec<&Tool> = own.iter().filter(is_made_from).collect();
    // Of several long names that begin alike, the definition decides.
    let same: Vec<&Tool> = candidates.iter().copied().filter(|tool| tool.definition == shown.definition).collect();
    match (candidates.as_slice(), same.as_slice()) {
        ([tool], _) | (_, [tool]) => Ok(tool),
        ([], _) => Err(format!("`{}` is not a tool of this server", shown.name)),
        _ => Err(format!("`{}` may be any of {} tools", shown.name, candidates.len())),
    }
}

/// Returns whether a name can be made from that of a tool: other characters are replaced, and a cut name
/// ends with hexadecimal digits.
fn is_repaired(name: &str, tool: &str) -> bool {
    let safe: String = tool.chars().map(|c| if is_valid_char(c) { c } else { '_' }).collect();
    let is_hash = |end: &str| end.len() == DIGITS && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    let cut = name.rsplit_once('_').filter(|(_, end)| is_hash(end)).map(|(start, _)| start);
    name == safe || cut.is_some_and(|start| !start.is_empty() && safe.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, definition: &str) -> Tool {
        Tool { name: name.to_owned(), definition: definition.to_owned() }
    }

    #[test]
    fn names_that_providers_reject() {
        let check = |names: &[&str], expected: usize| {
            let tools: Vec<Tool> = names.iter().map(|name| tool(name, "{}")).collect();
            assert_eq!(find_invalid(&tools).len(), expected, "{names:?}");
        };
        check(&["one___a-b_c1", &"x".repeat(64)], 0);
        check(&["", "a.b", "ñ", &"x".repeat(65)], 4);
        check(&["a", "b", "a"], 1);
    }

    #[test]
    fn servers_of_names() {
        let long = "a-server-with-a-name-that-is-cut";
        let servers = ["one", "one-two", long];
        let check = |shown: &str, expected: Option<&str>| assert_eq!(find_server(shown, &servers), expected, "{shown}");
        check("one___a", Some("one"));
        check("one-two___a", Some("one-two"));
        check("one-t___a", None);
        check(&format!("{}___a_01234567", &long[..24]), Some(long));
        check(&format!("{}___a_01234567", &long[..23]), None);
        check("a", None);
    }

    #[test]
    fn tools_of_names() {
        let long = |end: &str| format!("{}_{end}", "list_all_items_of_the_project".repeat(2));
        let own = [
            tool("read", "{1}"),
            tool("dns.list", "{2}"),
            tool(&long("open"), "{3}"),
            tool(&long("closed"), "{4}"),
            tool("short", "{5}"),
        ];
        let cut = format!("one___{}_0123abcd", &long("")[..49]);
        let check = |name: &str, definition: &str, expected: Result<&str, &str>| {
            let found = find_tool(&tool(name, definition), "one", &own);
            match (&found, expected) {
                (Ok(tool), Ok(name)) => assert_eq!(tool.name, name),
                (Err(problem), Err(text)) => assert!(problem.contains(text), "{problem}"),
                _ => panic!("{name}: {expected:?}"),
            }
        };
        check("one___read", "{9}", Ok("read"));
        check("one___dns_list", "{2}", Ok("dns.list"));
        check("one___dns_list_0123abcd", "{2}", Ok("dns.list"));
        check(&cut, "{3}", Ok(&long("open")));
        check(&cut, "{4}", Ok(&long("closed")));
        check(&cut, "{9}", Err("may be any of 2 tools"));
        // A name that providers accept is not changed.
        check("one___short_0123abcd", "{5}", Err("is not a tool"));
        check("one___rea", "{1}", Err("is not a tool"));
    }
}
