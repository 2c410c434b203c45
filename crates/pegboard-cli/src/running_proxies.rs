//! Running LLM API proxies: `pegboard proxy` without a gateway.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use pegboard_gateway::control::{LlmProxyStatus, ProxyRouteStatus};
use pegboard_proxy::STATUS_PATH;
use tokio::task::JoinSet;

use crate::{
    console::route_statuses,
    error::CliError,
    gateway_client::{EndpointError, GatewayEndpoint},
    running_gateways::{self, RunningGateway},
};

/// Maximum number of proxies whose status is requested.
const MAX_PROXIES: usize = 64;

/// The status of a registered proxy cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the numbers of the LLM API proxy at `{endpoint}`")]
pub(crate) struct ProxyError {
    endpoint: String,
    source: NumbersError,
}

/// The reason why the status of a proxy cannot be read.
#[derive(Debug, thiserror::Error)]
enum NumbersError {
    #[error("cannot create an HTTP client")]
    Client(#[source] CliError),
    #[error(transparent)]
    Ask(#[from] EndpointError),
    #[error("invalid status response")]
    Format(#[from] serde_json::Error),
}

/// Returns the status of each proxy that is registered in the state folder, ordered by process id. The requests run in
/// parallel.
pub(crate) async fn list(state: &Path) -> Vec<Result<LlmProxyStatus, ProxyError>> {
    let registered = running_gateways::list(&running_gateways::proxy_folder(state));
    let mut asking = JoinSet::new();
    for registered in registered.into_iter().take(MAX_PROXIES) {
        asking.spawn(async move { (registered.pid, status(registered).await) });
    }
    let mut asked: Vec<_> = asking.join_all().await;
    asked.sort_by_key(|(pid, _)| *pid);
    asked.into_iter().filter_map(|(_, status)| status).collect()
}

/// Requests the status of a proxy; `None` if it has no address.
async fn status(registered: RunningGateway) -> Option<Result<LlmProxyStatus, ProxyError>> {
    let RunningGateway { pid, endpoint, socket, .. } = registered;
    let endpoint = endpoint?;
    Some(match numbers(&endpoint, socket).await {
        Ok(routes) => Ok(LlmProxyStatus { pid, endpoint, routes }),
        Err(source) => Err(ProxyError { endpoint, source }),
    })
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
