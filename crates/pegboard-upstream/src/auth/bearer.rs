//! The access token for requests to one server.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use pegboard_core::{Secret, locks::lock};
use reqwest::{
    RequestBuilder, Response, StatusCode,
    header::{AUTHORIZATION, HeaderValue},
};

use super::{
    canonical,
    http::OAuthHttp,
    oauth::{self, RefreshError},
    store::{Grant, Logins},
};
use crate::{
    config::{OAuthConfig, ServerConfig, TransportConfig},
    connection::CallError,
    redact::SharedSecrets,
};

/// How often a server that waits for a login checks for a new one.
const LOGIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Time after a failed refresh before the next attempt.
const REFRESH_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The error of a server that requires a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedsLogin {
    server: String,
    trouble: Option<String>,
}

impl fmt::Display for NeedsLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server requires a login")?;
        if let Some(trouble) = &self.trouble {
            write!(f, ", and the current one could not be refreshed: {trouble}")?;
        }
        write!(f, " (hint: run `pegboard login {}`)", self.server)
    }
}

impl std::error::Error for NeedsLogin {}

/// The login of one server, if there is one: cached in memory, read again when a connection is
/// made or a token is rejected, and refreshed by one task at a time.
#[derive(Debug)]
pub(crate) struct Bearer {
    server: String,
    url: String,
    logins: Logins,
    oauth: OAuthConfig,
    http: Arc<OAuthHttp>,
    known: tokio::sync::Mutex<CachedLogin>,
    /// Whether a token was sent since the server was connected.
    has_sent_token: AtomicBool,
    /// Whether the server rejected every available token.
    is_refused: AtomicBool,
    /// The reason why the login was not refreshed.
    trouble: Mutex<Option<String>>,
    /// The secrets that are hidden in all output, which include the tokens.
    secrets: SharedSecrets,
}

/// The cached state of a login.
#[derive(Debug, Default)]
struct CachedLogin {
    grant: Option<Grant>,
    was_read: bool,
    /// Time of the last failed refresh: not every call contacts an authorization server that fails.
    failed: Option<Instant>,
}

impl CachedLogin {
    /// Returns the token, unless it expires soon or was rejected.
    fn usable_token(&self, refused: Option<&HeaderValue>) -> Option<HeaderValue> {
        self.grant
            .as_ref()
            .filter(|grant| !grant.is_stale())
            .and_then(authorization_header)
            .filter(|token| Some(token) != refused)
    }
}

