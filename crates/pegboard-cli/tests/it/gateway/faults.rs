//! Faulty servers, and all kinds of shutdown.

use serde_json::{Value, json};

use super::{Served, fixture, is_running, kill, names, text, wait_until_gone};

/// Returns the children of a process, by their command line.
pub(super) fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("a process table").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.nth(1).and_then(|parent| parent.parse().ok()) == Some(parent)
    })
    .collect()
}

/// Returns all descendants of a process.
pub(super) fn descendants(root: u32) -> Vec<u32> {
    let mut found = children(root);
    let mut at = 0;
    while at < found.len() {
        found.extend(children(found[at]));
        at += 1;
    }
    found
}

fn config(servers: &Value) -> Value {
    json!({"mcpServers": servers, "pegboard": {"exposure": "never", "startupWait": 60}})
}

#[tokio::test]
async fn bad_servers_do_not_disturb_the_others() {
    let with = |args: &[&str], timeout: u64| {
        let mut server = fixture(args);
        server["connectTimeout"] = timeout.into();
        server
    };
    let servers = json!({
        "good": fixture(&["--extras"]),
        "hangs": with(&["--fault", "hang"], 2),
        "exits": with(&["--fault", "exit"], 2),
        "garbage": fixture(&["--fault", "garbage", "--extras"]),
        "untyped": fixture(&["--fault", "no-type"]),
        "twice": fixture(&["--fault", "duplicates"]),
        "missing": {"command": "no-such-program-anywhere"},
        "huge": fixture(&["--description-bytes", "5000000"]),
        "many": fixture(&["--tools", "10000"])
    });
    let served = Served::start("bad", &config(&servers)).await;
    let session = served.legacy().await;
    let listed = session.request("tools/list", json!({})).await;
    let tools = listed.result()["tools"].as_array().expect("a list").clone();
    let of =
        |server: &str| tools.iter().filter(|tool| tool["name"].as_str().is_some_and(|n| n.starts_with(server))).count();
    assert!(of("good___") > 20 && of("garbage___") > 20 && of("untyped___") > 20 && of("twice___") > 20);
    assert!(of("many___") >= 10_000);
    assert_eq!((of("hangs___"), of("exits___"), of("missing___")), (0, 0, 0));
    assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"), "a schema without a type");
    let longest = tools.iter().map(|tool| tool["description"].as_str().unwrap_or_default().len()).max();
    assert!(longest < Some(70_000), "{longest:?}");
    for server in ["good", "garbage"] {
        let reply = session.call(&format!("{server}___echo"), json!({"message": "still here"})).await;
        assert!(text(&reply).contains("still here"));
    }
    for warning in ["has no `type`", "duplicate `", " bytes; cut to ", "no program `no-such-program-anywhere`"] {
        served.wait_for_log(warning).await;
    }
    let unavailable = session.call("hangs___echo", json!({})).await;
    assert_eq!(unavailable.result()["isError"], true);
}

#[tokio::test]
async fn a_child_killed_in_mid_call_is_an_error_and_comes_back() {
    let served = Served::start("killed", &config(&json!({"fixture": fixture(&["--extras"])}))).await;
    let session = served.legacy().await;
    session.request("tools/list", json!({})).await.result();
    let died = session.call("exit", json!({})).await;
    assert_eq!(died.result()["isError"], true);
    assert!(text(&died).contains("server `fixture`"), "{died:?}");
    // It is started again, and the next call waits for it.
    let reply = session.call("echo", json!({"message": "back"})).await;
    assert!(reply.result()["isError"] != true && text(&reply).contains("back"), "{reply:?}");
    let pid = descendants(served.pid());
    let slow = session.call("slow", json!({"ms": 60_000}));
    let kill = async {
        served.wait_for_log("slow: started").await;
        pid.iter().for_each(|pid| kill(*pid, "KILL"));
    };
    let (reply, ()) = tokio::join!(slow, kill);
    assert_eq!(reply.result()["isError"], true, "{reply:?}");
}

