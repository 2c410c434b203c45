//! Servers' tools that are named like meta-tools.

use pegboard_discovery::{DialectName, Exposure};
use pegboard_gateway::{GatewaySettings, Profile};
use pegboard_upstream::config::PromptInstructions;
use serde_json::{Value, json};

use super::world::{Server, World, names, settings};

/// Every name of a meta-tool.
fn meta_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = DialectName::ALL.iter().flat_map(|dialect| dialect.meta_names()).copied().collect();
    names.push("tool_search");
    names.sort_unstable();
    names.dedup();
    names
}

/// Arguments that would be others if they were read and written again.
const EXACT: &str = r#"{"name":"nightly", "arguments": {"day": 3.0}, "amount":1.50,"text":"\u00e9"}"#;

#[tokio::test]
async fn a_servers_tool_gets_its_arguments_as_they_were_written() {
    for dialect in DialectName::ALL {
        let server = Server::new(&meta_names());
        let world = World::new(vec![server.config("jobs")], settings(Profile::Dialect(dialect))).await;
        let session = world.legacy().await;
        for name in meta_names() {
            let is_taken =
                dialect.meta_names().contains(&name) || (dialect == DialectName::Ranked && name == "tool_search");
            let shown = if is_taken { format!("jobs__{name}") } else { name.to_owned() };
            assert_eq!(session.call(&shown, EXACT).await, "done", "{dialect:?} {shown}");
            assert_eq!(server.calls().pop(), Some((name.to_owned(), EXACT.to_owned())), "{dialect:?} {shown}");
        }
    }
}

#[tokio::test]
async fn wrapped_arguments_stay_as_they_were_written() {
    let server = Server::new(&["pay"]);
    let world = World::new(vec![server.config("bank")], settings(Profile::default())).await;
    let session = world.legacy().await;
    let check = async |wrapped: &str, expected: &str| {
        assert_eq!(session.call("call_tool", &format!(r#"{{"name":"pay"{wrapped}}}"#)).await, "done", "{wrapped}");
        assert_eq!(server.calls().pop(), Some(("pay".to_owned(), expected.to_owned())));
    };
    check(&format!(r#", "arguments": {EXACT}"#), EXACT).await;
    check("", "{}").await;
    check(r#","arguments":null"#, "{}").await;
    // Some models write the object as text, or put it elsewhere.
    check(r#","arguments":"{\"amount\": 1.50}""#, r#"{"amount": 1.50}"#).await;
    check(r#","args":{"amount": 1.50}"#, r#"{"amount": 1.50}"#).await;
    check(r#","amount": 123456789012345678901234567890"#, r#"{"amount":123456789012345678901234567890}"#).await;
}

#[tokio::test]
async fn where_everything_is_listed_no_tool_gives_its_name_away() {
    let off = || GatewaySettings { exposure: Exposure::Never, ..GatewaySettings::default() };
    for settings in [off(), settings(Profile::Passthrough), GatewaySettings::default()] {
        let server = Server::new(&["call_tool", "search_tools", "other"]);
        let world = World::new(vec![server.config("jobs")], settings).await;
        let session = world.legacy().await;
        assert_eq!(session.names().await, ["call_tool", "search_tools", "other"]);
        assert_eq!(names(&world.modern("tools/list", json!({})).await), ["call_tool", "search_tools", "other"]);
        assert_eq!(session.call("call_tool", EXACT).await, "done");
        let read: Value = serde_json::from_str(EXACT).expect("JSON");
        world.modern("tools/call", json!({"name": "call_tool", "arguments": read})).await;
        let calls = server.calls();
        assert_eq!(calls[0], ("call_tool".to_owned(), EXACT.to_owned()));
        assert_eq!(calls[1].0, "call_tool");
    }
}

#[tokio::test]
async fn meta_tools_that_are_not_listed_answer_those_who_know_them() {
    let server = Server::new(&["send_mail"]);
    let settings = GatewaySettings { exposure: Exposure::Never, ..GatewaySettings::default() };
    let world = World::new(vec![server.config("post")], settings).await;
    let session = world.legacy().await;
    assert_eq!(session.names().await, ["send_mail"]);
    assert!(session.call("search_tools", r#"{"query":"send mail"}"#).await.contains("send_mail("));
    assert_eq!(session.call("call_tool", r#"{"name":"send_mail"}"#).await, "done");
}

#[tokio::test]
async fn instructions_of_the_configuration_are_shown() {
    let mut config = Server::new(&["echo", "other"]).config("one");
    config.prompt_instructions = PromptInstructions {
        all: Some("for anything here".to_owned()),
        tools: [("echo".to_owned(), "when a parrot is needed".to_owned())].into(),
    };
    let world = World::new(vec![config], settings(Profile::Dialect(DialectName::Ranked))).await;
    let session = world.legacy().await;
    let found = session.call("tool_search", r#"{"query":"echo"}"#).await;
    assert!(found.contains("↳ when to use: when a parrot is needed"), "{found}");
    let found = session.call("tool_search", r#"{"query":"other"}"#).await;
    assert!(found.contains("↳ when to use: for anything here"), "{found}");
    let first = world.legacy().await;
    assert!(!first.names().await.contains(&"echo".to_owned()));
}
