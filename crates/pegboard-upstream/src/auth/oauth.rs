//! The MCP crate's OAuth, which nobody but this file knows.
//!
//! It finds out who gives logins, registers, makes the address for the browser with its
//! proof key, checks the state and the issuer of what comes back, and trades codes and refresh
//! tokens for tokens. It moves fast, so it is pinned, and speaks to the world through
//! [`OAuthHttp`] alone. It logs codes and what comes with tokens; so it is not let near a log.

use std::sync::Arc;

use pegboard_core::Secret;
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore as _, InMemoryCredentialStore,
    OAuthClientConfig, OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
    OAuthTokenResponse, StoredCredentials,
};
use serde_json::{Value, json};
use tracing::{instrument::WithSubscriber as _, subscriber::NoSubscriber};

use super::{
    error::{LoginError, told},
    http::OAuthHttp,
    login::Redirect,
    now,
    store::Grant,
};
use crate::config::OAuthConfig;

/// Under which name we register.
const CLIENT_NAME: &str = "Pegboard";

/// Runs what the crate does without its log.
async fn quietly<T>(future: impl Future<Output = T>) -> T {
    future.with_subscriber(NoSubscriber::default()).await
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.request).map_err(OAuthHttpClientError::from)?;
            let (response, body) = self.send(request).await.map_err(OAuthHttpClientError::from)?;
            self.look_for_refused(&body);
            Ok(http::Response::from(response).map(|_| body))
        })
    }
}

/// Who gives logins for a server.
pub(super) struct Authority {
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
    http: Arc<OAuthHttp>,
    issuer: String,
}

impl Authority {
    /// Finds out who gives logins for the server at `url`, which has asked for one with
    /// `challenge`.
    pub(super) async fn discover(
        url: &Url,
        challenge: Option<&str>,
        http: &Arc<OAuthHttp>,
    ) -> Result<Self, LoginError> {
        let client: Arc<dyn OAuthHttpClient> = Arc::<OAuthHttp>::clone(http);
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(url.clone(), client).await.map_err(unusable)?;
        let found = quietly(manager.resolve_metadata_from_challenge(challenge)).await;
        // The crate takes a refusal for a document that is not there, and may find another.
        if let Some(refused) = http.take_refused() {
            return Err(refused.into());
        }
        let found = found.map_err(unusable)?;
        if !found.source.is_discovered() {
            return Err(LoginError::Undiscovered);
        }
        let metadata = found.metadata;
        let issuer = metadata.issuer.clone();
        let issuer = issuer.ok_or_else(|| LoginError::Metadata("`issuer` is missing".to_owned()))?;
        check_issuer(&issuer, http).await?;
        let optional = [metadata.registration_endpoint.as_deref(), revocation_endpoint(&metadata)];
        let needed = [metadata.authorization_endpoint.as_str(), &metadata.token_endpoint];
        for endpoint in needed.into_iter().chain(optional.into_iter().flatten()) {
            let url =
                Url::parse(endpoint).map_err(|_| LoginError::Metadata(format!("`{}` is not a URL", told(endpoint))))?;
            http.check(&url).await?;
        }
        manager.set_metadata(metadata.clone());
        Ok(Self { manager, metadata, http: Arc::clone(http), issuer })
    }

    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Registers unless a client is configured, and makes the address for the browser.
    pub(super) async fn begin(mut self, config: &OAuthConfig, redirect: &str) -> Result<Begun, LoginError> {
        let scopes = match &config.scopes[..] {
            [] => quietly(self.manager.select_initial_scopes(&[])).await,
            configured => configured.to_vec(),
        };
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let mut registered_secret = None;
        let client_id = if let Some(id) = &config.client_id {
            let mut client = OAuthClientConfig::new(id, redirect);
            client.client_secret = config.client_secret.as_ref().map(|secret| secret.expose().to_owned());
            self.manager.configure_client(client).map_err(unusable)?;
            id.clone()
        } else if self.metadata.registration_endpoint.is_none() {
            return Err(LoginError::NoRegistration(told(&self.issuer)));
        } else {
            let registered = quietly(self.manager.register_client(CLIENT_NAME, redirect, &scopes)).await;
            let registered = registered.map_err(|error| self.not_registered(error))?;
            registered_secret = registered.client_secret;
            registered.client_id
        };
        let url = quietly(self.manager.get_authorization_url(&scopes)).await.map_err(unusable)?;
        let url =
            Url::parse(&url).map_err(|_| LoginError::Metadata("the authorization endpoint is not a URL".to_owned()))?;
        self.http.check(&url).await?;
        Ok(Begun { authority: self, url, client_id, registered_secret })
    }

