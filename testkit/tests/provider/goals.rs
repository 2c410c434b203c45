//! How the scripted model reaches tools that a request shows, hides, or lets it search for.

use pegboard_testkit::provider::{Check, Part, Provider, Script, ScriptedTurn};
use serde_json::{Value, json};

use crate::{
    checks::{assistant, tool, tool_use, user},
    client::post,
    wires::{CHAT, GEMINI, MESSAGES, RESPONSES, plain},
};

/// A provider whose model wants to send a mail.
fn provider() -> Provider {
    let call = Part::call("send_mail", json!({"to": "a"}));
    let turn = ScriptedTurn::reach("mail", [Part::text("Sending."), call]).before_search([Part::text("Looking.")]);
    Provider::start(Script::new([turn]))
}

/// Sends the shortest request with `changes`, and returns what the model calls: names and arguments.
fn ask(provider: &Provider, path: &str, changes: Value) -> Vec<(String, Value)> {
    let mut body = plain(path);
    if let (Some(body), Value::Object(changes)) = (body.as_object_mut(), changes) {
        body.extend(changes);
    }
    let answer = post(provider, path, &body).json();
    let list = |pointer: &str| answer.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    let parse = |text: &Value| serde_json::from_str(text.as_str().unwrap_or("null")).unwrap_or(Value::Null);
    let calls: Vec<(Value, Value)> = match path {
        MESSAGES => list("/content").iter().map(|block| (block["name"].clone(), block["input"].clone())).collect(),
        CHAT => list("/choices/0/message/tool_calls")
            .iter()
            .map(|call| (call["function"]["name"].clone(), parse(&call["function"]["arguments"])))
            .collect(),
        RESPONSES => list("/output")
            .iter()
            .map(|item| match item["type"] == "tool_search_call" {
                true => (item["type"].clone(), item["arguments"].clone()),
                false => (item["name"].clone(), parse(&item["arguments"])),
            })
            .collect(),
        _ => list("/candidates/0/content/parts")
            .iter()
            .map(|part| (part["functionCall"]["name"].clone(), part["functionCall"]["args"].clone()))
            .collect(),
    };
    let named = calls.into_iter().filter_map(|(name, arguments)| Some((name.as_str()?.to_owned(), arguments)));
    named.collect()
}

/// The tools of a request, by name.
fn tools(path: &str, names: &[&str]) -> Value {
    let schema = json!({"type": "object"});
    let tools = names.iter().map(|name| match path {
        MESSAGES => tool(name),
        CHAT => json!({"type": "function", "function": {"name": name, "parameters": schema}}),
        RESPONSES => json!({"type": "function", "name": name, "parameters": schema}),
        _ => json!({"name": name, "parametersJsonSchema": schema}),
    });
    let tools: Value = tools.collect();
    if path == GEMINI { json!([{"functionDeclarations": tools}]) } else { tools }
}

fn searched() -> Vec<(String, Value)> {
    vec![("search_tools".into(), json!({"query": "mail"}))]
}

fn sent() -> Vec<(String, Value)> {
    vec![("send_mail".into(), json!({"to": "a"}))]
}

#[test]
fn a_visible_tool_is_called_and_a_hidden_one_is_searched_for() {
    for path in [MESSAGES, CHAT, RESPONSES, GEMINI] {
        let provider = provider();
        let bridge = tools(path, &["search_tools", "call_tool"]);
        assert_eq!(ask(&provider, path, json!({"tools": bridge})), searched(), "{path}");
        assert_eq!(provider.turns_taken(), 0, "a search is not the end of the turn");
        assert_eq!(
            ask(&provider, path, json!({"tools": tools(path, &["send_mail", "search_tools"])})),
            sent(),
            "{path}"
        );
        assert_eq!(provider.turns_taken(), 1);
        provider.assert_clean();
    }
}

#[test]
fn what_a_search_named_is_called_through_the_bridge() {
    let provider = provider();
    let bridge = tools(MESSAGES, &["search_tools", "call_tool"]);
    let found = |text: &str| {
        let result = json!({"type": "tool_result", "tool_use_id": "1", "content": text});
        json!([user("hi"), assistant(json!([tool_use("1", "search_tools")])), user(json!([result]))])
    };
    assert_eq!(ask(&provider, MESSAGES, json!({"tools": bridge, "messages": found("resend_mail")})), searched());
    let through = json!({"name": "send_mail", "arguments": {"to": "a"}});
    let messages = found("1. send_mail: sends a mail");
    assert_eq!(
        ask(&provider, MESSAGES, json!({"tools": bridge, "messages": messages})),
        [("call_tool".into(), through)]
    );
    provider.assert_clean();
}

#[test]
fn loaded_definitions_are_visible() {
    let mut deferred = tool("send_mail");
    deferred["defer_loading"] = true.into();
    let tools = json!([tool("search_tools"), deferred]);
    let provider_of_messages = provider();
    assert_eq!(ask(&provider_of_messages, MESSAGES, json!({"tools": tools})), searched());
    let reference = json!([{"type": "tool_reference", "tool_name": "send_mail"}]);
    let result = json!({"type": "tool_result", "tool_use_id": "1", "content": reference});
    let messages = json!([user("hi"), assistant(json!([tool_use("1", "search_tools")])), user(json!([result]))]);
    assert_eq!(ask(&provider_of_messages, MESSAGES, json!({"tools": tools, "messages": messages})), sent());
    provider_of_messages.assert_clean();

    let provider = provider();
    let tools = json!([{"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}]);
    let search = ask(&provider, RESPONSES, json!({"tools": tools}));
    assert_eq!(search, [("tool_search_call".into(), json!({"query": "mail"}))]);
    let definition = json!({"type": "function", "name": "send_mail", "parameters": {"type": "object"}});
    let input = json!([
        {"role": "user", "content": "hi"},
        {"type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": {"query": "mail"}},
        {"type": "tool_search_output", "call_id": "1", "execution": "client", "tools": [definition]},
    ]);
    assert_eq!(ask(&provider, RESPONSES, json!({"tools": tools, "input": input})), sent());
    provider.assert_clean();
}

#[test]
fn a_tool_that_no_search_finds_is_a_mistake_of_the_script() {
    for bodies in [vec![json!({})], vec![json!({"tools": tools(CHAT, &["search_tools", "call_tool"])}); 3]] {
        let provider = provider();
        let mut calls: Vec<_> = bodies.into_iter().map(|changes| ask(&provider, CHAT, changes)).collect();
        assert_eq!(calls.pop(), Some(Vec::new()));
        let found: Vec<Check> = provider.violations().iter().map(|violation| violation.check).collect();
        assert_eq!(found, [Check::Script]);
    }
}
