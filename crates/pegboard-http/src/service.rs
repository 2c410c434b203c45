//! The way of one request from its connection to the router.

use std::{
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Method, Request, Response, StatusCode, header},
};
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::{
    PeerAddress, Principal,
    connections::{Holder, InProgress, Ticket},
    failures::Failures,
    guard::{Guard, Refusal},
    in_progress::{HeldBody, RequestSlot},
    log_budget::LogBudget,
};

/// Characters of a path in the log.
const MAX_LOGGED_PATH: usize = 200;

/// What all connections of a listener have in common.
#[derive(Debug)]
pub(crate) struct Door {
    /// Replaced as a whole while requests come in.
    pub(crate) guard: Arc<RwLock<Arc<Guard>>>,
    pub(crate) refuse: fn(Refusal) -> String,
    pub(crate) priority_paths: Vec<String>,
    pub(crate) failures: Failures,
    pub(crate) rejections: LogBudget,
    pub(crate) router: Router,
}

/// One connection, with where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) door: Arc<Door>,
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) peer: IpAddr,
}

/// A request that was let in.
struct Entry {
    principal: Option<Principal>,
    request: InProgress,
}

impl Door {
    pub(crate) fn guard(&self) -> Arc<Guard> {
        Arc::clone(&self.guard.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether reserved connections serve a path.
    fn is_priority(&self, path: &str) -> bool {
        self.priority_paths.iter().any(|priority| match priority.strip_suffix('/') {
            Some(folder) => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
            None => path == priority,
        })
    }
}

impl Visitor {
    /// Answers one request, or rejects it.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let guard = self.door.guard();
        let client = PeerAddress::from(guard.trusted_proxies.client(self.peer, request.headers()));
        let origin = guard.origin(request.headers()).cloned();
        let mut response = if is_preflight(&request) {
            match guard.check_address(&request) {
                Ok(()) => preflight(),
                Err(refusal) => self.reject(request.uri().path(), refusal, client).await,
            }
        } else {
            match self.let_in(&guard, &request, client) {
                Ok(entry) => self.route(request, entry, client).await,
                Err(refusal) => self.reject(request.uri().path(), refusal, client).await,
            }
        };
        if let Some(origin) = origin {
            allow_origin(&mut response, origin);
        }
        response
    }

    fn let_in(&self, guard: &Guard, request: &Request<Body>, client: PeerAddress) -> Result<Entry, Refusal> {
        let principal = guard.check(request)?;
        let path = request.uri().path();
        let is_priority = self.door.is_priority(path);
        if !is_priority {
            self.ticket.claim_any_path()?;
        }
        let holder = match principal {
            Some(principal) if is_priority => Some(Holder::TokenPriority(principal)),
            Some(principal) => Some(Holder::Token(principal)),
            // Probes are answered at once, and leave the connection unauthenticated.
            None if guard.is_open_path(path) => None,
            None if is_priority => Some(Holder::AddressPriority(client)),
            None => Some(Holder::Address(client)),
        };
        let request = self.ticket.begin(holder)?;
        Ok(Entry { principal, request })
    }

    async fn route(&self, mut request: Request<Body>, entry: Entry, client: PeerAddress) -> Response<Body> {
        let extensions = request.extensions_mut();
        extensions.insert(client);
        let slot = RequestSlot::new(entry.request);
        extensions.insert(slot.clone());
        if let Some(principal) = entry.principal {
            extensions.insert(principal);
        }
        let Ok(response) = self.door.router.clone().oneshot(request).await;
        response.map(|body| Body::new(HeldBody::new(body, slot)))
    }

    async fn reject(&self, path: &str, refusal: Refusal, client: PeerAddress) -> Response<Body> {
        if let Some(unlogged) = self.door.rejections.take() {
            let path: String = path.chars().take(MAX_LOGGED_PATH).collect();
            tracing::info!(path, %client, reason = ?refusal, unlogged, "request rejected");
        }
        if refusal == Refusal::WrongToken {
            tokio::time::sleep(self.door.failures.note(client, Instant::now())).await;
        }
        refusal.response((self.door.refuse)(refusal))
    }
}

fn is_preflight(request: &Request<Body>) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a CORS preflight.
fn preflight() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, authorization"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

fn allow_origin(response: &mut Response<Body>, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    let exposed = HeaderValue::from_static("mcp-session-id, mcp-protocol-version, www-authenticate");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}
