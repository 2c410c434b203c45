//! Resource URIs of several servers.
//!
//! A URI with a server prefix must still be a URI, because clients parse it. So the name of the
//! server precedes the scheme, as schemes allow it: `git+file:///x`. Hosts of user interfaces (MCP
//! Apps) accept the scheme `ui` alone: there the name precedes the rest, as in `ui://git+view`.

use std::{collections::HashMap, sync::Arc};

use pegboard_core::naming::fnv1a;

/// The beginning of the URIs of user interfaces.
const UI: &str = "ui://";

/// Returns whether a URI is that of a user interface.
pub(crate) fn is_ui(uri: &str) -> bool {
    uri.starts_with(UI)
}

/// The shown URIs of several servers.
#[derive(Debug, Default)]
pub(crate) struct UriNames {
    is_prefixed: bool,
    by_server: HashMap<Arc<str>, String>,
    by_scheme: HashMap<String, Arc<str>>,
}

impl UriNames {
    pub(crate) fn new<'a>(servers: impl Iterator<Item = &'a str>, is_prefixed: bool) -> Self {
        let mut names = Self { is_prefixed, ..Self::default() };
        // A name that is a scheme as it is gives way to none that had to be changed.
        let (clean, changed): (Vec<&str>, Vec<&str>) = servers.partition(|server| scheme_part(server) == **server);
        for server in clean.into_iter().chain(changed) {
            let base = scheme_part(server);
            let mut scheme = base.clone();
            let mut round = 0;
            while names.by_scheme.contains_key(&scheme) {
                scheme = format!("{base}-{:08x}", fnv1a(server.bytes(), round) >> 32);
                round += 1;
            }
            let server: Arc<str> = server.into();
            names.by_scheme.insert(scheme.clone(), Arc::clone(&server));
            names.by_server.insert(server, scheme);
        }
        names
    }

    /// Returns whether shown URIs name their server.
    pub(crate) fn is_prefixed(&self) -> bool {
        self.is_prefixed
    }

    /// Returns the URI under which clients see a server's `uri`.
    pub(crate) fn shown_uri(&self, server: &str, uri: &str) -> String {
        match (self.by_server.get(server).filter(|_| self.is_prefixed), uri.strip_prefix(UI)) {
            (Some(name), Some(rest)) => format!("{UI}{name}+{rest}"),
            (Some(name), None) => format!("{name}+{uri}"),
            (None, _) => uri.to_owned(),
        }
    }

    /// Returns the server and its own URI from a prefixed one. The name of the server with three
    /// underscores, as in tool names, is accepted too.
    pub(crate) fn parse_shown(&self, uri: &str) -> Option<(Arc<str>, String)> {
        let by_scheme = || {
            let (scheme, rest) = uri.split_once('+')?;
            Some((Arc::clone(self.by_scheme.get(scheme)?), rest.to_owned()))
        };
        let by_name = || {
            let (server, rest) = uri.split_once("___")?;
            let (server, _) = self.by_server.get_key_value(server)?;
            Some((Arc::clone(server), rest.to_owned()))
        };
        let of_ui = || {
            let (name, rest) = uri.strip_prefix(UI)?.split_once('+')?;
            Some((Arc::clone(self.by_scheme.get(name)?), format!("{UI}{rest}")))
        };
        by_scheme().or_else(of_ui).or_else(by_name)
    }
}

/// Returns the name of a server in the characters of a scheme.
fn scheme_part(server: &str) -> String {
    let scheme_char =
        |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let text: String = server.chars().map(scheme_char).collect();
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) { text } else { format!("s{text}") }
}

/// Returns whether `uri` matches `template`: its literal parts occur in order, with text in every
/// gap.
pub(crate) fn matches_template(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut parts = template.split('{');
    let Some(after) = parts.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = after;
    let mut is_open = false;
    for part in parts {
        let literal = part.split_once('}').map_or("", |(_, literal)| literal);
        is_open = literal.is_empty();
        if is_open {
            continue;
        }
        match rest.char_indices().skip(1).find(|(at, _)| rest[*at..].starts_with(literal)) {
            Some((at, _)) => rest = &rest[at + literal.len()..],
            None => return false,
        }
    }
    if is_open { !rest.is_empty() } else { rest.is_empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        let check = |template, uri, expected| assert_eq!(matches_template(template, uri), expected, "{template} {uri}");
        check("test://template/{id}/data", "test://template/123/data", true);
        check("test://template/{id}/data", "test://template//data", false);
        check("test://template/{id}/data", "test://template/1/data/more", false);
        check("file:///{+path}", "file:///a/b", true);
        check("file:///{+path}", "file:///", false);
        check("x://fixed", "x://fixed", true);
        check("x://{a}", "y://1", false);
    }

    #[test]
    fn uris_stay_uris_and_lead_back() {
        let names = UriNames::new(["git", "My Server", "my-server"].into_iter(), true);
        assert_eq!(names.shown_uri("git", "file:///x"), "git+file:///x");
        assert_eq!(names.shown_uri("my-server", "a://b"), "my-server+a://b");
        assert_eq!(names.shown_uri("My Server", "a://b"), "my-server-9ea2a103+a://b");
        for server in ["git", "My Server", "my-server"] {
            let (found, uri) = names.parse_shown(&names.shown_uri(server, "a+b://c")).expect("known");
            assert_eq!((&*found, uri.as_str()), (server, "a+b://c"));
        }
        assert_eq!(names.parse_shown("git___file:///x").map(|(_, uri)| uri).as_deref(), Some("file:///x"));
        assert!(names.parse_shown("other+file:///x").is_none());
        assert_eq!(names.shown_uri("git", "ui://view/main"), "ui://git+view/main");
        for uri in ["ui://view/main", "ui:///main", "ui://a+b", "ui://{name}"] {
            let (found, own) = names.parse_shown(&names.shown_uri("My Server", uri)).expect("known");
            assert_eq!((&*found, own.as_str()), ("My Server", uri));
        }
        assert_eq!(names.parse_shown("git+ui://view").map(|(_, uri)| uri).as_deref(), Some("ui://view"));
        assert!(names.parse_shown("ui://view/main").is_none() && names.parse_shown("ui://other+view").is_none());
    }
}
