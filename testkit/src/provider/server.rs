//! The listener and its connections, a thread each.

use std::{
    collections::BTreeMap,
    io::{self, BufReader},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    exchange::State,
    http,
    record::Ending,
    script::Script,
    send::{self, Stopper},
};

/// A server that is listening. Dropped, it closes all its connections and is gone.
pub(crate) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    stopper: Stopper,
    open: Mutex<BTreeMap<u64, TcpStream>>,
}

impl Server {
    /// Listens on a port of the loopback interface; zero stands for any.
    pub(crate) fn bind(script: Script, port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { state: Mutex::new(State::new(script)), ..Shared::default() });
        let accepting = Arc::clone(&shared);
        let listener = Some(thread::spawn(move || accept(&listener, &accepting)));
        Ok(Server { shared, address, listener })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopper.stop();
        // Wakes the listener, which then sees that it is to stop.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for (number, stream) in (0..).zip(listener.incoming()) {
        if shared.stopper.wait(Duration::ZERO) {
            break;
        }
        let Ok(stream) = stream else { continue };
        if let Ok(twin) = stream.try_clone() {
            lock(&shared.open).insert(number, twin);
        }
        let shared = Arc::clone(shared);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread::spawn(move || {
            // A connection that fails is the client's affair.
            let _ = serve(&stream, &shared);
            let _ = stream.shutdown(Shutdown::Both);
            lock(&shared.open).remove(&number);
        }));
    }
    for stream in lock(&shared.open).values() {
        let _ = stream.shutdown(Shutdown::Both);
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Answers the requests of one connection in turn.
fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    // Small pieces are sent as such.
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream.try_clone()?);
    while let Some(request) = http::read(&mut input, &mut &*stream)? {
        let answer = lock(&shared.state).answer(&request);
        let ending = send::send(stream, &answer, &shared.stopper);
        if let Some(number) = answer.number {
            lock(&shared.state).end(number, ending);
        }
        if ending != Ending::Sent || !request.keep_alive {
            break;
        }
    }
    Ok(())
}

/// Locks `mutex`. A thread that panicked here has failed its test already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
