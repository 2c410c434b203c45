//! Authentication, and the checks of `Host` and `Origin`.

use std::fmt;

use axum::{
    body::Body,
    http::{HeaderMap, Request, Response, StatusCode, Version, header},
};

use crate::TrustedProxies;

/// The identity of the token that a request carried, numbered by the code that configured the
/// [`Guard`]; an extension of every authenticated request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Principal(pub usize);

/// Admits or rejects requests by their headers.
#[derive(Clone, Default)]
pub struct Guard {
    /// Allowed values of `Host`. If empty: the loopback names, or any name on a public address.
    pub allowed_hosts: Vec<String>,
    /// Allowed web origins, in addition to those of the loopback.
    pub allowed_origins: Vec<String>,
    /// Accepted tokens and their principals. If empty, no token is required.
    pub tokens: Vec<(Principal, String)>,
    /// Paths that need no token. A token that is sent anyway must be valid. A path that ends in `/`
    /// includes everything below it, except `/` itself.
    pub open_paths: Vec<String>,
    /// Paths whose handlers authenticate requests themselves, because their `Authorization` header belongs to another
    /// server. A path that ends in `/` includes everything below it.
    pub self_guarded_paths: Vec<String>,
    /// Proxies whose `X-Forwarded-For` header is trusted.
    pub trusted_proxies: TrustedProxies,
    /// Whether the listener is reachable from other machines.
    pub is_public: bool,
}

impl fmt::Debug for Guard {
    /// Prints the number of tokens instead of the tokens, because a guard may end up in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allowed_hosts, allowed_origins, tokens, open_paths, self_guarded_paths, trusted_proxies, is_public } =
            self;
        f.debug_struct("Guard")
            .field("allowed_hosts", allowed_hosts)
            .field("allowed_origins", allowed_origins)
            .field("tokens", &tokens.len())
            .field("open_paths", open_paths)
            .field("self_guarded_paths", self_guarded_paths)
            .field("trusted_proxies", trusted_proxies)
            .field("is_public", is_public)
            .finish()
    }
}

/// The value of `Retry-After`, in seconds, when a limit was reached.
pub(crate) const RETRY_AFTER: &str = "1";

/// The reason why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The request has no `Host` header, or several.
    NotOneHost,
    /// The `Host` header names another host.
    Host,
    /// The request comes from a web page whose origin is not allowed.
    Origin,
    /// The request has several `Authorization` headers.
    SeveralTokens,
    /// The request carries no token.
    NoToken,
    /// The token is not configured.
    WrongToken,
    /// The token has reached its limit of requests in progress.
    TokenShare,
    /// The address has reached its limit of connections or of requests in progress.
    AddressShare,
    /// All connections are in use.
    Connections,
}

