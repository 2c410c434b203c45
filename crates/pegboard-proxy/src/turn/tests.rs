//! What is decided about requests in the middle of a conversation.

use serde_json::{Value, json};

use super::*;
use crate::{
    conversation::{after_model, after_response},
    route::WireName,
};

const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// A conversation with one hidden search, whose turns are in memory.
struct Known {
    wire: &'static dyn Wire,
    conversations: Arc<Conversations>,
    tool_sets: Arc<ToolSets>,
    references: Arc<References>,
    root: Link,
}

fn planned(known: &Known, body: &Value) -> Plan {
    planned_in(known, body, Mode::Defer)
}

fn planned_in(known: &Known, body: &Value, mode: Mode) -> Plan {
    let planner = Planner {
        wire: known.wire,
        root: known.root,
        body: body.to_string().into(),
        conversations: Arc::clone(&known.conversations),
        tool_sets: Arc::clone(&known.tool_sets),
        route: Route::Anthropic,
        references: Arc::clone(&known.references),
    };
    planner.plan(|model| (model.to_owned(), mode), &Modes::default())
}

impl Known {
    fn new(wire: WireName) -> Self {
        let conversations = Arc::new(Conversations::open(None, HOUR).expect("memory"));
        let root = conversations.root("route", "http://x", b"key");
        Self { wire: wire.wire(), conversations, tool_sets: Arc::default(), references: Arc::default(), root }
    }

    /// Keeps a turn that a request with these items has got.
    fn keep(&self, body: &Value, said: &Value, turn: conversation::Turn) {
        let Plan::Change(prepared) = planned(self, body) else { panic!("not deferred: {body}") };
        let said = self.wire.said(said).expect("the model's");
        let turn = conversation::Turn { declared: prepared.declared, ..turn };
        self.conversations.put(&[after_model(&prepared.history.link, &said)], turn);
    }

    #[track_caller]
    fn changes(&self, body: &Value) -> Box<Prepared> {
        match planned(self, body) {
            Plan::Change(prepared) => prepared,
            Plan::Pass(report, _) => panic!("passed: {report:?}"),
        }
    }

    #[track_caller]
    fn passes(&self, body: &Value, reason: &str) -> (Report, Option<Value>) {
        match planned(self, body) {
            Plan::Pass(report, changed) => {
                assert_eq!(report.reason, Some(reason), "{body}");
                (report, changed.map(|changed| serde_json::from_str(&changed).expect("JSON")))
            }
            Plan::Change(prepared) => panic!("not passed: {:?}", prepared.report),
        }
    }
}

fn anthropic_tools(count: usize) -> Vec<Value> {
    let tool = |at| json!({"name": format!("tool_{at}"), "description": "x", "input_schema": {"type": "object"}});
    (0..count).map(tool).collect()
}

