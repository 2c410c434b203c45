//! The numbers of a proxy, in `pegboard status`.

use std::process::Command;

use pegboard_testkit::provider::{Provider, Script, Wire};
use serde_json::{Value, json};

use super::{
    RunningProxy,
    conversation::{Conversation, play, turns},
};

/// Runs `pegboard status` with the state folder of a proxy, and returns its exit code and its output.
fn status(proxy: &RunningProxy, configure: impl FnOnce(&mut Command)) -> (i32, String) {
    let mut command = proxy.folder.isolated();
    command.arg("status");
    configure(&mut command);
    let output = command.output().expect("the binary starts");
    let told = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    (output.status.code().unwrap_or(-1), format!("{text}{told}"))
}

#[test]
fn a_proxy_without_a_gateway_is_shown() {
    let provider = Provider::start(Script::new(turns(Wire::Chat, 2)));
    let mut proxy = RunningProxy::start("status_alone", &provider);
    let state = proxy.state();
    let (code, text) = status(&proxy, |command| _ = command.arg("--state").arg(&state));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(&proxy.url) && text.contains("no requests yet"), "{text}");

    let mut conversation = Conversation::new(Wire::Chat, &proxy.url, 200, true);
    play(&mut conversation, 1);
    let (code, text) = status(&proxy, |command| _ = command.args(["--json", "--state"]).arg(&state));
    assert_eq!(code, 0, "{text}");
    let numbers: Value = serde_json::from_str(&text).expect("JSON");
    let route = &numbers["llmProxies"][0]["routes"]["openai"];
    assert_eq!((&numbers["gateways"], &numbers["llmProxies"][0]["endpoint"]), (&json!([]), &json!(proxy.url)));
    let is_counted = |key: &str| route[key].as_f64().is_some_and(|number| number > 0.0);
    for key in ["requests", "toolsIn", "toolsSent", "tokensSaved", "hiddenRounds", "addedMs"] {
        assert!(is_counted(key), "{key} in {route}");
    }
    let (_, text) = status(&proxy, |command| _ = command.arg("--state").arg(&state));
    assert!(text.lines().any(|line| line.starts_with("openai ")), "{text}");

    proxy.stop();
    // The exit code depends on what is at the default address of this machine.
    let (_, text) = status(&proxy, |command| _ = command.arg("--state").arg(&state));
    assert!(!text.contains("LLM API proxy"), "{text}");
}

#[test]
fn the_routes_on_a_gateway_are_shown() {
    let provider = Provider::start(Script::new(turns(Wire::Messages, 2)));
    let proxy = RunningProxy::on_gateway("status_gateway", &provider);
    let mut conversation = Conversation::new(Wire::Messages, &proxy.url, 200, false);
    play(&mut conversation, 1);
    let with_secret = |command: &mut Command| {
        command.args(["--format", "json", "--url", &proxy.url]).env("PEGBOARD_TOKEN", super::OPERATOR);
    };
    let (code, text) = status(&proxy, with_secret);
    assert_eq!(code, 0, "{text}");
    let numbers: Value = serde_json::from_str(&text).expect("JSON");
    assert!(numbers["llmProxy"]["anthropic"]["hiddenRounds"].as_u64().is_some_and(|rounds| rounds > 0), "{numbers}");
    let (_, text) = status(&proxy, |command| {
        command.args(["--url", &proxy.url]).env("PEGBOARD_TOKEN", super::OPERATOR);
    });
    assert!(text.contains("LLM API proxy") && text.contains("anthropic"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_proxy_that_rejects_the_request_is_reported() {
    let provider = Provider::start(Script::new(turns(Wire::Chat, 1)));
    let tokens = json!({"tokens": [{"name": "laptop", "token": "t0ken-of-this-test"}]});
    let proxy = RunningProxy::with_config("status_rejected", &provider, &tokens);
    let state = proxy.state();
    let status = || status(&proxy, |command| _ = command.arg("--state").arg(&state)).1;
    assert!(status().contains(&proxy.url), "its socket needs no token");
    // As on a system without sockets.
    let pid = proxy.process.as_ref().expect("it runs").child.id();
    let entry = state.join("running-proxies").join(format!("{pid}.json"));
    let mut registered: Value = serde_json::from_slice(&std::fs::read(&entry).expect("an entry")).expect("JSON");
    registered["socket"] = Value::Null;
    std::fs::write(&entry, registered.to_string()).expect("written");
    let warning =
        format!("warning: cannot read the numbers of the LLM API proxy at `{}`: a token is required", proxy.url);
    let text = status();
    assert!(text.contains(&warning), "{text}");
}
