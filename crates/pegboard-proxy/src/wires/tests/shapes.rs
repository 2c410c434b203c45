//! Odd forms of streams that real providers and servers send.

use super::*;

/// What became of a stream of several rounds.
struct Spliced {
    /// What the client got.
    bytes: Vec<u8>,
    said: Said,
    rounds: Vec<Round>,
}

/// Splices the events of several rounds. An event is JSON, or a text that is sent as it is.
fn splice(name: WireName, rounds: &[Vec<Value>]) -> Spliced {
    let wire = name.wire();
    let (mut calls, mut bytes, mut closed) = (calls_of(wire), Vec::new(), Vec::new());
    let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
    for events in rounds {
        for frame in FrameReader::new(1 << 20).push(&written(name, events)).expect("small") {
            if !splicer.is_round_over() {
                splicer.frame(&frame, &mut calls, &mut bytes);
            }
        }
        closed.push(splicer.end_round(&mut calls, &mut bytes));
    }
    if closed.last().is_some_and(|round| matches!(round.end, End::Complete | End::Stopped)) {
        splicer.finish(None, &mut bytes);
    }
    Spliced { bytes, said: splicer.said().clone(), rounds: closed }
}

/// Returns events as a provider sends them.
fn written(name: WireName, events: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for event in events {
        let kind = event.get("type").and_then(Value::as_str).filter(|_| name != WireName::Chat);
        match event {
            Value::String(raw) => out.extend_from_slice(raw.as_bytes()),
            event => sse::write(kind, &event.to_string(), &mut out),
        }
    }
    out
}

/// Returns an event of Chat Completions with one choice.
fn chunk(delta: Value, finish: Value, usage: Value) -> Value {
    let mut chunk = json!({"id": "r0", "object": "chat.completion.chunk", "choices": [{"index": 0}]});
    let choice = &mut chunk["choices"][0];
    (choice["delta"], choice["finish_reason"]) = (delta, finish);
    chunk["usage"] = usage;
    chunk
}

fn delta(delta: Value) -> Value {
    chunk(delta, Value::Null, Value::Null)
}

fn piece(call: Value) -> Value {
    delta(json!({"tool_calls": Value::Array(vec![call])}))
}

fn finish(reason: &str) -> Value {
    chunk(json!({}), reason.into(), Value::Null)
}

fn done() -> Value {
    "data: [DONE]\n\n".into()
}

fn usage() -> Value {
    json!({"prompt_tokens": 10, "completion_tokens": 1})
}

/// Returns the pieces of a search.
fn chat_search() -> Vec<Value> {
    let function = json!({"name": SEARCH, "arguments": "{\"query\": \"send mail\"}"});
    vec![piece(json!({"index": 0, "id": "s1", "type": "function", "function": function})), finish("tool_calls"), done()]
}

/// Checks what the client of Chat Completions gets of an answer, behind a search and without it.
#[track_caller]
fn check_chat(answer: &[Value], expected: &str) {
    let answer = [answer, &[done()]].concat();
    for rounds in [vec![answer.clone()], vec![chat_search(), answer]] {
        let spliced = splice(WireName::Chat, &rounds);
        let text = String::from_utf8_lossy(&spliced.bytes).into_owned();
        assert_eq!(assemble(WireName::Chat, &spliced.bytes).said, expected, "{text}");
        let calls = spliced.said.calls.iter().map(|call| format!("[{} {} {}]", call.id, call.name, call.arguments));
        assert_eq!(spliced.said.text.clone() + &calls.collect::<String>(), expected, "what was said: {text}");
        assert_eq!(text.matches("[DONE]").count(), 1, "{text}");
        assert!(!text.contains(SEARCH) && !text.contains(CALL), "{text}");
    }
}

