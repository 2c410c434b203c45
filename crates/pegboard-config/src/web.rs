//! URLs and HTTP headers in configurations.

use pegboard_core::Secret;

use crate::{
    document::Node,
    keys::{Kind, Scope},
    variables::{Expanded, expand},
};

/// The kind of a URL.
pub const URL: Kind = Kind::Shaped {
    pattern: r"^([Hh][Tt][Tt][Pp][Ss]?://\S|.*\$\{)",
    fits: "a URL that begins with `http://` or `https://`",
};

/// The kind of an object of headers.
pub const HEADERS: Kind = Kind::Map(&Kind::Text);

/// Reads a URL, which may contain variables.
pub fn read_url(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<Expanded> {
    let Some(text) = node.text() else {
        node.must_be(URL, scope.problems);
        return None;
    };
    let url = expand(node, text, scope);
    if url.is_complete && !is_url(&url.text) {
        node.must_be(URL, scope.problems);
    }
    Some(url)
}

/// Returns whether a text is an HTTP URL.
pub fn is_url(text: &str) -> bool {
    let is_scheme = |scheme: &&str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let scheme = ["http://", "https://"].iter().find(|scheme| is_scheme(scheme));
    let host = scheme.and_then(|scheme| text.get(scheme.len()..)).unwrap_or_default();
    !host.is_empty()
        && !host.starts_with(['/', '?', '#'])
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Reads headers whose values may contain variables; substituted values are added to `filled`.
pub fn read_header_map(node: &Node<'_>, filled: &mut Vec<String>, scope: &mut Scope<'_>) -> Vec<(String, Secret)> {
    let mut headers: Vec<(String, Secret)> = Vec::new();
    for entry in node.as_object(scope.problems).unwrap_or_default() {
        let Some(text) = entry.as_text(scope.problems) else { continue };
        let mut value = expand(&entry, text, scope);
        filled.append(&mut value.secrets);
        let value = value.text;
        if !is_header_name(entry.key()) {
            scope.problems.push(entry.problem("is not a valid header name"));
        } else if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(entry.key())) {
            scope.problems.push(entry.problem("is a duplicate header"));
        } else if !is_header_value(&value) {
            scope.problems.push(entry.problem("has a character that is not allowed in a header value"));
        }
        headers.push((entry.key().to_owned(), Secret::new(value)));
    }
    headers
}

/// Returns whether a name is an HTTP token.
fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Returns whether a value is valid in a header. A line break would begin another header.
pub fn is_header_value(value: &str) -> bool {
    value.chars().all(|c| c == '\t' || !c.is_control())
}
