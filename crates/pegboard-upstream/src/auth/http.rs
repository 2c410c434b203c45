//! Requests to those who let people in: bounded, never redirected, and to safe addresses only.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::{Request, Response, Url, redirect::Policy};

use super::is_loopback;
use crate::locks::lock;

/// No answer of theirs is longer.
const MAX_BODY: usize = 256 << 10;

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why a request had no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("`{0}` is not a safe address: it must begin with `https://`")]
    Unsafe(String),
    #[error("`{0}` is on this machine, and the server is not")]
    Inside(String),
    #[error("cannot reach `{host}`")]
    Unreachable { host: String, source: reqwest::Error },
    #[error("the answer of `{host}` is larger than {MAX_BODY} bytes")]
    TooLarge { host: String },
    #[error("cannot set up HTTP")]
    SetUp(#[source] reqwest::Error),
}

/// Sends requests on behalf of one server's login.
#[derive(Debug)]
pub(super) struct OAuthHttp {
    client: reqwest::Client,
    /// Whether the server itself is on this machine.
    is_inside: bool,
    /// Where the last document came from.
    last: Mutex<Option<Url>>,
}

impl OAuthHttp {
    /// For the server at this address.
    pub(super) fn new(server: &Url) -> Result<Arc<Self>, HttpError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(15))
            .timeout(TIMEOUT)
            // Whoever is sent elsewhere with a code or a token gives it away.
            .redirect(Policy::none())
            .user_agent(concat!("pegboard/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(HttpError::SetUp)?;
        Ok(Arc::new(Self { client, is_inside: is_loopback(server), last: Mutex::default() }))
    }

    pub(super) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Whether a browser or a request may be sent to an address that a server has named.
    pub(super) fn check(&self, url: &Url) -> Result<(), HttpError> {
        // The rest of it may hold a secret.
        let shown = || url.origin().ascii_serialization();
        match (url.scheme(), is_loopback(url)) {
            ("http" | "https", true) if self.is_inside => Ok(()),
            ("http" | "https", true) => Err(HttpError::Inside(shown())),
            ("https", false) if url.has_host() => Ok(()),
            _ => Err(HttpError::Unsafe(shown())),
        }
    }

    /// Where the last document came from.
    pub(super) fn last(&self) -> Option<Url> {
        lock(&self.last).clone()
    }

    /// The answer to a request, and its body.
    pub(super) async fn send(&self, request: Request) -> Result<(Response, Vec<u8>), HttpError> {
        let url = request.url().clone();
        self.check(&url)?;
        let host = || url.host_str().unwrap_or_default().to_owned();
        let unreachable = |error: reqwest::Error| HttpError::Unreachable { host: host(), source: error.without_url() };
        let mut response = self.client.execute(request).await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > MAX_BODY {
                return Err(HttpError::TooLarge { host: host() });
            }
            body.extend_from_slice(&chunk);
        }
        *lock(&self.last) = Some(url);
        Ok((response, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_addresses() {
        let check = |server: &str, url: &str, expected: &str| {
            let http = OAuthHttp::new(&Url::parse(server).expect("an address")).expect("a client");
            let found = http.check(&Url::parse(url).expect("an address"));
            assert_eq!(found.map_or_else(|error| error.to_string(), |()| "fine".to_owned()), expected, "{url}");
        };
        let (far, near) = ("https://mcp.example/mcp", "http://127.0.0.1:8080/mcp");
        check(far, "https://issuer.example/token", "fine");
        check(near, "https://issuer.example/token", "fine");
        check(near, "http://localhost:9000/token", "fine");
        check(near, "http://[::1]:9000/token", "fine");
        let plain = "`http://issuer.example` is not a safe address: it must begin with `https://`";
        check(far, "http://issuer.example/token?secret", plain);
        check(near, "http://issuer.example/token?secret", plain);
        check(far, "http://127.0.0.1/x", "`http://127.0.0.1` is on this machine, and the server is not");
        check(far, "https://LOCALHOST./x", "`https://localhost.` is on this machine, and the server is not");
        check(far, "https://[::1]/x", "`https://[::1]` is on this machine, and the server is not");
        check(far, "file:///etc/passwd", "`null` is not a safe address: it must begin with `https://`");
        check(far, "javascript:alert(1)", "`null` is not a safe address: it must begin with `https://`");
    }
}
