//! HTTP+SSE, the transport of 2024-11-05: one stream of incoming messages, and POST for outgoing
//! ones.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::{Secret, locks::lock};
use pegboard_mcp::{rpc::Message, sse::SseReader};
use reqwest::{
    Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap},
};
use tokio::sync::watch;

use super::{
    Outgoing,
    http::{self, ClientError},
};
use crate::{
    auth::{self, Bearer},
    connection::{CallError, Link},
};

/// Timeout for the `endpoint` event.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(15);

/// A client of one server.
#[derive(Debug)]
pub(crate) struct SseClient {
    client: reqwest::Client,
    url: reqwest::Url,
    headers: HeaderMap,
    bearer: Option<Arc<Bearer>>,
    endpoint: watch::Sender<Option<reqwest::Url>>,
    /// The open stream, until a task takes it.
    stream: Mutex<Option<Response>>,
}

impl SseClient {
    /// Opens the stream.
    pub(crate) async fn open(
        url: &str,
        headers: &[(String, Secret)],
        bearer: Option<&Arc<Bearer>>,
    ) -> Result<Self, OpenError> {
        let url = http::parse_url(url)?;
        let (client, headers) = http::build_client(headers)?;
        let request = client.get(url.clone()).headers(headers.clone()).header(ACCEPT, "text/event-stream");
        let response = auth::send(bearer, request).await.map_err(OpenError::Unreachable)?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !response.status().is_success() || !kind.starts_with("text/event-stream") {
            return Err(OpenError::NoStream { status: response.status().as_u16() });
        }
        let (bearer, endpoint) = (bearer.cloned(), watch::Sender::new(None));
        Ok(Self { client, url, headers, bearer, endpoint, stream: Mutex::new(Some(response)) })
    }

    /// Reads the stream for `link` and waits until the server has named its endpoint.
    pub(crate) async fn attach(self: &Arc<Self>, link: &Arc<Link>) -> Result<(), OpenError> {
        let Some(stream) = lock(&self.stream).take() else { return Ok(()) };
        tokio::spawn(Arc::clone(self).read(Arc::clone(link), stream));
        let mut endpoint = self.endpoint.subscribe();
        let named = tokio::time::timeout(ENDPOINT_TIMEOUT, endpoint.wait_for(Option::is_some)).await;
        if matches!(named, Ok(Ok(_))) { Ok(()) } else { Err(OpenError::NoEndpoint) }
    }

    async fn read(self: Arc<Self>, link: Arc<Link>, mut stream: Response) {
        let mut reader = SseReader::new(link.max_message);
        loop {
            let chunk = tokio::select! {
                chunk = stream.chunk() => chunk,
                _ = link.closed() => return,
            };
            let Ok(Some(chunk)) = chunk else { return link.close("the server closed the stream") };
            let events = match reader.push(&chunk) {
                Ok(events) => events,
                Err(error) => return link.close(error.to_string()),
            };
            for event in events {
                match event.kind.as_str() {
                    "endpoint" => self.name_endpoint(&link, &event.data),
                    "message" => match Message::parse_all(&event.data) {
                        Ok(messages) => messages.into_iter().for_each(|message| link.incoming(message, None)),
                        Err(error) => {
                            tracing::warn!(server = %link.server, %error, "event skipped: not a JSON-RPC message");
                        }
                    },
                    _ => {}
                }
            }
        }
    }

    fn name_endpoint(&self, link: &Arc<Link>, endpoint: &str) {
        // Another host must not get the credentials of this one.
        let endpoint = self.url.join(endpoint).ok().filter(|endpoint| endpoint.origin() == self.url.origin());
        match endpoint {
            Some(endpoint) => {
                self.endpoint.send_replace(Some(endpoint));
            }
            None => link.close("the server sent an endpoint on another host"),
        }
    }

    /// Sends one message.
    pub(crate) async fn deliver(&self, link: &Arc<Link>, outgoing: Outgoing) {
        let endpoint = self.endpoint.borrow().clone();
        let outcome = match endpoint {
            None => Err(CallError::Closed("the server has not sent an `endpoint` event".into())),
            Some(endpoint) => {
                let request = self.client.post(endpoint).headers(self.headers.clone());
                let request = http::add_trace_headers(request, &self.headers, &outgoing.trace);
                let request = request.header(CONTENT_TYPE, "application/json").body(outgoing.line);
                let sent = tokio::select! {
                    sent = auth::send(self.bearer.as_ref(), request) => sent,
                    reason = link.closed() => Err(CallError::Closed(reason)),
                };
                match sent {
                    Ok(response) if response.status().is_success() => Ok(()),
                    Ok(response) => Err(CallError::Status { status: response.status().as_u16() }),
                    Err(error) => Err(error),
                }
            }
        };
        match (outgoing.request, outcome) {
            (Some(id), Err(error)) => {
                let ended = http::login_end_reason(link, self.bearer.as_deref(), &error);
                link.settle(id, Err(error));
                ended.into_iter().for_each(|reason| link.close(reason));
            }
            (None, Err(error)) => tracing::debug!(server = %link.server, %error, "message rejected by the server"),
            _ => {}
        }
    }
}

/// The error of opening the stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Unreachable(CallError),
    #[error("no event stream at this URL (HTTP status {status})")]
    NoStream { status: u16 },
    #[error("the server did not send an `endpoint` event")]
    NoEndpoint,
}
