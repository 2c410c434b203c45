//! What passes through untouched, and says so.

use std::{io::Write, net::TcpStream};

use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn, Wire};
use serde_json::{Value, json};

use super::{
    RunningProxy,
    client::{HEADERS, post, send},
    conversation::{Conversation, WIRES, history_key, play, tool, tool_name, tools, turns},
};

fn answers(count: usize) -> Script {
    Script { repeat: true, ..Script::new((0..count).map(|_| ScriptedTurn::say([Part::text("ok")]))) }
}

/// Checks that this body reaches the provider byte for byte, and that the header names the reason.
#[track_caller]
fn passes(proxy: &RunningProxy, provider: &Provider, path: &str, body: &Value, reason: &str) {
    let bytes = format!(" {}\n", serde_json::to_string_pretty(body).expect("JSON"));
    let mut answer = send(&proxy.url, "POST", path, &HEADERS, bytes.as_bytes());
    answer.finish();
    let recorded = provider.requests().pop().expect("a request");
    assert_eq!(String::from_utf8_lossy(&recorded.raw), bytes, "{path}");
    assert_eq!((answer.report("mode"), answer.report("reason")), (Some("pass"), Some(reason)), "{path} {body}");
}

#[test]
fn few_tools_pass() {
    let provider = Provider::start(answers(1));
    let proxy = RunningProxy::start("few_tools", &provider);
    for wire in WIRES {
        for count in [0, 1, 29] {
            let mut conversation = Conversation::new(wire, &proxy.url, count, false);
            conversation.say("hi");
            passes(&proxy, &provider, &conversation.path, &conversation.body, "few-tools");
        }
        let mut conversation = Conversation::new(wire, &proxy.url, 30, false);
        let answer = conversation.say("hi").send();
        assert_eq!(
            (answer.report("mode"), answer.report("tools")),
            (Some("defer"), Some("30")),
            "{:?}",
            answer.headers
        );
        let mut long = tool(wire, 0);
        let text: Value = "word ".repeat(12_000).into();
        let place = if wire == Wire::Chat { "/function/description" } else { "/description" };
        *long.pointer_mut(place).expect("a description") = text;
        conversation.body["tools"] = match wire {
            Wire::Gemini => json!([{"functionDeclarations": [long]}]),
            _ => json!([long]),
        };
        assert_eq!(conversation.send().report("mode"), Some("defer"), "few tools with long definitions");
    }
    provider.assert_clean();
}

#[test]
fn modes_are_chosen_by_option() {
    let provider = Provider::start(answers(1));
    let proxy = RunningProxy::with_options("mode_pass", &provider, &["--mode", "pass"]);
    for wire in WIRES {
        let mut conversation = Conversation::new(wire, &proxy.url, 200, false);
        conversation.say("hi");
        passes(&proxy, &provider, &conversation.path, &conversation.body, "mode");
    }
}

#[test]
fn a_conversation_with_searches_goes_on_in_mode_pass() {
    for wire in WIRES {
        let provider = Provider::start(Script::new(turns(wire, 2)).bind_thinking());
        let mut proxy = RunningProxy::start("mode_changed", &provider);
        let mut conversation = Conversation::new(wire, &proxy.url, 200, false);
        play(&mut conversation, 1);
        proxy.options.extend(["--mode", "pass"].map(str::to_owned));
        proxy.restart();
        conversation.base.clone_from(&proxy.url);
        let answer = conversation.say("Go on").send();
        assert_eq!((answer.status, answer.report("mode")), (200, Some("pass")), "{wire:?}: {}", answer.text());
        assert_eq!(conversation.take(&answer).calls.len(), 1, "{wire:?}");
        provider.assert_clean();
    }
}

