//! `serve --stdio`, and the demo. The messages are tested in `pegboard-gateway`.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use super::{PATIENCE, Served, command, fixture, names, text};

/// A running `pegboard serve --stdio`.
struct Piped {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Piped {
    fn start(test: &str, config: Option<&Value>) -> Self {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pipe-{test}"));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let file = folder.join("pegboard.json");
        let mut command = command();
        command.args(["serve", "--stdio"]);
        if let Some(config) = config {
            std::fs::write(&file, config.to_string()).expect("a temporary file");
            command.arg(&file);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().expect("the binary starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, input, output }
    }

    async fn send(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await.expect("in time").expect("a line");
        serde_json::from_str(&line.expect("a line")).expect("JSON")
    }

    /// Sends a request, and returns the answer and the messages before it.
    async fn request(&mut self, id: Value, method: &str, params: Value) -> (Value, Vec<Value>) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        let mut before = Vec::new();
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                return (message, before);
            }
            before.push(message);
        }
    }
}

#[tokio::test]
async fn a_pipe_that_ends_is_answered_first() {
    let config = json!({"mcpServers": {"fixture": fixture(&["--extras"])}, "pegboard": {"exposure": "never"}});
    let mut pipe = Piped::start("ends", Some(&config));
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    pipe.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string()).await;
    pipe.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    pipe.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#).await;
    drop(pipe.input);
    let mut ids = Vec::new();
    while let Some(line) = pipe.output.next_line().await.expect("a line") {
        ids.push(serde_json::from_str::<Value>(&line).expect("JSON")["id"].clone());
    }
    assert_eq!(ids, [1, 2]);
    let status = tokio::time::timeout(PATIENCE, pipe.child.wait()).await.expect("it ends").expect("a status");
    assert!(status.success());
}

/// Node passes on streams like this after reading from them itself.
#[cfg(unix)]
#[tokio::test]
async fn an_input_that_does_not_block_is_waited_for() {
    use rustix::fs::{OFlags, fcntl_setfl};
    let (reader, writer) = std::io::pipe().expect("a pipe");
    fcntl_setfl(&reader, OFlags::NONBLOCK).expect("a flag");
    let mut command = command();
    command.args(["serve", "--stdio", "--demo"]).stdin(reader).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("it starts");
    // The parent's copy of the reading end goes with the command.
    drop(command);
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    std::io::Write::write_all(&mut &writer, ping.as_bytes()).expect("it is sent");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let answer = tokio::time::timeout(PATIENCE, output.next_line()).await.expect("in time").expect("a line");
    assert!(answer.is_some_and(|line| line.contains("\"id\":1")));
    drop(writer);
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.expect("in time").expect("a status");
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn the_demo_answers() {
    let served = Served::demo("demo").await;
    let session = served.legacy().await;
    let listed = names(&session.request("tools/list", json!({})).await, "tools");
    assert_eq!(listed, ["search_tools", "call_tool"]);
    let found = text(&session.call("search_tools", json!({"query": "open a bug report"})).await);
    assert!(found.contains("github___create_issue("), "{found}");
    let issue = json!({"owner": "acme", "repo": "web", "title": "The door squeaks"});
    let created = session.call("call_tool", json!({"name": "github___create_issue", "arguments": issue})).await;
    assert_ne!(created.result()["isError"], true, "{created:?}");
    let list = json!({"name": "github___list_issues", "arguments": {"owner": "acme", "repo": "web"}});
    assert!(text(&session.call("call_tool", list).await).contains("The door squeaks"));
}

#[tokio::test]
async fn a_catalog_of_running_servers_can_be_searched() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("catalog-of-servers");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let config = json!({"mcpServers": {
        "good": fixture(&["--extras"]),
        "off": {"command": "whatever", "disabled": true},
        "bad": {"command": "no-such-program-anywhere"}
    }});
    std::fs::write(folder.join("pegboard.json"), config.to_string()).expect("a temporary file");
    let run = async |args: &[&str]| command().args(args).current_dir(&folder).output().await.expect("it runs");
    let found = run(&["catalog", "pegboard.json", "--log-level", "error"]).await;
    assert_eq!(found.status.code(), Some(1), "a server did not start");
    let told = String::from_utf8_lossy(&found.stderr);
    assert!(told.contains("server `bad`") && told.contains("install the program"), "{told}");
    let lines: Vec<Value> =
        String::from_utf8_lossy(&found.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.len() > 20 && lines.iter().all(|tool| tool["server"] == "good"));
    std::fs::write(folder.join("tools.jsonl"), &found.stdout).expect("a temporary file");
    let search = run(&["search", "echo", "--catalog", "tools.jsonl", "--limit", "1"]).await;
    let hits: Value = serde_json::from_slice(&search.stdout).expect("JSON");
    assert_eq!(hits["hits"][0]["id"], "good/echo");
}

