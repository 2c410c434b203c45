//! Servers, a gateway and its clients.

use std::{
    fs,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{self, Body, HttpBody as _},
    http::{Method, Request, Response, header::HeaderMap},
};
use pegboard_core::Ranker;
use pegboard_engine::Keyword;
use pegboard_gateway::{Gateway, GatewaySettings, Profile};
use pegboard_http::Principal;
use pegboard_upstream::config::ServerConfig;
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub(crate) use super::server::{LARGE, Server, TASK, UI_RESOURCE, VENDOR, tool};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The largest body.
const MAX_BODY: usize = 4 << 20;

/// A gateway and its routes.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) gateway: Arc<Gateway>,
    router: Router,
}

/// Settings with this profile, whatever the number of tools.
pub(crate) fn settings(profile: Profile) -> GatewaySettings {
    GatewaySettings { profile, exposure: pegboard_discovery::Exposure::Always, ..GatewaySettings::default() }
}

/// Settings with which every client sees all tools.
pub(crate) fn plain() -> GatewaySettings {
    GatewaySettings { exposure: pegboard_discovery::Exposure::Never, ..GatewaySettings::default() }
}

/// A folder of one test, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        // Left over from a run that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let polled = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, polled).await.is_ok(), "{what}: not in time");
}

impl World {
    /// A gateway in front of these servers, once they are there.
    pub(crate) async fn new(servers: Vec<ServerConfig>, settings: GatewaySettings) -> Self {
        Self::ranked(servers, settings, Arc::<Keyword>::default()).await
    }

    /// [`new`](Self::new) with another ranker.
    pub(crate) async fn ranked(servers: Vec<ServerConfig>, settings: GatewaySettings, ranker: Arc<dyn Ranker>) -> Self {
        let gateway = Gateway::start(servers, settings, Arc::new(move |_| Arc::clone(&ranker)), Vec::new());
        gateway.wait_until_ready().await;
        let router = gateway.router(MAX_BODY);
        Self { gateway, router }
    }

    /// The same gateway behind other routes.
    pub(crate) fn at(&self, router: Router) -> Self {
        Self { gateway: Arc::clone(&self.gateway), router }
    }

    /// [`post`](Self::post) with a token's holder.
    pub(crate) async fn post_as(
        &self,
        holder: Option<usize>,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (u16, HeaderMap, Vec<Value>) {
        read(self.send(holder, headers, body).await).await
    }

    /// Sends a request; the response, which is not read yet.
    pub(crate) async fn send(&self, holder: Option<usize>, headers: &[(&str, &str)], body: &Value) -> Response<Body> {
        self.send_text(holder, headers, &body.to_string()).await
    }

    /// [`send`](Self::send) with a body as it is written.
    pub(crate) async fn send_text(
        &self,
        holder: Option<usize>,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response<Body> {
        let accept = ("accept", "application/json, text/event-stream");
        let is_given = headers.iter().any(|(name, _)| *name == "accept");
        let headers: Vec<(&str, &str)> = headers.iter().copied().chain((!is_given).then_some(accept)).collect();
        self.http(Method::POST, "/mcp", holder, &headers, body).await
    }

    /// Makes any HTTP request.
    pub(crate) async fn http(
        &self,
        method: Method,
        path: &str,
        holder: Option<usize>,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::from(body.to_owned())).expect("a request");
        if let Some(holder) = holder {
            request.extensions_mut().insert(Principal(holder));
        }
        let Ok(response) = self.router.clone().oneshot(request).await;
        response
    }

    /// Gets a page; its status and its text.
    pub(crate) async fn get(&self, path: &str, holder: Option<usize>) -> (u16, String) {
        let response = self.http(Method::GET, path, holder, &[], "").await;
        (response.status().as_u16(), whole(response.into_body()).await)
    }

    /// One of the metrics.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.get("/metrics", None).await;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no `{name}` in:\n{text}"))
    }

