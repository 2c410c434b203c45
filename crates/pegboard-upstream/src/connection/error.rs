//! Why a call did not get its result.

use std::{sync::Arc, time::Duration};

use pegboard_core::breaker::Tripped;
use pegboard_mcp::rpc::RpcError;

use crate::{auth::NeedsLogin, call_queue::Busy};

/// Why a call did not get its result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server refused it.
    #[error(transparent)]
    Rpc(RpcError),
    /// The server did not answer in time.
    #[error("no response within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The connection is gone.
    #[error("the server is not connected: {0}")]
    Closed(Arc<str>),
    /// It was not sent: the server does not run.
    #[error("the server is not connected: {0}")]
    NotRunning(Arc<str>),
    /// The server has forgotten the session; it never saw the call.
    #[error("the session expired on the server")]
    SessionExpired,
    /// An HTTP status that says nothing more.
    #[error("the server answered with HTTP status {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// The server wants a login, and there is none that it takes.
    #[error(transparent)]
    Login(NeedsLogin),
    /// It could not be sent.
    #[error("cannot reach the server")]
    Unreachable(#[source] reqwest::Error),
    /// It was not sent: the tool is new or was changed, and is held.
    #[error("the tool is held until it is approved; review it with `pegboard approve`")]
    Held,
    /// It was not sent: too many others are running.
    #[error("concurrency limit of the server reached (`maxConcurrent`): {0}")]
    Busy(Busy),
    /// It was not sent: the client needs a connection of its own, and there are too many.
    #[error(
        "connection limit of the server reached: {most} connections of single clients are open (`pegboard.maxConnections`)"
    )]
    TooManyConnections {
        /// The limit.
        most: usize,
    },
    /// It was not sent: there is too much of it.
    #[error("arguments are {bytes} bytes, over the limit of {most} (`maxArgumentBytes`)")]
    ArgumentsTooLarge {
        /// How much there is.
        bytes: usize,
        /// How much there may be.
        most: usize,
    },
    /// What came back is more than is passed on.
    #[error("result is {} bytes, over the limit of {most} (`maxResultBytes`)", size(*.bytes, *.most))]
    ResultTooLarge {
        /// How much it is, if it was read at all.
        bytes: Option<usize>,
        /// How much it may be.
        most: usize,
    },
    /// It was not sent: too many before it had no answer.
    #[error(transparent)]
    Tripped(Tripped),
    /// What came back is no answer.
    #[error("invalid response from the server: {0}")]
    Garbled(String),
}

impl CallError {
    /// An address may hold a secret; the error is told without it.
    pub(crate) fn unreachable(error: reqwest::Error) -> Self {
        Self::Unreachable(error.without_url())
    }

    /// Whether the call was certainly not sent to the server.
    pub fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::NotRunning(_)
                | Self::Held
                | Self::Busy(_)
                | Self::TooManyConnections { .. }
                | Self::ArgumentsTooLarge { .. }
                | Self::Tripped(_)
        )
    }

    /// Whether the circuit breaker counts this as a failure of the server: the call went unanswered. A server that
    /// answers with an error is there.
    pub(crate) fn is_server_failure(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Closed(_) | Self::Unreachable(_) => true,
            Self::Status { status } => *status >= 500,
            _ => false,
        }
    }

    /// What kind of failure it is, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rpc(_) => "refused",
            Self::Timeout(_) => "timeout",
            Self::Closed(_) | Self::NotRunning(_) => "closed",
            Self::SessionExpired => "expired",
            Self::Status { .. } => "status",
            Self::Login(_) => "login",
            Self::Unreachable(_) => "unreachable",
            Self::Tripped(_) => "tripped",
            Self::Held => "held",
            Self::Busy(_) | Self::TooManyConnections { .. } => "busy",
            Self::ArgumentsTooLarge { .. } | Self::ResultTooLarge { .. } => "too large",
            Self::Garbled(_) => "garbled",
        }
    }
}

fn size(bytes: Option<usize>, most: usize) -> String {
    bytes.map_or_else(|| format!("more than {most}"), |bytes| bytes.to_string())
}
