//! A whole gateway, with a server in this process behind it.

use std::{sync::{Arc, Mutex, OnceLock}, task::Poll, time::Duration};

use axum::{Router, body::{Body, BodyDataStream}, http::{HeaderValue, Method, Request, Response, header}};
use pegboard_engine::Keyword;
use pegboard_gateway::{Gateway, GatewaySettings};
use pegboard_mcp::{era::meta, sse::SseReader, headers::decode, json::{Fields, Raw, raw}, rpc::{Id, Message}};
use pegboard_upstream::{AnswerFuture, LocalServer, config::{ServerConfig, TransportConfig}};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

/// Says back what it is called with.
#[derive(Debug)]
struct Echo;

impl LocalServer for Echo {
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a> {
        let text = |header: &str| json!({"type": "string", "x-mcp-header": header});
        let schema = json!({"type": "object", "properties": {
            "region": text("Region"),
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
        }});
        let result = match method {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
            "tools/list" => json!({"tools": [
                {"name": "mirror", "description": "Says back", "inputSchema": schema},
                {"name": "plain", "description": "Plain", "inputSchema": {"type": "object"}},
            ]}),
            _ => json!({"content": [], "structuredContent": params}),
        };
        Box::pin(std::future::ready(Ok(raw(&result))))
    }
}

struct House {
    runtime: Runtime,
    router: Router,
    session: Mutex<Option<HeaderValue>>,
}

fn house() -> &'static House {
    static HOUSE: OnceLock<House> = OnceLock::new();
    HOUSE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let gateway = runtime.block_on(async {
            let servers = vec![ServerConfig::new("echo", TransportConfig::Local(Arc::new(Echo)))];
            let ranker = Arc::new(Keyword::default());
            let settings = GatewaySettings { max_sessions: 8, ..GatewaySettings::default() };
            let gateway = Gateway::start(servers, settings, Arc::new(move |_| ranker.clone()), Vec::new());
            gateway.ready().await;
            gateway
        });
        House { runtime, router: gateway.router(1 << 20), session: Mutex::default() }
    })
}

/// The name of a conversation that has begun.
pub(crate) fn session() -> HeaderValue {
    let house = house();
    let known = house.session.lock().expect("a lock").clone();
    known.unwrap_or_else(|| {
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        let line = Message::request(&Id::from(1), "initialize", Some(&raw(&params)));
        let request = Request::post("/mcp").body(Body::from(line)).expect("a request");
        let response = house.runtime.block_on(house.router.clone().oneshot(request)).expect("an answer");
        let session = response.headers().get("mcp-session-id").expect("a session").clone();
        *house.session.lock().expect("a lock") = Some(session.clone());
        session
    })
}

/// Every request is answered, in the form that its status and its headers promise.
pub(crate) fn check(request: Request<Vec<u8>>) {
    let house = house();
    let asked = request.clone();
    let request = request.map(Body::from);
    let (response, body) = house.runtime.block_on(async {
        let answering = house.router.clone().oneshot(request);
        let response = tokio::time::timeout(Duration::from_secs(8), answering).await.expect("an answer in time");
        let (parts, body) = response.expect("an answer").into_parts();
        (Response::from_parts(parts, ()), read(body).await)
    });
    // Conversations end, and make room for others.
    if asked.method() == Method::DELETE || asked.method() == Method::POST {
        *house.session.lock().expect("a lock") = None;
    }
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let text = std::str::from_utf8(&body).expect("answers are text");
    let is_endpoint = matches!(asked.uri().path(), "/mcp" | "/mcp/") && asked.method() == Method::POST;
    match kind {
        "text/event-stream" => {
            for event in SseReader::new(1 << 20).push(text.as_bytes()).expect("events of usual size") {
                Message::parse(&event.data).expect("an event is a message");
            }
        }
        "application/json" if is_endpoint => {
            let answers = Message::parse_all(text).expect("an answer is a message");
            check_answers(&asked, &answers);
        }
        "application/json" => drop(serde_json::from_str::<Value>(text).expect("JSON")),
        _ => {}
    }
    let is_told = response.headers().contains_key(header::ALLOW);
    assert!(response.status() != 405 || is_told, "who is refused a method is told the others");
}

/// All that is there of a body by now; streams go on for ever.
async fn read(body: Body) -> Vec<u8> {
    let mut stream: BodyDataStream = body.into_data_stream();
    let mut bytes = Vec::new();
    loop {
        let next = std::future::poll_fn(|context| {
            use axum::body::HttpBody as _;
            match std::pin::Pin::new(&mut stream).poll_frame(context) {
                Poll::Pending => Poll::Ready(None),
                Poll::Ready(frame) => Poll::Ready(frame),
            }
        });
        match next.await {
            Some(frame) => bytes.extend_from_slice(&frame.expect("a piece").into_data().unwrap_or_default()),
            None => return bytes,
        }
    }
}

fn check_answers(asked: &Request<Vec<u8>>, answers: &[Message]) {
    let Some(Ok(Message::Request { id, method, params })) = std::str::from_utf8(asked.body()).ok().map(Message::parse)
    else {
        return;
    };
    let [Message::Response { id: answered, outcome }] = answers else { panic!("a request has one answer") };
    // A refusal at the door may not know yet whom it refuses.
    assert!(answered.is_none() && outcome.is_err() || answered.as_ref() == Some(&id), "the answer is to this request");
    let own = Fields::of_optional(params.as_deref()).object("_meta");
    let is_modern = own.is_some_and(|own| own.has(meta::PROTOCOL_VERSION));
    if let (true, "tools/call", Ok(result)) = (is_modern, method.as_str(), outcome) {
        let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
        check_agreement(asked, result.pointer("/structuredContent").unwrap_or(&Value::Null));
    }
}

/// What reached the server is what the headers said.
fn check_agreement(asked: &Request<Vec<u8>>, called: &Value) {
    let header = |name: &str| asked.headers().get(name).and_then(|value| value.to_str().ok()).and_then(decode);
    if called.get("name").and_then(Value::as_str) != Some("mirror") {
        return;
    }
    let given = |pointer: &str| {
        called.pointer(pointer).filter(|value| !value.is_object() && !value.is_array() && !value.is_null())
    };
    if let Some(region) = given("/arguments/region").and_then(Value::as_str) {
        assert_eq!(header("mcp-param-region").as_deref(), Some(region), "a text is repeated as it is");
    }
    if let Some(count) = given("/arguments/count").and_then(Value::as_i64) {
        let repeated = header("mcp-param-count").expect("a number is repeated");
        if let Ok(repeated) = repeated.parse::<i64>() {
            assert_eq!(repeated, count, "a whole number is repeated as it is");
        }
    }
    if let Some(flag) = given("/arguments/deep/flag").and_then(Value::as_bool) {
        assert_eq!(header("mcp-param-flag"), Some(flag.to_string()), "a truth value is repeated as it is");
    }
}
