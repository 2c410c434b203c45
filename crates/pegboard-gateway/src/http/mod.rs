//! The endpoint: Streamable HTTP of both eras on one path.

mod batch;
mod body;
pub(crate) mod modern;

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
    routing::{any, get},
};
use pegboard_http::Principal;
use pegboard_upstream::{
    era::{Era, LEGACY_VERSIONS},
    json::{Fields, Raw},
    rpc::{Id, Message, MessageError, RpcError},
    trace::TraceContext,
};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{Instrument as _, Span};

use self::body::{Answer, EventBody};
use crate::{
    control::Asking,
    exchange::{Caller, Exchange, Viewer},
    gateway::Gateway,
    metrics::METRICS,
    sessions::ClientSession,
    settings::Profile,
    trace::{self, Opening},
};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// Messages about one request that wait to be read by its client.
const OUTLET: usize = 256;

/// How long a client may take to send a request.
const BODY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// Where clients connect.
pub const ENDPOINT: &str = "/mcp";

/// Where it is asked whether all servers had their time to start; open to everybody.
pub const READY: &str = "/ready";

/// Where it is asked whether we live; open to everybody.
pub const HEALTH: &str = "/health";

impl Gateway {
    /// The routes of the gateway, for requests of at most `max_body_bytes`.
    pub fn router(self: &Arc<Self>, max_body_bytes: usize) -> Router {
        Router::new()
            .route(ENDPOINT, any(endpoint))
            .route("/mcp/", any(endpoint))
            .route(HEALTH, get(health))
            .route(READY, get(ready))
            .route(METRICS, get(metrics))
            .fallback(elsewhere)
            .with_state(Door { gateway: Arc::clone(self), max_body_bytes })
    }
}

#[derive(Clone, Debug)]
struct Door {
    gateway: Arc<Gateway>,
    max_body_bytes: usize,
}

/// One request as it arrived.
struct Arrival {
    headers: HeaderMap,
    viewer: Viewer,
}

impl Arrival {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether the client says that it reads streams of events. `*/*` does not say so: it is
    /// what programs send that know nothing of them.
    fn reads_events(&self) -> bool {
        self.header("accept").is_some_and(|accept| accept.contains("text/event-stream"))
    }
}

async fn health(State(door): State<Door>) -> Response<Body> {
    use pegboard_upstream::State as Life;
    let servers = door.gateway.servers();
    let count = |is_it: fn(&Life) -> bool| servers.iter().filter(|server| is_it(&server.state())).count();
    let failed = count(|state| matches!(state, Life::Failed { .. }));
    let mut status = json!({
        "status": if failed == 0 { "ok" } else { "degraded" },
        "servers": servers.len(),
        "ready": count(|state| *state == Life::Ready),
        "idle": count(|state| *state == Life::Idle),
        "lazy": count(|state| *state == Life::Lazy),
        "starting": count(|state| *state == Life::Starting),
        "failed": failed,
        "tools": door.gateway.catalog().len(),
        "sessions": door.gateway.session_count(),
    });
    // Whoever asks may be anybody; where there are tokens, names are for their holders.
    if !door.gateway.is_private() {
        let reason = |server: &Arc<pegboard_upstream::Upstream>| match server.state() {
            Life::Failed { reason, .. } => Some((server.name().to_owned(), reason.into())),
            _ => None,
        };
        status["failures"] = servers.iter().filter_map(reason).collect::<serde_json::Map<_, _>>().into();
    }
    json_response(StatusCode::OK, status.to_string())
}

/// Whether clients get everything that there is: every server works, sleeps or has failed.
async fn ready(State(door): State<Door>) -> Response<Body> {
    let starting = door.gateway.servers().iter().filter(|server| !server.state().is_settled()).count();
    let is_ready = starting == 0 || door.gateway.is_started();
    let code = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json_response(code, json!({"ready": is_ready, "starting": starting}).to_string())
}

