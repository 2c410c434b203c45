use super::*;

fn terms(delivery: Delivery) -> RepairContext<'static> {
    RepairContext { delivery, search: "find_tools", without_thinking: 0, signs_calls: true }
}

/// What is sent of a history.
fn sent(wire: Wire, context: &RepairContext<'_>, history: Value) -> Value {
    let Value::Array(messages) = history else { panic!("no list: {history}") };
    wire.format().repair(context, &messages).into_iter().map(|(_, message)| message).collect()
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "cases are literals")]
fn check(wire: Wire, delivery: Delivery, history: Value, expected: Value) {
    assert_eq!(sent(wire, &terms(delivery), history), expected, "{wire:?} {delivery}");
    // A repaired history is not repaired again.
    assert_eq!(sent(wire, &terms(delivery), expected.clone()), expected, "{wire:?} {delivery}, again");
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn assistant(blocks: Value) -> Value {
    let mut message = json!({"role": "assistant"});
    message["content"] = blocks;
    message
}

#[test]
fn good_histories_stay_as_they_are() {
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let call = json!({"type": "tool_use", "id": "1", "name": "x", "input": {"a": 1}, "caller": {"type": "direct"}});
    let result =
        json!({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "tool_reference", "tool_name": "y"}]});
    let odd = json!({"type": "future_block", "data": [1, null]});
    let history = json!([user("hi"), assistant(json!([thought, odd, call])), {"role": "user", "content": [result]}, {"role": "assistant", "content": "plain"}]);
    check(Wire::Anthropic, Delivery::Reference, history.clone(), history);
    let call = json!({"id": "1", "type": "function", "function": {"name": "x", "arguments": "{\"a\": 1}"}});
    let history = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "tool_calls": [call], "odd": 1}, {"role": "tool", "tool_call_id": "1", "content": "ok"}]);
    check(Wire::Chat, Delivery::Inject, history.clone(), history);
    let history = json!([
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"},
        {"type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "call_id": "1", "execution": "client", "tools": []},
        {"type": "function_call", "call_id": "2", "name": "x", "arguments": "{}", "namespace": "g"},
        {"type": "function_call_output", "call_id": "2", "output": "ok"},
    ]);
    check(Wire::Responses, Delivery::ClientNative, history.clone(), history);
    let call = json!({"functionCall": {"name": "x", "args": {}}, "thoughtSignature": "s"});
    let response = json!({"functionResponse": {"name": "x", "response": {"output": "ok"}}});
    let history = json!([{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [call]}, {"role": "user", "parts": [response]}]);
    check(Wire::Gemini, Delivery::Inject, history.clone(), history);
}

#[test]
fn empty_turns_and_results() {
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let blank = json!({"type": "text", "text": " \n"});
    for nothing in [json!([]), json!([blank]), json!([thought]), json!("")] {
        let history = json!([user("hi"), assistant(nothing), user("go on")]);
        check(Wire::Anthropic, Delivery::Inject, history, json!([user("hi"), user("go on")]));
    }
    let so = json!({"type": "text", "text": "so"});
    check(
        Wire::Anthropic,
        Delivery::Inject,
        json!([user("hi"), assistant(json!([blank, thought, so, thought]))]),
        json!([user("hi"), assistant(json!([so]))]),
    );
    let result = |content: Value| json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": content}]}]);
    let noted = result(json!([{"type": "text", "text": NO_OUTPUT}]));
    for empty in [json!([]), json!(""), json!([blank])] {
        check(Wire::Anthropic, Delivery::Inject, result(empty), noted.clone());
    }
    check(
        Wire::Anthropic,
        Delivery::Inject,
        json!([user(""), {"role": "user", "content": []}]),
        json!([user(NO_TEXT)]),
    );

    let hi = json!({"role": "user", "content": "hi"});
    for nothing in
        [json!({"content": null}), json!({"content": ""}), json!({"tool_calls": [], "reasoning_content": "hm"})]
    {
        let mut message = nothing;
        message["role"] = "assistant".into();
        check(Wire::Chat, Delivery::Inject, json!([hi, message, hi]), json!([hi, hi]));
    }
    let refusal = json!({"role": "assistant", "content": null, "refusal": "no"});
    check(Wire::Chat, Delivery::Inject, json!([refusal]), json!([{"role": "assistant", "content": "no"}]));
    check(
        Wire::Chat,
        Delivery::Inject,
        json!([{"role": "tool", "tool_call_id": "1", "content": ""}, {"role": "user", "content": " "}]),
        json!([{"role": "tool", "tool_call_id": "1", "content": NO_OUTPUT}, {"role": "user", "content": NO_TEXT}]),
    );

    let hi = json!({"type": "message", "role": "user", "content": "hi"});
    let reasoning = json!({"type": "reasoning", "id": "rs_1"});
    let empty = json!({"type": "message", "role": "assistant", "content": []});
    check(Wire::Responses, Delivery::Inject, json!([hi, reasoning, reasoning, empty, hi, reasoning]), json!([hi, hi]));
    check(
        Wire::Responses,
        Delivery::Inject,
        json!([{"type": "function_call_output", "call_id": "1", "output": ""}]),
        json!([{"type": "function_call_output", "call_id": "1", "output": NO_OUTPUT}]),
    );

    let hi = json!({"role": "user", "parts": [{"text": "hi"}]});
    for nothing in [
        json!([]),
        json!([{"text": ""}]),
        json!([{"text": "hm", "thought": true}]),
        json!([{"text": "", "thoughtSignature": "s"}]),
        json!([{}]),
    ] {
        check(Wire::Gemini, Delivery::Inject, json!([hi, {"role": "model", "parts": nothing}, hi]), json!([hi, hi]));
    }
    let response = |key: &str, text: &str| json!([{"role": "user", "parts": [{"functionResponse": {"name": "x", "response": {key: text}}}]}]);
    check(Wire::Gemini, Delivery::Inject, response("error", ""), response("error", NO_OUTPUT));
}

