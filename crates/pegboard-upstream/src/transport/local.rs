//! Servers inside this process.

use std::{fmt, future::Future, pin::Pin};

use crate::{json::Raw, rpc::RpcError};

/// The answer to come.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Raw, RpcError>> + Send + 'a>>;

/// A server that is called instead of spoken to. It answers the requests of the modern era,
/// `server/discover` and lists included; it has nothing to ask back.
pub trait LocalServer: Send + Sync + fmt::Debug {
    /// Answers one request.
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> Answering<'a>;
}
