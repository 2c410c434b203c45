//! The numbers of the LLM API proxy in the form of the control API.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use pegboard_gateway::control::{
    LlmProxyStatus, ProxyRouteStatus,
    host::{LlmProxies, LlmProxy},
};
use pegboard_proxy::{Proxy, Route, RouteNumbers};
use tokio::runtime::Handle;

use crate::running_proxies;

/// The proxy whose routes are on the gateway's listener.
#[derive(Debug)]
pub(crate) struct ProxyNumbers(pub(crate) Proxy);

impl LlmProxy for ProxyNumbers {
    fn routes(&self) -> BTreeMap<String, ProxyRouteStatus> {
        route_statuses(self.0.numbers())
    }
}

/// The LLM API proxies that are registered in the state folder.
#[derive(Debug)]
pub(super) struct RunningProxies {
    /// The state folder; without one, there are none.
    state: Option<PathBuf>,
    runtime: Handle,
}

impl RunningProxies {
    /// Must be called inside a runtime.
    pub(super) fn new(state: Option<&Path>) -> Self {
        Self { state: state.map(Path::to_owned), runtime: Handle::current() }
    }
}

impl LlmProxies for RunningProxies {
    fn list(&self) -> Vec<LlmProxyStatus> {
        let Some(state) = &self.state else { return Vec::new() };
        let listed = self.runtime.block_on(running_proxies::list(state)).into_iter();
        // The console polls; a higher level would flood the log.
        let tell = |error| tracing::debug!(error = pegboard_upstream::with_causes(&error), "proxy not shown");
        listed.filter_map(|proxy| proxy.map_err(tell).ok()).collect()
    }
}

/// Returns the numbers of all routes in the form of the control API.
pub(crate) fn route_statuses(numbers: BTreeMap<Route, RouteNumbers>) -> BTreeMap<String, ProxyRouteStatus> {
    let status = |(route, numbers): (Route, RouteNumbers)| {
        let RouteNumbers {
            requests,
            bypassed,
            tools_in,
            tools_sent,
            tokens_saved,
            hidden_rounds,
            failed_rounds,
            misses,
            retries,
            added_ms,
            cache_read_tokens,
            other_requests: _,
            definition_tokens_in: _,
            definition_tokens_sent: _,
        } = numbers;
        let status = ProxyRouteStatus {
            requests,
            bypassed,
            tools_in,
            tools_sent,
            tokens_saved,
            hidden_rounds,
            failed_rounds,
            misses,
            retries,
            added_ms,
            cache_read_tokens,
        };
        (route.to_string(), status)
    };
    numbers.into_iter().map(status).collect()
}
