//! LiteLLM's proxy from PyPI, with one model and nothing else switched on.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::stop;
use crate::bench_gateway::resident_mb;

/// The version that `testkit/peers/bench/requirements-litellm.txt` pins.
pub(super) const VERSION: &str = "1.105.0";

/// How long it may take to start: it loads for a while.
const START: Duration = Duration::from_secs(180);

/// A running server, which is stopped when it is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: String,
}

impl Server {
    pub(super) fn start(provider: &str) -> Result<Self, String> {
        let config = Path::new("target/bench-litellm.yaml");
        let text = format!(
            "model_list:\n  - model_name: gpt-5.4\n    litellm_params:\n      model: openai/gpt-5.4\n      \
             api_base: http://{provider}/v1\n      api_key: a-key\n"
        );
        fs::write(config, text).map_err(|error| format!("cannot write `{}`: {error}", config.display()))?;
        let port = free_port()?;
        let child = Command::new(".tools/python-litellm/bin/litellm")
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--telemetry", "False", "--config"])
            .arg(config)
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start LiteLLM: {error}"))?;
        let mut server = Self { child, address: format!("127.0.0.1:{port}") };
        server.wait()?;
        Ok(server)
    }

    /// Waits until it answers.
    fn wait(&mut self) -> Result<(), String> {
        let began = Instant::now();
        while began.elapsed() < START {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return Err("LiteLLM has ended".to_owned());
            }
            if is_alive(&self.address) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(200));
        }
        Err(format!("LiteLLM does not answer after {} s", START.as_secs()))
    }

    pub(super) fn resident_mb(&self) -> f64 {
        resident_mb(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

fn is_alive(address: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET /health/liveliness HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("no free port: {error}"))?;
    listener.local_addr().map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}
