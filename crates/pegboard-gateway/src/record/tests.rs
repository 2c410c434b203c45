//! A record alone.

use pegboard_core::Selection;
use pegboard_discovery::Session;
use pegboard_http::Principal;
use serde_json::{Value, json};

use super::*;
use crate::{
    GatewaySettings, lock,
    settings::Profile,
    testing::{self, Server, TestParts},
};

#[tokio::test]
async fn searches_and_calls_are_noted_under_their_conversations() {
    let parts = TestParts::new(vec![Server::new(&["echo"]).config("one")], GatewaySettings::default()).await;
    let path = std::env::temp_dir().join(format!("pegboard-record-{}.jsonl", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let record = Record::default();
    let (recorder, writing) = Recorder::open(path.clone(), 1 << 20).expect("a record");
    assert!(record.begin(recorder));
    record.record_tools(parts.catalog.catalog(), &Selection::everything());

    let shape = Profile::default().shape();
    let view = parts.catalog.view(&parts.setups.current(), &parts.viewer(Caller::Pipe), shape);
    let call = |tools: &mut Session, name: &str, arguments: Value| tools.call(name, &arguments);
    let searched = call(&mut lock(&view.tools), "search_tools", json!({"query": "words"}));
    let called = call(&mut lock(&view.tools), "call_tool", json!({"name": "echo", "arguments": {"a": "private"}}));
    let token = Caller::Token(Principal(3));
    record.record_answer(&testing::exchange(Caller::Anybody, Some((5, true))), &searched);
    record.record_answer(&testing::exchange(Caller::Pipe, None), &searched);
    record.record_answer(&testing::exchange(token, None), &called);
    record.end();
    tokio::task::spawn_blocking(|| writing.finish()).await.expect("it is written");

    let text = std::fs::read_to_string(&path).expect("a record");
    std::fs::remove_file(&path).expect("it was there");
    assert!(!text.contains("private"), "{text}");
    let lines: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    let name = |conversation: &Conversation| {
        let (_, name) = conversation.conversation.split_once('-').expect("the name of a run");
        format!("{name} {}", conversation.is_guess)
    };
    let found: Vec<String> = lines
        .iter()
        .map(|line| match line {
            Line::Begin { format, .. } => format!("begin {format}"),
            Line::Tool(_) => "tool".to_owned(),
            Line::Search(search) => format!("search {} {}", search.query, name(&search.conversation)),
            Line::Call(call) => format!("call {} {}", call.tool, name(&call.conversation)),
        })
        .collect();
    let expected = ["begin 1", "tool", "search words 5 false", "search words pipe false", "call one/echo token3 true"];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn without_a_recorder_nothing_is_noted() {
    let record = Record::default();
    record.record_tools(Catalog::empty(), &Selection::everything());
    record.end();
}