#[test]
fn calls_that_were_cut_or_misnamed() {
    let call =
        |name: &str, input: Value| assistant(json!([{"type": "tool_use", "id": "1", "name": name, "input": input}]));
    for wrong in [Value::Null, json!("{\"a"), json!([1])] {
        check(Wire::Anthropic, Delivery::Inject, json!([call("a/b", wrong)]), json!([call("a_b", json!({}))]));
    }
    let call = |name: &str, arguments: &str| json!([{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}]}]);
    for wrong in ["", "{\"a", "null", "[1]"] {
        check(Wire::Chat, Delivery::Inject, call("functions.x", wrong), call("functions_x", "{}"));
    }
    let call = |name: &str, arguments: &str| json!([{"type": "function_call", "call_id": "1", "name": name, "arguments": arguments}]);
    check(Wire::Responses, Delivery::Inject, call("", "{\"a"), call("unknown", "{}"));
    let call = |name: &str, args: Value| {
        let response = json!({"functionResponse": {"name": name, "response": {"output": "ok"}}});
        json!([{"role": "model", "parts": [{"functionCall": {"name": name, "args": args}}]}, {"role": "user", "parts": [response]}])
    };
    check(Wire::Gemini, Delivery::Inject, call("a/b", json!("x")), call("a_b", json!({})));
}

