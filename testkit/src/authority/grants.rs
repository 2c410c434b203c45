//! What is given to whom, and what is refused.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    Rules,
    forms::{decode, encode, one, pairs},
};
use crate::provider::{http::Request, ids::base64};

/// An answer.
pub(super) struct AuthorityAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

impl AuthorityAnswer {
    fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("Content-Type", "application/json".to_owned()), ("Cache-Control", "no-store".to_owned())];
        Self { status, headers, body: body.to_string() }
    }

    pub(super) fn text(status: u16, body: &str) -> Self {
        Self { status, headers: vec![("Content-Type", "text/plain".to_owned())], body: body.to_owned() }
    }
}

struct Client {
    secret: Option<String>,
    redirects: Vec<String>,
}

struct Code {
    client: String,
    redirect: String,
    challenge: String,
    /// The login that it begins.
    login: u64,
    is_used: bool,
}

/// Everything that it remembers.
#[derive(Default)]
pub(super) struct State {
    pub(super) rules: Rules,
    pub(super) events: Vec<String>,
    pub(super) secrets: Vec<String>,
    /// Its own address.
    pub(super) url: String,
    clients: BTreeMap<String, Client>,
    codes: BTreeMap<String, Code>,
    /// Good tokens, with their logins.
    access: BTreeMap<String, u64>,
    /// Refresh tokens with their logins and clients; those that were used are not good any more.
    refresh: BTreeMap<String, (u64, String, bool)>,
    named: u64,
}

type Refused = (&'static str, &'static str);

impl State {
    pub(super) fn new(rules: Rules, url: String) -> Self {
        let redirects = vec![rules.redirect.clone()];
        let client = |(id, secret): &(String, String)| {
            (id.clone(), Client { secret: Some(secret.clone()), redirects: redirects.clone() })
        };
        let clients = rules.clients.iter().map(client).collect();
        let secrets = rules.clients.iter().map(|(_, secret)| secret.clone()).collect();
        Self { rules, url, clients, secrets, ..Self::default() }
    }

    pub(super) fn expire(&mut self) {
        self.access.clear();
    }

    pub(super) fn end_logins(&mut self) {
        self.access.clear();
        self.refresh.clear();
    }

    fn note(&mut self, event: impl Into<String>) {
        self.events.push(event.into());
    }

    /// Creates a new secret.
    fn secret(&mut self, kind: &str) -> String {
        self.named += 1;
        let secret = format!("{kind}-{:x}", Sha256::digest(format!("{kind}{}{}", self.url, self.named)));
        self.secrets.push(secret.clone());
        secret
    }

