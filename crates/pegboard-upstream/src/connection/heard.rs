//! What a server says beside its answers.

use pegboard_mcp::{json::Raw, rpc::RpcError};
use tokio::sync::oneshot;

use crate::{queue::Measured, server::UpdateSource};

/// Something that a server says or asks while a call is running.
#[derive(Debug)]
pub enum Event {
    /// A notification about the call.
    Notification {
        /// What happened.
        method: String,
        /// More about it.
        params: Option<Raw>,
    },
    /// A question to whoever made the call.
    Request {
        /// What is asked.
        method: String,
        /// With what.
        params: Option<Raw>,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Raw, RpcError>>,
    },
}

impl Measured for Event {
    fn bytes(&self) -> usize {
        let (Self::Notification { method, params } | Self::Request { method, params, .. }) = self;
        method.len() + params.as_ref().map_or(0, |params| params.get().len())
    }
}

/// Something that a server says of its own accord.
#[derive(Debug)]
pub struct Notice {
    /// What happened.
    pub method: String,
    /// More about it.
    pub params: Option<Raw>,
    /// The connection that it came on.
    pub source: UpdateSource,
}
