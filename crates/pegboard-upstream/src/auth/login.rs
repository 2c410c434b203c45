//! One person's login to one server, and its end.

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
    error::{LoginError, told},
    http::{HttpError, OAuthHttp},
    oauth::{Authority, Begun},
    revoke::revoke,
    store::Logins,
};
use crate::{
    config::{OAuthConfig, ServerConfig, TransportConfig},
    transport::http::header_map,
};

/// What a person reads in the browser in the end.
const GO_BACK: &str = "You are logged in. You can close this page and return to the terminal.";

/// A login that waits for a person.
pub struct Login {
    logins: Logins,
    url: String,
    callback: Callback,
    begun: Begun,
    state: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("url", &self.url).field("callback", &self.callback).finish_non_exhaustive()
    }
}

/// What a browser came back with.
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

/// A login that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedIn {
    /// Who gave it.
    pub issuer: String,
    /// What it allows, as far as that is told.
    pub scopes: Vec<String>,
    /// Whether it can be renewed without a person.
    pub is_renewable: bool,
}

/// What became of a login that was ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoggedOut {
    /// There was none.
    Nothing,
    /// It is gone, here and where it came from.
    Revoked,
    /// It is gone here, and whoever gave it has no way to take it back.
    Forgotten,
    /// It is gone here, and whoever gave it could not be told.
    NotRevoked(LoginError),
}

impl Login {
    /// Asks the server who gives logins, introduces us there, and opens the page for the way
    /// back.
    ///
    /// # Errors
    /// When the server wants none, or its answers lead nowhere or to an unsafe place.
    pub async fn begin(server: &ServerConfig, logins: &Logins) -> Result<Self, LoginError> {
        let Remote { url, headers, .. } = Remote::of(server)?;
        let http = OAuthHttp::new(&url, &server.oauth)?;
        // A token must not go over the wire for everybody to read.
        http.guard().check(&url)?;
        let challenge = challenge(&url, headers, &http).await?;
        let authority = match Authority::discover(&url, challenge.header.as_deref(), &http).await {
            Err(LoginError::Undiscovered) if challenge.status != StatusCode::UNAUTHORIZED => {
                return Err(LoginError::NotAsked { status: challenge.status.as_u16() });
            }
            found => found?,
        };
        let port = server.oauth.callback_port.unwrap_or(0);
        let callback = Callback::open(port).await.map_err(|source| LoginError::Listen { port, source })?;
        let begun = authority.begin(&server.oauth, &callback.url()).await?;
        let state = begun.state().ok_or(LoginError::NotARedirect)?;
        Ok(Self { logins: logins.clone(), url: url.into(), callback, begun, state })
    }

    /// Where the person has to go.
    pub fn url(&self) -> &str {
        self.begun.url().as_str()
    }

    /// Who gives the login.
    pub fn issuer(&self) -> &str {
        self.begun.issuer()
    }

    /// Waits until the browser comes back.
    ///
    /// # Errors
    /// When it comes back with a refusal.
    pub async fn redirected(&self) -> Result<Redirect, LoginError> {
        let take = |url: &Url| match self.read(url) {
            // Not ours: somebody else's page, or an old one.
            Err(LoginError::OtherState | LoginError::NotARedirect) => None,
            Err(error) => Some((Err(error), "The login was denied. See the terminal for the reason.")),
            Ok(redirect) => Some((Ok(redirect), GO_BACK)),
        };
        self.callback.wait(take).await
    }

    /// Takes the address of the page that a browser elsewhere could not open.
    ///
    /// # Errors
    /// When it is none, the answer to another login, or a refusal.
    pub fn pasted(&self, text: &str) -> Result<Redirect, LoginError> {
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
            return Err(LoginError::Denied(told(&format!("{error}{more}"))));
        }
        let code = value("code").ok_or(LoginError::NotARedirect)?;
        Ok(Redirect { code: Secret::new(code), state, issuer: value("iss") })
    }

    /// Trades what the browser brought for a login, and keeps it.
    ///
    /// # Errors
    /// When the code is not taken, comes from somebody else, or the login cannot be kept.
    pub async fn finish(self, redirect: &Redirect) -> Result<LoggedIn, LoginError> {
        let grant = self.begun.finish(&self.url, redirect).await?;
        let logged_in = LoggedIn {
            issuer: told(&grant.issuer),
            scopes: grant.scopes.iter().map(|scope| told(scope)).collect(),
            is_renewable: grant.refresh_token.is_some(),
        };
        let _held = self.logins.hold(&self.url).await;
        in_folder(&self.logins, move |logins| logins.write(&grant)).await?;
        Ok(logged_in)
    }
}

/// Forgets the login to a server, and takes it back where it came from.
///
/// # Errors
/// When the server can have none, or what is kept of it cannot be removed.
pub async fn logout(server: &ServerConfig, logins: &Logins) -> Result<LoggedOut, LoginError> {
    let Remote { url, oauth, .. } = Remote::of(server).or_else(|error| match error {
        // There may be one from before.
        LoginError::Configured(_) => Remote::unless_local(server),
        error => Err(error),
    })?;
    let key = String::from(url.clone());
    let _held = logins.hold(&key).await;
    let kept = key.clone();
    let grant = in_folder(logins, move |logins| logins.read(&kept)).await;
    let was_there = in_folder(logins, move |logins| logins.remove(&key)).await?;
    let Ok(Some(grant)) = grant else {
        return Ok(if was_there { LoggedOut::Forgotten } else { LoggedOut::Nothing });
    };
    match revoke(&grant, oauth, &url).await {
        Ok(true) => Ok(LoggedOut::Revoked),
        Ok(false) => Ok(LoggedOut::Forgotten),
        Err(error) => Ok(LoggedOut::NotRevoked(error)),
    }
}

/// Works on the folder of logins, off the threads that carry requests.
async fn in_folder<T: Send + 'static>(
    logins: &Logins,
    work: impl FnOnce(&Logins) -> std::io::Result<T> + Send + 'static,
) -> Result<T, LoginError> {
    let (own, folder) = (logins.clone(), logins.path().display().to_string());
    let done = tokio::task::spawn_blocking(move || work(&own)).await;
    let done = done.map_err(std::io::Error::other).and_then(|done| done);
    done.map_err(|source| LoginError::Keep { folder, source })
}

/// What matters of a server for its login.
struct Remote<'a> {
    url: Url,
    headers: &'a [(String, Secret)],
    oauth: &'a OAuthConfig,
}

impl<'a> Remote<'a> {
    fn of(server: &'a ServerConfig) -> Result<Self, LoginError> {
        let remote = Self::unless_local(server)?;
        if remote.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            return Err(LoginError::Configured(server.name.clone()));
        }
        Ok(remote)
    }

    fn unless_local(server: &'a ServerConfig) -> Result<Self, LoginError> {
        let TransportConfig::Http { url, headers, .. } = &server.transport else {
            return Err(LoginError::NotRemote(server.name.clone()));
        };
        let url = canonical(url).ok_or_else(|| LoginError::NotRemote(server.name.clone()))?;
        Ok(Self { url, headers, oauth: &server.oauth })
    }
}

/// How a server asks for a login.
struct Challenge {
    status: StatusCode,
    header: Option<String>,
}

/// Asks the server something, to hear what it wants for an answer.
async fn challenge(url: &Url, headers: &[(String, Secret)], http: &OAuthHttp) -> Result<Challenge, LoginError> {
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
    http.guard().learn_from(&response);
    let mut values = response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let is_bearer = |value: &&str| value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    let header = values.find(is_bearer).map(str::to_owned);
    Ok(Challenge { status: response.status(), header })
}
