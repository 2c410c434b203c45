//! The adapter to the OAuth client of the MCP crate, which only this file uses.
//!
//! That client discovers the authorization server, registers, makes the authorization URL with its
//! PKCE challenge, checks the state and the issuer of the redirect, and exchanges codes and
//! refresh tokens for tokens. Its API changes often, so its version is pinned. It sends requests
//! through [`OAuthHttp`] only. It logs codes and token responses, so its log is switched off.

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
    error::{LoginError, clean_reason},
    http::OAuthHttp,
    login::Redirect,
    now,
    store::Grant,
};
use crate::config::OAuthConfig;

/// The client name for registrations.
const CLIENT_NAME: &str = "Pegboard";

/// Runs a future of the MCP crate without its log.
async fn without_log<T>(future: impl Future<Output = T>) -> T {
    future.with_subscriber(NoSubscriber::default()).await
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.request).map_err(OAuthHttpClientError::from)?;
            let (response, body) = self.send(request).await.map_err(OAuthHttpClientError::from)?;
            self.record_refused_issuers(&body);
            Ok(http::Response::from(response).map(|_| body))
        })
    }
}

/// The authorization server of an MCP server.
pub(super) struct AuthorizationServer {
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
    http: Arc<OAuthHttp>,
    issuer: String,
}

impl AuthorizationServer {
    /// Discovers the authorization server of the server at `url`, which has answered with
    /// `challenge`.
    pub(super) async fn discover(
        url: &Url,
        challenge: Option<&str>,
        http: &Arc<OAuthHttp>,
    ) -> Result<Self, LoginError> {
        let client: Arc<dyn OAuthHttpClient> = Arc::<OAuthHttp>::clone(http);
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(url.clone(), client).await.map_err(metadata_error)?;
        let found = without_log(manager.resolve_metadata_from_challenge(challenge)).await;
        // The crate takes a rejected URL for a missing document, and may find another.
        if let Some(refused) = http.take_refused_url() {
            return Err(refused.into());
        }
        let found = found.map_err(metadata_error)?;
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
            let url = Url::parse(endpoint)
                .map_err(|_| LoginError::Metadata(format!("`{}` is not a URL", clean_reason(endpoint))))?;
            http.check(&url).await?;
        }
        manager.set_metadata(metadata.clone());
        Ok(Self { manager, metadata, http: Arc::clone(http), issuer })
    }

    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Registers unless a client is configured, and makes the authorization URL.
    pub(super) async fn begin(
        mut self,
        config: &OAuthConfig,
        redirect: &str,
    ) -> Result<PendingAuthorization, LoginError> {
        let scopes = match &config.scopes[..] {
            [] => without_log(self.manager.select_initial_scopes(&[])).await,
            configured => configured.to_vec(),
        };
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let mut registered_secret = None;
        let client_id = if let Some(id) = &config.client_id {
            let mut client = OAuthClientConfig::new(id, redirect);
            client.client_secret = config.client_secret.as_ref().map(|secret| secret.expose().to_owned());
            self.manager.configure_client(client).map_err(metadata_error)?;
            id.clone()
        } else if self.metadata.registration_endpoint.is_none() {
            return Err(LoginError::NoRegistration(clean_reason(&self.issuer)));
        } else {
            let registered = without_log(self.manager.register_client(CLIENT_NAME, redirect, &scopes)).await;
            let registered = registered.map_err(|error| self.registration_error(error))?;
            registered_secret = registered.client_secret;
            registered.client_id
        };
        let url = without_log(self.manager.get_authorization_url(&scopes)).await.map_err(metadata_error)?;
        let url =
            Url::parse(&url).map_err(|_| LoginError::Metadata("the authorization endpoint is not a URL".to_owned()))?;
        self.http.check(&url).await?;
        Ok(PendingAuthorization { authority: self, url, client_id, registered_secret })
    }

    fn registration_error(&self, error: AuthError) -> LoginError {
        match error {
            AuthError::RegistrationFailed(reason) => {
                LoginError::Registration { issuer: clean_reason(&self.issuer), reason: clean_reason(&reason) }
            }
            error => metadata_error(error),
        }
    }
}

