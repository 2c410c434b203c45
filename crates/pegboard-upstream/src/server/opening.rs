//! Opening one connection to a server.

use std::{collections::BTreeSet, pin::Pin, sync::Arc, time::Duration};

use pegboard_core::{locks::lock, naming::fnv1a};
use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw},
    rpc::RpcError,
};
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::Instant,
};

use super::Upstream;
use crate::{
    config::TransportConfig,
    connection::{Call, CallError, Link, LinkSettings, Notice, SoleClient},
    environment::Environment,
    handshake::{self, Closing, ConnectError, ConnectOptions, Connected, Hello},
    server_output::OutputLog,
    transport::stdio::Process,
};

/// Notifications of a server that wait to be looked at.
const NOTICES: usize = 1024;

/// How long to wait before the first restart; it doubles with every failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause between restarts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A server that ran this long has not failed to start.
pub(super) const STEADY: Duration = Duration::from_secs(30);

/// How to open a connection.
pub(super) struct Opening<'a> {
    /// The only era to try; `None` finds out.
    pub(super) era: Option<Era>,
    pub(super) transport: &'a TransportConfig,
    /// The capabilities to declare.
    pub(super) capabilities: Raw,
    /// The only client of the connection, if it is not shared.
    pub(super) client: Option<SoleClient>,
    /// What the server writes beside its messages.
    pub(super) output: Arc<OutputLog>,
}

/// An open connection, with the process behind it.
#[derive(Debug)]
pub(super) struct OpenConnection {
    pub(super) link: Arc<Link>,
    pub(super) hello: Arc<Hello>,
    pub(super) process: Option<Process>,
    pub(super) notices: mpsc::Receiver<Notice>,
    /// Closes the link when the connection is dropped.
    pub(super) closing: Closing,
}

impl OpenConnection {
    /// Closes the connection, and waits until its process is gone.
    pub(super) async fn close(self, reason: String) {
        self.link.close(reason);
        if let Some(process) = self.process {
            process.stop().await;
        }
    }
}

/// Waits until a process has ended; for ever if there is none.
pub(super) async fn process_ended(process: &mut Option<Process>) -> String {
    match process {
        Some(process) => process.wait().await,
        None => std::future::pending().await,
    }
}

impl Upstream {
    /// Opens a connection. The caller bounds the time; dropping the future ends the process.
    pub(super) async fn open(&self, opening: Opening<'_>) -> Result<OpenConnection, ConnectError> {
        let Opening { era, transport, capabilities, client, output } = opening;
        if let Some(bearer) = &self.bearer {
            bearer.clear_cache().await;
        }
        let (sender, notices) = mpsc::channel(NOTICES);
        let environment = self.environment();
        let link = LinkSettings {
            server: self.name().into(),
            redactor: self.redactor.clone(),
            notices: sender,
            output,
            max_message: self.config.limits.max_message_bytes(),
            client,
            asks: Arc::clone(&self.asks),
            capabilities,
        };
        let (supervisor, bearer) = (&self.context.supervisor[..], self.bearer.as_ref());
        let means = ConnectOptions { supervisor, environment: &environment, bearer, link };
        let connected = handshake::connect(&self.config, transport, era, means).await?;
        let Connected { link, hello, process, closing } = connected;
        Ok(OpenConnection { link, hello, process, notices, closing })
    }

    /// The variables of its program, as the latest configuration has it.
    pub(super) fn environment(&self) -> Environment {
        let reserved = lock(&self.context.reserved).clone();
        Environment::of(&self.config, &reserved)
    }
}

/// A server's notification stream, ended when dropped.
pub(super) struct Listening(AbortHandle);

impl Listening {
    /// Opens the notification stream of a modern server, and keeps it open.
    pub(super) fn start(connection: &OpenConnection, watched: watch::Receiver<BTreeSet<String>>) -> Self {
        let (link, hello) = (Arc::clone(&connection.link), Arc::clone(&connection.hello));
        Self(tokio::spawn(listen(link, hello, watched)).abort_handle())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Doubles with every failure; a little different for every server, so that they do not
/// all come back at once.
pub(super) fn pause(server: &str, failures: u32) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE);
    let share = fnv1a(server.bytes(), u64::from(failures)) % 256;
    pause.mul_f64(0.75 + share as f64 / 512.0)
}

/// A request for notifications, which is answered when the server ends the stream.
type Stream = Pin<Box<dyn Future<Output = Result<Raw, CallError>> + Send>>;

/// Keeps a modern server's notification stream open. When the subscribed resources change, the old
/// stream stays until the server has agreed to the new one, so that no update is lost.
async fn listen(link: Arc<Link>, hello: Arc<Hello>, mut watched: watch::Receiver<BTreeSet<String>>) {
    if hello.era != Era::Modern {
        return;
    }
    let (mut failures, mut has_gap) = (0, false);
    let mut previous: Option<Stream> = None;
    loop {
        let uris = watched.borrow_and_update().clone();
        let mut agreements = link.news.agreements();
        let (mut current, mut is_agreed, began) = (open_stream(&link, &uris), false, Instant::now());
        let ended = loop {
            tokio::select! {
                ended = &mut current => break Some(ended),
                _ = watched.changed() => break None,
                _ = agreements.changed() => {
                    drop(previous.take());
                    is_agreed = true;
                    // Before the first stream nothing was missed: lists are asked for once it is open.
                    if std::mem::take(&mut has_gap) {
                        link.news.missed();
                    }
                }
            }
        };
        match ended {
            None if is_agreed => previous = Some(current),
            None => {}
            Some(Err(CallError::Rpc(error))) if error.code == RpcError::METHOD_NOT_FOUND => return,
            Some(Err(CallError::Closed(_))) => return,
            Some(_) => {
                drop(previous.take());
                has_gap = true;
                failures = if began.elapsed() > STEADY { 0 } else { (failures + 1).min(6) };
                tokio::time::sleep(pause(&link.server, failures)).await;
            }
        }
    }
}

/// Asks for notifications about lists and about these resources.
fn open_stream(link: &Arc<Link>, uris: &BTreeSet<String>) -> Stream {
    let filter = json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": uris,
    });
    let params = Fields::new().with("notifications", &filter);
    let call = Call { timeout: None, ..Call::new("subscriptions/listen", params, Duration::MAX) };
    let link = Arc::clone(link);
    Box::pin(async move { link.call(call).await })
}
