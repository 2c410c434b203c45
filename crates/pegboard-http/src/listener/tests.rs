use std::{net::Ipv4Addr, sync::Mutex};

use axum::{body::Bytes, routing::get};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::oneshot,
};

use super::*;
use crate::Principal;

/// Nothing here takes this long.
const IO_TIMEOUT: Duration = Duration::from_secs(60);

/// More than the buffers between two programs hold.
const LARGE: usize = 64 << 20;

/// An answer that says when it is let go.
struct Told(Vec<u8>, Option<oneshot::Sender<()>>);

impl AsRef<[u8]> for Told {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.1.take().map(|gone| gone.send(()));
    }
}

fn settings() -> Settings {
    Settings {
        connections: ConnectionLimits::for_one_caller(1),
        ..Settings::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }
}

async fn start(settings: Settings, router: Router) -> SocketAddr {
    let listener = Listener::bind(settings).await.expect("a port");
    let address = listener.address();
    tokio::spawn(listener.serve(router, std::future::pending(), || {}));
    address
}

/// The first line of the answer to a request.
async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = String::new();
    let read = tokio::time::timeout(IO_TIMEOUT, stream.read_to_string(&mut answer)).await;
    read.expect("an answer in time").expect("an answer");
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn clients_that_do_not_read_are_evicted() {
    let (sender, gone) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let large = get(move || async move {
        let gone = sender.lock().expect("the sender").take();
        Bytes::from_owner(Told(vec![b'x'; LARGE], gone))
    });
    let router = Router::new().route("/large", large).route("/small", get(|| async { "small" }));
    let settings = Settings { write_timeout: Duration::from_millis(50), ..settings() };
    let address = start(settings, router).await;
    let mut unread = TcpStream::connect(address).await.expect("a connection");
    unread.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("a request");
    tokio::time::timeout(IO_TIMEOUT, gone).await.expect("it is let go").expect("it was there");
    // The only connection there may be is free again.
    let answer = ask(address, "GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert_eq!(answer, "HTTP/1.1 200 OK");
    let mut read = Vec::new();
    let _ = unread.read_to_end(&mut read).await;
    assert!(!read.is_empty() && read.len() < LARGE, "{}", read.len());
}

#[tokio::test]
async fn requests_say_once_to_whom_they_are() {
    let address = start(settings(), Router::new().route("/", get(|| async {}))).await;
    let check = async |head: &str, expected: &str| {
        assert_eq!(ask(address, &format!("{head}Connection: close\r\n\r\n")).await, expected, "{head}");
    };
    check("GET / HTTP/1.1\r\nHost: localhost\r\n", "HTTP/1.1 200 OK").await;
    check("GET / HTTP/1.1\r\n", "HTTP/1.1 400 Bad Request").await;
    check("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.com\r\n", "HTTP/1.1 400 Bad Request").await;
    check("GET / HTTP/1.1\r\nHost: evil.example.com\r\n", "HTTP/1.1 403 Forbidden").await;
    check("GET / HTTP/1.0\r\n", "HTTP/1.0 200 OK").await;
    let preflight = "OPTIONS / HTTP/1.1\r\nAccess-Control-Request-Method: POST\r\n";
    check(preflight, "HTTP/1.1 400 Bad Request").await;
    check(&format!("{preflight}Host: localhost\r\n"), "HTTP/1.1 204 No Content").await;
}

#[tokio::test]
async fn tokens_are_not_shown() {
    let guard = Guard { tokens: vec![(Principal(0), "secret".into())], ..Guard::default() };
    let settings = Settings { guard, ..settings() };
    let shown = format!("{settings:?} {:?}", Listener::bind(settings.clone()).await.expect("a port"));
    assert!(!shown.contains("secret"), "{shown}");
}
