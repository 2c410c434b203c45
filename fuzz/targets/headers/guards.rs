//! Who may come in, once more and in the plainest way.

use axum::http::{Request, header};
use pegboard_http::{Guard, Principal, Rejection};

const TOKENS: [&str; 2] = ["first-token", "second token"];

pub(crate) fn check(request: &Request<Vec<u8>>) {
    let tokens = TOKENS.iter().enumerate().map(|(at, token)| (Principal(at), (*token).to_owned())).collect();
    let open = Guard::default();
    let closed = Guard { tokens, open_paths: vec!["/health".to_owned()], ..Guard::default() };
    let named =
        Guard { allowed_hosts: vec!["tools.example".to_owned(), "other.example:8080".to_owned()], ..Guard::default() };
    let is_addressed = |allows: &dyn Fn(&str) -> bool| {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let one = hosts.next().filter(|_| hosts.next().is_none()).and_then(|host| host.to_str().ok());
        one.is_some_and(allows) && has_own_origins(request)
    };
    let at_home = is_addressed(&is_home);
    assert_eq!(open.check(request).is_ok(), at_home, "a guard without tokens looks at addresses");
    let entered = closed.check(request);
    let is_open = request.uri().path() == "/health";
    assert_eq!(entered.is_ok(), at_home && (is_open || token(request).is_some()), "a guard looks at tokens");
    if let Ok(Some(principal)) = entered {
        assert_eq!(Some(principal.0), token(request), "a token belongs to one caller");
    }
    if at_home && !is_open {
        let is_about_token = !matches!(entered, Err(Rejection::Host | Rejection::Origin | Rejection::NotOneHost));
        assert!(is_about_token, "nobody is told a wrong reason");
    }
    let is_named = |host: &str| {
        let host = host.to_ascii_lowercase();
        without_port(&host) == "tools.example" || host == "other.example:8080"
    };
    assert_eq!(named.check(request).is_ok(), is_addressed(&is_named), "a guard with names looks at them");
}

fn is_home(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].contains(&without_port(&host.to_ascii_lowercase()))
}

fn without_port(host: &str) -> &str {
    let digits = host.trim_end_matches(|c: char| c.is_ascii_digit());
    digits.strip_suffix(':').unwrap_or(host)
}

fn has_own_origins(request: &Request<Vec<u8>>) -> bool {
    request.headers().get_all(header::ORIGIN).iter().all(|origin| {
        let origin = origin.to_str().unwrap_or_default();
        ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme).is_some_and(is_home))
    })
}

/// Which token the request carries.
fn token(request: &Request<Vec<u8>>) -> Option<usize> {
    let header = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let scheme = header.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("bearer "))?;
    let given = header[scheme.len()..].trim();
    TOKENS.iter().position(|token| *token == given)
}
