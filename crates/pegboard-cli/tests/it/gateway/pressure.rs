//! Many clients, while servers and configuration change.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    Legacy, Served, fixture, is_running, names,
    starting::{Stage, end},
    text, wait_until_gone,
};

/// Begins sessions.
async fn begin(served: &Served, count: usize) -> Vec<Arc<Legacy>> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(Arc::new(served.legacy().await));
    }
    sessions
}

/// Lets every session do `work` again and again until `stop`, and counts how often.
fn load<W, F>(sessions: &[Arc<Legacy>], stop: &Arc<AtomicBool>, work: W) -> (JoinSet<()>, Arc<AtomicUsize>)
where
    W: Fn(Arc<Legacy>, usize) -> F + Clone + 'static,
    F: Future<Output = ()>,
{
    let (mut tasks, done) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for session in sessions {
        let (session, stop, done, work) = (Arc::clone(session), Arc::clone(stop), Arc::clone(&done), work.clone());
        tasks.spawn_local(async move {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                work(Arc::clone(&session), round).await;
                done.fetch_add(1, Ordering::Relaxed);
                round += 1;
            }
        });
    }
    (tasks, done)
}

/// Waits until every session has worked, more than once on average.
async fn wait_until_busy(done: &AtomicUsize, least: usize) {
    let waiting = async {
        while done.load(Ordering::Relaxed) < least {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(4 * super::PATIENCE, waiting).await.expect("requests are answered");
}

#[tokio::test(flavor = "local")]
async fn two_hundred_search_while_a_list_changes_every_100_ms() {
    let config = json!({
        "mcpServers": {"still": fixture(&["--tools", "200"]), "restless": fixture(&["--extras"])},
        "pegboard": {"exposure": "always", "dialect": "bridge"}
    });
    let served = Served::start("pressure-lists", &config).await;
    let sessions = begin(&served, 200).await;
    let stop = Arc::new(AtomicBool::new(false));
    let (mut tasks, done) = load(&sessions, &stop, |session: Arc<Legacy>, round: usize| async move {
        let query = if round.is_multiple_of(2) { "echo a message" } else { "tool number seven" };
        let reply = session.call("search_tools", json!({"query": query})).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.result()["isError"], Value::Null, "{reply:?}");
        // Tools that never changed are always found.
        if round.is_multiple_of(2) {
            assert!(text(&reply).contains("echo"), "{reply:?}");
        }
    });
    let changing = served.legacy().await;
    let mut every = tokio::time::interval(Duration::from_millis(100));
    for number in 0..30 {
        every.tick().await;
        let reply = changing
            .call(
                "call_tool",
                json!({"name": "restless___change_tools", "arguments": {"name": format!("new_{number}")}}),
            )
            .await;
        assert_eq!(reply.result()["isError"], Value::Null, "{reply:?}");
    }
    wait_until_busy(&done, 400).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no client was let down");
    }
    end(served).await;
}

#[tokio::test(flavor = "local")]
async fn fifty_changes_of_the_configuration_under_load() {
    let stage = Stage::new("pressure-config");
    // A server of both eras would have a second process for legacy clients.
    let steady = stage.controlled_server("steady", "--era legacy --extras");
    let with = |number: usize| {
        let mut servers = json!({"steady": steady.entry()});
        servers[format!("guest{}", number % 3)] = fixture(&["--tools", &(1 + number % 5).to_string()]);
        json!({"mcpServers": servers, "pegboard": {"exposure": "never", "prefix": "always"}})
    };
    let served = Served::start("pressure-config", &with(0)).await;
    let sessions = begin(&served, 10).await;
    // What the first client can be asked for is declared by another start.
    let starts = steady.pids().len();
    let stop = Arc::new(AtomicBool::new(false));
    let (mut tasks, done) = load(&sessions, &stop, |session: Arc<Legacy>, round: usize| async move {
        let message = format!("round {round}");
        let reply = session.call("steady___echo", json!({"message": message})).await;
        assert!(text(&reply).contains(&message), "{reply:?}");
        let listed = names(&session.request("tools/list", json!({})).await, "tools");
        assert!(listed.contains(&"steady___echo".to_owned()), "{listed:?}");
    });
    // Each change waits until it was read; some are invalid.
    for number in 1..=50 {
        let config = if number % 10 == 0 { "{\"mcpServers\": [".to_owned() } else { with(number).to_string() };
        assert_eq!(served.reconfigure(&config).await, number % 10 != 0, "{number}");
    }
    wait_until_busy(&done, 50).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no client was let down");
    }
    assert_eq!(steady.pids().len(), starts, "a server that was never changed was started again");
    let last = steady.pids()[starts - 1];
    assert!(is_running(last));
    end(served).await;
    wait_until_gone(last).await;
}

#[tokio::test(flavor = "local")]
async fn killed_under_load_it_comes_back_whole() {
    let stage = Stage::new("pressure-kill");
    let one = stage.controlled_server("one", "--extras --tools 40");
    let config = json!({
        "mcpServers": {"one": one.entry()},
        "pegboard": {"exposure": "always", "dialect": "explicit", "prefix": "always", "startupWait": 60}
    });
    let mut served = stage.serve(&config).await;
    let sessions = begin(&served, 20).await;
    let (mut tasks, done) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for session in sessions {
        let done = Arc::clone(&done);
        tasks.spawn_local(async move {
            let mut loaded = BTreeSet::new();
            let mut round = 0;
            // Until the gateway is gone: answered calls must be recorded afterwards.
            loop {
                let name = format!("one___tool_{:05}", round % 40);
                let Some(true) = session.try_call("add_tool", json!({"tool_names": [name]})).await else {
                    return (session, loaded);
                };
                loaded.insert(name);
                done.fetch_add(1, Ordering::Relaxed);
                round += 1;
            }
        });
    }
    wait_until_busy(&done, 200).await;
    served.signal("KILL");
    served.wait_for_exit().await;
    let ended = tasks.join_all().await;
    for pid in one.pids() {
        wait_until_gone(pid).await;
    }
    one.hold();
    let served = stage.serve(&config).await;
    for (session, loaded) in ended {
        let session = Arc::into_inner(session).expect("nobody else has it").moved_to(&served.url);
        let reply = session.request("tools/list", json!({})).await;
        assert_eq!(reply.status, 200, "a conversation is lost");
        let listed: BTreeSet<String> = names(&reply, "tools").into_iter().collect();
        // From the manifest: its server has said nothing yet.
        let missing: Vec<&String> = loaded.difference(&listed).collect();
        assert!(missing.is_empty(), "{missing:?} of {}", loaded.len());
    }
    assert!(!served.log().contains("server ready"));
    one.release();
    end(served).await;
}
