//! A test client of both protocol eras that shows everything on the wire.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
};

use reqwest::{Response, header::HeaderMap};
use serde_json::{Value, json};

use super::PATIENCE;

/// Returns an HTTP client with the one cryptography provider that the workspace uses.
pub(crate) fn http() -> reqwest::Client {
    builder().build().expect("a client")
}

pub(crate) fn builder() -> reqwest::ClientBuilder {
    // Another test of this process may have chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}

/// The answer to one request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Messages before the response, on the same stream.
    pub(crate) before: Vec<Value>,
    pub(crate) response: Value,
    /// The response as it was written.
    pub(crate) raw: String,
}

impl Reply {
    /// Returns the result; fails the test on an error.
    pub(crate) fn result(&self) -> &Value {
        assert!(self.response.get("result").is_some(), "no result: {} {:?}", self.status, self.response);
        &self.response["result"]
    }

    /// Returns the code and message of an error.
    pub(crate) fn error(&self) -> (i64, String) {
        let error = &self.response["error"];
        assert!(error.is_object(), "no error: {} {:?}", self.status, self.response);
        (error["code"].as_i64().unwrap_or_default(), error["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the methods of the messages before the response.
    pub(crate) fn methods_before(&self) -> Vec<String> {
        self.before.iter().map(|message| message["method"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// The messages of a stream, one by one.
#[derive(Debug)]
pub(crate) struct Events {
    response: Response,
    buffer: String,
    ready: VecDeque<String>,
}

impl Events {
    pub(crate) fn new(response: Response) -> Self {
        Self { response, buffer: String::new(), ready: VecDeque::new() }
    }

    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            let chunk =
                tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("a message in time").ok()??;
            self.buffer.push_str(&String::from_utf8_lossy(&chunk));
            while let Some((line, rest)) = self.buffer.split_once('\n') {
                let data = line.strip_prefix("data: ").filter(|data| !data.is_empty()).map(str::to_owned);
                self.ready.extend(data);
                self.buffer = rest.to_owned();
            }
        }
    }

    /// Returns the next message as JSON.
    pub(crate) async fn message(&mut self) -> Value {
        // For all of it: keep-alives in between are not messages.
        let line = tokio::time::timeout(PATIENCE, self.next()).await.expect("a message in time").expect("a message");
        serde_json::from_str(&line).expect("JSON")
    }
}

/// Sends a body and collects the answer; questions of the server go to `answer`.
async fn send(request: reqwest::RequestBuilder, id: &Value, answer: impl AsyncFn(Value)) -> Reply {
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    if !kind.starts_with("text/event-stream") {
        let raw = response.text().await.expect("a body");
        let response = serde_json::from_str(&raw).unwrap_or_default();
        return Reply { status, headers, before: Vec::new(), response, raw };
    }
    let mut events = Events::new(response);
    let mut before = Vec::new();
    while let Some(raw) = events.next().await {
        let message: Value = serde_json::from_str(&raw).expect("JSON");
        if message.get("method").is_none() && message["id"] == *id {
            return Reply { status, headers, before, response: message, raw };
        }
        if message.get("method").is_some() && message.get("id").is_some() {
            answer(message.clone()).await;
        }
        before.push(message);
    }
    // A client that cancels a request gets no answer.
    Reply { status, headers, before, response: Value::Null, raw: String::new() }
}

/// A legacy session.
#[derive(Debug)]
pub(crate) struct Legacy {
    http: reqwest::Client,
    url: String,
    pub(crate) session: String,
    pub(crate) hello: Value,
    next: AtomicU64,
}

impl Legacy {
    pub(crate) async fn begin(url: &str, client: &str, capabilities: Value) -> Self {
        Self::begin_as(url, client, capabilities, None).await
    }

    pub(crate) async fn begin_as(url: &str, client: &str, capabilities: Value, token: Option<&str>) -> Self {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert("authorization", format!("Bearer {token}").parse().expect("a header"));
        }
        let http = builder().default_headers(headers).build().expect("a client");
        let mut legacy =
            Self { http, url: url.to_owned(), session: String::new(), hello: Value::Null, next: AtomicU64::new(0) };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": client, "version": "1"}
        });
        let reply = legacy.request("initialize", params).await;
        legacy.session = reply.headers["mcp-session-id"].to_str().expect("a session").to_owned();
        legacy.hello = reply.result().clone();
        assert_eq!(legacy.notify("notifications/initialized", json!({})).await, 202);
        legacy
    }

    /// Returns the same client for a gateway at another address.
    pub(crate) fn moved_to(mut self, url: &str) -> Self {
        url.clone_into(&mut self.url);
        self
    }

    fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        let mut request = self
            .http
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if !self.session.is_empty() {
            request = request.header("mcp-session-id", &self.session).header("mcp-protocol-version", "2025-11-25");
        }
        request.body(body.to_string())
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Reply {
        self.request_answering(method, params, |_| json!({})).await
    }

    /// Sends a request during which the server may ask; `answer` makes the results.
    pub(crate) async fn request_answering(
        &self,
        method: &str,
        params: Value,
        answer: impl Fn(&Value) -> Value,
    ) -> Reply {
        let id = Value::from(self.next.fetch_add(1, Ordering::Relaxed));
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        send(self.post(&body), &id, async |question: Value| {
            let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer(&question)});
            let status = self.post(&reply).send().await.expect("an answer").status();
            assert_eq!(status.as_u16(), 202);
        })
        .await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool of a gateway that may stop at any moment, and returns whether it succeeded, if
    /// there was a complete answer.
    pub(crate) async fn try_call(&self, tool: &str, arguments: Value) -> Option<bool> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let text = self.post(&body).send().await.ok()?.text().await.ok()?;
        let line = text.lines().rfind(|line| line.contains("\"result\""))?;
        let message: Value = serde_json::from_str(line.trim_start_matches("data: ")).ok()?;
        Some(message["result"]["isError"].as_bool() != Some(true))
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) -> u16 {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.post(&body).send().await.expect("an answer").status().as_u16()
    }

    /// Ends the conversation.
    pub(crate) async fn end(&self) {
        let request = self.http.delete(&self.url).header("mcp-session-id", &self.session);
        assert_eq!(request.send().await.expect("an answer").status().as_u16(), 200);
    }

    /// Opens the stream for messages outside of requests.
    pub(crate) async fn stream(&self) -> Events {
        let request = self.http.get(&self.url).header("accept", "text/event-stream");
        let response = request.header("mcp-session-id", &self.session).send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), 200);
        Events::new(response)
    }
}

/// Returns the `_meta` of a modern request.
pub(crate) fn modern_meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Sends one modern request of a client that supports everything.
pub(crate) async fn modern(url: &str, method: &str, params: Value) -> Reply {
    modern_with(url, method, params, &json!({"sampling": {}, "elicitation": {}, "roots": {}}), &[]).await
}

/// Sends one modern request, with capabilities and further headers.
pub(crate) async fn modern_with(
    url: &str,
    method: &str,
    mut params: Value,
    capabilities: &Value,
    headers: &[(&str, &str)],
) -> Reply {
    let mut own = modern_meta(capabilities);
    if let Some(given) = params.get("_meta").and_then(Value::as_object) {
        own.as_object_mut().expect("an object").extend(given.clone());
    }
    params["_meta"] = own;
    let id = json!("modern-1");
    let mut request = http()
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    if let Some(name) = params.get("name").or(params.get("uri")).and_then(Value::as_str) {
        request = request.header("mcp-name", name);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    send(request.body(body.to_string()), &id, async |question| panic!("a modern server asked: {question}")).await
}
