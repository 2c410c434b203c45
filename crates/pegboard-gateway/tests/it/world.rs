//! Servers, a gateway and its clients.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{self, Body},
    http::{Request, Response, header::HeaderMap},
};
use pegboard_engine::Keyword;
use pegboard_gateway::{Gateway, GatewaySettings, Profile};
use pegboard_http::Principal;
use pegboard_upstream::{
    Answering, LocalServer,
    config::{ServerConfig, TransportConfig},
    json::{Fields, Raw, raw},
    rpc::RpcError,
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a large result.
pub(crate) const LARGE: usize = 300 << 10;

/// The largest body.
const MAX_BODY: usize = 4 << 20;

/// A server that offers tools by name, a prompt and a resource, and keeps what it is called with.
/// Its tool `fail` fails, `refuse` is refused, `wait` never answers, `link` names a resource, and
/// `large` has a result of [`LARGE`] bytes and a little more.
pub(crate) struct Server {
    tools: Vec<Value>,
    calls: Mutex<Vec<(String, String)>>,
    /// Calls that were given up.
    dropped: Arc<AtomicUsize>,
}

/// Counts itself when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}

impl Server {
    /// A server with tools of these names, which take any arguments.
    pub(crate) fn new(names: &[&str]) -> Arc<Self> {
        let tool = |name: &&str| json!({"name": name, "description": format!("Does what {name} says"), "inputSchema": {"type": "object"}});
        Self::with(names.iter().map(tool).collect())
    }

    /// A server with tools of these definitions.
    pub(crate) fn with(tools: Vec<Value>) -> Arc<Self> {
        Arc::new(Self { tools, calls: Mutex::default(), dropped: Arc::default() })
    }

    /// How many calls were given up.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    async fn call(&self, params: Fields) -> Result<Raw, RpcError> {
        let arguments = params.get("arguments").map(|arguments| arguments.get().to_owned());
        let name = params.text("name").unwrap_or_default();
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push((name.clone(), arguments.unwrap_or_default()));
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        match name.as_str() {
            "fail" => Ok(raw(&json!({"content": [{"type": "text", "text": "it failed"}], "isError": true}))),
            "refuse" => Err(RpcError::new(RpcError::INVALID_PARAMS, "no such thing")),
            "wait" => {
                let _counted = Counted(Arc::clone(&self.dropped));
                std::future::pending().await
            }
            "large" => Ok(raw(&text(&"x".repeat(LARGE)))),
            "link" => Ok(raw(&json!({"content": [{"type": "resource_link", "uri": "toy://text", "name": "text"}]}))),
            _ => Ok(raw(&text("done"))),
        }
    }

    /// How the gateway is told of it.
    pub(crate) fn config(self: &Arc<Self>, name: &str) -> ServerConfig {
        ServerConfig::new(name, TransportConfig::Local(Arc::clone(self) as Arc<dyn LocalServer>))
    }

    /// The calls so far: the tool, and its arguments as they were written.
    pub(crate) fn calls(&self) -> Vec<(String, String)> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl LocalServer for Server {
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> Answering<'a> {
        Box::pin(async move {
            match method {
                "server/discover" => {
                    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}});
                    Ok(raw(&json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})))
                }
                "tools/list" => Ok(raw(&json!({"tools": self.tools}))),
                "tools/call" => self.call(Fields::of_optional(params.as_deref())).await,
                "prompts/list" => Ok(raw(&json!({"prompts": [{"name": "greet"}]}))),
                "prompts/get" => Ok(raw(&json!({"messages": [params]}))),
                "resources/list" => Ok(raw(&json!({"resources": [{"uri": "toy://text", "name": "text"}]}))),
                "resources/templates/list" => Ok(raw(&json!({"resourceTemplates": []}))),
                "resources/read" => {
                    let uri = Fields::of_optional(params.as_deref()).text("uri").unwrap_or_default();
                    match uri.as_str() {
                        "toy://text" => Ok(raw(&json!({"contents": [{"uri": uri, "text": "hello"}]}))),
                        _ => Err(RpcError::new(RpcError::INVALID_PARAMS, "none").with_data(&json!({"uri": uri}))),
                    }
                }
                "completion/complete" => Ok(raw(&json!({"completion": {"values": [params]}}))),
                _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
            }
        })
    }
}

