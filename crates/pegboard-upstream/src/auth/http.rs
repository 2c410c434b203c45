//! HTTP requests to authorization servers: bounded, never redirected, and to safe addresses only.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::locks::lock;
use reqwest::{Request, Response, Url, redirect::Policy};

use super::guard::{GuardedResolver, RefusedUrl, UrlGuard};
use crate::config::OAuthConfig;

/// Maximum number of bytes of a response.
const MAX_BODY: usize = 256 << 10;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The error of a request without a response.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error(transparent)]
    Refused(#[from] RefusedUrl),
    #[error("cannot reach `{host}`")]
    Unreachable { host: String, source: reqwest::Error },
    #[error("the response of `{host}` is over the limit of {MAX_BODY} bytes")]
    TooLarge { host: String },
    #[error("cannot create an HTTP client")]
    SetUp(#[source] reqwest::Error),
}

/// The HTTP client for the login of one server.
#[derive(Debug)]
pub(super) struct OAuthHttp {
    client: reqwest::Client,
    guard: Arc<UrlGuard>,
    /// The first URL that was rejected. The MCP crate then continues with other URLs.
    refused: Mutex<Option<RefusedUrl>>,
    /// The URL of the last document.
    last: Mutex<Option<Url>>,
}

impl OAuthHttp {
    /// Creates a client for the server at this URL, with what its configuration allows.
    pub(super) fn new(server: &Url, config: &OAuthConfig) -> Result<Arc<Self>, HttpError> {
        let guard = UrlGuard::new(server, config.allow_private_issuers.unwrap_or(false));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(15))
            .timeout(TIMEOUT)
            // A redirect would send a code or a token to another host.
            .redirect(Policy::none())
            .dns_resolver(Arc::new(GuardedResolver(Arc::clone(&guard))))
            .user_agent(concat!("pegboard/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(HttpError::SetUp)?;
        Ok(Arc::new(Self { client, guard, refused: Mutex::default(), last: Mutex::default() }))
    }

    pub(super) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Returns the guard that decides which URLs may be requested.
    pub(super) fn guard(&self) -> &UrlGuard {
        &self.guard
    }

    /// Checks a URL that a server has named before a browser or a request is sent to it.
    pub(super) async fn check(&self, url: &Url) -> Result<(), RefusedUrl> {
        let checked = self.guard.check_resolved(url).await;
        if let Err(refused) = &checked {
            lock(&self.refused).get_or_insert_with(|| refused.clone());
        }
        checked
    }

    /// Records issuers of a document that must not be requested. The MCP crate skips those with an
    /// IP address, and requests only the others through this client.
    pub(super) fn record_refused_issuers(&self, document: &[u8]) {
        let document: serde_json::Value = serde_json::from_slice(document).unwrap_or_default();
        let issuers = document.get("authorization_servers").and_then(serde_json::Value::as_array);
        let issuers = issuers.into_iter().flatten().filter_map(|issuer| Url::parse(issuer.as_str()?).ok());
        for refused in issuers.filter_map(|issuer| self.guard.check(&issuer).err()) {
            lock(&self.refused).get_or_insert(refused);
        }
    }

    /// Returns the first URL that was rejected since the last call.
    pub(super) fn take_refused_url(&self) -> Option<RefusedUrl> {
        lock(&self.refused).take()
    }

    /// Returns the URL of the last document.
    pub(super) fn last_url(&self) -> Option<Url> {
        lock(&self.last).clone()
    }

    /// Sends a request and returns the response and its body.
    pub(super) async fn send(&self, request: Request) -> Result<(Response, Vec<u8>), HttpError> {
        let url = request.url().clone();
        self.check(&url).await?;
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