impl Bearer {
    /// Creates the login of an HTTP server. An `Authorization` header in the configuration takes
    /// precedence; then there is none.
    pub(crate) fn of(server: &ServerConfig, logins: &Logins, secrets: SharedSecrets) -> Option<Arc<Self>> {
        let TransportConfig::Http { url, headers, .. } = &server.transport else { return None };
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            return None;
        }
        let url = canonical(url)?;
        let http = OAuthHttp::new(&url, &server.oauth).ok()?;
        Some(Arc::new(Self {
            server: server.name.clone(),
            url: url.into(),
            logins: logins.clone(),
            oauth: server.oauth.clone(),
            http,
            known: tokio::sync::Mutex::default(),
            has_sent_token: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            trouble: Mutex::default(),
            secrets,
        }))
    }

    /// Clears the cache before a new connection, which reads the file again.
    pub(crate) async fn clear_cache(&self) {
        self.known.lock().await.was_read = false;
        self.has_sent_token.store(false, Ordering::Relaxed);
        self.is_refused.store(false, Ordering::Relaxed);
    }

    /// Returns whether a token was sent since the server was connected.
    pub(crate) fn has_sent_token(&self) -> bool {
        self.has_sent_token.load(Ordering::Relaxed)
    }

    /// Waits until a login that the server rejected has changed; for ever if it was not rejected.
    pub(crate) async fn wait_until_changed(&self) {
        if !self.is_refused.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let before = self.known.lock().await.grant.clone();
        loop {
            tokio::time::sleep(LOGIN_POLL_INTERVAL).await;
            if self.read_login().await != before {
                return;
            }
        }
    }

    /// Returns a token that is expected to work.
    async fn current_token(self: &Arc<Self>) -> Option<HeaderValue> {
        {
            let known = self.known.lock().await;
            let is_none = known.was_read && known.grant.is_none();
            let usable = known.usable_token(None).filter(|_| known.was_read);
            if is_none || usable.is_some() {
                return usable;
            }
        }
        self.replacement_token(None).await
    }

    /// Returns another token than the rejected one.
    async fn replacement_token(self: &Arc<Self>, refused: Option<HeaderValue>) -> Option<HeaderValue> {
        let own = Arc::clone(self);
        // As a task, which continues when the call is cancelled: a refresh token that was used
        // without saving the new tokens is a lost login.
        tokio::spawn(async move { own.find_replacement(refused.as_ref()).await }).await.ok()?
    }

    async fn find_replacement(&self, refused: Option<&HeaderValue>) -> Option<HeaderValue> {
        let mut known = self.known.lock().await;
        // Another task or another process may already have done it.
        if let Some(token) = known.usable_token(refused).filter(|_| known.was_read) {
            return Some(token);
        }
        *known = CachedLogin { grant: self.read_login().await, was_read: true, failed: known.failed };
        self.hide_tokens(known.grant.as_ref());
        let is_worth_it = known.failed.is_none_or(|then| then.elapsed() >= REFRESH_RETRY_DELAY);
        let can_refresh = is_worth_it && known.grant.as_ref().is_some_and(|grant| grant.refresh_token.is_some());
        if known.usable_token(refused).is_none() && can_refresh {
            let _lock = self.logins.lock(&self.url).await;
            known.grant = self.read_login().await;
            if let Some(grant) = known.grant.take_if(|grant| needs_refresh(grant, refused)) {
                known.grant = Some(self.refresh(grant).await);
                known.failed = lock(&self.trouble).is_some().then(Instant::now);
                self.hide_tokens(known.grant.as_ref());
            }
        }
        // A token that is about to expire is better than none.
        known.grant.as_ref().and_then(authorization_header).filter(|token| Some(token) != refused)
    }

    /// Hides the tokens of a login in all output.
    fn hide_tokens(&self, grant: Option<&Grant>) {
        let Some(grant) = grant else { return };
        let tokens = [Some(&grant.access_token), grant.refresh_token.as_ref()];
        self.secrets.add(&tokens.into_iter().flatten().map(Secret::new).collect::<Vec<_>>());
    }

    /// Refreshes the tokens of a login; if that fails, returns it without those that are invalid.
    async fn refresh(&self, mut grant: Grant) -> Grant {
        let renewed = oauth::refresh(&grant, self.oauth.secret_for(&grant.client_id), &self.http).await;
        *lock(&self.trouble) = None;
        match renewed {
            Ok(renewed) => {
                tracing::debug!(server = self.server, "login refreshed");
                grant = renewed;
            }
            Err(RefreshError::Over) => {
                tracing::warn!(server = self.server, "login expired");
                // It must not be used again.
                grant.refresh_token = None;
            }
            Err(error) => {
                let reason = crate::with_causes(&error);
                tracing::warn!(server = self.server, reason, "login not refreshed");
                *lock(&self.trouble) = Some(reason);
                return grant;
            }
        }
        let (logins, kept) = (self.logins.clone(), grant.clone());
        let written = tokio::task::spawn_blocking(move || logins.write(&kept)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(server = self.server, %error, "cannot save the refreshed login");
        }
        grant
    }

    /// Reads the stored login.
    async fn read_login(&self) -> Option<Grant> {
        let (logins, url) = (self.logins.clone(), self.url.clone());
        match tokio::task::spawn_blocking(move || logins.read(&url)).await {
            Ok(Ok(grant)) => grant,
            Ok(Err(error)) => {
                tracing::warn!(server = self.server, %error, "cannot read the login");
                None
            }
            Err(_) => None,
        }
    }

    fn login_error(&self) -> CallError {
        self.is_refused.store(true, Ordering::Relaxed);
        CallError::Login(NeedsLogin { server: self.server.clone(), trouble: lock(&self.trouble).clone() })
    }
}

/// Returns whether a login needs new tokens and can be refreshed.
fn needs_refresh(grant: &Grant, refused: Option<&HeaderValue>) -> bool {
    let is_refused = refused.is_some() && authorization_header(grant).as_ref() == refused;
    grant.refresh_token.is_some() && (is_refused || grant.is_stale())
}

fn authorization_header(grant: &Grant) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", grant.access_token)).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Sends a request with the token of the login, and again with another one if it is rejected.
pub(crate) async fn send(bearer: Option<&Arc<Bearer>>, request: RequestBuilder) -> Result<Response, CallError> {
    let Some(bearer) = bearer else { return request.send().await.map_err(CallError::unreachable) };
    let again = request.try_clone();
    let token = bearer.current_token().await;
    let response = send_with(bearer, request, token.clone()).await?;
    if response.status() != StatusCode::UNAUTHORIZED {
        return Ok(response);
    }
    if let (Some(request), Some(other)) = (again, bearer.replacement_token(token).await) {
        let response = send_with(bearer, request, Some(other)).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
    }
    Err(bearer.login_error())
}

async fn send_with(
    bearer: &Bearer,
    mut request: RequestBuilder,
    token: Option<HeaderValue>,
) -> Result<Response, CallError> {
    if let Some(token) = token {
        bearer.has_sent_token.store(true, Ordering::Relaxed);
        request = request.header(AUTHORIZATION, token);
    }
    request.send().await.map_err(CallError::unreachable)
}
