//! The local page that the browser is redirected to at the end of a login.

use std::{io, net::Ipv4Addr, time::Duration};

use reqwest::Url;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// The path of the page.
const PATH: &str = "/callback";

/// Maximum number of bytes of a request head.
const MAX_HEAD: usize = 16 << 10;

/// Maximum number of simultaneous connections.
const MAX_VISITS: usize = 32;

/// Timeout for reading a request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The listener for the redirect.
#[derive(Debug)]
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

impl Callback {
    /// Listens on this local port, or on any free one for 0.
    pub(super) async fn open(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Returns the redirect URL.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for a request whose URL `take` accepts; `take` also returns the text of the page. Other
    /// requests are rejected: any web page can make a browser send requests here.
    pub(super) async fn wait<T>(&self, mut take: impl FnMut(&Url) -> Option<(T, &'static str)>) -> T {
        // Browsers open connections that they do not use, so one must not block others.
        let mut visits = JoinSet::new();
        loop {
            let visit = tokio::select! {
                accepted = self.listener.accept(), if visits.len() < MAX_VISITS => {
                    match accepted {
                        Ok((stream, _)) => _ = visits.spawn(tokio::time::timeout(HEAD_TIMEOUT, read_target(stream))),
                        // Most likely there are too many open files; some will be closed.
                        Err(_) => tokio::time::sleep(HEAD_TIMEOUT / 100).await,
                    }
                    continue;
                }
                Some(visit) = visits.join_next() => visit,
            };
            let Ok(Ok(Ok((target, mut stream)))) = visit else { continue };
            let url = target.and_then(|target| Url::parse(&self.url()).ok()?.join(&target).ok());
            let url = url.filter(|url| url.path() == PATH && url.port() == Some(self.port));
            let Some((taken, page)) = url.and_then(|url| take(&url)) else {
                let _ = answer(&mut stream, "404 Not Found", "This page does not belong to a login in progress.").await;
                continue;
            };
            let _ = answer(&mut stream, "200 OK", page).await;
            return taken;
        }
    }
}

/// Returns the target of a GET request.
async fn read_target(mut stream: TcpStream) -> io::Result<(Option<String>, TcpStream)> {
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = stream.read(&mut buffer).await?;
        if read == 0 || head.len() + read > MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&buffer[..read]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let target = words.next().filter(|method| *method == "GET").and(words.next());
    Ok((target.filter(|target| target.starts_with('/')).map(str::to_owned), stream))
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) -> io::Result<()> {
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Pegboard</title>\
         <body style=\"font-family: sans-serif; margin: 4em\"><h1>Pegboard</h1><p>{text}</p></body></html>"
    );
    // The URL has the code and must not be sent as a referrer.
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\nContent-Security-Policy: default-src 'none'; \
         style-src 'unsafe-inline'\r\nConnection: close\r\n\r\n",
        page.len()
    );
    let write = async {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(page.as_bytes()).await?;
        stream.shutdown().await
    };
    tokio::time::timeout(HEAD_TIMEOUT, write).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn visit(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn only_the_right_visitor_is_taken() {
        let callback = Callback::open(0).await.expect("a port");
        let port = callback.port;
        // A connection without a request does not block others.
        let _idle = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("it listens");
        let take = |url: &Url| url.query().filter(|query| *query == "right").map(|_| ("taken", "Thanks."));
        let visits = async {
            let mut seen = Vec::new();
            for target in ["GET /", "GET /callback?wrong", "POST /callback?right", "GET //evil.example/callback?right"]
            {
                seen.push(visit(port, &format!("{target} HTTP/1.1\r\nHost: x\r\n\r\n")).await);
            }
            seen.push(visit(port, &format!("GET /{}", "x".repeat(MAX_HEAD + 1))).await);
            seen.push(visit(port, "GET /callback?right HTTP/1.1\r\n\r\n").await);
            seen
        };
        let (taken, seen) = tokio::join!(callback.wait(take), visits);
        assert_eq!(taken, "taken");
        let no = "HTTP/1.1 404 Not Found";
        assert_eq!(seen, [no, no, no, no, "", "HTTP/1.1 200 OK"]);
    }
}
