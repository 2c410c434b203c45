use super::*;

#[test]
fn answers_name_the_call_that_the_model_has_made() {
    let known = [r#"{"role":"model","parts":[{"functionCall":{"name":"call_tool","args":{"name":"a"}}},{"functionCall":{"name":"b"}}]}"#.to_owned()];
    let next = r#"{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"x" : 1}}},{"functionResponse":{"name":"b","response":{}}},{"text":"t"}]}"#;
    let expected = next.replace(r#""name":"a""#, r#""name":"call_tool""#);
    assert_eq!(Gemini.answered(&known, next), expected);
    let direct = [r#"{"role":"model","parts":[{"functionCall":{"name":"a"}}]}"#.to_owned()];
    assert_eq!(Gemini.answered(&direct, next), next);
}

#[test]
fn answers_get_the_ids_that_a_client_leaves_out() {
    let call = |id: &str, name: &str| {
        format!(r#"{{"functionCall":{{"id":"{id}","name":"call_tool","args":{{"name":"{name}","arguments":{{}}}}}}}}"#)
    };
    let (one, two, odd) = (call("c1", "a"), call("c2", "b"), call("c3", "The C"));
    let known = [format!(r#"{{"role":"model","parts":[{one},{two},{odd}]}}"#)];
    let check = |given: &[(&str, &str)], expected: &[(&str, &str)]| {
        let item = |answers: &[(&str, &str)]| {
            let part = |(name, id): &(&str, &str)| {
                let id = if id.is_empty() { String::new() } else { format!(r#","id":"{id}""#) };
                format!(r#"{{"functionResponse":{{"name":"{name}","response":{{"x":1.0}}{id}}}}}"#)
            };
            let parts: Vec<String> = answers.iter().map(part).collect();
            format!(r#"{{"role":"user","parts":[{}]}}"#, parts.join(","))
        };
        assert_eq!(Gemini.answered(&known, &item(given)), item(expected));
    };
    let of = |id| ("call_tool", id);
    check(&[("b", ""), ("c", ""), ("a", "")], &[of("c2"), of("c3"), of("c1")]);
    check(&[("c", "c3"), ("a", "c1")], &[of("c3"), of("c1")]);
    check(&[("a", "c9"), ("b", "c2")], &[("a", "c9"), of("c2")]);
}

#[test]
fn hidden_answers_are_in_the_order_of_the_calls() {
    /// Calls are written as `ID:NAME`, or `ID:call_tool/NAME`, and answers as `ID:NAME=TEXT`.
    fn call(call: &str) -> Value {
        let (id, name) = call.split_once(':').expect("an id");
        let (name, inner) = name.split_once('/').unwrap_or((name, ""));
        let mut call = json!({"name": name, "args": {"name": inner}});
        if !id.is_empty() {
            call["id"] = id.into();
        }
        json!({"functionCall": call})
    }
    fn answer(answer: &str) -> Value {
        let (call, text) = answer.split_once('=').expect("a text");
        let (id, name) = call.split_once(':').expect("an id");
        let mut response = json!({"name": name, "response": {"output": text}});
        if !id.is_empty() {
            response["id"] = id.into();
        }
        json!({"functionResponse": response})
    }
    let check = |calls: &[&str], hidden: &[&str], own: &[&str], expected: &[&str]| {
        let parts: Vec<Value> = calls.iter().map(|it| call(it)).collect();
        let known = [json!({"role": "model", "parts": parts}).to_string()];
        let hidden: Vec<String> = hidden.iter().map(|it| answer(it).to_string()).collect();
        let mut own: Vec<Value> = own.iter().map(|it| answer(it)).collect();
        own.push(json!({"text": "Go on"}));
        let next = json!({"role": "user", "parts": own}).to_string();
        let joined: Value = serde_json::from_str(&Gemini.join_answers(&known, &hidden, &next)[0]).expect("JSON");
        let mut expected: Vec<Value> = expected.iter().map(|it| answer(it)).collect();
        expected.push(json!({"text": "Go on"}));
        assert_eq!(joined["parts"], json!(expected));
    };
    check(
        &[":send", ":search_tools"],
        &[":search_tools=found"],
        &[":send=sent"],
        &[":send=sent", ":search_tools=found"],
    );
    check(
        &[":search_tools", ":send"],
        &[":search_tools=found"],
        &[":send=sent"],
        &[":search_tools=found", ":send=sent"],
    );
    check(
        &[":call_tool/none", ":search_tools", ":call_tool/send", ":search_tools"],
        &[":call_tool=no", ":search_tools=one", ":search_tools=two"],
        &[":send=sent"],
        &[":call_tool=no", ":search_tools=one", ":call_tool=sent", ":search_tools=two"],
    );
    check(
        &["1:call_tool/send", "2:search_tools"],
        &["2:search_tools=found"],
        &[":send=sent"],
        &["1:call_tool=sent", "2:search_tools=found"],
    );
}

#[test]
fn lists_of_tools() {
    let check = |list: &str, expected: Result<Vec<Option<&str>>, &str>| {
        let raw = RawValue::from_string(list.to_owned()).expect("JSON");
        let found = Gemini.tools(&raw).map(|tools| tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>());
        let expected = expected.map(|names| names.into_iter().map(|name| name.map(str::to_owned)).collect());
        assert_eq!(found, expected, "{list}");
    };
    check(
        r#"[{"functionDeclarations":[{"name":"a"},{"name":"b"}]},{"googleSearch":{}}]"#,
        Ok(vec![Some("a"), Some("b"), None]),
    );
    check(r#"[{"function_declarations":[{"name":"a"}]}]"#, Err("unknown-tool-type"));
    check(r#"[{"functionDeclarations":[{}]}]"#, Err("unreadable-tools"));
    let declared = |name: Option<&str>, definition: &str| Declared {
        name: name.map(str::to_owned),
        definition: definition.to_owned(),
    };
    let list = Gemini.tool_list(&[declared(Some("a"), "1"), declared(None, "2"), declared(Some("b"), "3")]);
    assert_eq!(list, r#"[{"functionDeclarations":[1,3]},2]"#);
}

#[test]
fn types_of_schemas() {
    let mut schema = json!({"type": "OBJECT", "properties": {"type": {"type": "STRING", "enum": ["A"]}, "x": {"type": "INTEGER", "nullable": true}}});
    lower_types(&mut schema, 0);
    let expected =
        json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["A"]}, "x": {"nullable": true}}});
    assert_eq!(schema, expected);
}

#[test]
fn choices_of_tools() {
    let check = |config: Value, expected: ToolChoice| {
        let body = json!({"toolConfig": {"functionCallingConfig": config}}).to_string();
        assert_eq!(Gemini.choice(&Object::parse(&body).expect("an object")), expected, "{body}");
    };
    check(json!({"mode": "AUTO"}), ToolChoice::Free);
    check(json!({"mode": "ANY", "allowedFunctionNames": ["a"]}), ToolChoice::Forced("a".to_owned()));
    check(json!({"mode": "ANY", "allowedFunctionNames": ["a", "b"]}), ToolChoice::Unknown);
    check(json!({"mode": "AUTO", "streamFunctionCallArguments": true}), ToolChoice::Unknown);
}
