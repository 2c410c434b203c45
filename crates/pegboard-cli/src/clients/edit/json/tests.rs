use proptest::prelude::*;
use serde_json::json;

use super::*;

fn entry() -> Value {
    json!({"command": "p", "args": ["serve"]})
}

#[track_caller]
fn check_set(text: &str, expected: &str) {
    let edited = set(text, &["mcpServers"], "pegboard", &entry()).expect("an edit");
    assert_eq!(edited, expected);
    assert_eq!(set(&edited, &["mcpServers"], "pegboard", &entry()).as_ref(), Ok(&edited), "twice is once");
}

#[track_caller]
fn check_remove(text: &str, expected: &str) {
    assert_eq!(remove(text, &["mcpServers"], "x").as_deref(), Ok(expected));
}

#[test]
fn empty_files() {
    let whole = "{\n  \"mcpServers\": {\n    \"pegboard\": {\n      \"command\": \"p\",\n      \"args\": [\"serve\"]\n    }\n  }\n}\n";
    check_set("", whole);
    check_set("// mine\n", &format!("// mine\n{whole}"));
    check_set("// mine", &format!("// mine\n{whole}"));
    check_set("{}\n", whole);
    check_set(
        "\u{feff}{\"mcpServers\": {}}",
        "\u{feff}{\"mcpServers\": {\n  \"pegboard\": {\n    \"command\": \"p\",\n    \"args\": [\"serve\"]\n  }\n}}",
    );
}

#[test]
fn layout_is_kept() {
    check_set(
        "{\n\t// a\n\t\"mcpServers\": {\n\t\t\"x\": {} // b\n\t\t// c\n\t} /* d */\n}",
        "{\n\t// a\n\t\"mcpServers\": {\n\t\t\"x\": {}, // b\n\t\t\"pegboard\": {\n\t\t\t\"command\": \"p\",\n\t\t\t\"args\": [\"serve\"]\n\t\t}\n\t\t// c\n\t} /* d */\n}",
    );
    check_set(
        "{\r\n    \"a\": 1, // b\r\n}\r\n",
        "{\r\n    \"a\": 1, // b\r\n    \"mcpServers\": {\r\n        \"pegboard\": {\r\n            \"command\": \"p\",\r\n            \"args\": [\"serve\"]\r\n        }\r\n    },\r\n}\r\n",
    );
    check_set(
        "{\"mcpServers\": {\"x\": {}}, \"b\": 2}",
        "{\"mcpServers\": {\"x\": {}, \"pegboard\": {\"command\": \"p\", \"args\": [\"serve\"]}}, \"b\": 2}",
    );
    check_set(
        "{\n  \"mcpServers\": {\n    // none yet\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    \"pegboard\": {\n      \"command\": \"p\",\n      \"args\": [\"serve\"]\n    }\n    // none yet\n  }\n}\n",
    );
}

#[test]
fn what_is_there_is_replaced_where_it_stands() {
    check_set(
        "{\n  \"mcpServers\": {\n    \"pegboard\": {\"url\": \"x\"}, // a\n    \"y\": 1\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    \"pegboard\": {\n      \"command\": \"p\",\n      \"args\": [\"serve\"]\n    }, // a\n    \"y\": 1\n  }\n}\n",
    );
}

#[test]
fn removal_keeps_comments() {
    check_remove(
        "{\n  \"mcpServers\": {\n    // about x\n    \"x\": {\n      \"a\": 1 // inside\n    },\n    \"y\": 2\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    // about x\n    \"y\": 2\n  }\n}\n",
    );
    check_remove(
        "{\n  \"mcpServers\": {\n    \"y\": 2, // of y\n    \"x\": 1 // of x\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    \"y\": 2 // of y\n     // of x\n  }\n}\n",
    );
    check_remove("{\"mcpServers\": {\"x\": 1, \"y\": 2}}", "{\"mcpServers\": {\"y\": 2}}");
    check_remove("{\"mcpServers\": {\"y\": 2, \"x\": 1}}", "{\"mcpServers\": {\"y\": 2 }}");
    check_remove("{\"mcpServers\": {\"x\": 1 /* c */, \"y\": 2}}", "{\"mcpServers\": { /* c */ \"y\": 2}}");
    check_remove("{\"mcpServers\": {\"x\": 1}}", "{\"mcpServers\": {}}");
    check_remove("{\"mcpServers\": {\"y\": 1}}", "{\"mcpServers\": {\"y\": 1}}");
    check_remove("", "");
}

