//! Both protocol eras, and the crossings between them.

use std::sync::Arc;

use pegboard_mcp::era::Era;
use serde_json::{Value, json};

use super::world::{Events, Server, World, methods, names, plain, text, until};

/// The eras of servers.
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

const TOOLS: [&str; 6] = ["echo", "ask", "sample", "progress", "log", "wait"];

/// The key of the capabilities in `_meta`.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

async fn world(era: Era) -> (World, Arc<Server>) {
    let server = Server::of(era, &TOOLS);
    (World::new(vec![server.config("one")], plain()).await, server)
}

/// What a client says that can be asked everything.
fn able() -> Value {
    json!({"sampling": {}, "elicitation": {}, "roots": {}})
}

#[tokio::test]
async fn every_era_lists_and_calls_every_era() {
    for era in ERAS {
        let (world, _server) = world(era).await;
        let legacy = world.legacy().await;
        assert_eq!(legacy.hello["protocolVersion"], "2025-11-25");
        assert_eq!(legacy.hello["capabilities"]["tools"]["listChanged"], true);
        let listed = legacy.request("tools/list", json!({})).await;
        assert_eq!(names(&listed), TOOLS, "{era:?}");
        assert!(listed["result"].get("ttlMs").is_none());
        let modern = world.modern("tools/list", json!({})).await;
        assert_eq!(names(&modern), TOOLS);
        assert_eq!(modern["result"]["resultType"], "complete");
        assert_eq!(modern["result"]["cacheScope"], "public");
        let call = json!({"name": "echo", "arguments": {"message": "hi"}});
        let by_legacy = legacy.request("tools/call", call.clone()).await;
        assert_eq!((text(&by_legacy).as_str(), by_legacy["result"].get("resultType")), ("done", None));
        let by_modern = world.modern("tools/call", call).await;
        assert_eq!((text(&by_modern).as_str(), &by_modern["result"]["resultType"]), ("done", &json!("complete")));
    }
}

#[tokio::test]
async fn what_a_server_asks_reaches_the_client_that_called() {
    for era in ERAS {
        let (world, server) = world(era).await;
        let other = world.legacy_with(None, "other", able()).await;
        let mut others_stream = other.stream().await;
        let legacy = world.legacy_with(None, "test", able()).await;
        let call = json!({"name": "ask", "arguments": {}});
        let answer = |name: &str| json!({"action": "accept", "content": {"username": name}});
        let reply = legacy
            .request_answering("tools/call", call.clone(), |question| {
                assert_eq!(question["method"], "elicitation/create");
                answer("ann")
            })
            .await;
        assert!(text(&reply).contains("ann"), "{era:?}: {reply}");
        // The other client's next message is about its own subscription.
        let subscribed = other.request("resources/subscribe", json!({"uri": "toy://text"})).await;
        assert_eq!(subscribed["result"], json!({}), "{era:?}");
        assert!(server.update("toy://text"), "{era:?}: it is watched");
        assert_eq!(others_stream.message().await["method"], "notifications/resources/updated");

        let with = |mut params: Value| {
            params["_meta"] = json!({CAPABILITIES: able()});
            params
        };
        let asked = world.modern("tools/call", with(call.clone())).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{era:?}");
        let requests = asked["result"]["inputRequests"].as_object().expect("requests").clone();
        let (key, question) = requests.iter().next().expect("a question");
        assert_eq!(question["method"], "elicitation/create");
        let mut again = call;
        again["inputResponses"] = json!({key: answer("bob")});
        again["requestState"] = asked["result"]["requestState"].clone();
        let done = world.modern("tools/call", with(again.clone())).await;
        assert!(text(&done).contains("bob"), "{era:?}: {done}");
        if era == Era::Legacy {
            let refused = world.modern("tools/call", with(again)).await;
            assert_eq!(refused["error"]["code"], -32602);
            assert_eq!(refused["error"]["message"], "`requestState` is unknown or has expired");
        }
    }
}

#[tokio::test]
async fn a_client_that_cannot_answer_is_not_asked() {
    for era in ERAS {
        let (world, _server) = world(era).await;
        let messages = world.legacy().await.messages("tools/call", json!({"name": "sample"})).await;
        assert_eq!(messages.len(), 1, "{era:?}: {messages:?}");
        let expected = "the client does not support `sampling/createMessage`";
        assert_eq!(messages[0]["error"]["message"], expected, "{era:?}");
    }
}

#[tokio::test]
async fn progress_and_log_messages_come_before_the_result() {
    for era in ERAS {
        let (world, _server) = world(era).await;
        let legacy = world.legacy().await;
        assert_eq!(legacy.request("logging/setLevel", json!({"level": "info"})).await["result"], json!({}));
        let call = json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": "mine"}});
        let of_legacy = legacy.messages("tools/call", call.clone()).await;
        let of_modern = world.modern_messages(None, "tools/call", call, &[]).await.2;
        for messages in [of_legacy, of_modern] {
            assert_eq!(methods(&messages), ["notifications/progress"; 3], "{era:?}: {messages:?}");
            assert_eq!(messages.len(), 4, "the result comes last");
            for (message, number) in messages.iter().zip(1..=3) {
                let params = &message["params"];
                assert_eq!((&params["progressToken"], &params["progress"]), (&json!("mine"), &json!(number)));
            }
        }
        let log = json!({"name": "log", "arguments": {}});
        let logged = legacy.messages("tools/call", log.clone()).await;
        let levels: Vec<&Value> = logged.iter().filter_map(|message| message["params"].get("level")).collect();
        assert_eq!((levels, logged.len()), (vec![&json!("info"), &json!("error")], 3), "{era:?}: {logged:?}");
        let silent = world.modern_messages(None, "tools/call", log.clone(), &[]).await.2;
        assert_eq!(methods(&silent), Vec::<&str>::new(), "{era:?}: this client did not ask for log messages");
        let mut wanted = log;
        wanted["_meta"] = json!({"io.modelcontextprotocol/logLevel": "error"});
        let logged = world.modern_messages(None, "tools/call", wanted, &[]).await.2;
        assert_eq!(methods(&logged), ["notifications/message"], "{era:?}: {logged:?}");
    }
}