fn names(prepared: &Prepared) -> Vec<String> {
    prepared.declared.iter().map(|tool| tool.name.clone().unwrap_or_default()).collect()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The turn that a client has seen, and the same with a search before it.
fn thinking_turn() -> (Value, conversation::Turn) {
    let thinking = |signature: &str| json!({"type": "thinking", "thinking": "hm", "signature": signature});
    let seen =
        json!({"role": "assistant", "content": [thinking("S1"), thinking("S2"), {"type": "text", "text": "Hello"}]});
    let search = json!({"type": "tool_use", "id": "t1", "name": "search_tools", "input": {"query": "x"}});
    let found = json!({"type": "tool_result", "tool_use_id": "t1", "content": "nothing"});
    let items = [
        json!({"role": "assistant", "content": [thinking("S1"), search]}),
        json!({"role": "user", "content": [found]}),
        json!({"role": "assistant", "content": [thinking("S2"), {"type": "text", "text": "Hello"}]}),
    ];
    (seen, conversation::Turn { items: Some(items.map(|item| item.to_string()).to_vec()), ..Default::default() })
}

fn request(messages: &[&Value], tools: &[Value]) -> Value {
    json!({"model": "claude-3-5-haiku-20241022", "messages": messages, "tools": tools})
}

/// Returns a conversation whose second request is about to come, and its first two items.
fn in_progress() -> (Known, Value, Value) {
    let known = Known::new(WireName::Messages);
    let (seen, turn) = thinking_turn();
    known.keep(&request(&[&user("hi")], &anthropic_tools(40)), &seen, turn);
    (known, user("hi"), seen)
}

#[tokio::test]
async fn a_conversation_goes_on_with_fewer_tools() {
    let (known, hi, seen) = in_progress();
    let few = request(&[&hi, &seen, &user("go on")], &anthropic_tools(20));
    let prepared = known.changes(&few);
    assert!(prepared.history.text.contains("search_tools"), "{}", prepared.history.text);
    assert_eq!(prepared.report.tools, Some(20));
    // Another conversation with as few tools is not deferred.
    known.passes(&request(&[&user("ho")], &anthropic_tools(20)), "few-tools");
}

#[tokio::test]
async fn a_request_that_passes_has_no_thinking_behind_hidden_turns() {
    let (known, hi, seen) = in_progress();
    let mut forced = request(&[&hi, &seen, &user("go on")], &anthropic_tools(40));
    forced["tool_choice"] = json!({"type": "tool", "name": "tool_7"});
    let (report, changed) = known.passes(&forced, "forced-tool");
    assert!(report.is_miss);
    let changed = changed.expect("another body");
    assert_eq!(changed["messages"][1]["content"], json!([{"type": "text", "text": "Hello"}]));
    assert_eq!((&changed["messages"][0], &changed["tools"]), (&forced["messages"][0], &forced["tools"]));
    // Also where the mode was changed since the conversation began.
    let Plan::Pass(_, of_mode) = planned_in(&known, &forced, Mode::Pass) else { panic!("not passed") };
    let of_mode: Option<Value> = of_mode.and_then(|body| serde_json::from_str(&body).ok());
    assert_eq!(of_mode.as_ref(), Some(&changed));
    // Where nothing is hidden, nothing changes.
    let other = json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "S"}, {"type": "text", "text": "Ho"}]});
    let other = json!({"model": "claude-3-5-haiku-20241022", "messages": [hi, other, user("go on")]});
    assert_eq!(known.passes(&other, "no-tools").1, None);
    assert!(matches!(planned_in(&known, &other, Mode::Pass), Plan::Pass(_, None)));
}

#[tokio::test]
async fn thinking_behind_unknown_turns_is_removed_but_not_in_an_open_loop() {
    let known = Known::new(WireName::Messages);
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "S"});
    let call = json!({"type": "tool_use", "id": "c1", "name": "tool_1", "input": {}});
    let turn = json!({"role": "assistant", "content": [thinking, call]});
    let answer = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]});
    let open = known.changes(&request(&[&user("hi"), &turn, &answer], &anthropic_tools(40)));
    assert!(open.report.is_miss && open.history.text.contains("signature"), "{}", open.history.text);
    let text = json!({"role": "assistant", "content": [thinking, {"type": "text", "text": "Done"}]});
    let closed = known.changes(&request(&[&user("hi"), &turn, &answer, &text, &user("go on")], &anthropic_tools(40)));
    assert!(closed.report.is_miss && !closed.history.text.contains("signature"), "{}", closed.history.text);
    assert!(names(&closed).contains(&"tool_1".to_owned()), "what history names is declared");
    // Another loop does not bring it back.
    let later = [&user("hi"), &turn, &answer, &text, &user("go on"), &turn, &answer];
    let later = known.changes(&request(&later, &anthropic_tools(40)));
    assert!(later.history.text.starts_with(&closed.history.text), "{}", later.history.text);
    assert_eq!(later.history.text.matches("signature").count(), 1, "{}", later.history.text);
}

