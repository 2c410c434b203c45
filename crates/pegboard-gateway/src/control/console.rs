//! Who a console is, and how it gets its credential.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Response, StatusCode},
    routing::{get, post},
};
use pegboard_discovery::DialectName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CONSOLE_URL, ControlState,
    access::{CODE_LIFETIME, CREDENTIAL_LIFETIME, NoRandomness},
    caller::{CONSOLE, ControlCaller, LOGIN, bearer, is_from_other_origin},
    responses::{error_response, hint_response, json_response, read_body},
};
use crate::{caller::Caller, setup::Setup};

pub(super) fn routes() -> Router<ControlState> {
    Router::new()
        .route(CONSOLE, get(console))
        .route(LOGIN, post(login))
        .route("/control/console/logout", post(logout))
        .route(CONSOLE_URL, post(url))
}

/// Answers who the caller is. Without a credential, only how to get one.
async fn console(State(state): State<ControlState>, request: Request) -> Response<Body> {
    let setup = state.control.setups.current();
    let access = if setup.tokens.is_empty() { "code" } else { "token" };
    let mut answer = json!({"version": env!("CARGO_PKG_VERSION"), "access": access, "signedIn": false});
    let asking = request.extensions().get::<ControlCaller>();
    if let (Some(asking), Some(fields)) = (asking, answer.as_object_mut()) {
        fields.insert("signedIn".to_owned(), true.into());
        fields.extend(details(&state, &setup, asking));
    }
    json_response(StatusCode::OK, &answer)
}

fn details(state: &ControlState, setup: &Setup, asking: &ControlCaller) -> serde_json::Map<String, Value> {
    let full = asking.has_full_access();
    let name = match asking.caller() {
        Caller::Token(_) => Some(setup.token_name(asking.caller())),
        Caller::Anybody | Caller::Pipe => None,
    };
    let host = &state.options.host;
    let tokens: Vec<&str> = match full {
        true => setup.tokens.iter().map(|token| token.name.as_str()).collect(),
        false => Vec::new(),
    };
    let dialect = setup.profile.dialect();
    let ranker = (setup.rankers)(dialect).name();
    let rankers = host.rankers.as_ref().map_or_else(|| vec![ranker], |rankers| rankers.names());
    let kept = &setup.console.activity;
    let fields = json!({
        "name": name,
        "restricted": !full,
        "may": {
            "change": true,
            "configure": full && host.configuration.is_some(),
            "login": full && host.logins.is_some(),
            "logs": full && state.options.logs.is_some(),
            "callTools": true,
            "searchAs": full && !tokens.is_empty(),
            "approve": full && setup.pins.is_some(),
            "health": full && host.doctor.is_some(),
            "clients": full && host.clients.is_some(),
            "cases": full && setup.console.folder.is_some(),
            "savings": full,
        },
        "rankers": rankers,
        "defaultRanker": ranker,
        "dialects": DialectName::NAMES,
        "defaultDialect": dialect.as_str(),
        "tokens": tokens,
        "activity": {
            "entries": kept.entries,
            "days": kept.lifetime.as_secs() / 86_400,
            "disk": kept.is_on_disk && setup.console.folder.is_some(),
            "contents": kept.contents.as_str(),
        },
        "prices": full.then_some(setup.console.prices.as_ref()).flatten(),
        "endpoint": state.options.endpoint,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => serde_json::Map::new(),
    }
}

#[derive(Debug, Deserialize)]
struct LoginRequest {
    code: String,
}

/// Exchanges a code for a credential.
async fn login(State(state): State<ControlState>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    // A page of another origin may have guessed or seen the code.
    if is_from_other_origin(&parts.headers) {
        return error_response(StatusCode::FORBIDDEN, "a code can be exchanged only by the console itself");
    }
    let Some(access) = state.options.access.as_ref().filter(|_| state.control.setups.current().tokens.is_empty())
    else {
        return error_response(StatusCode::NOT_FOUND, "this gateway has no codes; use a token of its configuration");
    };
    let LoginRequest { code } = match read_body(body).await {
        Ok(request) => request,
        Err(response) => return response,
    };
    match access.exchange(&code) {
        Ok(Some(credential)) => {
            tracing::info!("console signed in");
            let expires = millis(CREDENTIAL_LIFETIME);
            json_response(StatusCode::OK, &json!({"credential": credential, "expiresInMs": expires}))
        }
        Ok(None) => hint_response(
            StatusCode::UNAUTHORIZED,
            "code already used or expired",
            "`pegboard console` prints a new URL",
        ),
        Err(error) => no_randomness(&error),
    }
}

/// Forgets the credential of the request.
async fn logout(State(state): State<ControlState>, request: Request) -> Response<Body> {
    if let (Some(access), Some(given)) = (&state.options.access, bearer(request.headers())) {
        access.forget(given);
    }
    json_response(StatusCode::OK, &json!({"done": "signed out"}))
}

/// Makes a URL with a code, for the owner of the gateway.
async fn url(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    let may_sign_in = asking.is_owner() || matches!(asking.caller(), Caller::Token(_));
    if !may_sign_in {
        return error_response(StatusCode::FORBIDDEN, "only the gateway's owner can create this URL");
    }
    let Some(page) = &state.options.console else {
        return error_response(StatusCode::NOT_FOUND, "this gateway serves no console");
    };
    let access = state.options.access.as_ref().filter(|_| state.control.setups.current().tokens.is_empty());
    match access.map(|access| access.new_code()).transpose() {
        Ok(Some(code)) => {
            let url = format!("{page}#code={code}");
            json_response(StatusCode::OK, &json!({"url": url, "expiresInMs": millis(CODE_LIFETIME)}))
        }
        // The page asks for a token.
        Ok(None) => json_response(StatusCode::OK, &json!({"url": page, "expiresInMs": 0})),
        Err(error) => no_randomness(&error),
    }
}

fn no_randomness(error: &NoRandomness) -> Response<Body> {
    error_response(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