#[tokio::test]
async fn each_session_has_its_own_log_level() {
    for era in ERAS {
        let (world, _server) = world(era).await;
        let (loud, quiet) = (world.legacy().await, world.legacy().await);
        for (session, level) in [(&loud, "debug"), (&quiet, "error")] {
            assert_eq!(session.request("logging/setLevel", json!({"level": level})).await["result"], json!({}));
        }
        for (session, expected) in [(&loud, 3), (&quiet, 1), (&loud, 3)] {
            let messages = session.messages("tools/call", json!({"name": "log", "arguments": {}})).await;
            assert_eq!(methods(&messages), vec!["notifications/message"; expected], "{era:?}: {messages:?}");
        }
    }
}

#[tokio::test]
async fn headers_of_parameters_must_agree_with_the_body() {
    let properties = json!({"region": {"type": "string", "x-mcp-header": "Region"}});
    let schema = json!({"type": "object", "properties": properties});
    let server = Server::with(vec![json!({"name": "deploy", "inputSchema": schema})]);
    let world = World::new(vec![server.config("one")], plain()).await;
    let check = async |headers: &[(&str, &str)], expected: u16| {
        let params = json!({"name": "deploy", "arguments": {"region": "eu"}});
        let (status, _, messages) = world.modern_messages(None, "tools/call", params, headers).await;
        assert_eq!(status, expected, "{headers:?} {messages:?}");
        if expected == 400 {
            assert_eq!(messages[0]["error"]["code"], -32020);
        }
    };
    check(&[("mcp-param-region", "eu")], 200).await;
    check(&[("mcp-param-region", "=?base64?ZXU=?=")], 200).await;
    check(&[("mcp-param-region", "us")], 400).await;
    check(&[("mcp-param-region", "=?base64?ZXU?=")], 400).await;
    check(&[], 400).await;
}

#[tokio::test]
async fn greetings_of_all_versions() {
    let (world, _server) = world(Era::Modern).await;
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = world.post(&[], &body).await.2.pop().expect("an answer");
        assert_eq!((&answer["result"]["protocolVersion"], &answer["id"]), (&json!(agreed), &json!(0)), "{answer}");
    }
    let hello = world.modern("server/discover", json!({})).await;
    assert_eq!(hello["result"]["supportedVersions"], json!(["2026-07-28"]));
    for key in ["resultType", "ttlMs", "cacheScope", "capabilities"] {
        assert!(hello["result"].get(key).is_some(), "{key}");
    }
    assert_eq!(hello["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "pegboard");
}

#[tokio::test]
async fn listening_is_acknowledged_tagged_and_filtered() {
    for era in ERAS {
        let (world, server) = world(era).await;
        let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["toy://text"]});
        let params = json!({"notifications": wanted});
        let mut events = Events::new(world.modern_send(None, 7, "subscriptions/listen", params, &[]).await);
        let check = |message: &Value, method: &str| {
            assert_eq!(message["method"], method, "{era:?}");
            assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7, "{message}");
        };
        let first = events.message().await;
        check(&first, "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["notifications"], wanted);
        // A prompt changes first, which this client did not ask about.
        server.set_prompts(&["greet", "leave"]);
        let has_both = async || {
            let listed = world.modern("prompts/list", json!({})).await;
            listed["result"]["prompts"].as_array().is_some_and(|prompts| prompts.len() == 2)
        };
        until("the prompt is listed", has_both).await;
        server.add_tool("brand_new");
        check(&events.message().await, "notifications/tools/list_changed");
        until("the resource is watched", async || server.watched() == ["toy://text"]).await;
        assert!(server.update("toy://text"));
        let updated = events.message().await;
        check(&updated, "notifications/resources/updated");
        assert_eq!(updated["params"]["uri"], "toy://text");
        let listed = names(&world.modern("tools/list", json!({})).await);
        assert!(listed.contains(&"brand_new".to_owned()), "{era:?}: {listed:?}");
    }
}

#[tokio::test]
async fn a_client_takes_a_request_back() {
    for era in ERAS {
        let (world, server) = world(era).await;
        let session = world.legacy().await;
        let cancel = async {
            until("the call runs", async || !server.calls().is_empty()).await;
            session.notify("notifications/cancelled", json!({"requestId": 1, "reason": "changed my mind"})).await
        };
        let call = session.messages("tools/call", json!({"name": "wait"}));
        let (messages, status) = tokio::join!(call, cancel);
        assert_eq!((messages.len(), status), (0, 202), "{era:?}: a request that was taken back has no answer");
        until("the call is given up", async || server.dropped() == 1).await;
    }
}
