//! Login to one server, and logout.

use std::fmt;

use pegboard_core::Secret;
use pegboard_mcp::era::MODERN_VERSION;
use reqwest::{
    Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE},
};

use super::{
    callback::Callback,
    canonical,
    error::{LoginError, clean_reason},
    http::{HttpError, OAuthHttp},
    oauth::{AuthorizationServer, PendingAuthorization},
    revoke::revoke,
    store::Logins,
};
use crate::{
    config::{OAuthConfig, ServerConfig, TransportConfig},
    transport::http::header_map,
};

/// The text of the page at the end of a login.
const LOGGED_IN_PAGE: &str = "You are logged in. You can close this page and return to the terminal.";

/// A login that waits for the user.
pub struct Login {
    logins: Logins,
    url: String,
    callback: Callback,
    pending: PendingAuthorization,
    state: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("url", &self.url).field("callback", &self.callback).finish_non_exhaustive()
    }
}

/// The parameters of the redirect at the end of a login.
pub struct Redirect {
    pub(super) code: Secret,
    pub(super) state: String,
    pub(super) issuer: Option<String>,
}

impl fmt::Debug for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redirect").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// The result of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedIn {
    /// The issuer of the token.
    pub issuer: String,
    /// The granted scopes, if the issuer names them.
    pub scopes: Vec<String>,
    /// Whether the login can be refreshed without the user.
    pub is_renewable: bool,
}

/// The result of a logout.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoggedOut {
    /// There was no login.
    Nothing,
    /// The login was removed and revoked.
    Revoked,
    /// The login was removed; its issuer does not support revocation.
    Forgotten,
    /// The login was removed, but not revoked.
    NotRevoked(LoginError),
}

impl Login {
    /// Finds the authorization server, registers there, and listens for the redirect.
    ///
    /// # Errors
    /// When the server does not require a login, or its metadata are invalid or name an unsafe URL.
    pub async fn begin(server: &ServerConfig, logins: &Logins) -> Result<Self, LoginError> {
        let LoginTarget { url, headers, .. } = LoginTarget::of(server)?;
        let http = OAuthHttp::new(&url, &server.oauth)?;
        // A token must not be sent unencrypted.
        http.guard().check(&url)?;
        let challenge = request_challenge(&url, headers, &http).await?;
        let authority = match AuthorizationServer::discover(&url, challenge.header.as_deref(), &http).await {
            Err(LoginError::Undiscovered) if challenge.status != StatusCode::UNAUTHORIZED => {
                return Err(LoginError::NotAsked { status: challenge.status.as_u16() });
            }
            found => found?,
        };
        let port = server.oauth.callback_port.unwrap_or(0);
        let callback = Callback::open(port).await.map_err(|source| LoginError::Listen { port, source })?;
        let pending = authority.begin(&server.oauth, &callback.url()).await?;
        let state = pending.state().ok_or(LoginError::NotARedirect)?;
        Ok(Self { logins: logins.clone(), url: url.into(), callback, pending, state })
    }

    /// Returns the URL that the user has to open.
    pub fn url(&self) -> &str {
        self.pending.url().as_str()
    }

    /// Returns the issuer.
    pub fn issuer(&self) -> &str {
        self.pending.issuer()
    }

    /// Waits until the browser is redirected.
    ///
    /// # Errors
    /// When the redirect reports an error.
    pub async fn wait_for_redirect(&self) -> Result<Redirect, LoginError> {
        let take = |url: &Url| match self.read(url) {
            // Not the redirect of this login: another page, or an old one.
            Err(LoginError::OtherState | LoginError::NotARedirect) => None,
            Err(error) => Some((Err(error), "The login was denied. See the terminal for the reason.")),
            Ok(redirect) => Some((Ok(redirect), LOGGED_IN_PAGE)),
        };
        self.callback.wait(take).await
    }

    /// Reads a redirect URL that the user has pasted, because the browser runs on another machine.
    ///
    /// # Errors
    /// When it is not a redirect URL, belongs to another login, or reports an error.
    pub fn parse_pasted(&self, text: &str) -> Result<Redirect, LoginError> {
        let url = Url::parse(text.trim()).map_err(|_| LoginError::NotARedirect)?;
        let own = Url::parse(&self.callback.url()).map_err(|_| LoginError::NotARedirect)?;
        if url.origin() != own.origin() || url.path() != own.path() {
            return Err(LoginError::NotARedirect);
        }
        self.read(&url)
    }

