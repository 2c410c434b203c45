//! The streamable HTTP transport of both eras.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::{Secret, locks::lock};
use pegboard_mcp::{
    era::{Era, MODERN_VERSION},
    headers,
    rpc::{Message, RpcError},
    sse::SseReader,
    trace::TraceContext,
};
use reqwest::{
    Method, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};

use super::Outgoing;
use crate::{
    auth::{self, Bearer},
    connection::{CallError, Link},
    listing::ListKind,
};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 10;

/// Maximum number of times in a row that a stream is resumed without a new event before its request
/// fails. A server that closes its streams to be asked again is asked until the call times out.
const MAX_RESUMES: usize = 5;

/// Delay before a stream is resumed, unless the server sets one.
const RESUME_AFTER: Duration = Duration::from_millis(500);

/// Minimum delay that a server can set.
const MIN_RESUME_AFTER: Duration = Duration::from_millis(50);

/// Maximum delay that a server can set.
const MAX_RESUME_AFTER: Duration = Duration::from_secs(30);

/// The error of creating a client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    // Without the URL itself, which may contain a secret.
    #[error("`url` is not a valid URL")]
    Url,
    #[error("`{0}` is not a valid header name, or its value is invalid")]
    Header(String),
    #[error("cannot create an HTTP client")]
    Http(#[source] reqwest::Error),
}

/// A client of one endpoint.
#[derive(Debug)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    url: reqwest::Url,
    headers: HeaderMap,
    bearer: Option<Arc<Bearer>>,
    session: Mutex<Option<HeaderValue>>,
    /// The negotiated version, which legacy requests name.
    version: Mutex<Option<HeaderValue>>,
}

/// Creates the HTTP client and the headers of both HTTP transports.
pub(super) fn build_client(headers: &[(String, Secret)]) -> Result<(reqwest::Client, HeaderMap), ClientError> {
    // Installed once for the process; a second installation has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(15))
        .tcp_nodelay(true)
        .redirect(redirect_policy())
        .user_agent(concat!("pegboard/", env!("CARGO_PKG_VERSION")));
    Ok((builder.build().map_err(ClientError::Http)?, header_map(headers)?))
}

/// Returns the redirect policy: only to the same origin, or from HTTP to HTTPS on the same host,
/// because another host must not get the credentials of this one.
fn redirect_policy() -> Policy {
    Policy::custom(|attempt| {
        let Some(last) = attempt.previous().last() else { return attempt.follow() };
        let is_same_origin = last.origin() == attempt.url().origin();
        let is_encrypted_now = last.scheme() == "http" && attempt.url().scheme() == "https";
        let is_upgrade = is_encrypted_now && last.host() == attempt.url().host();
        if attempt.previous().len() > MAX_REDIRECTS || !(is_same_origin || is_upgrade) {
            attempt.stop()
        } else {
            attempt.follow()
        }
    })
}

/// Converts configured headers.
pub(crate) fn header_map(headers: &[(String, Secret)]) -> Result<HeaderMap, ClientError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let wrong = || ClientError::Header(name.clone());
        let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.expose()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}

pub(super) fn parse_url(url: &str) -> Result<reqwest::Url, ClientError> {
    let parsed = reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    parsed.ok_or(ClientError::Url)
}

impl HttpClient {
    pub(crate) fn new(
        url: &str,
        headers: &[(String, Secret)],
        bearer: Option<&Arc<Bearer>>,
    ) -> Result<Self, ClientError> {
        let url = parse_url(url)?;
        let (client, headers) = build_client(headers)?;
        let (session, version) = (Mutex::default(), Mutex::default());
        Ok(Self { client, url, headers, bearer: bearer.cloned(), session, version })
    }

    /// Sets the version that requests name from now on.
    pub(crate) fn set_version(&self, version: &str) {
        *lock(&self.version) = HeaderValue::try_from(version).ok();
    }