#[tokio::test]
async fn declared_tools_follow_the_request() {
    let (known, hi, seen) = in_progress();
    let custom = |name: &str, about: &str| json!({"type": "custom", "name": name, "description": about, "allowed_callers": ["code"]});
    let first = [anthropic_tools(40), vec![custom("patch", "one")]].concat();
    let second = request(&[&hi, &seen, &user("go on")], &first);
    let prepared = known.changes(&second);
    assert_eq!(names(&prepared), ["search_tools", "call_tool", "patch"]);
    let answer = json!({"role": "assistant", "content": "Yes"});
    known.keep(&second, &answer, conversation::Turn::default());
    let go_on = |tools: Vec<Value>| {
        let prepared = known.changes(&request(&[&hi, &seen, &user("go on"), &answer, &user("more")], &tools));
        (names(&prepared), prepared.declared.last().expect("a tool").definition.clone())
    };
    let (names, last) = go_on([anthropic_tools(40), vec![custom("patch", "two"), custom("new", "three")]].concat());
    assert_eq!((&names[2..], last.contains("three")), (&["patch".to_owned(), "new".to_owned()][..], true));
    let (names, _) = go_on([anthropic_tools(40), vec![custom("new", "three")]].concat());
    assert_eq!(names[2..], ["new"]);
    let (names, last) = go_on([anthropic_tools(40), vec![custom("patch", "two")]].concat());
    assert!(names.len() == 3 && last.contains("two"), "{last}");
}

#[tokio::test]
async fn found_tools_stay_declared_without_the_client_s() {
    let known = Known::new(WireName::Messages);
    let of =
        |messages: Value, tools: &[Value]| json!({"model": "claude-opus-4-8", "messages": messages, "tools": tools});
    let answer = json!({"role": "assistant", "content": "Yes"});
    let first = of(json!([user("hi")]), &anthropic_tools(40));
    let search = json!({"type": "tool_use", "id": "t1", "name": "search_tools", "input": {"query": "x"}});
    let reference = json!({"type": "tool_reference", "tool_name": "tool_39"});
    let found = json!({"type": "tool_result", "tool_use_id": "t1", "content": [reference]});
    let items = [
        json!({"role": "assistant", "content": [search]}),
        json!({"role": "user", "content": [found]}),
        answer.clone(),
    ];
    let mut declared = known.changes(&first).declared;
    let definition = known.wire.deferred(&anthropic_tools(40)[39].to_string()).expect("it has references");
    declared.push(Declared { name: Some("tool_39".to_owned()), definition: definition.clone() });
    let turn =
        conversation::Turn { items: Some(items.map(|item| item.to_string()).to_vec()), declared, ..Default::default() };
    let link = after_model(&known.changes(&first).history.link, &known.wire.said(&answer).expect("the model's"));
    known.conversations.put(&[link], turn);
    let fewer = known.changes(&of(json!([user("hi"), answer, user("more")]), &anthropic_tools(39)));
    assert!(fewer.history.text.contains("tool_reference"), "{}", fewer.history.text);
    assert_eq!(names(&fewer), ["search_tools", "tool_39"]);
    assert_eq!(fewer.declared[1].definition, definition);
}

#[tokio::test]
async fn marks_for_the_prompt_cache_are_those_of_the_request() {
    let known = Known::new(WireName::Messages);
    let mut tools = anthropic_tools(40);
    let list = |tools: &[Value]| {
        let prepared = known.changes(&request(&[&user("hi")], tools));
        request::tool_list(known.wire, &prepared.declared, prepared.mark.as_deref())
    };
    assert!(!list(&tools).contains("cache_control"));
    tools[39]["cache_control"] = json!({"type": "ephemeral"});
    let marked: Value = serde_json::from_str(&list(&tools)).expect("JSON");
    let marks: Vec<bool> =
        marked.as_array().expect("a list").iter().map(|tool| tool.get("cache_control").is_some()).collect();
    assert_eq!(marks, [false, true], "the last one has it");
}

#[tokio::test]
async fn another_model_without_references_gets_none() {
    let known = Known::new(WireName::Messages);
    let of = |model: &str, messages: Value| json!({"model": model, "messages": messages, "tools": anthropic_tools(40)});
    let answer = json!({"role": "assistant", "content": "Yes"});
    known.keep(&of("claude-opus-4-8", json!([user("hi")])), &answer, conversation::Turn::default());
    let go_on = json!([user("hi"), answer, user("more")]);
    assert_eq!(names(&known.changes(&of("claude-opus-4-8", go_on.clone()))), ["search_tools"]);
    known.passes(&of("claude-3-5-haiku-20241022", go_on), "model-changed");
}

