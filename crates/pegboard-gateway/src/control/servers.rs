//! Actions on servers.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::{Response, StatusCode},
    routing::post,
};
use pegboard_upstream::{State as ServerState, Upstream, config::TransportConfig};
use serde_json::json;
use tokio::time::Instant;

use super::{
    ControlState, Options,
    caller::ControlCaller,
    reload_configuration,
    responses::{blocking, error_response, json_response},
};
use crate::setup::GRACE;

/// An action on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start,
    Stop,
    Restart,
    Enable,
    Disable,
    Login,
}

impl Action {
    const ALL: [Self; 6] = [Self::Start, Self::Stop, Self::Restart, Self::Enable, Self::Disable, Self::Login];

    fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Login => "login",
        }
    }
}

pub(super) fn routes() -> Router<ControlState> {
    Router::new().route("/control/servers/{name}/{action}", post(act))
}

/// Returns the actions that are possible in the state of a server and permitted to a caller.
pub(super) fn actions_of(
    server: &Upstream,
    options: &Options,
    sees_whole_server: bool,
    has_full_access: bool,
) -> Vec<&'static str> {
    let has_file = has_full_access && options.host.configuration.is_some();
    let is_possible = |action: &Action| match (action, server.state()) {
        (Action::Enable, ServerState::Disabled) => has_file,
        (Action::Login, state) => {
            let is_remote = matches!(server.config().transport, TransportConfig::Http { .. });
            is_remote && state != ServerState::Disabled && has_full_access && options.host.logins.is_some()
        }
        (_, ServerState::Disabled) | (Action::Enable, _) => false,
        (Action::Disable, _) => has_file,
        (Action::Start, state) => sees_whole_server && (state == ServerState::Stopped || state.is_resting()),
        (Action::Stop | Action::Restart, ServerState::Stopped) => false,
        (Action::Stop | Action::Restart, _) => sees_whole_server,
    };
    Action::ALL.into_iter().filter(is_possible).map(Action::as_str).collect()
}

async fn act(
    State(state): State<ControlState>,
    Path((name, action)): Path<(String, String)>,
    asking: ControlCaller,
) -> Response<Body> {
    let Some(action) = Action::ALL.into_iter().find(|one| one.as_str() == action) else {
        return error_response(StatusCode::NOT_FOUND, &format!("unknown action `{action}`"));
    };
    let is_theirs = asking.sees_whole_server(&state.control.catalog.catalog(), &name);
    let found = state.control.servers().iter().find(|server| server.name() == name).filter(|_| is_theirs).cloned();
    // For a caller that may not see it, a server does not exist.
    let Some(server) = found else {
        return error_response(StatusCode::NOT_FOUND, &format!("server `{name}` not found"));
    };
    match action {
        Action::Enable | Action::Disable => switch(&state, &asking, &server, action).await,
        Action::Login => login(&state, &asking, &server).await,
        Action::Start | Action::Stop | Action::Restart => run(&state, &server, action).await,
    }
}

/// Starts, stops or restarts a server.
async fn run(state: &ControlState, server: &Arc<Upstream>, action: Action) -> Response<Body> {
    let (control, name) = (&state.control, server.name());
    if !server.config().is_enabled {
        return error_response(StatusCode::CONFLICT, "this server is disabled in the configuration");
    }
    let is_stopped = server.state() == ServerState::Stopped;
    if is_stopped && action == Action::Stop {
        return error_response(StatusCode::CONFLICT, "this server is stopped already");
    }
    if !control.restarts.admit(name, Instant::now()) {
        return error_response(StatusCode::TOO_MANY_REQUESTS, "this server was restarted less than a second ago");
    }
    tracing::info!(server = name, action = action.as_str(), "server action requested");
    let is_done = match action {
        Action::Stop => control.fleet.pause(name, GRACE).await,
        _ => control.fleet.restart(name, GRACE).await,
    };
    if !is_done {
        return error_response(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping");
    }
    let mut done = json!({"server": name, "action": action.as_str()});
    if action == Action::Restart {
        done["restarting"] = name.into();
    }
    json_response(StatusCode::ACCEPTED, &done)
}

/// Enables or disables a server in the configuration file.
async fn switch(
    state: &ControlState,
    asking: &ControlCaller,
    server: &Arc<Upstream>,
    action: Action,
) -> Response<Body> {
    let file = match super::host::part_for(asking, state.options.host.configuration.as_ref(), "the configuration file")
    {
        Ok(file) => Arc::clone(file),
        Err(response) => return *response,
    };
    let is_on = action == Action::Enable;
    if server.config().is_enabled == is_on {
        let message = if is_on { "this server is enabled already" } else { "this server is disabled already" };
        return error_response(StatusCode::CONFLICT, message);
    }
    let name = server.name().to_owned();
    tracing::info!(server = name, action = action.as_str(), "server action requested");
    match blocking(move || file.switch(&name, is_on)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return error.response(),
        Err(response) => return response,
    }
    match reload_configuration(&state.options).await {
        Ok(_) => json_response(StatusCode::ACCEPTED, &json!({"server": server.name(), "action": action.as_str()})),
        Err(response) => *response,
    }
}

/// Begins the login of a remote server.
async fn login(state: &ControlState, asking: &ControlCaller, server: &Arc<Upstream>) -> Response<Body> {
    let logins = match super::host::part_for(asking, state.options.host.logins.as_ref(), "logging in") {
        Ok(logins) => Arc::clone(logins),
        Err(response) => return *response,
    };
    let name = server.name().to_owned();
    match blocking(move || logins.begin(&name)).await {
        Ok(Ok(url)) => {
            let done = json!({"server": server.name(), "action": Action::Login.as_str(), "url": url});
            json_response(StatusCode::ACCEPTED, &done)
        }
        Ok(Err(error)) => error.response(),
        Err(response) => response,
    }
}
