//! Commands that find their configuration, with and without a running gateway.

use std::{
    fs,
    path::PathBuf,
    process::{Output, Stdio},
};

use serde_json::{Value, json};

use super::{PATIENCE, Served, command, fixture, follow};
use crate::harness::{Folder, json as json_of};

/// A home folder with a project.
pub(super) struct Place(pub(super) Folder);

impl Place {
    pub(super) fn new(test: &str) -> Self {
        let place = Self(Folder::new(&format!("verbs-{test}")));
        fs::create_dir_all(place.project()).expect("a folder");
        place
    }

    pub(super) fn project(&self) -> PathBuf {
        self.0.path().join("project")
    }

    fn own(&self) -> PathBuf {
        self.0.path().join("settings/pegboard/pegboard.json")
    }

    pub(super) fn configure(&self, config: &Value) {
        fs::write(self.project().join("pegboard.json"), config.to_string()).expect("a file");
    }

    pub(super) fn state(&self) -> String {
        self.0.path().join("state").to_str().expect("a path").to_owned()
    }

    pub(super) fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = command();
        command.env("PEGBOARD_STATE", self.state()).env("XDG_CONFIG_HOME", self.0.path().join("settings"));
        command.env("HOME", self.0.path()).env_remove("XDG_RUNTIME_DIR").env_remove("PEGBOARD_FORMAT");
        command.current_dir(self.project()).args(args).stdin(Stdio::null());
        command
    }

    pub(super) async fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        split_output(&self.command(args).output().await.expect("it runs"))
    }

    pub(super) async fn check(&self, args: &[&str], code: i32, out: &str, err: &str) {
        let (found, stdout, stderr) = self.run(args).await;
        let is_so = found == Some(code) && stdout.contains(out) && stderr.contains(err);
        assert!(is_so, "{args:?}: {found:?}\n--- stdout\n{stdout}--- stderr\n{stderr}");
    }
}

