//! The path of one request from its connection to the router.

use std::{
    borrow::Cow,
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
    connections::{InProgress, ShareOwner, Ticket},
    failures::Failures,
    guard::{Guard, Rejection},
    in_progress::{RequestSlot, TrackedBody},
    log_budget::LogBudget,
};

/// Maximum number of characters of a path in the log.
const MAX_LOGGED_PATH: usize = 200;

/// The state that all connections of a listener share.
#[derive(Debug)]
pub(crate) struct ListenerService {
    /// Replaced as a whole while requests come in.
    pub(crate) guard: Arc<RwLock<Arc<Guard>>>,
    pub(crate) refuse: fn(Rejection) -> String,
    pub(crate) priority_paths: Vec<String>,
    pub(crate) ordinary_paths: Vec<String>,
    pub(crate) failures: Failures,
    pub(crate) rejections: LogBudget,
    pub(crate) router: Router,
}

/// The service of one connection, with its peer address.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionService {
    pub(crate) shared: Arc<ListenerService>,
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) peer: IpAddr,
}

/// A request that passed the guard and the connection limits.
struct AdmittedRequest {
    principal: Option<Principal>,
    request: InProgress,
}

impl ListenerService {
    pub(crate) fn guard(&self) -> Arc<Guard> {
        Arc::clone(&self.guard.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether reserved connections serve a path.
    fn is_priority(&self, path: &str) -> bool {
        let is_ordinary = self.ordinary_paths.iter().any(|ordinary| path == ordinary);
        !is_ordinary
            && self.priority_paths.iter().any(|priority| match priority.strip_suffix('/') {
                Some(folder) => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
                None => path == priority,
            })
    }
}

impl ConnectionService {
    /// Answers one request, or rejects it.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let guard = self.shared.guard();
        let client = PeerAddress::from(guard.trusted_proxies.client(self.peer, request.headers()));
        let origin = guard.origin(request.headers()).cloned();
        let mut response = if is_preflight(&request) {
            match guard.check_address(&request) {
                Ok(()) => preflight(),
                Err(rejection) => self.reject(request.uri().path(), rejection, client).await,
            }
        } else {
            match self.admit(&guard, &request, client) {
                Ok(entry) => self.route(request, entry, client).await,
                Err(rejection) => self.reject(request.uri().path(), rejection, client).await,
            }
        };
        if let Some(origin) = origin {
            allow_origin(&mut response, origin);
        }
        response
    }

    fn admit(&self, guard: &Guard, request: &Request<Body>, client: PeerAddress) -> Result<AdmittedRequest, Rejection> {
        let principal = guard.check(request)?;
        let path = request.uri().path();
        let is_priority = self.shared.is_priority(path);
        if !is_priority {
            self.ticket.claim_any_path()?;
        }
        let holder = match principal {
            Some(principal) if is_priority => Some(ShareOwner::TokenPriority(principal)),
            Some(principal) => Some(ShareOwner::Token(principal)),
            // Probes are answered at once, and leave the connection unauthenticated.
            None if guard.is_open_path(path) => None,
            None if is_priority => Some(ShareOwner::AddressPriority(client)),
            None => Some(ShareOwner::Address(client)),
        };
        let request = self.ticket.begin(holder)?;
        Ok(AdmittedRequest { principal, request })
    }

    async fn route(&self, mut request: Request<Body>, entry: AdmittedRequest, client: PeerAddress) -> Response<Body> {
        let extensions = request.extensions_mut();
        extensions.insert(client);
        let slot = RequestSlot::new(entry.request);
        extensions.insert(slot.clone());
        if let Some(principal) = entry.principal {
            extensions.insert(principal);
        }
        let Ok(response) = self.shared.router.clone().oneshot(request).await;
        response.map(|body| Body::new(TrackedBody::new(body, slot)))
    }

    async fn reject(&self, path: &str, rejection: Rejection, client: PeerAddress) -> Response<Body> {
        if let Some(unlogged) = self.shared.rejections.take() {
            let path: String = without_token(path).chars().take(MAX_LOGGED_PATH).collect();
            tracing::info!(path, %client, reason = ?rejection, unlogged, "request rejected");
        }
        if rejection == Rejection::WrongToken {
            tokio::time::sleep(self.shared.failures.record(client, Instant::now())).await;
        }
        rejection.response((self.shared.refuse)(rejection))
    }
}

/// Returns a path without the token in its second segment, which clients use that cannot send another header.
fn without_token(path: &str) -> Cow<'_, str> {
    const PREFIX: &str = "/token/";
    let Some(rest) = path.strip_prefix(PREFIX) else { return Cow::Borrowed(path) };
    let rest = rest.find('/').map_or("", |at| &rest[at..]);
    Cow::Owned(format!("{PREFIX}[hidden]{rest}"))
}

fn is_preflight(request: &Request<Body>) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The response to a CORS preflight.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_paths_are_not_logged() {
        let check = |path: &str, expected: &str| assert_eq!(without_token(path), expected);
        check("/token/secret/openai/v1", "/token/[hidden]/openai/v1");
        check("/token/secret", "/token/[hidden]");
        check("/tokens/a", "/tokens/a");
    }
}