#[test]
fn rules_choose_modes() {
    let rules = json!({"mode": "defer", "rules": [
        {"route": "anthropic", "mode": "pass"},
        {"model": "gpt-4*", "mode": "pass"},
        {"client": "curl", "mode": "pass"},
    ]});
    let provider = Provider::start(answers(1));
    let proxy = RunningProxy::with_config("rules", &provider, &rules);
    let mode = |wire, model: Option<&str>, agent: &str| {
        let mut conversation = Conversation::new(wire, &proxy.url, 200, false);
        conversation.say("hi");
        if let Some(model) = model {
            conversation.body["model"] = model.into();
        }
        let headers = [HEADERS.as_slice(), &[("user-agent", agent)]].concat();
        let mut answer =
            send(&proxy.url, "POST", &conversation.path, &headers, conversation.body.to_string().as_bytes());
        answer.finish();
        answer.report("mode").map(str::to_owned).unwrap_or_default()
    };
    assert_eq!(mode(Wire::Messages, None, "x/1"), "pass");
    assert_eq!(mode(Wire::Chat, None, "x/1"), "defer");
    assert_eq!(mode(Wire::Chat, Some("gpt-4.1"), "x/1"), "pass");
    assert_eq!(mode(Wire::Chat, None, "curl/8.5"), "pass");
}

/// A change of a request.
type Change = Box<dyn Fn(&mut Value)>;

/// Returns a request with 200 tools, and with changes.
fn changed(wire: Wire, change: impl Fn(&mut Value)) -> (String, Value) {
    let mut conversation = Conversation::new(wire, "", 200, false);
    conversation.say("hi");
    change(&mut conversation.body);
    (conversation.path, conversation.body)
}

#[test]
fn requests_that_defer_already_pass() {
    let provider = Provider::start(answers(1));
    let proxy = RunningProxy::start("deferred", &provider);
    let push = |more: Value| move |body: &mut Value| body["tools"].as_array_mut().expect("a list").push(more.clone());
    let deferred = |body: &mut Value| body["tools"][7]["defer_loading"] = true.into();
    let cases: [(Wire, Change); 7] = [
        (Wire::Messages, Box::new(deferred)),
        (
            Wire::Messages,
            Box::new(push(json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}))),
        ),
        (
            Wire::Messages,
            Box::new(|body: &mut Value| {
                let tool = json!({"type": "tool_reference", "name": "create_invoice"});
                let messages = body["messages"].as_array_mut().expect("a list");
                messages.push(json!({"role": "system", "content": [{"type": "tool_addition", "tool": tool}]}));
            }),
        ),
        (Wire::Responses, Box::new(deferred)),
        (Wire::Responses, Box::new(push(json!({"type": "tool_search"})))),
        (
            Wire::Responses,
            Box::new(push(
                json!({"type": "namespace", "name": "n", "description": "d", "tools": [tool(Wire::Responses, 3)]}),
            )),
        ),
        (
            Wire::Responses,
            Box::new(|body: &mut Value| {
                let item =
                    json!({"type": "additional_tools", "role": "developer", "tools": [tool(Wire::Responses, 3)]});
                body["input"].as_array_mut().expect("a list").push(item);
            }),
        ),
    ];
    for (wire, change) in cases {
        let (path, body) = changed(wire, change);
        let bytes = body.to_string();
        let mut answer = send(&proxy.url, "POST", &path, &HEADERS, bytes.as_bytes());
        answer.finish();
        let recorded = provider.requests().pop().expect("a request");
        assert!(recorded.raw == bytes.as_bytes(), "{wire:?}: {:?} {}", answer.header("x-pegboard"), recorded.body);
        assert_eq!(answer.report("mode"), Some("pass"), "{wire:?}");
    }
}

#[test]
fn what_the_proxy_does_not_know_passes() {
    let provider = Provider::start(answers(1));
    let proxy = RunningProxy::start("unknown", &provider);
    let mut with_a_tool_of_the_future = tools(Wire::Chat, 200);
    with_a_tool_of_the_future.as_array_mut().expect("a list").push(json!({"type": "a_tool_of_the_future"}));
    let cases: [(Wire, Value); 4] = [
        (Wire::Responses, json!({"background": true})),
        (Wire::Responses, json!({"conversation": "conv_1"})),
        (Wire::Chat, json!({"tool_choice": {"type": "a_choice_of_the_future"}})),
        (Wire::Chat, json!({"tools": with_a_tool_of_the_future})),
    ];
    for (wire, changes) in cases {
        let (path, body) = changed(wire, |body| {
            body.as_object_mut().expect("a body").extend(changes.as_object().cloned().expect("changes"));
        });
        let bytes = body.to_string();
        let mut answer = send(&proxy.url, "POST", &path, &HEADERS, bytes.as_bytes());
        answer.finish();
        let recorded = provider.requests().pop().expect("a request");
        assert!(recorded.raw == bytes.as_bytes(), "{wire:?} {changes}: {:?}", answer.header("x-pegboard"));
        assert_eq!(answer.report("mode"), Some("pass"), "{wire:?} {changes}");
    }
}