pub(super) fn split_output(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

pub(super) fn one() -> Value {
    json!({"mcpServers": {"toy": fixture(&["--extras"])}})
}

#[tokio::test]
async fn a_file_in_a_folder_starts_nothing_until_it_is_trusted() {
    let place = Place::new("trust");
    let touch = place.0.path().join("touched");
    let program = format!("touch {}", touch.display());
    place.configure(&json!({"mcpServers": {"x": {"command": "sh", "args": ["-c", program]}}}));
    let inner = place.project().join("src/deep");
    fs::create_dir_all(&inner).expect("folders");
    for args in [&["tools"][..], &["call", "x"], &["catalog"], &["serve", "--listen", "127.0.0.1:0"], &["doctor"]] {
        let (code, _, error) = split_output(&place.command(args).current_dir(&inner).output().await.expect("it runs"));
        assert!(code == Some(2) && error.contains("is not trusted") && error.contains("pegboard trust"), "{args:?}");
    }
    let (code, ..) = split_output(&place.command(&["search", "x"]).output().await.expect("it runs"));
    assert_eq!((code, touch.exists()), (Some(2), false), "nothing was started");
    place.check(&["trust"], 0, "", "x: sh -c touch").await;
    place.check(&["trust", "--list"], 0, "project/pegboard.json", "").await;
    place.check(&["tools"], 1, "", "configuration: ").await;
    assert!(touch.exists(), "it is trusted now");
    fs::remove_file(&touch).expect("a file");
    place.configure(&json!({"mcpServers": {"x": {"command": "sh", "args": ["-c", program, "more"]}}}));
    place.check(&["tools"], 2, "", "was changed after you trusted it").await;
    place.check(&["trust", "--remove"], 0, "", "no longer trusted").await;
    place.check(&["trust", "--remove"], 1, "", "was not trusted").await;
    assert!(!touch.exists(), "another content is another file");
    place.check(&["tools", "--config", "pegboard.json"], 1, "", "").await;
    assert!(touch.exists(), "a file that is named is trusted");
}

#[tokio::test]
async fn tools_are_listed_searched_and_called_without_a_gateway() {
    let place = Place::new("alone");
    place.check(&["tools", "overdue invoices"], 0, "payments___", "configuration: the demo").await;
    place.configure(&one());
    place.check(&["trust"], 0, "", "").await;
    place.check(&["tools"], 0, "echo", "configuration: ").await;
    place.check(&["tools", "--demo", "--server", "maps"], 0, "maps___", "").await;
    let (_, listed, _) = place.run(&["tools", "--format", "json"]).await;
    let listed: Vec<Value> = serde_json::from_str(&listed).expect("JSON");
    assert!(listed.iter().any(|tool| tool["name"] == "echo" && tool["inputSchema"].is_object()));
    place.check(&["call", "echo", "a=1", "b=two"], 0, r#"{"a":1,"b":"two"}"#, "").await;
    place.check(&["call", "toy:Echo", r#"{"a": 1.50}"#], 0, "1.50", "").await;
    place.check(&["call", "large"], 2, "", "was not called").await;
    place.check(&["call", "large", "bytes=many"], 2, "", "must be of type integer").await;
    place.check(&["call", "large", "bytes=10"], 0, "", "").await;
    place.check(&["call", "test_error_handling"], 1, "", "the call of `test_error_handling` failed").await;
    place.check(&["call", "ecko"], 2, "", "nearest names: echo").await;
    place.check(&["disable", "nobody"], 2, "", "has no server `nobody`").await;
    let found = place.command(&["search", "returns a text of many lines"]).output().await.expect("it runs");
    assert_eq!(json_of(&found)["hits"][0]["name"], "large");
    let text = place.command(&["search", "returns a text of many lines"]).env("PEGBOARD_FORMAT", "text").output().await;
    assert!(split_output(&text.expect("it runs")).1.starts_with(" SCORE"));
}

#[tokio::test]
async fn a_call_of_a_server_that_does_not_run_names_it() {
    let place = Place::new("broken");
    place.configure(&json!({"mcpServers": {"broken": {"command": "no-such-program-anywhere"}}}));
    place.check(&["trust"], 0, "", "").await;
    let named = "`broken___x` was not called: server `broken` does not run";
    place.check(&["call", "broken___x"], 2, "", named).await;
    let file = place.project().join("pegboard.json");
    let _served = Served::start_in(place.project(), &file, std::path::Path::new(&place.state())).await;
    place.check(&["call", "broken___x"], 2, "", named).await;
}

#[tokio::test]
async fn a_gateway_that_runs_is_asked() {
    let place = Place::new("running");
    place.configure(&one());
    let file = place.project().join("pegboard.json");
    let served = Served::start_in(place.project(), &file, std::path::Path::new(&place.state())).await;
    // Not trusted, and nothing has to be: the user has started it.
    place.check(&["call", "echo", "a=1"], 0, r#"{"a":1}"#, "").await;
    served.wait_for_log("client=\"pegboard\"").await;
    place.check(&["tools", "progress"], 0, "slow", "").await;
    place.check(&["logs", "-n", "1000"], 0, "server=\"toy\"", "").await;
    place.check(&["logs", "nobody"], 2, "", "no server `nobody`").await;
    let (_, status, _) = place.run(&["status", "--format", "json"]).await;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["servers"][0]["calls"]["total"], 1);
    place.check(&["restart", "toy"], 0, "", "restarting `toy`").await;
    place.check(&["restart", "other"], 2, "", "no server `other`").await;
    let (_, status, _) = place.run(&["status", "--format", "json"]).await;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["servers"][0]["calls"]["total"], 1, "a restart keeps the counters");
    let mut following = place.command(&["logs", "-f", "toy"]).stdout(Stdio::piped()).kill_on_drop(true).spawn();
    let lines = follow(following.as_mut().expect("it starts").stdout.take().expect("a pipe"));
    place.check(&["call", "echo", "a=1"], 0, r#"{"a":1}"#, "").await;
    let is_there = |lines: &String| lines.contains("server=\"toy\"");
    tokio::time::timeout(PATIENCE, lines.clone().wait_for(is_there)).await.expect("in time").expect("lines");
}

#[tokio::test]
async fn servers_are_added_switched_and_removed() {
    let place = Place::new("edits");
    place.check(&["add", "a", "--", "echo", "-n"], 0, "", "added `a`").await;
    place.check(&["add", "a", "--", "echo"], 2, "", "already has a server `a`").await;
    place.check(&["add", "b", "https://example.com/mcp", "--header", "X-Key: ${KEY}"], 0, "", "added `b`").await;
    place.check(&["add", "c", "uvx"], 2, "", "pegboard add c -- uvx").await;
    place.check(&["disable", "a"], 0, "", "disabled `a`").await;
    let config: Value = serde_json::from_str(&fs::read_to_string(place.own()).expect("a file")).expect("JSON");
    let expected = json!({
        "a": {"command": "echo", "args": ["-n"], "disabled": true},
        "b": {"url": "https://example.com/mcp", "headers": {"X-Key": "${KEY}"}},
    });
    assert_eq!(config["mcpServers"], expected);
    for verb in ["enable", "disable", "remove"] {
        place.check(&[verb, "x"], 2, "", "has no server `x`").await;
    }
    place.check(&["remove", "b"], 0, "", "removed `b` from ").await;
    place.check(&["add", "e", "-e", "A=b", "--", "echo"], 0, "", "added `e` to ").await;
    // In a project, a change by the user keeps the trust that the file had.
    place.configure(&one());
    place.check(&["trust"], 0, "", "").await;
    place.check(&["disable", "toy"], 0, "", "disabled `toy`").await;
    place.check(&["enable", "toy"], 0, "", "enabled `toy`").await;
    place.check(&["tools"], 0, "echo", "").await;
}

#[tokio::test]
async fn a_client_is_disconnected() {
    let place = Place::new("disconnect");
    place.check(&["add", "a", "--", "echo"], 0, "", "").await;
    place.check(&["disconnect", "cursor"], 1, "", "does not use Pegboard").await;
    fs::create_dir(place.0.path().join(".cursor")).expect("a folder");
    fs::write(place.0.path().join(".cursor/mcp.json"), "{\"mcpServers\": {}}").expect("a file");
    place.check(&["connect", "cursor", "--write"], 0, "", "wrote").await;
    let file = place.0.path().join(".cursor/mcp.json");
    assert!(fs::read_to_string(&file).expect("a file").contains("pegboard"));
    place.check(&["disconnect", "cursor"], 0, "", "removed `pegboard`").await;
    assert!(!fs::read_to_string(&file).expect("a file").contains("pegboard"));
}

#[tokio::test]
async fn a_hook_names_likely_tools() {
    let place = Place::new("hook");
    place.configure(&one());
    place.check(&["trust"], 0, "", "").await;
    place
        .check(&["connect", "claude-code", "--hook", "--http", "http://127.0.0.1:1/mcp"], 2, "", "by its configuration")
        .await;
    place.check(&["connect", "cursor", "--hook"], 2, "", "works only with Claude Code").await;
    place.check(&["connect", "claude-code", "--hook", "--write", "--force"], 0, "", "wrote the hook").await;
    let settings = place.0.path().join(".claude/settings.json");
    let hook: Value = serde_json::from_str(&fs::read_to_string(&settings).expect("a file")).expect("JSON");
    let hook = hook["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"].as_str().expect("a command").to_owned();
    // As the client runs it, with the input that it documents.
    let run = async |prompt: &str| {
        let input = json!({
            "session_id": "s", "transcript_path": "/t.jsonl", "cwd": place.project(), "permission_mode": "default",
            "hook_event_name": "UserPromptSubmit", "prompt": prompt,
        });
        let mut command = place.command(&[]);
        let mut shell = tokio::process::Command::new("sh");
        shell.envs(command.as_std().get_envs().filter_map(|(key, value)| Some((key, value?))));
        shell.args(["-c", &hook]).current_dir(place.project());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command = shell;
        let mut child = command.spawn().expect("it starts");
        let mut pipe = child.stdin.take().expect("a pipe");
        tokio::io::AsyncWriteExt::write_all(&mut pipe, input.to_string().as_bytes()).await.expect("it is sent");
        drop(pipe);
        split_output(&child.wait_with_output().await.expect("it ends"))
    };
    assert_eq!(run("Return a text of many lines").await.0, Some(0), "no gateway runs");
    assert_eq!(run("Return a text of many lines").await.1, "");
    let file = place.project().join("pegboard.json");
    let _served = Served::start_in(place.project(), &file, std::path::Path::new(&place.state())).await;
    let (code, out, _) = run("Return a text of many lines").await;
    let answer: Value = serde_json::from_str(&out).expect("JSON");
    let specific = &answer["hookSpecificOutput"];
    let context = specific["additionalContext"].as_str().unwrap_or_default();
    assert_eq!((code, &specific["hookEventName"]), (Some(0), &json!("UserPromptSubmit")));
    assert!(context.contains("large(bytes: integer)"), "{context}");
    assert!(context.starts_with("Tools of the MCP server `pegboard` that may help; `call_tool`"), "{context}");
    let (_, out, _) = run("Return a text of many lines qqzz").await;
    assert!(out.contains("large(") && !out.contains("no tool matches"), "{out}");
    assert_eq!(run("/compact").await.1, "", "a command of the client");
    assert_eq!(run("zzqq vvxx").await.1, "", "nothing fits");
    place.check(&["disconnect", "claude-code"], 0, "", "settings.json`, which `pegboard connect` created").await;
    assert!(!settings.exists(), "there was nothing else in it");
}

#[tokio::test]
async fn a_file_that_is_not_trusted_sends_nothing_anywhere() {
    let place = Place::new("untrusted");
    let catcher = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    catcher.set_nonblocking(true).expect("a flag");
    let url = format!("http://{}/mcp", catcher.local_addr().expect("an address"));
    let nothing = |what: &str| assert!(catcher.accept().is_err(), "{what} connected");
    place.configure(&json!({"pegboard": {"embeddings": {"url": url, "model": "m", "key": "${HOME}"}}}));
    place.check(&["search", "create an issue"], 2, "", "is not trusted").await;
    nothing("search");
    // A state folder that came with the file and names an attacker's gateway.
    place.configure(&json!({
        "mcpServers": {"a": {"command": "true"}},
        "pegboard": {"stateFolder": "st", "tokens": [{"name": "x", "token": "${PATH}"}]},
    }));
    let file = place.project().join("pegboard.json").canonicalize().expect("a path");
    let running = place.project().join("st/running");
    fs::create_dir_all(&running).expect("folders");
    let entry = json!({"pid": 1, "endpoint": url, "socket": null, "configuration": file});
    fs::write(running.join("1.json"), entry.to_string()).expect("a file");
    for args in [&["tools"][..], &["call", "t"], &["search", "t"], &["session"], &["tokens"], &["login", "a"]] {
        let run = place.command(args).env_remove("PEGBOARD_STATE").env("XDG_STATE_HOME", place.state()).output().await;
        let (code, _, error) = split_output(&run.expect("it runs"));
        assert!(code == Some(2) && error.contains("is not trusted"), "{args:?}: {error}");
        nothing(args[0]);
    }
    place.check(&["connect", "cursor", "--write", "--force"], 2, "", "is not trusted").await;
    place.check(&["trust"], 0, "", "a: true").await;
    place.check(&["connect", "cursor", "--write", "--force"], 0, "", "").await;
    let client = fs::read_to_string(place.0.path().join(".cursor/mcp.json")).expect("a file");
    assert!(client.contains("--check-trust"), "a change must be trusted again: {client}");
}

#[tokio::test]
async fn a_gateway_waits_until_a_change_is_trusted() {
    let place = Place::new("waits");
    place.configure(&one());
    place.check(&["trust"], 0, "", "").await;
    let mut served = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut served = served.stderr(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let log = follow(served.stderr.take().expect("a pipe"));
    let logged = async |text: &str| {
        let waited = tokio::time::timeout(PATIENCE, log.clone().wait_for(|log| log.contains(text))).await.is_ok();
        assert!(waited, "no {text}: {}", *log.borrow());
    };
    logged("1 server ready").await;
    let two = json!({"mcpServers": {"toy": fixture(&["--extras"]), "two": fixture(&[])}});
    place.configure(&two);
    logged("its new content is not trusted").await;
    let (_, status, _) = place.run(&["status", "--json"]).await;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["servers"].as_array().map(Vec::len), Some(1), "{status}");
    place.check(&["trust"], 0, "", "two: ").await;
    logged("added=\"two\"").await;
}

#[tokio::test]
async fn a_gateway_that_runs_has_the_tools_to_check() {
    let place = Place::new("starts");
    let starts = place.0.path().join("starts");
    let script = "echo started >> \"$0\"; exec \"$@\"";
    let toy = json!({"command": "sh", "args": ["-c", script, starts, super::fixture_path(), "--extras"]});
    place.configure(&json!({"mcpServers": {"toy": toy}}));
    place.check(&["trust"], 0, "", "").await;
    let file = place.project().join("pegboard.json");
    let _served = Served::start_in(place.project(), &file, std::path::Path::new(&place.state())).await;
    for (args, code, out) in [
        (&["tokens", "--format", "text"][..], 0, " tools, "),
        (&["lint", "--fail-on", "never", "--format", "text"], 0, ""),
        (&["tools"], 0, "echo"),
    ] {
        place.check(args, code, out, "configuration: ").await;
        assert_eq!(fs::read_to_string(&starts).expect("a file").lines().count(), 1, "{args:?}");
    }
}

#[tokio::test]
async fn an_unset_variable_stops_one_server_only() {
    let place = Place::new("unset");
    let broken = json!({"command": "x", "env": {"KEY": "${PB_NOT_SET}"}});
    let mut config = json!({"mcpServers": {"toy": fixture(&["--extras"]), "broken": broken}});
    place.configure(&config);
    place.check(&["trust"], 0, "", "").await;
    let reason = "needs the environment variable `PB_NOT_SET`, which is not set";
    let warning = format!("server `broken`: `mcpServers.broken.env.KEY` {reason}");
    place.check(&["tools"], 0, "toy___echo", &warning).await;
    // A variable that a call does not need is not checked.
    let (code, _, error) = place.run(&["call", "toy___echo", "a=1"]).await;
    assert!(code == Some(0) && !error.contains("broken"), "{error}");
    place.check(&["search", "echo"], 0, "toy___echo", &warning).await;
    place.check(&["catalog"], 1, "echo", &warning).await;
    place.check(&["login", "broken"], 2, "", reason).await;
    let file = place.project().join("pegboard.json");
    let served = Served::start_in(place.project(), &file, std::path::Path::new(&place.state())).await;
    served.wait_for_log("server not started").await;
    let (_, status, _) = place.run(&["status", "--format", "json"]).await;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let broken = &status["servers"][1];
    assert_eq!((&broken["state"], &broken["retryInMs"]), (&json!("failed"), &Value::Null), "{broken}");
    assert!(broken["reason"].as_str().is_some_and(|text| text.contains("PB_NOT_SET")), "{broken}");
    place.check(&["call", "toy___echo", "a=1"], 0, r#"{"a":1}"#, "").await;
    drop(served);
    // The token that protects the gateway itself is required.
    let place = Place::new("unset-own");
    config["pegboard"] = json!({"tokens": [{"name": "x", "token": "${PB_NOT_SET}"}]});
    place.configure(&config);
    for args in [&["tools", "--config", "pegboard.json"][..], &["serve", "pegboard.json", "--listen", "127.0.0.1:0"]] {
        place.check(args, 2, "", "PB_NOT_SET").await;
    }
}

/// Checks what commands say of `echo`, which is called `parrot` here, and of `large`, which is hidden.
async fn check_renamed(place: &Place) {
    let found = place.command(&["search", "repeat what a parrot hears"]).output().await.expect("it runs");
    assert_eq!(json_of(&found)["hits"][0]["name"], "parrot");
    place.check(&["tools", "parrot"], 0, "Repeats what a parrot hears", "").await;
    place.check(&["call", "parrot", "a=1"], 0, r#"{"a":1}"#, "").await;
    place.check(&["call", "toy:Parrot", "a=1"], 0, r#"{"a":1}"#, "").await;
    place.check(&["call", "echo", "a=1"], 2, "", "nearest names: parrot").await;
    place.check(&["call", "large", "bytes=10"], 2, "", "no tool `large`").await;
    let (_, listed, _) = place.run(&["tools", "--format", "json"]).await;
    let listed: Vec<Value> = serde_json::from_str(&listed).expect("JSON");
    let named = |name: &str| listed.iter().find(|tool| tool["name"] == name);
    assert!(named("parrot").is_some() && named("echo").is_none() && named("large").is_none());
}

#[tokio::test]
async fn commands_know_a_renamed_tool_by_its_new_name() {
    let place = Place::new("renamed");
    let mut toy = fixture(&["--extras"]);
    let parrot = json!({
        "name": "parrot", "description": "Repeats what a parrot hears", "annotations": {"readOnlyHint": true}
    });
    toy["pegboard"] = json!({"tools": {"echo": parrot, "large": {"hidden": true}}});
    place.configure(&json!({"mcpServers": {"toy": toy}}));
    place.check(&["trust"], 0, "", "").await;
    check_renamed(&place).await;
    let (_, catalog, _) = place.run(&["catalog"]).await;
    let tools: Vec<Value> = catalog.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let parrot = tools.iter().find(|tool| tool["name"] == "parrot").expect("the tool");
    let read_only = &parrot["annotations"]["readOnlyHint"];
    assert_eq!((&parrot["id"], &parrot["server"], read_only), (&json!("toy/echo"), &json!("toy"), &json!(true)));
    assert!(!tools.iter().any(|tool| tool["name"] == "echo" || tool["name"] == "large"));
    // The same from a gateway that runs.
    let file = place.project().join("pegboard.json");
    let _served = Served::start_in(place.project(), &file, std::path::Path::new(&place.state())).await;
    check_renamed(&place).await;
}
