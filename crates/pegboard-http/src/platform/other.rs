//! Systems without Unix sockets.

use std::{convert::Infallible, io, path::Path};

use axum::Router;
use tokio::net::TcpSocket;

/// A local socket, which this system does not have: there is no value of this type.
#[derive(Debug)]
pub struct LocalListener(Infallible);

impl LocalListener {
    /// Fails: this system has no local sockets.
    ///
    /// # Errors
    /// Always.
    pub fn bind(_path: &Path) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "local sockets are not supported on this system"))
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        match self.0 {}
    }

    /// Serves `router` for as long as it is polled.
    #[expect(clippy::unused_async, reason = "the signature of the other systems")]
    pub async fn serve(self, _router: Router) {
        match self.0 {}
    }
}

/// Does nothing: here the option would let two programs use one port.
pub(crate) fn reuse_address(_socket: &TcpSocket) -> io::Result<()> {
    Ok(())
}
