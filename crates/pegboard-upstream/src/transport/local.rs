//! Servers inside this process.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
};

use pegboard_mcp::{
    json::Raw,
    rpc::{Message, RpcError},
};

use crate::connection::Link;

/// The future of an answer.
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Result<Raw, RpcError>> + Send + 'a>>;

/// A server inside this process. It answers the requests of 2026-07-28, including
/// `server/discover` and lists. If it does not know that method, it gets `initialize` and answers
/// the requests of 2025-11-25.
pub trait LocalServer: Send + Sync + fmt::Debug {
    /// Answers one request.
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a>;

    /// Receives the client of a new connection, before its first request.
    fn connected(&self, client: LocalClient) {
        drop(client);
    }

    /// Returns a server for one more connection, with a state of its own. `None`, the default: there
    /// is one connection, which all clients share.
    fn another(&self) -> Option<Arc<dyn LocalServer>> {
        None
    }
}

/// The client of a local server, for notifications and questions.
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

    /// Sends a request to the client of the running call, as servers before 2026-07-28 do.
    ///
    /// # Errors
    /// The error that the client returns, or the reason why it cannot be asked.
    pub async fn ask(&self, method: &str, params: Option<Raw>) -> Result<Raw, RpcError> {
        match self.0.upgrade() {
            Some(link) => link.reply(method.to_owned(), params, None).await,
            None => Err(RpcError::new(RpcError::INTERNAL, "the connection is closed")),
        }
    }

    /// Closes the connection, like a server that ends.
    pub fn close(&self, reason: &str) {
        if let Some(link) = self.0.upgrade() {
            link.close(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Mutex, PoisonError},
        time::Duration,
    };

    use pegboard_mcp::{
        era::Era,
        json::{Fields, raw},
    };
    use serde_json::json;

    use super::*;
    use crate::{
        config::{ServerConfig, TransportConfig},
        connection::{Call, CallError, CallEvent},
        fleet::Fleet,
    };

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A server of 2025-11-25 whose tool asks a question.
    #[derive(Debug, Default)]
    struct Old {
        client: Mutex<Option<LocalClient>>,
    }

    impl Old {
        fn client(&self) -> LocalClient {
            self.client.lock().unwrap_or_else(PoisonError::into_inner).clone().expect("it is connected")
        }
    }

    impl LocalServer for Old {
        fn answer<'a>(&'a self, method: &'a str, _: Option<Raw>) -> AnswerFuture<'a> {
            Box::pin(async move {
                match method {
                    "initialize" => {
                        let capabilities = json!({"tools": {"listChanged": true}});
                        Ok(raw(&json!({"protocolVersion": "2025-11-25", "capabilities": capabilities})))
                    }
                    "tools/list" => Ok(raw(&json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}))),
                    "tools/call" => self.client().ask("elicitation/create", None).await,
                    _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
                }
            })
        }

        fn connected(&self, client: LocalClient) {
            *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
        }
    }

    #[tokio::test]
    async fn an_old_server_is_greeted_asks_notifies_and_ends() {
        let server = Arc::new(Old::default());
        let config = ServerConfig::new("old", TransportConfig::Local(Arc::clone(&server) as Arc<dyn LocalServer>));
        let (fleet, mut notices) = Fleet::start(vec![config], Vec::new());
        fleet.wait_until_listed(PATIENCE).await;
        let upstream = &fleet.servers()[0];
        assert_eq!(upstream.hello().map(|hello| hello.era), Some(Era::Legacy));

        let (events, mut heard) = crate::queue::channel(1);
        let call = || Call { events: Some(events.clone()), ..Call::new("tools/call", Fields::new(), PATIENCE) };
        let answer = async {
            let Some(CallEvent::Request { method, reply, .. }) = heard.recv().await else { panic!("no question") };
            assert_eq!(method, "elicitation/create");
            reply.send(Ok(raw(&json!("an answer")))).expect("it waits");
        };
        let (called, ()) = tokio::join!(upstream.call(|_| call()), answer);
        assert_eq!(called.expect("a result").get(), "\"an answer\"");

        server.client().notify("notifications/resources/updated", Some(raw(&json!({"uri": "a:b"}))));
        let (name, notice) = notices.recv().await.expect("a notice");
        assert_eq!((&*name, notice.method.as_str()), ("old", "notifications/resources/updated"));

        let client = server.client();
        let ended = async {
            while heard.recv().await.is_some() {
                client.close("it has ended");
            }
        };
        let cut = tokio::select! {
            cut = upstream.call(|_| call()) => cut,
            () = ended => panic!("the call goes on"),
        };
        assert!(matches!(&cut, Err(CallError::Closed(reason)) if &**reason == "it has ended"), "{cut:?}");
    }
}
