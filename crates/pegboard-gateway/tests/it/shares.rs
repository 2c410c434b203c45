//! One caller cannot take what the others need.

use std::time::Duration;

use pegboard_discovery::Exposure;
use pegboard_gateway::GatewaySettings;
use pegboard_mcp::era::Era;
use serde_json::{Value, json};

use super::{
    server::NOISE,
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
            "the request was executed, but its response of {} bytes cannot be sent: together with the responses that \
             you have not read yet, it exceeds the limit of {} bytes (`connections.unreadBytesPerToken`)",
            LARGE + 39,
            4 * LARGE + 1000
        );
        assert_eq!(outcome(&refused), Err(expected));
        let small = world.post_as(Some(GUEST), &[("accept", accept)], &call(1, "echo")).await.2.pop();
        assert_eq!(small.as_ref().map(outcome), Some(Ok(4)), "small results pass");
        let other = read(send(ADMIN).await).await.2.pop().unwrap_or_default();
        assert_eq!(outcome(&other), Ok(LARGE), "another caller has its own share");
        // Two are given up, one is read.
        unread.drain(..2);
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

#[tokio::test]
async fn long_texts_are_refused() {
    let world = World::new(vec![Server::new(&["echo"]).config("one")], settings()).await;
    let session = world.legacy_as(GUEST).await;
    let long = |prefix: &str, length: usize| format!("{prefix}{}", "u".repeat(length - prefix.len()));
    let check = async |method: &str, params: Value, expected: &str| {
        let error = session.request(method, params).await["error"].clone();
        assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!(expected)), "{method}");
    };
    let uri = "`uri` is 3900000 bytes, over the limit of 8192";
    for method in ["resources/subscribe", "resources/read"] {
        check(method, json!({"uri": long("toy://", 3_900_000)}), uri).await;
    }
    let reference = json!({"type": "ref/resource", "uri": long("toy://", 9000)});
    let params = json!({"ref": reference, "argument": {"name": "a", "value": "b"}});
    check("completion/complete", params, "`uri` is 9000 bytes, over the limit of 8192").await;
    let name = "`name` is 2000 bytes, over the limit of 1024";
    check("tools/call", json!({"name": long("", 2000), "arguments": {}}), name).await;
    check("prompts/get", json!({"name": long("", 2000)}), name).await;
    check("tools/list", json!({"cursor": long("", 2000)}), "`cursor` is 2002 bytes, over the limit of 1024").await;
    let progress = json!({"name": "echo", "_meta": {"progressToken": long("", 2000)}});
    check("tools/call", progress, "`progressToken` is 2002 bytes, over the limit of 1024").await;
    // Requests without a session have the same bounds.
    let message = async |method: &str, params: Value| {
        let mut messages = world.modern_messages(Some(GUEST), method, params, &[]).await.2;
        messages.pop().unwrap_or_default()["error"]["message"].as_str().unwrap_or_default().to_owned()
    };
    let uris: Vec<String> = (0..50).map(|number| long(&format!("toy://{number}/"), 8000)).collect();
    let listen = json!({"notifications": {"resourceSubscriptions": uris}});
    let expected = "too many subscriptions: their URIs exceed 262144 bytes";
    assert_eq!(message("subscriptions/listen", listen).await, expected);
    let capabilities = json!({"experimental": {"long": long("", 40_000)}});
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    let refused = message("tools/list", json!({"_meta": meta})).await;
    assert!(refused.starts_with("`capabilities` is 400"), "{refused}");
}

#[tokio::test]
async fn all_sessions_of_a_token_have_a_bound_of_subscriptions() {
    let world = World::new(vec![Server::of(Era::Legacy, &["echo"]).config("one")], settings()).await;
    let mut taken = 0;
    let mut sessions = Vec::new();
    let message = 'all: loop {
        let session = world.legacy_as(GUEST).await;
        for number in 0..25 {
            let uri = format!("toy://{}/{number}/{}", sessions.len(), "u".repeat(8000));
            let reply = session.request("resources/subscribe", json!({"uri": uri})).await;
            if let Some(error) = reply.get("error") {
                break 'all error["message"].clone();
            }
            taken += uri.len();
        }
        sessions.push(session);
    };
    assert_eq!(message, "too many subscriptions: the URIs of all your sessions exceed 1048576 bytes");
    assert!((900_000..1_048_576).contains(&taken), "{taken}");
    // Another caller is not concerned, and a session that ends gives back what it had.
    let subscribe = json!({"uri": "toy://text"});
    let other = world.legacy_as(ADMIN).await;
    assert_eq!(other.request("resources/subscribe", subscribe.clone()).await["result"], json!({}));
    assert_eq!(sessions[0].end().await, 200);
    let session = world.legacy_as(GUEST).await;
    assert_eq!(session.request("resources/subscribe", subscribe).await["result"], json!({}));
}

#[tokio::test]
async fn a_token_makes_room_for_its_own_sessions() {
    let servers = vec![Server::new(&["echo"]).config("one")];
    let world = World::new(servers, GatewaySettings { max_sessions: 8, ..settings() }).await;
    let other = world.legacy_as(ADMIN).await;
    let mut own = Vec::new();
    for _ in 0..20 {
        own.push(world.legacy_as(GUEST).await);
    }
    assert_eq!(other.status("ping", json!({})).await, 200);
    let mut alive = 0;
    for session in &own {
        alive += usize::from(session.status("ping", json!({})).await == 200);
    }
    assert_eq!(alive, 3, "two, and the one that came last");
}

#[tokio::test]
async fn messages_that_are_not_read_are_bounded_and_the_result_behind_them_counts() {
    let world = World::new(vec![Server::new(&["noisy", "large"]).config("one")], settings()).await;
    let mut noisy = call(1, "noisy");
    noisy["params"]["_meta"] = json!({"progressToken": 7});
    let mut unread = Vec::new();
    for _ in 0..4 {
        unread.push(world.send(Some(GUEST), &[], &noisy).await);
    }
    // The streams have begun; their results arrive while nothing is read.
    let refused = async {
        while outcome(&world.post_as(Some(GUEST), &[], &call(1, "large")).await.2.pop().unwrap_or_default()).is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("results that nothing reads count");
    for response in unread {
        let (_, _, messages) = read(response).await;
        let (answer, progress) = messages.split_last().expect("an answer");
        assert_eq!(outcome(answer), Ok(LARGE));
        assert!(!progress.is_empty() && progress.len() < NOISE, "{} messages were kept", progress.len());
    }
    let again = world.post_as(Some(GUEST), &[], &call(1, "large")).await.2.pop().unwrap_or_default();
    assert_eq!(outcome(&again), Ok(LARGE), "what was read is given back");
}
