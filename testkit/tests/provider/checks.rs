//! What is refused, wire by wire.

use std::collections::BTreeSet;

use pegboard_testkit::provider::{Check, Part, Provider, Script, ScriptedTurn};
use serde_json::{Value, json};

use crate::{
    client::{Client, post},
    wires::{CHAT, GEMINI, MESSAGES, MINIMAX_CHAT, MINIMAX_MESSAGES, RESPONSES, plain},
};

/// Requests on one path of which only the last is wrong, and only in one way.
struct Case {
    check: Check,
    path: &'static str,
    script: Script,
    bodies: Vec<Value>,
}

/// Checks that the last request is refused for `check` alone, with the provider's error, and is
/// let through when the check is off.
#[track_caller]
fn check(case: &Case) {
    let Case { check, path, script, bodies } = case;
    let provider = Provider::start(script.clone());
    let responses: Vec<_> = bodies.iter().map(|body| post(&provider, path, body)).collect();
    let (last, earlier) = responses.split_last().expect("a request");
    assert!(earlier.iter().all(|response| response.status == 200), "{check:?}: {:?}", provider.violations());
    let recorded = provider.requests().pop().expect("a request");
    let found: BTreeSet<&str> = recorded.violations.iter().map(|violation| violation.check.name()).collect();
    assert_eq!(found, BTreeSet::from([check.name()]), "{path} {}", recorded.body);
    assert_eq!(recorded.status, Some(400));
    let error = last.json()["error"].take();
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains(&recorded.violations[0].message), "{message}");

    let provider = Provider::start(script.clone().without(*check));
    assert!(
        bodies.iter().all(|body| post(&provider, path, body).status == 200),
        "{check:?} {:?}",
        provider.violations()
    );
    provider.assert_clean();
}

fn answers(count: usize) -> Script {
    Script::new((0..count).map(|_| ScriptedTurn::say([Part::text("ok")])))
}

/// A request that is wrong by itself: the shortest one with `changes`.
#[track_caller]
pub(crate) fn refused(expected: Check, path: &'static str, changes: Value) {
    check(&Case { check: expected, path, script: answers(1), bodies: vec![with(path, changes)] });
}

/// A request that has nothing wrong with it.
#[track_caller]
pub(crate) fn accepted(path: &'static str, changes: Value) {
    let provider = Provider::start(answers(1));
    assert_eq!(post(&provider, path, &with(path, changes)).status, 200, "{:?}", provider.violations());
    provider.assert_clean();
}

fn with(path: &str, changes: Value) -> Value {
    let mut body = plain(path);
    if let (Some(body), Value::Object(changes)) = (body.as_object_mut(), changes) {
        body.extend(changes);
    }
    body
}

/// The signature of calls that no Gemini model made.
pub(crate) const FOREIGN: &str = "skip_thought_signature_validator";

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": name, "input_schema": {"type": "object"}})
}

fn deferred(name: &str) -> Value {
    let mut tool = tool(name);
    tool["defer_loading"] = true.into();
    tool
}

fn chat_tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
}

fn function(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"type": "object"}})
}

fn declared(functions: &Value) -> Value {
    json!({"tools": [{"functionDeclarations": functions}]})
}

pub(crate) fn user(content: impl Into<Value>) -> Value {
    said_by("user", content.into())
}

pub(crate) fn assistant(content: impl Into<Value>) -> Value {
    said_by("assistant", content.into())
}

fn said_by(role: &str, content: Value) -> Value {
    Value::Object([("role".into(), role.into()), ("content".into(), content)].into_iter().collect())
}

pub(crate) fn tool_use(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {}})
}

pub(crate) fn tool_result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
}

