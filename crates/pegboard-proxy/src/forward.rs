//! Requests to providers: headers, bodies in both directions, and disconnects.

use std::{
    error::Error,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, Method, Response, header},
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use reqwest::redirect;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::{
    access::TOKEN_HEADER,
    error::{ProxyError, RequestError},
};

/// Headers that concern one connection only, and those that the HTTP client writes itself.
const DROPPED: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "host",
    TOKEN_HEADER,
];

/// Sends requests to providers.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    http: reqwest::Client,
}

/// A request to a provider, without its body.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
}

impl Upstream {
    /// Creates the HTTP client.
    pub(crate) fn new(connect_timeout: Duration) -> Result<Self, ProxyError> {
        Ok(Self { http: http_client(connect_timeout).build().map_err(ProxyError::Http)? })
    }

    /// Sends a request and waits for the head of the response.
    pub(crate) async fn send(
        &self,
        outgoing: &Outgoing,
        body: reqwest::Body,
    ) -> Result<reqwest::Response, RequestError> {
        let request = self.http.request(outgoing.method.clone(), &outgoing.url).headers(outgoing.headers.clone());
        request.body(body).send().await.map_err(send_error)
    }
}

/// Returns the settings of the HTTP client.
fn http_client(connect_timeout: Duration) -> reqwest::ClientBuilder {
    // Another part of the program may have installed a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(256)
        // One connection for each request. The client would send all of them over one connection of HTTP/2, where a
        // reader that stalls holds up the others, and the limit of the provider on streams queues without a word.
        .http1_only()
        // The client follows redirects itself, and decides where its key goes.
        .redirect(redirect::Policy::none())
}

/// Returns why a request could not be sent. The cause may be its body, which comes from the client.
fn send_error(error: reqwest::Error) -> RequestError {
    let mut cause = Error::source(&error);
    while let Some(found) = cause {
        if let Some(RequestError::TooLarge { limit }) = found.downcast_ref() {
            return RequestError::TooLarge { limit: *limit };
        }
        if found.is::<axum::Error>() {
            return RequestError::Body(axum::Error::new(error.without_url()));
        }
        cause = found.source();
    }
    let origin = error.url().map_or_else(|| "its address".to_owned(), |url| url.origin().ascii_serialization());
    RequestError::Unreachable { origin, source: error.without_url() }
}

/// Returns the headers that pass through the proxy, in both directions.
pub(crate) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if !DROPPED.contains(&name.as_str()) && !named.contains(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// Returns the response of a provider as it is, without the headers of its connection.
pub(crate) fn pass_response(response: reqwest::Response) -> Response<Body> {
    let (mut parts, body) = axum::http::Response::<reqwest::Body>::from(response).into_parts();
    parts.headers = end_to_end(&parts.headers);
    parts.version = axum::http::Version::HTTP_11;
    parts.extensions.clear();
    Response::from_parts(parts, Body::new(body))
}

/// The body of an error of a provider, as far as it was read.
#[derive(Debug)]
pub(crate) struct ReadError {
    body: Vec<u8>,
    end: ReadEnd,
}

/// The reason why the reading of an error has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadEnd {
    Whole,
    /// More follows than is read.
    Limit,
    /// The connection was closed early.
    Cut,
}

impl ReadError {
    /// Returns the body; `None` if it was not read as a whole.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        (self.end == ReadEnd::Whole).then_some(&self.body)
    }

    /// Returns the body; `None` if it was not read as a whole.
    pub(crate) fn into_whole(self) -> Option<Vec<u8>> {
        (self.end == ReadEnd::Whole).then_some(self.body)
    }
}

/// Reads the body of an error of a provider until it has more than `limit` bytes.
pub(crate) async fn read_error(response: &mut reqwest::Response, limit: usize) -> ReadError {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return ReadError { body, end: ReadEnd::Whole },
            Err(_) => return ReadError { body, end: ReadEnd::Cut },
        }
        if body.len() > limit {
            return ReadError { body, end: ReadEnd::Limit };
        }
    }
}

