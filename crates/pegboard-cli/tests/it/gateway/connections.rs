//! Processes of servers that ask their clients. Which connection a call uses is tested in
//! `pegboard-gateway`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Legacy, PATIENCE, Served,
    faults::children,
    fixture,
    starting::{Stage, end},
    text, wait_until_gone,
};

/// How often clients are asked at the same time.
fn rounds() -> usize {
    std::env::var("PEGBOARD_QUESTION_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20)
}

/// A server of this era, with these settings of Pegboard's own.
fn config(era: &str, settings: &Value) -> Value {
    let mut server = fixture(&["--era", era, "--extras"]);
    server["pegboard"] = settings.clone();
    json!({"mcpServers": {"fixture": server}, "pegboard": {"exposure": "never"}})
}

/// Lets the server ask, answers with a name that is made of the question, and checks that the server
/// got it.
async fn ask(client: &Legacy, asked: &str) {
    let call = json!({"name": "test_elicitation", "arguments": {"message": asked}});
    let answer = |question: &Value| {
        assert_eq!(question["params"]["message"], asked, "another client's question");
        json!({"action": "accept", "content": {"username": asked, "email": "a@example.com"}})
    };
    let reply = client.request_answering("tools/call", call, answer).await;
    assert!(text(&reply).contains(asked), "{reply:?}");
}

/// Waits until the gateway has so many server processes.
async fn has_servers(served: &Served, count: usize) {
    let counted = async {
        while children(served.pid()).len() != count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, counted).await;
    assert!(waited.is_ok(), "{} servers instead of {count}:\n{}", children(served.pid()).len(), served.log());
}

#[tokio::test]
async fn processes_ask_the_client_that_they_belong_to() {
    let served = Served::start("asked-apart", &config("legacy", &json!({"connections": "own"}))).await;
    let clients = [served.legacy().await, served.legacy().await, served.legacy().await];
    let others = [served.legacy().await, served.legacy().await];
    let asking = async {
        for round in 0..rounds() {
            let [ann, bob, cat] = ["ann", "bob", "cat"].map(|name| format!("{name}-{round}"));
            tokio::join!(ask(&clients[0], &ann), ask(&clients[1], &bob), ask(&clients[2], &cat));
        }
    };
    // Others call all the time.
    let call = async |client: &Legacy| {
        for number in 0.. {
            let said = format!("call {number}");
            assert!(text(&client.call("echo", json!({"message": said})).await).contains(&said));
        }
    };
    tokio::select! {
        () = asking => {}
        () = call(&others[0]) => {}
        () = call(&others[1]) => {}
    }
    has_servers(&served, 6).await;
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_process_along() {
    let served = Served::start("leaves", &config("legacy", &json!({"connections": "own"}))).await;
    let [ann, bob] = [served.legacy().await, served.legacy().await];
    // The one that was started before the first client was replaced: it was not told what clients can be asked for.
    let [catalog] = children(served.pid())[..] else { panic!("one server") };
    for client in [&ann, &bob] {
        assert!(text(&client.call("echo", json!({"message": "hi"})).await).contains("hi"));
    }
    has_servers(&served, 3).await;
    ann.end().await;
    has_servers(&served, 2).await;
    // A client that is gone in the middle of a call without a session.
    let slow = served.modern("tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}}));
    let vanish = async {
        served.wait_for_log("slow: started").await;
    };
    tokio::select! {
        reply = slow => panic!("{reply:?}"),
        () = vanish => {}
    }
    has_servers(&served, 2).await;
    let all = children(served.pid());
    assert!(all.contains(&catalog));
    drop(bob);
    end(served).await;
    for pid in all {
        wait_until_gone(pid).await;
    }
}

#[tokio::test]
async fn an_unused_process_is_ended() {
    let settings = json!({"connections": "own", "connectionIdleTimeout": "200ms"});
    let served = Served::start("unused", &config("legacy", &settings)).await;
    let client = served.legacy().await;
    for _ in 0..2 {
        assert!(text(&client.call("echo", json!({"message": "hi"})).await).contains("hi"));
        has_servers(&served, 1).await;
    }
}

#[tokio::test]
async fn it_is_remembered_that_a_server_asks() {
    let stage = Stage::new("asks");
    let settings = config("legacy", &json!({}));
    let served = stage.serve(&settings).await;
    let client = served.legacy().await;
    assert!(text(&client.call("echo", json!({"message": "hi"})).await).contains("hi"));
    has_servers(&served, 1).await;
    ask(&client, "ann").await;
    assert!(text(&client.call("echo", json!({"message": "hi"})).await).contains("hi"));
    has_servers(&served, 2).await;
    end(served).await;
    let served = stage.serve(&settings).await;
    let clients = [served.legacy().await, served.legacy().await];
    tokio::join!(ask(&clients[0], "ann"), ask(&clients[1], "bob"));
    has_servers(&served, 3).await;
    end(served).await;
}

#[tokio::test]
async fn a_server_of_both_eras_has_one_process_for_each() {
    let served = Served::start("both", &config("both", &json!({"connections": "shared"}))).await;
    let client = served.legacy().await;
    let mut stream = client.stream().await;
    client.request("resources/subscribe", json!({"uri": "test://watched-resource"})).await.result();
    has_servers(&served, 1).await;
    ask(&client, "ann").await;
    has_servers(&served, 2).await;
    client.call("update_resource", json!({})).await.result();
    assert_eq!(stream.message().await["method"], "notifications/resources/updated");
    let asked = served.modern("tools/call", json!({"name": "test_elicitation", "arguments": {"message": "who"}})).await;
    assert_eq!(asked.result()["resultType"], "input_required");
    has_servers(&served, 2).await;
}