#[tokio::test]
async fn conversations_begin_without_references_once_they_were_rejected() {
    let known = Known::new(WireName::Messages);
    let of = |messages: Value| json!({"model": "claude-opus-4-8", "messages": messages, "tools": anthropic_tools(40)});
    let answer = json!({"role": "assistant", "content": "Yes"});
    known.keep(&of(json!([user("hi")])), &answer, conversation::Turn::default());
    known.references.reject(Route::Anthropic, "claude-opus-4-8", "unknown content type 'tool_reference'");
    let go_on = of(json!([user("hi"), answer, user("more")]));
    assert_eq!(names(&known.changes(&go_on)), ["search_tools", "call_tool"], "also in the middle");
    assert_eq!(names(&known.changes(&of(json!([user("ho")])))), ["search_tools", "call_tool"]);
}

#[tokio::test]
async fn responses_go_on_from_the_last_round() {
    let known = Known::new(WireName::Responses);
    let function = |at| json!({"type": "function", "name": format!("tool_{at}"), "parameters": {"type": "object"}});
    let tools: Vec<Value> = (0..40).map(function).collect();
    let parked = json!({"type": "function_call_output", "call_id": "s1", "output": "found"});
    let own = |name: &str| Declared { name: Some(name.to_owned()), definition: "{}".to_owned() };
    let declared = vec![own("search_tools"), own("call_tool")];
    let turn = conversation::Turn {
        declared: declared.clone(),
        response: Some("resp_last".into()),
        parked: vec![parked.to_string()],
        ..Default::default()
    };
    known.conversations.put(&[after_response(&known.root, "resp_public")], turn);
    let mut body = json!({"model": "gpt-5.4", "previous_response_id": "resp_public", "input": "go on"});
    let (report, changed) = known.passes(&body, "no-tools");
    let changed = changed.expect("another body");
    assert_eq!(changed["previous_response_id"], "resp_last");
    assert_eq!(changed["input"], json!([parked, {"role": "user", "content": "go on"}]));
    assert!(!report.is_miss && changed.get("tools").is_none());
    body["tools"] = json!(tools);
    body["tool_choice"] = json!({"type": "function", "name": "tool_3"});
    let (_, changed) = known.passes(&body, "forced-tool");
    assert_eq!(changed.expect("another body")["tools"], json!(tools));
    // One round with a search beside a client call has one id.
    let turn = conversation::Turn { parked: vec![parked.to_string()], declared, ..Default::default() };
    known.conversations.put(&[after_response(&known.root, "resp_only")], turn);
    let output = json!({"type": "function_call_output", "call_id": "c1", "output": "ok"});
    let only = json!({"model": "gpt-5.4", "previous_response_id": "resp_only", "input": [output]});
    let (report, changed) = known.passes(&only, "no-tools");
    let changed = changed.expect("another body");
    assert_eq!(changed["previous_response_id"], "resp_only");
    assert_eq!(changed["input"], json!([parked, output]));
    assert!(!report.is_miss);
    // Also without items of the client.
    for input in [None, Some(json!([])), Some(Value::Null)] {
        let mut none = json!({"model": "gpt-5.4", "previous_response_id": "resp_only"});
        if let Some(input) = input {
            none["input"] = input;
        }
        let (_, changed) = known.passes(&none, "no-tools");
        assert_eq!(changed.expect("another body")["input"], json!([parked]), "{none}");
        none["tools"] = json!(tools);
        let prepared = known.changes(&none);
        assert_eq!(prepared.history.text, parked.to_string(), "{none}");
        let sent = prepared.template.render(&prepared.history.text, &["1".to_owned()], "[]", None);
        assert_eq!(serde_json::from_str::<Value>(&sent).expect("JSON")["input"], json!([parked, 1]), "{none}");
    }
    // A response that the proxy has not seen is left alone.
    body["previous_response_id"] = "resp_other".into();
    assert_eq!(
        known.passes(&json!({"model": "gpt-5.4", "previous_response_id": "resp_other", "input": "x"}), "no-tools").1,
        None
    );
}

