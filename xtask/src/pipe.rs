//! A client of an MCP server on a pipe, which costs as little as possible.

use std::{
    io::{BufRead, BufReader, Write},
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
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = spawned.map_err(|error| format!("cannot start a server: {error}"))?;
        let input = child.stdin.take().ok_or("no pipe")?;
        let output = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        let mut pipe = Self { child, input, output };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}
        });
        pipe.request("initialize", &hello)?;
        pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(pipe)
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        self.input.write_all(format!("{message}\n").as_bytes()).map_err(|error| error.to_string())
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).map_err(|error| error.to_string())?;
            let message: Value = serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
            if message["id"] == 1 {
                return Ok(message);
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
