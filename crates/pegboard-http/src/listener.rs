//! The HTTP listener.

mod overload;

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
};

use self::overload::OverloadResponder;
use crate::{
    ConnectionLimits, PeerAddress,
    connections::Connections,
    failures::Failures,
    guard::{Guard, Rejection},
    log_budget::LogBudget,
    platform,
    service::{ConnectionService, ListenerService},
    write_timeout::WriteTimeout,
};

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 4096;

/// Maximum number of rejected requests that are logged in ten seconds.
const REJECTIONS_LOGGED: u32 = 20;

/// How long responses may take to be sent after running requests have been interrupted.
const FINAL_RESPONSE_GRACE: Duration = Duration::from_secs(1);

/// The settings of a listener.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The checks that every request must pass.
    pub guard: Guard,
    /// Whether a public address is allowed without tokens.
    pub allow_public: bool,
    /// Limits on the number of connections, and their shares.
    pub connections: ConnectionLimits,
    /// Paths that reserved connections serve. A path that ends in `/` includes everything below it.
    pub priority_paths: Vec<String>,
    /// Paths below a priority path that are like any other: requests that stay open must not take the
    /// operator's share.
    pub ordinary_paths: Vec<String>,
    /// Maximum size of all headers of a request, in bytes.
    pub max_header_bytes: usize,
    /// How long an authenticated client may take to send the headers of its next request.
    pub header_timeout: Duration,
    /// How long a client may accept no bytes before its connection is closed. Streams on which
    /// there is nothing to send may stay open.
    pub write_timeout: Duration,
    /// How long requests may take to finish when the listener stops.
    pub shutdown_deadline: Duration,
    /// Returns the JSON body of a rejection; a JSON-RPC error unless the endpoint uses another
    /// format.
    pub refuse: fn(Rejection) -> String,
}

impl Settings {
    /// The default settings for an address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            guard: Guard::default(),
            allow_public: false,
            connections: ConnectionLimits::default(),
            priority_paths: Vec::new(),
            ordinary_paths: Vec::new(),
            max_header_bytes: 64 << 10,
            header_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            shutdown_deadline: Duration::from_secs(5),
            refuse: Rejection::json_rpc,
        }
    }
}

/// The reason why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is public and no token is required.
    #[error("`{address}` can be reached from other machines, and no token is required")]
    Public {
        /// The address.
        address: SocketAddr,
    },
    /// The system does not allow the address.
    #[error("cannot listen on `{address}`")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

impl ListenError {
    /// Returns what the user can do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Public { .. } => "configure `pegboard.tokens`, or pass `--allow-public`",
            Self::Bind { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                "another program uses this port; choose another one with `--listen`"
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

/// A handle that replaces the guard of a listener while it is served.
#[derive(Clone, Debug)]
pub struct GuardHandle {
    guard: Arc<RwLock<Arc<Guard>>>,
    address: SocketAddr,
    allow_public: bool,
}

impl GuardHandle {
    /// Checks whether a guard with or without tokens can be used at this address.
    ///
    /// # Errors
    /// When a public address would need no token.
    pub fn check(&self, has_tokens: bool) -> Result<(), ListenError> {
        let is_open = !is_loopback(self.address.ip()) && !has_tokens && !self.allow_public;
        if is_open { Err(ListenError::Public { address: self.address }) } else { Ok(()) }
    }

    /// Uses another guard for every request from now on, including those on open connections.
    ///
    /// # Errors
    /// When a public address would need no token.
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
        let socket = listen(address).map_err(bind)?;
        let address = socket.local_addr().map_err(bind)?;
        let guard = Arc::new(RwLock::new(Arc::new(settings.guard.clone())));
        Ok(Self { socket, address, settings, guard })
    }

    /// Returns the handle that replaces the guard later.
    pub fn guard_handle(&self) -> GuardHandle {
        GuardHandle { guard: Arc::clone(&self.guard), address: self.address, allow_public: self.settings.allow_public }
    }

    /// The address that the listener is bound to, with the port that the system chose for 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `router` until `stop` ends, then lets requests finish within the deadline. If
    /// requests are still running after the deadline, calls `cut`, which must make them end with a
    /// response of their own.
    pub async fn serve(self, router: Router, stop: impl Future<Output = ()>, cut: impl FnOnce()) {
        let graceful = GracefulShutdown::new();
        let connections = Connections::new(self.settings.connections);
        let overload = OverloadResponder::new(self.settings.refuse);
        let shared = Arc::new(self.service(router));
        let (closing, closed) = watch::channel(false);
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = &mut stop => break,
            };
            let (stream, peer) = match accepted {
                Ok((stream, peer)) => (stream, peer.ip()),
                Err(error) => {
                    // Out of descriptors, most likely: give others the time to close some.
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let is_proxy = shared.guard().trusted_proxies.contains(peer);
            let ticket = match connections.admit((!is_proxy).then(|| PeerAddress::from(peer))) {
                Ok(ticket) => Arc::new(ticket),
                Err(rejection) => {
                    overload.reject(stream, peer.into(), rejection);
                    continue;
                }
            };
            let service = ConnectionService { shared: Arc::clone(&shared), ticket: Arc::clone(&ticket), peer };
            let connection = graceful.watch(self.serve_connection(stream, service));
            let mut closed = closed.clone();
            tokio::spawn(async move {
                tokio::select! {
                    ended = connection => {
                        if let Err(error) = ended {
                            tracing::debug!(%error, "connection failed");
                        }
                    }
                    reason = ticket.wait_until_must_close() => tracing::debug!(%peer, reason, "connection closed"),
                    _ = closed.wait_for(|closed| *closed) => {}
                }
            });
        }
        // Nothing new is accepted, so nothing new is answered after the cut.
        drop(self.socket);
        let finished = graceful.shutdown();
        tokio::pin!(finished);
        let deadline = self.settings.shutdown_deadline;
        if tokio::time::timeout(deadline, &mut finished).await.is_err() {
            tracing::warn!(?deadline, "requests interrupted by shutdown");
            cut();
            let _ = tokio::time::timeout(FINAL_RESPONSE_GRACE, finished).await;
        }
        closing.send_replace(true);
    }

    fn service(&self, router: Router) -> ListenerService {
        ListenerService {
            guard: Arc::clone(&self.guard),
            refuse: self.settings.refuse,
            priority_paths: self.settings.priority_paths.clone(),
            ordinary_paths: self.settings.ordinary_paths.clone(),
            failures: Failures::default(),
            rejections: LogBudget::new(REJECTIONS_LOGGED),
            router,
        }
    }

    fn serve_connection(
        &self,
        stream: TcpStream,
        service: ConnectionService,
    ) -> http1::Connection<
        TokioIo<WriteTimeout<TcpStream>>,
        impl hyper::service::HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + use<>,
    > {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let stream = WriteTimeout::new(stream, self.settings.write_timeout);
        let service = service_fn(move |request: Request<Incoming>| {
            let service = service.clone();
            async move { Ok::<_, Infallible>(service.answer(request.map(Body::new)).await) }
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.settings.header_timeout)
            .max_buf_size(self.settings.max_header_bytes.max(8192))
            .serve_connection(TokioIo::new(stream), service)
    }
}

/// Opens a socket with a large backlog, because clients whose connection does not fit retry only
/// after a second.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    platform::reuse_address(&socket)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests;