    fn not_registered(&self, error: AuthError) -> LoginError {
        match error {
            AuthError::RegistrationFailed(reason) => {
                LoginError::Registration { issuer: told(&self.issuer), reason: told(&reason) }
            }
            error => unusable(error),
        }
    }
}

/// Whoever speaks for an issuer must be found at its address. The crate believes some documents
/// in odd places.
async fn check_issuer(issuer: &str, http: &OAuthHttp) -> Result<(), LoginError> {
    let expected =
        Url::parse(issuer).map_err(|_| LoginError::Metadata(format!("the issuer `{}` is not a URL", told(issuer))))?;
    http.check(&expected).await?;
    match http.last() {
        Some(found) if found.origin() != expected.origin() => Err(LoginError::Issuer {
            expected: expected.origin().ascii_serialization(),
            found: found.origin().ascii_serialization(),
        }),
        _ => Ok(()),
    }
}

fn revocation_endpoint(metadata: &AuthorizationMetadata) -> Option<&str> {
    metadata.additional_fields.get("revocation_endpoint").and_then(Value::as_str)
}

/// A login that waits for the person.
pub(super) struct Begun {
    authority: Authority,
    url: Url,
    client_id: String,
    registered_secret: Option<String>,
}

impl Begun {
    /// Where the person has to go.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn issuer(&self) -> &str {
        self.authority.issuer()
    }

    /// What must come back with the answer.
    pub(super) fn state(&self) -> Option<String> {
        self.parameter("state")
    }

    fn parameter(&self, name: &str) -> Option<String> {
        self.url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// Trades the code for tokens, for the server at `url`.
    pub(super) async fn finish(&self, url: &str, redirect: &Redirect) -> Result<Grant, LoginError> {
        let Authority { manager, metadata, issuer, .. } = &self.authority;
        let traded = manager.exchange_code_for_token_with_issuer(
            redirect.code.expose(),
            &redirect.state,
            redirect.issuer.as_deref(),
        );
        let refused = |reason: &str| LoginError::Exchange { issuer: told(issuer), reason: told(reason) };
        let response = quietly(traded).await.map_err(|error| match error {
            AuthError::TokenExchangeFailed(reason) => refused(&reason),
            error => unusable(error),
        })?;
        let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
        let grant = Grant {
            url: url.to_owned(),
            issuer: issuer.clone(),
            resource: self.parameter("resource").unwrap_or_else(|| url.to_owned()),
            token_endpoint: metadata.token_endpoint.clone(),
            revocation_endpoint: revocation_endpoint(metadata).map(str::to_owned),
            token_auth_methods: methods.and_then(|methods| serde_json::from_value(methods.clone()).ok()),
            client_id: self.client_id.clone(),
            client_secret: self.registered_secret.clone(),
            access_token: String::new(),
            refresh_token: None,
            expires_at: None,
            scopes: Vec::new(),
            network: self.authority.http.guard().network(),
        };
        let scopes = quietly(manager.get_current_scopes()).await;
        grant.with(&response, scopes).ok_or_else(|| refused("the response has no bearer token"))
    }
}

/// Why a login was not renewed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefreshError {
    /// It is over, and only a person can begin another.
    #[error("the login has expired")]
    Over,
    /// It may work the next time.
    #[error("`{issuer}` did not refresh the login: {reason}")]
    Failed { issuer: String, reason: String },
}

