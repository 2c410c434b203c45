//! The gateway from the outside: the binary with real processes behind it and a client in front of
//! it.

mod alone;
#[cfg(target_os = "linux")]
mod browsers;
pub(crate) mod client;
mod clocks;
#[cfg(target_os = "linux")]
mod connections;
mod console;
mod control;
mod doors;
mod environment;
mod eras;
mod exposure;
mod faults;
mod guards;
mod hostile;
pub(crate) mod listener;
mod lists;
mod mcproxy;
mod offload;
mod passing;
mod pins;
mod pressure;
pub(crate) mod real;
mod record;
mod reloading;
mod remote;
mod returning;
mod secrets;
mod shares;
mod starting;
mod status;
mod steps;
#[cfg(target_os = "linux")]
mod supervision;
mod tasks;
mod traces;
mod usage;
mod verbs;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::watch,
};

pub(crate) use self::client::{Legacy, Reply, modern, modern_with};

/// Timeout of every wait, longer than anything here takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the fixture server of the test kit, which is built beside the binary.
pub(crate) fn fixture_path() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_pegboard")).with_file_name("pegboard-fixture");
    assert!(path.exists(), "no `{}`: run the tests of the whole workspace", path.display());
    path
}

/// Returns a configuration entry for the fixture server.
pub(crate) fn fixture(args: &[&str]) -> Value {
    json!({"command": fixture_path(), "args": args})
}

/// A running `pegboard serve`.
pub(crate) struct Served {
    child: Child,
    pub(crate) url: String,
    log: watch::Receiver<String>,
    folder: PathBuf,
}

impl Served {
    /// Serves the configuration and waits until none of its servers is starting any more.
    pub(crate) async fn start(test: &str, config: &Value) -> Self {
        Self::start_at(test, config, "127.0.0.1:0").await
    }

    /// [`start`](Self::start) at a certain address.
    pub(crate) async fn start_at(test: &str, config: &Value, address: &str) -> Self {
        let (folder, file) = write_config(test, config);
        let served = Self::spawn(folder, &[&file], address).await;
        served.wait_until_settled(config, &[]).await;
        served
    }

    /// [`start`](Self::start) with further arguments and variables.
    pub(crate) async fn start_with(test: &str, config: &Value, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let (folder, file) = write_config(test, config);
        let served = Self::spawn_with(folder, &[&[file.as_str()], args].concat(), "127.0.0.1:0", variables).await;
        served.wait_until_settled(config, variables).await;
        served
    }

    /// Serves the demo.
    pub(crate) async fn demo(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{test}"));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Self::spawn(folder, &[], "127.0.0.1:0").await
    }

    /// Serves a configuration in `folder`, which is removed in the end, with its state in another.
    pub(crate) async fn start_in(folder: PathBuf, file: &Path, state: &Path) -> Self {
        let path = |path: &Path| path.to_str().expect("a path").to_owned();
        Self::spawn(folder, &[&path(file), "--state", &path(state)], "127.0.0.1:0").await
    }

    async fn spawn(folder: PathBuf, args: &[&str], address: &str) -> Self {
        Self::spawn_with(folder, args, address, &[("PEGBOARD_LOG", "debug")]).await
    }

    /// Serves with these arguments, and waits until `/ready` reports that its servers have started,
    /// have failed, or are cached.
    async fn spawn_with(folder: PathBuf, args: &[&str], address: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = command()
            .arg("serve")
            .args(args)
            .args(["--listen", address])
            .env("PEGBOARD_TOKEN", CONTROL)
            .envs(variables.iter().copied())
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let log = follow(child.stderr.take().expect("a pipe"));
        let mut served = Self { child, url: String::new(), log, folder };
        let line = served.wait_for_log("listening on ").await;
        let address = line.split("listening on ").nth(1).and_then(|rest| rest.split(['"', ' ']).next());
        served.url = address.expect("an address").to_owned();
        served.wait_until(None, |readiness| readiness["ready"] == true).await;
        served
    }

    /// Waits until every server is ready, has failed, or is idle. A client that comes earlier is
    /// answered after `startupWait` (`server/discover` after two seconds) with the servers that are
    /// ready by then, and is notified of the others later: on a busy machine it would see another
    /// order of events. With tokens, only a token without a selection sees this.
    async fn wait_until_settled(&self, config: &Value, variables: &[(&str, &str)]) {
        let tokens = config["pegboard"]["tokens"].as_array();
        let whole = tokens.and_then(|tokens| tokens.iter().find(|token| token.get("selection").is_none()));
        let token = whole.and_then(|token| token["token"].as_str());
        let names = |token: &str, name: &str| token.split(['{', '}', ':']).any(|part| part == name);
        let value = |token: &str| variables.iter().find(|(name, _)| names(token, name)).map(|(_, value)| *value);
        let token = token.map(|token| value(token).unwrap_or(token));
        self.wait_until(token, |readiness| readiness["starting"] == 0).await;
    }

