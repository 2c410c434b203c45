//! Calls on their way: rules, limits, failures, cancellation and shutdown.

use pegboard_discovery::{
    DialectName,
    policy::{Middleware, NamePattern, Policies, SecurityRule},
};
use pegboard_gateway::{GatewaySettings, Profile};
use serde_json::json;

use super::world::{Server, World, plain, read, settings, until};

fn filter(allow: &[&str], deny: &[&str]) -> Middleware {
    let patterns = |names: &[&str]| names.iter().map(|name| NamePattern::new(name).expect("a pattern")).collect();
    Middleware::ToolFilter { allow: patterns(allow), deny: patterns(deny) }
}

#[tokio::test]
async fn filters_hide_and_refuse() {
    let policies = Policies {
        general: vec![filter(&["^test_", "echo"], &["*_content"])],
        by_server: vec![("two".to_owned(), vec![filter(&["^echo$"], &[])])],
    };
    let tools = ["test_text", "test_content", "echo", "exit"];
    let servers = vec![Server::new(&tools).config("one"), Server::new(&tools).config("two")];
    let world = World::new(servers, GatewaySettings { policies, ..plain() }).await;
    let session = world.legacy().await;
    assert_eq!(session.names().await, ["one___test_text", "one___echo", "two___echo"]);
    for hidden in ["one___test_content", "two___test_text", "exit"] {
        assert!(session.call(hidden, "{}").await.contains("no tool"), "{hidden}");
    }
}

#[tokio::test]
async fn rules_forbid_calls_before_arguments_are_looked_at() {
    let rule = SecurityRule {
        name: "no-passwords".to_owned(),
        pattern: regex::Regex::new("/etc/passwd").expect("a pattern"),
        message: "not that file".to_owned(),
    };
    let policies = Policies {
        general: vec![
            Middleware::Security { rules: vec![rule], is_logged: true },
            Middleware::DescriptionEnricher { prefix: String::new(), suffix: " (checked)".to_owned() },
        ],
        by_server: Vec::new(),
    };
    let schema = json!({"type": "object", "required": ["mode"]});
    let server = Server::with(vec![json!({"name": "read", "description": "Reads", "inputSchema": schema})]);
    let world = World::new(vec![server.config("files")], GatewaySettings { policies, ..plain() }).await;
    let session = world.legacy().await;
    for (tool, arguments) in [
        ("read", r#"{"path":"/etc/passwd"}"#),
        ("call_tool", r#"{"name":"read","arguments":{"path":"/etc/passwd"}}"#),
        ("call_tool", r#"{"name":"read","arguments":"{\"path\":\"/etc/passwd\"}"}"#),
    ] {
        let refused = session.call(tool, arguments).await;
        assert!(refused.contains("-32602") && refused.contains("not that file"), "{refused}");
    }
    assert!(session.call("read", r#"{"path":"/tmp"}"#).await.contains("mode"), "the schema comes next");
    assert!(server.calls().is_empty());
    let listed = session.request("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"][0]["description"], "Reads (checked)");
}

#[tokio::test]
async fn failures_are_told_to_whom_they_concern() {
    let world = World::new(vec![Server::new(&["fail", "refuse", "link"]).config("one")], plain()).await;
    let session = world.legacy().await;
    let result = async |name: &str| session.request("tools/call", json!({"name": name})).await;
    assert_eq!(result("fail").await["result"]["isError"], true);
    assert_eq!(result("refuse").await["error"]["message"], "no such thing");
    assert_eq!(result("link").await["result"]["content"][0]["uri"], "toy://text");
    assert!(result("link").await["result"].get("resultType").is_none(), "the form of this version");
    let modern = world.modern("tools/call", json!({"name": "fail", "arguments": {}})).await;
    assert_eq!((&modern["result"]["resultType"], &modern["result"]["isError"]), (&json!("complete"), &json!(true)));
}

#[tokio::test]
async fn a_shutdown_cuts_calls() {
    let server = Server::new(&["wait"]);
    let world = World::new(vec![server.config("one")], plain()).await;
    let session = world.legacy().await;
    let cut = async {
        until("all run", async || server.calls().len() == 3).await;
        world.gateway.cut_calls();
    };
    let legacy = session.request("tools/call", json!({"name": "wait"}));
    let modern = world.modern("tools/call", json!({"name": "wait", "arguments": {}}));
    let batch = json!([
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "wait"}}
    ]);
    let (legacy, modern, batch, ()) = tokio::join!(legacy, modern, session.send(&batch), cut);
    let batch = read(batch).await.2.pop().unwrap_or_default();
    assert_eq!((&batch[0]["id"], &batch[0]["result"]), (&json!("a"), &json!({})));
    let expected =
        "server `one`: the gateway is shutting down; the call was interrupted and may or may not have taken effect";
    for answer in [&legacy, &modern, &batch[1]] {
        assert_eq!((&answer["error"]["code"], &answer["error"]["message"]), (&json!(-32603), &json!(expected)));
    }
}

#[tokio::test]
async fn keys_that_are_given_twice_are_refused() {
    let rule = SecurityRule {
        name: "rm".to_owned(),
        pattern: regex::Regex::new("rm -rf").expect("a pattern"),
        message: "no".to_owned(),
    };
    let general = vec![filter(&[], &["secret"]), Middleware::Security { rules: vec![rule], is_logged: false }];
    let policies = Policies { general, by_server: Vec::new() };
    let server = Server::new(&["echo", "secret"]);
    let bridge = settings(Profile::Dialect(DialectName::Bridge));
    let world = World::new(vec![server.config("one")], GatewaySettings { policies, ..bridge }).await;
    for params in [
        r#"{"name":"echo","arguments":{},"name":"secret"}"#,
        r#"{"name":"echo","arguments":{"message":"fine"},"arguments":{"message":"rm -rf /"}}"#,
        r#"{"name":"echo","arguments":{"message":"fine","message":"rm -rf /"}}"#,
        r#"{"name":"call_tool","arguments":{"name":"echo","arguments":{"m":"rm -rf /"},"arguments":{"m":1}}}"#,
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let answer = read(world.send_text(None, &[], &body).await).await.2.pop().unwrap_or_default();
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    assert!(server.calls().is_empty());
}
