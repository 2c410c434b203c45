//! A listener on a Unix socket that only the user who runs the program can open.

use std::{
    convert::Infallible,
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpSocket, UnixListener, UnixStream},
    sync::Semaphore,
};
use tower::ServiceExt as _;

use crate::{Owner, write_timeout::WriteTimeout};

/// Maximum number of connections at a time; further ones wait.
const MAX_CONNECTIONS: usize = 32;

/// How long a client may take to send a request, or to read the response.
const IO_TIMEOUT: Duration = Duration::from_secs(30);

/// A Unix socket that is open and not served yet. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct LocalListener {
    socket: UnixListener,
    path: PathBuf,
    /// The user id of the peer that is accepted.
    owner: u32,
}

impl LocalListener {
    /// Opens a socket at `path` and replaces one that was left there. The folder must be
    /// inaccessible to other users: for a moment the socket has the permissions of any new file.
    ///
    /// # Errors
    /// When the system refuses, or the folder is accessible to other users.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let folder = fs::metadata(path.parent().unwrap_or(Path::new(".")))?;
        if folder.mode() & 0o077 != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder is accessible to other users"));
        }
        let _ = fs::remove_file(path);
        let socket = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let owner = fs::symlink_metadata(path)?.uid();
        Ok(Self { socket, path: path.to_owned(), owner })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves `router` for as long as it is polled. Requests carry [`Owner`] and no
    /// [`Principal`](crate::Principal).
    pub async fn serve(self, router: Router) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            let stream = match self.socket.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: give others the time to close some.
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            if !stream.peer_cred().is_ok_and(|peer| peer.uid() == self.owner || peer.uid() == 0) {
                tracing::warn!("control connection from another user rejected");
                continue;
            }
            let router = router.clone();
            tokio::spawn(async move {
                let _slot = slot;
                if let Err(error) = serve_connection(stream, router).await {
                    tracing::debug!(%error, "control connection failed");
                }
            });
        }
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

async fn serve_connection(stream: UnixStream, router: Router) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        let router = router.clone();
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Owner);
            router.oneshot(request).await as Result<_, Infallible>
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IO_TIMEOUT)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, IO_TIMEOUT)), service)
        .await
}

/// Lets a restart use the port at once, without waiting for the connections of the last run.
pub(crate) fn reuse_address(socket: &TcpSocket) -> io::Result<()> {
    socket.set_reuseaddr(true)
}
