//! Calls that are refused before a server hears of them, and calls that must wait.

use serde_json::{Value, json};

use super::{Served, client::http, fixture, text};

/// One fixture server with further keys, all its tools in sight.
fn config(own: &Value, section: &Value) -> Value {
    let mut server = fixture(&["--extras"]);
    let mut pegboard = json!({"exposure": "never"});
    for (into, more) in [(&mut server, own), (&mut pegboard, section)] {
        into.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    }
    json!({"mcpServers": {"fixture": server}, "pegboard": pegboard})
}

/// One of the numbers.
async fn metric(served: &Served, name: &str) -> u64 {
    let url = served.url.replace("/mcp", "/metrics");
    let text = http().get(url).send().await.expect("an answer").text().await.expect("a text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no `{name}` in {text}"));
    line.trim().parse().expect("a number")
}

#[tokio::test(flavor = "local")]
async fn arguments_that_do_not_fit_reach_no_server() {
    let served = Served::start("misfits", &config(&json!({}), &json!({}))).await;
    let session = served.legacy().await;
    let legacy = session.call("slow", json!({"ms": "soon", "sm": 1})).await;
    let modern = served.modern("tools/call", json!({"name": "slow", "arguments": {"ms": "soon"}})).await;
    for reply in [&legacy, &modern] {
        assert_eq!((reply.status, &reply.result()["isError"]), (200, &json!(true)));
        let said = text(reply);
        let expected = "`slow` was not called: /ms must be an integer, not \"soon\"\nschema: {\"type\":\"object\"";
        assert!(said.starts_with(expected), "{said}");
        assert!(said.ends_with("\nfor example: {\"ms\":0}"), "{said}");
    }
    assert_eq!(modern.result()["resultType"], "complete");
    let missing = session.call("slow", json!({})).await;
    assert!(text(&missing).starts_with("`slow` was not called: /ms is missing\n"));
    assert_eq!(session.call("slow", json!({"ms": 1})).await.result().get("isError"), None);
    assert_eq!(metric(&served, "pegboard_calls_refused_total{reason=\"arguments\"}").await, 3);
    assert_eq!(served.log().matches("slow: started").count(), 1);
}

#[tokio::test(flavor = "local")]
async fn a_call_tool_is_checked_by_the_tool_it_calls() {
    let section = json!({"dialect": "bridge"});
    let served = Served::start("misfit-bridge", &config(&json!({}), &section)).await;
    let session = served.legacy().await;
    let reply = session.call("call_tool", json!({"name": "slow", "arguments": {"ms": -1}})).await;
    assert!(text(&reply).starts_with("`slow` was not called: /ms must be at least 0, not -1\n"), "{reply:?}");
    assert!(text(&reply).ends_with("for example: {\"name\":\"slow\",\"arguments\":{\"ms\":0}}"), "{reply:?}");
    assert!(!served.log().contains("slow: started"));
}

#[tokio::test(flavor = "local")]
async fn who_does_not_want_it_is_not_checked() {
    let check = async |test: &str, own: Value, section: Value| {
        let served = Served::start(test, &config(&own, &section)).await;
        let session = served.legacy().await;
        session.request("tools/list", json!({})).await.result();
        // The server's own words, whatever they are.
        let reply = session.call("slow", json!({"ms": "soon"})).await;
        let said = reply.response.to_string();
        assert!(!said.contains("was not called"), "{said}");
    };
    check("unchecked", json!({}), json!({"validateArguments": false})).await;
    check("unchecked-server", json!({"validateArguments": false}), json!({})).await;
    check("unchecked-bridge", json!({"validateArguments": false}), json!({"dialect": "bridge"})).await;
}

#[tokio::test(flavor = "local")]
async fn too_much_is_an_error_that_says_so() {
    let own = json!({"maxResultBytes": 2000, "maxArgumentBytes": 1000});
    let served = Served::start("sizes", &config(&own, &json!({}))).await;
    let session = served.legacy().await;
    let large = session.call("large", json!({"bytes": 5000})).await;
    assert_eq!(large.result()["isError"], true);
    let said = text(&large);
    assert!(
        said.starts_with("server `fixture`: its answer has 5") && said.ends_with("2000 are the most that is passed on"),
        "{said}"
    );
    let long = session.call("echo", json!({"message": "x".repeat(2000)})).await;
    assert_eq!(text(&long), "server `fixture`: the arguments have 2014 bytes, and 1000 are the most that it is sent");
    assert_eq!(text(&session.call("echo", json!({"a": 1})).await), "{\"a\":1}");
    for reason in ["result_bytes", "argument_bytes"] {
        assert_eq!(metric(&served, &format!("pegboard_calls_refused_total{{reason=\"{reason}\"}}")).await, 1);
    }
}