#[test]
fn required_fields() {
    refused(Check::Required, MESSAGES, json!({"max_tokens": null}));
    refused(Check::Required, MESSAGES, json!({"model": ""}));
    refused(Check::Required, MESSAGES, json!({"messages": []}));
    refused(Check::Required, MESSAGES, json!({"messages": [user("")]}));
    refused(Check::Required, MESSAGES, json!({"messages": [user(json!([]))]}));
    refused(Check::Required, MESSAGES, json!({"messages": [user(json!(null))]}));
    refused(Check::Required, MESSAGES, json!({"tools": [{"name": "x"}]}));
    refused(Check::Required, MINIMAX_MESSAGES, json!({"max_tokens": null}));
    refused(Check::Required, CHAT, json!({"model": null}));
    refused(Check::Required, CHAT, json!({"messages": null}));
    refused(Check::Required, RESPONSES, json!({"input": []}));
    refused(Check::Required, RESPONSES, json!({"previous_response_id": "resp_unknown"}));
    let web = json!({"type": "web_search_call", "status": "completed"});
    refused(Check::Required, RESPONSES, json!({"input": [user("hi"), web, user("go on")]}));
    let web = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    accepted(RESPONSES, json!({"input": [user("hi"), web, user("go on")]}));
    refused(Check::Required, GEMINI, json!({"contents": []}));
    accepted(RESPONSES, json!({"input": "hi"}));
    accepted(GEMINI, json!({"system_instruction": {"parts": [{"text": "x"}]}}));
}

#[test]
fn a_key_must_come_along() {
    for (path, status) in [(MESSAGES, 401), (CHAT, 401), (RESPONSES, 401), (GEMINI, 403), (MINIMAX_CHAT, 401)] {
        let provider = Provider::start(answers(1));
        let body = plain(path).to_string();
        let head = format!("POST {path} HTTP/1.1\r\nanthropic-version: x\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut client = Client::new(&provider);
        client.send(format!("{head}{body}").as_bytes());
        assert_eq!(client.receive().status, status);
        assert_eq!(provider.violations()[0].check, Check::Auth);
    }
    let provider = Provider::start(Script { api_key: Some("another".into()), ..answers(1) });
    assert_eq!(post(&provider, CHAT, &plain(CHAT)).status, 401);
    let provider = Provider::start(Script { api_key: Some("key".into()), ..answers(1) });
    assert_eq!(post(&provider, CHAT, &plain(CHAT)).status, 200);
}

#[test]
fn tools_have_names_of_their_own() {
    let long = |length| "x".repeat(length);
    for (name, is_right) in
        [("", false), ("a.b", false), ("ä", false), (&long(129), false), (&long(128), true), ("A-b_9", true)]
    {
        let tools = json!({"tools": [tool(name)]});
        if is_right { accepted(MESSAGES, tools) } else { refused(Check::ToolNames, MESSAGES, tools) }
    }
    for (name, is_right) in [("a.b", false), (&long(65), false), (&long(64), true)] {
        for (path, tool) in [(CHAT, chat_tool(name)), (RESPONSES, function(name)), (MINIMAX_CHAT, chat_tool(name))] {
            let tools = json!({"tools": [tool]});
            if is_right { accepted(path, tools) } else { refused(Check::ToolNames, path, tools) }
        }
    }
    for (name, is_right) in [("9a", false), ("a b", false), (&long(129), false), ("_a.b:c-9", true)] {
        let tools = declared(&json!([{"name": name}]));
        if is_right { accepted(GEMINI, tools) } else { refused(Check::ToolNames, GEMINI, tools) }
    }
    refused(Check::DuplicateTools, MESSAGES, json!({"tools": [tool("x"), deferred("x")]}));
    refused(Check::DuplicateTools, CHAT, json!({"tools": [chat_tool("x"), chat_tool("x")]}));
    refused(Check::DuplicateTools, GEMINI, declared(&json!([{"name": "x"}, {"name": "x"}])));
    refused(Check::DuplicateTools, RESPONSES, json!({"tools": [function("x"), function("x")]}));
    let space = |name| json!({"type": "namespace", "name": name, "description": "", "tools": [function("x")]});
    accepted(RESPONSES, json!({"tools": [function("x"), space("a"), space("b")]}));
}

#[test]
fn deferral_has_its_rules() {
    refused(Check::AllDeferred, MESSAGES, json!({"tools": [deferred("x"), deferred("y")]}));
    accepted(MESSAGES, json!({"tools": [tool("x"), deferred("y")]}));
    let mut marked = deferred("y");
    marked["cache_control"] = json!({"type": "ephemeral"});
    refused(Check::DeferredCacheControl, MESSAGES, json!({"tools": [tool("x"), marked]}));
    let mut vague = tool("y");
    vague["defer_loading"] = Value::Null;
    refused(Check::NullDeferral, MESSAGES, json!({"tools": [tool("x"), vague]}));
    let search = |kind: &str, name: &str| json!({"tools": [{"type": kind, "name": name}, deferred("x")]});
    refused(Check::SearchToolName, MESSAGES, search("tool_search_tool_regex_20251119", "find"));
    refused(Check::SearchToolName, MESSAGES, search("tool_search_tool_bm25", "tool_search_tool_regex"));
    accepted(MESSAGES, search("tool_search_tool_bm25_20251119", "tool_search_tool_bm25"));
    refused(Check::SearchWithoutDeferred, RESPONSES, json!({"tools": [{"type": "tool_search"}, function("x")]}));
    accepted(RESPONSES, json!({"tools": [{"type": "tool_search", "execution": "client"}, function("x")]}));
}

#[test]
fn deferral_is_not_known_everywhere() {
    let old = |tools| json!({"model": "claude-3-5-haiku", "tools": tools});
    refused(Check::Unsupported, MESSAGES, old(json!([tool("x"), deferred("y")])));
    refused(Check::Unsupported, MINIMAX_MESSAGES, json!({"tools": [tool("x"), deferred("y")]}));
    let search = json!({"type": "tool_search_tool_regex", "name": "tool_search_tool_regex"});
    refused(Check::Unsupported, MINIMAX_MESSAGES, json!({"tools": [search]}));
    let mut chat = chat_tool("x");
    chat["function"]["defer_loading"] = false.into();
    refused(Check::Unsupported, CHAT, json!({"tools": [chat]}));
    refused(Check::Unsupported, MINIMAX_CHAT, json!({"tools": [chat]}));
    refused(Check::Unsupported, GEMINI, declared(&json!([{"name": "x", "defer_loading": true}])));
    let mut function = function("x");
    function["defer_loading"] = true.into();
    refused(
        Check::Unsupported,
        RESPONSES,
        json!({"model": "gpt-5.4-nano", "tools": [{"type": "tool_search"}, function]}),
    );
    let found =
        json!({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "tool_reference", "tool_name": "x"}]});
    let messages = json!([user("hi"), assistant(json!([tool_use("1", "x")])), user(json!([found]))]);
    refused(Check::Unsupported, MINIMAX_MESSAGES, json!({"tools": [tool("x")], "messages": messages}));
}

