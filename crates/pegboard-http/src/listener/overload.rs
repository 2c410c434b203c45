//! Connections for which there is no place: their first request is answered 503, and nothing more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    PeerAddress,
    guard::{RETRY_AFTER, Refusal},
    log_budget::LogBudget,
};

/// Refused connections that may be open at a time until their clients have read the answer.
const MAX_LINGERING: usize = 64;

/// How long a client may take to send a request and read the answer.
const LINGER: Duration = Duration::from_secs(1);

/// Answers connections for which there is no place.
#[derive(Debug)]
pub(super) struct TurnedAway {
    refuse: fn(Refusal) -> String,
    lingering: Arc<AtomicUsize>,
    log: LogBudget,
}

impl TurnedAway {
    pub(super) fn new(refuse: fn(Refusal) -> String) -> Self {
        Self { refuse, lingering: Arc::default(), log: LogBudget::new(1) }
    }

    /// Answers the first request with 503 and closes the connection. Too many at a time are closed
    /// without an answer.
    pub(super) fn refuse(&self, stream: TcpStream, address: PeerAddress, refusal: Refusal) {
        if let Some(unlogged) = self.log.take() {
            tracing::warn!(client = %address, reason = ?refusal, unlogged, "connection rejected");
        }
        let lingering = Arc::clone(&self.lingering);
        if lingering.fetch_add(1, Ordering::Relaxed) >= MAX_LINGERING {
            lingering.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let answer = answer(refusal, &(self.refuse)(refusal));
        tokio::spawn(async move {
            let _ = tokio::time::timeout(LINGER, converse(stream, &answer)).await;
            lingering.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn answer(refusal: Refusal, body: &str) -> String {
    let status = refusal.status();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nretry-after: {RETRY_AFTER}\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Answers once a request begins, since clients take an earlier answer for an error, and reads on
/// until the client closes. Closing before that would reset the connection, and the client might
/// never see the answer.
async fn converse(mut stream: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut unread = [0; 4096];
    if stream.read(&mut unread).await? == 0 {
        return Ok(());
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}
