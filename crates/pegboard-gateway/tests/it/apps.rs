//! User interfaces of tools (MCP Apps) behind the right server.

use pegboard_mcp::era::Era;
use serde_json::{Value, json};

use super::world::{Server, UI_RESOURCE, World, plain};

fn tool_with_ui(name: &str) -> Value {
    let meta = json!({"ui": {"resourceUri": UI_RESOURCE, "visibility": ["model"]}, "ui/resourceUri": UI_RESOURCE});
    json!({"name": name, "inputSchema": {"type": "object"}, "_meta": meta})
}

async fn ask(world: &World, era: Era, method: &str, params: Value) -> Value {
    let answer = match era {
        Era::Legacy => world.legacy().await.request(method, params).await,
        Era::Modern => world.modern(method, params).await,
    };
    answer["result"].clone()
}

#[tokio::test]
async fn two_servers_with_the_same_interface_are_told_apart() {
    let server = |name: &str| Server::with(vec![tool_with_ui(name), tool_with_ui("return")]);
    let (one, two) = (server("first"), server("second"));
    let world = World::new(vec![one.config("one"), two.config("two")], plain()).await;
    for era in [Era::Legacy, Era::Modern] {
        let listed = ask(&world, era, "tools/list", json!({})).await;
        for (tool, server, expected) in [(0, "one", "first"), (2, "two", "second")] {
            let definition = &listed["tools"][tool];
            assert_eq!(definition["name"], format!("{server}___{expected}"));
            let uri = definition["_meta"]["ui"]["resourceUri"].as_str().expect("a URI");
            assert!(uri.starts_with("ui://"), "{uri}");
            assert_eq!(definition["_meta"]["ui/resourceUri"], uri);
            assert_eq!(definition["_meta"]["ui"]["visibility"], json!(["model"]));
            let read = ask(&world, era, "resources/read", json!({"uri": uri})).await;
            assert_eq!(read["contents"][0]["text"], expected, "{era:?} {uri}");
            assert_eq!(read["contents"][0]["uri"], uri);
            let resources = ask(&world, era, "resources/list", json!({})).await;
            let uris: Vec<&Value> =
                resources["resources"].as_array().into_iter().flatten().map(|one| &one["uri"]).collect();
            assert!(uris.contains(&&json!(uri)), "{uris:?}");

            let result = json!({"content": [], "_meta": {"ui": {"resourceUri": UI_RESOURCE}}});
            let params = json!({"name": format!("{server}___return"), "arguments": {"result": result}});
            let called = ask(&world, era, "tools/call", params).await;
            assert_eq!(called["_meta"]["ui"]["resourceUri"], uri, "{called}");
        }
    }
}

#[tokio::test]
async fn one_server_keeps_its_uris() {
    let definition = tool_with_ui("first");
    let world = World::new(vec![Server::with(vec![definition.clone()]).config("one")], plain()).await;
    for era in [Era::Legacy, Era::Modern] {
        assert_eq!(ask(&world, era, "tools/list", json!({})).await["tools"][0], definition);
        let read = ask(&world, era, "resources/read", json!({"uri": UI_RESOURCE})).await;
        assert_eq!(read["contents"][0]["text"], "first");
    }
}
