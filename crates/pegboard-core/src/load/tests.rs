use proptest::prelude::*;

use super::*;

fn check(text: &str, expected: &[(&str, bool)]) -> Vec<String> {
    let loaded = parse("t.json", text.as_bytes(), &LoadLimits::default()).expect("the file is usable");
    let found: Vec<(&str, bool)> =
        loaded.tools.iter().map(|tool| (tool.name.as_str(), tool.input_schema.is_some())).collect();
    assert_eq!(found, expected, "{text}");
    loaded.warnings.iter().map(ToString::to_string).collect()
}

fn check_error(bytes: &[u8], expected: &str) {
    let error =
        parse("t.json", bytes, &LoadLimits { file_bytes: 100, ..LoadLimits::default() }).expect_err("must fail");
    assert_eq!(error.to_string(), expected);
    assert!(!error.hint().is_empty());
}

#[test]
fn every_input_form() {
    let none: [&str; 0] = [];
    assert_eq!(check(r#"{"tools": [{"name": "a", "inputSchema": {}}]}"#, &[("a", true)]), none);
    assert_eq!(check(r#"{"jsonrpc": "2.0", "result": {"tools": [{"name": "a"}]}}"#, &[("a", false)]), none);
    assert_eq!(check(r#"[{"name": "a", "input_schema": {}}, {"name": "b"}]"#, &[("a", true), ("b", false)]), none);
    assert_eq!(
        check("{\"name\": \"a\", \"parameters\": null}\n\n{\"name\": \"b\"}\n", &[("a", false), ("b", false)]),
        none
    );
    assert_eq!(check("\u{feff}[\n{\"name\": \"a\"}\n]", &[("a", false)]), none);
    assert_eq!(check(r#"{"name": "only"}"#, &[("only", false)]), none);
    assert_eq!(check(r#"{"tools": []}"#, &[]), none);
    let chat = r#"[{"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}]"#;
    assert_eq!(check(chat, &[("a", true)]), none);
    assert_eq!(check(r#"[{"type": "function", "name": "a", "parameters": {}}]"#, &[("a", true)]), none);
}

#[test]
fn extra_fields_reach_the_tool() {
    let text = r#"[{"id": "x", "name": "n", "title": "T", "server": "s", "server_description": "sd", "category": "c",
        "prompt_instructions": "p", "aliases": ["m"], "annotations": {"readOnlyHint": true},
        "_meta": {"anthropic/searchHint": "h", "anthropic/alwaysLoad": true}}]"#;
    let tool = parse("t", text.as_bytes(), &LoadLimits::default()).unwrap().tools.remove(0);
    assert_eq!(tool.id.as_deref(), Some("x"));
    assert_eq!(tool.title.as_deref(), Some("T"));
    assert_eq!(tool.server_description.as_deref(), Some("sd"));
    assert_eq!(tool.search_hint.as_deref(), Some("h"));
    assert_eq!(tool.deferred, Some(false));
    assert_eq!(tool.aliases, ["m"]);
    assert_eq!(tool.annotations.read_only, Some(true));
    assert!(tool.original.unwrap().get().contains("\n        \"prompt_instructions\""));
}

#[test]
fn what_is_wrong_with_one_tool_is_a_warning_with_its_line() {
    let warnings = check(
        "[\n {\"name\": \"a\", \"inputSchema\": [1]},\n 7,\n {\"name\": \"b\", \"description\": 5}\n]",
        &[("a", false), ("b", false)],
    );
    assert_eq!(
        warnings,
        [
            "t.json:2: `inputSchema` is not an object; the tool is kept without it [schema-not-object]",
            "t.json:3: value skipped: not a tool [not-a-tool]",
            "t.json:4: `description` has the wrong type and is ignored [wrong-type]",
        ]
    );
    let warnings =
        check("{\"name\": \"a\"}\n{\"name\": \n{\"x\": 1}\n{\"name\": \"b\"}", &[("a", false), ("b", false)]);
    assert_eq!(
        warnings,
        [
            "t.json:2: line skipped: not JSON: EOF while parsing a value at column 9 [malformed-line]",
            "t.json:3: line skipped: not a tool [not-a-tool]",
        ]
    );
}

#[test]
fn a_damaged_first_line_is_only_a_warning() {
    let warnings = check("oops\n{\"name\": \"a\"}\n{\"name\": \"b\", \"tools\": [1]}", &[("a", false), ("b", false)]);
    assert_eq!(warnings, ["t.json:1: line skipped: not JSON: expected value at column 1 [malformed-line]"]);
}

#[test]
fn replies_inside_replies_are_not_followed() {
    let nested = format!("{}1{}", "{\"result\":".repeat(60_000), "}".repeat(60_000));
    let error = parse("t", nested.as_bytes(), &LoadLimits::default()).expect_err("no tools there");
    assert_eq!(error.to_string(), "t:1: no tools found, but an object without `tools` and without `name`");
}

#[test]
fn what_outsiders_say_of_themselves_is_bounded_and_clean() {
    let text = r#"[{"name": "a", "server": "ev\u001b[31mil", "id": "x\u0007", "aliases": ["b\u202ec", 5],
        "_meta": {"anthropic/searchHint": "123456"}}]"#;
    let limits = LoadLimits { text_bytes: 5, ..LoadLimits::default() };
    let loaded = parse("t", text.as_bytes(), &limits).unwrap();
    assert_eq!(loaded.warnings.len(), 2);
    let (catalog, _) = crate::Catalog::from_tools(loaded.tools);
    let tool = catalog.iter().next().unwrap();
    assert_eq!((tool.id(), tool.server_name(), tool.search_hint()), ("x", Some("evil"), Some("12345")));
    assert_eq!(tool.aliases(), ["bc"]);
}

#[test]
fn long_texts_are_cut_with_a_warning() {
    let text = format!(r#"[{{"name": "a", "description": "{}"}}]"#, "é".repeat(10));
    let limits = LoadLimits { text_bytes: 5, ..LoadLimits::default() };
    let loaded = parse("t", text.as_bytes(), &limits).unwrap();
    assert_eq!(loaded.tools[0].description, "éé");
    assert_eq!(loaded.warnings[0].to_string(), "t:1: `description` is 20 bytes; cut to 5 [too-long]");
}

#[test]
fn unusable_files() {
    check_error(b"", "t.json:1: the file is empty");
    check_error(b"\n\nhello", "t.json:3: not JSON");
    check_error(b"[\n{\"name\": \"a\"},\n", "t.json:3: not JSON");
    check_error(b"{\n\xff", "t.json:2: invalid UTF-8");
    check_error(b"{\"x\": 1}", "t.json:1: no tools found, but an object without `tools` and without `name`");
    check_error(b"{\"x\": 1}\n{\"y\": 2}", "t.json:1: no tools found, but lines without a tool");
    check_error(b"5", "t.json:1: no tools found, but a JSON value that is neither a tool nor a list of tools");
    check_error(
        &[b"\n\n\n".as_slice(), &[b' '; 200]].concat(),
        "t.json:4: the catalog is larger than the limit of 100 bytes",
    );
}

proptest! {
    #[test]
    fn any_bytes_are_tools_warnings_or_an_error(bytes: Vec<u8>) {
        let _ = parse("f", &bytes, &LoadLimits::default());
    }

    #[test]
    fn any_json_like_text_is_tools_warnings_or_an_error(text in r#"[\[\]{}":,a-z0-9 \n]{0,60}(name|tools|function|result)?[\[\]{}":,a-z\n]{0,60}"#) {
        let _ = parse("f", text.as_bytes(), &LoadLimits::default());
    }

    #[test]
    fn a_well_formed_tool_survives_every_form(name in "[a-zA-Z_.-]{1,20}", description in ".{0,40}") {
        let tool = serde_json::json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
        let forms = [
            format!("[{tool}]"),
            format!("{{\"tools\":[{tool}]}}"),
            format!("{tool}\n{tool}"),
            serde_json::to_string_pretty(&tool).unwrap(),
        ];
        for form in forms {
            let loaded = parse("f", form.as_bytes(), &LoadLimits::default()).unwrap();
            prop_assert_eq!(&loaded.tools[0].name, &name);
            prop_assert_eq!(&loaded.tools[0].description, &description);
        }
    }
}