#[test]
fn references_lead_somewhere() {
    let told = |name| json!([{"type": "text", "text": "found"}, {"type": "tool_reference", "tool_name": name}]);
    let history = |name| {
        let result = json!({"type": "tool_result", "tool_use_id": "1", "content": told(name)});
        json!([user("hi"), assistant(json!([tool_use("1", "search")])), user(json!([result]))])
    };
    let tools = json!([tool("search"), deferred("x")]);
    accepted(MESSAGES, json!({"tools": tools, "messages": history("x")}));
    refused(Check::ToolReference, MESSAGES, json!({"tools": tools, "messages": history("y")}));
    let reference = json!({"type": "tool_reference", "tool_name": "y"});
    let found = json!({"type": "tool_search_tool_search_result", "tool_references": [reference]});
    let searched = json!([
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "y"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found},
    ]);
    let messages = json!([user("hi"), assistant(searched), user("go on")]);
    refused(Check::ToolReference, MESSAGES, json!({"tools": tools, "messages": messages}));
}

#[test]
fn calls_and_results_belong_together_on_messages() {
    let messages = |messages: Value| json!({"tools": [tool("x")], "messages": messages});
    let calls = assistant(json!([tool_use("1", "x"), tool_use("2", "x")]));
    let hi = user("hi");
    let text = json!({"type": "text", "text": "and"});
    let both = json!([tool_result("1"), tool_result("2")]);
    accepted(MESSAGES, messages(json!([hi, calls, user(both.clone())])));
    accepted(MESSAGES, messages(json!([hi, calls, user(json!([tool_result("2"), tool_result("1"), text]))])));
    accepted(MESSAGES, messages(json!([hi, calls, user(json!([tool_result("1")])), user(json!([tool_result("2")]))])));
    for wrong in [
        json!([hi, calls]),
        json!([hi, calls, user(json!([tool_result("1")]))]),
        json!([hi, calls, user(json!([text, tool_result("1"), tool_result("2")]))]),
        json!([hi, calls, user(json!([tool_result("1"), tool_result("2"), tool_result("3")]))]),
        json!([hi, calls, user(json!([tool_result("1"), tool_result("2"), tool_result("2")]))]),
        json!([hi, calls, user(both.clone()), assistant("so"), user(json!([tool_result("1")]))]),
        json!([user(json!([tool_result("1")]))]),
        json!([hi, calls, user(both.clone()), calls, user(both)]),
    ] {
        refused(Check::ToolPairs, MESSAGES, messages(wrong));
    }
    let server = json!([{"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {}}]);
    let result = json!([hi, assistant(server), user(json!([tool_result("srvtoolu_1")]))]);
    refused(Check::ServerToolResult, MESSAGES, messages(result));
}

#[test]
fn calls_and_results_belong_together_on_chat() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "x", "arguments": "{}"}});
    let calls = json!({"role": "assistant", "content": null, "tool_calls": [call("1"), call("2")]});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "ok"});
    let hi = user("hi");
    for path in [CHAT, MINIMAX_CHAT] {
        accepted(path, json!({"messages": [hi, calls, result("2"), result("1"), hi]}));
        for wrong in [
            json!([hi, calls]),
            json!([hi, calls, result("1"), hi]),
            json!([hi, calls, result("1"), result("2"), result("3")]),
            json!([hi, calls, result("1"), result("2"), hi, result("1")]),
            json!([hi, result("1")]),
        ] {
            refused(Check::ToolPairs, path, json!({"messages": wrong}));
        }
    }
}

