//! The parts of the listener that depend on the operating system.
//!
//! Both implementations have the same types and functions.

#[cfg(any(test, not(unix)))]
#[cfg_attr(unix, expect(unreachable_pub, reason = "public where it is not compiled for tests alone"))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use self::other::LocalListener;
#[cfg(not(unix))]
pub(crate) use self::other::reuse_address;
#[cfg(unix)]
pub use self::unix::LocalListener;
#[cfg(unix)]
pub(crate) use self::unix::reuse_address;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn there_are_systems_without_local_sockets() {
        let refused = other::LocalListener::bind(Path::new("/tmp/x.sock")).expect_err("no such sockets");
        assert_eq!(refused.kind(), std::io::ErrorKind::Unsupported);
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        other::reuse_address(&socket).expect("nothing is done");
        assert!(!socket.reuseaddr().expect("readable"));
        reuse_address(&socket).expect("it is ours");
        assert_eq!(socket.reuseaddr().expect("readable"), std::path::MAIN_SEPARATOR == '/');
        let unused = |listener: other::LocalListener| async move {
            let _ = listener.path().to_owned();
            listener.serve(axum::Router::new()).await;
        };
        let _ = unused;
    }
}
