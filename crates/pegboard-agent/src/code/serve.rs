//! One request after the other.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::State,
    http::{HeaderValue, Method, Request, Response, StatusCode, header},
};
use pegboard_discovery::openapi::parse_path;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    ApiSettings, Invoke, Invoked, arguments,
    reply::{self, Given},
};

/// Calls that are carried out at a time; more wait their turn.
const MAX_CALLS: usize = 16;

/// Of these, how many may wait for room for their replies: some are left for programs that
/// read theirs.
const MAX_WAITING: usize = 12;

/// How long a program may take to send the arguments.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of more bytes than this are not read on a thread that others wait for.
const LARGE_BODY_BYTES: usize = 64 << 10;

/// Nor are replies of more bytes than this written there.
const LARGE_REPLY_BYTES: usize = 256 << 10;

/// Replies of at most this many bytes are sent without looking for room: what all connections
/// together can hold of them is little, and the system takes most of it off our hands.
const SHORT_REPLY_BYTES: usize = 64 << 10;

/// Characters of an unknown name that the answer repeats.
const MAX_ECHOED: usize = 200;

struct Served {
    invoke: Arc<dyn Invoke>,
    settings: ApiSettings,
    calls: Arc<Semaphore>,
    /// One for each byte that may wait to be sent.
    room: Arc<Semaphore>,
    waiting: Semaphore,
}

pub(super) fn router(invoke: Arc<dyn Invoke>, settings: ApiSettings) -> Router {
    let room = settings.max_unsent_bytes.min(Semaphore::MAX_PERMITS);
    let (calls, room) = (Arc::new(Semaphore::new(MAX_CALLS)), Arc::new(Semaphore::new(room)));
    let served = Served { invoke, settings, calls, room, waiting: Semaphore::new(MAX_WAITING) };
    // Names in paths may contain anything once decoded, so that they are read here.
    Router::new().fallback(answer).with_state(Arc::new(served))
}

/// A request that cannot be a call, and why.
struct Refused(StatusCode, String);

async fn answer(State(served): State<Arc<Served>>, request: Request<Body>) -> Response<Body> {
    let (status, body) = match served.call(request).await {
        Ok(body) => (StatusCode::OK, body),
        Err(Refused(status, error)) => (status, reply::failure(&error).into()),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    match status {
        StatusCode::METHOD_NOT_ALLOWED => drop(headers.insert(header::ALLOW, HeaderValue::from_static("POST"))),
        // There are too many programs already: whoever waits for a connection gets this one.
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}

/// The right to be carried out. It comes before the arguments are read, as they take a
/// multiple of their bytes in memory, and is kept until there is room for the reply.
type Turn = Option<OwnedSemaphorePermit>;

impl Served {
    async fn call(&self, request: Request<Body>) -> Result<Bytes, Refused> {
        let Some((server, name)) = parse_path(request.uri().path()) else {
            let error = "not found; paths are `/tools/mcp/{server}/{tool}` and `/tools/custom/{tool}`";
            return Err(Refused(StatusCode::NOT_FOUND, error.to_owned()));
        };
        if request.method() != Method::POST {
            return Err(Refused(StatusCode::METHOD_NOT_ALLOWED, "use POST to call tools".to_owned()));
        }
        // Without a turn: whoever sends slowly holds up nobody else.
        let body = self.body(request).await?;
        let turn = Arc::clone(&self.calls).acquire_owned().await.ok();
        let (is_large, max_values) = (body.len() > LARGE_BODY_BYTES, self.settings.max_values);
        let (turn, arguments) = aside(is_large, turn, move || arguments::parse(&body, max_values)).await?;
        let arguments = arguments.map_err(|error| Refused(error.status(), error.to_string()))?;
        match self.invoke.invoke(server.as_deref(), &name, arguments).await {
            Invoked::Done { text, value, is_error } => self.reply(turn, Given { text, value, is_error }).await,
            Invoked::Unknown => Err(Refused(StatusCode::NOT_FOUND, self.unknown(server.as_deref(), &name))),
        }
    }

    /// The body of a request.
    async fn body(&self, request: Request<Body>) -> Result<Bytes, Refused> {
        let most = self.settings.max_body_bytes;
        let too_large =
            || Refused(StatusCode::PAYLOAD_TOO_LARGE, format!("the arguments are over the limit of {most} bytes"));
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > most as u64) {
            return Err(too_large());
        }
        match tokio::time::timeout(BODY_TIMEOUT, to_bytes(request.into_body(), most)).await {
            Ok(Ok(body)) => Ok(body),
            // Whatever else can go wrong, nobody is left to read the answer.
            Ok(Err(_)) => Err(too_large()),
            Err(_) => Err(Refused(StatusCode::REQUEST_TIMEOUT, "timeout while waiting for the arguments".to_owned())),
        }
    }

    /// The reply, once there is room for it among those that are still to be read.
    async fn reply(&self, turn: Turn, given: Given) -> Result<Bytes, Refused> {
        let most = self.settings.max_result_bytes;
        let is_large = given.size(LARGE_REPLY_BYTES) == LARGE_REPLY_BYTES;
        if is_large && self.waiting.available_permits() == 0 {
            // It would be written in vain.
            return Err(no_room());
        }
        let (_turn, reply) = aside(is_large, turn, move || given.reply(most)).await?;
        if reply.len() <= SHORT_REPLY_BYTES {
            return Ok(reply.into());
        }
        let room = self.room(reply.len()).await.ok_or_else(no_room)?;
        Ok(Bytes::from_owner(Unsent { reply, _room: room }))
    }

    /// Room for so many bytes, unless it takes too long or too many wait for it already.
    async fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let _waiting = self.waiting.try_acquire().ok()?;
        // One that is larger than all the room there is gets that.
        let bytes = bytes.min(self.settings.max_unsent_bytes).try_into().unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes);
        tokio::time::timeout(self.settings.room_timeout, room).await.ok()?.ok()
    }

    fn unknown(&self, server: Option<&str>, name: &str) -> String {
        let short = |name: &str| name.chars().filter(|c| !c.is_control()).take(MAX_ECHOED).collect::<String>();
        let place = server.map(|server| format!(" on `{}`", short(server))).unwrap_or_default();
        let near = self.invoke.nearest(server, name);
        let hint = if near.is_empty() { String::new() } else { format!("; nearest names: {}", near.join(", ")) };
        format!("no tool `{}`{place}{hint}", short(name))
    }
}

fn no_room() -> Refused {
    let error = "the tool was called, but its result was dropped: too many replies have not been read yet";
    Refused(StatusCode::SERVICE_UNAVAILABLE, error.to_owned())
}

/// A reply that takes its room until it is sent.
struct Unsent {
    reply: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.reply
    }
}

/// Does what is large where it holds nobody up. The turn goes along, so that work counts that
/// nobody waits for any more.
async fn aside<T: Send + 'static>(
    is_large: bool,
    turn: Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(Turn, T), Refused> {
    if !is_large {
        return Ok((turn, work()));
    }
    let done = tokio::task::spawn_blocking(move || (turn, work())).await;
    done.map_err(|_| Refused(StatusCode::INTERNAL_SERVER_ERROR, "the call was cancelled".to_owned()))
}