#[test]
fn calls_and_results_belong_together_on_responses() {
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "x", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "ok"});
    let hi = user("hi");
    accepted(RESPONSES, json!({"input": [hi, call("1"), call("2"), output("2"), output("1")]}));
    refused(Check::ToolPairs, RESPONSES, json!({"input": [hi, call("1")]}));
    refused(Check::ToolPairs, RESPONSES, json!({"input": [hi, output("1")]}));
    let search = json!({"type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": {}});
    let found = |id: Value| json!({"type": "tool_search_output", "call_id": id, "execution": "client", "tools": []});
    let tools = json!([{"type": "tool_search", "execution": "client"}]);
    accepted(RESPONSES, json!({"tools": tools, "input": [hi, search, found(json!("1"))]}));
    refused(Check::ToolPairs, RESPONSES, json!({"tools": tools, "input": [hi, search]}));
    refused(Check::SearchOutput, RESPONSES, json!({"tools": tools, "input": [hi, found(json!("2"))]}));
    refused(Check::SearchOutput, RESPONSES, json!({"tools": tools, "input": [hi, found(Value::Null)]}));
}

#[test]
fn calls_and_results_belong_together_on_gemini() {
    let said = |role: &str, parts: Value| json!({"role": role, "parts": parts});
    let call = |id: Value| json!({"functionCall": {"name": "x", "args": {}, "id": id}, "thoughtSignature": FOREIGN});
    let result = |id: Value| json!({"functionResponse": {"name": "x", "response": {}, "id": id}});
    let hi = said("user", json!([{"text": "hi"}]));
    let calls = said("model", json!([call(json!("1")), call(json!("2"))]));
    let both = said("user", json!([result(json!("2")), result(json!("1"))]));
    accepted(GEMINI, json!({"contents": [hi, calls, both]}));
    let nameless = |result: &str| json!([{"functionResponse": {"name": result, "response": {}}}]);
    let lone = said("model", json!([{"functionCall": {"name": "x"}, "thought_signature": FOREIGN}]));
    accepted(GEMINI, json!({"contents": [hi, lone, said("user", nameless("x"))]}));
    for wrong in [
        json!([hi, calls]),
        json!([hi, calls, hi]),
        json!([hi, calls, said("user", json!([result(json!("1"))]))]),
        json!([hi, calls, said("user", json!([result(json!("1")), result(json!("3"))]))]),
        json!([hi, lone, said("user", nameless("y"))]),
        json!([hi, said("user", nameless("x"))]),
        json!([calls, both]),
    ] {
        refused(Check::ToolPairs, GEMINI, json!({"contents": wrong}));
    }
}

