//! A forwarder alone.

use pegboard_mcp::{era::Era, json::raw};
use serde_json::json;

use super::*;
use crate::{
    CallLimits, GatewaySettings,
    caller::Caller,
    testing::{self, Server, TestParts, wait_until},
};

fn call(tool: &str) -> Forward {
    let params = Fields::new().with("name", tool).with("arguments", &json!({}));
    Forward { server: "one".into(), method: "tools/call", params, name: Some(tool.to_owned()), mirrored: Vec::new() }
}

/// The text of a result.
fn text(forwarded: &Forwarded) -> String {
    let result: serde_json::Value = serde_json::from_str(forwarded.result.get()).expect("JSON");
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_call_reaches_its_server_and_failures_come_back() {
    let server = Server::of(Era::Legacy, &["echo", "refuse"]);
    let parts = TestParts::new(vec![server.config("one")], GatewaySettings::default()).await;
    let (forwarder, exchange) = (parts.forwarder(), testing::exchange(Caller::Pipe, None));
    let done = forwarder.forward(&exchange, call("echo")).await.expect("a result");
    assert_eq!((text(&done).as_str(), done.era, done.is_resource), ("done", Era::Legacy, false));
    let refused = forwarder.forward(&exchange, call("refuse")).await.expect_err("a refusal");
    assert_eq!(refused.into_rpc("one").message, "no such thing");
    let elsewhere = Forward { server: "two".into(), ..call("echo") };
    let gone = forwarder.forward(&exchange, elsewhere).await.expect_err("a failure");
    assert_eq!(gone.into_rpc("two").message, "the server was removed from the configuration");
    assert_eq!(server.called(), ["echo", "refuse"]);
}

#[tokio::test]
async fn limits_of_the_caller_hold() {
    let limits = CallLimits { per_minute: 1, ..CallLimits::default() };
    let server = Server::new(&["echo"]);
    let settings = GatewaySettings { limits, ..GatewaySettings::default() };
    let parts = TestParts::new(vec![server.config("one")], settings).await;
    let (forwarder, exchange) = (parts.forwarder(), testing::exchange(Caller::Anybody, None));
    assert!(forwarder.forward(&exchange, call("echo")).await.is_ok());
    let refused = forwarder.forward(&exchange, call("echo")).await.expect_err("a refusal");
    assert_eq!(refused.reject_reason(), Some(RejectReason::Rate));
    assert!(refused.into_rpc("one").message.starts_with("request not sent: rate limit reached: 1 calls per minute"));
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn a_shutdown_cuts_running_and_later_calls() {
    let server = Server::new(&["wait"]);
    let parts = TestParts::new(vec![server.config("one")], GatewaySettings::default()).await;
    let (forwarder, exchange) = (parts.forwarder(), testing::exchange(Caller::Pipe, None));
    let cut = async {
        wait_until("the call runs", || !server.calls().is_empty()).await;
        parts.shutdown.cutting.send_replace(true);
    };
    let (running, ()) = tokio::join!(forwarder.forward(&exchange, call("wait")), cut);
    let later = forwarder.forward(&exchange, call("wait")).await;
    assert!(matches!((running, later), (Err(ForwardError::Cut), Err(ForwardError::Cut))));
}

#[tokio::test]
async fn a_suspended_call_goes_on_with_the_answer_of_its_caller() {
    let server = Server::of(Era::Legacy, &["ask"]);
    let parts = TestParts::new(vec![server.config("one")], GatewaySettings::default()).await;
    let forwarder = parts.forwarder();
    let capabilities = raw(&json!({"elicitation": {}}));
    let exchange = |caller| Exchange { capabilities: capabilities.clone(), ..testing::exchange(caller, None) };
    let asked = forwarder.forward(&exchange(Caller::Pipe), call("ask")).await.expect("a question");
    assert!(is_input_required(&asked.result));
    let asked = Fields::of(&asked.result).expect("an object");
    let state = asked.get("requestState").expect("a state").to_owned();
    let key = asked.object("inputRequests").expect("questions").iter().next().map(|(key, _)| key.to_owned());
    let mut again = call("ask");
    again.params.set("requestState", state);
    again.params.set("inputResponses", raw(&json!({key.expect("a question"): {"action": "decline"}})));
    let stolen = forwarder.forward(&exchange(Caller::Anybody), again.clone()).await;
    assert!(matches!(stolen, Err(ForwardError::Rpc(_))), "the call of another caller");
    let mut other = again.clone();
    other.params.set("arguments", raw(&json!({"more": 1})));
    assert!(matches!(forwarder.forward(&exchange(Caller::Pipe), other).await, Err(ForwardError::Rpc(_))));
    let done = forwarder.forward(&exchange(Caller::Pipe), again.clone()).await.expect("a result");
    assert!(text(&done).contains("decline"));
    assert!(forwarder.forward(&exchange(Caller::Pipe), again).await.is_err(), "once");
    assert_eq!(server.called(), ["ask"]);
}