    /// Clears the session of a failed handshake before another one.
    pub(crate) fn clear_session(&self) {
        *lock(&self.session) = None;
    }

    /// Sends one message and reads the response, until the connection is closed.
    pub(crate) async fn deliver(&self, link: &Arc<Link>, outgoing: Outgoing) {
        let request = outgoing.request;
        let outcome = tokio::select! {
            // Polled first: an exchange that closes the connection has the better error.
            biased;
            outcome = self.exchange(link, outgoing) => outcome,
            reason = link.closed() => Err(CallError::Closed(reason)),
        };
        match (request, outcome) {
            (Some(id), Err(error)) => {
                let ended = login_end_reason(link, self.bearer.as_deref(), &error);
                link.settle(id, Err(error));
                ended.into_iter().for_each(|reason| link.close(reason));
            }
            (Some(id), Ok(())) if link.is_pending(id) => {
                link.settle(id, Err(CallError::Garbled("the event stream ended without a response".to_owned())));
            }
            (None, Err(error)) => tracing::debug!(server = %link.server, %error, "message rejected by the server"),
            _ => {}
        }
    }

    fn builder(&self, method: Method, era: Option<Era>) -> RequestBuilder {
        let mut request = self.client.request(method, self.url.clone()).headers(self.headers.clone());
        if era != Some(Era::Modern) {
            if let Some(session) = lock(&self.session).clone() {
                request = request.header(SESSION, session);
            }
            if let Some(version) = lock(&self.version).clone() {
                request = request.header(VERSION, version);
            }
        }
        request
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, CallError> {
        auth::send(self.bearer.as_ref(), request).await
    }

    async fn exchange(&self, link: &Arc<Link>, outgoing: Outgoing) -> Result<(), CallError> {
        let era = outgoing.era;
        let mut request = self
            .builder(Method::POST, era)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        if era == Some(Era::Modern) && !outgoing.method.is_empty() {
            request = request.header(VERSION, MODERN_VERSION).header("mcp-method", headers::encode(&outgoing.method));
            if let Some(name) = &outgoing.name {
                request = request.header("mcp-name", headers::encode(name));
            }
            for (name, value) in &outgoing.headers {
                request = request.header(format!("mcp-param-{name}"), headers::encode(value));
            }
        }
        let request = add_trace_headers(request, &self.headers, &outgoing.trace);
        let response = self.send(request.body(outgoing.line)).await?;
        self.read_response(link, response, outgoing.request).await
    }

    /// Reads the messages of a response.
    async fn read_response(&self, link: &Arc<Link>, response: Response, request: Option<u64>) -> Result<(), CallError> {
        let status = response.status();
        if status.is_success()
            && let Some(session) = response.headers().get(SESSION).filter(|_| link.era() != Some(Era::Modern))
        {
            *lock(&self.session) = Some(session.clone());
        }
        let had_session = link.era() == Some(Era::Legacy) && lock(&self.session).is_some();
        if status == StatusCode::NOT_FOUND && had_session {
            link.close("the session expired on the server");
            return Err(CallError::SessionExpired);
        }
        // The body of an authentication error may come from a proxy, not from the server.
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(CallError::Status { status: status.as_u16() });
        }
        if status.is_success() && is_event_stream(&response) {
            return self.read_resumable(link, response, request).await;
        }
        let body = read_bounded(response, link.max_message).await?;
        let text = std::str::from_utf8(&body).unwrap_or_default().trim();
        if text.is_empty() && (status.is_success() || request.is_none()) {
            return if status.is_success() { Ok(()) } else { Err(CallError::Status { status: status.as_u16() }) };
        }
        match Message::parse_all(text) {
            // Some servers report a lost session with an error without an id.
            Ok(messages) if status == StatusCode::BAD_REQUEST && had_session && is_error_without_id(&messages) => {
                link.close("the session expired on the server");
                Err(CallError::SessionExpired)
            }
            Ok(messages) => {
                messages.into_iter().for_each(|message| link.incoming(message, request));
                Ok(())
            }
            Err(_) if !status.is_success() => Err(CallError::Status { status: status.as_u16() }),
            Err(error) => Err(CallError::Garbled(error.to_string())),
        }
    }

