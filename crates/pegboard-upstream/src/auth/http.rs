//! Requests to those who let people in: bounded, never redirected, and to safe addresses only.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::locks::lock;
use reqwest::{Request, Response, Url, redirect::Policy};

use super::guard::{Guard, GuardedNames, RefusedPlace};
use crate::config::OAuthConfig;

/// No answer of theirs is longer.
const MAX_BODY: usize = 256 << 10;

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why a request had no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error(transparent)]
    Refused(#[from] RefusedPlace),
    #[error("cannot reach `{host}`")]
    Unreachable { host: String, source: reqwest::Error },
    #[error("the response of `{host}` is over the limit of {MAX_BODY} bytes")]
    TooLarge { host: String },
    #[error("cannot create an HTTP client")]
    SetUp(#[source] reqwest::Error),
}

/// Sends requests on behalf of one server's login.
#[derive(Debug)]
pub(super) struct OAuthHttp {
    client: reqwest::Client,
    guard: Arc<Guard>,
    /// The first place that was refused. The MCP crate goes on with other places then.
    refused: Mutex<Option<RefusedPlace>>,
    /// Where the last document came from.
    last: Mutex<Option<Url>>,
}

impl OAuthHttp {
    /// For the server at this address, with what its configuration allows.
    pub(super) fn new(server: &Url, config: &OAuthConfig) -> Result<Arc<Self>, HttpError> {
        let guard = Guard::new(server, config.allow_private_issuers.unwrap_or(false));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(15))
            .timeout(TIMEOUT)
            // Whoever is sent elsewhere with a code or a token gives it away.
            .redirect(Policy::none())
            .dns_resolver(Arc::new(GuardedNames(Arc::clone(&guard))))
            .user_agent(concat!("pegboard/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(HttpError::SetUp)?;
        Ok(Arc::new(Self { client, guard, refused: Mutex::default(), last: Mutex::default() }))
    }

    pub(super) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Decides which addresses may be asked.
    pub(super) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Refuses an address that a server has named and that no browser or request may be sent to.
    pub(super) async fn check(&self, url: &Url) -> Result<(), RefusedPlace> {
        let checked = self.guard.check_place(url).await;
        if let Err(refused) = &checked {
            lock(&self.refused).get_or_insert_with(|| refused.clone());
        }
        checked
    }

    /// Takes note of issuers that a document names and that may not be asked. The MCP crate passes
    /// over those whose address is in numbers, and asks us about the others alone.
    pub(super) fn look_for_refused(&self, document: &[u8]) {
        let document: serde_json::Value = serde_json::from_slice(document).unwrap_or_default();
        let issuers = document.get("authorization_servers").and_then(serde_json::Value::as_array);
        let issuers = issuers.into_iter().flatten().filter_map(|issuer| Url::parse(issuer.as_str()?).ok());
        for refused in issuers.filter_map(|issuer| self.guard.check(&issuer).err()) {
            lock(&self.refused).get_or_insert(refused);
        }
    }

    /// The first place that was refused since this was last asked.
    pub(super) fn take_refused(&self) -> Option<RefusedPlace> {
        lock(&self.refused).take()
    }

    /// Where the last document came from.
    pub(super) fn last(&self) -> Option<Url> {
        lock(&self.last).clone()
    }

    /// The answer to a request, and its body.
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