#[tokio::test]
async fn nothing_survives_us() {
    for (signal, fault) in [("KILL", ""), ("TERM", ""), ("TERM", "linger")] {
        let args: &[&str] = if fault.is_empty() { &["--extras"] } else { &["--extras", "--fault", fault] };
        let servers = json!({"one": fixture(args), "two": fixture(args)});
        let mut served = Served::start(&format!("survives-{signal}-{fault}"), &config(&servers)).await;
        let session = served.legacy().await;
        session.request("tools/list", json!({})).await.result();
        let spawned = session.call("one___spawn_grandchild", json!({})).await;
        let grandchild: u32 =
            text(&spawned).split(|c: char| !c.is_ascii_digit()).find_map(|n| n.parse().ok()).expect("a pid");
        assert!(is_running(grandchild));
        let below = descendants(served.pid());
        assert!(below.len() >= 4, "a supervisor and a server for each: {below:?}");
        served.signal(signal);
        served.wait_for_exit().await;
        for pid in below.into_iter().chain([grandchild]) {
            wait_until_gone(pid).await;
        }
    }
}

#[tokio::test]
async fn a_graceful_stop_lets_calls_finish() {
    let mut served = Served::start("graceful", &config(&json!({"fixture": fixture(&["--extras"])}))).await;
    let session = served.legacy().await;
    let call = session.call("slow", json!({"ms": 700}));
    let stop = async {
        served.wait_for_log("slow: started").await;
        served.signal("TERM");
    };
    let (reply, ()) = tokio::join!(call, stop);
    assert_ne!(reply.result()["isError"], true, "{reply:?}");
    assert_eq!(served.wait_for_exit().await, Some(0));
}

#[tokio::test]
async fn an_idle_server_is_stopped_and_started_again() {
    let mut server = fixture(&["--extras"]);
    server["idleTimeout"] = json!("300ms");
    let served = Served::start("idle", &config(&json!({"fixture": server}))).await;
    let session = served.legacy().await;
    let before = names(&session.request("tools/list", json!({})).await, "tools");
    let children = descendants(served.pid());
    for pid in children {
        wait_until_gone(pid).await;
    }
    assert_eq!(names(&session.request("tools/list", json!({})).await, "tools"), before);
    assert!(text(&session.call("echo", json!({"message": "awake"})).await).contains("awake"));
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_taken_back() {
    let mut server = fixture(&["--extras"]);
    server["timeout"] = json!("2s");
    let served = Served::start("too-long", &config(&json!({"fixture": server}))).await;
    let session = served.legacy().await;
    let reply = session.call("slow", json!({"ms": 60_000})).await;
    assert_eq!(text(&reply), "server `fixture`: no response within 2 s");
    served.wait_for_log("slow: cancelled").await;
    // As long as there is progress there is hope.
    let call = json!({"name": "slow", "arguments": {"ms": 4000}, "_meta": {"progressToken": "p"}});
    let patient = session.request("tools/call", call).await;
    assert_eq!(text(&patient), "slept for 4000 ms");
}

#[tokio::test]
async fn the_clock_stands_still_while_a_user_is_asked() {
    let mut server = fixture(&["--era", "legacy"]);
    server["timeout"] = json!("2s");
    let served = Served::start("clock", &config(&json!({"fixture": server}))).await;
    let call = json!({"name": "test_elicitation", "arguments": {"message": "take your time"}});
    let reply = served.legacy().await;
    let reply = reply
        .request_answering("tools/call", call, |_| {
            // Longer than the call may take by itself; there is nothing to wait for but time.
            std::thread::sleep(std::time::Duration::from_secs(4));
            json!({"action": "accept", "content": {"username": "slow", "email": "s@example.com"}})
        })
        .await;
    assert!(text(&reply).contains("slow"), "{reply:?}");
}
