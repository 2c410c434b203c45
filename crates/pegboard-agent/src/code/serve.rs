//! One request after the other.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderValue, Method, Request, Response, StatusCode, header},
};
use pegboard_discovery::openapi::parse_path;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::{ApiSettings, Invoke, Invoked, reply};

/// Calls that are carried out at a time; more wait their turn.
const MAX_CALLS: usize = 16;

/// How long a program may take to send the arguments.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Characters of an unknown name that the answer repeats.
const MAX_ECHOED: usize = 200;

struct Served {
    invoke: Arc<dyn Invoke>,
    settings: ApiSettings,
    calls: Semaphore,
}

pub(super) fn router(invoke: Arc<dyn Invoke>, settings: ApiSettings) -> Router {
    let served = Served { invoke, settings, calls: Semaphore::new(MAX_CALLS) };
    // Names in paths may contain anything once decoded, so that they are read here.
    Router::new().fallback(answer).with_state(Arc::new(served))
}

/// A request that cannot be a call, and why.
struct Refused(StatusCode, String);

async fn answer(State(served): State<Arc<Served>>, request: Request<Body>) -> Response<Body> {
    let (status, body) = match served.call(request).await {
        Ok(body) => (StatusCode::OK, body),
        Err(Refused(status, error)) => (status, reply::failure(&error)),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

impl Served {
    async fn call(&self, request: Request<Body>) -> Result<String, Refused> {
        let Some((server, name)) = parse_path(request.uri().path()) else {
            let error = "nothing is here; paths are `/tools/mcp/{server}/{tool}` and `/tools/custom/{tool}`";
            return Err(Refused(StatusCode::NOT_FOUND, error.to_owned()));
        };
        if request.method() != Method::POST {
            return Err(Refused(StatusCode::METHOD_NOT_ALLOWED, "tools are called with POST".to_owned()));
        }
        let arguments = self.arguments(request).await?;
        let _turn = self.calls.acquire().await;
        match self.invoke.invoke(server.as_deref(), &name, arguments).await {
            Invoked::Done { text, is_error: true, .. } => Ok(self.bounded(reply::failure(&text))),
            Invoked::Done { text, value, .. } => Ok(self.bounded(reply::success(&text, value.as_ref()))),
            Invoked::Unknown => Err(Refused(StatusCode::NOT_FOUND, self.unknown(server.as_deref(), &name))),
        }
    }

    /// The body of a request: an object, or nothing at all.
    async fn arguments(&self, request: Request<Body>) -> Result<Value, Refused> {
        let most = self.settings.max_body_bytes;
        let too_large = || Refused(StatusCode::PAYLOAD_TOO_LARGE, format!("the arguments have more than {most} bytes"));
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > most as u64) {
            return Err(too_large());
        }
        let read = tokio::time::timeout(BODY_TIMEOUT, to_bytes(request.into_body(), most)).await;
        let body = match read {
            Ok(Ok(body)) => body,
            // Whatever else can go wrong, nobody is left to read the answer.
            Ok(Err(_)) => return Err(too_large()),
            Err(_) => return Err(Refused(StatusCode::REQUEST_TIMEOUT, "the arguments did not come".to_owned())),
        };
        if body.trim_ascii().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        let bad = |error: String| Refused(StatusCode::BAD_REQUEST, error);
        match serde_json::from_slice(&body) {
            Ok(Value::Object(arguments)) => Ok(Value::Object(arguments)),
            Ok(_) => Err(bad("the arguments must be a JSON object".to_owned())),
            Err(error) => Err(bad(format!("the arguments are not JSON: {error}"))),
        }
    }

    /// The reply, unless it is too large to be sent.
    fn bounded(&self, body: String) -> String {
        let most = self.settings.max_result_bytes;
        if body.len() <= most {
            return body;
        }
        reply::failure(&format!("the result has {} bytes, more than {most}; ask for less at once", body.len()))
    }

    fn unknown(&self, server: Option<&str>, name: &str) -> String {
        let short = |name: &str| name.chars().filter(|c| !c.is_control()).take(MAX_ECHOED).collect::<String>();
        let place = server.map(|server| format!(" on `{}`", short(server))).unwrap_or_default();
        let near = self.invoke.nearest(server, name);
        let hint = if near.is_empty() { String::new() } else { format!("; nearest names: {}", near.join(", ")) };
        format!("no tool `{}`{place}{hint}", short(name))
    }
}
