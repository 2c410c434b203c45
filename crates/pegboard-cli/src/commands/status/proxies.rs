//! Running LLM API proxies.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use pegboard_gateway::control::ProxyRouteStatus;
use pegboard_proxy::STATUS_PATH;
use serde::Serialize;

use crate::{
    console::route_statuses,
    error::{CliError, warn},
    gateway_client::{EndpointError, GatewayEndpoint},
    running_gateways,
};

/// A running LLM API proxy.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct RunningProxy {
    pub(super) pid: u32,
    /// The address for programs.
    pub(super) endpoint: String,
    /// The numbers of each route, by its name.
    pub(super) routes: BTreeMap<String, ProxyRouteStatus>,
}

/// Returns the proxies that are registered in the state folder and answer, by process number.
pub(super) async fn list(state: Option<&Path>) -> Vec<RunningProxy> {
    let registered = state.map(running_gateways::proxy_folder).map(|folder| running_gateways::list(&folder));
    let mut proxies = Vec::new();
    for registered in registered.unwrap_or_default() {
        let Some(endpoint) = registered.endpoint else { continue };
        match numbers(&endpoint, registered.socket).await {
            Ok(routes) => proxies.push(RunningProxy { pid: registered.pid, endpoint, routes }),
            Err(error) => {
                // This command has no log.
                let error = pegboard_upstream::with_causes(&error);
                warn(&format!("cannot read the numbers of the LLM API proxy at `{endpoint}`: {error}"));
            }
        }
    }
    proxies
}

/// An error of a request for the numbers of a proxy.
#[derive(Debug, thiserror::Error)]
enum NumbersError {
    #[error("there can be no request")]
    Client(#[source] CliError),
    #[error(transparent)]
    Ask(#[from] EndpointError),
    #[error("the numbers cannot be read")]
    Format(#[from] serde_json::Error),
}

async fn numbers(endpoint: &str, socket: Option<PathBuf>) -> Result<BTreeMap<String, ProxyRouteStatus>, NumbersError> {
    // Without a socket, the address is asked without a token: a proxy with tokens answers 401, also on loopback.
    let endpoint = match socket {
        Some(socket) => GatewayEndpoint::with_socket(socket),
        None => GatewayEndpoint::at(endpoint, None, false),
    };
    let body = endpoint.map_err(NumbersError::Client)?.get(STATUS_PATH).await?;
    Ok(route_statuses(serde_json::from_slice(&body)?))
}
