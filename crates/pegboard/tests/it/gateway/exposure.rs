//! What clients get to see, and how they find the rest.

use serde_json::json;

use super::{Served, fixture, names, text};

const LIST_CHANGED: &str = "notifications/tools/list_changed";

async fn serve_gateway(test: &str) -> Served {
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--tools", "60"])},
        "middleware": [{"type": "tool_search", "enabled": true, "config": {"maxToolsLimit": 10, "debug": true}}]
    });
    Served::start(test, &config).await
}

#[tokio::test]
async fn a_search_exposes_its_hits_to_its_own_session() {
    let served = serve_gateway("exposes").await;
    let (one, two) = (served.legacy().await, served.legacy().await);
    let before = names(&one.request("tools/list", json!({})).await, "tools");
    assert_eq!(before.len(), 11);
    assert_eq!(before.last().map(String::as_str), Some("search_available_tools"));
    let found = one.call("search_available_tools", json!({"query": "audio"})).await;
    assert!(text(&found).starts_with("Found "), "{found:?}");
    assert_eq!(found.told(), [LIST_CHANGED], "on the request's own stream, as there is no other");
    let after = names(&one.request("tools/list", json!({})).await, "tools");
    assert!(after.contains(&"test_audio_content".to_owned()), "{after:?}");
    assert_eq!(names(&two.request("tools/list", json!({})).await, "tools"), before, "another session saw it");
    let again = one.call("search_available_tools", json!({"query": "audio"})).await;
    assert_eq!(again.told(), Vec::<String>::new(), "nothing changed");
    let nothing = one.call("search_available_tools", json!({"query": "zzzzqqqq"})).await;
    assert_eq!(nothing.told(), Vec::<String>::new());
    assert_eq!(names(&one.request("tools/list", json!({})).await, "tools"), after);
    served.logged("🔍 Tool search query: \"audio\"").await;
    for fact in ["   Index size: ", "   Matches before threshold: ", "   Matches after threshold: ", "   Search time: "]
    {
        served.logged(fact).await;
    }
}

#[tokio::test]
async fn an_open_stream_hears_of_the_change_once() {
    let served = serve_gateway("stream").await;
    let session = served.legacy().await;
    let mut stream = session.stream().await;
    let found = session.call("search_available_tools", json!({"query": "image"})).await;
    assert_eq!(found.told(), Vec::<String>::new());
    assert_eq!(stream.message().await["method"], LIST_CHANGED);
    session.call("search_available_tools", json!({"query": "audio"})).await.result();
    assert_eq!(stream.message().await["method"], LIST_CHANGED, "the second message is the second change");
}

#[tokio::test]
async fn modern_clients_get_the_bridge_instead_of_a_stateful_dialect() {
    let served = serve_gateway("fallback").await;
    let listed = served.modern("tools/list", json!({})).await;
    assert_eq!(names(&listed, "tools"), ["search_tools", "call_tool"]);
    served.modern("tools/call", json!({"name": "search_tools", "arguments": {"query": "audio"}})).await.result();
    assert_eq!(served.modern("tools/list", json!({})).await.result(), listed.result(), "the list must not change");
    served.logged("clients of 2026-07-28 get `bridge`").await;
}

#[tokio::test]
async fn a_change_at_a_server_reaches_lists_searches_and_sessions() {
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--extras"])},
        "pegboard": {"dialect": "bridge"}
    });
    let served = Served::start("changes", &config).await;
    let session = served.legacy().await;
    let mut stream = session.stream().await;
    let first = session.request("tools/list", json!({})).await;
    session.call("change_tools", json!({"name": "polish_brass"})).await.result();
    assert_eq!(stream.message().await["method"], LIST_CHANGED, "the search tool counts what is behind it");
    let second = session.request("tools/list", json!({})).await;
    assert_ne!(first.result(), second.result());
    let found = session.call("search_tools", json!({"query": "polish brass"})).await;
    assert!(text(&found).contains("polish_brass"), "{found:?}");
    assert!(!session.call("polish_brass", json!({})).await.raw.contains("no tool"));
}

#[tokio::test]
async fn names_carry_their_server_when_there_are_several() {
    let config = json!({
        "mcpServers": {
            "one": fixture(&["--extras"]),
            "a server with a name that is much too long to be put in front of anything": fixture(&["--extras"])
        },
        "pegboard": {"exposure": "never"}
    });
    let served = Served::start("names", &config).await;
    let session = served.legacy().await;
    let listed = names(&session.request("tools/list", json!({})).await, "tools");
    assert!(listed.contains(&"one___echo".to_owned()));
    let is_fit =
        |name: &String| name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    assert!(listed.iter().all(is_fit), "{listed:?}");
    let long = listed.iter().find(|name| name.contains("echo") && !name.starts_with("one")).expect("listed");
    for name in ["one___echo", long] {
        assert!(text(&session.call(name, json!({"message": name})).await).contains(name));
    }
    let misspelt = session.call("ecoh", json!({})).await;
    assert!(text(&misspelt).contains("one___echo"), "{misspelt:?}");
    let prompts = names(&session.request("prompts/list", json!({})).await, "prompts");
    assert!(prompts.contains(&"one___test_simple_prompt".to_owned()));
    let prompt = session.request("prompts/get", json!({"name": "one___test_simple_prompt"})).await;
    assert!(prompt.result()["messages"].is_array());
    let resources = names(&session.request("resources/list", json!({})).await, "resources");
    assert!(resources.contains(&"one+test://static-text".to_owned()), "{resources:?}");
    for uri in ["one+test://static-text", "one___test://static-text", "one+test://template/5/data"] {
        let read = session.request("resources/read", json!({"uri": uri})).await;
        let shown = read.result()["contents"][0]["uri"].as_str().unwrap_or_default();
        assert!(shown.starts_with("one+test://"), "{uri}: {read:?}");
    }
    let complete = json!({
        "ref": {"type": "ref/prompt", "name": "one___test_prompt_with_arguments"},
        "argument": {"name": "arg1", "value": "t"}
    });
    assert!(session.request("completion/complete", complete).await.result()["completion"]["values"].is_array());
}

#[tokio::test]
async fn long_lists_come_in_pages_and_from_pages() {
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--tools", "100", "--paginate", "7"])},
        "pegboard": {"exposure": "never", "pageSize": 40}
    });
    let served = Served::start("pages", &config).await;
    let session = served.legacy().await;
    let mut all = Vec::new();
    let mut params = json!({});
    loop {
        let page = session.request("tools/list", params.clone()).await;
        assert!(names(&page, "tools").len() <= 40);
        all.extend(names(&page, "tools"));
        match page.result().get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert!(all.len() > 100 && all.contains(&"tool_00099".to_owned()));
    let wrong = session.request("tools/list", json!({"cursor": "nonsense"})).await;
    assert_eq!(wrong.error().0, -32602);
}
