//! `pegboard status`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use serde_json::{Value, json};

use super::{
    Legacy, PATIENCE, Served, command, control::wait_for_status, fixture, fixture_path, follow, kill, wait_until_gone,
};
use crate::harness::{Folder, json as json_of};

/// Gateways that share a state folder.
struct Place(Folder);

impl Place {
    fn new(test: &str) -> Self {
        Self(Folder::new(&format!("status-{test}")))
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn running(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("running")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    fn config(&self, name: &str, config: &Value) -> String {
        let folder = self.0.path().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("pegboard.json");
        fs::write(&file, config.to_string()).expect("a file");
        file.to_str().expect("a path").to_owned()
    }

    async fn serve(&self, name: &str, config: &Value) -> Served {
        let file = self.config(name, config);
        let state = self.state();
        let folder = self.0.path().join(name);
        Served::spawn(folder, &[&file, "--state", state.to_str().expect("a path")], "127.0.0.1:0").await
    }

    fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = command();
        command.env("PEGBOARD_STATE", self.state()).env_remove("XDG_RUNTIME_DIR").arg("status").args(args);
        command.current_dir(self.0.path());
        command
    }

    async fn status(&self, args: &[&str]) -> Output {
        self.command(args).output().await.expect("it runs")
    }
}

fn split_output(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn one() -> Value {
    json!({"mcpServers": {"one": fixture(&["--extras"])}})
}

fn is_ready(status: &Value) -> bool {
    status["servers"][0]["state"] == "ready"
}

#[tokio::test]
async fn the_gateway_that_runs_is_found() {
    let place = Place::new("found");
    let nobody = place.config("nobody", &json!({"pegboard": {"listen": "127.0.0.1:1"}}));
    let (code, out, error) = split_output(&place.status(&[&nobody]).await);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(error.contains("http://127.0.0.1:1: no gateway answers") && error.contains("hint: "), "{error}");
    assert_eq!(error.matches("caused by: ").count(), 1, "{error}");

    let served = place.serve("one", &one()).await;
    wait_for_status(&served, None, is_ready).await;
    let (code, out, error) = split_output(&place.status(&[]).await);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    for part in [served.url.as_str(), "one/pegboard.json", "SERVER", "1 server (1 ready)", "tokens saved"] {
        assert!(out.contains(part), "no `{part}` in:\n{out}");
    }
    let url = served.url.replace("/mcp", "");
    for args in [&["--json"][..], &["--json", "--url", &url], &["--json", "--url", &served.url]] {
        let output = place.status(args).await;
        assert_eq!(json_of(&output)["servers"][0]["state"], "ready", "{args:?}");
    }
    // Another configuration is another gateway.
    assert_eq!(place.status(&[&nobody]).await.status.code(), Some(1));

    let broken = json!({"mcpServers": {"broken": {"command": "/nowhere/to/be/found"}}});
    let mut second = place.serve("two", &broken).await;
    wait_for_status(&second, None, |status| status["servers"][0]["state"] == "failed").await;
    let (code, out, error) = split_output(&place.status(&[]).await);
    assert_eq!((code, out.lines().count()), (Some(1), 4), "{out}");
    assert!(out.contains(&url) && out.contains("1 failed") && error.contains("--url"), "{out}{error}");
    let both = place.status(&["--json"]).await;
    assert_eq!(json_of(&both)["gateways"].as_array().map(Vec::len), Some(2));
    assert_eq!(place.status(&["--watch"]).await.status.code(), Some(2));
    let (code, out, _) = split_output(&place.status(&["two/pegboard.json"]).await);
    assert!(code == Some(1) && out.contains("/nowhere/to/be/found") && out.contains("retry"), "{out}");

    // Those that crash are forgotten.
    let pid = second.pid();
    second.signal("KILL");
    second.wait_for_exit().await;
    wait_until_gone(pid).await;
    assert_eq!(place.running().len(), 2);
    assert_eq!(json_of(&place.status(&["--json"]).await)["gateway"]["pid"], served.pid());
    assert_eq!(place.running().len(), 1);
    let mut served = served;
    served.signal("TERM");
    served.wait_for_exit().await;
    assert_eq!(place.running(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn tokens_come_from_files() {
    let place = Place::new("tokens");
    let config = json!({
        "mcpServers": {"one": fixture(&["--extras"]), "two": fixture(&[])},
        "pegboard": {"tokens": [
            {"name": "bob", "token": "secret-token-of-bob", "selection": {"servers": ["one"]}},
            {"name": "ann", "token": "secret-token-of-ann"}
        ]}
    });
    let served = place.serve("one", &config).await;
    wait_for_status(&served, Some("secret-token-of-ann"), is_ready).await;
    let servers = |output: &Output| json_of(output)["servers"].as_array().map(Vec::len);
    assert_eq!(servers(&place.status(&["--json"]).await), Some(2), "the one that shows most");
    place.0.file("bob", "secret-token-of-bob\n").file("eve", "secret-token-of-eve").file("none", " \n");
    assert_eq!(servers(&place.status(&["--json", "--token-file", "bob"]).await), Some(1));
    let (code, _, error) = split_output(&place.status(&["--token-file", "eve"]).await);
    assert!(code == Some(2) && error.contains("a token is required") && !error.contains("secret-"), "{error}");
    assert_eq!(place.status(&["--token-file", "none"]).await.status.code(), Some(2));
    let given =
        place.command(&["--json"]).env("PEGBOARD_TOKEN", "secret-token-of-bob").output().await.expect("it runs");
    assert_eq!(servers(&given), Some(1));
}

#[tokio::test]
async fn one_on_a_pipe_has_a_socket() {
    let place = Place::new("pipe");
    let file = place.config("one", &one());
    let runtime = place.0.path().join("run");
    fs::create_dir(&runtime).expect("a folder");
    for is_usual in [false, true] {
        let mut command = command();
        command.env("PEGBOARD_STATE", place.state()).env_remove("XDG_RUNTIME_DIR");
        if is_usual {
            command.env("XDG_RUNTIME_DIR", &runtime);
        }
        command.args(["serve", "--stdio", "-v", &file]).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let log = follow(child.stderr.take().expect("a pipe"));
        let is_there = |log: &String| log.contains("server ready");
        tokio::time::timeout(PATIENCE, log.clone().wait_for(is_there)).await.expect("in time").expect("a log");
        let folder = if is_usual { runtime.join("pegboard") } else { place.state().join("running") };
        let socket = folder.join(format!("{}.sock", child.id().expect("it runs")));
        check_private(&socket);
        let output = place.status(&["--json"]).await;
        let status = json_of(&output);
        assert_eq!((output.status.code(), &status["servers"][0]["name"]), (Some(0), &json!("one")));
        assert_eq!(status["gateway"]["endpoint"], Value::Null);
        let (_, out, _) = split_output(&place.status(&["--socket", socket.to_str().expect("a path")]).await);
        assert!(out.contains("stdio"), "{out}");
        drop(child.stdin.take());
        tokio::time::timeout(PATIENCE, child.wait()).await.expect("in time").expect("it ends");
        assert!(!socket.exists() && place.running().is_empty());
    }
}

#[cfg(unix)]
fn check_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode(path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
}

#[tokio::test]
async fn watching_without_a_terminal() {
    let place = Place::new("watch");
    let served = place.serve("one", &one()).await;
    let status = wait_for_status(&served, None, is_ready).await;
    let mut watching =
        place.command(&["--watch"]).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let lines = follow(watching.stdout.take().expect("a pipe"));
    let seen = async |text: &str| {
        let has = |lines: &String| lines.contains(text);
        let mut lines = lines.clone();
        let found = tokio::time::timeout(PATIENCE, lines.wait_for(has)).await.map(|found| found.is_ok());
        assert!(found == Ok(true), "no `{text}` in:\n{}", lines.borrow().as_str());
    };
    seen("one: ready, ").await;
    // Once a second is too rare to see every restart; one that does not come back is seen.
    let file = served.folder.join("pegboard.json");
    let broken = json!({"mcpServers": {"one": {"command": "/nowhere/to/be/found"}}});
    fs::write(&file, broken.to_string()).expect("a file");
    seen("one: failed, ").await;
    fs::write(&file, "{").expect("a file");
    seen("configuration: file rejected, previous one in use").await;
    fs::write(&file, one().to_string()).expect("a file");
    seen("configuration: file accepted").await;
    assert!(status["servers"][0]["pid"].is_u64());
    kill(watching.id().expect("it runs"), "INT");
    let ended = tokio::time::timeout(PATIENCE, watching.wait()).await.expect("in time").expect("it ends");
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn watching_on_a_terminal() {
    const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/agent/cli/terminal.py");
    let place = Place::new("screen");
    let config = json!({"mcpServers": {"one": {"command": fixture_path(), "args": ["--extras"]}}});
    let served = place.serve("one", &config).await;
    wait_for_status(&served, None, is_ready).await;
    let _session = Legacy::begin(&served.url, "evil\u{1b}[31mclient", json!({})).await;
    let steps = json!([["1 session", null], ["SERVER", "\u{3}"]]).to_string();
    let mut command = tokio::process::Command::new("python3");
    command.args([DRIVER, &steps, env!("CARGO_BIN_EXE_pegboard"), "status", "--watch"]);
    command
        .env("PEGBOARD_STATE", place.state())
        .env("TERM", "xterm")
        .env_remove("PEGBOARD_CONFIG")
        .env_remove("NO_COLOR");
    let output = command.output().await.expect("Python runs");
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", split_output(&output).2));
    assert_eq!((&seen["code"], &seen["left"]), (&json!(0), &json!([])), "{seen}");
    let raw = seen["raw"].as_str().expect("a text");
    let (begin, end) = (raw.find("\u{1b}[?1049h"), raw.rfind("\u{1b}[?25h\u{1b}[?1049l"));
    assert!(begin.is_some() && begin < end, "{raw:?}");
    assert!(raw.contains("evil") && !raw.contains("\u{1b}[31mclient"), "{raw:?}");
}
