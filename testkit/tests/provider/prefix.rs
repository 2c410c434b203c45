//! How much of a request is still a prefix of the next.

use pegboard_testkit::provider::{Check, Part, Provider, Script, ScriptedTurn};
use serde_json::{Value, json};

use crate::{
    client::post,
    wires::{CHAT, GEMINI, MESSAGES, RESPONSES, plain},
};

/// The share of `first` that is left in `second`, and what was wrong.
fn share(path: &str, first: &Value, second: &Value) -> (Option<f64>, Vec<Check>) {
    let answers = Script::new([ScriptedTurn::say([Part::text("ok")]), ScriptedTurn::say([Part::text("ok")])]);
    let provider = Provider::start(answers.stable_prefix());
    for body in [first, second] {
        assert_eq!(post(&provider, path, body).status, 200, "{:?}", provider.violations());
    }
    let requests = provider.requests();
    assert_eq!(requests[0].prefix_share, None);
    (requests[1].prefix_share, provider.violations().iter().map(|violation| violation.check).collect())
}

#[track_caller]
fn kept(path: &str, first: &Value, second: &Value) {
    assert_eq!(share(path, first, second), (Some(1.0), Vec::new()), "{path}");
}

#[track_caller]
fn broken(path: &str, first: &Value, second: &Value, between: std::ops::Range<f64>) {
    let (share, wrong) = share(path, first, second);
    assert!(share.is_some_and(|share| between.contains(&share)), "{path}: {share:?}");
    assert_eq!(wrong, [Check::StablePrefix]);
}

fn changed(body: &Value, key: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[key] = value;
    body
}

/// `body` with one more message of the user's.
fn continued(body: &Value) -> Value {
    let mut body = body.clone();
    for key in ["messages", "input", "contents"] {
        if let Some(messages) = body[key].as_array_mut() {
            let message = messages[0].clone();
            messages.push(message);
        }
    }
    body
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "d", "input_schema": {"type": "object"}})
}

fn deferred(name: &str) -> Value {
    changed(&tool(name), "defer_loading", true.into())
}

#[test]
fn appending_keeps_the_prefix_on_every_wire() {
    for path in [MESSAGES, CHAT, RESPONSES, GEMINI] {
        kept(path, &plain(path), &plain(path));
        kept(path, &plain(path), &continued(&plain(path)));
        broken(path, &continued(&plain(path)), &plain(path), 0.1..1.0);
    }
}

#[test]
fn tools_come_first() {
    let messages = changed(&plain(MESSAGES), "tools", json!([tool("a"), tool("b")]));
    broken(MESSAGES, &messages, &changed(&messages, "tools", json!([tool("b"), tool("a")])), 0.0..0.2);
    broken(MESSAGES, &messages, &changed(&messages, "tools", json!([tool("a"), tool("b"), tool("c")])), 0.5..1.0);
    broken(MESSAGES, &messages, &changed(&messages, "system", json!("s")), 0.5..1.0);
    let chat = |names: &[&str]| {
        let tools: Vec<Value> =
            names.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
        changed(&plain(CHAT), "tools", tools.into())
    };
    broken(CHAT, &chat(&["a"]), &chat(&["a", "b"]), 0.1..1.0);
    let gemini = |names: &[&str]| {
        let tools: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        changed(&plain(GEMINI), "tools", json!([{"functionDeclarations": tools}]))
    };
    broken(GEMINI, &gemini(&["a"]), &gemini(&["a", "b"]), 0.1..1.0);
}

#[test]
fn what_the_model_does_not_see_changes_nothing() {
    let first = changed(&plain(MESSAGES), "tools", json!([tool("a"), deferred("b")]));
    kept(MESSAGES, &first, &changed(&first, "tools", json!([tool("a"), deferred("c"), deferred("b")])));
    kept(MESSAGES, &first, &changed(&first, "tool_choice", json!({"type": "auto"})));
    let marked =
        json!([{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}]);
    kept(MESSAGES, &first, &changed(&first, "messages", marked));
}

#[test]
fn a_referenced_tool_is_part_of_the_prefix() {
    let body = |found: Value| {
        let call = json!({"type": "tool_use", "id": "1", "name": "a", "input": {}});
        let reference = json!([{"type": "tool_reference", "tool_name": "b"}]);
        let result = json!({"type": "tool_result", "tool_use_id": "1", "content": reference});
        let messages = json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]);
        changed(&changed(&plain(MESSAGES), "messages", messages), "tools", json!([tool("a"), found]))
    };
    let first = body(deferred("b"));
    kept(MESSAGES, &first, &continued(&first));
    broken(MESSAGES, &first, &body(changed(&deferred("b"), "description", json!("x"))), 0.5..1.0);
}

#[test]
fn deferred_functions_show_their_name_on_responses() {
    let function = |name: &str, parameters: Value| {
        let lone = json!({"type": "function", "name": name, "description": "d", "parameters": parameters});
        changed(&lone, "defer_loading", true.into())
    };
    let body = |tools: &[Value]| {
        let all: Vec<Value> = [json!({"type": "tool_search"})].into_iter().chain(tools.iter().cloned()).collect();
        changed(&plain(RESPONSES), "tools", all.into())
    };
    let first = body(&[function("a", json!({}))]);
    kept(RESPONSES, &first, &body(&[function("a", json!({"type": "object"}))]));
    broken(RESPONSES, &first, &body(&[function("a", json!({})), function("b", json!({}))]), 0.1..1.0);
    let space = |tools: Value| json!({"type": "namespace", "name": "n", "description": "d", "tools": tools});
    let first = body(&[space(json!([function("a", json!({}))]))]);
    kept(RESPONSES, &first, &body(&[space(json!([function("a", json!({})), function("b", json!({}))]))]));
}

#[test]
fn conversations_are_told_apart() {
    let provider = Provider::start(Script { repeat: true, ..Script::new([ScriptedTurn::say([Part::text("ok")])]) });
    post(&provider, CHAT, &plain(CHAT));
    post(&provider, RESPONSES, &plain(RESPONSES));
    post(&provider, CHAT, &changed(&plain(CHAT), "model", json!("another")));
    post(&provider, CHAT, &changed(&plain(CHAT), "messages", json!([])));
    post(&provider, CHAT, &plain(CHAT));
    let shares: Vec<Option<f64>> = provider.requests().iter().map(|recorded| recorded.prefix_share).collect();
    // The fourth was refused, so that the fifth is compared with the first.
    assert_eq!(shares, [None, None, None, Some(0.0), Some(1.0)]);
}
