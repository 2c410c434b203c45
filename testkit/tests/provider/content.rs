//! Histories in which something is empty, cut off or left open.

use pegboard_testkit::provider::{Check, Output, Part, Provider, Script, ScriptedTurn, Stop};
use serde_json::{Value, json};

use crate::{
    checks::{FOREIGN, accepted, assistant, refused, tool, tool_result, tool_use, user},
    client::post,
    wires::{CHAT, GEMINI, MESSAGES, MINIMAX_CHAT, MINIMAX_MESSAGES, RESPONSES, plain},
};

#[test]
fn messages_say_something_on_messages() {
    for path in [MESSAGES, MINIMAX_MESSAGES] {
        let said = |content: Value| json!({"messages": [user("hi"), assistant(content), user("go on")]});
        accepted(path, said(json!([{"type": "text", "text": "so"}])));
        refused(Check::Required, path, said(json!([])));
        refused(Check::Required, path, said(json!("")));
        refused(Check::Required, path, said(json!([{"type": "text", "text": ""}])));
        refused(Check::Required, path, said(json!([{"type": "text", "text": " \n"}])));
        accepted(path, json!({"messages": [user("hi"), assistant(json!([]))]}));
        let result = |content: Value| {
            let mut result = tool_result("1");
            result["content"] = content;
            let messages = json!([user("hi"), assistant(json!([tool_use("1", "x")])), user(json!([result]))]);
            json!({"tools": [tool("x")], "messages": messages})
        };
        accepted(path, result(json!([{"type": "text", "text": "ok"}])));
        accepted(path, result(json!("")));
        refused(Check::Required, path, result(json!([{"type": "text", "text": ""}])));
        refused(Check::Required, path, result(json!([{"type": "text", "text": "\n"}])));
    }
}

#[test]
fn messages_say_something_on_chat() {
    let said = |message: Value| json!({"messages": [user("hi"), message, user("go on")]});
    for path in [CHAT, MINIMAX_CHAT] {
        accepted(path, said(json!({"role": "assistant", "content": "so"})));
        refused(Check::Required, path, said(json!({"role": "assistant", "content": null})));
        refused(Check::Required, path, said(json!({"role": "assistant"})));
        refused(Check::Required, path, said(json!({"role": "assistant", "content": "so", "tool_calls": []})));
    }
}

#[test]
fn messages_say_something_on_gemini() {
    let said = |parts: Value| {
        let hi = json!({"role": "user", "parts": [{"text": "hi"}]});
        json!({"contents": [hi, {"role": "model", "parts": parts}, hi]})
    };
    accepted(GEMINI, said(json!([{"text": "so"}])));
    refused(Check::Required, GEMINI, said(json!([])));
    refused(Check::Required, GEMINI, said(json!([{}])));
    refused(Check::Required, GEMINI, said(Value::Null));
}

#[test]
fn arguments_are_objects() {
    let call = |input: Value| {
        let mut call = tool_use("1", "x");
        call["input"] = input;
        let messages = json!([user("hi"), assistant(json!([call])), user(json!([tool_result("1")]))]);
        json!({"tools": [tool("x")], "messages": messages})
    };
    accepted(MESSAGES, call(json!({})));
    for wrong in [Value::Null, json!("{\"a\""), json!([])] {
        refused(Check::Required, MESSAGES, call(wrong));
    }
    let chat = |arguments: &str| {
        let call = json!({"id": "1", "type": "function", "function": {"name": "x", "arguments": arguments}});
        let result = json!({"role": "tool", "tool_call_id": "1", "content": "ok"});
        json!({"messages": [user("hi"), {"role": "assistant", "tool_calls": [call]}, result]})
    };
    accepted(CHAT, chat("{\"a\""));
    accepted(MINIMAX_CHAT, chat("{}"));
    refused(Check::Required, MINIMAX_CHAT, chat("{\"a\""));
    let gemini = |args: Value| {
        let call = json!({"functionCall": {"name": "x", "args": args}, "thoughtSignature": FOREIGN});
        let hi = json!({"role": "user", "parts": [{"text": "hi"}]});
        let response = json!({"functionResponse": {"name": "x", "response": {}}});
        json!({"contents": [hi, {"role": "model", "parts": [call]}, {"role": "user", "parts": [response]}]})
    };
    accepted(GEMINI, gemini(json!({})));
    refused(Check::Required, GEMINI, gemini(json!("{")));
}

