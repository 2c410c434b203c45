//! Tokens for the requests to one server.

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
    redact::Shared,
};

/// How often it is looked whether somebody has logged in meanwhile, while a server waits for it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long a renewal that failed is not tried again.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// A server lets nobody in without a login.
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

/// The login to one server, as far as there is one: kept in memory, read again when a
/// connection is made or a token is refused, and renewed by one at a time.
#[derive(Debug)]
pub(crate) struct Bearer {
    server: String,
    url: String,
    logins: Logins,
    oauth: OAuthConfig,
    http: Arc<OAuthHttp>,
    known: tokio::sync::Mutex<Known>,
    /// Whether the server was shown a token since it was connected.
    has_shown: AtomicBool,
    /// Whether the server let us in with nothing that we have.
    is_refused: AtomicBool,
    /// Why the login was not renewed.
    trouble: Mutex<Option<String>>,
    /// What nobody may tell: tokens belong to it.
    secrets: Shared,
}

/// What is known of a login.
#[derive(Debug, Default)]
struct Known {
    grant: Option<Grant>,
    has_looked: bool,
    /// When a renewal last failed: an authority that does not answer is not asked by every call.
    failed: Option<Instant>,
}

impl Known {
    /// The token, unless it expires or was refused.
    fn usable(&self, refused: Option<&HeaderValue>) -> Option<HeaderValue> {
        self.grant.as_ref().filter(|grant| !grant.is_stale()).and_then(header).filter(|token| Some(token) != refused)
    }
}

impl Bearer {
    /// For servers that are reached over HTTP. What the configuration says of `Authorization`
    /// counts more than a login.
    pub(crate) fn of(server: &ServerConfig, logins: &Logins, secrets: Shared) -> Option<Arc<Self>> {
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
            has_shown: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            trouble: Mutex::default(),
            secrets,
        }))
    }

    /// Forgets what is known; for a new connection the file counts.
    pub(crate) async fn look_again(&self) {
        self.known.lock().await.has_looked = false;
        self.has_shown.store(false, Ordering::Relaxed);
        self.is_refused.store(false, Ordering::Relaxed);
    }

    /// Whether the server was shown a token since it was connected.
    pub(crate) fn has_shown(&self) -> bool {
        self.has_shown.load(Ordering::Relaxed)
    }

    /// Returns when the login has changed that the server did not take; never if it took it.
    pub(crate) async fn changed(&self) {
        if !self.is_refused.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let before = self.known.lock().await.grant.clone();
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            if self.read().await != before {
                return;
            }
        }
    }

    /// A token that should do.
    async fn token(self: &Arc<Self>) -> Option<HeaderValue> {
        {
            let known = self.known.lock().await;
            let is_none = known.has_looked && known.grant.is_none();
            let usable = known.usable(None).filter(|_| known.has_looked);
            if is_none || usable.is_some() {
                return usable;
            }
        }
        self.another(None).await
    }

    /// Another token than the one that was refused.
    async fn another(self: &Arc<Self>, refused: Option<HeaderValue>) -> Option<HeaderValue> {
        let own = Arc::clone(self);
        // As a task, which goes on when the call is taken back: a refresh token that was used
        // without keeping what came for it is a login lost.
        tokio::spawn(async move { own.find_another(refused.as_ref()).await }).await.ok()?
    }

    async fn find_another(&self, refused: Option<&HeaderValue>) -> Option<HeaderValue> {
        let mut known = self.known.lock().await;
        // Others may have been faster: in this process, then in another.
        if let Some(token) = known.usable(refused).filter(|_| known.has_looked) {
            return Some(token);
        }
        *known = Known { grant: self.read().await, has_looked: true, failed: known.failed };
        self.hide(known.grant.as_ref());
        let is_worth_it = known.failed.is_none_or(|then| then.elapsed() >= TRY_AGAIN);
        let can_renew = is_worth_it && known.grant.as_ref().is_some_and(|grant| grant.refresh_token.is_some());
        if known.usable(refused).is_none() && can_renew {
            let _held = self.logins.hold(&self.url).await;
            known.grant = self.read().await;
            if let Some(grant) = known.grant.take_if(|grant| is_to_renew(grant, refused)) {
                known.grant = Some(self.renew(grant).await);
                known.failed = lock(&self.trouble).is_some().then(Instant::now);
                self.hide(known.grant.as_ref());
            }
        }
        // One that is about to expire is better than none.
        known.grant.as_ref().and_then(header).filter(|token| Some(token) != refused)
    }

    /// Keeps tokens out of whatever is told of servers.
    fn hide(&self, grant: Option<&Grant>) {
        let Some(grant) = grant else { return };
        let tokens = [Some(&grant.access_token), grant.refresh_token.as_ref()];
        self.secrets.add(&tokens.into_iter().flatten().map(Secret::new).collect::<Vec<_>>());
    }

    /// The login with new tokens, or what is left of it.
    async fn renew(&self, mut grant: Grant) -> Grant {
        let renewed = oauth::refresh(&grant, self.oauth.secret_of(&grant.client_id), &self.http).await;
        *lock(&self.trouble) = None;
        match renewed {
            Ok(renewed) => {
                tracing::debug!(server = self.server, "login refreshed");
                grant = renewed;
            }
            Err(RefreshError::Over) => {
                tracing::warn!(server = self.server, "login expired");
                // It is not to be asked for once more.
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

    /// What is kept of the login.
    async fn read(&self) -> Option<Grant> {
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

    fn refusal(&self) -> CallError {
        self.is_refused.store(true, Ordering::Relaxed);
        CallError::Login(NeedsLogin { server: self.server.clone(), trouble: lock(&self.trouble).clone() })
    }
}

/// Whether a login needs new tokens, and can have them.
fn is_to_renew(grant: &Grant, refused: Option<&HeaderValue>) -> bool {
    let is_refused = refused.is_some() && header(grant).as_ref() == refused;
    grant.refresh_token.is_some() && (is_refused || grant.is_stale())
}

fn header(grant: &Grant) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", grant.access_token)).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Sends a request with the token of the login, and once more with another one where that is
/// refused.
pub(crate) async fn send(bearer: Option<&Arc<Bearer>>, request: RequestBuilder) -> Result<Response, CallError> {
    let Some(bearer) = bearer else { return request.send().await.map_err(CallError::unreachable) };
    let again = request.try_clone();
    let token = bearer.token().await;
    let response = send_with(bearer, request, token.clone()).await?;
    if response.status() != StatusCode::UNAUTHORIZED {
        return Ok(response);
    }
    if let (Some(request), Some(other)) = (again, bearer.another(token).await) {
        let response = send_with(bearer, request, Some(other)).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
    }
    Err(bearer.refusal())
}

async fn send_with(
    bearer: &Bearer,
    mut request: RequestBuilder,
    token: Option<HeaderValue>,
) -> Result<Response, CallError> {
    if let Some(token) = token {
        bearer.has_shown.store(true, Ordering::Relaxed);
        request = request.header(AUTHORIZATION, token);
    }
    request.send().await.map_err(CallError::unreachable)
}