    /// Reads a stream until it has the answer, and resumes it when it breaks.
    async fn read_resumable(
        &self,
        link: &Arc<Link>,
        response: Response,
        request: Option<u64>,
    ) -> Result<(), CallError> {
        let mut last_id = None;
        let mut pause = RESUME_AFTER;
        let mut response = Some(response);
        let mut resumes = 0;
        loop {
            if let Some(stream) = response.take() {
                let before = last_id.clone();
                read_stream(link, stream, request, &mut last_id, &mut pause).await?;
                if last_id != before {
                    resumes = 0;
                }
            }
            let is_answered = request.is_none_or(|id| !link.is_pending(id));
            let (false, Some(id), true) = (is_answered, &last_id, link.era() == Some(Era::Legacy)) else {
                return Ok(());
            };
            if resumes == MAX_RESUMES {
                return Ok(());
            }
            resumes += 1;
            tokio::time::sleep(pause).await;
            response = match self.resume(id).await {
                Err(CallError::Unreachable(_)) if resumes < MAX_RESUMES => None,
                resumed => Some(resumed?),
            };
        }
    }

    /// Requests the rest of a legacy stream after the event `id`.
    async fn resume(&self, id: &str) -> Result<Response, CallError> {
        let request = self.builder(Method::GET, Some(Era::Legacy)).header(ACCEPT, "text/event-stream");
        let resumed = self.send(request.header("last-event-id", id)).await?;
        if !resumed.status().is_success() || !is_event_stream(&resumed) {
            return Err(CallError::Status { status: resumed.status().as_u16() });
        }
        Ok(resumed)
    }

    /// Reads the stream of messages that a legacy server sends unrequested, as long as the server
    /// supports it and the connection lasts.
    pub(crate) async fn listen(self: Arc<Self>, link: Arc<Link>) {
        tokio::select! {
            () = self.read_server_stream(&link) => {}
            _ = link.closed() => {}
        }
    }

