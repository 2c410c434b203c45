//! The path of a request through the proxy.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, Method, Response, header},
    routing::{any, get},
};
use tokio::time::Instant;

use crate::{
    access::{self, Access},
    catalog::ToolSets,
    conversation::{Conversations, Link},
    error::{ProxyError, RequestError},
    forward::{self, BodyRoom, Outgoing, RequestBody, Upstream},
    mode::{Caller, Modes},
    references::References,
    report::{self, Counters, Report, RouteNumbers},
    route::{Endpoint, ParsedPath, Route, Upstreams, WireName},
    turn::Incoming,
    wires::PassedHistory,
};

/// The path with the numbers of all routes.
pub const STATUS_PATH: &str = "/proxy/status";

/// Maximum number of bytes of all bodies that are read as a whole at a time, except the one that goes beyond it. Further
/// ones wait while they arrive.
const MAX_BODIES_BYTES: usize = 256 << 20;

/// The path with the same numbers for Prometheus.
const METRICS_PATH: &str = "/proxy/metrics";

/// The settings of a proxy.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The providers behind the routes.
    pub upstreams: Upstreams,
    /// Who may use the proxy.
    pub access: Access,
    /// What is done with the tools of requests.
    pub modes: Modes,
    /// Maximum size of a request body.
    pub max_body_bytes: usize,
    /// How many rounds a model may search in one turn before it must answer.
    pub max_hidden_rounds: usize,
    /// The folder for hidden turns, so that conversations survive a restart; without it, they are kept in memory.
    pub state: Option<PathBuf>,
    /// How long hidden turns are kept after their last use.
    pub lifetime: Duration,
    /// How long to wait for a connection to a provider.
    pub connect_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            upstreams: Upstreams::default(),
            access: Access::default(),
            modes: Modes::default(),
            max_body_bytes: 32 << 20,
            max_hidden_rounds: 8,
            state: None,
            lifetime: Duration::from_secs(7 * 24 * 60 * 60),
            connect_timeout: Duration::from_secs(15),
        }
    }
}

/// The proxy in front of LLM providers. Clones share it.
#[derive(Clone, Debug)]
pub struct Proxy(Arc<Shared>);

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) upstream: Upstream,
    pub(crate) counters: Arc<Counters>,
    pub(crate) tool_sets: Arc<ToolSets>,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) references: Arc<References>,
    body_room: BodyRoom,
}

impl Proxy {
    /// Creates a proxy.
    ///
    /// # Errors
    /// When no client could prove itself where it must, or the HTTP client or the state folder cannot be used.
    pub fn new(settings: Settings) -> Result<Self, ProxyError> {
        if settings.access.is_token_required && settings.access.tokens.is_empty() {
            return Err(ProxyError::NoToken);
        }
        let upstream = Upstream::new(settings.connect_timeout)?;
        let conversations =
            Conversations::open(settings.state.as_deref(), settings.lifetime).map_err(ProxyError::State)?;
        let room = settings.max_body_bytes.max(MAX_BODIES_BYTES).div_ceil(1024) + 1;
        Ok(Self(Arc::new(Shared {
            body_room: BodyRoom::new(room),
            settings,
            upstream,
            counters: Arc::default(),
            tool_sets: Arc::default(),
            conversations: Arc::new(conversations),
            references: Arc::default(),
        })))
    }

    /// Returns the routes of the proxy.
    pub fn router(&self) -> Router {
        let mut router = Router::new()
            .route(STATUS_PATH, get(status))
            .route(METRICS_PATH, get(metrics))
            .route("/token/{*rest}", any(handle));
        for route in Route::ALL {
            router = router.route(&format!("{}/{{*rest}}", route.prefix()), any(handle));
        }
        router.with_state(self.clone())
    }

    /// Returns the routes of a proxy that is alone on its listener: other paths are answered with an error that names the
    /// right ones.
    pub fn router_alone(&self) -> Router {
        self.router().fallback(|| async { RequestError::UnknownPath.response(Route::OpenAi) })
    }

    /// Returns the route of [`STATUS_PATH`] without authentication, for a socket that only the user can open.
    pub fn private_router(&self) -> Router {
        Router::new().route(STATUS_PATH, get(private_status)).with_state(self.clone())
    }

    /// Returns the paths whose requests the proxy authenticates itself, because their `Authorization` header belongs
    /// to the provider.
    pub fn own_paths() -> Vec<String> {
        let prefixes = Route::ALL.into_iter().map(|route| format!("{}/", route.prefix()));
        prefixes.chain(["/token/", STATUS_PATH, METRICS_PATH].map(str::to_owned)).collect()
    }

    /// Returns the numbers of every route.
    pub fn numbers(&self) -> BTreeMap<Route, RouteNumbers> {
        self.0.counters.snapshot()
    }
}

/// Answers with the numbers of all routes.
async fn status(State(proxy): State<Proxy>, headers: HeaderMap) -> Response<Body> {
    if let Err(denied) = proxy.0.settings.access.check(&headers, None) {
        return RequestError::from(denied).response(Route::OpenAi);
    }
    private_status(State(proxy)).await
}