#[test]
fn a_forced_tool_is_declared_or_passes() {
    for wire in WIRES {
        let provider = Provider::start(answers(1));
        let proxy = RunningProxy::start("forced", &provider);
        let force = |body: &mut Value| {
            let names = json!([tool_name(17)]);
            let (key, choice) = match wire {
                Wire::Messages => ("tool_choice", json!({"type": "tool", "name": tool_name(17)})),
                Wire::Chat => ("tool_choice", json!({"type": "function", "function": {"name": tool_name(17)}})),
                Wire::Responses => ("tool_choice", json!({"type": "function", "name": tool_name(17)})),
                Wire::Gemini => {
                    let config = json!({"mode": "ANY", "allowedFunctionNames": names});
                    ("toolConfig", json!({"functionCallingConfig": config}))
                }
            };
            body[key] = choice;
            // The provider refuses both at once.
            body.as_object_mut().expect("a body").shift_remove("thinking");
        };
        let (path, body) = changed(wire, force);
        assert_eq!(
            post(&proxy.url, &path, &body).report("mode"),
            Some("defer"),
            "{wire:?}: declared from the first request on"
        );
        provider.assert_clean();
        let mut conversation = Conversation::new(wire, &proxy.url, 200, false);
        conversation.body.as_object_mut().expect("a body").shift_remove("thinking");
        conversation.say("first").ask();
        conversation.say("second");
        force(&mut conversation.body);
        let answer = conversation.send();
        assert_eq!((answer.report("mode"), answer.report("reason")), (Some("pass"), Some("forced-tool")), "{wire:?}");
        provider.assert_clean();
    }
}

#[test]
fn the_gateway_serves_the_routes_too() {
    let provider = Provider::start(answers(1));
    let gateway = RunningProxy::on_gateway("on_gateway", &provider);
    for wire in WIRES {
        let mut conversation = Conversation::new(wire, &gateway.url, 200, true);
        let answer = conversation.say("hi").send();
        assert_eq!((answer.status, answer.report("mode")), (200, Some("defer")), "{wire:?}: {}", answer.text());
    }
    let mut health = send(&gateway.url, "GET", "/health", &[], b"");
    health.finish();
    assert_eq!(health.status, 200, "it is still a gateway");
    provider.assert_clean();
}

#[test]
fn the_routes_on_a_public_gateway_ask_for_tokens_of_their_own() {
    const TOKEN: &str = "a-token-of-the-proxy-for-a-program";
    const GATEWAY: &str = "a-token-of-the-gateway-for-clients";
    let provider = Provider::start(answers(1));
    let settings = json!({"tokens": [{"name": "clients", "token": GATEWAY}]});
    let tokens = json!([{"name": "laptop", "token": TOKEN}]);
    let gateway = RunningProxy::on_gateway_with("on_gateway_tokens", &provider, "0.0.0.0:0", settings, &tokens);
    for wire in WIRES {
        let mut conversation = Conversation::new(wire, &gateway.url, 200, true);
        let body = conversation.say("hi").body.to_string();
        let path = conversation.path;
        let ask = |path: &str, more: &[(&str, &str)]| {
            let mut answer = send(&gateway.url, "POST", path, &[HEADERS.as_slice(), more].concat(), body.as_bytes());
            answer.finish();
            (answer.status, answer.report("mode").map(str::to_owned))
        };
        let before = provider.requests().len();
        assert_eq!(ask(&path, &[]).0, 401, "{wire:?}");
        assert_eq!(ask(&path, &[("x-pegboard-token", GATEWAY)]).0, 401, "{wire:?}");
        assert_eq!(ask(&format!("/token/{GATEWAY}{path}"), &[]).0, 401, "{wire:?}");
        assert_eq!(provider.requests().len(), before, "{wire:?}: nothing has left the machine");
        let deferred = (200, Some("defer".to_owned()));
        assert_eq!(ask(&path, &[("x-pegboard-token", TOKEN)]), deferred, "{wire:?}");
        assert_eq!(ask(&format!("/token/{TOKEN}{path}"), &[]), deferred, "{wire:?}");
        assert_eq!(provider.requests().len(), before + 2, "{wire:?}");
    }
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let mut answer = send(&gateway.url, "POST", "/mcp", &headers, b"{}");
    answer.finish();
    assert_eq!(answer.status, 401, "the token of the proxy is none of the gateway");
    for recorded in provider.requests() {
        assert!(recorded.header("x-pegboard-token").is_none() && !recorded.path.contains("token"), "{recorded:?}");
        assert!(!String::from_utf8_lossy(&recorded.raw).contains(TOKEN), "the token stays here");
    }
    provider.assert_clean();
}