#[tokio::test]
async fn references_to_items_are_the_items() {
    let known = Known::new(WireName::Responses);
    let function = |at| json!({"type": "function", "name": format!("tool_{at}"), "parameters": {"type": "object"}});
    let tools: Vec<Value> = (0..40).map(function).collect();
    let of = |input: Value| json!({"model": "gpt-5.4", "input": input, "tools": tools});
    let seen = json!({"type": "message", "id": "msg_1", "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello", "annotations": []}]});
    let search = json!({"type": "function_call", "call_id": "s1", "name": "search_tools", "arguments": "{}"});
    let turn = conversation::Turn { items: Some(vec![search.to_string(), seen.to_string()]), ..Default::default() };
    known.keep(&of(json!([user("hi")])), &seen, turn);
    known.conversations.put_item(&known.root, "msg_1", seen.to_string());
    let check = |item: Value, is_known: bool| {
        let prepared = known.changes(&of(json!([user("hi"), item, user("go on")])));
        assert_eq!(prepared.history.text.contains("search_tools"), is_known, "{item}: {}", prepared.history.text);
        assert_eq!(prepared.report.is_miss, !is_known, "{item}");
        if !is_known {
            assert!(prepared.history.text.contains(&item.to_string()), "{}", prepared.history.text);
        }
    };
    check(seen, true);
    check(json!({"type": "item_reference", "id": "msg_1"}), true);
    check(json!({"id": "msg_1"}), true);
    check(json!({"type": "item_reference", "id": "msg_2"}), false);
    // Another credential has another root.
    let other = Known { root: known.conversations.root("route", "http://x", b"another"), ..known };
    let prepared = other.changes(&of(json!([user("hi"), {"type": "item_reference", "id": "msg_1"}, user("go on")])));
    assert!(prepared.report.is_miss);
}

#[tokio::test]
async fn reasoning_of_unknown_turns_is_removed() {
    let known = Known::new(WireName::Responses);
    let function = |at| json!({"type": "function", "name": format!("tool_{at}"), "parameters": {"type": "object"}});
    let tools: Vec<Value> = (0..40).map(function).collect();
    let changes = |input: Value| known.changes(&json!({"model": "gpt-5.4", "input": input, "tools": tools}));
    let reasoning = |id: &str| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "x"});
    let message = |id: Option<&str>| {
        let mut item =
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]});
        if let Some(id) = id {
            item["id"] = id.into();
        }
        item
    };
    // The search behind the first reasoning was hidden.
    let seen = [user("hi"), reasoning("rs_1"), reasoning("rs_2"), message(Some("msg_2")), user("go on")];
    let prepared = changes(json!(seen));
    let sent: Value = serde_json::from_str(&format!("[{}]", prepared.history.text)).expect("JSON");
    assert_eq!(sent, json!([user("hi"), message(None), user("go on")]));
    assert!(prepared.report.is_miss);
    // References to such items are the items.
    let kept = json!({"type": "reasoning"}).to_string();
    known.conversations.put_item(&known.root, "rs_1", kept.clone());
    known.conversations.put_item(&known.root, "rs_2", kept);
    known.conversations.put_item(&known.root, "msg_2", message(None).to_string());
    let reference = |id: &str| json!({"type": "item_reference", "id": id});
    let referred =
        changes(json!([user("hi"), reference("rs_1"), reference("rs_2"), reference("msg_2"), user("go on")]));
    assert_eq!(referred.history.text, prepared.history.text);
    // Items with required ids stay behind their reasoning, as the client has sent them.
    for kind in ["web_search_call", "computer_call", "mcp_list_tools", "shell_call", "compaction"] {
        let item = json!({"type": kind, "id": "x_1", "status": "completed"});
        known.conversations.put_item(&known.root, "x_1", json!({"type": kind}).to_string());
        for behind in [item, reference("x_1"), reference("unknown")] {
            let whole = [user("hi"), reasoning("rs_1"), behind, message(Some("msg_2")), user("go on")];
            let referred = [user("hi"), reference("rs_1"), whole[2].clone(), reference("msg_2"), user("go on")];
            for sent in [whole, referred] {
                let prepared = changes(json!(sent));
                let history: Value = serde_json::from_str(&format!("[{}]", prepared.history.text)).expect("JSON");
                assert_eq!(history, json!(sent), "{kind}");
            }
        }
    }
    // Without reasoning, nothing changes.
    let plain = changes(json!([user("hi"), message(Some("msg_2")), user("go on")]));
    assert!(plain.history.text.contains("msg_2") && !plain.report.is_miss, "{}", plain.history.text);
    let call = json!({"type": "function_call", "id": "fc_2", "call_id": "c1", "name": "tool_1", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "c1", "output": "ok"});
    let mut bare = call.clone();
    bare.as_object_mut().expect("an item").shift_remove("id");
    let check = |input: &[Value], expected: &[Value]| {
        let prepared = changes(json!([&[user("hi")], input].concat()));
        let history: Value = serde_json::from_str(&format!("[{}]", prepared.history.text)).expect("JSON");
        assert_eq!(history, json!([&[user("hi")], expected].concat()));
        assert!(prepared.report.is_miss);
    };
    // Also while its calls are being answered, and what the reasoning led to after that.
    check(&[reasoning("rs_2"), call.clone(), output.clone()], &[bare.clone(), output.clone()]);
    check(
        &[reasoning("rs_2"), call, output.clone(), message(Some("msg_3")), user("go on")],
        &[bare, output.clone(), message(None), user("go on")],
    );
    // What a reference names is not known, but its kind is: the first one has led to something else.
    let others = [reference("rs_8"), reference("fc_9"), output];
    check(&[&[reference("rs_7")], &others[..]].concat(), &others);
    let web = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let others = [reasoning("rs_8"), web, message(None), user("go on")];
    check(&[&[reasoning("rs_7")], &others[..]].concat(), &others);
}

