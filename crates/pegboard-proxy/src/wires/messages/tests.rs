use super::*;
use crate::wires::append_text;

#[test]
fn answers_join_the_next_message() {
    let parts = [r#"{"type":"tool_result","tool_use_id":"s"}"#.to_owned()];
    let check =
        |next: &str, expected: &[&str]| assert_eq!(Messages.join_answers(&[], &parts, next), expected, "{next}");
    check(
        r#"{"role":"user","content":[ {"type":"tool_result","tool_use_id":"c"} ]}"#,
        &[
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"s"},{"type":"tool_result","tool_use_id":"c"}]}"#,
        ],
    );
    check(
        r#"{"role":"user","content":"Hi"}"#,
        &[r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"s"},{"type":"text","text":"Hi"}]}"#],
    );
    check(
        r#"{"role":"user","content":[]}"#,
        &[r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"s"}]}"#],
    );
    let system = r#"{"role":"system","content":"x"}"#;
    check(system, &[r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"s"}]}"#, system]);
}

#[test]
fn thinking_that_is_refused_is_removed() {
    let thinking = r#"{"type":"thinking","thinking":"hm","signature":"S"}"#;
    let call = r#"{"type":"tool_use","id":"c","name":"send","input":{}}"#;
    let turn = |blocks: &[&str]| format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","));
    let history = |blocks: &[&str]| format!(r#"{{"role":"user","content":"hi"}},{}"#, turn(blocks));
    let repaired = |blocks: &[&str], body: &Value, message: &str| {
        let field = |key: &str| body.get(key).cloned();
        Messages.repaired(&history(blocks), &field, &json!({"error": {"message": message}}))
    };
    let bound = "messages.1: this `Thinking` block is bound to a different conversation";
    let disabled = ("thinking", Some(r#"{"type":"disabled"}"#.to_owned()));
    let enabled = json!({"type": "enabled", "budget_tokens": 1024});
    let both = &[thinking, call];
    let found = repaired(both, &json!({"thinking": enabled}), bound).expect("a change");
    assert_eq!((found.history, found.fields), (history(&[call]), vec![disabled.clone()]));
    for other in ["`max_tokens` must be greater than `thinking.budget_tokens`", "messages.1.content: Field required"] {
        assert_eq!(repaired(both, &json!({"thinking": enabled}), other), None);
    }
    // Without a change, the request would be refused again.
    assert_eq!(repaired(&[call], &json!({}), bound), None);
    assert_eq!(repaired(&[call], &json!({"thinking": {"type": "disabled"}}), bound), None);
    let found = repaired(both, &json!({}), bound).expect("a change");
    assert_eq!((found.history, found.fields), (history(&[call]), Vec::new()));
    // Edits of thinking are refused where it is disabled.
    let edit = json!({"type": "clear_thinking_20251015", "keep": "all"});
    let other = json!({"type": "clear_tool_uses_20250919"});
    for (context, expected) in [
        (json!({"edits": [edit]}), Some(None)),
        (json!({"edits": [edit], "x": 1}), Some(Some(r#"{"x":1}"#.to_owned()))),
        (json!({"edits": [other, edit]}), Some(Some(json!({"edits": [other]}).to_string()))),
        (json!({"edits": [other]}), None),
        (json!({"edits": []}), None),
    ] {
        let body = json!({"thinking": {"type": "adaptive"}, "context_management": context});
        let found = repaired(&[call], &body, bound).expect("a change").fields;
        let expected = expected.map(|expected| ("context_management", expected));
        assert_eq!(found, [disabled.clone()].into_iter().chain(expected).collect::<Vec<_>>(), "{context}");
    }
}

#[test]
fn references_become_definitions() {
    let definition = |name: &str| (name == "send").then(|| r#"{"name":"send"}"#.to_owned());
    let check = |content: &str, expected: Option<&str>| {
        let item = |content: &str| format!(r#"{{"role":"user","content":{content}}}"#);
        let changed = Messages.without_references(&item(content), &definition);
        assert_eq!(changed, expected.map(item), "{content}");
    };
    let reference = |name: &str| format!(r#"{{"type":"tool_reference","tool_name":"{name}"}}"#);
    let result = |content: &str| format!(r#"{{"type":"tool_result","tool_use_id":"s","content":{content}}}"#);
    let text = r#"{"type":"text","text":"tool_reference"}"#;
    check(
        &format!("[{},{text}]", result(&format!("[{},{text}]", reference("send")))),
        Some(&format!(
            "[{},{text}]",
            result(r#""To be called with `call_tool`:\n{\"name\":\"send\"}\ntool_reference""#)
        )),
    );
    check(
        &format!("[{}]", result(&format!("[{}]", reference("gone")))),
        Some(&format!("[{}]", result(r#""To be called with `call_tool`:\n`gone`, which is not available now""#))),
    );
    for same in
        [format!("[{}]", result(&format!("[{text}]"))), result(r#""tool_reference""#), r#""tool_reference""#.to_owned()]
    {
        check(&same, None);
    }
}

#[test]
fn answers_refer_to_tools_and_tell_the_rest() {
    let check = |references: &[&str], text: &str, expected: &str| {
        let call = HeldCall { id: "s".to_owned(), ..HeldCall::default() };
        let references = references.iter().map(|name| (*name).to_owned()).collect();
        let answer = HiddenAnswer { call, text: text.to_owned(), is_error: false, references };
        let expected = format!(r#"{{"type":"tool_result","tool_use_id":"s","content":{expected}}}"#);
        assert_eq!(Messages.answer_part(&answer), expected);
    };
    check(&[], "No tool fits.", r#""No tool fits.""#);
    check(&["a"], "", r#"[{"type":"tool_reference","tool_name":"a"}]"#);
    check(
        &["a", "b"],
        "No tool fits `x`.",
        r#"[{"type":"tool_reference","tool_name":"a"},{"type":"tool_reference","tool_name":"b"},{"type":"text","text":"No tool fits `x`."}]"#,
    );
}

#[test]
fn kinds_of_tools() {
    let check = |tool: &str, expected: Result<bool, &str>| {
        let raw = RawValue::from_string(format!("[{tool}]")).expect("JSON");
        let found = Messages.tools(&raw).map(|tools| tools[0].searchable.is_some());
        assert_eq!(found, expected, "{tool}");
    };
    check(r#"{"name":"a","input_schema":{}}"#, Ok(true));
    check(r#"{"type":"custom","name":"a","input_schema":{},"allowed_callers":["direct"]}"#, Ok(true));
    check(r#"{"name":"a","input_schema":{},"allowed_callers":["code_execution_20250825"]}"#, Ok(false));
    check(r#"{"type":"web_search_20250305","name":"web_search"}"#, Ok(false));
    check(r#"{"type":"mcp_toolset","mcp_server_name":"x"}"#, Ok(false));
    check(r#"{"type":"mcp_toolset","default_config":{"defer_loading":true}}"#, Err("already-deferred"));
    check(r#"{"name":"a","input_schema":{},"defer_loading":false}"#, Err("already-deferred"));
    check(r#"{"type":"tool_search_tool_regex","name":"tool_search_tool_regex"}"#, Err("already-deferred"));
    check(r#"{"type":"telepathy_20270101","name":"a"}"#, Err("unknown-tool-type"));
}

#[test]
fn histories_that_are_not_changed() {
    let check = |content: &str, expected: Option<&str>| {
        let item: Value = serde_json::from_str(&format!(r#"{{"role":"user","content":[{content}]}}"#)).expect("JSON");
        assert_eq!(Messages.item_bypass(&item), expected, "{content}");
    };
    check(r#"{"type":"tool_result","content":[{"type":"tool_reference","tool_name":"a"}]}"#, Some("already-deferred"));
    check(r#"{"type":"tool_addition","tool":{}}"#, Some("already-deferred"));
    check(r#"{"type":"tool_result","content":"tool_reference"}"#, None);
    check(r#"{"type":"text","text":"tool_reference"}"#, None);
}

#[test]
fn marks_move_and_thinking_goes() {
    let known =
        [r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"1"}]}"#.to_owned()];
    let sent = [r#"{"role":"assistant","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}"#
        .to_owned()];
    let marked = r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"1","cache_control":{"type":"ephemeral"}}]}"#;
    assert_eq!(Messages.keep_marks(&known, &sent), [marked]);
    assert_eq!(Messages.keep_marks(&known, &known), known);
    let thinking = r#"{"role":"assistant","content":[{"type":"thinking","signature":"s"},{"type":"text","text":"a"}]}"#;
    assert_eq!(Messages.without_thinking(thinking), r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#);
    assert_eq!(Messages.without_thinking(&known[0]), known[0]);
    let mut content = json!("Hi");
    append_text(&mut content, "note").expect("a text");
    assert_eq!(content, "Hi\n\nnote");
}

#[test]
fn references_only_where_they_are_known_to_work() {
    let check = |model: &str, expected: bool| assert_eq!(Messages.has_references(model), expected, "{model}");
    check("claude-opus-4-8", true);
    check("claude-haiku-4-5-20251001", true);
    check("claude-opus-4-1", false);
    check("MiniMax-M3", false);
    check("claude-saga-9", false);
}