impl Rejection {
    /// Returns the message for the client.
    pub fn message(self) -> &'static str {
        match self {
            Self::NotOneHost => "exactly one `Host` header is required",
            Self::Host => "this `Host` is not allowed",
            Self::Origin => "this `Origin` is not allowed",
            Self::NoToken => "a bearer token is required",
            Self::WrongToken => "this bearer token is not valid",
            Self::SeveralTokens => "exactly one `Authorization` header is allowed",
            Self::TokenShare => "too many requests in progress with this token (`connections.perToken`)",
            Self::AddressShare => "too many connections from this address (`connections.perAddress`)",
            Self::Connections => "too many connections (`connections.total`)",
        }
    }

    /// Returns the rejection as a JSON-RPC error, the body for the client.
    pub fn json_rpc(self) -> String {
        let code = if self.is_about_token() { -32001 } else { -32000 };
        format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"message":"{}"}}}}"#, self.message())
    }

    fn is_about_token(self) -> bool {
        matches!(self, Self::NoToken | Self::WrongToken)
    }

    /// Returns whether a retry can succeed, because a limit was reached.
    pub(crate) fn is_temporary(self) -> bool {
        matches!(self, Self::TokenShare | Self::AddressShare | Self::Connections)
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::NotOneHost | Self::SeveralTokens => StatusCode::BAD_REQUEST,
            Self::Host | Self::Origin => StatusCode::FORBIDDEN,
            Self::NoToken | Self::WrongToken => StatusCode::UNAUTHORIZED,
            Self::TokenShare | Self::AddressShare | Self::Connections => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the HTTP response, with a JSON body in the format of the endpoint.
    pub(crate) fn response(self, body: String) -> Response<Body> {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        if self.is_temporary() {
            headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static(RETRY_AFTER));
        }
        // The connection makes room for others, and every guess at a token costs a new one.
        if self.is_temporary() || self == Self::WrongToken {
            headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        }
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        if self.is_about_token() {
            headers.insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl Guard {
    /// Checks a request and returns the principal of its token.
    ///
    /// # Errors
    /// When the request must be rejected.
    pub fn check<B>(&self, request: &Request<B>) -> Result<Option<Principal>, Rejection> {
        self.check_address(request)?;
        if self.is_self_guarded(request.uri().path()) {
            return Ok(None);
        }
        let mut given = request.headers().get_all(header::AUTHORIZATION).iter();
        let (given, other) = (given.next().map(text), given.next());
        if other.is_some() {
            return Err(Rejection::SeveralTokens);
        }
        let is_open = self.is_open_path(request.uri().path());
        if self.tokens.is_empty() || (is_open && given.is_none()) {
            return Ok(None);
        }
        let given = given.and_then(bearer).ok_or(Rejection::NoToken)?;
        let matching = self.tokens.iter().find(|(_, token)| is_same(token.as_bytes(), given.as_bytes()));
        matching.map(|(principal, _)| Some(*principal)).ok_or(Rejection::WrongToken)
    }

    /// Returns whether a path needs no token.
    pub(crate) fn is_open_path(&self, path: &str) -> bool {
        self.open_paths
            .iter()
            .any(|open| open == path || open.len() > 1 && open.ends_with('/') && path.starts_with(open))
    }

    /// Returns whether the handler of a path authenticates requests itself.
    fn is_self_guarded(&self, path: &str) -> bool {
        let is_below =
            |guarded: &String| if guarded.ends_with('/') { path.starts_with(guarded) } else { path == guarded };
        self.self_guarded_paths.iter().any(is_below)
    }

    /// Checks `Host` and `Origin`. This is all that can be checked for a CORS preflight, which
    /// carries no token.
    pub(crate) fn check_address<B>(&self, request: &Request<B>) -> Result<(), Rejection> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        match (hosts.next().map(text), hosts.next()) {
            (Some(host), None) if self.is_host_allowed(host) => {}
            (Some(_), None) => return Err(Rejection::Host),
            (None, _) if request.version() < Version::HTTP_11 && self.is_any_host_allowed() => {}
            _ => return Err(Rejection::NotOneHost),
        }
        let mut origins = request.headers().get_all(header::ORIGIN).iter();
        if origins.all(|origin| self.is_origin_allowed(text(origin))) { Ok(()) } else { Err(Rejection::Origin) }
    }

    /// Returns the web origin of a request if it is allowed.
    pub(crate) fn origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a header::HeaderValue> {
        headers.get(header::ORIGIN).filter(|origin| origin.to_str().is_ok_and(|text| self.is_origin_allowed(text)))
    }

    /// Returns whether an HTTP/1.0 request without a `Host` header is accepted. The check of `Host`
    /// protects against browsers, which do not use HTTP/1.0. Where host names are configured, the
    /// header is required.
    fn is_any_host_allowed(&self) -> bool {
        self.allowed_hosts.is_empty() || self.allowed_hosts.iter().any(|allowed| allowed == "*")
    }

    fn is_host_allowed(&self, host: &str) -> bool {
        if self.allowed_hosts.is_empty() {
            return self.is_public || is_loopback(name_of(host));
        }
        let is_it = |allowed: &String| allowed == "*" || allowed.eq_ignore_ascii_case(host) || is_name(allowed, host);
        self.allowed_hosts.iter().any(is_it)
    }

    fn is_origin_allowed(&self, origin: &str) -> bool {
        if self.allowed_origins.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|host| is_loopback(name_of(host)))
    }
}