#[test]
fn a_choice_cannot_always_be_forced() {
    let tools = json!([tool("x"), deferred("y")]);
    let forced = |model: &str, choice: Value| json!({"model": model, "tools": tools, "tool_choice": choice});
    for choice in [json!({"type": "any"}), json!({"type": "tool", "name": "x"})] {
        accepted(MESSAGES, forced("claude-opus-4-8", choice.clone()));
        refused(Check::ToolChoice, MESSAGES, forced("claude-fable-5-1", choice.clone()));
        let mut thinking = forced("claude-opus-4-8", choice);
        thinking["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
        refused(Check::ToolChoice, MESSAGES, thinking);
    }
    accepted(MESSAGES, forced("claude-fable-5-1", json!({"type": "auto"})));
    refused(Check::ToolChoice, MESSAGES, forced("claude-opus-4-8", json!({"type": "tool", "name": "y"})));
    refused(Check::ToolChoice, MESSAGES, forced("claude-opus-4-8", json!({"type": "tool", "name": "z"})));
    let chat = |name: &str| {
        let choice = json!({"type": "function", "function": {"name": name}});
        json!({"tools": [chat_tool("x")], "tool_choice": choice})
    };
    accepted(CHAT, chat("x"));
    refused(Check::ToolChoice, CHAT, chat("y"));
    let allowed = |name: &str| {
        let choice =
            json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": name}]});
        json!({"tools": [function("x")], "tool_choice": choice})
    };
    accepted(RESPONSES, allowed("x"));
    refused(Check::ToolChoice, RESPONSES, allowed("y"));
    let mut gemini = declared(&json!([{"name": "x"}]));
    gemini["toolConfig"] = json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["y"]}});
    refused(Check::ToolChoice, GEMINI, gemini);
}

#[test]
fn declarations_have_limits() {
    let many = |count: usize| declared(&(0..count).map(|index| json!({"name": format!("x{index}")})).collect());
    accepted(GEMINI, many(512));
    refused(Check::DeclarationLimit, GEMINI, many(513));
    let twice = json!([{"name": "x", "parameters": {"type": "OBJECT"}, "parametersJsonSchema": {"type": "object"}}]);
    refused(Check::ParametersTwice, GEMINI, declared(&twice));
}

#[test]
fn calls_keep_their_namespace() {
    let mut deferred = function("x");
    deferred["defer_loading"] = true.into();
    let space = json!({"type": "namespace", "name": "crm", "description": "", "tools": [function("y")]});
    let tools = json!([{"type": "tool_search"}, deferred, space, function("z")]);
    let history = |name: &str, namespace: Value| {
        let mut call = json!({"type": "function_call", "call_id": "1", "name": name, "arguments": "{}"});
        if !namespace.is_null() {
            call["namespace"] = namespace;
        }
        let output = json!({"type": "function_call_output", "call_id": "1", "output": "ok"});
        json!({"tools": tools, "input": [user("hi"), call, output]})
    };
    for (name, namespace) in [("x", json!("x")), ("y", json!("crm")), ("z", Value::Null), ("unknown", Value::Null)] {
        accepted(RESPONSES, history(name, namespace));
    }
    for name in ["x", "y"] {
        refused(Check::Namespace, RESPONSES, history(name, Value::Null));
    }
}

