//! Streamable HTTP, both eras.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::{Secret, locks::lock};
use pegboard_mcp::{
    era::{Era, MODERN_VERSION},
    headers,
    rpc::{Message, RpcError},
    sse::EventReader,
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

/// How often we may be sent somewhere else.
const MAX_REDIRECTS: usize = 10;

/// How often a broken stream is taken up again before its request is given up.
const MAX_RESUMES: usize = 5;

/// How long to wait before that, unless the server says.
const RESUME_AFTER: Duration = Duration::from_millis(500);

/// The longest that a server can make us wait.
const MAX_RESUME_AFTER: Duration = Duration::from_secs(30);

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    // Without the address itself: there may be a secret in it.
    #[error("`url` is not a valid URL")]
    Url,
    #[error("`{0}` is not a valid header name, or its value is invalid")]
    Header(String),
    #[error("cannot create an HTTP client")]
    Http(#[source] reqwest::Error),
}

/// Requests to one endpoint.
#[derive(Debug)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    url: reqwest::Url,
    headers: HeaderMap,
    bearer: Option<Arc<Bearer>>,
    session: Mutex<Option<HeaderValue>>,
    /// The version that legacy requests name once it is agreed on.
    version: Mutex<Option<HeaderValue>>,
}

/// What is common to both HTTP transports.
pub(super) fn client(headers: &[(String, Secret)]) -> Result<(reqwest::Client, HeaderMap), ClientError> {
    // Chosen once for the process; a second choice of the same is no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(15))
        .tcp_nodelay(true)
        .redirect(redirects())
        .user_agent(concat!("pegboard/", env!("CARGO_PKG_VERSION")));
    Ok((builder.build().map_err(ClientError::Http)?, header_map(headers)?))
}

