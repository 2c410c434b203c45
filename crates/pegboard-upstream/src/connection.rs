//! One connection to a server: what both of its directions share.

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
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{mpsc, watch};

pub use self::{
    call::Call,
    error::CallError,
    heard::{Event, Notice},
    network::NetworkFault,
};
use pegboard_mcp::era::Era;

pub(crate) use self::client::{Asks, SoleClient};
use self::{calls::Calls, news::News, questions::Questions};
use crate::{redact::Redactor, server_output::OutputLog, transport::Outbound};

/// Separates the reason of an error from the last output of the server.
pub(crate) const LAST_OUTPUT: &str = "; last output: ";

/// What a connection is opened with, however the server is reached.
#[derive(Clone, Debug)]
pub(crate) struct LinkSettings {
    pub(crate) server: Arc<str>,
    /// Hides secrets in what the server says.
    pub(crate) redactor: Redactor,
    /// Where notifications go that belong to no call.
    pub(crate) notices: mpsc::Sender<Notice>,
    /// What the server writes beside its messages.
    pub(crate) talk: Arc<OutputLog>,
    /// Maximum size of a message in bytes; a longer one is not read.
    pub(crate) max_message: usize,
    /// The only client of the connection; `None` if clients share it.
    pub(crate) client: Option<SoleClient>,
    /// Whether the server asks its clients anything, on any of its connections.
    pub(crate) asks: Arc<Asks>,
}

#[cfg(test)]
impl LinkSettings {
    /// Settings for tests.
    pub(crate) fn test(notices: mpsc::Sender<Notice>) -> Self {
        Self {
            server: "s".into(),
            redactor: Redactor::default(),
            notices,
            talk: Arc::default(),
            max_message: 1024,
            client: None,
            asks: Arc::default(),
        }
    }
}

/// What both directions of a connection share.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) server: Arc<str>,
    /// What is not to be told of what the server says.
    pub(crate) redactor: Redactor,
    /// A longer message is not read.
    pub(crate) max_message: usize,
    outbound: Outbound,
    /// What the server writes beside its messages.
    talk: Arc<OutputLog>,
    /// What it tells of its lists.
    pub(crate) news: News,
    era: OnceLock<Era>,
    calls: Calls,
    questions: Questions,
    /// The only client of the connection, if it is not shared.
    client: Option<SoleClient>,
    asks: Arc<Asks>,
    notices: mpsc::Sender<Notice>,
    closed: watch::Sender<Option<Arc<str>>>,
    /// Whether the server has come as far as being used.
    is_ready: AtomicBool,
}

impl Link {
    pub(crate) fn new(settings: LinkSettings, outbound: Outbound) -> Arc<Self> {
        let LinkSettings { server, redactor, notices, talk, max_message, client, asks } = settings;
        Arc::new(Self {
            server,
            redactor,
            max_message,
            outbound,
            talk,
            news: News::default(),
            era: OnceLock::new(),
            calls: Calls::default(),
            questions: Questions::default(),
            client,
            asks,
            notices,
            closed: watch::Sender::new(None),
            is_ready: AtomicBool::new(false),
        })
    }

    /// Fixes the era; from here on calls follow its rules.
    pub(crate) fn settle_era(&self, era: Era) {
        let _ = self.era.set(era);
    }

    pub(crate) fn era(&self) -> Option<Era> {
        self.era.get().copied()
    }

    /// Notes that the server is used from now on.
    pub(crate) fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Whether the answer to this call is still awaited.
    pub(crate) fn is_pending(&self, id: u64) -> bool {
        self.calls.is_pending(id)
    }

    pub(crate) fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Notes what the server writes for people to read.
    pub(crate) fn wrote(&self, line: &str) {
        self.talk.add_stderr(line);
    }

    /// Notes what the server wrote where only messages belong.
    pub(crate) fn strayed(&self, line: &str) {
        self.talk.add_stray(line);
    }

    /// `reason` with what the server last wrote, which most often explains it.
    pub(crate) fn explain(&self, reason: &str) -> String {
        match self.talk.last_stderr_line() {
            Some(words) => format!("{reason}{LAST_OUTPUT}{words}"),
            None => reason.to_owned(),
        }
    }

    /// Marks the connection as gone; all that wait for answers are told why.
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

    /// Waits until the connection is gone; why.
    pub(crate) async fn closed(&self) -> Arc<str> {
        let mut closed = self.closed.subscribe();
        let reason = closed.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_else(|| "closed".into())
    }
}