/// The numbers, for whoever collects them. They are of all servers, so that who may see only
/// some of these has no business with them.
async fn metrics(State(door): State<Door>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    match Asking::of(&door.gateway, &parts) {
        Some(asking) if asking.is_whole() => {}
        Some(_) => return status(StatusCode::FORBIDDEN),
        None => return status(StatusCode::UNAUTHORIZED),
    }
    let mut response = Response::new(Body::from(crate::metrics::render(&door.gateway.numbers())));
    let form = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, form);
    response
}

/// Anything else: most likely a slip in an address.
async fn elsewhere() -> Response<Body> {
    let mut response = Response::new(Body::from(format!("there is nothing here; MCP is at {ENDPOINT}\n")));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

async fn endpoint(State(door): State<Door>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Principal>().map_or(Caller::Anybody, |holder| Caller::Token(*holder));
    // Who may come in may have changed since the door let it pass.
    let Some(viewer) = door.gateway.viewer(caller) else {
        let _span = door.gateway.request_span(None, &Opening::default()).entered();
        tracing::info!(http = %parts.method, status = 401, "a request is refused");
        return status(StatusCode::UNAUTHORIZED);
    };
    let (arrival, method) = (Arrival { headers: parts.headers, viewer }, parts.method);
    // Read before its span begins: whose trace it belongs to stands in it.
    let sent = read(&door, &arrival, &method, body).await;
    // A body can take its time; meanwhile somebody may have lost what they could see.
    let Some(viewer) = door.gateway.viewer(caller) else { return status(StatusCode::UNAUTHORIZED) };
    let arrival = Arrival { viewer, ..arrival };
    let span = sent.span(&door.gateway);
    let work = async move {
        let response = dispatch(&door.gateway, arrival, sent).await;
        let status = response.status().as_u16();
        if status >= 400 {
            Span::current().record("outcome", "refused");
            tracing::info!(http = %method, status, "a request is refused");
        } else {
            tracing::debug!(http = %method, status, "a request");
        }
        response
    };
    work.instrument(span).await
}

/// What a client wants with an HTTP request.
enum Sent {
    Message {
        message: Message,
        opening: Opening,
        era: Era,
    },
    Batch {
        messages: Vec<Message>,
        opening: Opening,
    },
    OpenStream,
    EndSession,
    /// Nothing that can be done.
    Refused(Response<Body>),
}

impl Sent {
    fn span(&self, gateway: &Gateway) -> Span {
        match self {
            Self::Message { message, opening, era } => gateway.request_span(Some((message, *era)), opening),
            Self::Batch { opening, .. } => gateway.request_span(None, opening),
            Self::OpenStream | Self::EndSession | Self::Refused(_) => gateway.request_span(None, &Opening::default()),
        }
    }
}

async fn read(door: &Door, arrival: &Arrival, method: &axum::http::Method, body: Body) -> Sent {
    match method.as_str() {
        "POST" => match tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, door.max_body_bytes)).await {
            Ok(Ok(body)) => parse(arrival, &body),
            Err(_) => Sent::Refused(status(StatusCode::REQUEST_TIMEOUT)),
            Ok(Err(_)) => {
                let message = format!("the body is larger than {} bytes", door.max_body_bytes);
                let error = RpcError::new(RpcError::INVALID_REQUEST, message);
                Sent::Refused(refuse(StatusCode::PAYLOAD_TOO_LARGE, None, &error))
            }
        },
        "GET" => Sent::OpenStream,
        "DELETE" => Sent::EndSession,
        _ => Sent::Refused(not_allowed()),
    }
}

async fn dispatch(gateway: &Arc<Gateway>, arrival: Arrival, sent: Sent) -> Response<Body> {
    match sent {
        Sent::Message { message, opening, era } => {
            if let Message::Request { method, .. } = &message {
                tracing::debug!(method = crate::methods::shorten(method), "asked");
            }
            match era {
                Era::Modern => modern::post(gateway, &arrival, message, opening).await,
                Era::Legacy => legacy(gateway, arrival, message, opening).await,
            }
        }
        Sent::Batch { messages, .. } => batch::post(gateway, &arrival, messages).await,
        Sent::OpenStream => open_stream(gateway, &arrival).await,
        Sent::EndSession => end_session(gateway, &arrival).await,
        Sent::Refused(response) => response,
    }
}