#[test]
fn pieces_of_a_call_with_an_empty_id_or_name() {
    let check = |name: &str, arguments: &str, expected: &str| {
        let (first, second) = arguments.split_at(9);
        let start = json!({"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": first}});
        for rest in [
            json!({"index": 0, "id": "", "type": "function", "function": {"arguments": second}}),
            json!({"index": 0, "function": {"name": "", "arguments": second}}),
            json!({"index": 0, "id": null, "type": null, "function": {"name": null, "arguments": second}}),
            json!({"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": second}}),
            json!({"id": "", "function": {"name": "", "arguments": second}}),
            json!({"id": "c1", "function": {"name": name, "arguments": second}}),
        ] {
            check_chat(&[piece(start.clone()), numbered(rest), finish("tool_calls")], expected);
        }
    };
    /// The client that assembles the stream needs numbers.
    fn numbered(mut call: Value) -> Value {
        if call.get("index").is_none() {
            call["index"] = 0.into();
        }
        piece(call)
    }
    check("send_mail", r#"{"to":"ann"}"#, r#"[c1 send_mail {"to":"ann"}]"#);
    check(CALL, r#"{"name":"send_mail","arguments":{"to":"ann"}}"#, r#"[c1 send_mail {"to":"ann"}]"#);
}

/// Checks that an answer keeps its bytes, and that behind a search its lifecycle is that of one answer.
#[track_caller]
fn check_lifecycle(answer: &[Value], expected: &str) {
    let alone = splice(WireName::Chat, &[answer.to_vec()]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&alone.bytes), text(&written(WireName::Chat, answer)));
    let searched = chat_search().into_iter().map(|mut event| {
        if event["choices"][0]["finish_reason"] == "tool_calls" {
            event["usage"] = usage();
        }
        event
    });
    let spliced = splice(WireName::Chat, &[searched.collect(), answer.to_vec()]);
    assert_eq!(assemble(WireName::Chat, &spliced.bytes).lifecycle, expected, "{}", text(&spliced.bytes));
}

