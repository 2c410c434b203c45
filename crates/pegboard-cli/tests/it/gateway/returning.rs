//! Clients that resume their session in another process. The saved state is tested in
//! `pegboard-gateway`.

use std::fs;

use serde_json::{Value, json};

use super::{
    Legacy, fixture, names,
    starting::{Stage, end},
};

fn config(section: Value) -> Value {
    let mut section = section;
    section["exposure"] = "always".into();
    json!({"mcpServers": {"one": fixture(&["--extras"]), "two": fixture(&["--tools", "30"])}, "pegboard": section})
}

async fn listed(session: &Legacy) -> Vec<String> {
    names(&session.request("tools/list", json!({})).await, "tools")
}

/// Loads a tool.
async fn load(session: &Legacy) {
    let reply = session.call("add_tool", json!({"tool_names": ["one___echo"]})).await;
    assert_ne!(reply.result()["isError"], true, "{reply:?}");
}

#[tokio::test]
async fn a_session_goes_on_after_a_restart_and_after_a_crash() {
    let stage = Stage::new("back");
    let settings = config(json!({"dialect": "explicit"}));
    let served = stage.serve(&settings).await;
    let session = served.legacy().await;
    load(&session).await;
    let loaded = listed(&session).await;
    end(served).await;
    let mut served = stage.serve(&settings).await;
    let session = session.moved_to(&served.url);
    assert_eq!(listed(&session).await, loaded, "after a restart");
    served.signal("KILL");
    served.wait_for_exit().await;
    let served = stage.serve(&settings).await;
    let session = session.moved_to(&served.url);
    assert_eq!(listed(&session).await, loaded, "after a crash");
    assert_eq!(session.call("one___echo", json!({"message": "x"})).await.status, 200);
}

#[tokio::test]
async fn a_full_disk_costs_the_memory_of_conversations_and_nothing_else() {
    let stage = Stage::new("back-full");
    let limits = config(json!({"dialect": "explicit"}));
    let file = stage.state().with_file_name("pegboard.json");
    fs::write(&file, limits.to_string()).expect("a file");
    // Nothing may grow beyond one byte: what a full disk is to a program.
    let script = format!(
        "trap '' XFSZ; ulimit -f 0; exec '{}' serve '{}' --listen 127.0.0.1:0 --state '{}'",
        env!("CARGO_BIN_EXE_pegboard"),
        file.display(),
        stage.state().display()
    );
    let mut child = tokio::process::Command::new("/bin/bash")
        .args(["-c", &script])
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let log = super::follow(child.stderr.take().expect("a pipe"));
    let mut following = log.clone();
    let listens = following.wait_for(|log| log.contains("listening on "));
    let text = tokio::time::timeout(super::PATIENCE, listens).await.expect("in time").expect("a log").clone();
    let url = text.split("listening on ").nth(1).and_then(|rest| rest.lines().next()).expect("an address").to_owned();
    let session = Legacy::begin(&url, "test", json!({})).await;
    load(&session).await;
    assert!(listed(&session).await.contains(&"one___echo".to_owned()));
    assert_eq!(session.call("one___echo", json!({"message": "x"})).await.status, 200);
    let log = log.borrow().clone();
    assert!(log.contains("cannot save sessions"), "{log}");
    super::kill(child.id().expect("it runs"), "TERM");
    child.wait().await.expect("it ends");
}
