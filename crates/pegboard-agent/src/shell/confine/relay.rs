//! The tool API's way into a sandbox that has no network: a socket in a private folder.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::copy_bidirectional,
    net::{TcpStream, UnixListener},
    sync::Semaphore,
    task::JoinSet,
};

/// How many connections a command may have at once; more wait.
pub(super) const CONNECTIONS: usize = 64;

/// How long to wait when no connection can be taken, for example for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Connects whoever comes to `listener` with `address`. All connections end with the future.
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