#[test]
fn headers_and_other_paths_pass() {
    let provider = Provider::start(answers(1));
    let proxy = RunningProxy::start("headers", &provider);
    let own = [
        ("anthropic-beta", "one-2026-01-01,two-2026-02-02"),
        ("user-agent", "some-client/1.2"),
        ("x-stainless-lang", "python"),
        ("x-claude-code-session-id", "abc"),
        ("openai-organization", "org"),
    ];
    let headers = [HEADERS.as_slice(), &own].concat();
    for wire in WIRES {
        for count in [1, 200] {
            let mut conversation = Conversation::new(wire, &proxy.url, count, false);
            conversation.say("hi");
            let mut answer =
                send(&proxy.url, "POST", &conversation.path, &headers, conversation.body.to_string().as_bytes());
            answer.finish();
            let recorded = provider.requests().pop().expect("a request");
            for (name, value) in own.iter().chain(&[("authorization", "Bearer a-key"), ("x-api-key", "a-key")]) {
                assert_eq!(recorded.header(name), Some(*value), "{wire:?} {count}");
            }
            assert_eq!(recorded.header("host"), provider.url().strip_prefix("http://"));
            assert!(answer.header("x-request-id").is_some(), "headers of the answer pass too");
        }
    }
    let mut models = send(&proxy.url, "GET", "/openai/v1/models?limit=2", &HEADERS, b"");
    models.finish();
    assert_eq!((models.status, &models.json()["data"][0]["id"]), (200, &json!("scripted")));
    assert_eq!(provider.requests().pop().expect("a request").path, "/v1/models?limit=2");
    let mut unknown = send(&proxy.url, "DELETE", "/anthropic/v1/files/1", &HEADERS, b"");
    unknown.finish();
    let message = unknown.json()["error"]["message"].take();
    assert_eq!((unknown.status, message), (404, json!("no endpoint DELETE /v1/files/1")), "the provider's own words");
}

#[test]
fn websockets_are_refused_clearly() {
    let provider = Provider::start(answers(1));
    let proxy = RunningProxy::start("websockets", &provider);
    let host = proxy.url.strip_prefix("http://").expect("a URL");
    let mut stream = TcpStream::connect(host).expect("a server");
    let head = "GET /openai/v1/responses HTTP/1.1\r\nhost: HOST\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.replace("HOST", host).as_bytes()).expect("an open connection");
    stream.set_read_timeout(Some(super::PATIENCE)).expect("a timeout");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stream), &mut line).expect("an answer");
    let status: u16 = line.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    assert!((400..500).contains(&status) || status == 501, "{line}");
    assert!(provider.requests().is_empty());
}

#[test]
fn long_bodies_are_refused() {
    let provider = Provider::start(answers(1));
    let proxy = RunningProxy::start("long", &provider);
    for wire in WIRES {
        let (path, mut body) = changed(wire, |_| {});
        body[history_key(wire)][0]["long"] = "x".repeat(33 << 20).into();
        let mut answer = send(&proxy.url, "POST", &path, &HEADERS, body.to_string().as_bytes());
        answer.finish();
        assert_eq!(answer.status, 413, "{wire:?}: {}", answer.text());
        assert!(answer.json()["error"]["message"].is_string());
    }
    assert!(provider.requests().is_empty());
}
