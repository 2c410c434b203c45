//! A client of an MCP server on a pipe, which costs as little as possible.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

/// A server on a pipe.
pub(crate) struct Pipe {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Pipe {
    /// Starts the server and completes the handshake.
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let mut pipe = Self::open(command)?;
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}
        });
        pipe.request("initialize", &hello)?;
        pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(pipe)
    }

    /// Starts the server and says nothing.
    pub(crate) fn open(command: &mut Command) -> Result<Self, String> {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = spawned.map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
        let input = child.stdin.take().ok_or("no pipe")?;
        let output = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Self { child, input, output })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        self.input.write_all(format!("{message}\n").as_bytes()).map_err(|error| error.to_string())
    }

    /// Sends a request and returns the message that answers it.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let text = self.request_text(method, params)?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// Sends a request and returns the line that answers it.
    pub(crate) fn request_text(&mut self, method: &str, params: &Value) -> Result<String, String> {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                return Err(format!("the server ended before it answered `{method}`"));
            }
            // Some servers write other things to the same pipe.
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            if message["method"].is_null() {
                if message["id"] == 1 {
                    return Ok(line);
                }
            } else if !message["id"].is_null() {
                // Some servers ask for roots that this client never declared, under ids of their own.
                let error = json!({"code": -32601, "message": "method not found"});
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))?;
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // A proxy that is killed leaves its servers behind; one that is asked ends them.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}