#[test]
fn system_messages_have_their_place() {
    let system = json!({"role": "system", "content": [{"type": "text", "text": "now"}]});
    let hi = user("hi");
    accepted(MESSAGES, json!({"messages": [hi, system]}));
    accepted(MESSAGES, json!({"messages": [hi, system, assistant("so"), hi]}));
    refused(Check::SystemPlacement, MESSAGES, json!({"messages": [system, hi]}));
    refused(Check::SystemPlacement, MESSAGES, json!({"messages": [hi, assistant("so"), system]}));
    refused(Check::SystemPlacement, MINIMAX_MESSAGES, json!({"messages": [hi, system]}));
    refused(Check::SystemPlacement, MINIMAX_CHAT, json!({"messages": [system, system, hi]}));
    accepted(CHAT, json!({"messages": [system, system, hi]}));
}

/// A thought, then a call, and the messages that follow them.
fn thoughtful() -> (Script, Vec<Value>) {
    let thought = Part::Thinking { text: "hm".into(), signature: Some("sig".into()) };
    let call = Part::call("x", json!({}));
    let script = Script::new([ScriptedTurn::say([thought, call]), ScriptedTurn::say([Part::text("ok")])]);
    let said = json!([{"type": "thinking", "thinking": "hm", "signature": "sig"}, tool_use("toolu_000002", "x")]);
    (script, vec![user("hi"), assistant(said), user(json!([tool_result("toolu_000002")]))])
}

#[test]
fn thoughts_come_back_as_they_were() {
    let (script, messages) = thoughtful();
    let first = with(MESSAGES, json!({"tools": [tool("x")], "thinking": {"type": "adaptive"}}));
    let mut second = first.clone();
    second["messages"] = messages.into();
    let mut forged = second.clone();
    forged["messages"][1]["content"][0]["thinking"] = "other".into();
    let mut dropped = second.clone();
    dropped["messages"][1]["content"].as_array_mut().expect("content").remove(0);
    for (expected, body) in [(Check::ThinkingSignature, forged), (Check::ThinkingDropped, dropped)] {
        let bodies = vec![first.clone(), body];
        check(&Case { check: expected, path: MESSAGES, script: script.clone(), bodies });
    }
    let provider = Provider::start(script);
    assert!([first, second].iter().all(|body| post(&provider, MESSAGES, body).status == 200));
    provider.assert_clean();
}

#[test]
fn edits_of_thoughts_need_them() {
    let edits =
        |thinking: Value, kind: &str| json!({"thinking": thinking, "context_management": {"edits": [{"type": kind}]}});
    for on in [json!({"type": "enabled", "budget_tokens": 1024}), json!({"type": "adaptive"})] {
        accepted(MESSAGES, edits(on, "clear_thinking_20251015"));
    }
    for off in [json!({"type": "disabled"}), Value::Null] {
        accepted(MESSAGES, edits(off.clone(), "clear_tool_uses_20250919"));
        refused(Check::ThinkingEdits, MESSAGES, edits(off, "clear_thinking_20251015"));
    }
}

#[test]
fn thoughts_are_bound_to_what_came_before() {
    let (script, messages) = thoughtful();
    let first = with(MESSAGES, json!({"model": "claude-fable-5-1", "tools": [tool("x")], "system": "be brief"}));
    let mut second = first.clone();
    second["messages"] = messages.into();
    let changed = |pointer: &str, value: Value| {
        let mut body = second.clone();
        *body.pointer_mut(pointer).expect("a place") = value;
        body
    };
    for body in [
        changed("/system", json!("be long")),
        changed("/tools", json!([tool("x"), tool("y")])),
        changed("/tools/0/description", json!("another")),
        changed("/messages/0/content", json!("ho")),
    ] {
        let other_model = with(MESSAGES, json!({"model": "claude-opus-4-8"}));
        let bodies = vec![first.clone(), body.clone()];
        check(&Case { check: Check::ThinkingBinding, path: MESSAGES, script: script.clone(), bodies });
        let provider = Provider::start(script.clone());
        let mut free = [first.clone(), body];
        free.iter_mut().for_each(|body| body["model"] = other_model["model"].clone());
        assert!(free.iter().all(|body| post(&provider, MESSAGES, body).status == 200));
        let case = Case {
            check: Check::ThinkingBinding,
            path: MESSAGES,
            script: script.clone().bind_thinking(),
            bodies: free.into(),
        };
        check(&case);
    }
    for body in [
        second.clone(),
        changed("/tools", json!([tool("x"), deferred("y")])),
        changed("/system", json!([{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}])),
    ] {
        let provider = Provider::start(script.clone());
        assert!([first.clone(), body].iter().all(|body| post(&provider, MESSAGES, body).status == 200));
        provider.assert_clean();
    }
}