    fn read(&self, url: &Url) -> Result<Redirect, LoginError> {
        let value = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        let state = value("state").ok_or(LoginError::NotARedirect)?;
        if state != self.state {
            return Err(LoginError::OtherState);
        }
        if let Some(error) = value("error") {
            let more = value("error_description").map(|more| format!(" ({more})")).unwrap_or_default();
            return Err(LoginError::Denied(clean_reason(&format!("{error}{more}"))));
        }
        let code = value("code").ok_or(LoginError::NotARedirect)?;
        Ok(Redirect { code: Secret::new(code), state, issuer: value("iss") })
    }

    /// Exchanges the code of the redirect for tokens, and saves them.
    ///
    /// # Errors
    /// When the code is rejected, is from another issuer, or the login cannot be saved.
    pub async fn finish(self, redirect: &Redirect) -> Result<LoggedIn, LoginError> {
        let grant = self.pending.finish(&self.url, redirect).await?;
        let logged_in = LoggedIn {
            issuer: clean_reason(&grant.issuer),
            scopes: grant.scopes.iter().map(|scope| clean_reason(scope)).collect(),
            is_renewable: grant.refresh_token.is_some(),
        };
        let _lock = self.logins.lock(&self.url).await;
        run_blocking(&self.logins, move |logins| logins.write(&grant)).await?;
        Ok(logged_in)
    }
}

/// Removes the login of a server and revokes it.
///
/// # Errors
/// When the server cannot have a login, or the stored one cannot be removed.
pub async fn logout(server: &ServerConfig, logins: &Logins) -> Result<LoggedOut, LoginError> {
    let LoginTarget { url, oauth, .. } = LoginTarget::of(server).or_else(|error| match error {
        // There may be a login from an earlier configuration.
        LoginError::Configured(_) => LoginTarget::of_http(server),
        error => Err(error),
    })?;
    let key = String::from(url.clone());
    let _lock = logins.lock(&key).await;
    let kept = key.clone();
    let grant = run_blocking(logins, move |logins| logins.read(&kept)).await;
    let was_there = run_blocking(logins, move |logins| logins.remove(&key)).await?;
    let Ok(Some(grant)) = grant else {
        return Ok(if was_there { LoggedOut::Forgotten } else { LoggedOut::Nothing });
    };
    match revoke(&grant, oauth, &url).await {
        Ok(true) => Ok(LoggedOut::Revoked),
        Ok(false) => Ok(LoggedOut::Forgotten),
        Err(error) => Ok(LoggedOut::NotRevoked(error)),
    }
}

/// Runs file operations on the blocking thread pool.
async fn run_blocking<T: Send + 'static>(
    logins: &Logins,
    work: impl FnOnce(&Logins) -> std::io::Result<T> + Send + 'static,
) -> Result<T, LoginError> {
    let (own, folder) = (logins.clone(), logins.path().display().to_string());
    let done = tokio::task::spawn_blocking(move || work(&own)).await;
    let done = done.map_err(std::io::Error::other).and_then(|done| done);
    done.map_err(|source| LoginError::Keep { folder, source })
}

/// The parts of a server's configuration that its login needs.
struct LoginTarget<'a> {
    url: Url,
    headers: &'a [(String, Secret)],
    oauth: &'a OAuthConfig,
}

impl<'a> LoginTarget<'a> {
    fn of(server: &'a ServerConfig) -> Result<Self, LoginError> {
        let remote = Self::of_http(server)?;
        if remote.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            return Err(LoginError::Configured(server.name.clone()));
        }
        Ok(remote)
    }

    fn of_http(server: &'a ServerConfig) -> Result<Self, LoginError> {
        let TransportConfig::Http { url, headers, .. } = &server.transport else {
            return Err(LoginError::NotRemote(server.name.clone()));
        };
        let url = canonical(url).ok_or_else(|| LoginError::NotRemote(server.name.clone()))?;
        Ok(Self { url, headers, oauth: &server.oauth })
    }
}

/// The answer of a server that requires a login.
struct Challenge {
    status: StatusCode,
    header: Option<String>,
}

/// Sends a request without a token to get the challenge of the server.
async fn request_challenge(url: &Url, headers: &[(String, Secret)], http: &OAuthHttp) -> Result<Challenge, LoginError> {
    let headers: HeaderMap = header_map(headers).map_err(|error| LoginError::Metadata(error.to_string()))?;
    let question = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN_VERSION}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    let request = http
        .client()
        .post(url.clone())
        .headers(headers)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .header("mcp-protocol-version", MODERN_VERSION)
        .header("mcp-method", "server/discover")
        .body(question);
    let response: Response = request.send().await.map_err(|error| HttpError::Unreachable {
        host: url.host_str().unwrap_or_default().to_owned(),
        source: error.without_url(),
    })?;
    http.guard().allow_network_of(&response);
    let mut values = response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let is_bearer = |value: &&str| value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    let header = values.find(is_bearer).map(str::to_owned);
    Ok(Challenge { status: response.status(), header })
}
