//! The reference systems' cases about sessions and replies, through `pegboard session`.
//!
//! Where a case is not `as is`, the comment beside it says what Pegboard does instead.

use serde_json::{Value, json};

use crate::{
    cases::{Case, cases},
    gateway::fixture,
    harness::Folder,
};

/// Runs requests through one session, and returns the answers in order.
#[track_caller]
fn drive(id: &str, tools: &Value, args: &[&str], requests: &[Value]) -> Vec<Value> {
    let folder = Folder::new(&format!("session-{id}"));
    let tools = if tools.as_array().is_some_and(Vec::is_empty) { json!({"tools": []}) } else { tools.clone() };
    folder.file("tools.json", tools.to_string());
    let input: String = requests.iter().map(|request| format!("{request}\n")).collect();
    let args = [&["session", "--catalog", "tools.json"], args].concat();
    let output = folder.run_with_input(&args, input.as_bytes());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{id}: {error}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(answers.len(), requests.len(), "{id}: one line for each");
    answers
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({"op": "call", "name": name, "arguments": arguments})
}

fn sorted(value: &Value) -> Vec<String> {
    let mut names: Vec<String> =
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    names.sort();
    names
}

/// Returns tools given by their names only.
fn plain_tools(names: &Value) -> Value {
    let tool = |name: &Value| json!({"name": name, "description": ""});
    names.as_array().into_iter().flatten().map(tool).collect::<Vec<_>>().into()
}

fn explicit_case(case: &Case) {
    let given = &case.given;
    let mut requests = Vec::new();
    let before = given["already_added_before_this_step"].as_array().cloned().unwrap_or_default();
    if !before.is_empty() {
        let mut arguments = json!({"tool_names": before});
        if before == [json!("search")] {
            // A plain `search` among two of that name was added for one server.
            arguments["server"] = "slack".into();
        }
        requests.push(call("add_tool", &arguments));
    }
    let name = case.when["call"].as_str().expect("a call");
    requests.push(call(name, &case.when["arguments"]));
    let pre = sorted(&given["pre_discovered"]).join(",");
    let mut args = vec!["--dialect", "explicit"];
    if !pre.is_empty() {
        args.extend(["--pre-discovered", &pre]);
    }
    let tools = &given["deferred_tools_in_registration_order"];
    let answer = drive(&case.id, tools, &args, &requests).pop().expect("an answer");
    let result = &answer["result"];
    let upstream = &case.expect["upstream_result"];
    if let Some(expected) = case.expect.get("doc_result") {
        assert_eq!(result, expected, "{}", case.id);
    } else if let Some(included) = case.expect["doc_expect"]["must_include"].as_array() {
        let names: Vec<&Value> = result["tools"].as_array().into_iter().flatten().map(|tool| &tool["name"]).collect();
        assert!(included.iter().all(|name| names.contains(&name)), "{}: {result}", case.id);
    } else if upstream.as_str().is_some_and(|text| text.contains("Invalid regex")) {
        let error = result["error"].as_str().unwrap_or_default();
        assert!(error.starts_with("invalid regex pattern: "), "{}: {result}", case.id);
    } else if name == "show_all_tools" {
        // Ours lists the meta-tools too.
        let mut expected = sorted(&upstream["tools"]);
        expected.extend(["add_tool", "remove_tool", "search_tools", "show_all_tools"].map(str::to_owned));
        expected.sort();
        assert_eq!(sorted(&result["tools"]), expected, "{}", case.id);
    } else if upstream.as_str().is_some_and(|text| text.starts_with("No tools found")) {
        let nothing = json!({"found": 0, "tools": [], "message": "No tools found matching the pattern"});
        assert_eq!(*result, nothing, "{}", case.id);
    } else {
        assert_eq!(result, upstream, "{}", case.id);
    }
    // Compared as sets; the originals lack `remove_tool` or have it.
    let mut expected = sorted(&case.expect["visible_after"]);
    expected.push("remove_tool".to_owned());
    expected.sort();
    expected.dedup();
    assert_eq!(sorted(&answer["visible"]), expected, "{}", case.id);
}

#[test]
fn explicit() {
    let mut ran = 0;
    for case in cases(include_str!("cases/seed0.json")) {
        if case.usage == "background" {
            continue;
        }
        ran += 1;
        explicit_case(&case);
    }
    assert_eq!(ran, 30);
}

