//! One connection to a server.

mod call;
mod calling;
mod calls;
mod client;
mod error;
mod heard;
mod incoming;
mod network;
mod news;
mod outgoing;
mod questions;

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use pegboard_core::locks::lock;
use tokio::sync::{mpsc, watch};

pub use self::{
    call::Call,
    error::CallError,
    heard::{CallEvent, Notice},
    network::NetworkFault,
};
use pegboard_mcp::{era::Era, json::Raw};

pub(crate) use self::client::{Asks, SoleClient};
use self::{calls::Calls, news::News, questions::Questions};
use crate::{redact::Redactor, server_output::OutputLog, transport::Outbound};

/// Separates the reason of an error from the last output of the server.
pub(crate) const LAST_OUTPUT: &str = "; last output: ";

/// The settings of a connection, for every transport.
#[derive(Clone, Debug)]
pub(crate) struct LinkSettings {
    pub(crate) server: Arc<str>,
    /// Hides secrets in messages of the server.
    pub(crate) redactor: Redactor,
    /// The channel for notifications that belong to no call.
    pub(crate) notices: mpsc::Sender<Notice>,
    /// The output of the server beside its messages.
    pub(crate) output: Arc<OutputLog>,
    /// Maximum size of a message in bytes; a longer one is not read.
    pub(crate) max_message: usize,
    /// The only client of the connection; `None` if clients share it.
    pub(crate) client: Option<SoleClient>,
    /// Whether the server asks its clients anything, on any of its connections.
    pub(crate) asks: Arc<Asks>,
    /// The capabilities that the connection declares.
    pub(crate) capabilities: Raw,
}

#[cfg(test)]
impl LinkSettings {
    /// Settings for tests.
    pub(crate) fn test(notices: mpsc::Sender<Notice>) -> Self {
        Self {
            server: "s".into(),
            redactor: Redactor::default(),
            notices,
            output: Arc::default(),
            max_message: 1024,
            client: None,
            asks: Arc::default(),
            capabilities: pegboard_mcp::json::raw(&pegboard_mcp::json::Fields::new()),
        }
    }
}

/// The state that both directions of a connection share.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) server: Arc<str>,
    /// Hides secrets in messages of the server.
    pub(crate) redactor: Redactor,
    /// Maximum size of a message in bytes.
    pub(crate) max_message: usize,
    outbound: Outbound,
    /// The output of the server beside its messages.
    output: Arc<OutputLog>,
    /// Changes that the server announces.
    pub(crate) news: News,
    era: OnceLock<Era>,
    calls: Calls,
    questions: Questions,
    /// The number of questions of the server that wait for their answers.
    open_questions: watch::Sender<usize>,
    /// The only client of the connection, if it is not shared.
    client: Option<SoleClient>,
    asks: Arc<Asks>,
    /// The capabilities that it declares: once in a legacy handshake, with each request to a modern server.
    capabilities: Mutex<Raw>,
    notices: mpsc::Sender<Notice>,
    closed: watch::Sender<Option<Arc<str>>>,
    /// Whether the connection is ready for calls.
    is_ready: AtomicBool,
}

impl Link {
    pub(crate) fn new(settings: LinkSettings, outbound: Outbound) -> Arc<Self> {
        let LinkSettings { server, redactor, notices, output, max_message, client, asks, capabilities } = settings;
        Arc::new(Self {
            server,
            redactor,
            max_message,
            outbound,
            output,
            news: News::default(),
            era: OnceLock::new(),
            calls: Calls::default(),
            questions: Questions::default(),
            open_questions: watch::Sender::default(),
            client,
            asks,
            capabilities: Mutex::new(capabilities),
            notices,
            closed: watch::Sender::new(None),
            is_ready: AtomicBool::new(false),
        })
    }

    /// Sets the era, whose rules calls follow from now on.
    pub(crate) fn set_era(&self, era: Era) {
        let _ = self.era.set(era);
    }

    pub(crate) fn era(&self) -> Option<Era> {
        self.era.get().copied()
    }

    /// Returns the capabilities that the connection declares.
    pub(crate) fn capabilities(&self) -> Raw {
        lock(&self.capabilities).clone()
    }

    /// Declares other capabilities from now on. Only modern servers learn of them.
    pub(crate) fn set_capabilities(&self, capabilities: Raw) {
        *lock(&self.capabilities) = capabilities;
    }

    /// Marks the connection as ready.
    pub(crate) fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Returns whether a call still waits for its answer.
    pub(crate) fn is_pending(&self, id: u64) -> bool {
        self.calls.is_pending(id)
    }

    pub(crate) fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Records a line of standard error.
    pub(crate) fn record_stderr(&self, line: &str) {
        self.output.add_stderr(line);
    }

    /// Records a line of standard output that is not a message.
    pub(crate) fn record_stray(&self, line: &str) {
        self.output.add_stray(line);
    }

    /// Returns `reason` with the last output of the server, which often explains it.
    pub(crate) fn explain(&self, reason: &str) -> String {
        match self.output.last_stderr_line() {
            Some(words) => format!("{reason}{LAST_OUTPUT}{words}"),
            None => reason.to_owned(),
        }
    }

    /// Closes the connection, and fails all running calls with the reason.
    pub(crate) fn close(&self, reason: impl Into<Arc<str>>) {
        let reason = reason.into();
        let is_first = self.closed.send_if_modified(|closed| {
            let is_first = closed.is_none();
            if is_first {
                *closed = Some(Arc::clone(&reason));
            }
            is_first
        });
        if !is_first {
            return;
        }
        self.calls.close(&reason);
        self.questions.close();
        if let Outbound::Http(client) = &self.outbound {
            client.end_session();
        }
    }

    pub(crate) fn close_reason(&self) -> Option<Arc<str>> {
        self.closed.borrow().clone()
    }

    /// Waits until the connection is closed, and returns the reason.
    pub(crate) async fn closed(&self) -> Arc<str> {
        let mut closed = self.closed.subscribe();
        let reason = closed.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_else(|| "closed".into())
    }
}
