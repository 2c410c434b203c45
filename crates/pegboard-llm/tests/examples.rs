//! The examples run: programs that keep their own loop and use tool search alone.
#![allow(clippy::duplicate_mod, reason = "each example is a program of its own, with the same helpers")]

#[path = "../examples/anthropic.rs"]
mod anthropic;
#[path = "../examples/chat.rs"]
mod chat;
#[path = "../examples/gemini.rs"]
mod gemini;
#[path = "../examples/responses.rs"]
mod responses;

use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn};
use serde_json::json;

fn provider() -> Provider {
    let turns = [
        ScriptedTurn::say([Part::call("tool_search", json!({"query": "weather"}))]),
        ScriptedTurn::say([Part::call("get_weather", json!({"city": "Rome"}))]),
        ScriptedTurn::say([Part::text("Sunny.")]),
    ];
    Provider::start(Script::new(turns).forbid("get_weather", 1).forbid("send_mail", 9))
}

#[tokio::test]
async fn loops_of_ones_own() {
    let question = "What is the weather in Rome?";
    let server = provider();
    assert_eq!(anthropic::run(server.url(), "key", question).await.expect("an answer"), "Sunny.");
    server.assert_clean();
    let server = provider();
    assert_eq!(chat::run(&format!("{}/v1", server.url()), "key", question).await.expect("an answer"), "Sunny.");
    server.assert_clean();
    let server = provider();
    assert_eq!(responses::run(&format!("{}/v1", server.url()), "key", question).await.expect("an answer"), "Sunny.");
    server.assert_clean();
    let server = provider();
    assert_eq!(gemini::run(&format!("{}/v1beta", server.url()), "key", question).await.expect("an answer"), "Sunny.");
    server.assert_clean();
}