#[test]
fn calls_have_names_that_tools_can_have() {
    for (name, is_right) in [("x", true), ("a/b", false), ("functions.x", false)] {
        let messages = json!([user("hi"), assistant(json!([tool_use("1", name)])), user(json!([tool_result("1")]))]);
        let call = json!({"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}});
        let result = json!({"role": "tool", "tool_call_id": "1", "content": "ok"});
        let chat = json!({"messages": [user("hi"), {"role": "assistant", "tool_calls": [call]}, result]});
        let call = json!({"type": "function_call", "call_id": "1", "name": name, "arguments": "{}"});
        let output = json!({"type": "function_call_output", "call_id": "1", "output": "ok"});
        let items = json!({"input": [user("hi"), call, output]});
        for (path, body) in
            [(MESSAGES, json!({"tools": [tool("x")], "messages": messages})), (CHAT, chat), (RESPONSES, items)]
        {
            if is_right { accepted(path, body) } else { refused(Check::ToolNames, path, body) }
        }
    }
}

#[test]
fn what_the_provider_began_is_finished_or_dropped() {
    let begun = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let text = json!({"type": "text", "text": "so"});
    let hi = user("hi");
    accepted(MESSAGES, json!({"messages": [hi, assistant(json!([begun]))]}));
    accepted(MESSAGES, json!({"messages": [hi, assistant(json!([begun])), assistant(json!([found, text])), hi]}));
    refused(Check::ToolPairs, MESSAGES, json!({"messages": [hi, assistant(json!([begun])), hi]}));
    refused(
        Check::ToolPairs,
        MESSAGES,
        json!({"messages": [hi, assistant(json!([text, begun])), hi, assistant("so"), hi]}),
    );
    let waiting = assistant(json!([begun, tool_use("1", "x")]));
    let results = user(json!([tool_result("1")]));
    accepted(MESSAGES, json!({"tools": [tool("x")], "messages": [hi, waiting, results]}));
}

#[test]
fn thoughts_lead_to_something() {
    let thought = Part::Thinking { text: "hm".into(), signature: Some("sig".into()) };
    let script = || Script::new([ScriptedTurn::say([thought.clone()]), ScriptedTurn::say([Part::text("ok")])]);
    let said = json!([{"type": "thinking", "thinking": "hm", "signature": "sig"}]);
    let second =
        json!({"model": "claude-opus-4-8", "max_tokens": 9, "messages": [user("hi"), assistant(said), user("go on")]});
    let provider = Provider::start(script());
    assert_eq!(post(&provider, MESSAGES, &plain(MESSAGES)).status, 200);
    assert_eq!(post(&provider, MESSAGES, &second).status, 400);
    assert_eq!(provider.violations()[0].check, Check::ThinkingDropped);
    let reason = json!({"id": "rs_1", "type": "reasoning", "summary": []});
    refused(Check::ReasoningItems, RESPONSES, json!({"input": [user("hi"), reason, user("go on")]}));
    let so = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]});
    accepted(RESPONSES, json!({"input": [user("hi"), reason, so, user("go on")]}));
}

#[test]
fn searches_are_not_known_everywhere() {
    let search = json!({"type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": {}});
    let found = json!({"type": "tool_search_output", "call_id": "1", "execution": "client", "tools": []});
    let body = json!({"input": [user("hi"), search, found]});
    accepted(RESPONSES, body.clone());
    let mut older = body;
    older["model"] = "gpt-5.3-codex".into();
    refused(Check::Unsupported, RESPONSES, older);
}

/// Arguments that are a text were cut off there.
#[test]
fn calls_can_be_cut_off() {
    let cut = || {
        let parts = vec![Part::call("x", json!("{\"city\": \"Ro"))];
        Script::new([ScriptedTurn::Say(Output { parts, stop: Some(Stop::MaxTokens), ..Output::default() })])
    };
    let said = |path: &str, changes: Value| {
        let provider = Provider::start(cut());
        let mut body = plain(path);
        body.as_object_mut().expect("an object").extend(changes.as_object().cloned().unwrap_or_default());
        post(&provider, path, &body)
    };
    let whole = said(MESSAGES, json!({})).json();
    assert_eq!((&whole["content"][0]["input"], &whole["stop_reason"]), (&json!({}), &json!("max_tokens")));
    let pieces = String::from_utf8_lossy(&said(MESSAGES, json!({"stream": true})).body()).into_owned();
    assert!(pieces.contains(r#"{\"city\": \"Ro"#), "{pieces}");
    let whole = said(CHAT, json!({})).json();
    let call = &whole["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(
        (&call["arguments"], &whole["choices"][0]["finish_reason"]),
        (&json!("{\"city\": \"Ro"), &json!("length"))
    );
    let whole = said(RESPONSES, json!({})).json();
    assert_eq!((&whole["output"][0]["arguments"], &whole["status"]), (&json!("{\"city\": \"Ro"), &json!("incomplete")));
    let whole = said(GEMINI, json!({})).json();
    assert_eq!(whole["candidates"][0]["content"]["parts"][0]["functionCall"]["args"], json!({}));
}