/// Checks that the metadata of an issuer are at its own URL. The crate also accepts documents at
/// other URLs.
async fn check_issuer(issuer: &str, http: &OAuthHttp) -> Result<(), LoginError> {
    let expected = Url::parse(issuer)
        .map_err(|_| LoginError::Metadata(format!("the issuer `{}` is not a URL", clean_reason(issuer))))?;
    http.check(&expected).await?;
    match http.last_url() {
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

/// An authorization that waits for the user.
pub(super) struct PendingAuthorization {
    authority: AuthorizationServer,
    url: Url,
    client_id: String,
    registered_secret: Option<String>,
}

impl PendingAuthorization {
    /// Returns the authorization URL.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn issuer(&self) -> &str {
        self.authority.issuer()
    }

    /// Returns the `state` that the redirect must repeat.
    pub(super) fn state(&self) -> Option<String> {
        self.parameter("state")
    }

    fn parameter(&self, name: &str) -> Option<String> {
        self.url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// Exchanges the code for tokens for the server at `url`.
    pub(super) async fn finish(&self, url: &str, redirect: &Redirect) -> Result<Grant, LoginError> {
        let AuthorizationServer { manager, metadata, issuer, .. } = &self.authority;
        let traded = manager.exchange_code_for_token_with_issuer(
            redirect.code.expose(),
            &redirect.state,
            redirect.issuer.as_deref(),
        );
        let refused =
            |reason: &str| LoginError::Exchange { issuer: clean_reason(issuer), reason: clean_reason(reason) };
        let response = without_log(traded).await.map_err(|error| match error {
            AuthError::TokenExchangeFailed(reason) => refused(&reason),
            error => metadata_error(error),
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
        let scopes = without_log(manager.get_current_scopes()).await;
        grant.with(&response, scopes).ok_or_else(|| refused("the response has no bearer token"))
    }
}

/// The error of a refresh.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefreshError {
    /// The login has expired; the user has to log in again.
    #[error("the login has expired")]
    Over,
    /// A temporary failure.
    #[error("`{issuer}` did not refresh the login: {reason}")]
    Failed { issuer: String, reason: String },
}

/// Exchanges the refresh token for new tokens at the issuer of the old ones.
///
/// `secret` is the configured secret of the client that the login was made with.
pub(super) async fn refresh(
    grant: &Grant,
    secret: Option<&Secret>,
    http: &Arc<OAuthHttp>,
) -> Result<Grant, RefreshError> {
    let failed =
        |reason: &str| RefreshError::Failed { issuer: clean_reason(&grant.issuer), reason: clean_reason(reason) };
    http.guard().allow_network(grant.network);
    let client: Arc<dyn OAuthHttpClient> = Arc::<OAuthHttp>::clone(http);
    // Without a discovery the crate uses the URL of the server as the resource; the resource
    // of the original login takes precedence.
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
    let response = without_log(manager.refresh_token()).await.map_err(|error| match error {
        AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired => RefreshError::Over,
        AuthError::TokenRefreshFailed(reason) => failed(&reason),
        error => failed(&error.to_string()),
    })?;
    let scopes = without_log(manager.get_current_scopes()).await;
    grant.clone().with(&response, scopes).ok_or_else(|| failed("the response has no bearer token"))
}

impl Grant {
    /// Returns the grant with the tokens of a response, if they are valid.
    fn with(mut self, response: &OAuthTokenResponse, scopes: Vec<String>) -> Option<Self> {
        // The crate's accessors need traits of another crate.
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

/// Returns whether a token is a valid header value.
fn is_header_safe(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| matches!(byte, 0x21..=0x7E))
}

/// Converts an error of the crate.
fn metadata_error(error: AuthError) -> LoginError {
    match error {
        AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => {
            LoginError::Issuer { expected: clean_reason(&expected_issuer), found: clean_reason(&received_issuer) }
        }
        AuthError::PkceUnsupported => LoginError::Metadata("PKCE with S256 is not supported".to_owned()),
        AuthError::NoAuthorizationSupport => LoginError::Undiscovered,
        AuthError::MetadataError(reason) => LoginError::Metadata(clean_reason(&reason)),
        error => LoginError::Metadata(clean_reason(&error.to_string())),
    }
}