#[test]
fn gateway() {
    let limit = "maxToolsLimit=2";
    let order = r#"toolSelectionOrder=["alphabetical"]"#;
    let args = ["--dialect", "gateway", "--set", limit, "--set", order];
    for case in cases(include_str!("cases/seed1.json")) {
        match case.id.as_str() {
            "mcproxy-expose-01" => {
                let answers = drive(&case.id, &plain_tools(&case.given["tools"]), &args, &[json!({"op": "list"})]);
                assert_eq!(answers[0]["visible"], case.expect["tools"]);
                // The wording is ours, the count is not.
                let description = answers[0]["tools"][2]["description"].as_str().expect("a description");
                assert!(description.starts_with("Search through 1 additional available tools."), "{description}");
            }
            "mcproxy-expose-03" | "mcproxy-expose-04" => {
                // At the limit, and with the limit 0, everything is shown and nothing searched.
                let limit = format!("maxToolsLimit={}", case.given["maxToolsLimit"]);
                let names: Vec<String> =
                    (0..case.given["tool_count"].as_u64().expect("a count")).map(|at| format!("s___t{at}")).collect();
                let args = ["--dialect", "gateway", "--set", &limit];
                let answers = drive(&case.id, &plain_tools(&json!(names)), &args, &[json!({"op": "list"})]);
                assert_eq!(answers[0]["visible"], json!(names), "{}", case.id);
            }
            "mcproxy-expose-05" => {
                let requests = [
                    json!({"op": "list"}),
                    call("search_available_tools", &json!({"query": "web"})),
                    json!({"op": "list"}),
                    // A search without hits leaves the list, and nothing is announced.
                    call("search_available_tools", &json!({"query": "zzz"})),
                    call("search_available_tools", &json!({"query": "web"})),
                    call("search_available_tools", &json!({})),
                    call("search_available_tools", &json!({"query": ""})),
                ];
                let answers = drive(&case.id, &plain_tools(&case.given["tools"]), &args, &requests);
                assert_eq!(answers[0]["visible"], case.expect["first"]);
                assert_eq!(sorted(&answers[2]["visible"]), sorted(&case.expect["after_search"]));
                assert_eq!(answers[2]["visible"][2], "search_available_tools");
                assert_eq!(answers[1]["list_changed"], true);
                let nothing = "No tools found matching 'zzz'. Try a different search term.";
                assert_eq!((&answers[3]["result"], &answers[3]["list_changed"]), (&json!(nothing), &json!(false)));
                assert_eq!(answers[3]["visible"], answers[2]["visible"]);
                assert_eq!(answers[4]["list_changed"], false);
                let missing = json!("Missing required 'query' parameter");
                assert_eq!((&answers[5]["result"], &answers[5]["is_error"]), (&missing, &json!(true)));
                assert_eq!(answers[6]["result"], "No tools found matching ''. Try a different search term.");
            }
            "mcproxy-text-01" => {
                let tools = json!([
                    {"name": "github___create_issue", "description": "Create a new issue"},
                    {"name": "github___x"},
                    {"name": "other___y"}
                ]);
                let requests = [call("search_available_tools", &json!({"query": "github"}))];
                let answers = drive(&case.id, &tools, &["--dialect", "gateway", "--set", "maxToolsLimit=2"], &requests);
                let text = "Found 2 matching tools:\n\n1. github___x\n2. github___create_issue - Create a new issue";
                assert_eq!(answers[0]["result"], text);
            }
            _ => {}
        }
    }
}

#[test]
fn select_searches() {
    let mut ran = 0;
    for case in cases(include_str!("cases/seed2.json")).iter().filter(|case| case.id.starts_with("eino-search")) {
        ran += 1;
        let requests = [call("tool_search", &case.when["arguments"])];
        let answer = drive(&case.id, &case.given["dynamic_tools"], &["--dialect", "select"], &requests).remove(0);
        match case.expect["error"].as_str() {
            Some(error) if error.starts_with("failed to unmarshal tool search arguments: ") => {
                let text = answer["result"].as_str().unwrap_or_default();
                assert!(text.starts_with("failed to unmarshal tool search arguments: "), "{}: {answer}", case.id);
            }
            Some(error) => assert_eq!(answer["result"], error, "{}", case.id),
            None => assert_eq!(answer["result"], json!({"matches": case.expect["matches"]}), "{}", case.id),
        }
        assert_eq!(answer["is_error"], case.expect["error"].is_string(), "{}", case.id);
    }
    assert_eq!(ran, 44);
}