#[test]
fn references_in_words() {
    let reference = |name: &str| json!({"type": "tool_reference", "tool_name": name});
    let result = |content: Value| json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": content}]}]);
    let both = result(json!([reference("a"), reference("b")]));
    check(Wire::Anthropic, Delivery::Reference, both.clone(), both.clone());
    for delivery in [Delivery::Inject, Delivery::Constant] {
        check(Wire::Anthropic, delivery, both.clone(), result(json!([{"type": "text", "text": "Tools found: a, b."}])));
    }
    check(
        Wire::Anthropic,
        Delivery::Reference,
        result(json!([reference("a"), reference("a/b")])),
        result(json!([reference("a"), {"type": "text", "text": "Tools found: a/b."}])),
    );
    let searched = assistant(json!([
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "x"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "tool_search_tool_search_result", "tool_references": [reference("a")]}},
    ]));
    check(Wire::Anthropic, Delivery::Native, json!([searched]), json!([searched]));
    check(
        Wire::Anthropic,
        Delivery::Reference,
        json!([searched]),
        json!([assistant(json!([{"type": "text", "text": "Tools found: a."}]))]),
    );

    let search = |execution: &str| {
        json!([
            {"id": "tsc_1", "type": "tool_search_call", "call_id": "1", "execution": execution, "arguments": {"query": "x"}},
            {"type": "tool_search_output", "call_id": "1", "execution": execution, "tools": [{"type": "namespace", "name": "g", "tools": [{"name": "a"}]}, {"name": "b"}]},
        ])
    };
    check(
        Wire::Responses,
        Delivery::Inject,
        search("client"),
        json!([
            {"type": "function_call", "call_id": "1", "name": "find_tools", "arguments": "{\"query\":\"x\"}"},
            {"type": "function_call_output", "call_id": "1", "output": "Tools found: a, b."},
        ]),
    );
    let said = json!([{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Tools found: a, b."}]}]);
    check(Wire::Responses, Delivery::Inject, search("server"), said);
}

#[test]
fn what_was_begun_and_given_up() {
    let begun = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let so = json!({"type": "text", "text": "so"});
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let paused = || json!([user("hi"), assistant(json!([so, begun]))]);
    check(Wire::Anthropic, Delivery::Inject, paused(), paused());
    let on = json!([user("hi"), assistant(json!([so, begun])), assistant(json!([found, so])), user("and")]);
    check(Wire::Anthropic, Delivery::Inject, on.clone(), on);
    check(
        Wire::Anthropic,
        Delivery::Inject,
        json!([
            user("hi"),
            assistant(json!([so, begun])),
            user("and"),
            assistant(json!([thought, begun])),
            user("so?")
        ]),
        json!([user("hi"), assistant(json!([so])), user("and"), user("so?")]),
    );
    for (said, left) in [
        (json!([so, begun]), Some(json!([so]))),
        (json!([thought, begun]), None),
        (json!([begun, found]), Some(json!([begun, found]))),
        (json!([thought, so]), Some(json!([thought, so]))),
    ] {
        let mut messages = vec![user("hi"), assistant(said)];
        Wire::Anthropic.format().end_paused_turn(&mut messages);
        assert_eq!(messages.get(1).map(|message| message["content"].clone()), left);
    }
}

#[test]
fn what_another_model_cannot_read() {
    let check = |model: &str, history: Value, expected: Value| {
        let model = Model::parse(model).expect("a model");
        let Value::Array(messages) = history else { panic!("no list: {history}") };
        assert_eq!(Value::from(history_for(&model, &messages)), expected, "{model}");
    };
    let so = json!({"type": "text", "text": "so"});
    let said =
        assistant(json!([{"type": "thinking", "signature": "s"}, {"type": "redacted_thinking", "data": "x"}, so]));
    check("anthropic/claude-opus-4-8", json!([said]), json!([assistant(json!([so]))]));
    check(
        "openai/gpt-5.4",
        json!([{"role": "assistant", "content": "so", "reasoning_content": "hm"}, {"role": "user", "name": "n", "content": "hi"}]),
        json!([{"role": "assistant", "content": "so"}, {"role": "user", "name": "n", "content": "hi"}]),
    );
    check(
        "openai-responses/gpt-5.4",
        json!([{"type": "reasoning", "id": "rs_1"}, {"type": "function_call", "id": "fc_1", "call_id": "1"}]),
        json!([{"type": "function_call", "call_id": "1"}]),
    );
    let call = json!({"functionCall": {"name": "x"}});
    let signed = |signature: &str| json!({"functionCall": {"name": "x"}, "thoughtSignature": signature});
    let said = |parts: Value| json!([{"role": "model", "parts": parts}]);
    let history = said(json!([{"text": "hm", "thought": true}, signed("s"), call]));
    check("gemini/gemini-3-pro", history.clone(), said(json!([signed("skip_thought_signature_validator"), call])));
    check("gemini/gemini-2.5-pro", history, said(json!([call, call])));
}

#[test]
fn calls_get_the_group_that_their_tool_was_found_in() {
    let call = |name: &str, namespace: Option<&str>| {
        let mut call = json!({"type": "function_call", "call_id": name, "name": name, "arguments": "{}"});
        if let Some(namespace) = namespace {
            call["namespace"] = namespace.into();
        }
        call
    };
    let group = json!({"type": "namespace", "name": "g", "tools": [{"name": "a"}, {"name": "d"}]});
    let tools = json!([group, {"name": "b", "defer_loading": true}, {"name": "c"}, {"name": "d"}]);
    let found = json!({"type": "tool_search_output", "execution": "server", "tools": tools});
    let bare = json!([found, call("a", None), call("b", None), call("c", None), call("d", None), call("e", None)]);
    let grouped =
        json!([found, call("a", Some("g")), call("b", Some("b")), call("c", None), call("d", None), call("e", None)]);
    check(Wire::Responses, Delivery::ClientNative, bare, grouped.clone());
    let left = sent(Wire::Responses, &terms(Delivery::Inject), grouped);
    assert!(!left.to_string().contains("namespace"), "{left}");
}
