//! The relay of the tool API into a sandbox without a network: a socket in a private folder.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::copy_bidirectional,
    net::{TcpStream, UnixListener},
    sync::Semaphore,
    task::JoinSet,
};

/// Maximum number of concurrent connections of a command; further ones wait.
pub(super) const CONNECTIONS: usize = 64;

/// Pause after a connection could not be accepted, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Connects clients of `listener` with `address`. All connections end with the future.
pub(super) async fn serve(listener: UnixListener, address: SocketAddr) -> Infallible {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await;
        match listener.accept().await {
            Ok((mut inside, _)) => {
                connections.spawn(async move {
                    let _permit = permit;
                    if let Ok(mut outside) = TcpStream::connect(address).await {
                        let _ = copy_bidirectional(&mut inside, &mut outside).await;
                    }
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}