    /// Sends a request; the status, the headers, and all messages that came back.
    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: &Value) -> (u16, HeaderMap, Vec<Value>) {
        self.post_as(None, headers, body).await
    }

    /// Begins a session of a client that cannot be asked anything.
    pub(crate) async fn legacy(&self) -> Legacy {
        self.legacy_with(None, "test", json!({})).await
    }

    /// [`legacy`](Self::legacy) for a token's holder.
    pub(crate) async fn legacy_as(&self, holder: usize) -> Legacy {
        self.legacy_with(Some(holder), "test", json!({})).await
    }

    /// Begins a session of a client of this name, with these capabilities.
    pub(crate) async fn legacy_with(&self, holder: Option<usize>, client: &str, capabilities: Value) -> Legacy {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": client, "version": "1"}
        });
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let (_, headers, mut messages) = self.post_as(holder, &[], &body).await;
        let id = headers.get("mcp-session-id").expect("a session").to_str().expect("text").to_owned();
        let hello = messages.pop().expect("a greeting")["result"].clone();
        Legacy { world: self.clone(), holder, id, hello, next: AtomicU64::new(1) }
    }

    /// Makes a request of 2026-07-28; the response.
    pub(crate) async fn modern(&self, method: &str, params: Value) -> Value {
        self.modern_with(method, params, &[]).await
    }

    /// [`modern`](Self::modern) with further headers.
    pub(crate) async fn modern_with(&self, method: &str, params: Value, more: &[(&str, &str)]) -> Value {
        self.modern_messages(None, method, params, more).await.2.pop().expect("a response")
    }

    /// Makes a request of 2026-07-28; the status, the headers, and everything that came, the
    /// response last.
    pub(crate) async fn modern_messages(
        &self,
        holder: Option<usize>,
        method: &str,
        params: Value,
        more: &[(&str, &str)],
    ) -> (u16, HeaderMap, Vec<Value>) {
        read(self.modern_send(holder, 1, method, params, more).await).await
    }

    /// Sends a request of 2026-07-28 with this `id`; the response, which is not read yet. The
    /// `_meta` in `params` adds to the usual one.
    pub(crate) async fn modern_send(
        &self,
        holder: Option<usize>,
        id: u64,
        method: &str,
        mut params: Value,
        more: &[(&str, &str)],
    ) -> Response<Body> {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        if let (Some(meta), Some(given)) = (meta.as_object_mut(), params["_meta"].as_object()) {
            meta.extend(given.clone());
        }
        params["_meta"] = meta;
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str()).unwrap_or_default().to_owned();
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        if !name.is_empty() {
            headers.push(("mcp-name", &name));
        }
        headers.extend(more);
        self.send(holder, &headers, &body).await
    }
}

/// The whole text of a body.
pub(crate) async fn whole(body: Body) -> String {
    let bytes = tokio::time::timeout(PATIENCE, body::to_bytes(body, usize::MAX)).await.expect("in time");
    String::from_utf8(bytes.expect("a body").to_vec()).expect("text")
}

