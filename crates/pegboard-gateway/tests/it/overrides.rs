//! Settings of single tools: one name and one definition in every list, search and call.

use std::sync::Arc;

use pegboard_core::Annotations;
use pegboard_discovery::DialectName;
use pegboard_gateway::Profile;
use pegboard_upstream::config::{AlwaysLoad, ServerConfig, ToolOverride};
use serde_json::{Value, json};

use super::world::{Server, World, names, plain, settings, tool};

fn renamed(name: &str) -> ToolOverride {
    ToolOverride { name: Some(name.to_owned()), ..ToolOverride::default() }
}

fn with_overrides(server: &Arc<Server>, name: &str, overrides: &[(&str, ToolOverride)]) -> ServerConfig {
    let mut config = server.config(name);
    config.overrides = overrides.iter().map(|(tool, changes)| ((*tool).to_owned(), changes.clone())).collect();
    config
}

#[tokio::test]
async fn a_renamed_tool_has_one_name_everywhere() {
    for (dialect, servers) in [(DialectName::Bridge, 1), (DialectName::Bridge, 2), (DialectName::Explicit, 2)] {
        let server = Server::new(&["create_issue", "list_issues"]);
        let configs = [with_overrides(&server, "desk", &[("create_issue", renamed("open_ticket"))])];
        let other = Server::new(&["send_mail"]).config("post");
        let configs = configs.into_iter().chain([other]).take(servers).collect();
        let world = World::new(configs, settings(Profile::Dialect(dialect))).await;
        let session = world.legacy().await;
        let shown = if servers == 1 { "open_ticket" } else { "desk___open_ticket" };
        let found = session.call("search_tools", r#"{"query":"open_ticket"}"#).await;
        assert!(found.contains(shown) && !found.contains("create_issue("), "{found}");
        for spelling in [shown, "open_ticket", "desk__open_ticket", "desk/open_ticket", "OpenTicket"] {
            let answer = session.call(spelling, "{}").await;
            assert_eq!(answer, "done", "{spelling}");
            assert_eq!(server.calls().pop().map(|(name, _)| name).as_deref(), Some("create_issue"));
        }
        // The name at the server means nothing any more, but leads to the new one.
        for spelling in ["create_issue", "desk___create_issue", "desk/create_issue"] {
            let answer = session.call(spelling, "{}").await;
            assert!(answer.contains("no tool") && answer.contains(shown), "{spelling}: {answer}");
        }
        assert_eq!(server.calls().len(), 5);
    }
}

#[tokio::test]
async fn lists_show_what_the_settings_say() {
    let mut read = tool("read", "Reads");
    read["annotations"] = json!({"destructiveHint": true});
    let server = Server::with(vec![read, tool("wipe", "Wipes"), tool("other", "Other")]);
    let changes = ToolOverride {
        title: Some("Read a page".to_owned()),
        description: Some("Reads one page of the handbook".to_owned()),
        annotations: Annotations { read_only: Some(true), destructive: Some(false), ..Annotations::default() },
        ..ToolOverride::default()
    };
    let hidden = ToolOverride { is_hidden: true, ..ToolOverride::default() };
    let config = with_overrides(&server, "book", &[("read", changes), ("wipe", hidden)]);
    let world = World::new(vec![config], plain()).await;
    let session = world.legacy().await;
    for list in [session.request("tools/list", json!({})).await, world.modern("tools/list", json!({})).await] {
        assert_eq!(names(&list), ["read", "other"]);
        let read: &Value = &list["result"]["tools"][0];
        assert_eq!(read["title"], "Read a page");
        assert_eq!(read["description"], "Reads one page of the handbook");
        assert_eq!(read["annotations"], json!({"destructiveHint": false, "readOnlyHint": true}));
    }
    let answer = session.call("wipe", "{}").await;
    assert!(answer.contains("no tool `wipe`") && server.calls().is_empty(), "{answer}");
}

#[tokio::test]
async fn a_server_cannot_keep_its_tools_listed_by_itself() {
    let mut first = tool("first", "First");
    first["_meta"] = json!({"anthropic/alwaysLoad": true});
    let server = Server::with(vec![first, tool("second", "Second")]);
    let check = async |config: ServerConfig, expected: &[&str]| {
        let world = World::new(vec![config], settings(Profile::default())).await;
        let listed = world.legacy().await.names().await;
        let meta: Vec<&str> = listed.iter().map(String::as_str).filter(|name| !name.contains("_tool")).collect();
        assert_eq!(meta, expected, "{listed:?}");
    };
    let trusting = |max_tokens: usize| {
        let mut config = server.config("one");
        config.always_load = AlwaysLoad { is_trusted: true, max_tokens };
        config
    };
    check(server.config("one"), &[]).await;
    check(trusting(2_000), &["first"]).await;
    check(trusting(3), &[]).await;
    let shown = ToolOverride { always_show: Some(true), ..ToolOverride::default() };
    check(with_overrides(&server, "one", &[("second", shown)]), &["second"]).await;
}

#[tokio::test]
async fn a_summary_is_read_by_models() {
    let mut config = Server::new(&["log", "diff"]).config("git");
    config.summary = Some("history of our monorepo".to_owned());
    let world = World::new(vec![config], settings(Profile::default())).await;
    let session = world.legacy().await;
    let instructions = session.hello["instructions"].as_str().unwrap_or_default().to_owned();
    assert!(instructions.contains("- git (history of our monorepo)"), "{instructions}");
    let list = session.request("tools/list", json!({})).await;
    let description = list["result"]["tools"][0]["description"].as_str().unwrap_or_default();
    assert!(description.contains("git 2 (history of our monorepo)"), "{description}");
}
