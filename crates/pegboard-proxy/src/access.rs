//! Who may use the proxy, and the credentials of the provider that must appear nowhere.

use std::sync::Arc;

use axum::http::{HeaderMap, Uri};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use pegboard_core::Secret;
use serde::Deserialize;

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
    #[error("invalid proxy token")]
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

/// Returns the identity of the caller at the provider: the credentials of the request, of which only a keyed hash is kept.
/// A JSON Web Token is replaced by its issuer and subject, because clients refresh it during a conversation. They are not
/// verified here: the provider does that before it reads what this identity finds.
pub(crate) fn credential(headers: &HeaderMap, uri: &Uri) -> Vec<u8> {
    let mut found = Vec::new();
    for name in ["authorization", "x-api-key", "x-goog-api-key", "api-key"] {
        for value in headers.get_all(name) {
            found.extend_from_slice(name.as_bytes());
            found.push(b'=');
            let subject = value.to_str().ok().and_then(subject_of_token);
            found.extend_from_slice(subject.as_deref().map_or(value.as_bytes(), str::as_bytes));
            found.push(b'\n');
        }
    }
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| is_secret_parameter(pair)) {
        found.extend_from_slice(pair.as_bytes());
        found.push(b'\n');
    }
    found
}

/// Returns issuer, subject and client of a JSON Web Token in an `Authorization` header; `None` for another credential.
fn subject_of_token(value: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Claims {
        iss: String,
        sub: String,
        #[serde(default)]
        client_id: String,
    }
    let (scheme, token) = value.split_once(' ')?;
    let mut parts = token.trim().split('.');
    let (_header, claims, _signature, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let Claims { iss, sub, client_id } = serde_json::from_slice(&claims).ok()?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && !iss.is_empty() && !sub.is_empty();
    is_bearer.then(|| format!("jwt {}", serde_json::json!([iss, sub, client_id])))
}

/// Parameters of the query that are no secrets. All others may be.
const PUBLIC_PARAMETERS: [&str; 11] =
    ["$alt", "after", "alt", "api-version", "before", "beta", "include", "limit", "order", "pageSize", "pageToken"];

fn is_secret_parameter(pair: &str) -> bool {
    !PUBLIC_PARAMETERS.contains(&pair.split('=').next().unwrap_or_default())
}

/// Returns the path and query for logs: without tokens and keys.
pub(crate) fn redacted(rest: &str, query: Option<&str>) -> String {
    let Some(query) = query else { return rest.to_owned() };
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if is_secret_parameter(pair) => format!("{name}=[hidden]"),
        None if !pair.is_empty() => "[hidden]".to_owned(),
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
    fn a_refreshed_token_is_the_same_caller() {
        let header = |claims: &str| {
            let claims = URL_SAFE_NO_PAD.encode(claims);
            let mut headers = HeaderMap::new();
            let value = format!("Bearer eyJhbGciOiJSUzI1NiJ9.{claims}.c2ln");
            headers.insert("authorization", value.parse().expect("a value"));
            headers
        };
        let of = |claims: &str| credential(&header(claims), &Uri::default());
        let first = of(r#"{"iss":"https://auth","sub":"ann","exp":1}"#);
        assert_eq!(first, of(r#"{"iss":"https://auth","sub":"ann","exp":2,"jti":"x"}"#));
        for other in [
            r#"{"iss":"https://auth","sub":"bob","exp":1}"#,
            r#"{"iss":"https://other","sub":"ann","exp":1}"#,
            r#"{"iss":"https://auth","sub":"ann","client_id":"cli"}"#,
        ] {
            assert_ne!(first, of(other), "{other}");
        }
        // Without both, the whole token counts.
        assert_ne!(of(r#"{"sub":"ann","exp":1}"#), of(r#"{"sub":"ann","exp":2}"#));
        assert_ne!(of(r#"{"iss":"","sub":"ann","exp":1}"#), of(r#"{"iss":"","sub":"ann","exp":2}"#));
    }

    #[test]
    fn keys_are_hidden() {
        let check = |query: Option<&str>, expected: &str| assert_eq!(redacted("/v1/x", query), expected);
        check(None, "/v1/x");
        check(Some("alt=sse&key=AIza123"), "/v1/x?alt=sse&key=[hidden]");
        check(Some("KEY=a&%6bey=b&limit=2"), "/v1/x?KEY=[hidden]&%6bey=[hidden]&limit=2");
        check(Some("secret"), "/v1/x?[hidden]");
        let uri: Uri = "/v1/x?alt=sse&key=AIza123".parse().expect("a URI");
        assert_eq!(credential(&HeaderMap::new(), &uri), b"key=AIza123\n");
    }
}
