//! Tools that wait for approval.

use std::{path::PathBuf, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Response, StatusCode},
    routing::{get, post},
};
use pegboard_mcp::json::Raw;
use pegboard_upstream::{Pins, PinsError, WaitingPin, config::Pinning};
use serde::{Deserialize, Serialize};

use super::{
    ControlState,
    caller::ControlCaller,
    host::part_for,
    reload_configuration,
    responses::{answer, blocking, error_response, read_body},
};

pub(super) fn routes() -> Router<ControlState> {
    Router::new()
        .route("/control/approvals", get(approvals))
        .route("/control/approvals/approve", post(approve))
        .route("/control/approvals/reject", post(reject))
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Approval {
    id: String,
    server: String,
    tool: String,
    kind: &'static str,
    is_held: bool,
    is_variant: bool,
    since: u64,
    old: Option<Raw>,
    new: Option<Raw>,
    diff: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Approvals {
    approvals: Vec<Approval>,
    enabled: bool,
    is_holding: bool,
    rejected: Vec<ToolRef>,
}

#[derive(Debug, Serialize)]
struct ToolRef {
    server: String,
    tool: String,
}

#[derive(Debug, Serialize)]
struct ApprovalResult {
    changed: Vec<ToolRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ApprovalChoice {
    ids: Vec<String>,
}

/// Returns the folder of approvals for a caller with full access.
fn folder(state: &ControlState, asking: &ControlCaller) -> Result<Option<PathBuf>, Box<Response<Body>>> {
    match asking.has_full_access() {
        true => Ok(state.control.setups.current().pins.clone()),
        false => {
            let message = "this token is restricted; approvals concern all callers";
            Err(error_response(StatusCode::FORBIDDEN, message).into())
        }
    }
}

/// Returns the tools that wait at configured servers.
async fn waiting(state: &ControlState, folder: PathBuf) -> Result<Vec<WaitingPin>, Response<Body>> {
    let waiting = blocking(move || Pins::at(folder).waiting()).await?.map_err(|error| failed(&error))?;
    let servers = state.control.servers();
    let is_configured = |pin: &WaitingPin| servers.iter().any(|server| server.name() == pin.report.server);
    // Hidden tools were rejected.
    let is_hidden = |pin: &WaitingPin| {
        let server = servers.iter().find(|server| server.name() == pin.report.server);
        server.and_then(|server| server.config().overrides.get(&pin.report.tool)).is_some_and(|tool| tool.is_hidden)
    };
    Ok(waiting.into_iter().filter(|pin| is_configured(pin) && !is_hidden(pin)).collect())
}

fn failed(error: &PinsError) -> Response<Body> {
    error_response(StatusCode::INTERNAL_SERVER_ERROR, &pegboard_upstream::with_causes(error))
}

async fn approvals(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    let folder = match folder(&state, &asking) {
        Ok(folder) => folder,
        Err(response) => return *response,
    };
    let enabled = folder.is_some();
    let waiting = match folder {
        Some(folder) => waiting(&state, folder).await,
        None => Ok(Vec::new()),
    };
    let waiting = match waiting {
        Ok(waiting) => waiting,
        Err(response) => return response,
    };
    let servers = state.control.servers();
    let hidden = servers.iter().flat_map(|server| {
        let hidden = server.config().overrides.iter().filter(|(_, tool)| tool.is_hidden);
        hidden.map(|(tool, _)| ToolRef { server: server.name().to_owned(), tool: tool.clone() })
    });
    let shown = waiting.into_iter().map(|pin| Approval {
        id: pin.id(),
        old: pin.approved().cloned(),
        new: pin.definition().cloned(),
        server: pin.report.server,
        tool: pin.report.tool,
        kind: pin.report.kind.as_str(),
        is_held: pin.report.is_held,
        is_variant: pin.report.is_variant,
        since: pin.report.since,
        diff: pin.report.diff,
    });
    answer(&Approvals {
        approvals: shown.collect(),
        enabled,
        is_holding: servers
            .iter()
            .any(|server| server.config().pinning() == Pinning::Hold || server.config().holds_unseen()),
        rejected: hidden.collect(),
    })
}

/// Returns the chosen tools.
///
/// # Errors
/// The response if one of them does not wait any more, or has changed since it was shown.
async fn chosen(state: &ControlState, folder: PathBuf, body: Body) -> Result<Vec<WaitingPin>, Response<Body>> {
    let ApprovalChoice { ids } = read_body(body).await?;
    let mut waiting = waiting(state, folder).await?;
    waiting.retain(|pin| ids.contains(&pin.id()));
    if ids.is_empty() || waiting.len() < ids.len() {
        let message = "a selected tool is no longer pending or has changed; review again";
        return Err(error_response(StatusCode::CONFLICT, message));
    }
    Ok(waiting)
}

fn references(pins: &[WaitingPin]) -> Vec<ToolRef> {
    let reference = |pin: &WaitingPin| ToolRef { server: pin.report.server.clone(), tool: pin.report.tool.clone() };
    pins.iter().map(reference).collect()
}

async fn approve(State(state): State<ControlState>, asking: ControlCaller, request: Request) -> Response<Body> {
    let folder = match folder(&state, &asking) {
        Ok(Some(folder)) => folder,
        Ok(None) => return error_response(StatusCode::CONFLICT, "this gateway has no folder for approvals"),
        Err(response) => return *response,
    };
    let pins = match chosen(&state, folder.clone(), request.into_body()).await {
        Ok(pins) => pins,
        Err(response) => return response,
    };
    let changed = references(&pins);
    let written = blocking(move || Pins::at(folder).approve(&pins.iter().collect::<Vec<_>>())).await;
    match written {
        Ok(Ok(())) => {
            for tool in &changed {
                tracing::info!(server = tool.server, tool = tool.tool, "tool approved in the console");
            }
            answer(&ApprovalResult { changed, configuration: None })
        }
        Ok(Err(error)) => failed(&error),
        Err(response) => response,
    }
}

/// Hides tools in the configuration, so that they stay unavailable whatever is approved.
async fn reject(State(state): State<ControlState>, asking: ControlCaller, request: Request) -> Response<Body> {
    let file = match part_for(&asking, state.options.host.configuration.as_ref(), "the configuration file") {
        Ok(file) => Arc::clone(file),
        Err(response) => return *response,
    };
    let folder = match folder(&state, &asking) {
        Ok(Some(folder)) => folder,
        Ok(None) => return error_response(StatusCode::CONFLICT, "this gateway has no folder for approvals"),
        Err(response) => return *response,
    };
    let pins = match chosen(&state, folder, request.into_body()).await {
        Ok(pins) => pins,
        Err(response) => return response,
    };
    let changed = references(&pins);
    let path = file.path();
    let hide = move || {
        let mut servers: Vec<&str> = pins.iter().map(|pin| pin.report.server.as_str()).collect();
        servers.dedup();
        servers.into_iter().try_for_each(|server| {
            let of_server = pins.iter().filter(|pin| pin.report.server == server);
            let tools: Vec<String> = of_server.map(|pin| pin.report.tool.clone()).collect();
            file.hide_tools(server, &tools)
        })
    };
    match blocking(hide).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return error.response(),
        Err(response) => return response,
    }
    for tool in &changed {
        tracing::info!(server = tool.server, tool = tool.tool, "tool rejected in the console");
    }
    match reload_configuration(&state.options).await {
        Ok(_) => answer(&ApprovalResult { changed, configuration: Some(path) }),
        Err(response) => *response,
    }
}
