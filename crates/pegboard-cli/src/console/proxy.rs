//! The numbers of the LLM API proxy in the form of the control API.

use std::collections::BTreeMap;

use pegboard_gateway::control::{ProxyRouteStatus, host::LlmProxy};
use pegboard_proxy::{Proxy, Route, RouteNumbers};

/// The proxy whose routes are on the gateway's listener.
#[derive(Debug)]
pub(crate) struct ProxyNumbers(pub(crate) Proxy);

impl LlmProxy for ProxyNumbers {
    fn routes(&self) -> BTreeMap<String, ProxyRouteStatus> {
        route_statuses(self.0.numbers())
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
