//! Commands that start servers themselves, or ask a gateway that does not work.

use std::{fs, process::Stdio, time::Duration};

use serde_json::{Value, json};

use super::{
    PATIENCE, Served, fixture,
    verbs::{Place, one, split_output},
};

/// Returns the fixture beside a server that never becomes ready and creates a file when it is
/// started.
fn with_slow(place: &Place) -> (Value, std::path::PathBuf) {
    let started = place.0.path().join("slow-was-started");
    let slow = json!({"command": "sh", "args": ["-c", "touch \"$0\"; exec sleep 60", started]});
    (json!({"mcpServers": {"toy": fixture(&["--extras"]), "slow": slow}, "pegboard": {"startupWait": 1}}), started)
}

#[tokio::test]
async fn a_gateway_does_not_start_itself() {
    let place = Place::new("itself");
    let program = env!("CARGO_BIN_EXE_pegboard");
    let script = format!("exec {program} serve --stdio pegboard.json");
    place.configure(&json!({"mcpServers": {
        "me": {"command": program, "args": ["serve", "--stdio", "pegboard.json"]},
        "wrapped": {"command": "sh", "args": ["-c", script]},
        "toy": fixture(&["--extras"]),
    }}));
    place.check(&["trust"], 0, "", "").await;
    let (code, out, error) = place.run(&["tools"]).await;
    assert!(code == Some(0) && out.contains("toy___echo"), "{out}{error}");
    for name in ["me", "wrapped"] {
        let warning = format!("server `{name}`: the server is Pegboard itself with the same configuration");
        assert!(error.contains(&warning), "{error}");
    }
    place.check(&["add", "again", "--", "pegboard", "serve", "--stdio"], 2, "", "was not added").await;
    // Under any name, a chain of gateways ends.
    for args in [&["serve", "--stdio"][..], &["tools"], &["catalog"]] {
        let run = place.command(args).env("PEGBOARD_DEPTH", "3").output().await;
        let (code, _, error) = split_output(&run.expect("it runs"));
        assert!(code == Some(2) && error.contains("have started one another"), "{args:?}: {error}");
    }
    let run = place.command(&["call", "toy:echo", "a=1"]).env("PEGBOARD_DEPTH", "2").output().await;
    assert_eq!(split_output(&run.expect("it runs")).0, Some(0));
}

#[tokio::test]
async fn cached_tools_are_not_reported_as_missing() {
    let place = Place::new("cached");
    place.configure(&one());
    place.check(&["trust"], 0, "", "").await;
    for _ in 0..3 {
        let (code, out, error) = place.run(&["tools"]).await;
        assert!(code == Some(0) && out.contains("echo") && !error.contains("warning"), "{error}");
    }
}

