//! Messages of a server that are not answers.

use pegboard_mcp::{json::Raw, rpc::RpcError};
use tokio::sync::oneshot;

use crate::{queue::Measured, server::UpdateSource};

/// A notification or question of a server during a call.
#[derive(Debug)]
pub enum CallEvent {
    /// A notification about the call.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Raw>,
    },
    /// A question to the caller.
    Request {
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Raw>,
        /// The channel for the answer.
        reply: oneshot::Sender<Result<Raw, RpcError>>,
    },
}

impl Measured for CallEvent {
    fn bytes(&self) -> usize {
        let (Self::Notification { method, params } | Self::Request { method, params, .. }) = self;
        method.len() + params.as_ref().map_or(0, |params| params.get().len())
    }
}

/// A notification of a server that belongs to no call.
#[derive(Debug)]
pub struct Notice {
    /// The method.
    pub method: String,
    /// The parameters.
    pub params: Option<Raw>,
    /// The connection that it came on.
    pub source: UpdateSource,
}