#[tokio::test]
async fn a_pipe_that_stays_open_does_not_keep_us() {
    let mut pipe = Piped::start("stays", None);
    let meta = super::client::modern_meta(&json!({}));
    pipe.request(json!(1), "tools/list", json!({"_meta": meta})).await;
    super::kill(pipe.child.id().expect("it runs"), "TERM");
    let status = tokio::time::timeout(PATIENCE, pipe.child.wait()).await.expect("it ends").expect("a status");
    assert!(status.success());
}

#[tokio::test]
async fn what_cannot_be_logged_or_served_is_said() {
    let told = async |args: &[&str]| {
        let output = command().args(args).output().await.expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let level = told(&["serve", "--log-level", "nonsense"]).await;
    assert!(level.contains("`nonsense` is not a log level"), "{level}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let port = told(&["serve", "--listen", &address]).await;
    assert_eq!(port.matches("cannot listen").count(), 1, "{port}");
    assert!(port.contains("another program uses this port"), "{port}");
}

#[tokio::test]
async fn calls_that_outlast_the_shutdown_deadline_are_cut() {
    let expected =
        "server `fixture`: the gateway is shutting down; the call was interrupted and may or may not have taken effect";
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--extras"])},
        "pegboard": {"exposure": "never", "shutdownDeadline": "100ms"}
    });
    // On a pipe.
    let mut pipe = Piped::start("cut", Some(&config));
    let meta = super::client::modern_meta(&json!({}));
    pipe.request(json!(1), "tools/list", json!({"_meta": meta})).await;
    let params = json!({"name": "slow", "arguments": {"ms": 600_000}, "_meta": meta});
    pipe.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).to_string()).await;
    // A call is running once a later request is answered.
    pipe.request(json!(3), "tools/list", json!({"_meta": meta})).await;
    super::kill(pipe.child.id().expect("it runs"), "TERM");
    let cut = pipe.next().await;
    assert_eq!((&cut["id"], &cut["error"]["message"]), (&json!(2), &json!(expected)));
    // Over HTTP.
    let mut served = Served::start("cut", &config).await;
    let call = served.modern("tools/call", json!({"name": "slow", "arguments": {"ms": 600_000}}));
    let stopped = async {
        served.wait_for_log("slow: started").await;
        served.signal("TERM");
    };
    let (cut, ()) = tokio::join!(call, stopped);
    assert_eq!(cut.error(), (-32603, expected.to_owned()));
    served.wait_for_log("call interrupted by shutdown").await;
    served.wait_for_exit().await;
    assert_eq!(served.log().matches("call interrupted by shutdown").count(), 1, "{}", served.log());
}

#[tokio::test]
async fn a_second_signal_cuts_calls_at_once() {
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--extras"])},
        "pegboard": {"exposure": "never", "shutdownDeadline": "1h"}
    });
    let mut served = Served::start("second-signal", &config).await;
    let call = served.modern("tools/call", json!({"name": "slow", "arguments": {"ms": 600_000}}));
    let stopped = async {
        served.wait_for_log("slow: started").await;
        served.signal("TERM");
        served.wait_for_log("for running calls (1)").await;
        served.signal("TERM");
    };
    let (cut, ()) = tokio::join!(call, stopped);
    assert_eq!(cut.error().0, -32603);
    served.wait_for_exit().await;
}