#[test]
fn what_cannot_be_changed() {
    let refused = |text: &str| set(text, &["mcpServers"], "p", &entry()).expect_err("a refusal").to_string();
    assert_eq!(refused("[]"), "`the file` is not an object");
    assert_eq!(refused("{\"mcpServers\": null}"), "`mcpServers` is not an object");
    assert_eq!(
        refused("{\n\"a\": \"s3cret"),
        "line 2: the file is not valid JSON: unterminated string or invalid escape"
    );
    assert_eq!(refused("{\"a\": 1 \"b\": 2}"), "line 1: the file is not valid JSON: expected comma");
}

/// Returns whether all of `part` is in `whole`, in its order.
fn is_within(part: &str, whole: &str) -> bool {
    let mut letters = whole.chars();
    part.chars().all(|letter| letters.any(|other| other == letter))
}

/// Generates white space and comments.
fn gap() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            4 => Just(String::new()),
            2 => Just(" ".to_owned()),
            2 => Just("\n    ".to_owned()),
            1 => Just("\r\n".to_owned()),
            1 => "[a-z,{}:\"é]{0,6}".prop_map(|text| format!("// {text}\n")),
            1 => "[a-z,{}:\"\né]{0,6}".prop_map(|text| format!("/* {text} */")),
        ],
        0..3,
    )
    .prop_map(|parts| parts.concat())
}

/// Generates an object of these values with comments everywhere.
fn object(values: impl Strategy<Value = String> + Clone) -> impl Strategy<Value = String> {
    let pair = (gap(), "[a-e]", gap(), gap(), values, gap());
    (prop::collection::vec(pair, 0..4), gap(), any::<bool>()).prop_map(|(pairs, end, has_trailing)| {
        let mut text = "{".to_owned();
        let count = pairs.len();
        for (at, (before, key, a, b, value, after)) in pairs.into_iter().enumerate() {
            let comma = if at + 1 < count || has_trailing { "," } else { "" };
            // Keys are numbered by their position, so that none occurs twice.
            text.push_str(&format!("{before}\"{key}{at}\"{a}:{b}{value}{after}{comma}"));
        }
        text + &end + "}"
    })
}

fn file() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![Just("1".to_owned()), Just("\"é,}\"".to_owned()), Just("[true, null]".to_owned())];
    let servers = (gap(), object(object(leaf.clone()).boxed()), gap(), object(leaf));
    (servers, gap(), any::<bool>()).prop_map(|((before, servers, after, other), end, has_mark)| {
        let mark = if has_mark { "\u{feff}" } else { "" };
        format!("{mark}{before}{{\"other\":{other},{after}\"mcpServers\":{servers}{after}}}{end}")
    })
}

proptest! {
    #[test]
    fn a_new_server_changes_nothing_else(text in file()) {
        let edited = set(&text, &["mcpServers"], "pegboard", &entry()).expect("an edit");
        let mut expected = to_json(&text).expect("JSON");
        expected["mcpServers"]["pegboard"] = entry();
        prop_assert_eq!(to_json(&edited).expect("JSON"), expected);
        prop_assert!(is_within(&text, &edited), "{}\n{}", text, edited);
        prop_assert_eq!(set(&edited, &["mcpServers"], "pegboard", &entry()).expect("an edit"), edited);
    }

    #[test]
    fn a_changed_server_changes_nothing_else(text in file(), at in 0..4_usize) {
        let file = File::parse(&text).expect("a file");
        let servers = file.root.object_value().and_then(|root| root.object_value("mcpServers")).expect("servers");
        if let Some(server) = servers.properties().get(at) {
            let value = file.range(&server.value().expect("a value"));
            let (before, after) = (&file.text[..value.start], &file.text[value.end..]);
            let name = server.decoded_name().expect("a name");
            let edited = set(&text, &["mcpServers"], &name, &entry()).expect("an edit");
            prop_assert!(edited.trim_start_matches(MARK).starts_with(before) && edited.ends_with(after));
            let mut expected = to_json(&text).expect("JSON");
            expected["mcpServers"][&name] = entry();
            prop_assert_eq!(to_json(&edited).expect("JSON"), expected);
        }
    }

    #[test]
    fn a_removed_server_leaves_everything_else(text in file(), key in "[a-e][0-3]") {
        let edited = remove(&text, &["mcpServers"], &key).expect("an edit");
        let mut expected = to_json(&text).expect("JSON");
        if let Some(servers) = expected["mcpServers"].as_object_mut() {
            servers.shift_remove(&key);
        }
        prop_assert_eq!(to_json(&edited).expect("JSON"), expected, "{}\n{}", text, edited);
        prop_assert!(is_within(&edited, &text));
    }

    #[test]
    fn the_tree_has_all_of_the_text(text in file()) {
        let file = File::parse(&text).expect("a file");
        prop_assert_eq!(file.root.to_string(), file.text);
    }
}