    /// Waits until the answer of `/ready` satisfies `is_enough`.
    async fn wait_until(&self, token: Option<&str>, is_enough: impl Fn(&Value) -> bool) {
        let request = client::http().get(self.url.replace("/mcp", "/ready"));
        let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
        let again = || request.try_clone().expect("no body").send();
        let polled = async {
            while let Ok(answer) = again().await {
                let readiness: Value = serde_json::from_str(&answer.text().await.unwrap_or_default())
                    .unwrap_or_else(|error| panic!("`/ready` does not tell readiness: {error}"));
                if is_enough(&readiness) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, polled).await;
        assert!(waited.is_ok(), "servers are still starting; the log is:\n{}", self.log());
    }

    /// Waits until the log has a line with `text`, and returns the line.
    pub(crate) async fn wait_for_log(&self, text: &str) -> String {
        let mut log = self.log.clone();
        let found = |log: &String| log.lines().any(|line| line.contains(text));
        let log = tokio::time::timeout(PATIENCE, log.wait_for(found)).await;
        match log {
            Ok(Ok(log)) => log.lines().find(|line| line.contains(text)).unwrap_or_default().to_owned(),
            _ => panic!("`{text}` was not logged; the log is:\n{}", self.log.borrow().as_str()),
        }
    }

    /// Replaces the configuration, waits until the gateway has read it, and returns whether it was
    /// applied.
    pub(crate) async fn reconfigure(&self, config: &str) -> bool {
        let count =
            |log: &str| (log.matches("configuration reloaded").count(), log.matches("configuration rejected").count());
        let before = count(&self.log());
        let file = self.folder.join("pegboard.json");
        let written = self.folder.join("pegboard.json.new");
        std::fs::write(&written, config).expect("a temporary file");
        std::fs::rename(written, file).expect("it can be replaced");
        let mut log = self.log.clone();
        let looked = tokio::time::timeout(PATIENCE, log.wait_for(|log| count(log) != before)).await;
        let log = looked.expect("it is looked at").expect("a log").clone();
        count(&log).0 > before.0
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn log(&self) -> String {
        self.log.borrow().clone()
    }

    /// Begins a legacy session with a client that supports everything.
    pub(crate) async fn legacy(&self) -> Legacy {
        Legacy::begin(&self.url, "test", json!({"sampling": {}, "elicitation": {}, "roots": {}})).await
    }

    /// Sends one modern request.
    pub(crate) async fn modern(&self, method: &str, params: Value) -> Reply {
        modern(&self.url, method, params).await
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: &str) {
        kill(self.pid(), signal);
    }

    /// Waits until it has ended, and returns its exit code.
    pub(crate) async fn wait_for_exit(&mut self) -> Option<i32> {
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").expect("a status");
        status.code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(pid) = self.child.id() {
            kill(pid, "TERM");
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Creates a folder for a test, with its configuration in it.
fn write_config(test: &str, config: &Value) -> (PathBuf, String) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{test}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let file = folder.join("pegboard.json");
    std::fs::write(&file, config.to_string()).expect("a temporary file");
    let file = file.to_str().expect("a path").to_owned();
    (folder, file)
}

/// The credential of the control API, where no tokens are configured.
pub(crate) const CONTROL: &str = "credential-of-the-tests";

/// Returns the binary without settings from outside.
pub(crate) fn command() -> Command {
    // `cargo xtask screenshots` shows the release build.
    let program = std::env::var_os("PEGBOARD_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_pegboard").into());
    let mut command = Command::new(program);
    for variable in ["PEGBOARD_CONFIG", "PEGBOARD_LISTEN", "PEGBOARD_LOG", "PEGBOARD_RANKER", "PEGBOARD_TOKEN"] {
        command.env_remove(variable);
    }
    // Nor is where this machine sends its telemetry.
    for (variable, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OTEL_")) {
        command.env_remove(variable);
    }
    // The tests do not use the configuration of the user who runs them.
    command.env("XDG_CONFIG_HOME", "/nonexistent/settings").env_remove("PEGBOARD_FORMAT");
    // Each test has a state of its own.
    command.env("PEGBOARD_STATE", "none");
    command
}

pub(crate) fn kill(pid: u32, signal: &str) {
    let _ = std::process::Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
}

/// Returns whether a process exists and has not ended.
pub(crate) fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// Waits until a process is gone.
pub(crate) async fn wait_until_gone(pid: u32) {
    let gone = async {
        while is_running(pid) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("process {pid} still runs"));
}

/// Collects lines as they arrive.
pub(crate) fn follow(pipe: impl tokio::io::AsyncRead + Unpin + Send + 'static) -> watch::Receiver<String> {
    let (sender, receiver) = watch::channel(String::new());
    tokio::spawn(async move {
        let mut lines = BufReader::new(pipe).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            sender.send_modify(|log| {
                log.push_str(&line);
                log.push('\n');
            });
        }
    });
    receiver
}

/// Returns the names in a list of tools, prompts or the like.
pub(crate) fn names(reply: &Reply, field: &str) -> Vec<String> {
    let key = if field.starts_with("resource") { "uri" } else { "name" };
    let list = reply.result()[field].as_array().cloned().unwrap_or_default();
    list.iter().map(|item| item[key].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns the text of a tool's result.
pub(crate) fn text(reply: &Reply) -> String {
    reply.result()["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}
