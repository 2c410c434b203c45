//! The listener and its connections, a thread each.

use std::{
    io::{self, BufReader, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use super::{
    Rules,
    forward::forward,
    grants::{AuthorityAnswer, State},
};
use crate::provider::http;

/// A server that is listening. Dropped, it closes all its connections and is gone.
pub(super) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    is_stopped: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Server {
    pub(super) fn bind(rules: Rules) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Mutex::new(State::new(rules, format!("http://{address}")));
        let shared = Arc::new(Shared { state, is_stopped: AtomicBool::new(false), open: Mutex::default() });
        let accepting = Arc::clone(&shared);
        let listener = Some(thread::spawn(move || accept(&listener, &accepting)));
        Ok(Self { shared, address, listener })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        // Wakes the listener, which then sees that it is to stop.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_stopped.load(Ordering::Relaxed) {
            break;
        }
        let Ok(stream) = stream else { continue };
        lock(&shared.open).extend(stream.try_clone());
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // A connection that fails is the client's affair.
            let _ = serve(&stream, &shared);
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
    lock(&shared.open).iter().for_each(|stream| _ = stream.shutdown(Shutdown::Both));
}

/// Answers one request; the next one takes another connection, as the answers say.
fn serve(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream.try_clone()?);
    let Some(request) = http::read(&mut input, &mut stream)? else { return Ok(()) };
    let answer = if request.path() == "/mcp" {
        let (admitted, backend) = {
            let mut state = lock(&shared.state);
            (state.admit(&request), state.rules.backend)
        };
        match (admitted, backend) {
            (Ok(()), Some(backend)) => return forward(&request, backend, stream),
            (Ok(()), None) => AuthorityAnswer::text(200, ""),
            (Err(refusal), _) => refusal,
        }
    } else {
        lock(&shared.state).answer(&request)
    };
    let mut head = format!("HTTP/1.1 {} {}\r\nConnection: close\r\n", answer.status, http::reason(answer.status));
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n{}", answer.body.len(), answer.body));
    stream.write_all(head.as_bytes())
}

/// Locks `mutex`. A thread that panicked here has failed its test already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
