//! One caller cannot take what the others need.

use std::time::Duration;

use pegboard_discovery::Exposure;
use pegboard_gateway::GatewaySettings;
use serde_json::{Value, json};

use super::{
    tokens::{ADMIN, GUEST, tokens},
    world::{LARGE, PATIENCE, Server, World, read},
};

fn settings() -> GatewaySettings {
    let unread_bytes_per_caller = 4 * LARGE + 1000;
    GatewaySettings {
        tokens: tokens(),
        exposure: Exposure::Never,
        unread_bytes_per_caller,
        ..GatewaySettings::default()
    }
}

fn call(id: usize, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}})
}

/// What came of a call: the bytes of its text, or why it failed.
fn outcome(response: &Value) -> Result<usize, String> {
    match response["result"]["content"][0]["text"].as_str() {
        Some(text) => Ok(text.len()),
        None => Err(response["error"]["message"].as_str().unwrap_or_default().to_owned()),
    }
}

#[tokio::test]
async fn results_that_are_not_read_count_against_their_caller() {
    let world = World::new(vec![Server::new(&["large", "echo"]).config("one")], settings()).await;
    for accept in ["application/json", "application/json, text/event-stream"] {
        let send = async |holder| world.send(Some(holder), &[("accept", accept)], &call(1, "large")).await;
        let mut unread = Vec::new();
        for _ in 0..4 {
            unread.push(send(GUEST).await);
        }
        let refused = read(send(GUEST).await).await.2.pop().unwrap_or_default();
        let expected = format!(
            "the request was carried out, but its answer of {} bytes cannot be sent: with the answers that you have \
             not read yet it exceeds {} bytes (`connections.unreadBytesPerToken`)",
            LARGE + 39,
            4 * LARGE + 1000
        );
        assert_eq!(outcome(&refused), Err(expected));
        let small = world.post_as(Some(GUEST), &[("accept", accept)], &call(1, "echo")).await.2.pop();
        assert_eq!(small.as_ref().map(outcome), Some(Ok(4)), "small results pass");
        let other = read(send(ADMIN).await).await.2.pop().unwrap_or_default();
        assert_eq!(outcome(&other), Ok(LARGE), "another caller has its own share");
        // One is read, the other given up.
        for response in unread.drain(..2) {
            drop(response);
        }
        let last = read(unread.remove(0)).await.2.pop().unwrap_or_default();
        assert_eq!(outcome(&last), Ok(LARGE));
        assert_eq!(outcome(&read(send(GUEST).await).await.2.pop().unwrap_or_default()), Ok(LARGE));
    }
}

#[tokio::test]
async fn the_answers_to_a_batch_count_together() {
    let world = World::new(vec![Server::new(&["large"]).config("one")], settings()).await;
    let batch: Vec<Value> = (0..6).map(|id| call(id, "large")).collect();
    let (_, _, mut answers) = world.post_as(Some(GUEST), &[], &Value::Array(batch)).await;
    let answers = answers.pop().unwrap_or_default();
    let found: Vec<bool> = answers.as_array().into_iter().flatten().map(|answer| outcome(answer).is_ok()).collect();
    assert_eq!(found, [true, true, true, true, false, false]);
    let again = world.post_as(Some(GUEST), &[], &json!([call(1, "large")])).await.2.pop().unwrap_or_default();
    assert_eq!(outcome(&again[0]), Ok(LARGE), "what was read is given back");
}

#[tokio::test]
async fn a_holder_leaves_a_quarter_of_a_server_to_others() {
    let server = Server::new(&["wait", "echo"]);
    let mut config = server.config("one");
    config.limits.concurrent = 4;
    let world = World::new(vec![config], settings()).await;
    let crowd = async {
        let wait = async || world.send(Some(GUEST), &[], &call(1, "wait")).await;
        tokio::join!(wait(), wait(), wait(), wait())
    };
    let other = async {
        while world.gateway.servers()[0].report().calls.waiting < 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        world.post_as(Some(ADMIN), &[], &call(1, "echo")).await.2.pop().unwrap_or_default()
    };
    let answered = async {
        tokio::select! {
            _ = crowd => Value::Null,
            answer = other => answer,
        }
    };
    let answer = tokio::time::timeout(PATIENCE, answered).await.expect("in time");
    assert_eq!(outcome(&answer), Ok(4), "{answer}");
    let reached: Vec<_> = server.calls().into_iter().map(|(name, _)| name).collect();
    assert_eq!(reached, ["wait", "wait", "wait", "echo"]);
}