/// Returns the response of a provider whose body was read, at least its beginning.
pub(crate) fn pass_refusal(response: reqwest::Response, read: ReadError) -> Response<Body> {
    let (head, rest) = pass_response(response).into_parts();
    let rest = match read.end {
        ReadEnd::Whole => return Response::from_parts(head, Body::from(read.body)),
        ReadEnd::Limit => Some(rest),
        ReadEnd::Cut => None,
    };
    Response::from_parts(head, Body::new(RefusalBody { read: Some(read.body.into()), rest }))
}

/// The body of a refusal: what was read of it, and what follows; `None` if it is cut there.
struct RefusalBody {
    read: Option<Bytes>,
    rest: Option<Body>,
}

impl HttpBody for RefusalBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Some(read) = self.read.take() {
            return Poll::Ready(Some(Ok(Frame::data(read))));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(Into::into))),
            None => Poll::Ready(Some(Err(RequestError::Incomplete.into()))),
        }
    }
}

/// The body of a client's request on its way to the provider. It fails beyond the limit.
pub(crate) struct RequestBody {
    /// Only ever used through `&mut`; the HTTP client requires bodies that may be shared.
    inner: Mutex<Body>,
    left: usize,
    limit: usize,
    size: SizeHint,
}

impl RequestBody {
    /// Limits a body to `limit` bytes. The size that it announces must be within it.
    pub(crate) fn new(body: Body, limit: usize) -> Result<Self, RequestError> {
        let size = body.size_hint();
        if size.lower() > limit as u64 {
            return Err(RequestError::TooLarge { limit });
        }
        Ok(Self { inner: Mutex::new(body), left: limit, limit, size })
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let frame = match Pin::new(inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return Poll::Pending,
        };
        let length = frame.data_ref().map_or(0, Bytes::len);
        match self.left.checked_sub(length) {
            Some(left) => {
                self.left = left;
                Poll::Ready(Some(Ok(frame)))
            }
            None => Poll::Ready(Some(Err(RequestError::TooLarge { limit: self.limit }.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.size.exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

/// How long a client may take to send the next piece of a body that is read as a whole.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a body may wait for room in memory.
const ROOM_TIMEOUT: Duration = Duration::from_secs(30);

/// The room in memory for bodies that are read as a whole.
#[derive(Debug)]
pub(crate) struct BodyRoom {
    /// In kibibytes.
    shared: Arc<Semaphore>,
    /// The right to read one body beyond the shared room. Without it, bodies that have all of the room together, and none
    /// of which is complete, would wait for each other.
    beyond: Arc<Semaphore>,
}

/// The room that a body takes.
#[derive(Debug)]
pub(crate) struct TakenRoom {
    shared: OwnedSemaphorePermit,
    beyond: Option<OwnedSemaphorePermit>,
}

impl BodyRoom {
    /// Creates room for so many kibibytes.
    pub(crate) fn new(kibibytes: usize) -> Self {
        let shared = Arc::new(Semaphore::new(kibibytes.min(Semaphore::MAX_PERMITS)));
        Self { shared, beyond: Arc::new(Semaphore::new(1)) }
    }

    /// Takes room for a body that begins.
    async fn begin(&self) -> Result<TakenRoom, RequestError> {
        let shared = in_time(Arc::clone(&self.shared).acquire_owned()).await?;
        Ok(TakenRoom { shared, beyond: None })
    }

    /// Takes room until a body has so many kibibytes.
    async fn grow(&self, taken: &mut TakenRoom, kibibytes: usize) -> Result<(), RequestError> {
        let missing = kibibytes.saturating_sub(taken.shared.num_permits());
        if missing == 0 || taken.beyond.is_some() {
            return Ok(());
        }
        let missing = u32::try_from(missing).map_err(|_| RequestError::Busy)?;
        let more = async {
            tokio::select! {
                // While there is room, it is taken.
                biased;
                more = Arc::clone(&self.shared).acquire_many_owned(missing) => more.map(|more| taken.shared.merge(more)),
                beyond = Arc::clone(&self.beyond).acquire_owned() => beyond.map(|beyond| taken.beyond = Some(beyond)),
            }
        };
        in_time(more).await
    }
}

/// Waits for room.
async fn in_time<T>(room: impl Future<Output = Result<T, AcquireError>>) -> Result<T, RequestError> {
    tokio::time::timeout(ROOM_TIMEOUT, room).await.ok().and_then(Result::ok).ok_or(RequestError::Busy)
}

/// Reads a whole body of at most `limit` bytes, with the room that it takes. It takes room only as it arrives, so that a
/// slow client holds no more than it has sent.
pub(crate) async fn read_body(
    mut body: Body,
    limit: usize,
    room: &BodyRoom,
) -> Result<(Bytes, TakenRoom), RequestError> {
    let announced = body.size_hint();
    if announced.lower() > limit as u64 {
        return Err(RequestError::TooLarge { limit });
    }
    let mut taken = room.begin().await?;
    let mut read = Vec::with_capacity(usize::try_from(announced.lower()).unwrap_or(limit).min(FIRST_CAPACITY));
    loop {
        let frame = tokio::time::timeout(BODY_TIMEOUT, next_frame(&mut body)).await;
        let frame = frame.map_err(|_| RequestError::SlowBody { waited: BODY_TIMEOUT })?;
        let Some(frame) = frame else { return Ok((read.into(), taken)) };
        let Ok(bytes) = frame.map_err(RequestError::Body)?.into_data() else { continue };
        if read.len() + bytes.len() > limit {
            return Err(RequestError::TooLarge { limit });
        }
        read.extend_from_slice(&bytes);
        room.grow(&mut taken, read.len().div_ceil(1024)).await?;
    }
}

async fn next_frame(body: &mut Body) -> Option<Result<Frame<Bytes>, axum::Error>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

/// How much of an announced size is allocated before anything has arrived.
const FIRST_CAPACITY: usize = 1 << 20;

/// Reads the whole answer of a provider of at most `limit` bytes.
pub(crate) async fn read_answer(response: &mut reqwest::Response, limit: usize) -> Result<Vec<u8>, RequestError> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > limit => return Err(RequestError::AnswerTooLarge { limit }),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(_) => return Err(RequestError::Incomplete),
        }
    }
}

/// How long and how far a response is read behind its end.
const REST_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_REST: usize = 64 << 10;

/// Reads what follows the end of an answer, so that its connection can be used again. It runs in the background.
pub(crate) fn read_to_end(mut response: reqwest::Response) {
    tokio::spawn(async move {
        let read = async {
            let mut rest = 0;
            while let Ok(Some(chunk)) = response.chunk().await {
                rest += chunk.len();
                if rest > MAX_REST {
                    return;
                }
            }
        };
        // Without its end, the connection is closed.
        let _ = tokio::time::timeout(REST_TIMEOUT, read).await;
    });
}

/// The number of chunks that wait for a slow client. The provider is not read beyond that.
const WAITING_CHUNKS: usize = 2;

/// The sending end of a streamed response.
pub(crate) struct StreamSender(mpsc::Sender<Result<Bytes, RequestError>>);

/// A client has disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disconnected;

impl StreamSender {
    /// Sends bytes, and waits while the client does not read.
    pub(crate) async fn send(&self, bytes: Vec<u8>) -> Result<(), Disconnected> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.0.send(Ok(bytes.into())).await.map_err(|_| Disconnected)
    }

    /// Ends the response so that the client sees that it is incomplete.
    pub(crate) async fn fail(&self, error: RequestError) {
        // A client that is gone does not need it.
        let _ = self.0.send(Err(error)).await;
    }

    /// Waits until the client has disconnected.
    pub(crate) async fn disconnected(&self) {
        self.0.closed().await;
    }
}

/// The body of a streamed response.
struct StreamBody(mpsc::Receiver<Result<Bytes, RequestError>>);

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = RequestError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestError>>> {
        self.0.poll_recv(context).map(|item| item.map(|item| item.map(Frame::data)))
    }
}

/// Creates the body of a streamed response.
pub(crate) fn stream_body() -> (StreamSender, Body) {
    let (sender, receiver) = mpsc::channel(WAITING_CHUNKS);
    (StreamSender(sender), Body::new(StreamBody(receiver)))
}

#[cfg(test)]
mod tests;