/// Renders messages as `role:text`, with the reminder shortened.
fn chat(messages: &Value, reminder: &Value) -> Vec<Value> {
    let message = |text: &Value| {
        let (role, content) = text.as_str().expect("a message").split_once(':').expect("a role");
        match content {
            "<reminder>" | "<reminder>[marker]" => reminder.clone(),
            content => json!({"role": role, "content": content}),
        }
    };
    messages.as_array().expect("messages").iter().map(message).collect()
}

#[test]
fn select_reminders_and_history() {
    let text = "<available-deferred-tools>\ndynamic_tool_a\ndynamic_tool_b\n</available-deferred-tools>";
    let reminder = json!({"role": "user", "name": "pegboard_deferred_tools", "content": text});
    let two = plain_tools(&json!(["dynamic_tool_a", "dynamic_tool_b"]));
    for case in cases(include_str!("cases/seed2.json")) {
        if case.id.starts_with("eino-reminder") && case.given["messages"].is_array() {
            let request = json!({"op": "messages", "messages": chat(&case.given["messages"], &reminder)});
            let answer = drive(&case.id, &two, &["--dialect", "select"], &[request]).remove(0);
            assert_eq!(answer["messages"], json!(chat(&case.expect["messages"], &reminder)), "{}", case.id);
        }
        let Some(history) = case.given["history"].as_array() else { continue };
        if case.usage != "as is" || !case.id.starts_with("eino-hist") {
            continue;
        }
        let message = |text: &Value| {
            let text = text.as_str().expect("a message");
            match text.strip_prefix("tool(").and_then(|rest| rest.split_once("): ")) {
                Some((name, content)) => json!({"role": "tool", "name": name, "content": content}),
                None => json!({"role": text.split(':').next(), "content": text}),
            }
        };
        let request = json!({"op": "messages", "messages": history.iter().map(message).collect::<Vec<_>>()});
        let answer =
            drive(&case.id, &plain_tools(&case.given["dynamic"]), &["--dialect", "select"], &[request]).remove(0);
        assert_eq!(answer["loaded"], case.expect["loaded"], "{}", case.id);
    }
}

