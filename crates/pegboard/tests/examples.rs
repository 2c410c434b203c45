//! The examples do what they say.

#![cfg(feature = "agent")]

#[path = "../examples/agent.rs"]
mod agent;
#[path = "../examples/own_loop.rs"]
mod own_loop;
#[path = "../examples/search.rs"]
mod search;
#[path = "../examples/session.rs"]
mod session;

#[test]
fn a_catalog_is_searched() {
    assert_eq!(search::run("weather in Rome").expect("hits").first().map(String::as_str), Some("get_weather"));
    assert_eq!(search::run("unpaid invoices").expect("hits").first().map(String::as_str), Some("list_invoices"));
}

#[test]
fn a_session_loads_what_it_finds() {
    assert_eq!(session::run().expect("names"), ["tool_search", "get_weather"]);
}

#[test]
fn a_loop_finds_its_tool() {
    assert_eq!(own_loop::run().expect("an answer"), "It is sunny in Rome.");
}

#[tokio::test]
async fn an_agent_calls_a_function() {
    if std::env::var("ANTHROPIC_API_KEY").is_err() {
        assert_eq!(agent::run().await.expect("an answer"), "It is sunny in Rome.");
    }
}