#[test]
fn lost_answers_are_added_beside_those_of_the_client() {
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "ok"}).to_string();
    let check = |history: &str, message: &str, expected: &[&str]| {
        let error = json!({"error": {"message": message}});
        let repaired = WireName::Responses.wire().repaired(history, &|_| None, &error).map(|repaired| repaired.history);
        assert_eq!(repaired.is_some(), !expected.is_empty(), "{history} {message}");
        let added = repaired.as_deref().and_then(|repaired| repaired.strip_suffix(&format!(",{history}")));
        let added: Vec<Value> =
            serde_json::from_str(&format!("[{}]", added.unwrap_or_default())).expect("items before the history");
        let ids: Vec<&str> = added.iter().filter_map(|added| added["call_id"].as_str()).collect();
        assert_eq!(ids, expected, "{history} {message}");
        // It may be a call of the client that has an effect.
        assert!(!added.iter().any(|added| added["output"].to_string().to_lowercase().contains("repeat")));
    };
    let missing = "No tool output found for function call call_2.";
    check(&output("call_1"), missing, &["call_2"]);
    check(&output("call_1"), &format!("{missing}\n{missing} {}", missing.replace('2', "3")), &["call_2", "call_3"]);
    check(&output("call_2"), missing, &[]);
    check(&user("go on").to_string(), missing, &[]);
    check(&output("call_1"), "No tool output found for function call ", &[]);
    check(&output("call_1"), "Rate limit reached", &[]);
}

#[tokio::test]
async fn a_request_that_passes_reports_the_reasoning_it_loses() {
    let known = Known::new(WireName::Responses);
    let function = |at| json!({"type": "function", "name": format!("tool_{at}"), "parameters": {"type": "object"}});
    let tools: Vec<Value> = (0..40).map(function).collect();
    let message = |text: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"});
    let search = json!({"type": "function_call", "call_id": "s1", "name": "search_tools", "arguments": "{}"});
    let items = vec![search.to_string(), message("Hello").to_string()];
    let turn = conversation::Turn { items: Some(items), ..Default::default() };
    known.keep(&json!({"model": "gpt-5.4", "input": [user("hi")], "tools": tools}), &message("Hello"), turn);
    let of = |input: &[Value]| json!({"model": "gpt-5.4", "input": input});
    let begun = [user("hi"), message("Hello"), user("go on")];
    let (report, changed) = known.passes(&of(&begun), "no-tools");
    assert!(!report.is_miss && changed.is_some_and(|changed| changed["input"][1] == search));
    let unknown = [&begun[..], &[reasoning, message("Ho"), user("more")]].concat();
    let (report, changed) = known.passes(&of(&unknown), "no-tools");
    let changed = changed.expect("another body");
    assert!(report.is_miss);
    assert_eq!(
        changed["input"],
        json!([user("hi"), search, message("Hello"), user("go on"), message("Ho"), user("more")])
    );
}