#[test]
fn gemini_wants_its_signatures_back() {
    let script = Script::new([
        ScriptedTurn::say([Part::call("x", json!({})), Part::call("y", json!({}))]),
        ScriptedTurn::say([]),
    ]);
    let provider = Provider::start(script.clone());
    let mut content = post(&provider, GEMINI, &plain(GEMINI)).json()["candidates"][0]["content"].take();
    let results: Vec<Value> = content["parts"]
        .as_array()
        .expect("parts")
        .iter()
        .map(|part| &part["functionCall"])
        .map(|call| json!({"functionResponse": {"name": call["name"], "id": call["id"], "response": {}}}))
        .collect();
    let hi = &plain(GEMINI)["contents"][0];
    let next = |content: &Value| json!({"contents": [hi, content, {"role": "user", "parts": results}]});
    assert_eq!(post(&provider, GEMINI, &next(&content)).status, 200);
    provider.assert_clean();
    let mut cases = vec![next(&content), next(&content)];
    cases[0]["contents"][1]["parts"][0]["thoughtSignature"] = "forged".into();
    content["parts"][0].as_object_mut().expect("a part").shift_remove("thoughtSignature");
    cases[1] = next(&content);
    for body in cases {
        let bodies = vec![plain(GEMINI), body.clone()];
        check(&Case { check: Check::ThoughtSignature, path: GEMINI, script: script.clone(), bodies });
        let provider = Provider::start(script.clone());
        let older = "/v1/models/gemini-2.5-pro:generateContent";
        assert_eq!(post(&provider, older, &body).status, 200);
    }
}

#[test]
fn reasoning_stays_with_what_it_led_to() {
    let script = Script::new([
        ScriptedTurn::say([Part::thinking("hm"), Part::call("x", json!({}))]),
        ScriptedTurn::say([Part::text("ok")]),
    ]);
    let hi = user("hi");
    let reason = json!({"id": "rs_000002", "type": "reasoning", "summary": []});
    let call =
        json!({"id": "fc_000003", "type": "function_call", "call_id": "call_000004", "name": "x", "arguments": "{}"});
    let mut bare = call.clone();
    bare.as_object_mut().expect("an item").shift_remove("id");
    let output = json!({"type": "function_call_output", "call_id": "call_000004", "output": "ok"});
    let other = json!({"id": "rs_000009", "type": "reasoning", "summary": []});
    let so = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]});
    let stored = plain(RESPONSES);
    let unstored = with(RESPONSES, json!({"store": false}));
    let cases = [
        (stored.clone(), json!([hi, call, output])),
        (stored.clone(), json!([hi, reason, call, output, reason])),
        (stored.clone(), json!([hi, reason, other, call, output])),
        (stored.clone(), json!([hi, reason, so, call, output])),
        (stored.clone(), json!([hi, reason, bare, output])),
        (stored.clone(), json!([hi, {"type": "item_reference", "id": "rs_000009"}])),
        (unstored, json!([hi, reason, call, output])),
    ];
    for (first, input) in cases {
        let bodies = vec![first, with(RESPONSES, json!({"input": input}))];
        check(&Case { check: Check::ReasoningItems, path: RESPONSES, script: script.clone(), bodies });
    }
    // It has also led to what the model says after the result.
    let say = json!({"id": "msg_000006", "type": "message", "role": "assistant", "content": so["content"]});
    let second = with(RESPONSES, json!({"input": [hi, reason, call, output]}));
    let third = with(RESPONSES, json!({"input": [hi, bare, output, say, hi]}));
    let bodies = vec![stored.clone(), second, third];
    let mut longer = script.clone();
    longer.turns.push(ScriptedTurn::say([Part::text("ok")]));
    check(&Case { check: Check::ReasoningItems, path: RESPONSES, script: longer, bodies });
    let provider = Provider::start(script.clone());
    let references = ["rs_000002", "fc_000003"].map(|id| json!({"type": "item_reference", "id": id}));
    let referring = with(RESPONSES, json!({"input": [hi, references[0], references[1], output]}));
    assert!([stored.clone(), referring].iter().all(|body| post(&provider, RESPONSES, body).status == 200));
    provider.assert_clean();
    let provider = Provider::start(script);
    let referring = with(RESPONSES, json!({"previous_response_id": "resp_000001", "input": [output]}));
    assert!([stored, referring].iter().all(|body| post(&provider, RESPONSES, body).status == 200));
    provider.assert_clean();
    assert_eq!(provider.requests()[1].prefix_share, Some(1.0));
}

