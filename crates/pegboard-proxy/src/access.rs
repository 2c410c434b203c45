//! Who may use the proxy, and the credentials of the provider that must appear nowhere.

use std::sync::Arc;

use axum::http::{HeaderMap, Uri};
use pegboard_core::Secret;

/// The header with the token of a client of the proxy. It is not sent to the provider.
pub(crate) const TOKEN_HEADER: &str = "x-pegboard-token";

/// A client that proves itself with a token.
#[derive(Clone, Debug)]
pub struct ClientToken {
    /// The name of the client in rules and logs.
    pub name: String,
    /// The token.
    pub token: Secret,
}

/// Who may use the proxy.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The known clients.
    pub tokens: Vec<ClientToken>,
    /// Whether a request without a token is rejected. It must be set on a listener that other machines can reach.
    pub is_token_required: bool,
}

/// The reason why a client is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("a token of this proxy is required, in the header `x-pegboard-token` or in the path: `/token/TOKEN/…`")]
    Missing,
    #[error("this token of the proxy is not valid")]
    Wrong,
    #[error("only one token of the proxy is allowed, in the header `x-pegboard-token` or in the path")]
    Several,
}

impl Access {
    /// Checks the token of a request and returns the name of its client.
    pub(crate) fn check(&self, headers: &HeaderMap, in_path: Option<&str>) -> Result<Option<Arc<str>>, Denied> {
        let mut given: Vec<&[u8]> = headers.get_all(TOKEN_HEADER).iter().map(|value| value.as_bytes()).collect();
        given.extend(in_path.map(str::as_bytes));
        match given.as_slice() {
            [] if self.is_token_required => Err(Denied::Missing),
            [] => Ok(None),
            [given] => {
                let mut matching = self.tokens.iter().filter(|known| is_same(known.token.expose().as_bytes(), given));
                matching.next_back().map(|known| Some(known.name.as_str().into())).ok_or(Denied::Wrong)
            }
            _ => Err(Denied::Several),
        }
    }
}

/// Compares without revealing by its duration where the first difference is.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let different = a.iter().zip(b).fold(0, |different, (a, b)| different | (a ^ b));
    !a.is_empty() && a.len() == b.len() && different == 0
}

/// Returns the provider credential of a request. Only its keyed hash is kept.
pub(crate) fn credential(headers: &HeaderMap, uri: &Uri) -> Vec<u8> {
    let mut found = Vec::new();
    for name in ["authorization", "x-api-key", "x-goog-api-key", "api-key"] {
        for value in headers.get_all(name) {
            found.extend_from_slice(name.as_bytes());
            found.push(b'=');
            found.extend_from_slice(value.as_bytes());
            found.push(b'\n');
        }
    }
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| is_secret_parameter(pair)) {
        found.extend_from_slice(pair.as_bytes());
        found.push(b'\n');
    }
    found
}

fn is_secret_parameter(pair: &str) -> bool {
    let name = pair.split('=').next().unwrap_or_default();
    ["key", "access_token", "api_key", "api-key"].iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

/// Returns the path and query for logs: without tokens and keys.
pub(crate) fn redacted(rest: &str, query: Option<&str>) -> String {
    let Some(query) = query else { return rest.to_owned() };
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if is_secret_parameter(pair) => format!("{name}=[hidden]"),
        _ => pair.to_owned(),
    };
    let pairs: Vec<String> = query.split('&').map(hide).collect();
    format!("{rest}?{}", pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_prove_themselves() {
        let token = |name: &str, token: &str| ClientToken { name: name.to_owned(), token: Secret::new(token) };
        let open =
            Access { tokens: vec![token("ann", "secret-a"), token("bob", "secret-b")], is_token_required: false };
        let closed = Access { is_token_required: true, ..open.clone() };
        let check =
            |access: &Access, header: Option<&str>, path: Option<&str>, expected: Result<Option<&str>, Denied>| {
                let mut headers = HeaderMap::new();
                if let Some(header) = header {
                    headers.insert(TOKEN_HEADER, header.parse().expect("a value"));
                }
                let found = access.check(&headers, path);
                assert_eq!(
                    found.as_ref().map(Option::as_deref),
                    expected.as_ref().map(|name| *name),
                    "{header:?} {path:?}"
                );
            };
        check(&open, None, None, Ok(None));
        check(&closed, None, None, Err(Denied::Missing));
        for access in [&open, &closed] {
            check(access, Some("secret-b"), None, Ok(Some("bob")));
            check(access, None, Some("secret-a"), Ok(Some("ann")));
            check(access, Some("secret-"), None, Err(Denied::Wrong));
            check(access, None, Some(""), Err(Denied::Wrong));
            check(access, Some("secret-a"), Some("secret-a"), Err(Denied::Several));
        }
        check(
            &Access { tokens: vec![token("empty", "")], is_token_required: true },
            Some(""),
            None,
            Err(Denied::Wrong),
        );
    }

    #[test]
    fn keys_are_hidden() {
        let check = |query: Option<&str>, expected: &str| assert_eq!(redacted("/v1/x", query), expected);
        check(None, "/v1/x");
        check(Some("alt=sse&key=AIza123"), "/v1/x?alt=sse&key=[hidden]");
        check(Some("KEY=a&keys=b"), "/v1/x?KEY=[hidden]&keys=b");
        let uri: Uri = "/v1/x?alt=sse&key=AIza123".parse().expect("a URI");
        assert_eq!(credential(&HeaderMap::new(), &uri), b"key=AIza123\n");
    }
}
