//! Who may use the proxy, and what nobody gets to see.

use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn, Wire};
use serde_json::json;

use super::{
    RunningProxy,
    client::{HEADERS, send},
    conversation::{Conversation, WIRES, play, turns},
};
use crate::harness::Folder;

const TOKEN: &str = "t0ken-of-this-test";
const KEY: &str = "k3y-of-this-test";

fn answers() -> Script {
    Script { repeat: true, ..Script::new([ScriptedTurn::say([Part::text("ok")])]) }
}

#[test]
fn an_open_relay_does_not_start() {
    let provider = Provider::start(answers());
    let folder = Folder::new("proxy_relay");
    let upstream = format!("openai={}/v1", provider.url());
    let output = folder
        .isolated()
        .args(["proxy", "--listen", "0.0.0.0:0", "--state", "none", "--upstream", &upstream])
        .output()
        .expect("the binary starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("token") && told.contains("hint:"), "{told}");
}

#[test]
fn tokens_are_asked_for_outside_loopback_and_stay_here() {
    let provider = Provider::start(answers());
    let section = json!({"listen": "0.0.0.0:0", "tokens": [{"name": "laptop", "token": TOKEN}]});
    let folder = Folder::new("proxy_tokens_config");
    folder.file("x.json", json!({"mcpServers": {}, "pegboard": {"proxy": section}}).to_string());
    let config = folder.path().join("x.json").to_string_lossy().into_owned();
    let options = ["--listen", "0.0.0.0:0", "--config", &config];
    let mut proxy = RunningProxy::with_options("tokens", &provider, &options);
    let url = proxy.url.replace("0.0.0.0", "127.0.0.1");
    let body = json!({"model": "gpt-5.4", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let ask = |path: &str, more: &[(&str, &str)]| {
        let headers = [HEADERS.as_slice(), more].concat();
        let mut answer = send(&url, "POST", path, &headers, body.as_bytes());
        answer.finish();
        answer.status
    };
    let path = "/openai/v1/chat/completions";
    assert_eq!(ask(path, &[]), 401);
    assert_eq!(ask(path, &[("x-pegboard-token", "another")]), 401);
    assert_eq!(ask("/token/another/openai/v1/chat/completions", &[]), 401);
    assert!(provider.requests().is_empty(), "nothing has left the machine");
    assert_eq!(ask(path, &[("x-pegboard-token", TOKEN)]), 200);
    assert_eq!(ask(&format!("/token/{TOKEN}{path}"), &[]), 200);
    for recorded in provider.requests() {
        assert_eq!(recorded.path, "/v1/chat/completions");
        assert!(recorded.header("x-pegboard-token").is_none());
    }
    let logged = proxy.logged();
    assert!(!logged.contains(TOKEN), "{logged}");
}

#[test]
fn configured_tokens_are_asked_for_on_loopback_too() {
    let provider = Provider::start(answers());
    let section = json!({"tokens": [{"name": "laptop", "token": TOKEN}]});
    let proxy = RunningProxy::with_config("loopback_tokens", &provider, &section);
    let mut conversation = Conversation::new(Wire::Chat, &proxy.url, 1, false);
    let body = conversation.say("hi").body.to_string();
    let ask = |method: &str, path: &str, more: &[(&str, &str)]| {
        let headers = [HEADERS.as_slice(), more].concat();
        let mut answer = send(&proxy.url, method, path, &headers, body.as_bytes());
        answer.finish();
        answer.status
    };
    assert_eq!(ask("POST", &conversation.path, &[]), 401);
    assert_eq!(ask("GET", "/proxy/status", &[]), 401);
    assert!(provider.requests().is_empty(), "nothing has left the machine");
    assert_eq!(ask("POST", &conversation.path, &[("x-pegboard-token", TOKEN)]), 200);
    assert_eq!(ask("GET", "/proxy/status", &[("x-pegboard-token", TOKEN)]), 200);
}

#[test]
fn keys_are_in_no_log_and_in_no_state() {
    let provider = Provider::start(Script { repeat: true, ..Script::new(turns(Wire::Chat, 2)) });
    let mut proxy = RunningProxy::start("secrets", &provider);
    let headers: Vec<(&str, String)> =
        HEADERS.iter().map(|(name, value)| (*name, value.replace("a-key", KEY))).collect();
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut conversation = Conversation::new(Wire::Chat, &proxy.url, 200, true);
    play(&mut conversation, 1);
    conversation.say("and another");
    let body = conversation.body.to_string();
    for path in [conversation.path.as_str(), "/openai/v1/none"] {
        send(&proxy.url, "POST", path, &headers, body.as_bytes()).finish();
    }
    let gemini = format!("/gemini/v1beta/models/gemini-3-pro:generateContent?key={KEY}&x=y");
    send(&proxy.url, "POST", &gemini, &HEADERS, b"{}").finish();
    assert!(provider.requests().iter().any(|recorded| recorded.path.contains(&format!("key={KEY}"))), "it is sent");
    let logged = proxy.logged();
    assert!(!logged.contains(KEY), "{logged}");
    let mut files = vec![proxy.folder.path().to_owned()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        for secret in [KEY, "Done with"] {
            let is_in = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!is_in, "`{secret}` is in {}", path.display());
        }
    }
}

#[test]
fn another_key_does_not_find_the_hidden_turns() {
    for wire in WIRES {
        let provider = Provider::start(Script::new(turns(wire, 2)));
        let proxy = RunningProxy::start("other_key", &provider);
        let mut conversation = Conversation::new(wire, &proxy.url, 200, false);
        play(&mut conversation, 1);
        conversation.say("go on");
        let other = HEADERS.map(|(name, value)| (name, if value == "Bearer a-key" { "Bearer another" } else { value }));
        let body = conversation.body.to_string();
        let mut answer = send(&proxy.url, "POST", &conversation.path, &other, body.as_bytes());
        answer.finish();
        assert_eq!(answer.status, 200, "{wire:?}: {}", answer.text());
        assert_eq!(answer.report("history"), Some("incomplete"), "{wire:?}: {:?}", answer.headers);
        provider.assert_clean();
    }
}