fn not_allowed() -> Response<Body> {
    let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    response
}

fn parse(arrival: &Arrival, body: &Bytes) -> Sent {
    let opening = |message: &Message| Opening::of_message(message, Some(&arrival.headers));
    let text = std::str::from_utf8(body).unwrap_or_default();
    if text.trim_start().starts_with('[')
        && let Ok(messages) = Message::parse_all(text)
        && messages.iter().all(|message| era_of(arrival, message, &opening(message)) == Era::Legacy)
    {
        return Sent::Batch { messages, opening: Opening::of(None, Some(&arrival.headers)) };
    }
    let error = match std::str::from_utf8(body).map(Message::parse) {
        Ok(Ok(message)) => {
            let opening = opening(&message);
            let era = era_of(arrival, &message, &opening);
            return Sent::Message { message, opening, era };
        }
        Ok(Err(error @ MessageError::NotRpc(_))) => RpcError::new(RpcError::INVALID_REQUEST, error.to_string()),
        _ => RpcError::new(RpcError::PARSE, "the body is not JSON"),
    };
    Sent::Refused(refuse(StatusCode::BAD_REQUEST, None, &error))
}

/// Whose rules a message follows: what it says in `_meta`, else what the header says.
fn era_of(arrival: &Arrival, message: &Message, opening: &Opening) -> Era {
    let says_modern = opening.is_modern();
    let header = arrival.header(VERSION);
    let is_unknown_version = header.is_some_and(|version| !LEGACY_VERSIONS.contains(&version));
    if says_modern || (is_unknown_version && !matches!(message, Message::Response { .. })) {
        Era::Modern
    } else {
        Era::Legacy
    }
}

async fn legacy(gateway: &Arc<Gateway>, arrival: Arrival, message: Message, opening: Opening) -> Response<Body> {
    let session = match arrival.header(SESSION) {
        Some(id) => match find_session(gateway, &arrival, id).await {
            Some(session) => {
                trace::belongs_to(&session);
                Some(session)
            }
            None => return forgotten(&message),
        },
        None => None,
    };
    match message {
        Message::Request { id, method, params } if method == "initialize" => {
            initialize(gateway, &arrival, &id, params).await
        }
        Message::Request { id, method, params } => {
            let session = match session {
                Some(session) => session,
                None => gateway.one_request_session(arrival.viewer.clone(), &method, params.as_deref()).await,
            };
            answer(gateway, &arrival, session, opening, Asked { id, method, params }).await
        }
        Message::Notification { method, params } => {
            if let Some(session) = session {
                gateway.notified(&session, &method, params.as_deref());
            }
            status(StatusCode::ACCEPTED)
        }
        Message::Response { id, outcome } => {
            if let (Some(session), Some(id)) = (session, id) {
                session.answer(&id, outcome);
            }
            status(StatusCode::ACCEPTED)
        }
    }
}

async fn find_session(gateway: &Arc<Gateway>, arrival: &Arrival, id: &str) -> Option<Arc<ClientSession>> {
    let session = match gateway.sessions.find(id) {
        Some(session) => session,
        None => gateway.recall_session(id, &arrival.viewer).await?,
    };
    // A session belongs to whoever began it.
    let is_theirs = session.viewer().caller == arrival.viewer.caller;
    gateway.touch(&session);
    is_theirs.then_some(session)
}

fn forgotten(message: &Message) -> Response<Body> {
    let id = match message {
        Message::Request { id, .. } => Some(id),
        _ => None,
    };
    let error = RpcError::new(RpcError::INVALID_REQUEST, "no such session; initialize again");
    refuse(StatusCode::NOT_FOUND, id, &error)
}

async fn initialize(gateway: &Arc<Gateway>, arrival: &Arrival, id: &Id, params: Option<Raw>) -> Response<Body> {
    match gateway.initialize(arrival.viewer.clone(), params).await {
        Ok((session, result)) => {
            let mut response = json_response(StatusCode::OK, Message::response(Some(id), Ok(&result)));
            if let Ok(value) = HeaderValue::try_from(session.id.as_str()) {
                response.headers_mut().insert(SESSION, value);
            }
            response
        }
        Err(error) => json_response(StatusCode::OK, Message::response(Some(id), Err(&error))),
    }
}