/// A gateway and its routes.
pub(crate) struct World {
    pub(crate) gateway: Arc<Gateway>,
    router: Router,
}

/// Settings with this profile, whatever the number of tools.
pub(crate) fn settings(profile: Profile) -> GatewaySettings {
    GatewaySettings { profile, exposure: pegboard_discovery::Exposure::Always, ..GatewaySettings::default() }
}

impl World {
    /// A gateway in front of these servers, once they are there.
    pub(crate) async fn new(servers: Vec<ServerConfig>, settings: GatewaySettings) -> Self {
        let ranker: Arc<Keyword> = Arc::default();
        let gateway = Gateway::start(servers, settings, Arc::new(move |_| Arc::clone(&ranker) as _), Vec::new());
        gateway.ready().await;
        let router = gateway.router(MAX_BODY);
        Self { gateway, router }
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
        let mut request = Request::post("/mcp");
        if !headers.iter().any(|(name, _)| *name == "accept") {
            request = request.header("accept", "application/json, text/event-stream");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::from(body.to_string())).expect("a request");
        if let Some(holder) = holder {
            request.extensions_mut().insert(Principal(holder));
        }
        let Ok(response) = self.router.clone().oneshot(request).await;
        response
    }

    /// Sends a request; the status, the headers, and all messages that came back.
    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: &Value) -> (u16, HeaderMap, Vec<Value>) {
        self.post_as(None, headers, body).await
    }

    /// Begins a session.
    pub(crate) async fn legacy(&self) -> Legacy<'_> {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let (_, headers, _) = self.post(&[], &body).await;
        let id = headers.get("mcp-session-id").expect("a session").to_str().expect("text").to_owned();
        Legacy { world: self, id }
    }

    /// Makes a request of 2026-07-28; the response.
    pub(crate) async fn modern(&self, method: &str, params: Value) -> Value {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        self.modern_with(method, params, &[("mcp-name", &name)]).await
    }

    /// [`modern`](Self::modern) with further headers.
    pub(crate) async fn modern_with(&self, method: &str, mut params: Value, more: &[(&str, &str)]) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        headers.extend(more);
        self.post(&headers, &body).await.2.pop().expect("a response")
    }
}

/// The status, the headers, and all messages of a response.
pub(crate) async fn read(response: Response<Body>) -> (u16, HeaderMap, Vec<Value>) {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let lines = text.lines().filter_map(|line| if is_stream { line.strip_prefix("data: ") } else { Some(line) });
    (status, headers, lines.map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

/// A client with a session.
pub(crate) struct Legacy<'a> {
    world: &'a World,
    id: String,
}

impl Legacy<'_> {
    /// The session's name.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Makes a request; everything that came, the response last.
    pub(crate) async fn messages(&self, method: &str, params: Value) -> Vec<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.world.post(&[("mcp-session-id", &self.id)], &body).await.2
    }

    /// Makes a request; the response.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.world.post(&[("mcp-session-id", &self.id)], &body).await.2.pop().expect("a response")
    }

    /// The names of the tools that are listed.
    pub(crate) async fn names(&self) -> Vec<String> {
        names(&self.request("tools/list", json!({})).await)
    }

    /// Calls a tool with arguments as they are written; the text of the result.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> String {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        );
        let request = Request::post("/mcp")
            .header("accept", "application/json")
            .header("mcp-session-id", &self.id)
            .body(Body::from(body))
            .expect("a request");
        let Ok(response) = self.world.router.clone().oneshot(request).await;
        let bytes = body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        let response: Value = serde_json::from_slice(&bytes).expect("JSON");
        let text = response["result"]["content"][0]["text"].as_str().map(str::to_owned);
        text.unwrap_or_else(|| response.to_string())
    }
}

/// The names of the tools in a list.
pub(crate) fn names(response: &Value) -> Vec<String> {
    let tools = response["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
}
