//! The HTTP service of the tool API.

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
    ApiSettings, InvokeOutcome, ToolInvoker, arguments,
    reply::{self, CallOutput},
};

/// Maximum number of calls that run concurrently; further ones wait.
const MAX_CALLS: usize = 16;

/// How many of these calls may wait for room for their replies; the others are left for programs
/// that read theirs.
const MAX_WAITING: usize = 12;

/// Timeout for sending the arguments.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Size from which arguments are parsed on a blocking thread.
const LARGE_BODY_BYTES: usize = 64 << 10;

/// Size from which replies are serialized on a blocking thread.
const LARGE_REPLY_BYTES: usize = 256 << 10;

/// Size up to which replies are sent without reserving room: all connections together hold little
/// of them, and most of that is in socket buffers.
const SHORT_REPLY_BYTES: usize = 64 << 10;

/// Maximum number of characters of an unknown name in a reply.
const MAX_ECHOED: usize = 200;

struct ApiService {
    invoke: Arc<dyn ToolInvoker>,
    settings: ApiSettings,
    calls: Arc<Semaphore>,
    /// One permit for each byte that may wait to be sent.
    room: Arc<Semaphore>,
    waiting: Semaphore,
}

pub(super) fn router(invoke: Arc<dyn ToolInvoker>, settings: ApiSettings) -> Router {
    let room = settings.max_unsent_bytes.min(Semaphore::MAX_PERMITS);
    let (calls, room) = (Arc::new(Semaphore::new(MAX_CALLS)), Arc::new(Semaphore::new(room)));
    let served = ApiService { invoke, settings, calls, room, waiting: Semaphore::new(MAX_WAITING) };
    // Decoded names in paths may contain anything, so paths are parsed here.
    Router::new().fallback(handle_request).with_state(Arc::new(served))
}

/// A rejected request: status and message.
struct CallRejection(StatusCode, String);

async fn handle_request(State(served): State<Arc<ApiService>>, request: Request<Body>) -> Response<Body> {
    let (status, body) = match served.call(request).await {
        Ok(body) => (StatusCode::OK, body),
        Err(CallRejection(status, error)) => (status, reply::failure(&error).into()),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    match status {
        StatusCode::METHOD_NOT_ALLOWED => drop(headers.insert(header::ALLOW, HeaderValue::from_static("POST"))),
        // Too many programs are connected: this connection is freed for another one.
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}

/// The permit to run a call. It is acquired before the arguments are parsed, since they take a
/// multiple of their size in memory, and held until there is room for the reply.
type CallPermit = Option<OwnedSemaphorePermit>;

impl ApiService {
    async fn call(&self, request: Request<Body>) -> Result<Bytes, CallRejection> {
        let Some((server, name)) = parse_path(request.uri().path()) else {
            let error = "not found; paths are `/tools/mcp/{server}/{tool}` and `/tools/custom/{tool}`";
            return Err(CallRejection(StatusCode::NOT_FOUND, error.to_owned()));
        };
        if request.method() != Method::POST {
            return Err(CallRejection(StatusCode::METHOD_NOT_ALLOWED, "use POST to call tools".to_owned()));
        }
        // Without a permit, so that slow senders do not hold up other calls.
        let body = self.read_body(request).await?;
        let permit = Arc::clone(&self.calls).acquire_owned().await.ok();
        let (is_large, max_values) = (body.len() > LARGE_BODY_BYTES, self.settings.max_values);
        let (permit, arguments) = run_large(is_large, permit, move || arguments::parse(&body, max_values)).await?;
        let arguments = arguments.map_err(|error| CallRejection(error.status(), error.to_string()))?;
        match self.invoke.invoke(server.as_deref(), &name, arguments).await {
            InvokeOutcome::Done { text, value, is_error } => {
                self.reply(permit, CallOutput { text, value, is_error }).await
            }
            InvokeOutcome::Unknown => {
                Err(CallRejection(StatusCode::NOT_FOUND, self.unknown_tool_message(server.as_deref(), &name)))
            }
        }
    }

    /// Reads the body of a request.
    async fn read_body(&self, request: Request<Body>) -> Result<Bytes, CallRejection> {
        let most = self.settings.max_body_bytes;
        let too_large = || {
            CallRejection(StatusCode::PAYLOAD_TOO_LARGE, format!("the arguments are over the limit of {most} bytes"))
        };
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > most as u64) {
            return Err(too_large());
        }
        match tokio::time::timeout(BODY_TIMEOUT, to_bytes(request.into_body(), most)).await {
            Ok(Ok(body)) => Ok(body),
            // On any other error the client is gone, so the message does not matter.
            Ok(Err(_)) => Err(too_large()),
            Err(_) => {
                Err(CallRejection(StatusCode::REQUEST_TIMEOUT, "timeout while waiting for the arguments".to_owned()))
            }
        }
    }

    /// Returns the reply, once there is room for it among the replies that are not read yet.
    async fn reply(&self, permit: CallPermit, given: CallOutput) -> Result<Bytes, CallRejection> {
        let most = self.settings.max_result_bytes;
        let is_large = given.size(LARGE_REPLY_BYTES) == LARGE_REPLY_BYTES;
        if is_large && self.waiting.available_permits() == 0 {
            // It would be serialized in vain.
            return Err(no_room_error());
        }
        let (_turn, reply) = run_large(is_large, permit, move || given.reply(most)).await?;
        if reply.len() <= SHORT_REPLY_BYTES {
            return Ok(reply.into());
        }
        let room = self.reserve_room(reply.len()).await.ok_or_else(no_room_error)?;
        Ok(Bytes::from_owner(Unsent { reply, _room: room }))
    }

    /// Waits for room for so many bytes; `None` after a timeout or if too many replies wait
    /// already.
    async fn reserve_room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let _waiting = self.waiting.try_acquire().ok()?;
        // A reply that is larger than all room takes all of it.
        let bytes = bytes.min(self.settings.max_unsent_bytes).try_into().unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes);
        tokio::time::timeout(self.settings.room_timeout, room).await.ok()?.ok()
    }

    fn unknown_tool_message(&self, server: Option<&str>, name: &str) -> String {
        let short = |name: &str| name.chars().filter(|c| !c.is_control()).take(MAX_ECHOED).collect::<String>();
        let place = server.map(|server| format!(" on `{}`", short(server))).unwrap_or_default();
        let near = self.invoke.similar_names(server, name);
        let hint = if near.is_empty() { String::new() } else { format!("; nearest names: {}", near.join(", ")) };
        format!("no tool `{}`{place}{hint}", short(name))
    }
}

fn no_room_error() -> CallRejection {
    let error = "the tool was called, but its result was dropped: too many replies have not been read yet";
    CallRejection(StatusCode::SERVICE_UNAVAILABLE, error.to_owned())
}

/// A reply that holds its room until it is sent.
struct Unsent {
    reply: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.reply
    }
}

/// Runs large work on a blocking thread. The permit moves along, so that work counts even if the
/// client disconnects.
async fn run_large<T: Send + 'static>(
    is_large: bool,
    permit: CallPermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(CallPermit, T), CallRejection> {
    if !is_large {
        return Ok((permit, work()));
    }
    let done = tokio::task::spawn_blocking(move || (permit, work())).await;
    done.map_err(|_| CallRejection(StatusCode::INTERNAL_SERVER_ERROR, "the call was cancelled".to_owned()))
}