async fn private_status(State(proxy): State<Proxy>) -> Response<Body> {
    response_of("application/json", serde_json::to_string(&proxy.numbers()).unwrap_or_default())
}

/// Answers with the numbers of all routes in the text format of Prometheus.
async fn metrics(State(proxy): State<Proxy>, headers: HeaderMap) -> Response<Body> {
    if let Err(denied) = proxy.0.settings.access.check(&headers, None) {
        return RequestError::from(denied).response(Route::OpenAi);
    }
    response_of("text/plain; version=0.0.4", report::prometheus(&proxy.numbers()))
}

fn response_of(kind: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// Answers a request of a client.
async fn handle(State(proxy): State<Proxy>, request: Request) -> Response<Body> {
    let uri = request.uri().clone();
    let Some(path) = ParsedPath::parse(uri.path()) else {
        return RequestError::UnknownPath.response(Route::OpenAi);
    };
    let client = match proxy.0.settings.access.check(request.headers(), path.token) {
        Ok(client) => client,
        Err(denied) => return RequestError::from(denied).response(path.route),
    };
    let shown = access::redacted(path.rest, uri.query());
    let answered = proxy.0.answer(&path, client.as_deref(), request).await;
    answered.unwrap_or_else(|error| {
        let status = error.status().as_u16();
        let cause = pegboard_core::error_chain::with_causes(&error, |_| false);
        tracing::info!(route = path.route.as_str(), path = shown, status, error = cause, "request failed");
        error.response(path.route)
    })
}

impl Shared {
    async fn answer(
        &self,
        path: &ParsedPath<'_>,
        client: Option<&str>,
        request: Request,
    ) -> Result<Response<Body>, RequestError> {
        // Other upgrades are optional: the request is answered without them.
        let upgrades = request.headers().get_all(header::UPGRADE).iter();
        if upgrades.filter_map(|value| value.to_str().ok()).any(|value| value.to_lowercase().contains("websocket")) {
            return Err(RequestError::Upgrade);
        }
        let (parts, body) = request.into_parts();
        let mut headers = forward::end_to_end(&parts.headers);
        headers.remove(header::CONTENT_LENGTH);
        let query = parts.uri.query().map_or_else(String::new, |query| format!("?{query}"));
        let url = format!("{}{}{query}", self.settings.upstreams.get(path.route), path.rest);
        let outgoing = Outgoing { method: parts.method, url, headers };
        let agent = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let caller = Caller { name: client, agent };
        let endpoint = if outgoing.method == Method::POST { path.endpoint() } else { Endpoint::Other };
        let (wire, is_count) = match endpoint {
            Endpoint::Other => return self.pass(path.route, None, &outgoing, body).await,
            Endpoint::Turn(wire) => (wire, false),
            Endpoint::Count(wire) => (wire, true),
        };
        let credential = access::credential(&parts.headers, &parts.uri);
        let root = self.conversations.root(path.route.as_str(), self.settings.upstreams.get(path.route), &credential);
        // The mode may have been another one when a conversation began, and the provider needs its hidden turns. They are
        // found by the whole body, which is read only for callers that had any.
        let may_pass = self.settings.modes.passes_all(path.route, caller);
        if may_pass && !self.may_have_hidden_turns(wire, root).await {
            return self.pass(path.route, Some("mode"), &outgoing, body).await;
        }
        let is_sse = parts.uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
        if wire == WireName::Gemini && path.rest.ends_with(":streamGenerateContent") && !is_sse {
            return self.pass(path.route, Some("json-stream"), &outgoing, body).await;
        }
        let wire = wire.wire();
        let (body, room) = forward::read_body(body, self.settings.max_body_bytes, &self.body_room).await?;
        let incoming = Incoming {
            route: path.route,
            wire,
            is_count,
            model: path.model(),
            caller,
            root,
            outgoing,
            body,
            room: Some(room),
        };
        incoming.answer(self).await
    }

    /// Returns whether a request that passes may have hidden turns that the provider needs.
    async fn may_have_hidden_turns(&self, wire: WireName, root: Link) -> bool {
        if wire.wire().history_when_passed() == PassedHistory::Unchanged {
            return false;
        }
        let conversations = Arc::clone(&self.conversations);
        // In doubt, it is read.
        tokio::task::spawn_blocking(move || conversations.has_turns(&root)).await.unwrap_or(true)
    }

    /// Passes a request and its response through, both as streams.
    async fn pass(
        &self,
        route: Route,
        reason: Option<&'static str>,
        outgoing: &Outgoing,
        body: Body,
    ) -> Result<Response<Body>, RequestError> {
        let start = Instant::now();
        let body = reqwest::Body::wrap(RequestBody::new(body, self.settings.max_body_bytes)?);
        let took = start.elapsed();
        let response = self.upstream.send(outgoing, body).await?;
        let mut response = forward::pass_response(response);
        match reason {
            None => self.counters.of(route).other_requests += 1,
            Some(reason) => {
                let report = Report::pass(reason);
                report.mark(response.headers_mut());
                self.counters.count(route, &report, took);
            }
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests;