#[tokio::test(flavor = "local")]
async fn a_caller_has_so_many_calls_a_minute() {
    let served = Served::start("rate", &config(&json!({}), &json!({"limits": {"callsPerMinute": 2}}))).await;
    let (one, other) = (served.legacy().await, served.legacy().await);
    for _ in 0..2 {
        assert_eq!(text(&one.call("echo", json!({})).await), "{}");
    }
    let refused = one.call("echo", json!({})).await;
    assert_eq!(refused.result()["isError"], true);
    let said = text(&refused);
    assert!(said.starts_with("`echo` was not called: 2 calls a minute are the most that is allowed here"), "{said}");
    assert!(said.contains("try again in "), "{said}");
    let refused = other.call("echo", json!({})).await;
    assert!(text(&refused).starts_with("`echo` was not called: 2 calls"), "another session of the same address");
    let (code, message) = one.request("resources/read", json!({"uri": "test://static-text"})).await.error();
    assert!(code == -32603 && message.starts_with("not done: 2 calls a minute"), "{code} {message}");
    assert_eq!(metric(&served, "pegboard_calls_refused_total{reason=\"rate\"}").await, 3);
}

#[tokio::test(flavor = "local")]
async fn a_session_that_floods_does_not_starve_another() {
    let served = Served::start("fair", &config(&json!({"maxConcurrent": 1}), &json!({}))).await;
    let (flood, other) = (served.legacy().await, served.legacy().await);
    let flood = std::sync::Arc::new(flood);
    let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..20 {
        let (flood, done) = (std::sync::Arc::clone(&flood), done.clone());
        tokio::task::spawn_local(async move {
            flood.call("slow", json!({"ms": 300})).await.result();
            let _ = done.send("flood");
        });
    }
    served.logged("slow: started").await;
    assert_eq!(text(&other.call("echo", json!({})).await), "{}");
    let _ = done.send("other");
    drop(done);
    let mut came = Vec::new();
    while let Some(who) = order.recv().await {
        came.push(who);
    }
    let at = came.iter().position(|who| *who == "other").expect("it was answered");
    assert!(came.len() == 21 && at < 19, "{came:?}");
}

#[tokio::test(flavor = "local")]
async fn a_slow_server_does_not_take_the_turns_of_another() {
    let mut config = config(&json!({"maxConcurrent": 1}), &json!({}));
    config["mcpServers"]["quick"] = config["mcpServers"]["fixture"].clone();
    let served = Served::start("apart", &config).await;
    let session = std::sync::Arc::new(served.legacy().await);
    let stuck: Vec<_> = (0..3)
        .map(|_| {
            let session = std::sync::Arc::clone(&session);
            tokio::task::spawn_local(async move { session.call("fixture___slow", json!({"ms": 60_000})).await })
        })
        .collect();
    served.logged("slow: started").await;
    assert_eq!(text(&session.call("quick___echo", json!({})).await), "{}");
    stuck.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Clients that go away while their call runs, and while it waits.
#[tokio::test(flavor = "local")]
async fn whoever_goes_away_leaves_its_turn_to_others() {
    let own = json!({"maxConcurrent": 1});
    let served = Served::start("gone-away", &config(&own, &json!({"limits": {"maxConcurrent": 3}}))).await;
    let call = |tool: &str, arguments: Value| {
        let (url, params) = (served.url.clone(), json!({"name": tool, "arguments": arguments}));
        tokio::task::spawn_local(async move { super::modern(&url, "tools/call", params).await })
    };
    let running = call("slow", json!({"ms": 60_000}));
    served.logged("slow: started").await;
    let (waiting, next) = (call("slow", json!({"ms": 60_000})), call("echo", json!({})));
    waiting.abort();
    let _ = waiting.await;
    running.abort();
    let answered = tokio::time::timeout(super::PATIENCE, next).await.expect("its turn comes").expect("it ends");
    assert_eq!(text(&answered), "{}");
    let again = tokio::time::timeout(super::PATIENCE, call("echo", json!({}))).await;
    assert_eq!(text(&again.expect("nobody is in the way").expect("it ends")), "{}");
}

#[tokio::test(flavor = "local")]
async fn a_server_that_dies_gives_its_turns_back() {
    let served = Served::start("dies", &config(&json!({"maxConcurrent": 1}), &json!({}))).await;
    let session = std::sync::Arc::new(served.legacy().await);
    session.request("tools/list", json!({})).await.result();
    let calls: Vec<_> = ["exit", "echo", "echo"]
        .map(|tool| {
            let session = std::sync::Arc::clone(&session);
            tokio::task::spawn_local(async move { session.call(tool, json!({})).await })
        })
        .into();
    for call in calls {
        let reply = tokio::time::timeout(super::PATIENCE, call).await.expect("it ends").expect("it ends");
        assert!(reply.response.get("result").is_some(), "{reply:?}");
    }
    while session.call("echo", json!({})).await.result()["isError"] == true {}
}