#[test]
fn schemas_are_not_shown_too_early() {
    let script = || answers(2).forbid("x", 1);
    let in_text = json!([{"name": "x", "parameters": {"type": "object"}}]).to_string();
    let cases = [
        (MESSAGES, json!({"tools": [tool("a"), deferred("x")]})),
        (MESSAGES, json!({"system": in_text})),
        (CHAT, json!({"tools": [chat_tool("x")]})),
        (
            RESPONSES,
            json!({"tools": [{"type": "namespace", "name": "n", "description": "", "tools": [function("x")]}]}),
        ),
        (RESPONSES, json!({"input": [{"type": "additional_tools", "role": "developer", "tools": [function("x")]}]})),
        (GEMINI, declared(&json!([{"name": "x", "parametersJsonSchema": {"type": "object"}}]))),
    ];
    for (path, changes) in cases {
        let provider = Provider::start(script());
        // It is a violation, but nothing that a provider would mind.
        assert_eq!(post(&provider, path, &with(path, changes.clone())).status, 200);
        assert_eq!(provider.violations().iter().map(|found| found.check).collect::<Vec<_>>(), [Check::ForbiddenSchema]);
        assert_eq!(post(&provider, path, &with(path, changes)).status, 200);
        assert_eq!(provider.violations().len(), 1, "from turn 1 on it may be seen");
    }
    let provider = Provider::start(script());
    post(&provider, CHAT, &with(CHAT, json!({"tools": [chat_tool("search")], "messages": [user("x")]})));
    provider.assert_clean();
}

#[test]
fn what_leads_nowhere_is_recorded() {
    let provider = Provider::start(Script::default());
    assert_eq!(post(&provider, "/v2/anything", &json!({})).status, 404);
    assert_eq!(post(&provider, CHAT, &plain(CHAT)).status, 400);
    let found: Vec<Check> = provider.violations().iter().map(|violation| violation.check).collect();
    assert_eq!(found, [Check::Endpoint, Check::Script]);
}

#[test]
fn errors_have_the_shape_of_their_provider() {
    let error = |path: &str| {
        let provider = Provider::start(Script::default());
        let mut body = post(&provider, path, &plain(path)).json();
        body["error"].as_object_mut().expect("an error").shift_remove("message");
        body
    };
    let anthropic = json!({"type": "error", "error": {"type": "invalid_request_error"}, "request_id": "req_scripted"});
    assert_eq!(error(MESSAGES), anthropic);
    assert_eq!(error(MINIMAX_MESSAGES), anthropic);
    let openai = json!({"error": {"type": "invalid_request_error", "param": null, "code": null}});
    assert_eq!(error(CHAT), openai);
    assert_eq!(error(RESPONSES), openai);
    let provider = Provider::start(Script::default());
    let unknown = post(&provider, RESPONSES, &with(RESPONSES, json!({"previous_response_id": "resp_x"}))).json();
    let expected = json!({
        "message": "Previous response with id 'resp_x' not found.", "type": "invalid_request_error",
        "param": "previous_response_id", "code": "previous_response_not_found"
    });
    assert_eq!(unknown["error"], expected);
    assert_eq!(error(GEMINI), json!({"error": {"code": 400, "status": "INVALID_ARGUMENT"}}));
    assert_eq!(error(MINIMAX_CHAT)["error"], json!({"type": "bad_request_error", "http_code": "400"}));
}
