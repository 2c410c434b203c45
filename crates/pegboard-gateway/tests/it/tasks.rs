//! Tasks of servers, under ids that belong to their callers.

use pegboard_core::Selection;
use pegboard_gateway::GatewaySettings;
use pegboard_mcp::era::Era;
use serde_json::{Value, json};

use super::{
    tokens::{ADMIN, GUEST, token},
    world::{Folder, Server, TASK, World, plain},
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn settings(folder: &Folder) -> GatewaySettings {
    let tokens = ["admin", "guest"].map(|name| token(name, Selection::everything()));
    GatewaySettings { tokens: tokens.into(), sessions: Some(folder.path().join("sessions")), ..plain() }
}

/// The parameters of a client that knows tasks.
fn declared(mut params: Value) -> Value {
    let capabilities = json!({"extensions": {EXTENSION: {}}});
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    params
}

async fn ask(world: &World, holder: usize, method: &str, params: Value) -> Value {
    world.modern_messages(Some(holder), method, params, &[]).await.2.pop().expect("a response")
}

async fn task(world: &World, holder: usize, method: &str, id: &str) -> Value {
    ask(world, holder, method, declared(json!({"taskId": id, "inputResponses": {}}))).await
}

#[tokio::test]
async fn a_task_is_followed_by_its_caller_alone_also_after_a_restart() {
    let folder = Folder::new("tasks");
    let (one, two) = (Server::new(&["task"]), Server::new(&["task"]));
    let servers = || vec![one.config("one"), two.config("two")];
    let world = World::new(servers(), settings(&folder)).await;
    let called = ask(&world, ADMIN, "tools/call", declared(json!({"name": "two___task", "arguments": {}}))).await;
    let (result, id) = (&called["result"], called["result"]["taskId"].as_str().expect("an id"));
    assert_eq!((&result["resultType"], &result["status"]), (&json!("task"), &json!("working")));
    assert!(id.starts_with("task_") && !id.contains(TASK), "{id}");

    let check = async |world: &World| {
        let found = task(world, ADMIN, "tasks/get", id).await["result"].clone();
        assert_eq!((&found["taskId"], &found["status"]), (&json!(id), &json!("completed")), "{found}");
        assert_eq!(found["result"]["content"][0]["uri"], "two+toy://text", "like a result of the tool");
        for method in ["tasks/update", "tasks/cancel"] {
            assert_eq!(task(world, ADMIN, method, id).await["result"], json!({"resultType": "complete"}), "{method}");
        }
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            for (holder, id) in [(GUEST, id), (ADMIN, TASK), (ADMIN, "task_AAAA")] {
                let error = task(world, holder, method, id).await["error"].clone();
                assert_eq!(error["code"], -32602, "{method} {id}: {error}");
                assert!(error["message"].as_str().is_some_and(|text| text.starts_with("unknown task `")), "{error}");
            }
        }
    };
    check(&world).await;
    world.gateway.stop().await;
    check(&World::new(servers(), settings(&folder)).await).await;
    let asked: Vec<(String, String)> = two.calls().into_iter().skip(1).collect();
    let expected = ["tasks/get", "tasks/update", "tasks/cancel"].map(|method| (method.to_owned(), TASK.to_owned()));
    assert_eq!(asked, [expected.clone(), expected].concat(), "nothing of another caller");
    assert_eq!(one.calls(), []);
}

#[tokio::test]
async fn a_client_must_know_tasks() {
    let folder = Folder::new("tasks-declared");
    let world = World::new(vec![Server::new(&["task", "meta"]).config("one")], settings(&folder)).await;
    for (method, params) in [
        ("tasks/get", json!({"taskId": "x"})),
        ("tasks/update", json!({"taskId": "x", "inputResponses": {}})),
        ("tasks/cancel", json!({"taskId": "x"})),
        ("subscriptions/listen", json!({"notifications": {"taskIds": ["x"]}})),
    ] {
        let error = ask(&world, ADMIN, method, params).await["error"].clone();
        assert_eq!(error["code"], -32021, "{method}: {error}");
        assert_eq!(error["data"]["requiredCapabilities"]["extensions"][EXTENSION], json!({}), "{method}");
    }
    // A header may repeat the id, so that requests can be routed by it.
    for (more, expected) in
        [(Some(("mcp-name", "other")), -32020), (Some(("mcp-name", "task_x")), -32602), (None, -32602)]
    {
        let params = declared(json!({"taskId": "task_x"}));
        let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params});
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        let usual = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tasks/get")];
        let headers: Vec<(&str, &str)> = usual.into_iter().chain(more).collect();
        let (_, _, messages) = world.post_as(Some(ADMIN), &headers, &body).await;
        assert_eq!(messages[0]["error"]["code"], expected, "{more:?}");
    }
    // Versions before 2026-07-28 have no such results, whatever the client says.
    let capabilities = json!({"extensions": {EXTENSION: {}, "com.example/x": {}}});
    let session = world.legacy_with(Some(ADMIN), "test", capabilities).await;
    let meta = session.request("tools/call", json!({"name": "meta"})).await;
    let meta = meta["result"]["content"][0]["text"].as_str().expect("a text");
    assert!(meta.contains("com.example/x") && !meta.contains(EXTENSION), "{meta}");
    assert_eq!(session.request("tasks/get", json!({"taskId": "x"})).await["error"]["code"], -32601);
}

#[tokio::test]
async fn the_extension_is_declared_where_a_server_has_it() {
    let extensions = async |server: std::sync::Arc<Server>| {
        let world = World::new(vec![server.config("one")], plain()).await;
        let modern = world.modern("server/discover", json!({})).await;
        let legacy = world.legacy().await.hello;
        [&modern["result"], &legacy].map(|hello| hello["capabilities"].get("extensions").cloned())
    };
    assert_eq!(extensions(Server::of(Era::Modern, &["task"])).await, [Some(json!({EXTENSION: {}})), None]);
    assert_eq!(extensions(Server::of(Era::Modern, &["echo"])).await, [None, None]);
}