/// The status, the headers, and all messages of a response.
pub(crate) async fn read(response: Response<Body>) -> (u16, HeaderMap, Vec<Value>) {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = whole(response.into_body()).await;
    let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let lines = text.lines().filter_map(|line| if is_stream { line.strip_prefix("data: ") } else { Some(line) });
    (status, headers, lines.map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

/// The messages of a stream, one by one.
pub(crate) struct Events {
    body: Body,
    buffer: String,
    /// The id of the last event.
    last: String,
}

impl Events {
    pub(crate) fn new(response: Response<Body>) -> Self {
        Self { body: response.into_body(), buffer: String::new(), last: String::new() }
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let next = async {
            loop {
                while let Some((line, rest)) = self.buffer.split_once('\n') {
                    if let Some(id) = line.strip_prefix("id: ") {
                        id.clone_into(&mut self.last);
                    }
                    let data = line.strip_prefix("data: ").filter(|data| !data.is_empty());
                    let data = data.map(|data| serde_json::from_str(data).expect("JSON"));
                    self.buffer = rest.to_owned();
                    if data.is_some() {
                        return data;
                    }
                }
                let frame = std::future::poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await?;
                let bytes = frame.expect("a body").into_data().expect("data");
                self.buffer.push_str(std::str::from_utf8(&bytes).expect("text"));
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("a message in time")
    }

    /// The id of the last event; empty if it has none.
    pub(crate) fn last_id(&self) -> &str {
        &self.last
    }

    /// The next event as it is written.
    pub(crate) async fn frame(&mut self) -> String {
        let frame = std::future::poll_fn(|context| Pin::new(&mut self.body).poll_frame(context));
        let frame = tokio::time::timeout(PATIENCE, frame).await.expect("in time").expect("an event");
        String::from_utf8(frame.expect("a body").into_data().expect("data").to_vec()).expect("text")
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Value {
        self.next().await.expect("a message")
    }

    /// Waits for a message; others before it are left out.
    pub(crate) async fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.message().await;
            if is_wanted(&message) {
                return message;
            }
        }
    }

    /// The messages until the stream ends.
    pub(crate) async fn until_end(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        messages
    }

    /// Waits for a notification; others before it are left out.
    pub(crate) async fn wait_for(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == method).await
    }
}

/// A client with a session. Its requests have the ids 1, 2 and so on.
pub(crate) struct Legacy {
    world: World,
    holder: Option<usize>,
    id: String,
    /// The answer to `initialize`.
    pub(crate) hello: Value,
    next: AtomicU64,
}

impl Legacy {
    /// The session's name.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The token's holder that it belongs to.
    pub(crate) fn holder(&self) -> Option<usize> {
        self.holder
    }

    /// The same client with another gateway in the place of the first.
    pub(crate) fn moved_to(self, world: &World) -> Self {
        Self { world: world.clone(), ..self }
    }

    /// The same client as another holder of a token.
    pub(crate) fn held_by(self, holder: usize) -> Self {
        Self { holder: Some(holder), ..self }
    }

    /// Sends a message in this session; the response, which is not read yet.
    pub(crate) async fn send(&self, body: &Value) -> Response<Body> {
        self.world.send(self.holder, &[("mcp-session-id", &self.id)], body).await
    }

    /// Makes a request; the response, which is not read yet.
    async fn begin(&self, method: &str, params: Value) -> Response<Body> {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await
    }

    /// Makes a request; everything that came, the response last.
    pub(crate) async fn messages(&self, method: &str, params: Value) -> Vec<Value> {
        read(self.begin(method, params).await).await.2
    }

    /// Makes a request; the response.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        self.messages(method, params).await.pop().expect("a response")
    }

    /// Makes a request; the HTTP status.
    pub(crate) async fn status(&self, method: &str, params: Value) -> u16 {
        self.begin(method, params).await.status().as_u16()
    }

    /// Makes a request during which the server asks; `answer` makes the results. The response.
    pub(crate) async fn request_answering(
        &self,
        method: &str,
        params: Value,
        answer: impl Fn(&Value) -> Value,
    ) -> Value {
        let mut events = Events::new(self.begin(method, params).await);
        loop {
            let message = events.message().await;
            match (message.get("method"), message.get("id")) {
                (None, Some(_)) => return message,
                (Some(_), Some(id)) => {
                    let reply = json!({"jsonrpc": "2.0", "id": id, "result": answer(&message)});
                    assert_eq!(self.send(&reply).await.status().as_u16(), 202);
                }
                _ => {}
            }
        }
    }

    /// Sends a notification; the HTTP status.
    pub(crate) async fn notify(&self, method: &str, params: Value) -> u16 {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await.status().as_u16()
    }

    /// Opens the stream of the session.
    pub(crate) async fn stream(&self) -> Events {
        let headers = [("accept", "text/event-stream"), ("mcp-session-id", self.id.as_str())];
        let response = self.world.http(Method::GET, "/mcp", self.holder, &headers, "").await;
        assert_eq!(response.status().as_u16(), 200);
        Events::new(response)
    }

    /// Ends the session; the HTTP status.
    pub(crate) async fn end(&self) -> u16 {
        let headers = [("mcp-session-id", self.id.as_str())];
        self.world.http(Method::DELETE, "/mcp", self.holder, &headers, "").await.status().as_u16()
    }

    /// The names of the tools that are listed.
    pub(crate) async fn names(&self) -> Vec<String> {
        names(&self.request("tools/list", json!({})).await)
    }

    /// Calls a tool with arguments as they are written; the text of the result.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> String {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        );
        let headers = [("accept", "application/json"), ("mcp-session-id", self.id.as_str())];
        let response = self.world.send_text(self.holder, &headers, &body).await;
        text(&read(response).await.2.pop().expect("a response"))
    }
}

/// The names of the tools in a list.
pub(crate) fn names(response: &Value) -> Vec<String> {
    let tools = response["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The text of a tool's result, or the whole response if there is none.
pub(crate) fn text(response: &Value) -> String {
    let text = response["result"]["content"][0]["text"].as_str().map(str::to_owned);
    text.unwrap_or_else(|| response.to_string())
}

/// The methods of the notifications that came with an answer.
pub(crate) fn methods(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["method"].as_str()).collect()
}
