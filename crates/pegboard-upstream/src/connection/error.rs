//! Why a call did not get its result.

use std::{sync::Arc, time::Duration};

use pegboard_core::breaker::Tripped;
use pegboard_mcp::rpc::RpcError;

use crate::{auth::NeedsLogin, call_queue::Busy};

/// Why a call did not get its result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server answered with an error.
    #[error(transparent)]
    Rpc(RpcError),
    /// The server did not answer in time.
    #[error("no response within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The connection was closed.
    #[error("the server is not connected: {0}")]
    Closed(Arc<str>),
    /// The call was not sent: the server does not run.
    #[error("the server is not connected: {0}")]
    NotRunning(Arc<str>),
    /// The session has expired; the call did not reach the server.
    #[error("the session expired on the server")]
    SessionExpired,
    /// An HTTP error status without a JSON-RPC error.
    #[error("the server answered with HTTP status {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// The server requires a login, and there is no valid one.
    #[error(transparent)]
    Login(NeedsLogin),
    /// The call could not be sent.
    #[error("cannot reach the server")]
    Unreachable(#[source] reqwest::Error),
    /// The call was not sent: the tool is new or was changed, and is held.
    #[error("the tool is held until it is approved; review it with `pegboard approve`")]
    Held,
    /// The call was not sent: the concurrency limit is reached.
    #[error("concurrency limit of the server reached (`maxConcurrent`): {0}")]
    Busy(Busy),
    /// The call was not sent: another call of the client used its own connection all the time.
    #[error("the client's own connection to the server served another call for the whole time limit (`callTimeout`)")]
    ConnectionBusy,
    /// The call was not sent: the client needs a connection of its own, and there are too many.
    #[error(
        "connection limit of the server reached: {most} connections of single clients are open (`pegboard.maxConnections`)"
    )]
    TooManyConnections {
        /// The limit.
        most: usize,
    },
    /// The call was not sent: its arguments are too large.
    #[error("arguments are {bytes} bytes, over the limit of {most} (`maxArgumentBytes`)")]
    ArgumentsTooLarge {
        /// The size in bytes.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The result is too large.
    #[error("result is {} bytes, over the limit of {most} (`maxResultBytes`)", size(*.bytes, *.most))]
    ResultTooLarge {
        /// The size in bytes, if the result was read.
        bytes: Option<usize>,
        /// The limit.
        most: usize,
    },
    /// The call was not sent: the circuit breaker is open.
    #[error(transparent)]
    Tripped(Tripped),
    /// The answer is invalid.
    #[error("invalid response from the server: {0}")]
    Garbled(String),
}

impl CallError {
    /// Wraps a transport error without its address, which may contain a secret.
    pub(crate) fn unreachable(error: reqwest::Error) -> Self {
        Self::Unreachable(error.without_url())
    }

    /// Returns whether the call was certainly not sent to the server.
    pub fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::NotRunning(_)
                | Self::Held
                | Self::Busy(_)
                | Self::ConnectionBusy
                | Self::TooManyConnections { .. }
                | Self::ArgumentsTooLarge { .. }
                | Self::Tripped(_)
        )
    }

    /// Returns whether the circuit breaker counts this as a failure of the server: the call went unanswered. A server that
    /// answers with an error is there.
    pub(crate) fn is_server_failure(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Closed(_) | Self::Unreachable(_) => true,
            Self::Status { status } => *status >= 500,
            _ => false,
        }
    }

    /// Returns the kind of the failure, in one word.
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
            Self::Busy(_) | Self::ConnectionBusy | Self::TooManyConnections { .. } => "busy",
            Self::ArgumentsTooLarge { .. } | Self::ResultTooLarge { .. } => "too large",
            Self::Garbled(_) => "garbled",
        }
    }
}

fn size(bytes: Option<usize>, most: usize) -> String {
    bytes.map_or_else(|| format!("more than {most}"), |bytes| bytes.to_string())
}