    async fn read_server_stream(&self, link: &Arc<Link>) {
        let mut last_id: Option<String> = None;
        let mut pause = RESUME_AFTER;
        let mut streams = 0;
        loop {
            let mut request = self.builder(Method::GET, Some(Era::Legacy)).header(ACCEPT, "text/event-stream");
            if let Some(id) = &last_id {
                request = request.header("last-event-id", id);
            }
            match self.send(request).await {
                Ok(response) if response.status().is_success() && is_event_stream(&response) => {
                    streams += 1;
                    pause = RESUME_AFTER;
                    match &last_id {
                        // The server repeats what was not received; but not all servers repeat everything.
                        Some(_) if streams > 1 => link.news.lists_changed(&ListKind::ALL),
                        None if streams > 1 => link.news.missed(),
                        _ => {}
                    }
                    let _ = read_stream(link, response, None, &mut last_id, &mut pause).await;
                }
                // The server has no such stream.
                Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => return,
                Ok(response) if response.status() == StatusCode::NOT_FOUND => {
                    // Without an earlier stream or a session, the server cannot have lost one.
                    if streams > 0 && lock(&self.session).is_some() {
                        link.close("the session expired on the server");
                    }
                    return;
                }
                // It does not know the event any more. A stream from now on is better than none.
                Ok(response) if last_id.is_some() && is_refusal(response.status()) => last_id = None,
                Ok(_) | Err(_) => pause = (pause * 2).min(MAX_RESUME_AFTER),
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Ends the session with a legacy server.
    pub(crate) fn end_session(&self) {
        let Some(session) = lock(&self.session).take() else { return };
        let request = self.builder(Method::DELETE, Some(Era::Legacy)).header(SESSION, session);
        // At the end of the process the runtime is gone.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let bearer = self.bearer.clone();
            runtime.spawn(async move {
                let _ = auth::send(bearer.as_ref(), request.timeout(Duration::from_secs(2))).await;
            });
        }
    }
}

/// Returns the reason to close a connection whose login has ended: nothing works on it until the
/// user logs in again. A connection without a login may still work for other calls.
pub(super) fn login_end_reason(link: &Link, bearer: Option<&Bearer>, error: &CallError) -> Option<String> {
    let had_login = link.is_ready() && bearer.is_some_and(Bearer::has_sent_token);
    (had_login && matches!(error, CallError::Login(_))).then(|| error.to_string())
}

/// Adds the headers of the trace, unless the configuration has the same ones.
pub(super) fn add_trace_headers(
    mut request: RequestBuilder,
    configured: &HeaderMap,
    trace: &TraceContext,
) -> RequestBuilder {
    for (key, text) in trace.iter().filter(|(key, _)| !configured.contains_key(*key)) {
        request = request.header(key, text);
    }
    request
}

/// Returns whether the messages are a single error without an id.
fn is_error_without_id(messages: &[Message]) -> bool {
    matches!(messages, [Message::Response { id: None, outcome: Err(_) }])
}

/// Returns whether a status is an answer that another attempt would not change.
fn is_refusal(status: StatusCode) -> bool {
    let is_temporary = matches!(status.as_u16(), 401 | 403 | 408 | 409 | 425 | 429);
    status.is_client_error() && !is_temporary
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

/// Reads the messages of one stream until it ends or has the answer.
async fn read_stream(
    link: &Arc<Link>,
    mut response: Response,
    request: Option<u64>,
    last_id: &mut Option<String>,
    pause: &mut Duration,
) -> Result<(), CallError> {
    let mut reader = SseReader::new(link.max_message);
    loop {
        // A stream that breaks is like one that ends: the rest can be requested again.
        let Ok(Some(chunk)) = response.chunk().await else { return Ok(()) };
        let too_large = |_| CallError::ResultTooLarge { bytes: None, most: link.max_message };
        let events = reader.push(&chunk).map_err(too_large)?;
        for event in events {
            if let Some(retry) = event.retry {
                *pause = Duration::from_millis(retry).clamp(MIN_RESUME_AFTER, MAX_RESUME_AFTER);
            }
            if event.id.is_some() {
                *last_id = event.id;
            }
            if event.kind != "message" || event.data.is_empty() {
                continue;
            }
            match Message::parse_all(&event.data) {
                Ok(messages) => messages.into_iter().for_each(|message| link.incoming(message, request)),
                Err(error) => tracing::warn!(server = %link.server, %error, "event skipped: not a JSON-RPC message"),
            }
        }
        if request.is_some_and(|id| !link.is_pending(id)) {
            return Ok(());
        }
    }
}

/// Reads the whole body, unless it is too large.
async fn read_bounded(mut response: Response, limit: usize) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(CallError::unreachable)? {
        if body.len() + chunk.len() > limit {
            return Err(CallError::ResultTooLarge { bytes: None, most: limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns whether an error shows that its sender supports the modern protocol.
pub(crate) fn is_modern_error(error: &RpcError) -> bool {
    matches!(error.code, RpcError::UNSUPPORTED_VERSION | RpcError::MISSING_CAPABILITY | RpcError::HEADER_MISMATCH)
}

#[cfg(test)]
mod tests {
    use pegboard_mcp::json::Fields;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        sync::mpsc,
    };

    use super::*;
    use crate::{
        connection::{Call, LinkSettings},
        transport::Outbound,
    };

    const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

    /// Calls a legacy server that answers one request after another with these parts of a stream, and
    /// breaks off where there is none.
    async fn call_with(parts: Vec<Option<String>>) -> Result<pegboard_mcp::json::Raw, CallError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let (notices, _) = mpsc::channel(1);
        let client = HttpClient::new(&url, &[], None).expect("a client");
        let link = Link::new(LinkSettings::test(notices), Outbound::Http(Arc::new(client)));
        link.set_era(Era::Legacy);
        let serving = tokio::spawn(async move {
            for part in parts {
                let (mut stream, _) = listener.accept().await.expect("a request");
                let _ = stream.read(&mut [0; 4096]).await.expect("a request");
                if let Some(part) = part {
                    stream.write_all(format!("{STREAM}{part}").as_bytes()).await.expect("it reads");
                }
            }
        });
        let outcome = link.call(Call::new("tools/call", Fields::new(), Duration::from_secs(60))).await;
        serving.abort();
        outcome
    }

    fn event(id: usize) -> Option<String> {
        Some(format!("id: {id}\nretry: 1\ndata: \n\n"))
    }

    #[tokio::test]
    async fn a_stream_is_resumed_while_it_goes_on() {
        let mut parts: Vec<_> = (0..2 * MAX_RESUMES).map(event).collect();
        parts.insert(3, None);
        parts.push(Some("id: last\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n".to_owned()));
        call_with(parts).await.expect("an answer");
    }

    #[tokio::test]
    async fn a_stream_without_new_events_is_given_up() {
        let error = call_with((0..10 * MAX_RESUMES).map(|_| event(0)).collect()).await.expect_err("no answer");
        assert!(matches!(error, CallError::Garbled(_)), "{error}");
    }

    #[tokio::test]
    async fn a_stream_whose_last_event_the_server_has_forgotten_begins_anew() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let client = Arc::new(HttpClient::new(&url, &[], None).expect("a client"));
        let (notices, mut heard) = mpsc::channel(1);
        let link = Link::new(LinkSettings::test(notices), Outbound::Http(Arc::clone(&client)));
        let listening = tokio::spawn(client.listen(Arc::clone(&link)));
        let news = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\"}\n\n";
        let first = format!("{STREAM}id: 7\nretry: 1\ndata: \n\n");
        let refusal = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned();
        let expected = [(false, first), (true, refusal), (false, format!("{STREAM}{news}"))];
        for (has_event, answer) in expected {
            let (mut stream, _) = listener.accept().await.expect("a request");
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.expect("a request");
            let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
            assert_eq!(request.contains("last-event-id: 7"), has_event, "{request}");
            stream.write_all(answer.as_bytes()).await.expect("it reads");
        }
        assert_eq!(heard.recv().await.expect("a notification").method, "notifications/resources/updated");
        link.news.missed_updates().await;
        link.close("done");
        listening.await.expect("no panic");
    }

    /// A request that is never answered must not outlive its connection.
    #[tokio::test]
    async fn what_is_asked_ends_with_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let client = Arc::new(HttpClient::new(&url, &[], None).expect("a client"));
        let (notices, _) = mpsc::channel(1);
        let outbound = Outbound::Http(Arc::clone(&client));
        let link = Link::new(LinkSettings::test(notices), outbound);
        let listening = tokio::spawn(client.listen(Arc::clone(&link)));
        let (mut heard, _) = listener.accept().await.expect("it listens");
        let call = Call::new("tools/call", Fields::new(), Duration::from_secs(600));
        let called = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.call(call).await }
        });
        let (mut asked, _) = listener.accept().await.expect("it asks");
        link.close("done");
        let error = called.await.expect("no panic").expect_err("it was closed");
        assert!(matches!(error, CallError::Closed(_)), "{error}");
        listening.await.expect("no panic");
        // Both ends are read to the end: the other sides were dropped.
        for stream in [&mut heard, &mut asked] {
            let mut request = Vec::new();
            let ended = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut request)).await;
            assert!(ended.is_ok(), "{}", String::from_utf8_lossy(&request));
        }
    }
}