/// Trades the refresh token for new tokens, where the old ones came from.
///
/// `secret` is what the configuration says of the client that the login was made with.
pub(super) async fn refresh(
    grant: &Grant,
    secret: Option<&Secret>,
    http: &Arc<OAuthHttp>,
) -> Result<Grant, RefreshError> {
    let failed = |reason: &str| RefreshError::Failed { issuer: told(&grant.issuer), reason: told(reason) };
    http.guard().allow(grant.network);
    let client: Arc<dyn OAuthHttpClient> = Arc::<OAuthHttp>::clone(http);
    // The crate takes the address of the server for what the token is for, unless it has just
    // looked; what it was for when it was made is what counts.
    let manager = AuthorizationManager::new_with_oauth_http_client(grant.resource.as_str(), client).await;
    let mut manager = manager.map_err(|error| failed(&error.to_string()))?;
    let metadata = json!({
        "issuer": grant.issuer,
        "authorization_endpoint": grant.token_endpoint,
        "token_endpoint": grant.token_endpoint,
        "token_endpoint_auth_methods_supported": grant.token_auth_methods,
    });
    let metadata = serde_json::from_value(metadata).map_err(|error| failed(&error.to_string()))?;
    manager.set_metadata(metadata);
    let mut client = OAuthClientConfig::new(&grant.client_id, "http://127.0.0.1/");
    client.client_secret = secret.map(|secret| secret.expose().to_owned()).or_else(|| grant.client_secret.clone());
    manager.configure_client(client).map_err(|error| failed(&error.to_string()))?;
    let tokens = json!({
        "access_token": grant.access_token,
        "token_type": "bearer",
        "refresh_token": grant.refresh_token,
    });
    let tokens: OAuthTokenResponse = serde_json::from_value(tokens).map_err(|_| RefreshError::Over)?;
    let store = InMemoryCredentialStore::new();
    let stored = StoredCredentials::new(grant.client_id.clone(), Some(tokens), grant.scopes.clone(), None);
    store.save(stored).await.map_err(|error| failed(&error.to_string()))?;
    manager.set_credential_store(store);
    let response = quietly(manager.refresh_token()).await.map_err(|error| match error {
        AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired => RefreshError::Over,
        AuthError::TokenRefreshFailed(reason) => failed(&reason),
        error => failed(&error.to_string()),
    })?;
    let scopes = quietly(manager.get_current_scopes()).await;
    grant.clone().with(&response, scopes).ok_or_else(|| failed("the response has no bearer token"))
}

impl Grant {
    /// With the tokens of a response, if they can be used.
    fn with(mut self, response: &OAuthTokenResponse, scopes: Vec<String>) -> Option<Self> {
        // The crate's own way to read them needs another crate's traits.
        let response = serde_json::to_value(response).ok()?;
        let text = |key: &str| response.get(key).and_then(Value::as_str).map(str::to_owned);
        if !text("token_type")?.eq_ignore_ascii_case("bearer") {
            return None;
        }
        self.access_token = text("access_token").filter(|token| is_header_safe(token))?;
        self.refresh_token = text("refresh_token").or(self.refresh_token);
        self.expires_at = response.get("expires_in").and_then(Value::as_u64).map(|life| now().saturating_add(life));
        self.scopes = scopes;
        Some(self)
    }
}

/// Whether a token can stand in a header.
fn is_header_safe(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| matches!(byte, 0x21..=0x7E))
}

/// What the crate says, as ours.
fn unusable(error: AuthError) -> LoginError {
    match error {
        AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => {
            LoginError::Issuer { expected: told(&expected_issuer), found: told(&received_issuer) }
        }
        AuthError::PkceUnsupported => LoginError::Metadata("PKCE with S256 is not supported".to_owned()),
        AuthError::NoAuthorizationSupport => LoginError::Undiscovered,
        AuthError::MetadataError(reason) => LoginError::Metadata(told(&reason)),
        error => LoginError::Metadata(told(&error.to_string())),
    }
}