/// A request of a client.
struct Asked {
    id: Id,
    method: String,
    params: Option<Raw>,
}

/// Answers a legacy request. It goes on when its client goes away: that is no cancellation.
async fn answer(
    gateway: &Arc<Gateway>,
    arrival: &Arrival,
    session: Arc<ClientSession>,
    opening: Opening,
    Asked { id, method, params }: Asked,
) -> Response<Body> {
    let (outlet, messages) = mpsc::channel(OUTLET);
    let exchange = gateway.legacy_exchange(&session, params.as_deref(), opening.trace, outlet);
    let gateway = Arc::clone(gateway);
    let (running, request) = (Arc::clone(&session), id.clone());
    let work = async move {
        for method in running.take_owed() {
            exchange.tell(method, None).await;
        }
        let outcome = gateway.answer(&exchange, &request, &method, params).await;
        running.end(&request);
        Answer { status: 200, line: Message::response(Some(&request), outcome.as_deref()) }
    };
    let task = tokio::spawn(work.in_current_span());
    session.begin(&id, task.abort_handle());
    if task.is_finished() {
        session.end(&id);
    }
    body::respond(messages, task, arrival.reads_events(), None).await
}

async fn open_stream(gateway: &Arc<Gateway>, arrival: &Arrival) -> Response<Body> {
    let Some(id) = arrival.header(SESSION) else { return not_allowed() };
    if !arrival.reads_events() {
        return status(StatusCode::NOT_ACCEPTABLE);
    }
    match find_session(gateway, arrival, id).await {
        Some(session) => event_response(EventBody::open(session.open_stream())),
        None => status(StatusCode::NOT_FOUND),
    }
}

async fn end_session(gateway: &Arc<Gateway>, arrival: &Arrival) -> Response<Body> {
    let Some(id) = arrival.header(SESSION) else { return not_allowed() };
    if find_session(gateway, arrival, id).await.is_none() {
        return status(StatusCode::NOT_FOUND);
    }
    if let Some(session) = gateway.sessions.remove(id) {
        gateway.forget_session(&session);
    }
    status(StatusCode::OK)
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn json_response(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn event_response(body: EventBody) -> Response<Body> {
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A refusal. Without an `id` it has none: `null` is no identity of a request.
fn refuse(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response<Body> {
    let line = match id {
        Some(id) => Message::response(Some(id), Err(error)),
        None => Fields::new().with("jsonrpc", "2.0").with("error", error).to_raw().get().to_owned(),
    };
    json_response(status, line)
}

impl Gateway {
    /// What a legacy request depends on.
    pub(crate) fn legacy_exchange(
        &self,
        session: &Arc<ClientSession>,
        params: Option<&serde_json::value::RawValue>,
        trace: TraceContext,
        outlet: mpsc::Sender<String>,
    ) -> Exchange {
        let own = Fields::of_optional(params).object("_meta").unwrap_or_default();
        Exchange {
            era: Era::Legacy,
            viewer: session.viewer(),
            session: Some(Arc::clone(session)),
            capabilities: session.capabilities.clone(),
            log_level: None,
            progress: own.get("progressToken").map(ToOwned::to_owned),
            outlet,
            owner: session.owner,
            trace,
        }
    }

    /// A conversation of one request, for clients that begin none. The search of the
    /// `gateway` dialect is answered whatever the dialect of others is.
    async fn one_request_session(
        &self,
        viewer: Viewer,
        method: &str,
        params: Option<&serde_json::value::RawValue>,
    ) -> Arc<ClientSession> {
        use pegboard_discovery::DialectName;
        // It sees the tools of this moment only, so they should be there.
        self.ready().await;
        let name = Fields::of_optional(params).text("name").filter(|_| method == "tools/call");
        let searches = name.is_some_and(|name| DialectName::Gateway.meta_names().contains(&name.as_str()));
        let profile = if searches { Profile::Dialect(DialectName::Gateway) } else { self.setup().profile };
        Arc::new(self.begin_once(viewer, profile, searches))
    }
}