#[test]
fn counts_in_a_choice_that_says_nothing() {
    let says = [delta(json!({"role": "assistant", "content": ""})), delta(json!({"content": "Done."})), finish("stop")];
    let none = json!({"role": "assistant", "content": ""});
    for said in [none.clone(), json!({}), Value::Null, json!({"content": null, "tool_calls": null})] {
        let counted = chunk(said, Value::Null, usage());
        let answer = [&says[..], &[counted, done()]].concat();
        check_lifecycle(&answer, r#"{"r0"} roles=0 ["stop"] usage=[Number(20)] done=1"#);
    }
    // With the end, once or twice.
    let last = chunk(none, "stop".into(), usage());
    let answer = [&says[..2], &[last.clone(), done()]].concat();
    check_lifecycle(&answer, r#"{"r0"} roles=0 ["stop"] usage=[Number(20)] done=1"#);
    let spliced = splice(WireName::Chat, &[chat_search(), [&says[..], &[last, done()]].concat()]);
    let lifecycle = assemble(WireName::Chat, &spliced.bytes).lifecycle;
    assert_eq!(lifecycle, r#"{"r0"} roles=0 ["stop"] usage=[Number(10)] done=1"#);
    // At the end and behind it.
    let both = [chunk(json!({}), "stop".into(), usage()), json!({"id": "r0", "choices": [], "usage": usage()})];
    let answer = [&says[..2], &both, &[done()]].concat();
    check_lifecycle(&answer, r#"{"r0"} roles=0 ["stop"] usage=[Number(20)] done=1"#);
}

#[test]
fn counts_in_every_event_go_on_over_rounds() {
    let counted = |said: Value, reason: Value, tokens: u64| chunk(said, reason, json!({"prompt_tokens": tokens}));
    let answer = [
        counted(json!({"role": "assistant", "content": ""}), Value::Null, 1),
        counted(json!({"content": "Do"}), Value::Null, 2),
        counted(json!({"content": ""}), Value::Null, 2),
        counted(json!({"content": "ne."}), Value::Null, 3),
        counted(json!({}), "stop".into(), 4),
        done(),
    ];
    let lifecycle = r#"{"r0"} roles=0 ["stop"] usage=[Number(12), Number(13), Number(14)] done=1"#;
    check_lifecycle(&answer, lifecycle);
}

#[test]
fn an_empty_reason_is_not_an_end() {
    let says = |content: &str| chunk(json!({"content": content}), "".into(), Value::Null);
    let answer = [says("Do"), says("ne."), finish("stop"), done()];
    check_lifecycle(&answer, r#"{"r0"} roles=0 ["stop"] usage=[] done=1"#);
    check_chat(&answer[..3], "Done.");
    let cut = splice(WireName::Chat, &[answer[..2].to_vec()]);
    assert_eq!(cut.rounds[0].end, End::Broken);
    let mut searched = chat_search();
    searched[0]["choices"][0]["finish_reason"] = "".into();
    assert_eq!(splice(WireName::Chat, &[searched]).rounds[0].hidden.len(), 1);
}

#[test]
fn calls_with_missing_and_equal_numbers() {
    let search = json!({"query": "send mail"}).to_string();
    let to = |name: &str| json!({"to": name}).to_string();
    let call = |index: Value, id: &str, name: &str, arguments: &str| {
        let mut call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        if !index.is_null() {
            call["index"] = index;
        }
        call
    };
    let said = |calls: &[Value]| {
        let one_by_one: Vec<Value> = calls.iter().cloned().map(piece).collect();
        let at_once = vec![delta(json!({"tool_calls": calls}))];
        [one_by_one, at_once].map(|events| {
            let spliced = splice(WireName::Chat, &[[&events[..], &[finish("tool_calls"), done()]].concat()]);
            let text = String::from_utf8_lossy(&spliced.bytes).into_owned();
            assert!(!text.contains(SEARCH) && !text.contains(CALL), "{text}");
            assert_eq!(spliced.rounds[0].hidden.len(), 1, "{text}");
            let calls = spliced.said.calls.iter().map(|call| format!("[{} {} {}]", call.id, call.name, call.arguments));
            (calls.collect::<String>(), spliced.bytes)
        })
    };
    let expected = r#"[c1 send_mail {"to":"a"}][c2 send_mail {"to":"b"}]"#;
    let inner = json!({"name": "send_mail", "arguments": {"to": "b"}}).to_string();
    for last in [("send_mail", &to("b")), (CALL, &inner)] {
        for number in [json!(0), Value::Null] {
            let whole = to("a");
            let (first, second) = whole.split_at(4);
            let calls = [
                call(number.clone(), "s1", SEARCH, &search),
                call(number.clone(), "c1", "send_mail", first),
                call(number.clone(), "", "", second),
                call(number.clone(), "c2", last.0, last.1),
            ];
            for (found, bytes) in said(&calls) {
                assert_eq!(found, expected, "{number}");
                if !number.is_null() {
                    assert_eq!(assemble(WireName::Chat, &bytes).said, expected);
                }
            }
        }
    }
}

#[test]
fn a_call_whose_name_comes_later() {
    let check = |name: &str, arguments: &str, expected: &str| {
        let start = json!({"index": 0, "id": "c1", "type": "function", "function": {"arguments": ""}});
        let named = json!({"index": 0, "function": {"name": name, "arguments": arguments}});
        check_chat(&[piece(start), piece(named), finish("tool_calls")], expected);
    };
    check("send_mail", r#"{"to":"ann"}"#, r#"[c1 send_mail {"to":"ann"}]"#);
    check(CALL, r#"{"name":"send_mail","arguments":{"to":"ann"}}"#, r#"[c1 send_mail {"to":"ann"}]"#);
    // Without any name, and of another type.
    let nameless = json!({"index": 0, "id": "c1", "type": "function", "function": {"arguments": "{}"}});
    check_chat(&[piece(nameless), finish("tool_calls")], "[c1  {}]");
    let custom = json!({"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}});
    check_chat(&[piece(custom), finish("tool_calls")], "[c1  ]");
}

#[test]
fn arguments_as_an_object() {
    let inner = json!({"name": "send_mail", "arguments": {"to": "ann"}});
    let call = |name: &str, arguments: &Value| json!({"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}});
    let whole = call(CALL, &inner);
    check_chat(&[piece(whole.clone()), finish("tool_calls")], r#"[c1 send_mail {"to":"ann"}]"#);
    let search = call(SEARCH, &json!({"query": "send mail"}));
    let spliced = splice(WireName::Chat, &[vec![piece(search), finish("tool_calls"), done()]]);
    assert_eq!(searches(&spliced.rounds[0])[0].arguments, r#"{"query":"send mail"}"#);
    let message = json!({"role": "assistant", "content": null, "tool_calls": [whole]});
    let answer = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
    let mut splicer = Chat.splicer(&Object::parse("{}").expect("an object"));
    splicer.answer(answer, &mut calls_of(&Chat));
    let public: Value = serde_json::from_str(&splicer.finish_answer(None)).expect("JSON");
    let function = &public["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(*function, json!({"name": "send_mail", "arguments": r#"{"to":"ann"}"#}));
    // A program may send them back as text.
    let echoed = json!({"role": "assistant", "tool_calls": [call("send_mail", &json!({"to": "ann"}))]});
    assert_eq!(Chat.said(&echoed).expect("the model's").calls, splicer.said().calls);
}

#[test]
fn deltas_that_say_nothing_and_content_in_parts() {
    let empty = [
        delta(Value::Null),
        delta(json!({"content": null, "tool_calls": null, "refusal": null})),
        delta(json!({"content": "", "tool_calls": []})),
        ": keep-alive\n\n".into(),
        "event: ping\n\n".into(),
        "data:\n\n".into(),
    ];
    let says = [delta(json!({"content": "Done."})), finish("stop")];
    check_chat(&[&empty[..], &says].concat(), "Done.");
    let last = json!({"index": 0, "id": "c1", "function": {"name": "send_mail", "arguments": "{}"}});
    let last = chunk(json!({"content": "x", "tool_calls": [last]}), "tool_calls".into(), Value::Null);
    check_chat(&[last, done(), done()], "x[c1 send_mail {}]");
    let thought = |text: &str| json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]});
    let parts = [delta(json!({"content": ""})), delta(thought("a")), delta(json!({"content": "Do"}))];
    let more = [delta(json!({"content": [{"type": "text", "text": "n"}]})), delta(json!({"content": "e."}))];
    let spliced = splice(WireName::Chat, &[[&parts[..], &more, &chat_search()].concat()]);
    assert_eq!(spliced.said.text, "Done.");
    let item: Value = serde_json::from_str(&spliced.rounds[0].items[0]).expect("JSON");
    let content = json!([thought("a")["content"][0], {"type": "text", "text": "Do"}, {"type": "text", "text": "ne."}]);
    assert_eq!(item["content"], content);
}

#[test]
fn calls_whose_pieces_alternate() {
    let call = |index: u64, id: &str, name: &str, arguments: &str| json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
    let pieces = [
        call(0, "c1", CALL, r#"{"name":"send_mail","#),
        call(1, "c2", "send_mail", r#"{"to":"b"}"#),
        call(0, "", "", r#""arguments":{"to":"a"}}"#),
    ];
    let events = [&pieces.map(piece)[..], &[finish("tool_calls")]].concat();
    check_chat(&events, r#"[c2 send_mail {"to":"b"}][c1 send_mail {"to":"a"}]"#);
}

fn response(id: &str, status: &str, output: Value) -> Value {
    let mut response = json!({"id": id, "status": status, "usage": {"input_tokens": 10}});
    response["output"] = output;
    json!({"type": format!("response.{status}"), "response": response})
}

fn created(id: &str) -> Value {
    json!({"type": "response.created", "response": {"id": id, "status": "in_progress", "output": []}})
}

fn message(id: &str, text: &str) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn function_call(id: &str, name: &str, arguments: &Value) -> Value {
    let arguments = arguments.to_string();
    json!({"id": format!("fc_{id}"), "type": "function_call", "call_id": id, "name": name, "arguments": arguments})
}

fn item_event(kind: &str, index: usize, item: &Value) -> Value {
    json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item})
}

fn text_delta(index: usize, text: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": index, "delta": text})
}

fn response_search() -> Vec<Value> {
    let search = function_call("s1", SEARCH, &json!({"query": "send mail"}));
    vec![
        created("r0"),
        item_event("added", 0, &search),
        item_event("done", 0, &search),
        response("r0", "completed", json!([search])),
    ]
}

/// Checks that an answer without hidden items keeps its bytes, and the output of the final response behind a search.
#[track_caller]
fn check_response(answer: &[Value], output: &Value, said: &str) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let alone = splice(WireName::Responses, &[answer.to_vec()]);
    assert_eq!(text(&alone.bytes), text(&written(WireName::Responses, answer)));
    let searched = splice(WireName::Responses, &[response_search(), answer.to_vec()]);
    for spliced in [&alone, &searched] {
        let calls = spliced.said.calls.iter().map(|call| format!("[{} {} {}]", call.id, call.name, call.arguments));
        assert_eq!(spliced.said.text.clone() + &calls.collect::<String>(), said);
    }
    let last = events(&searched.bytes).pop().expect("an event");
    assert_eq!((&last["response"]["output"], &last["response"]["id"]), (output, &json!("r0")), "{last}");
    assert_eq!(last["response"]["usage"]["input_tokens"], 20);
    assert!(!text(&searched.bytes).contains(SEARCH));
}

#[test]
fn responses_whose_items_are_not_announced() {
    let done = message("m1", "Done.");
    let deltas = [created("r1"), text_delta(0, "Do"), text_delta(0, "ne.")];
    let whole = response("r1", "completed", json!([done]));
    check_response(&[&deltas[..], std::slice::from_ref(&whole)].concat(), &json!([done]), "Done.");
    check_response(&[whole], &json!([done]), "Done.");
    // With the end of an item only, in the order in which the provider lists them, and with other ids at the end.
    let thought = json!({"id": "rs_1", "type": "reasoning", "summary": []});
    let call = function_call("c1", "send_mail", &json!({"to": "a"}));
    let listed = json!([thought, message("m9", "Done."), call]);
    let answer = [
        created("r1"),
        item_event("done", 0, &done),
        item_event("added", 1, &call),
        item_event("done", 1, &call),
        response("r1", "completed", listed),
    ];
    check_response(&answer, &json!([done, call, thought]), r#"Done.[c1 send_mail {"to":"a"}]"#);
    let items = &splice(WireName::Responses, &[answer.to_vec()]).rounds[0].items;
    assert!(items.len() == 3 && items[0].contains("rs_1"), "{items:?}");
    // Without a list at the end.
    let answer = [created("r1"), item_event("added", 0, &done), item_event("done", 0, &done)];
    let answer = [&answer[..], &[response("r1", "completed", json!([]))]].concat();
    check_response(&answer, &json!([done]), "Done.");
}

#[test]
fn calls_that_only_the_final_response_has() {
    let search = function_call("s1", SEARCH, &json!({"query": "send mail"}));
    let call = function_call("c1", CALL, &json!({"name": "send_mail", "arguments": {"to": "a"}}));
    let delta = json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"query\""});
    let answer = [created("r0"), delta, response("r0", "completed", json!([search, call]))];
    let spliced = splice(WireName::Responses, &[answer.to_vec()]);
    let round = &spliced.rounds[0];
    assert_eq!((searches(round).len(), round.client_calls, round.items.len()), (1, 1, 2), "{round:?}");
    let text = String::from_utf8_lossy(&spliced.bytes);
    assert!(!text.contains(SEARCH) && !text.contains(CALL) && !text.contains("query"), "{text}");
    let public = function_call("c1", "send_mail", &json!({"to": "a"}));
    let events = events(&spliced.bytes);
    assert_eq!(events.last().expect("an event")["response"]["output"], json!([public]));
    assert!(events.iter().any(|event| event["type"] == "response.output_item.done" && event["item"] == public));
    // An object as arguments.
    let mut search = search;
    search["arguments"] = json!({"query": "send mail"});
    let spliced = splice(WireName::Responses, &[vec![response("r0", "completed", json!([search]))]]);
    assert_eq!(searches(&spliced.rounds[0])[0].arguments, r#"{"query":"send mail"}"#);
}

#[test]
fn an_item_at_which_the_model_was_stopped() {
    let begun = message("m1", "");
    let cut = message("m1", "It ends he");
    let answer = [
        created("r1"),
        item_event("added", 0, &begun),
        text_delta(0, "It ends he"),
        response("r1", "incomplete", json!([cut])),
    ];
    check_response(&answer, &json!([cut]), "It ends he");
    let search = function_call("s1", SEARCH, &json!({}));
    let answer = [created("r1"), item_event("added", 0, &search), response("r1", "incomplete", json!([search]))];
    let spliced = splice(WireName::Responses, &[answer.to_vec()]);
    assert!(!spliced.rounds[0].has_hidden_calls() && spliced.rounds[0].items.is_empty());
    let last = events(&spliced.bytes).pop().expect("an event");
    assert_eq!(last["response"]["output"], json!([]), "{last}");
}

#[test]
fn failed_responses_show_nothing_hidden() {
    let wait = message("m1", "Wait.");
    let mut first = response_search();
    first.splice(1..1, [item_event("added", 1, &wait), item_event("done", 1, &wait)]);
    let search = function_call("s2", SEARCH, &json!({}));
    let failed = response("r1", "failed", json!([search]));
    let spliced = splice(WireName::Responses, &[first, vec![created("r1"), failed.clone()]]);
    assert_eq!(spliced.rounds[1].end, End::Failed);
    let last = events(&spliced.bytes).pop().expect("an event");
    let response = &last["response"];
    assert_eq!((&response["id"], &response["output"]), (&json!("r0"), &json!([wait])), "{last}");
    assert_eq!((&response["status"], &response["usage"]["input_tokens"]), (&json!("failed"), &json!(20)));
    // In the first round, with hidden items and without, and without an id.
    let spliced = splice(WireName::Responses, &[vec![failed]]);
    let last = events(&spliced.bytes).pop().expect("an event");
    assert_eq!((&last["response"]["id"], &last["response"]["output"]), (&json!("r1"), &json!([])));
    for response in [json!({"status": "failed", "output": []}), json!({"id": "r1", "error": {"code": "x"}})] {
        let failed = vec![json!({"type": "response.failed", "response": response})];
        let bytes = splice(WireName::Responses, std::slice::from_ref(&failed)).bytes;
        assert_eq!(bytes, written(WireName::Responses, &failed));
    }
    // An error in a later round has no response.
    let error = json!({"type": "error", "message": "x"});
    let spliced = splice(WireName::Responses, &[response_search(), vec![created("r1"), error.clone()]]);
    assert_eq!((spliced.rounds[1].end, events(&spliced.bytes).pop()), (End::Failed, Some(error)));
}

#[test]
fn events_of_responses_are_numbered_one_by_one() {
    let call = function_call("c1", "send_mail", &json!({"to": "a"}));
    let wrapped = function_call("c2", CALL, &json!({"name": "send_mail", "arguments": {"to": "b"}}));
    let mut events_of = vec![
        created("r0"),
        item_event("added", 0, &wrapped),
        item_event("added", 1, &call),
        item_event("done", 1, &call),
        item_event("done", 0, &wrapped),
        item_event("done", 2, &message("m1", "Done.")),
        response("r0", "completed", json!([])),
    ];
    events_of.iter_mut().enumerate().for_each(|(at, event)| event["sequence_number"] = at.into());
    let spliced = splice(WireName::Responses, &[events_of]);
    let seen = events(&spliced.bytes);
    let numbers: Vec<u64> = seen.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..seen.len() as u64).collect::<Vec<_>>());
    // What was said is in the order in which the client has got it.
    let said: Vec<&str> = spliced.said.calls.iter().map(|call| call.id.as_str()).collect();
    let output = seen.last().expect("an event")["response"]["output"].as_array().cloned().expect("items");
    let shown: Vec<&str> = output.iter().map(|item| text(item, "call_id")).filter(|id| !id.is_empty()).collect();
    assert_eq!((&said, said.len()), (&shown, 2));
}

#[test]
fn text_in_the_event_of_a_hidden_call_flows_at_once() {
    let said = json!({"text": "Let me look."});
    let call = |name: &str, args: Value| json!({"functionCall": {"name": name, "args": args}});
    let event = |parts: &[&Value], finish: Value| {
        let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": finish});
        json!({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 10}, "responseId": "r0"})
    };
    let (last, none) = (event(&[&json!({"text": "Done."})], "STOP".into()), Value::Null);
    for hidden in [call(SEARCH, json!({"query": "mail"})), call(CALL, json!({"name": "no_such_tool"}))] {
        for first in [
            vec![event(&[&said, &hidden], "STOP".into())],
            vec![event(&[&hidden, &said], "STOP".into())],
            vec![event(&[&hidden], none.clone()), event(&[&said], "STOP".into())],
            vec![event(&[&said, &hidden], none.clone()), event(&[], "STOP".into())],
            vec![event(&[&said], none.clone()), event(&[&hidden], "".into()), event(&[], "STOP".into())],
        ] {
            let wire = WireName::Gemini.wire();
            let (mut calls, mut out) = (calls_of(wire), Vec::new());
            let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
            let bytes = written(WireName::Gemini, &first);
            for frame in FrameReader::new(1 << 20).push(&bytes).expect("small") {
                splicer.frame(&frame, &mut calls, &mut out);
            }
            let text = String::from_utf8_lossy(&out).into_owned();
            assert!(text.contains("Let me look.") && !text.contains("STOP"), "{text}");
            let spliced = splice(WireName::Gemini, &[first, vec![last.clone()]]);
            let outcome = assemble(WireName::Gemini, &spliced.bytes);
            assert_eq!((outcome.said.as_str(), spliced.said.text.as_str()), ("Let me look.Done.", "Let me look.Done."));
            let text = String::from_utf8_lossy(&spliced.bytes);
            assert_eq!((text.matches("\"STOP\"").count(), spliced.rounds[0].hidden.len()), (1, 1), "{text}");
            assert!(outcome.lifecycle.ends_with(" 20"), "{}", outcome.lifecycle);
        }
    }
}

/// Returns the events of a message with one call, without its last one.
fn message_events(input: &Value, pieces: &[&str], has_stop: bool, name: &str) -> Vec<Value> {
    let message =
        json!({"id": "r0", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 10}});
    let block = json!({"type": "tool_use", "id": "c1", "name": name, "input": input});
    let piece = |piece: &&str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}});
    let mut events = vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
    ];
    events.extend(pieces.iter().map(piece));
    events.extend(has_stop.then(|| json!({"type": "content_block_stop", "index": 0})));
    events
}

#[test]
fn the_end_of_a_message_in_several_events() {
    let part = |reason: Value, usage: Value| json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": usage});
    let stop = json!({"type": "message_stop"});
    for ends in [
        [part("tool_use".into(), Value::Null), part(Value::Null, json!({"output_tokens": 7}))],
        [part(Value::Null, json!({"output_tokens": 7})), part("tool_use".into(), json!({"output_tokens": null}))],
        [part("".into(), json!({"output_tokens": 1})), part("tool_use".into(), json!({"output_tokens": 7}))],
    ] {
        let ended = |name: &str, arguments: &str| {
            let events = message_events(&json!({}), &["", arguments], true, name);
            [&events[..], &ends, std::slice::from_ref(&stop)].concat()
        };
        let call = ended("send_mail", r#"{"to":"a"}"#);
        let alone = splice(WireName::Messages, std::slice::from_ref(&call));
        assert_eq!(alone.bytes, written(WireName::Messages, &call));
        assert_eq!(alone.rounds[0].end, End::Complete);
        let spliced = splice(WireName::Messages, &[ended(SEARCH, r#"{"query":"mail"}"#), call]);
        let outcome = assemble(WireName::Messages, &spliced.bytes);
        assert_eq!(outcome.lifecycle, r#"["r0"] ["\"tool_use\" 14", "stop"]"#);
    }
}

#[test]
fn calls_of_messages_in_odd_forms() {
    let check = |input: &Value, pieces: &[&str], has_stop: bool, name: &str, expected: &str| {
        let mut events = message_events(input, pieces, has_stop, name);
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}));
        events.push(json!({"type": "message_stop"}));
        let spliced = splice(WireName::Messages, &[events]);
        let round = &spliced.rounds[0];
        let hidden = searches(round).into_iter().cloned();
        let calls = spliced.said.calls.iter().cloned().chain(hidden);
        let calls: String = calls.map(|call| format!("[{} {}]", call.name, call.arguments)).collect();
        assert_eq!(calls, expected, "{round:?}");
        let item: Value = serde_json::from_str(&round.items[0]).expect("JSON");
        assert!(item["content"][0]["input"].is_object(), "{item}");
    };
    let (to, query) = (json!({"to": "a"}), json!({"query": "mail"}));
    let inner = json!({"name": "send_mail", "arguments": to});
    for has_stop in [true, false] {
        // The arguments come with the block, in pieces, or in both ways.
        for (input, is_in_pieces) in [(true, false), (false, true), (true, true)] {
            for (name, arguments, expected) in [
                ("send_mail", &to, r#"[send_mail {"to":"a"}]"#),
                (CALL, &inner, r#"[send_mail {"to":"a"}]"#),
                (SEARCH, &query, r#"[search_tools {"query":"mail"}]"#),
            ] {
                let (none, written) = (json!({}), arguments.to_string());
                let (first, second) = written.split_at(7);
                let pieces: &[&str] = if is_in_pieces { &["", first, second] } else { &[""] };
                check(if input { arguments } else { &none }, pieces, has_stop, name, expected);
            }
        }
        for input in [Value::Null, "".into()] {
            check(&input, &[], has_stop, "send_mail", "[send_mail ]");
        }
    }
}

#[test]
fn arguments_that_are_not_an_object_leave_valid_items() {
    for written in [r#"{"query": "ma"#, r#"{"name": "send_mail", "arguments": {"to": }}"#, "[1]", "x"] {
        for name in [SEARCH, CALL, "send_mail"] {
            let mut events = message_events(&json!({}), &[written], true, name);
            events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}));
            events.push(json!({"type": "message_stop"}));
            let spliced = splice(WireName::Messages, &[events]);
            let round = &spliced.rounds[0];
            let item: Value = serde_json::from_str(&round.items[0]).expect("JSON");
            assert_eq!(item["content"][0]["input"], json!({"INVALID_JSON": written}), "{name}");
            let hidden = usize::from(name != "send_mail");
            assert_eq!((round.hidden.len(), round.client_calls), (hidden, 1 - hidden), "{name}");
            let mut calls = calls_of(WireName::Messages.wire());
            for call in round.hidden.iter().cloned() {
                assert!(calls.answer(call).is_error, "{name} {written}");
            }
        }
    }
    // On the other wires, arguments are texts.
    let written = r#"{"query": "ma"#;
    let mut call = function_call("s1", SEARCH, &json!({}));
    call["arguments"] = written.into();
    let events = [created("r0"), item_event("done", 0, &call), response("r0", "completed", json!([call]))];
    let spliced = splice(WireName::Responses, &[events.to_vec()]);
    let item: Value = serde_json::from_str(&spliced.rounds[0].items[0]).expect("JSON");
    assert_eq!(item["arguments"], written);
    let function = json!({"name": SEARCH, "arguments": written});
    let events = [
        delta(json!({"tool_calls": [{"index": 0, "id": "s1", "type": "function", "function": function}]})),
        finish("tool_calls"),
        usage(),
        done(),
    ];
    let spliced = splice(WireName::Chat, &[events.to_vec()]);
    let item: Value = serde_json::from_str(&spliced.rounds[0].items[0]).expect("JSON");
    assert_eq!(item["tool_calls"][0]["function"]["arguments"], written);
}

#[test]
fn hidden_calls_at_the_place_of_another_item() {
    let search = function_call("s1", SEARCH, &json!({"query": "send mail"}));
    let wrapped = json!({"name": "send_mail", "arguments": {"to": "a"}});
    let call = function_call("c1", CALL, &wrapped);
    let hello = message("msg_1", "Hello");
    let unknown = |index: usize| json!({"type": "response.item.note", "output_index": index});
    let check = |events: &[Value], output: &[&Value], expected: (usize, usize)| {
        let output: Vec<Value> = output.iter().map(|item| (*item).clone()).collect();
        let mut all = vec![created("r0")];
        all.extend_from_slice(events);
        all.push(response("r0", "completed", output.into()));
        let spliced = splice(WireName::Responses, &[all]);
        let round = &spliced.rounds[0];
        let bytes = String::from_utf8_lossy(&spliced.bytes);
        assert_eq!((round.hidden.len(), round.client_calls), expected, "{bytes}");
        assert!(!bytes.contains(SEARCH) && !bytes.contains(CALL), "{bytes}");
        assert_eq!(spliced.said.text.contains("Hello"), bytes.contains("Hello"), "{bytes}");
        assert_eq!(round.items.len(), expected.0 + expected.1 + usize::from(bytes.contains("Hello")));
    };
    // Events about an item that is not known yet.
    check(&[unknown(0), item_event("done", 0, &search)], &[&search], (1, 0));
    check(&[unknown(0), item_event("added", 0, &search), item_event("done", 0, &search)], &[&search], (1, 0));
    check(&[unknown(0), item_event("done", 0, &call)], &[&call], (0, 1));
    check(&[unknown(0)], &[&search], (1, 0));
    // The same number for all items, with ids or without.
    check(&[item_event("done", 0, &hello), item_event("done", 0, &search)], &[&hello, &search], (1, 0));
    let (mut bare, mut bare_search) = (hello, search.clone());
    for item in [&mut bare, &mut bare_search] {
        item.as_object_mut().expect("an item").shift_remove("id");
    }
    check(&[item_event("done", 0, &bare), item_event("done", 0, &bare_search)], &[&bare, &bare_search], (1, 0));
    // Another kind of item was announced there.
    check(&[item_event("added", 0, &bare), item_event("done", 0, &search)], &[&bare, &search], (1, 0));
}
