//! Responses for connections over the limit: the first request is answered with 503.

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
    guard::{RETRY_AFTER, Rejection},
    log_budget::LogBudget,
};

/// Maximum number of rejected connections that are open at a time until their clients have read the
/// response.
const MAX_LINGERING: usize = 64;

/// How long a client may take to send a request and read the response.
const LINGER: Duration = Duration::from_secs(1);

/// Answers connections over the limit.
#[derive(Debug)]
pub(super) struct OverloadResponder {
    refuse: fn(Rejection) -> String,
    lingering: Arc<AtomicUsize>,
    log: LogBudget,
}

impl OverloadResponder {
    pub(super) fn new(refuse: fn(Rejection) -> String) -> Self {
        Self { refuse, lingering: Arc::default(), log: LogBudget::new(1) }
    }

    /// Answers the first request with 503 and closes the connection. When too many such connections
    /// are open, closes it without a response.
    pub(super) fn reject(&self, stream: TcpStream, address: PeerAddress, rejection: Rejection) {
        if let Some(unlogged) = self.log.take() {
            tracing::warn!(client = %address, reason = ?rejection, unlogged, "connection rejected");
        }
        let lingering = Arc::clone(&self.lingering);
        if lingering.fetch_add(1, Ordering::Relaxed) >= MAX_LINGERING {
            lingering.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let answer = answer(rejection, &(self.refuse)(rejection));
        tokio::spawn(async move {
            let _ = tokio::time::timeout(LINGER, answer_first_request(stream, &answer)).await;
            lingering.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn answer(rejection: Rejection, body: &str) -> String {
    let status = rejection.status();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nretry-after: {RETRY_AFTER}\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Sends the response once a request begins, because clients take an earlier response for an error,
/// and reads until the client closes. Closing earlier would reset the connection, and the client
/// might never see the response.
async fn answer_first_request(mut stream: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut unread = [0; 4096];
    if stream.read(&mut unread).await? == 0 {
        return Ok(());
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}