    /// Checks a request to the protected server; the error is the answer to a rejected one.
    pub(super) fn admit(&mut self, request: &Request) -> Result<(), AuthorityAnswer> {
        let token = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if let Some(place) = self.rules.moved_to.clone() {
            self.note("mcp: sent away");
            return Err(AuthorityAnswer { status: 307, headers: vec![("Location", place)], body: String::new() });
        }
        match token {
            Some(token) if self.access.contains_key(token) => {
                self.note("mcp: let in");
                return Ok(());
            }
            Some(_) => self.note("mcp: token refused"),
            None => self.note("mcp: no token"),
        }
        let error = if token.is_some() { ", error=\"invalid_token\"" } else { "" };
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.url);
        let challenge = format!("Bearer resource_metadata=\"{metadata}\", scope=\"tools\"{error}");
        Err(AuthorityAnswer { status: 401, headers: vec![("WWW-Authenticate", challenge)], body: String::new() })
    }

    /// The answer to anything else.
    pub(super) fn answer(&mut self, request: &Request) -> AuthorityAnswer {
        if self.rules.is_out_of_order {
            return AuthorityAnswer::text(503, "out of order");
        }
        match (request.method.as_str(), request.path()) {
            ("GET", "/.well-known/oauth-protected-resource/mcp") => {
                let named = self.rules.named.clone().unwrap_or_else(|| self.url.clone());
                let resource = format!("{}/mcp", self.url);
                AuthorityAnswer::json(
                    200,
                    &json!({"resource": resource, "authorization_servers": [named], "scopes_supported": ["tools"]}),
                )
            }
            ("GET", "/.well-known/oauth-authorization-server") => AuthorityAnswer::json(200, &self.metadata()),
            ("POST", "/register") if self.rules.registers => self.register(request),
            ("GET", "/authorize") => self.authorize(request),
            ("POST", "/token") => {
                let given = self.token(request);
                self.settle(given)
            }
            ("POST", "/revoke") if self.rules.revokes => {
                let revoked = self.revoke(request);
                self.settle(revoked)
            }
            _ => AuthorityAnswer::text(404, "there is nothing here"),
        }
    }

    fn settle(&mut self, outcome: Result<Value, Refused>) -> AuthorityAnswer {
        outcome.map_or_else(
            |(error, why)| {
                self.note(format!("refused: {why}"));
                let status = if error == "invalid_client" { 401 } else { 400 };
                AuthorityAnswer::json(status, &json!({"error": error, "error_description": why}))
            },
            |given| AuthorityAnswer::json(200, &given),
        )
    }

    fn metadata(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.url);
        let mut metadata = json!({
            "issuer": self.url,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": self.rules.token_endpoint.clone().unwrap_or_else(|| at("/token")),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": true,
        });
        if self.rules.registers {
            metadata["registration_endpoint"] = at("/register").into();
        }
        if self.rules.revokes {
            metadata["revocation_endpoint"] = at("/revoke").into();
        }
        metadata
    }

    fn register(&mut self, request: &Request) -> AuthorityAnswer {
        let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let redirects: Vec<String> = serde_json::from_value(asked["redirect_uris"].clone()).unwrap_or_default();
        if redirects.is_empty() || !redirects.iter().all(|uri| uri.starts_with("http://127.0.0.1:")) {
            self.note("refused: a redirect that is not on the person's machine");
            return AuthorityAnswer::json(400, &json!({"error": "invalid_redirect_uri"}));
        }
        let secret = self.rules.gives_secrets.then(|| self.secret("client-secret"));
        self.named += 1;
        let id = format!("client-{}", self.named);
        let mut registered = json!({
            "client_id": id, "client_name": asked["client_name"], "redirect_uris": redirects,
            "token_endpoint_auth_method": "none",
        });
        if let Some(secret) = &secret {
            registered["client_secret"] = secret.as_str().into();
            registered["token_endpoint_auth_method"] = "client_secret_basic".into();
        }
        self.clients.insert(id, Client { secret, redirects });
        self.note(format!("registered {}", asked["client_name"].as_str().unwrap_or_default()));
        AuthorityAnswer::json(201, &registered)
    }

    fn authorize(&mut self, request: &Request) -> AuthorityAnswer {
        let query = pairs(request.target.split_once('?').map_or("", |(_, query)| query));
        let (redirect, state) = match self.asked_well(&query) {
            Ok(asked) => asked,
            Err(why) => {
                self.note(format!("refused: {why}"));
                return AuthorityAnswer::text(400, why);
            }
        };
        let issuer = self.rules.issuer_of_answers.clone().unwrap_or_else(|| self.url.clone());
        let end = format!("state={}&iss={}", encode(&state), encode(&issuer));
        let location = if self.rules.denies {
            self.note("denied");
            format!("{redirect}?error=access_denied&error_description=not+today&{end}")
        } else {
            let code = self.secret("code");
            let value = |name: &str| one(&query, name).unwrap_or_default().to_owned();
            let (client, challenge) = (value("client_id"), value("code_challenge"));
            let login = self.named;
            let new = Code { client, redirect: redirect.clone(), challenge, login, is_used: false };
            self.codes.insert(code.clone(), new);
            self.note(format!("allowed {}", value("scope")));
            format!("{redirect}?code={code}&{end}")
        };
        AuthorityAnswer { status: 302, headers: vec![("Location", location)], body: String::new() }
    }

    /// Where the person is sent back to, and with which state, if all is well.
    fn asked_well(&self, query: &[(String, String)]) -> Result<(String, String), &'static str> {
        let value = |name: &str| one(query, name).filter(|value| !value.is_empty());
        let client = value("client_id").and_then(|id| self.clients.get(id)).ok_or("an unknown client")?;
        let redirect = value("redirect_uri").filter(|uri| client.redirects.iter().any(|known| known == uri));
        let redirect = redirect.ok_or("a redirect that was not registered")?;
        if value("response_type") != Some("code") {
            return Err("a response that is no code");
        }
        if value("code_challenge_method") != Some("S256") || value("code_challenge").is_none_or(|it| it.len() != 43) {
            return Err("no challenge of S256");
        }
        if value("resource") != Some(format!("{}/mcp", self.url).as_str()) {
            return Err("a login for another server");
        }
        let state = value("state").ok_or("no state")?;
        Ok((redirect.to_owned(), state.to_owned()))
    }

    /// The client that sends a form, if it can prove who it is.
    fn client(&self, request: &Request, form: &[(String, String)]) -> Result<String, Refused> {
        let basic = request.header("authorization").and_then(|value| value.strip_prefix("Basic "));
        let unknown = ("invalid_client", "a client that cannot prove who it is");
        let (id, client) = match (basic, one(form, "client_id")) {
            (Some(proof), _) => {
                let is_it = |(id, client): &(&String, &Client)| {
                    // A space is written in two ways.
                    client.secret.as_ref().is_some_and(|secret| {
                        let pair = format!("{}:{}", encode(id), encode(secret));
                        [pair.replace("%20", "+"), pair].iter().any(|pair| base64(pair.as_bytes()) == proof)
                    })
                };
                self.clients.iter().find(is_it).ok_or(unknown)?
            }
            (None, Some(id)) => self.clients.get_key_value(&decode(id)).ok_or(unknown)?,
            (None, None) => return Err(unknown),
        };
        if client.secret.is_some() && basic.is_none() { Err(unknown) } else { Ok(id.clone()) }
    }

    fn token(&mut self, request: &Request) -> Result<Value, Refused> {
        let form = pairs(&String::from_utf8_lossy(&request.body));
        let client = self.client(request, &form)?;
        if one(&form, "resource") != Some(format!("{}/mcp", self.url).as_str()) {
            return Err(("invalid_target", "a token for another server"));
        }
        match one(&form, "grant_type") {
            Some("authorization_code") => {
                let login = self.redeem(&client, &form)?;
                self.note("gave a token");
                let refresh = self.secret("refresh");
                self.refresh.insert(refresh.clone(), (login, client, true));
                Ok(self.give(login, Some(refresh)))
            }
            Some("refresh_token") => {
                let (login, refresh) = self.renew(&client, one(&form, "refresh_token").unwrap_or_default())?;
                self.note("renewed a token");
                Ok(self.give(login, refresh))
            }
            _ => Err(("unsupported_grant_type", "an unknown grant")),
        }
    }

    fn give(&mut self, login: u64, refresh: Option<String>) -> Value {
        let access = self.secret("access");
        self.access.insert(access.clone(), login);
        let mut given = json!({
            "access_token": access, "token_type": "Bearer", "expires_in": self.rules.lifetime, "scope": "tools",
        });
        if let Some(refresh) = refresh {
            given["refresh_token"] = refresh.into();
        }
        given
    }

    /// The login that a code begins.
    fn redeem(&mut self, client: &str, form: &[(String, String)]) -> Result<u64, Refused> {
        let refuse = |why| Err(("invalid_grant", why));
        let Some(code) = one(form, "code").and_then(|code| self.codes.get_mut(code)) else {
            return refuse("an unknown code");
        };
        if std::mem::replace(&mut code.is_used, true) {
            let login = code.login;
            self.end(login);
            return refuse("a code that was used before");
        }
        if code.client != client {
            return refuse("a code of another client");
        }
        if one(form, "redirect_uri") != Some(code.redirect.as_str()) {
            return refuse("another redirect than before");
        }
        let verifier = one(form, "code_verifier").unwrap_or_default();
        let challenge = base64(&Sha256::digest(verifier)).replace('+', "-").replace('/', "_").replace('=', "");
        if !(43..=128).contains(&verifier.len()) || challenge != code.challenge {
            return refuse("a verifier that does not fit");
        }
        Ok(code.login)
    }

    /// The login of a refresh token, and the one that takes its place.
    fn renew(&mut self, client: &str, token: &str) -> Result<(u64, Option<String>), Refused> {
        let refuse = |why| Err(("invalid_grant", why));
        match self.refresh.get_mut(token) {
            None => refuse("an unknown refresh token"),
            Some((_, owner, _)) if owner != client => refuse("a refresh token of another client"),
            Some((login, _, false)) => {
                let login = *login;
                self.end(login);
                refuse("a refresh token that was used before")
            }
            Some((login, _, is_good)) => {
                let login = *login;
                if !self.rules.rotates {
                    return Ok((login, None));
                }
                *is_good = false;
                let next = self.secret("refresh");
                self.refresh.insert(next.clone(), (login, client.to_owned(), true));
                Ok((login, Some(next)))
            }
        }
    }

    fn end(&mut self, login: u64) {
        self.access.retain(|_, known| *known != login);
        self.refresh.retain(|_, (known, _, _)| *known != login);
    }

    fn revoke(&mut self, request: &Request) -> Result<Value, Refused> {
        let form = pairs(&String::from_utf8_lossy(&request.body));
        self.client(request, &form)?;
        let token = one(&form, "token").unwrap_or_default();
        if let Some((login, _, _)) = self.refresh.get(token) {
            self.end(*login);
            self.note("took a login back");
        } else if self.access.remove(token).is_some() {
            self.note("took a token back");
        }
        Ok(json!({}))
    }
}
