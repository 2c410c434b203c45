//! `pegboard proxy` in front of the scripted provider.

mod access;
mod caching;
mod client;
mod conversation;
mod faults;
mod fleet;
mod passing;
mod programs;
mod rules;
mod sdks;
mod status;
mod streams;

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use pegboard_testkit::provider::Provider;
use serde_json::Value;

use crate::harness::Folder;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The credential for the control API of a gateway.
const OPERATOR: &str = "the-operator-of-this-gateway";

/// A running proxy, which is stopped when it is dropped.
pub(crate) struct RunningProxy {
    folder: Folder,
    upstream: String,
    options: Vec<String>,
    process: Option<Process>,
    pub(crate) url: String,
    log: Arc<Mutex<String>>,
}

struct Process {
    child: Child,
    reader: JoinHandle<()>,
}

impl RunningProxy {
    /// Starts a proxy in front of `provider`.
    pub(crate) fn start(test: &str, provider: &Provider) -> Self {
        Self::with_options(test, provider, &[])
    }

    /// Starts a proxy with further options.
    fn with_options(test: &str, provider: &Provider, options: &[&str]) -> Self {
        let mut proxy = Self {
            folder: Folder::new(&format!("proxy_{test}")),
            upstream: provider.url().to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            process: None,
            url: String::new(),
            log: Arc::default(),
        };
        proxy.spawn();
        proxy
    }

    /// Starts a proxy with the section `proxy` of a configuration.
    fn with_config(test: &str, provider: &Provider, section: &Value) -> Self {
        let folder = Folder::new(&format!("proxy_{test}"));
        let config = serde_json::json!({"mcpServers": {}, "pegboard": {"proxy": section}});
        folder.file("pegboard.json", config.to_string());
        let path = folder.path().join("pegboard.json").to_string_lossy().into_owned();
        let mut proxy = Self {
            folder,
            upstream: provider.url().to_owned(),
            options: vec!["--config".to_owned(), path],
            process: None,
            url: String::new(),
            log: Arc::default(),
        };
        proxy.spawn();
        proxy
    }

    /// Starts a gateway with the routes of the proxy on its listener.
    fn on_gateway(test: &str, provider: &Provider) -> Self {
        Self::on_gateway_with(test, provider, "127.0.0.1:0", serde_json::json!({}), &Value::Null)
    }

    /// Starts a gateway with the routes of the proxy on this address, with these settings of the gateway and these tokens
    /// of the proxy.
    fn on_gateway_with(test: &str, provider: &Provider, listen: &str, mut settings: Value, tokens: &Value) -> Self {
        let folder = Folder::new(&format!("proxy_{test}"));
        let url = provider.url();
        let upstreams = serde_json::json!({"openai": format!("{url}/v1"), "anthropic": url, "gemini": url});
        settings["proxy"] = serde_json::json!({"onGateway": true, "upstreams": upstreams});
        if !tokens.is_null() {
            settings["proxy"]["tokens"] = tokens.clone();
        }
        let config = serde_json::json!({"mcpServers": {}, "pegboard": settings});
        folder.file("pegboard.json", config.to_string());
        let path = folder.path().join("pegboard.json").to_string_lossy().into_owned();
        let mut proxy = Self {
            folder,
            upstream: String::new(),
            options: vec![path, "--listen".to_owned(), listen.to_owned()],
            process: None,
            url: String::new(),
            log: Arc::default(),
        };
        proxy.spawn();
        proxy.url = proxy.url.trim_end_matches("/mcp").replace("0.0.0.0", "127.0.0.1");
        proxy
    }

    /// Returns the command that starts this proxy.
    fn command(&self) -> Command {
        let mut command = self.folder.isolated();
        if self.upstream.is_empty() {
            command.args(["serve", "--state", "none"]).args(&self.options);
            command.env("PEGBOARD_TOKEN", OPERATOR);
            return command;
        }
        command.args(["proxy", "--log-level", "debug", "--state"]).arg(self.state());
        if !self.options.iter().any(|option| option == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let upstream = &self.upstream;
        for route in [format!("anthropic={upstream}"), format!("openai={upstream}/v1"), format!("gemini={upstream}")] {
            command.args(["--upstream", &route]);
        }
        command.args(&self.options);
        command
    }

    fn spawn(&mut self) {
        let mut child = self.command().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut told = String::new();
        self.url = loop {
            let line =
                lines.next().and_then(Result::ok).unwrap_or_else(|| panic!("the proxy does not listen:\n{told}"));
            told.push_str(&format!("{line}\n"));
            if let Some((_, rest)) = line.split_once("listening on ") {
                break rest.split_whitespace().next().expect("a URL").to_owned();
            }
        };
        self.log.lock().expect("a log").push_str(&told);
        let log = Arc::clone(&self.log);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                log.lock().expect("a log").push_str(&format!("{line}\n"));
            }
        });
        self.process = Some(Process { child, reader });
    }

    /// Returns the state folder.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Stops the proxy and starts it again with the same state, on another port.
    fn restart(&mut self) {
        self.stop();
        self.spawn();
    }

    pub(crate) fn stop(&mut self) {
        let Some(Process { mut child, reader }) = self.process.take() else { return };
        let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        let _ = child.wait();
        let _ = reader.join();
    }

    /// Stops the proxy and returns everything it has logged.
    fn logged(&mut self) -> String {
        self.stop();
        self.log.lock().expect("a log").clone()
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        self.stop();
    }
}
