//! What clients get to see, and how they find the rest.

use pegboard_discovery::{DialectName, Exposure, Settings};
use pegboard_gateway::{ClientProfile, GatewaySettings, Profile};
use serde_json::{Value, json};

use super::world::{Legacy, Server, World, methods, names, plain, settings};

const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// A server with many tools, `play_audio` among them.
fn many() -> std::sync::Arc<Server> {
    let others: Vec<String> = (0..60).map(|number| format!("other_{number:02}")).collect();
    let names: Vec<&str> = others.iter().map(String::as_str).chain(["play_audio"]).collect();
    Server::new(&names)
}

fn gateway_settings() -> GatewaySettings {
    let settings = settings(Profile::Dialect(DialectName::Gateway));
    GatewaySettings { discovery: Settings { max_tools_limit: 10, ..settings.discovery.clone() }, ..settings }
}

async fn search(session: &Legacy, query: &str) -> Vec<Value> {
    let params = json!({"name": "search_available_tools", "arguments": {"query": query}});
    session.messages("tools/call", params).await
}

#[tokio::test]
async fn a_search_exposes_its_hits_to_its_own_session() {
    let world = World::new(vec![many().config("many")], gateway_settings()).await;
    let (one, two) = (world.legacy().await, world.legacy().await);
    let before = one.names().await;
    assert_eq!((before.len(), before.last().map(String::as_str)), (11, Some("search_available_tools")));
    let found = search(&one, "audio").await;
    assert_eq!(methods(&found), [LIST_CHANGED], "on the request's own stream, as there is no other");
    assert!(found[1]["result"]["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("Found 1 ")));
    let after = one.names().await;
    assert_eq!(after, ["play_audio", "search_available_tools"]);
    assert_eq!(two.names().await, before, "another session saw it");
    assert_eq!(methods(&search(&one, "audio").await), Vec::<&str>::new(), "nothing changed");
    assert_eq!(methods(&search(&one, "zzzzqqqq").await), Vec::<&str>::new());
    assert_eq!(one.names().await, after);
}

#[tokio::test]
async fn an_open_stream_gets_each_change_once() {
    let server = many();
    server.add_tool("show_image");
    let world = World::new(vec![server.config("many")], gateway_settings()).await;
    let session = world.legacy().await;
    let mut stream = session.stream().await;
    assert_eq!(methods(&search(&session, "image").await), Vec::<&str>::new());
    assert_eq!(stream.message().await["method"], LIST_CHANGED);
    assert_eq!(session.names().await, ["show_image", "search_available_tools"]);
    search(&session, "audio").await;
    assert_eq!(stream.message().await["method"], LIST_CHANGED, "the second message is the second change");
    assert_eq!(session.names().await, ["play_audio", "search_available_tools"]);
}

#[tokio::test]
async fn a_change_at_a_server_reaches_lists_searches_and_sessions() {
    let server = Server::new(&["echo"]);
    let world = World::new(vec![server.config("one")], settings(Profile::Dialect(DialectName::Bridge))).await;
    let session = world.legacy().await;
    let mut stream = session.stream().await;
    let first = session.request("tools/list", json!({})).await;
    server.add_tool("polish_brass");
    assert_eq!(stream.message().await["method"], LIST_CHANGED, "the search tool counts the tools behind it");
    let second = session.request("tools/list", json!({})).await;
    assert_ne!(first["result"], second["result"]);
    let found = session.call("search_tools", r#"{"query":"polish brass"}"#).await;
    assert!(found.contains("polish_brass("), "{found}");
    assert_eq!(session.call("polish_brass", "{}").await, "done");
}

#[tokio::test]
async fn clients_without_sessions_get_a_list_that_does_not_change() {
    let check = async |dialect: DialectName, search: &str, meta: &[&str]| {
        let settings = GatewaySettings { profile: Profile::Dialect(dialect), ..gateway_settings() };
        let world = World::new(vec![many().config("many")], settings).await;
        let listed = world.modern("tools/list", json!({})).await;
        let shown = names(&listed);
        assert_eq!(shown[shown.len() - meta.len()..], *meta, "{dialect:?}");
        let found = world.modern("tools/call", json!({"name": search, "arguments": {"query": "audio"}})).await;
        let text = found["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains("play_audio("), "{dialect:?}: the signature of what was found is missing: {text}");
        let call = json!({"name": "call_tool", "arguments": {"name": "play_audio", "arguments": {}}});
        let called = world.modern("tools/call", call).await;
        assert_eq!(called["result"]["content"][0]["text"], "done", "{dialect:?}");
        assert_eq!(world.modern("tools/list", json!({})).await, listed, "{dialect:?}");
        shown.len()
    };
    let limited = check(DialectName::Gateway, "search_available_tools", &["call_tool", "search_available_tools"]).await;
    assert_eq!(limited, 12, "the first ten tools, and two more");
    assert_eq!(check(DialectName::Ranked, "tool_search", &["tool_search", "call_tool"]).await, 2);
    for dialect in [DialectName::Bridge, DialectName::Explicit, DialectName::Select, DialectName::Schema] {
        assert_eq!(check(dialect, "search_tools", &["search_tools", "call_tool"]).await, 2);
    }
}

#[tokio::test]
async fn profiles_by_client() {
    let profile = |client: &str, profile| ClientProfile { client: client.to_owned(), profile };
    let clients = vec![profile("te*", Profile::Passthrough), profile("*", Profile::Dialect(DialectName::Select))];
    let world = World::new(vec![many().config("many")], GatewaySettings { clients, ..gateway_settings() }).await;
    assert_eq!(world.legacy().await.names().await.len(), 61, "the first entry that fits");
}

#[tokio::test]
async fn a_bare_search_is_answered_in_every_dialect() {
    let all = DialectName::ALL.map(Profile::Dialect).into_iter().chain([Profile::Passthrough]);
    for profile in all {
        let world = World::new(vec![many().config("many")], settings(profile)).await;
        let params = json!({"name": "search_available_tools", "arguments": {"query": "audio"}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let (status, headers, answers) = world.post(&[("accept", "*/*")], &body).await;
        assert_eq!((status, headers["content-type"].to_str().ok()), (200, Some("application/json")), "{profile:?}");
        let text = answers[0]["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("Found 1 matching tools:\n\n1. play_audio"), "{profile:?}: {answers:?}");
    }
}

#[tokio::test]
async fn hidden_tools_can_be_called_and_mistakes_are_explained() {
    let schema = json!({"type": "object", "properties": {"ms": {"type": "integer"}}});
    let server = Server::with(vec![json!({"name": "sleep", "inputSchema": schema})]);
    let world = World::new(vec![server.config("s")], settings(Profile::default())).await;
    let session = world.legacy().await;
    assert_eq!(session.names().await, ["search_tools", "call_tool"]);
    assert_eq!(session.call("sleep", r#"{"ms":1}"#).await, "done");
    assert!(session.call("slepe", "{}").await.contains("nearest names: sleep"));
    assert!(session.call("sleep", r#"{"ms":"long"}"#).await.contains("schema: {"));
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn lists_come_in_pages() {
    let page = GatewaySettings { exposure: Exposure::Never, page_size: 40, ..GatewaySettings::default() };
    let world = World::new(vec![many().config("many")], page).await;
    let session = world.legacy().await;
    let first = session.request("tools/list", json!({})).await;
    assert_eq!((names(&first).len(), first["result"]["nextCursor"].as_str()), (40, Some("40")));
    let second = session.request("tools/list", json!({"cursor": "40"})).await;
    assert_eq!((names(&second).len(), second["result"].get("nextCursor")), (21, None));
    assert_eq!(names(&second).last().map(String::as_str), Some("play_audio"), "the server has pages too");
    for wrong in [json!("nonsense"), json!("0"), json!("61"), json!(7)] {
        let refused = session.request("tools/list", json!({"cursor": wrong})).await;
        assert_eq!(refused["error"]["code"], -32602, "{wrong}");
    }
}

#[tokio::test]
async fn resources_in_results_lead_to_their_server() {
    let servers = ["one", "two"].map(|name| Server::new(&["link"]).config(name));
    let world = World::new(servers.into(), plain()).await;
    let session = world.legacy().await;
    let params = json!({"name": "two___link", "arguments": {}});
    let content = session.request("tools/call", params).await["result"]["content"].clone();
    assert_eq!(content[0]["uri"], "two+toy://text");
    assert_eq!(content[1]["resource"], json!({"uri": "two+toy://text", "text": "hello"}));
    let messages = session.request("prompts/get", json!({"name": "two___greet"})).await["result"]["messages"].clone();
    assert_eq!(messages[1]["content"]["uri"], "two+toy://text");
    assert_eq!(messages[2]["content"]["resource"], json!({"uri": "two+toy://text", "text": "hello"}));
}

#[tokio::test]
async fn names_carry_their_server_when_there_are_several() {
    let (one, long) = (Server::new(&["echo"]), "a server with a name that is much too long to be put in front of it");
    let servers = vec![one.config("one"), Server::new(&["echo"]).config(long)];
    let never = GatewaySettings { exposure: Exposure::Never, ..GatewaySettings::default() };
    let world = World::new(servers, never).await;
    let session = world.legacy().await;
    let listed = session.names().await;
    assert_eq!(listed[0], "one___echo");
    assert!(
        listed
            .iter()
            .all(|name| name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'))
    );
    for name in &listed {
        assert_eq!(session.call(name, "{}").await, "done", "{name}");
    }
    assert!(session.call("ecoh", "{}").await.contains("one___echo"));
    let prompts = session.request("prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"][0]["name"], "one___greet");
    let resources = session.request("resources/list", json!({})).await;
    assert_eq!(resources["result"]["resources"][0]["uri"], "one+toy://text");
    let prompt = session.request("prompts/get", json!({"name": "one___greet"})).await;
    assert_eq!(prompt["result"]["messages"][0]["name"], "greet");
    let unknown = session.request("prompts/get", json!({"name": "one___gret"})).await;
    assert!(unknown["error"]["message"].as_str().is_some_and(|text| text.contains("one___greet")));
    for (uri, shown) in [
        ("one+toy://text", "one+toy://text"),
        ("one___toy://text", "one+toy://text"),
        ("one+toy://numbers/5", "one+toy://numbers/5"),
    ] {
        let read = session.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["result"]["contents"][0]["uri"], shown, "{uri}");
    }
    let reference =
        json!({"ref": {"type": "ref/prompt", "name": "one___greet"}, "argument": {"name": "a", "value": ""}});
    let completed = session.request("completion/complete", reference).await;
    assert_eq!(completed["result"]["completion"]["values"][0]["ref"]["name"], "greet");
}

#[tokio::test]
async fn a_missing_resource_has_the_code_of_each_version() {
    let world = World::new(vec![Server::new(&["echo"]).config("one")], GatewaySettings::default()).await;
    let session = world.legacy().await;
    let legacy = session.request("resources/read", json!({"uri": "toy://none"})).await;
    assert_eq!(legacy["error"]["code"], -32002);
    let (status, _, mut messages) =
        world.modern_messages(None, "resources/read", json!({"uri": "toy://none"}), &[]).await;
    let modern = messages.pop().expect("a response");
    assert_eq!(status, 400);
    assert_eq!(
        (modern["error"]["code"].as_i64(), &modern["error"]["data"]["uri"]),
        (Some(-32602), &json!("toy://none"))
    );
}

#[tokio::test]
async fn definitions_of_the_wrong_types_are_corrected() {
    let tools = vec![
        json!({"name": "kind", "inputSchema": {"type": "string"}}),
        json!({"name": "kinds", "inputSchema": {"type": ["object", "null"]}, "description": 5}),
        json!({"name": "list", "inputSchema": {"type": "object", "properties": [], "required": null}}),
        json!({"name": "words", "inputSchema": {"type": "object"}, "annotations": "none", "title": {}, "_meta": 1}),
    ];
    let world = World::new(vec![Server::with(tools).config("one")], plain()).await;
    let listed = world.legacy().await.request("tools/list", json!({})).await;
    assert_eq!(names(&listed), ["kind", "kinds", "list", "words"]);
    for tool in listed["result"]["tools"].as_array().expect("a list") {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        let is_gone = |key: &str| tool.get(key).is_none() && tool["inputSchema"].get(key).is_none();
        assert!(["annotations", "title", "_meta", "properties", "required"].iter().all(|key| is_gone(key)), "{tool}");
        assert!(tool.get("description").is_none_or(Value::is_string), "{tool}");
    }
}
