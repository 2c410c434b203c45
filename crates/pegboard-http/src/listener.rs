//! The listener itself.

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

use self::overload::TurnedAway;
use crate::{
    ConnectionLimits, PeerAddress,
    connections::Connections,
    failures::Failures,
    guard::{Guard, Refusal},
    log_budget::LogBudget,
    platform,
    service::{Door, Visitor},
    write_timeout::Unstalled,
};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// Rejected requests that are logged in ten seconds.
const REJECTIONS_LOGGED: u32 = 20;

/// How long answers may take to be sent once what was still running has been cut.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What can be set of a listener.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    pub address: SocketAddr,
    /// Who may come in.
    pub guard: Guard,
    /// Whether a public address is fine without tokens.
    pub allow_public: bool,
    /// How many connections there may be, and how they are shared.
    pub connections: ConnectionLimits,
    /// Paths that reserved connections serve; one that ends in `/` stands for everything below.
    pub priority_paths: Vec<String>,
    /// Bytes of all headers of a request.
    pub max_header_bytes: usize,
    /// How long a client that has authenticated may take to send the headers of its next
    /// request.
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
            connections: ConnectionLimits::default(),
            priority_paths: Vec::new(),
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
    #[error("`{address}` can be reached from other machines, and no token is required")]
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
        let socket = listen(address).map_err(bind)?;
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

    /// Serves `router` until `stop` ends, then lets requests finish within the deadline. When
    /// it has passed and requests are still running, calls `cut`, which must make them end with
    /// an answer of their own.
    pub async fn serve(self, router: Router, stop: impl Future<Output = ()>, cut: impl FnOnce()) {
        let graceful = GracefulShutdown::new();
        let connections = Connections::new(self.settings.connections);
        let turned_away = TurnedAway::new(self.settings.refuse);
        let door = Arc::new(self.door(router));
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
            let is_proxy = door.guard().trusted_proxies.contains(peer);
            let ticket = match connections.admit((!is_proxy).then(|| PeerAddress::from(peer))) {
                Ok(ticket) => Arc::new(ticket),
                Err(refusal) => {
                    turned_away.refuse(stream, peer.into(), refusal);
                    continue;
                }
            };
            let visitor = Visitor { door: Arc::clone(&door), ticket: Arc::clone(&ticket), peer };
            let connection = graceful.watch(self.connection(stream, visitor));
            let mut closed = closed.clone();
            tokio::spawn(async move {
                tokio::select! {
                    ended = connection => {
                        if let Err(error) = ended {
                            tracing::debug!(%error, "connection failed");
                        }
                    }
                    reason = ticket.must_close() => tracing::debug!(%peer, reason, "connection closed"),
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
            let _ = tokio::time::timeout(LAST_ANSWERS, finished).await;
        }
        closing.send_replace(true);
    }

    fn door(&self, router: Router) -> Door {
        Door {
            guard: Arc::clone(&self.guard),
            refuse: self.settings.refuse,
            priority_paths: self.settings.priority_paths.clone(),
            failures: Failures::default(),
            rejections: LogBudget::new(REJECTIONS_LOGGED),
            router,
        }
    }

    fn connection(
        &self,
        stream: TcpStream,
        visitor: Visitor,
    ) -> http1::Connection<
        TokioIo<Unstalled<TcpStream>>,
        impl hyper::service::HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + use<>,
    > {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let stream = Unstalled::new(stream, self.settings.write_timeout);
        let service = service_fn(move |request: Request<Incoming>| {
            let visitor = visitor.clone();
            async move { Ok::<_, Infallible>(visitor.answer(request.map(Body::new)).await) }
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.settings.header_timeout)
            .max_buf_size(self.settings.max_header_bytes.max(8192))
            .serve_connection(TokioIo::new(stream), service)
    }
}

/// Opens a socket whose queue has room for a burst of connections: when it is full, clients try
/// again after a second.
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
