//! Messages as they stand on the pipe, one JSON value per line.

use std::{
    io::{self, Stdout, Write, stderr, stdout},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// The prefix of the `_meta` keys that the protocol itself defines.
pub(crate) const META: &str = "io.modelcontextprotocol/";

/// Revisions that begin with `initialize`, newest first.
pub(crate) const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The revision in which every request describes its client.
pub(crate) const MODERN_VERSION: &str = "2026-07-28";

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) const PARSE: i64 = -32700;
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL: i64 = -32603;
    /// Legacy only; the modern era calls it invalid params.
    pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
    pub(crate) const MISSING_CAPABILITY: i64 = -32021;
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

    pub(crate) fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> RpcError {
        RpcError::new(Self::INVALID_PARAMS, message)
    }

    pub(crate) fn method_not_found(method: &str) -> RpcError {
        RpcError::new(Self::METHOD_NOT_FOUND, format!("method not found: `{method}`"))
    }

    pub(crate) fn unsupported_version(requested: &Value) -> RpcError {
        RpcError::new(Self::UNSUPPORTED_VERSION, format!("unsupported protocol version; supported: {MODERN_VERSION}"))
            .with_data(json!({"supported": [MODERN_VERSION], "requested": requested}))
    }

    pub(crate) fn with_data(self, data: Value) -> RpcError {
        RpcError { data: Some(data), ..self }
    }
}

/// A request as it came.
pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
    /// The line itself, for those who must see what parsing evens out.
    pub(crate) line: String,
}

/// The writing end of the pipe. Every message goes out whole, whichever thread sends it.
pub(crate) struct Output {
    stdout: Mutex<Stdout>,
    garbage: bool,
}

impl Output {
    pub(crate) fn new(garbage: bool) -> Output {
        Output { stdout: Mutex::new(stdout()), garbage }
    }

    pub(crate) fn result(&self, id: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    pub(crate) fn error(&self, id: &Value, error: &RpcError) {
        let mut body = json!({"code": error.code, "message": error.message});
        if let Some(data) = &error.data {
            body["data"] = data.clone();
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": body}));
    }

    pub(crate) fn notification(&self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn request(&self, id: u64, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    fn send(&self, message: &Value) {
        let line = format!("{message}\n");
        let mut stdout = lock(&self.stdout);
        let sent = if self.garbage { send_amid_garbage(&mut stdout, &line) } else { stdout.write_all(line.as_bytes()) };
        if sent.and_then(|()| stdout.flush()).is_err() {
            // Nobody is left to serve.
            std::process::exit(1);
        }
    }
}

/// Writes what a server's stray prints look like, then the message in two pieces.
fn send_amid_garbage(stdout: &mut Stdout, line: &str) -> io::Result<()> {
    stdout.write_all(b"Starting up... done (this is no message)\n\n\xff\xfe\n")?;
    stdout.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":\n[1,2\n")?;
    let (head, tail) = line.as_bytes().split_at(line.len() / 2);
    stdout.write_all(head)?;
    stdout.flush()?;
    // Long enough for a reader to see the first half alone.
    thread::sleep(Duration::from_millis(5));
    stdout.write_all(tail)
}

/// Writes a line for people to stderr.
pub(crate) fn log(text: &str) {
    // A closed stderr is no reason to stop.
    let _ = writeln!(stderr(), "pegboard-fixture: {text}");
}

/// Locks `mutex`. A thread that panicked left no half-made value behind: every critical
/// section here is a single insertion or removal.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