/// Another host must not get what is meant for this one; the same may ask for encryption.
fn redirects() -> Policy {
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

/// Headers as they are configured.
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
        let (client, headers) = client(headers)?;
        let (session, version) = (Mutex::default(), Mutex::default());
        Ok(Self { client, url, headers, bearer: bearer.cloned(), session, version })
    }

    /// The version that requests name from now on.
    pub(crate) fn agree_on(&self, version: &str) {
        *lock(&self.version) = HeaderValue::try_from(version).ok();
    }

    /// Forgets a half-made session, before another handshake.
    pub(crate) fn forget_session(&self) {
        *lock(&self.session) = None;
    }

    /// Sends one message and takes in what comes back, for as long as the connection lasts.
    pub(crate) async fn deliver(&self, link: &Arc<Link>, outgoing: Outgoing) {
        let request = outgoing.request;
        let outcome = tokio::select! {
            // First: an exchange that closes the connection knows better why it failed.
            biased;
            outcome = self.exchange(link, outgoing) => outcome,
            reason = link.closed() => Err(CallError::Closed(reason)),
        };
        match (request, outcome) {
            (Some(id), Err(error)) => {
                let ended = ended_login(link, self.bearer.as_deref(), &error);
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
        let request = traced(request, &self.headers, &outgoing.trace);
        let response = self.send(request.body(outgoing.line)).await?;
        self.take_in(link, response, outgoing.request).await
    }

    /// Takes in the messages of a response.
    async fn take_in(&self, link: &Arc<Link>, response: Response, request: Option<u64>) -> Result<(), CallError> {
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
        // What an entrance says about credentials is not the server's answer.
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(CallError::Status { status: status.as_u16() });
        }
        if status.is_success() && is_stream(&response) {
            return self.follow(link, response, request).await;
        }
        let body = read_bounded(response, link.max_message).await?;
        let text = std::str::from_utf8(&body).unwrap_or_default().trim();
        if text.is_empty() && (status.is_success() || request.is_none()) {
            return if status.is_success() { Ok(()) } else { Err(CallError::Status { status: status.as_u16() }) };
        }
        match Message::parse_all(text) {
            // Some servers say so that they have forgotten the session: to nobody in particular.
            Ok(messages) if status == StatusCode::BAD_REQUEST && had_session && is_to_nobody(&messages) => {
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

    /// Reads a stream until the answer was in it, taking it up again where it breaks.
    async fn follow(&self, link: &Arc<Link>, response: Response, request: Option<u64>) -> Result<(), CallError> {
        let mut last_id = None;
        let mut pause = RESUME_AFTER;
        let mut response = Some(response);
        for _ in 0..=MAX_RESUMES {
            if let Some(stream) = response.take() {
                read_stream(link, stream, request, &mut last_id, &mut pause).await?;
            }
            let is_answered = request.is_none_or(|id| !link.is_pending(id));
            let (false, Some(id), true) = (is_answered, &last_id, link.era() == Some(Era::Legacy)) else { break };
            tokio::time::sleep(pause).await;
            let resume = self.builder(Method::GET, link.era()).header(ACCEPT, "text/event-stream");
            let resumed = self.send(resume.header("last-event-id", id)).await?;
            if !resumed.status().is_success() || !is_stream(&resumed) {
                return Err(CallError::Status { status: resumed.status().as_u16() });
            }
            response = Some(resumed);
        }
        Ok(())
    }

    /// Listens for what a legacy server says of its own accord, for as long as it lets us and
    /// the connection lasts.
    pub(crate) async fn listen(self: Arc<Self>, link: Arc<Link>) {
        tokio::select! {
            () = self.hear(&link) => {}
            _ = link.closed() => {}
        }
    }

    async fn hear(&self, link: &Arc<Link>) {
        let mut last_id: Option<String> = None;
        let mut pause = RESUME_AFTER;
        let mut streams = 0;
        loop {
            let mut request = self.builder(Method::GET, Some(Era::Legacy)).header(ACCEPT, "text/event-stream");
            if let Some(id) = &last_id {
                request = request.header("last-event-id", id);
            }
            match self.send(request).await {
                Ok(response) if response.status().is_success() && is_stream(&response) => {
                    streams += 1;
                    pause = RESUME_AFTER;
                    if streams > 1 {
                        // What changed while nobody listened was said to nobody.
                        link.news.lists_changed(&ListKind::ALL);
                    }
                    let _ = read_stream(link, response, None, &mut last_id, &mut pause).await;
                }
                // It has no such stream.
                Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => return,
                Ok(response) if response.status() == StatusCode::NOT_FOUND => {
                    // Without a stream before or a session there was nothing to forget.
                    if streams > 0 && lock(&self.session).is_some() {
                        link.close("the session expired on the server");
                    }
                    return;
                }
                Ok(_) | Err(_) => pause = (pause * 2).min(MAX_RESUME_AFTER),
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Tells a legacy server that the session is over.
    pub(crate) fn end_session(&self) {
        let Some(session) = lock(&self.session).take() else { return };
        let request = self.builder(Method::DELETE, Some(Era::Legacy)).header(SESSION, session);
        // At the end of the process there is nobody left to wait for it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let bearer = self.bearer.clone();
            runtime.spawn(async move {
                let _ = auth::send(bearer.as_ref(), request.timeout(Duration::from_secs(2))).await;
            });
        }
    }
}

/// Why a connection is to be given up because its login has ended: nothing will work on it until
/// somebody logs in again. One that never had a login may do for other calls.
pub(super) fn ended_login(link: &Link, bearer: Option<&Bearer>, error: &CallError) -> Option<String> {
    let had_login = link.is_ready() && bearer.is_some_and(Bearer::has_shown);
    (had_login && matches!(error, CallError::Login(_))).then(|| error.to_string())
}

/// The request with the headers of its trace, unless the configuration has others.
pub(super) fn traced(mut request: RequestBuilder, configured: &HeaderMap, trace: &TraceContext) -> RequestBuilder {
    for (key, text) in trace.iter().filter(|(key, _)| !configured.contains_key(*key)) {
        request = request.header(key, text);
    }
    request
}

/// Whether a refusal answers no request at all.
fn is_to_nobody(messages: &[Message]) -> bool {
    matches!(messages, [Message::Response { id: None, outcome: Err(_) }])
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

/// Takes in the messages of one stream until it ends or the answer was in it.
async fn read_stream(
    link: &Arc<Link>,
    mut response: Response,
    request: Option<u64>,
    last_id: &mut Option<String>,
    pause: &mut Duration,
) -> Result<(), CallError> {
    let mut reader = EventReader::new(link.max_message);
    loop {
        // A stream that breaks is one that ends: what is missing may be asked for again.
        let Ok(Some(chunk)) = response.chunk().await else { return Ok(()) };
        let too_large = |_| CallError::ResultTooLarge { bytes: None, most: link.max_message };
        let events = reader.push(&chunk).map_err(too_large)?;
        for event in events {
            if let Some(retry) = event.retry {
                *pause = Duration::from_millis(retry).min(MAX_RESUME_AFTER);
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

/// The whole body, unless it is too large.
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

/// Whether a refusal shows that its sender speaks the modern protocol.
pub(crate) fn is_modern_refusal(error: &RpcError) -> bool {
    matches!(error.code, RpcError::UNSUPPORTED_VERSION | RpcError::MISSING_CAPABILITY | RpcError::HEADER_MISMATCH)
}

#[cfg(test)]
mod tests {
    use pegboard_mcp::json::Fields;
    use tokio::{io::AsyncReadExt, net::TcpListener, sync::mpsc};

    use super::*;
    use crate::{connection::Call, redact::Redactor, transport::Outbound};

    /// What is never answered must not outlive the connection that it belongs to.
    #[tokio::test]
    async fn what_is_asked_ends_with_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let client = Arc::new(HttpClient::new(&url, &[], None).expect("a client"));
        let (notices, _) = mpsc::channel(1);
        let outbound = Outbound::Http(Arc::clone(&client));
        let link = Link::new("s".into(), Redactor::default(), outbound, notices, Arc::default(), 1024);
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
        // To the end of both: nobody holds the other side any more.
        for stream in [&mut heard, &mut asked] {
            let mut request = Vec::new();
            let ended = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut request)).await;
            assert!(ended.is_ok(), "{}", String::from_utf8_lossy(&request));
        }
    }
}