/// Returns a header as text; a header that is not text becomes a value that no rule allows.
fn text(value: &header::HeaderValue) -> &str {
    value.to_str().unwrap_or("\u{0}")
}

/// Returns whether `allowed`, given without a port, names `host`.
fn is_name(allowed: &str, host: &str) -> bool {
    name_of(allowed) == allowed && allowed.eq_ignore_ascii_case(name_of(host))
}

/// Returns a host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || matches!(name, "127.0.0.1" | "[::1]")
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares two tokens in constant time.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let different = a.iter().zip(b).fold(0, |different, (a, b)| different | (a ^ b));
    a.len() == b.len() && different == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guard: &Guard, headers: &[(&'static str, &str)], expected: Result<Option<usize>, Rejection>) {
        check_version(guard, Version::HTTP_11, headers, expected);
    }

    #[track_caller]
    fn check_version(
        guard: &Guard,
        version: Version,
        headers: &[(&'static str, &str)],
        expected: Result<Option<usize>, Rejection>,
    ) {
        let request = headers
            .iter()
            .fold(Request::post("/mcp").version(version), |request, (name, value)| request.header(*name, *value));
        let request = request.body(()).expect("a request");
        let found = guard.check(&request).map(|principal| principal.map(|Principal(at)| at));
        assert_eq!(found, expected, "{version:?} {headers:?}");
    }

    #[test]
    fn hosts_and_origins() {
        let guard = Guard::default();
        check(&guard, &[("host", "localhost:8080")], Ok(None));
        check(&guard, &[("host", "127.0.0.1")], Ok(None));
        check(&guard, &[("host", "[::1]:99")], Ok(None));
        check(&guard, &[("host", "evil.example.com")], Err(Rejection::Host));
        check(&guard, &[("host", "localhost.evil.com:80")], Err(Rejection::Host));
        check(&guard, &[("host", "localhost"), ("origin", "http://localhost:5173")], Ok(None));
        check(&guard, &[("host", "localhost"), ("origin", "http://evil.example.com")], Err(Rejection::Origin));
        check(&guard, &[("host", "localhost"), ("origin", "null")], Err(Rejection::Origin));
        let named = Guard { allowed_hosts: vec!["tools.example.com".into()], ..Guard::default() };
        check(&named, &[("host", "tools.example.com:443")], Ok(None));
        check(&named, &[("host", "localhost")], Err(Rejection::Host));
        check(&guard, &[("host", "")], Err(Rejection::Host));
        let two = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example.com")];
        check(&guard, &two, Err(Rejection::Origin));
    }

    #[test]
    fn paths_that_authenticate_themselves() {
        let guard = Guard {
            tokens: vec![(Principal(0), "secret".to_owned())],
            self_guarded_paths: vec!["/mcp".to_owned(), "/x/".to_owned()],
            ..Guard::default()
        };
        let key = [("host", "localhost"), ("authorization", "Bearer key of another server")];
        check(&guard, &key, Ok(None));
        check(&guard, &[("host", "evil.example.com")], Err(Rejection::Host));
        let is_guarded = |path: &str| guard.is_self_guarded(path);
        assert!(is_guarded("/x/y") && !is_guarded("/x") && !is_guarded("/mcp/y") && !is_guarded("/xy"));
    }

    #[test]
    fn one_host_and_no_more() {
        let guard = Guard::default();
        let named = |name: &str| Guard { allowed_hosts: vec![name.to_owned()], ..Guard::default() };
        let public = Guard { is_public: true, ..Guard::default() };
        let twice = [("host", "localhost"), ("host", "localhost")];
        for guard in [&guard, &public, &named("localhost"), &named("*")] {
            check(guard, &[], Err(Rejection::NotOneHost));
            for version in [Version::HTTP_10, Version::HTTP_11] {
                check_version(guard, version, &twice, Err(Rejection::NotOneHost));
                let other = [("host", "localhost"), ("host", "evil.example.com")];
                check_version(guard, version, &other, Err(Rejection::NotOneHost));
            }
        }
        for guard in [&guard, &public, &named("*")] {
            check_version(guard, Version::HTTP_10, &[], Ok(None));
        }
        check_version(&named("localhost"), Version::HTTP_10, &[], Err(Rejection::NotOneHost));
        check_version(&guard, Version::HTTP_10, &[("host", "evil.example.com")], Err(Rejection::Host));
    }

    #[test]
    fn tokens_are_not_shown() {
        let guard = Guard {
            tokens: vec![(Principal(0), "secret".into()), (Principal(1), "other-secret".into())],
            ..Guard::default()
        };
        let shown = format!("{guard:?} {guard:#?}");
        assert!(!shown.contains("secret") && shown.contains("tokens: 2"), "{shown}");
    }

    #[test]
    fn refusals() {
        let body = Rejection::Host.json_rpc();
        assert_eq!(body, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"this `Host` is not allowed"}}"#);
        let body = Rejection::WrongToken.json_rpc();
        let text = r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"this bearer token is not valid"}}"#;
        assert_eq!(body, text);
        let response = Rejection::NoToken.response(body);
        assert_eq!((response.status(), response.headers().len()), (StatusCode::UNAUTHORIZED, 2));
        assert_eq!(Rejection::NotOneHost.response(String::new()).status(), StatusCode::BAD_REQUEST);
        let response = Rejection::Origin.response(String::new());
        assert_eq!((response.status(), response.headers().len()), (StatusCode::FORBIDDEN, 1));
    }

    #[test]
    fn tokens() {
        let guard =
            Guard { tokens: vec![(Principal(5), "alpha".into()), (Principal(7), "beta".into())], ..Guard::default() };
        let host = ("host", "localhost");
        check(&guard, &[host], Err(Rejection::NoToken));
        check(&guard, &[host, ("authorization", "Bearer alph")], Err(Rejection::WrongToken));
        check(&guard, &[host, ("authorization", "Basic alpha")], Err(Rejection::NoToken));
        check(&guard, &[host, ("authorization", "bearer beta")], Ok(Some(7)));
        let twice = [host, ("authorization", "Bearer alpha"), ("authorization", "Bearer alpha")];
        check(&guard, &twice, Err(Rejection::SeveralTokens));
        check(&Guard::default(), &twice, Err(Rejection::SeveralTokens));
    }

    #[test]
    fn open_paths_need_no_token_and_accept_no_wrong_one() {
        let tokens = vec![(Principal(5), "alpha".into())];
        let guard = Guard { tokens, open_paths: vec!["/mcp".into()], ..Guard::default() };
        let host = ("host", "localhost");
        check(&guard, &[host], Ok(None));
        check(&guard, &[host, ("authorization", "Bearer alpha")], Ok(Some(5)));
        check(&guard, &[host, ("authorization", "Bearer beta")], Err(Rejection::WrongToken));
        check(&guard, &[host, ("authorization", "Basic alpha")], Err(Rejection::NoToken));
    }

    #[test]
    fn limits_are_temporary() {
        for rejection in [Rejection::TokenShare, Rejection::AddressShare, Rejection::Connections] {
            let response = rejection.response(String::new());
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(
                (&response.headers()["retry-after"], &response.headers()["connection"]),
                (&RETRY_AFTER.parse().expect("a value"), &"close".parse().expect("a value"))
            );
        }
    }

    #[test]
    fn a_wrong_token_of_the_right_length() {
        let guard = Guard { tokens: vec![(Principal(0), "alpha".into())], ..Guard::default() };
        // Differences that cancel each other out, in one letter, at the end, and none but more behind.
        for wrong in ["lapha", "xlpha", "alphx", "alphaa", ""] {
            let given = format!("Bearer {wrong}");
            check(&guard, &[("host", "localhost"), ("authorization", &given)], Err(Rejection::WrongToken));
        }
        check(&guard, &[("host", "localhost"), ("authorization", "Bearer   alpha ")], Ok(Some(0)));
    }

    #[test]
    fn open_paths_need_no_token() {
        let guard = Guard {
            tokens: vec![(Principal(0), "alpha".into())],
            open_paths: ["/health", "/", "/console/"].map(str::to_owned).to_vec(),
            ..Guard::default()
        };
        let ask = |path: &str, host: &str| guard.check(&Request::get(path).header("host", host).body(()).expect("one"));
        assert_eq!(ask("/health", "localhost"), Ok(None));
        assert_eq!(ask("/health", "evil.example.com"), Err(Rejection::Host));
        assert_eq!(ask("/mcp", "localhost"), Err(Rejection::NoToken));
        assert_eq!(ask("/health/more", "localhost"), Err(Rejection::NoToken));
        // A folder is everything below it, but `/` is only itself.
        assert_eq!(ask("/console/page.js", "localhost"), Ok(None));
        assert_eq!(ask("/", "localhost"), Ok(None));
        assert_eq!(ask("/consoles", "localhost"), Err(Rejection::NoToken));
        assert_eq!(ask("/control/status", "localhost"), Err(Rejection::NoToken));
    }

    #[test]
    fn configured_hosts() {
        let named = |name: &str| Guard { allowed_hosts: vec![name.to_owned()], ..Guard::default() };
        check(&named("*"), &[("host", "anything:1")], Ok(None));
        check(&named("Tools.example.com:8080"), &[("host", "tools.example.com:8080")], Ok(None));
        check(&named("tools.example.com:8080"), &[("host", "tools.example.com")], Err(Rejection::Host));
        check(&named("tools.example.com:8080"), &[("host", "tools.example.com:80")], Err(Rejection::Host));
        check(&named("tools.example.com"), &[("host", "TOOLS.example.com:80")], Ok(None));
        check(&named("tools.example.com"), &[("host", "other.example.com:80")], Err(Rejection::Host));
        check(&Guard { is_public: true, ..Guard::default() }, &[("host", "anything")], Ok(None));
        check(&Guard { is_public: true, ..named("a") }, &[("host", "anything")], Err(Rejection::Host));
    }

    #[test]
    fn names_and_ports() {
        for (host, name) in [
            ("localhost", "localhost"),
            ("localhost:80", "localhost"),
            ("localhost:", "localhost"),
            ("localhost:8o", "localhost:8o"),
            ("[::1]", "[::1]"),
            ("[::1]:80", "[::1]"),
            ("::1", "::1"),
        ] {
            assert_eq!(name_of(host), name, "{host}");
        }
    }

    #[test]
    fn configured_origins() {
        let host = ("host", "localhost");
        let named = |name: &str| Guard { allowed_origins: vec![name.to_owned()], ..Guard::default() };
        check(&named("https://app.example.com"), &[host, ("origin", "HTTPS://app.example.com")], Ok(None));
        check(&named("https://app.example.com"), &[host, ("origin", "https://localhost:1")], Ok(None));
        check(&named("https://app.example.com"), &[host, ("origin", "https://b.example.com")], Err(Rejection::Origin));
        check(&named("*"), &[host, ("origin", "https://b.example.com")], Ok(None));
        check(&Guard::default(), &[host, ("origin", "ftp://localhost")], Err(Rejection::Origin));
    }

    #[test]
    fn origins_that_are_answered() {
        let guard = Guard { allowed_origins: vec!["https://app.example.com".into()], ..Guard::default() };
        let check = |origin: Option<&[u8]>, expected: bool| {
            let mut headers = HeaderMap::new();
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, header::HeaderValue::from_bytes(origin).expect("a header"));
            }
            assert_eq!(guard.origin(&headers).map(|origin| Some(origin.as_bytes())), expected.then_some(origin));
        };
        check(None, false);
        check(Some(b"https://app.example.com"), true);
        check(Some(b"https://other.example.com"), false);
        check(Some(b"https://app.example.com\xff"), false);
    }

    #[test]
    fn headers_that_are_no_text() {
        let value = header::HeaderValue::from_bytes(b"local\xffhost").expect("a header");
        assert_eq!(text(&value), "\u{0}");
        let request = Request::get("/mcp").header("host", value).body(()).expect("a request");
        assert_eq!(Guard::default().check(&request), Err(Rejection::Host));
    }
}
