//! The listener itself.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Method, Request, Response, StatusCode, header},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};
use tower::ServiceExt as _;

use crate::{
    guard::{Guard, Refusal},
    stalled::Unstalled,
};

/// What can be set of a listener.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    pub address: SocketAddr,
    /// Who may come in.
    pub guard: Guard,
    /// Whether a public address is fine without tokens.
    pub allow_public: bool,
    /// Connections at a time; more wait.
    pub max_connections: usize,
    /// Bytes of all headers of a request.
    pub max_header_bytes: usize,
    /// How long a client may take to send its headers.
    pub header_timeout: Duration,
    /// How long a client may take nothing of what is sent to it before it is cut off. Streams
    /// on which there is nothing to send may be open for ever.
    pub write_timeout: Duration,
    /// How long requests may take to finish when the listener is stopped.
    pub shutdown_deadline: Duration,
    /// The body, in JSON, with which a request is turned away; an error of JSON-RPC unless
    /// the door speaks another language.
    pub refuse: fn(Refusal) -> String,
}

impl Settings {
    /// The defaults for an address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            guard: Guard::default(),
            allow_public: false,
            max_connections: 1024,
            max_header_bytes: 64 << 10,
            header_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            shutdown_deadline: Duration::from_secs(5),
            refuse: Refusal::json_rpc,
        }
    }
}

/// Why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Everybody could come in.
    #[error("`{address}` can be reached from other machines, and no token is asked for")]
    Public {
        /// The address.
        address: SocketAddr,
    },
    /// The system refuses.
    #[error("cannot listen on `{address}`")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

impl ListenError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Public { .. } => "configure `pegboard.tokens`, or say `--allow-public`",
            Self::Bind { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                "something listens there already; choose another port with `--listen`"
            }
            Self::Bind { .. } => "choose another address with `--listen`",
        }
    }
}

/// A socket that is open and not served yet.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    settings: Settings,
    guard: Arc<RwLock<Arc<Guard>>>,
}

/// Changes who may come in while a listener is served.
#[derive(Clone, Debug)]
pub struct Doorkeeper {
    guard: Arc<RwLock<Arc<Guard>>>,
    address: SocketAddr,
    allow_public: bool,
}

impl Doorkeeper {
    /// Whether a guard that asks for tokens, or does not, can be used here.
    ///
    /// # Errors
    /// When that would let everybody in at an address that others can reach.
    pub fn check(&self, has_tokens: bool) -> Result<(), ListenError> {
        let is_open = !is_loopback(self.address.ip()) && !has_tokens && !self.allow_public;
        if is_open { Err(ListenError::Public { address: self.address }) } else { Ok(()) }
    }

    /// Uses another guard for every request from now on, also on connections that are open.
    ///
    /// # Errors
    /// When that would let everybody in at an address that others can reach.
    pub fn replace(&self, mut guard: Guard) -> Result<(), ListenError> {
        self.check(!guard.tokens.is_empty())?;
        guard.is_public = !is_loopback(self.address.ip());
        *self.guard.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(guard);
        Ok(())
    }
}

impl Listener {
    /// Opens the socket.
    ///
    /// # Errors
    /// When the address is public without authentication, or is taken.
    pub async fn bind(mut settings: Settings) -> Result<Self, ListenError> {
        let address = settings.address;
        settings.guard.is_public = !is_loopback(address.ip());
        if settings.guard.is_public && settings.guard.tokens.is_empty() && !settings.allow_public {
            return Err(ListenError::Public { address });
        }
        let bind = |source| ListenError::Bind { address, source };
        let socket = TcpListener::bind(address).await.map_err(bind)?;
        let address = socket.local_addr().map_err(bind)?;
        let guard = Arc::new(RwLock::new(Arc::new(settings.guard.clone())));
        Ok(Self { socket, address, settings, guard })
    }

    /// Who can change the guard later on.
    pub fn doorkeeper(&self) -> Doorkeeper {
        Doorkeeper { guard: Arc::clone(&self.guard), address: self.address, allow_public: self.settings.allow_public }
    }

    /// Where it listens, with the port that the system chose for 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `router` until `stop` ends; then lets requests finish within the deadline.
    pub async fn serve(self, router: Router, stop: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let slots = Arc::new(Semaphore::new(self.settings.max_connections));
        let (closing, closed) = watch::channel(false);
        tokio::pin!(stop);
        loop {
            let slot = tokio::select! {
                slot = Arc::clone(&slots).acquire_owned() => slot,
                () = &mut stop => break,
            };
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = &mut stop => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: give others the time to close some.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let connection = self.connection(stream, router.clone());
            let connection = graceful.watch(connection);
            let mut closed = closed.clone();
            tokio::spawn(async move {
                let _slot = slot;
                tokio::select! {
                    ended = connection => {
                        if let Err(error) = ended {
                            tracing::debug!(%error, "a connection broke");
                        }
                    }
                    _ = closed.wait_for(|closed| *closed) => {}
                }
            });
        }
        let deadline = self.settings.shutdown_deadline;
        if tokio::time::timeout(deadline, graceful.shutdown()).await.is_err() {
            tracing::warn!(?deadline, "requests that were still running are cut off");
        }
        closing.send_replace(true);
    }

    fn connection(
        &self,
        stream: TcpStream,
        router: Router,
    ) -> http1::Connection<
        TokioIo<Unstalled<TcpStream>>,
        impl hyper::service::HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + use<>,
    > {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY cannot be set");
        }
        let stream = Unstalled::new(stream, self.settings.write_timeout);
        let (refuse, guard) = (self.settings.refuse, Arc::clone(&self.guard));
        let service = service_fn(move |request: Request<Incoming>| {
            let guard = Arc::clone(&guard.read().unwrap_or_else(PoisonError::into_inner));
            let router = router.clone();
            async move { Ok::<_, Infallible>(answer(&guard, refuse, router, request.map(Body::new)).await) }
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.settings.header_timeout)
            .max_buf_size(self.settings.max_header_bytes.max(8192))
            .serve_connection(TokioIo::new(stream), service)
    }
}

/// Answers one request, or turns it away.
async fn answer(
    guard: &Guard,
    refuse: fn(Refusal) -> String,
    router: Router,
    mut request: Request<Body>,
) -> Response<Body> {
    let origin = guard.origin(request.headers()).cloned();
    let is_preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let checked = if is_preflight { guard.check_address(&request).map(|()| None) } else { guard.check(&request) };
    let mut response = match checked {
        Ok(_) if is_preflight => preflight(),
        Ok(principal) => {
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            let Ok(response) = router.oneshot(request).await;
            response
        }
        Err(refusal) => {
            tracing::info!(path = request.uri().path(), ?refusal, "a request is turned away");
            refusal.response(refuse(refusal))
        }
    };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        let exposed = HeaderValue::from_static("mcp-session-id, mcp-protocol-version, www-authenticate");
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
    response
}

/// What a browser wants to know before a page may ask.
fn preflight() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, authorization"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests;