#[test]
fn select_flow_and_start() {
    let tools = json!([
        {"name": "static_tool", "deferred": false}, {"name": "dynamic_tool_a"}, {"name": "dynamic_tool_b"}
    ]);
    let requests = [
        json!({"op": "list"}),
        call("tool_search", &json!({"query": "select:dynamic_tool_a", "max_results": 5})),
        call("dynamic_tool_a", &json!({"x": 1})),
        // eino-flow-04: what is not loaded runs all the same.
        call("dynamic_tool_b", &json!({})),
    ];
    let answers = drive("eino-flow-01", &tools, &["--dialect", "select"], &requests);
    assert_eq!(answers[0]["visible"], json!(["static_tool", "tool_search"]));
    assert_eq!(answers[1]["visible"], json!(["static_tool", "tool_search", "dynamic_tool_a"]));
    let called = json!({"server": null, "name": "dynamic_tool_a", "arguments": {"x": 1}});
    assert_eq!(answers[2]["would_call"], called);
    assert_eq!(answers[3]["would_call"]["name"], "dynamic_tool_b");
    // eino-new-02
    let folder = Folder::new("eino-new-02");
    folder.file("tools.json", "{\"tools\": []}");
    let output = folder.run(&["session", "--dialect", "select", "--catalog", "tools.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("tools is required"));
}

#[test]
fn ranked() {
    let mut ran = 0;
    for case in cases(include_str!("cases/seed3.json")) {
        // A nameless tool is left out of every catalog.
        if case.id == "ship-missingkeys" {
            continue;
        }
        ran += 1;
        let config = &case.given["config"];
        let set = |key: &str| format!("{key}={}", config[key]);
        let (max, default, bonus) = (set("max_limit"), set("default_limit"), set("token_bonus"));
        let args = ["--dialect", "ranked", "--set", &max, "--set", &default, "--set", &bonus];
        let requests = [call("tool_search", &case.when["arguments"])];
        let answer = drive(&case.id, &case.given["available_tools"], &args, &requests).remove(0);
        assert_eq!(answer["result"], case.expect["text"], "{}", case.id);
        let mut expected = case.expect["metadata"].clone();
        if case.is_ours {
            // Noise is absent from the metadata as well.
            expected["matches"] = json!([]);
        }
        assert_eq!(answer["metadata"], expected, "{}", case.id);
    }
    assert_eq!(ran, 30);
}

/// Returns tools as the cases of the `schema` system write them, all deferred.
fn deferred_tools(given: &Value) -> Value {
    let tools = given.get("deferred_tools").or(given.get("deferred")).and_then(Value::as_array).cloned();
    let tool = |tool: Value| match tool {
        Value::String(short) => {
            let (name, description) = short.split_once(" '").unwrap_or((&short, ""));
            json!({"name": name, "description": description.trim_end_matches('\''), "deferred": true})
        }
        Value::Array(parts) => json!({
            "name": parts[0], "description": parts.get(1), "search_hint": parts.get(2), "deferred": true
        }),
        mut tool => {
            tool["deferred"] = true.into();
            tool
        }
    };
    let mut tools: Vec<Value> = tools.unwrap_or_default().into_iter().map(tool).collect();
    tools.extend(["not_deferred", "normal", "registered"].iter().flat_map(|key| {
        given[key].as_array().into_iter().flatten().map(|name| json!({"name": name})).collect::<Vec<_>>()
    }));
    tools.into()
}

#[test]
fn schema() {
    let mut ran = 0;
    for case in cases(include_str!("cases/seed4.json")) {
        let is_search = ["nexo-kw", "nexo-sel", "nexo-cap", "nexo-none", "nexo-err", "nexo-rank"];
        if !is_search.iter().any(|start| case.id.starts_with(start)) {
            continue;
        }
        ran += 1;
        let arguments = if case.when["arguments"].is_object() { &case.when["arguments"] } else { &case.when };
        let requests = [call("ToolSearch", arguments)];
        let answer = drive(&case.id, &deferred_tools(&case.given), &["--dialect", "schema"], &requests).remove(0);
        let (result, expect) = (&answer["result"], &case.expect);
        if let Some(error) = expect["error"].as_str() {
            assert_eq!((result, &answer["is_error"]), (&json!(error), &json!(true)), "{}", case.id);
            continue;
        }
        for key in ["query", "query_kind", "total_deferred_tools", "missing"] {
            assert!(expect.get(key).is_none_or(|expected| result[key] == *expected), "{} {key}: {result}", case.id);
        }
        let matches = result["matches"].as_array().expect("matches");
        assert!(matches.iter().all(|hit| hit["parameters"].is_object()), "{}", case.id);
        let name = |hit: &Value| match hit {
            Value::String(name) => name.clone(),
            Value::Array(pair) => pair[0].as_str().unwrap_or_default().to_owned(),
            hit => hit["name"].as_str().unwrap_or_default().to_owned(),
        };
        if let Some(expected) = expect["matches"].as_array() {
            let mut expected: Vec<String> = expected.iter().map(name).collect();
            if case.is_ours {
                // The exact name is offered where the ranker finds nothing.
                expected = vec!["ask_codex".to_owned()];
            }
            assert_eq!(matches.iter().map(name).collect::<Vec<_>>(), expected, "{}", case.id);
        }
        if let Some(count) = expect["count"].as_u64() {
            assert_eq!(matches.len() as u64, count, "{}", case.id);
        }
        assert_eq!(result.get("missing").is_some(), result["query_kind"] == "select", "{}", case.id);
    }
    assert_eq!(ran, 34);
}

#[test]
fn schema_stubs() {
    for case in cases(include_str!("cases/seed4.json")).iter().filter(|case| case.id.starts_with("nexo-reg")) {
        let tools = deferred_tools(&case.given);
        match case.id.as_str() {
            "nexo-reg-01" => {
                let answer = drive(&case.id, &tools, &["--dialect", "schema"], &[json!({"op": "list"})]).remove(0);
                let mut expected = case.expect.as_array().expect("names").clone();
                expected.push(json!("ToolSearch"));
                assert_eq!(answer["visible"], json!(expected));
            }
            "nexo-reg-02" => {
                let lines: Vec<&str> =
                    case.expect["text_lines"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
                let answer = drive(&case.id, &tools, &["--dialect", "schema"], &[json!({"op": "prompt"})]).remove(0);
                assert_eq!(answer["text"], lines.join("\n"));
            }
            _ => {}
        }
    }
}

#[test]
fn bad_requests_are_answered_and_change_nothing() {
    let tools = json!([{"name": "a", "description": "alpha"}, {"name": "b", "description": "beta"}]);
    let folder = Folder::new("session-bad");
    folder.file("tools.json", tools.to_string());
    let huge = "x".repeat(10 << 20);
    let lines = [
        "oops".to_owned(),
        "[]".to_owned(),
        r#"{"op": "dance"}"#.to_owned(),
        r#"{"op": "call"}"#.to_owned(),
        r#"{"op": "messages", "messages": 5}"#.to_owned(),
        r#"{"op": "messages", "messages": [5, {"role": "tool", "name": "tool_search", "content": "{broken"}]}"#
            .to_owned(),
        json!({"op": "call", "name": "tool_search", "arguments": {"query": huge}}).to_string(),
        format!("\"{}\"", "y".repeat(17 << 20)),
        r#"{"op": "list"}"#.to_owned(),
    ];
    let input = lines.join("\n");
    let output =
        folder.run_with_input(&["session", "--dialect", "select", "--catalog", "tools.json"], input.as_bytes());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(answers.len(), lines.len());
    for at in [0, 1, 2, 3, 4, 7] {
        assert!(answers[at]["error"].is_string(), "{at}: {}", answers[at]);
    }
    assert_eq!(answers[5]["loaded"], json!([]));
    assert_eq!(answers[6]["is_error"], true);
    assert_eq!(answers[8]["visible"], json!(["tool_search"]));
}

#[test]
fn every_dialect_runs_on_every_ranker() {
    let tools = json!([
        {"name": "create_issue", "description": "Create an issue", "server": "github", "deferred": true},
        {"name": "get_weather", "description": "Current weather", "server": "weather", "deferred": true}
    ]);
    let dialects = [
        ("explicit", "search_tools"),
        ("gateway", "search_available_tools"),
        ("select", "tool_search"),
        ("ranked", "tool_search"),
        ("schema", "ToolSearch"),
        ("bridge", "search_tools"),
    ];
    for (dialect, search) in dialects {
        for ranker in ["hybrid", "regex", "bm25", "keyword", "sequence", "hinted", "lexical"] {
            let requests = [call(search, &json!({"query": "weather"})), call(search, &json!({"query": "get_weather"}))];
            let args = ["--dialect", dialect, "--ranker", ranker, "--set", "maxToolsLimit=1"];
            let answers = drive(&format!("{dialect}-{ranker}"), &tools, &args, &requests);
            for answer in answers {
                assert!(answer["result"].to_string().contains("get_weather"), "{dialect} {ranker}: {answer}");
            }
        }
    }
    let required = [call("tool_search", &json!({"query": "+current issue"}))];
    let answers = drive("required-hybrid", &tools, &["--dialect", "select", "--ranker", "hybrid"], &required);
    assert_eq!(answers[0]["result"], json!({"matches": ["get_weather"]}));
}

#[test]
fn token_figures_and_their_estimate() {
    let output = Folder::new("tokens").run(&["tokens"]);
    let report = crate::harness::json(&output);
    let figure = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).expect("a figure");
    let error = (figure("/estimate") / figure("/tokens") - 1.0).abs();
    assert!(error < 0.1, "the estimate is off by {error}");
    assert!(figure("/dialects/bridge/first_list") <= 300.0);
    assert!(figure("/dialects/bridge/answer_p50") <= 300.0);
    assert!(figure("/complete_signatures") >= 0.95 * figure("/tools"));
}

#[test]
fn the_tools_of_configured_servers() {
    let folder = Folder::new("session-config");
    let servers = json!({"one": fixture(&["--tools", "3"]), "two": fixture(&["--tools", "3"])});
    folder.file("pegboard.json", json!({"mcpServers": servers}).to_string());
    let args =
        ["session", "--config", "pegboard.json", "--dialect", "explicit", "--pre-discovered", "one__test_audio,no"];
    let input = call("show_all_tools", &json!({})).to_string();
    let output = folder.run_with_input(&args, input.as_bytes());
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(text.contains("one___") && text.contains("two___"), "{text}");
    assert!(error.contains("no tool `no`"), "{error}");
}

#[test]
fn reading_tools_are_shown_in_every_dialect() {
    let tools = json!([{"name": "a", "description": "alpha"}]);
    for dialect in ["explicit", "gateway", "select", "ranked", "schema", "bridge"] {
        let args = ["--dialect", dialect, "--set", "output_offloading=true"];
        let wrong = call("read_large_output", &json!({"filename": "x", "start": 0}));
        let answers = drive(dialect, &tools, &args, &[json!({"op": "list"}), wrong]);
        let visible = sorted(&answers[0]["visible"]);
        for reader in ["read_large_output", "search_large_output", "query_large_output"] {
            assert!(visible.contains(&reader.to_owned()), "{dialect}: {visible:?}");
        }
        assert!(answers[1].to_string().contains("start must be 1 or greater"), "{dialect}: {}", answers[1]);
    }
}
