//! Servers, a gateway and its clients.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{self, Body},
    http::{Request, header::HeaderMap},
};
use pegboard_engine::Keyword;
use pegboard_gateway::{Gateway, GatewaySettings, Profile};
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

/// The largest body.
const MAX_BODY: usize = 4 << 20;

/// A server that offers tools by name, and keeps what it is called with.
pub(crate) struct Server {
    tools: Vec<Value>,
    calls: Mutex<Vec<(String, String)>>,
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
        Arc::new(Self { tools: names.iter().map(tool).collect(), calls: Mutex::default() })
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
                    Ok(raw(&json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})))
                }
                "tools/list" => Ok(raw(&json!({"tools": self.tools}))),
                "tools/call" => {
                    let params = Fields::of_optional(params.as_deref());
                    let arguments = params.get("arguments").map(|arguments| arguments.get().to_owned());
                    let call = (params.text("name").unwrap_or_default(), arguments.unwrap_or_default());
                    self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
                    Ok(raw(&json!({"content": [{"type": "text", "text": "done"}]})))
                }
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

    /// Sends a request; the status, the headers, and all messages that came back.
    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: &Value) -> (u16, HeaderMap, Vec<Value>) {
        let mut request = Request::post("/mcp").header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
        let lines = text.lines().filter_map(|line| if is_stream { line.strip_prefix("data: ") } else { Some(line) });
        (status, headers, lines.map(|line| serde_json::from_str(line).expect("JSON")).collect())
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
    pub(crate) async fn modern(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", &name)];
        self.post(&headers, &body).await.2.pop().expect("a response")
    }
}

/// A client with a session.
pub(crate) struct Legacy<'a> {
    world: &'a World,
    id: String,
}

impl Legacy<'_> {
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
