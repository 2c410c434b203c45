//! Servers inside this process.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
};

use crate::{
    connection::Link,
    json::Raw,
    rpc::{Message, RpcError},
};

/// The answer to come.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Raw, RpcError>> + Send + 'a>>;

/// A server that is called instead of spoken to. It answers the requests of 2026-07-28,
/// `server/discover` and lists included. If it does not know that method, it is greeted with
/// `initialize` and answers the requests of 2025-11-25.
pub trait LocalServer: Send + Sync + fmt::Debug {
    /// Answers one request.
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> Answering<'a>;

    /// Takes the client of a new connection, before its first request.
    fn connected(&self, client: LocalClient) {
        drop(client);
    }
}

/// The client of a local server, for everything that does not answer a request.
#[derive(Clone, Debug)]
pub struct LocalClient(Weak<Link>);

impl LocalClient {
    pub(crate) fn new(link: &Arc<Link>) -> Self {
        Self(Arc::downgrade(link))
    }

    /// Sends a notification. It is dropped if the connection is closed.
    pub fn notify(&self, method: &str, params: Option<Raw>) {
        if let Some(link) = self.0.upgrade() {
            link.incoming(Message::Notification { method: method.to_owned(), params }, None);
        }
    }

    /// Asks the client behind the running call, as servers before 2026-07-28 do.
    ///
    /// # Errors
    /// What the client answers instead, and why it cannot be asked.
    pub async fn ask(&self, method: &str, params: Option<Raw>) -> Result<Raw, RpcError> {
        match self.0.upgrade() {
            Some(link) => link.reply(method.to_owned(), params, None).await,
            None => Err(RpcError::new(RpcError::INTERNAL, "the connection is closed")),
        }
    }

    /// Closes the connection, as a server does that ends.
    pub fn close(&self, reason: &str) {
        if let Some(link) = self.0.upgrade() {
            link.close(reason);
        }
    }
}
