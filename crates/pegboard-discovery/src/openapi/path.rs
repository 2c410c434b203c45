//! The paths of tools in the API.

const MCP: &str = "/tools/mcp/";
const OWN: &str = "/tools/custom/";

/// Returns the path of a tool; `server` is `None` for the host's own tools. Names are
/// percent-encoded.
///
/// ```
/// use pegboard_discovery::openapi::{parse_path, path_of};
///
/// let path = path_of(Some("files"), "a/b ü");
/// assert_eq!(path, "/tools/mcp/files/a%2Fb%20%C3%BC");
/// assert_eq!(parse_path(&path), Some((Some("files".to_owned()), "a/b ü".to_owned())));
/// assert_eq!(path_of(None, "add"), "/tools/custom/add");
/// ```
pub fn path_of(server: Option<&str>, name: &str) -> String {
    match server {
        Some(server) => format!("{MCP}{}/{}", encoded(server), encoded(name)),
        None => format!("{OWN}{}", encoded(name)),
    }
}

/// Returns the server and the name of the tool at a path, if there can be one.
pub fn parse_path(path: &str) -> Option<(Option<String>, String)> {
    let part = |text: &str| decoded(text).filter(|name| is_segment(name));
    if let Some(rest) = path.strip_prefix(MCP) {
        let (server, name) = rest.split_once('/').filter(|(_, name)| !name.contains('/'))?;
        return Some((Some(part(server)?), part(name)?));
    }
    let name = path.strip_prefix(OWN).filter(|name| !name.contains('/'))?;
    Some((None, part(name)?))
}

/// Returns whether a name can be a segment of a path: clients normalize dots, encoded or not.
pub(super) fn is_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
}

fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Decodes percent-encoded text; `None` if it is malformed or not UTF-8.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths() {
        let check = |path: &str, expected: Option<(Option<&str>, &str)>| {
            let expected = expected.map(|(server, name)| (server.map(str::to_owned), name.to_owned()));
            assert_eq!(parse_path(path), expected, "{path}");
        };
        check("/tools/mcp/github/create_issue", Some((Some("github"), "create_issue")));
        check("/tools/mcp/a%2fb/c%20d", Some((Some("a/b"), "c d")));
        check("/tools/custom/add", Some((None, "add")));
        check("/tools/custom/a/b", None);
        check("/tools/mcp/a", None);
        check("/tools/mcp/a/", None);
        check("/tools/mcp/a/b/", None);
        check("/tools/mcp/a/%2e%2E", None);
        check("/tools/custom/%zz", None);
        check("/tools/custom/%4", None);
        check("/tools/custom/%ff", None);
        check("/tools", None);
    }

    proptest! {
        #[test]
        fn every_path_leads_back(server in proptest::option::of(".{1,12}"), name in ".{1,12}") {
            prop_assume!(server.as_deref().is_none_or(is_segment) && is_segment(&name));
            let path = path_of(server.as_deref(), &name);
            let is_clean = path.is_ascii() && !path.contains(['{', '}', ' ', '?', '#']);
            prop_assert!(is_clean, "{}", path);
            prop_assert_eq!(parse_path(&path), Some((server, name)));
        }

        #[test]
        fn any_path_is_read(path in "(/tools/(mcp|custom)/)?[%a-f0-9/.]{0,20}") {
            parse_path(&path);
        }
    }
}
