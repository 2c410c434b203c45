//! Clocks that jump: after a manual change, a suspended machine, or an empty battery.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::json;

use super::{Legacy, PATIENCE, fixture, names, starting::Stage};

/// Returns the library that changes the time of a program; without it this is skipped with a
/// message.
#[expect(clippy::print_stderr, reason = "the developer must see what was left out")]
fn library() -> Option<PathBuf> {
    let path = "../../.tools/faketime/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if library.exists() {
        return Some(library);
    }
    eprintln!("SKIPPED: no libfaketime here; `cargo xtask peers` installs it");
    None
}

#[tokio::test]
async fn nothing_is_lost_when_the_clock_jumps() {
    let Some(library) = library() else { return };
    let stage = Stage::new("clocks");
    let config = json!({
        "mcpServers": {"one": fixture(&["--extras"])},
        "pegboard": {"exposure": "always", "dialect": "explicit", "prefix": "always", "sessionIdle": "1h"}
    });
    let file = stage.state().with_file_name("pegboard.json");
    fs::write(&file, config.to_string()).expect("a file");
    let clock = stage.state().with_file_name("clock");
    fs::write(&clock, "+0").expect("a file");
    let mut child = super::command()
        .arg("serve")
        .arg(&file)
        .args(["--listen", "127.0.0.1:0", "--state"])
        .arg(stage.state())
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", &clock)
        .env("FAKETIME_NO_CACHE", "1")
        // Monotonic durations do not jump.
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let log = super::follow(child.stderr.take().expect("a pipe"));
    let mut following = log.clone();
    let listens = following.wait_for(|log| log.contains("listening on "));
    let text = tokio::time::timeout(PATIENCE, listens).await.expect("in time").expect("a log").clone();
    let url = text.split("listening on ").nth(1).and_then(|rest| rest.lines().next()).expect("an address").to_owned();
    let session = Legacy::begin(&url, "test", json!({})).await;
    let mut loaded = Vec::new();
    // A year ahead, back beyond the start, to 1971, to the last days of 32 bits, and home.
    for (at, jump) in ["+365d", "-30d", "@1971-01-01 00:00:00", "@2038-01-19 03:14:06", "+0"].iter().enumerate() {
        fs::write(&clock, jump).expect("a file");
        let name = format!("one___{}", ["echo", "slow", "large", "change_tools", "update_resource"][at]);
        let added = session.call("add_tool", json!({"tool_names": [name]})).await;
        assert_ne!(added.result()["isError"], true, "{jump}: {added:?}");
        loaded.push(name);
        let listed = names(&session.request("tools/list", json!({})).await, "tools");
        assert!(loaded.iter().all(|name| listed.contains(name)), "{jump}: {listed:?}");
        let echo = session.call("one___echo", json!({"message": jump})).await;
        assert!(super::text(&echo).contains(jump), "{jump}: {echo:?}");
        let fresh = Legacy::begin(&url, "another", json!({})).await;
        assert!(!names(&fresh.request("tools/list", json!({})).await, "tools").is_empty(), "{jump}");
    }
    super::kill(child.id().expect("it runs"), "TERM");
    assert!(child.wait().await.expect("it ends").success());
    let log = log.borrow().clone();
    assert!(log.contains("1971-01-01T") && log.contains("2038-01-19T"), "the clock did not jump: {log}");
    // The next run has the right time, and finds what was written at all the others.
    let served = stage.serve(&config).await;
    let session = session.moved_to(&served.url);
    let listed = names(&session.request("tools/list", json!({})).await, "tools");
    assert!(loaded.iter().all(|name| listed.contains(name)), "{listed:?}");
}