#[tokio::test]
async fn only_the_server_of_the_tool_is_started() {
    let place = Place::new("only");
    let (config, started) = with_slow(&place);
    place.configure(&config);
    place.check(&["trust"], 0, "", "").await;
    for name in ["toy___echo", "toy:echo", "mcp__toy__echo", "echo"] {
        let (code, out, error) = place.run(&["call", name, "a=1"]).await;
        assert!(code == Some(0) && out.contains(r#"{"a":1}"#), "{name}: {error}");
        assert!(!error.contains("slow") && !started.exists(), "{name}: {error}");
    }
    // The tool lists of the doctor are cached.
    let place = Place::new("after-doctor");
    let (config, started) = with_slow(&place);
    place.configure(&config);
    place.check(&["trust"], 0, "", "").await;
    place.check(&["doctor", "--server", "toy"], 0, "", "").await;
    place.check(&["call", "echo", "a=1"], 0, r#"{"a":1}"#, "").await;
    assert!(!started.exists());
}

#[tokio::test]
async fn the_tools_of_the_gateway_get_their_arguments() {
    let place = Place::new("own-tools");
    place.check(&["call", "search_tools", "query=overdue invoices", "--demo"], 0, "payments", "").await;
    let call = r#"{"name": "payments___ListInvoices", "arguments": {}}"#;
    let (code, _, error) = place.run(&["call", "call_tool", call, "--demo"]).await;
    assert!(code != Some(2) && !error.contains("is required"), "{error}");
}

#[tokio::test]
async fn a_gateway_that_refuses_connections_does_not_run() {
    let place = Place::new("refused");
    place.configure(&one());
    place.check(&["trust"], 0, "", "").await;
    let file = place.project().join("pegboard.json").canonicalize().expect("a path");
    let running = std::path::Path::new(&place.state()).join("running");
    fs::create_dir_all(&running).expect("folders");
    // This process runs, and listens nowhere.
    let pid = std::process::id();
    let entry = json!({"pid": pid, "endpoint": "http://127.0.0.1:1/mcp", "socket": null, "configuration": file});
    fs::write(running.join(format!("{pid}.json")), entry.to_string()).expect("a file");
    place.check(&["tools"], 0, "echo", "").await;
    place.check(&["call", "echo", "a=1"], 0, r#"{"a":1}"#, "").await;
    place.check(&["search", "echo"], 0, "echo", "").await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_gateway_that_was_killed_does_not_run() {
    let place = Place::new("zombie");
    place.configure(&one());
    place.check(&["trust"], 0, "", "").await;
    let file = place.project().join("pegboard.json").canonicalize().expect("a path");
    let running = std::path::Path::new(&place.state()).join("running");
    fs::create_dir_all(&running).expect("folders");
    // The exit code is not collected, so it stays a zombie.
    let ended = std::process::Command::new("true").spawn().expect("it starts");
    let pid = ended.id();
    let entry = json!({"pid": pid, "endpoint": "http://127.0.0.1:1/mcp", "socket": null, "configuration": file});
    fs::write(running.join(format!("{pid}.json")), entry.to_string()).expect("a file");
    tokio::time::sleep(Duration::from_millis(200)).await;
    place.check(&["tools"], 0, "echo", "").await;
    assert!(!running.join(format!("{pid}.json")).exists());
    drop(ended);
}

#[tokio::test]
async fn a_call_that_was_cut_may_have_run() {
    let place = Place::new("cut");
    place.configure(&one());
    let file = place.project().join("pegboard.json");
    let mut served = Served::start_in(place.project(), &file, std::path::Path::new(&place.state())).await;
    let mut call = place.command(&["call", "slow", "ms=60000"]);
    let call = call.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let is_running = async {
        loop {
            let (_, status, _) = place.run(&["status", "--format", "json"]).await;
            let status: Value = serde_json::from_str(&status).unwrap_or_default();
            if status["servers"][0]["calls"]["running"] == 1 {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, is_running).await.expect("the call arrives");
    served.signal("KILL");
    let _ = served.wait_for_exit().await;
    let (code, _, error) = split_output(&call.wait_with_output().await.expect("it ends"));
    assert!(code == Some(1) && error.contains("the tool may have run"), "{code:?} {error}");
}

#[tokio::test]
async fn a_server_that_does_not_start_was_not_called() {
    let place = Place::new("not-called");
    let broken = place.0.path().join("broken");
    let script = "test -e \"$0\" && exit 3; exec \"$@\"";
    let toy = json!({"command": "sh", "args": ["-c", script, broken, super::fixture_path(), "--extras"]});
    place.configure(&json!({"mcpServers": {"toy": toy}}));
    place.check(&["trust"], 0, "", "").await;
    place.check(&["call", "echo", "a=1"], 0, r#"{"a":1}"#, "").await;
    fs::write(&broken, "").expect("a file");
    let (code, _, error) = place.run(&["call", "echo", "a=1"]).await;
    assert!(code == Some(2) && error.contains("`echo` was not called: server `toy`"), "{code:?} {error}");
}

#[tokio::test]
async fn a_running_gateway_is_asked_while_its_file_is_broken() {
    let place = Place::new("broken-file");
    place.configure(&one());
    let file = place.project().join("pegboard.json");
    let _served = Served::start_in(place.project(), &file, std::path::Path::new(&place.state())).await;
    fs::write(&file, "{\"mcpServers\": {").expect("a file");
    let warning = "still has its previous configuration";
    for (args, out) in [
        (&["tools", "--config", "pegboard.json"][..], "echo"),
        (&["call", "echo", "a=1", "--config", "pegboard.json"], r#"{"a":1}"#),
    ] {
        place.check(args, 0, out, warning).await;
    }
    place.check(&["status", "--config", "pegboard.json"], 0, "toy", "").await;
}

#[tokio::test]
async fn a_secret_argument_is_hidden() {
    let place = Place::new("secret-argument");
    let secret = "hunter2-hunter2";
    let script = "echo \"bad key $1 $2\" >&2; exit 1";
    let server = json!({"command": "sh", "args": ["-c", script, "server", "--api-key", secret]});
    place.configure(&json!({"mcpServers": {"keyed": server}}));
    place.check(&["trust"], 0, "", "").await;
    for args in [&["tools"][..], &["doctor"], &["catalog"]] {
        let (_, out, error) = place.run(args).await;
        let all = format!("{out}{error}");
        assert!(all.contains("[hidden]") && !all.contains(secret), "{args:?}: {all}");
    }
    let file = place.project().join("pegboard.json");
    let served = Served::start_in(place.project(), &file, std::path::Path::new(&place.state())).await;
    served.wait_for_log("bad key --api-key [hidden]").await;
    for args in [&["status"][..], &["logs", "-n", "1000"]] {
        let (_, out, error) = place.run(args).await;
        assert!(!format!("{out}{error}").contains(secret), "{args:?}: {out}{error}");
    }
}

#[tokio::test]
async fn what_tools_says_when_it_shows_none() {
    let place = Place::new("none-shown");
    place.check(&["tools", "--demo", ""], 2, "", "the query is blank").await;
    place.check(&["tools", "--demo", "--server", "map"], 2, "", "maps").await;
    place.check(&["tools", "--demo", "--server", "nothing-like-it"], 2, "", "servers with tools: ").await;
    place.check(&["tools", "--demo", "zzqq vvxx"], 1, "", "no tool matches `zzqq vvxx`").await;
    place.check(&["tools", "--demo", "ListInvoices"], 0, "PARAMETER", "").await;
    place.check(&["tools", "--demo", "payments:list_invoices"], 0, "PARAMETER", "").await;
}

#[tokio::test]
async fn files_that_are_not_trusted_are_marked() {
    let place = Place::new("marked");
    place.configure(&one());
    place.check(&["add", "other", "--", "echo"], 0, "", "`pegboard trust`").await;
    place.check(&["trust"], 0, "", "").await;
    let (_, listed, _) = place.run(&["trust", "--list"]).await;
    assert!(listed.trim_end().ends_with("pegboard.json"), "{listed}");
    place.configure(&json!({}));
    place.check(&["trust", "--list"], 0, "pegboard.json (changed)", "").await;
    place.check(&["trust", "--list", "--format", "json"], 0, r#""state": "changed""#, "").await;
}

#[tokio::test]
async fn a_configuration_can_be_named_by_a_flag() {
    let place = Place::new("flag");
    place.configure(&one());
    for command in ["login", "logout"] {
        place.check(&[command, "nobody", "--config", "pegboard.json"], 2, "", "no server `nobody`").await;
        place.check(&[command, "nobody", "--config", "absent.json"], 2, "", "no configuration file").await;
    }
}
