use std::{fmt::Write as _, fs, path::Path};

use pegboard_core::{Catalog, RawTool};
use proptest::prelude::*;
use serde_json::{json, value::to_raw_value};

use super::*;

#[track_caller]
fn schema(schema: &Value) -> Schema {
    Schema::read(&schema.to_string()).expect("a schema")
}

/// What is wrong with arguments, one line for each.
#[track_caller]
fn check(rules: &Value, arguments: &Value, expected: &[&str]) {
    let found: Vec<String> = schema(rules).mistakes(arguments).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected, "{arguments} by {rules}");
}

fn issue() -> Value {
    json!({
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 1},
            "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "state": {"enum": ["open", "closed"]},
            "priority": {"type": ["integer", "null"], "minimum": 1, "maximum": 5},
            "due": {"anyOf": [{"type": "string", "pattern": "^\\d{4}-\\d{2}$"}, {"type": "null"}]}
        },
        "required": ["title"],
        "additionalProperties": false
    })
}

#[test]
fn what_fits_is_fine() {
    check(&issue(), &json!({"title": "a", "labels": ["x"], "state": "open", "priority": 3.0, "due": "2026-01"}), &[]);
    check(&issue(), &json!({"title": "a", "priority": null, "due": null}), &[]);
}

#[test]
fn every_mistake_has_its_place() {
    check(&issue(), &json!({}), &["/title is missing"]);
    check(&issue(), &json!({"titel": "a"}), &["/title is missing", "/titel is not known (did you mean `title`?)"]);
    check(
        &issue(),
        &json!({"title": 3, "labels": ["a", 1, {}], "state": "opne", "priority": 9}),
        &[
            "/title must be a string, not 3",
            "/labels/1 must be a string, not 1",
            "/labels/2 must be a string, not {}",
            "/state must be one of \"open\", \"closed\", not \"opne\" (did you mean \"open\"?)",
            "/priority must be at most 5, not 9",
        ],
    );
    check(
        &issue(),
        &json!({"title": "", "priority": 1.5}),
        &["/title must have at least 1 characters", "/priority must be an integer or null, not 1.5"],
    );
    check(
        &issue(),
        &json!({"title": "a", "due": "soon"}),
        &["/due must match the pattern \"^\\\\d{4}-\\\\d{2}$\", not \"soon\""],
    );
    check(&issue(), &json!({"title": "a", "due": 3}), &["/due must be a string or null, not 3"]);
    check(&json!({"type": "object"}), &json!([]), &["`arguments` must be an object, not []"]);
}

#[test]
fn a_name_that_is_allowed_may_still_be_the_one_that_is_missing() {
    let rules = json!({"properties": {"repo_name": {}, "owner": {}}, "required": ["repo_name", "owner"]});
    check(
        &rules,
        &json!({"repoName": "a", "owner": "b", "zzz": 1}),
        &["/repo_name is missing", "/repoName is not known (did you mean `repo_name`?)", "/zzz is not known"],
    );
    // Nothing is missing, so the server decides about the name.
    check(&rules, &json!({"repo_name": "a", "owner": "b", "zzz": 1}), &[]);
    // Here other names have a meaning.
    for (key, rule) in [("additionalProperties", json!({"type": "integer"})), ("patternProperties", json!({"^z": {}}))]
    {
        let mut rules = rules.clone();
        rules[key] = rule;
        check(&rules, &json!({"owner": "b", "zzz": 1}), &["/repo_name is missing"]);
    }
}

#[test]
fn forms_and_references() {
    let rules = json!({
        "properties": {
            "shape": {"oneOf": [{"$ref": "#/$defs/circle"}, {"$ref": "#/%24defs/square"}]},
            "tree": {"$ref": "#/$defs/tree"}
        },
        "$defs": {
            "circle": {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
            "square": {"type": "object", "properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["kind", "a"]},
            "tree": {"properties": {"left": {"$ref": "#/$defs/tree"}, "leaf/": {"type": "integer"}}}
        }
    });
    check(&rules, &json!({"shape": {"kind": "circle", "r": 1}}), &[]);
    check(&rules, &json!({"shape": {"kind": "circle"}}), &["/shape/r is missing"]);
    check(&rules, &json!({"shape": 1}), &["/shape matches none of the 2 alternatives in `oneOf`"]);
    check(
        &rules,
        &json!({"tree": {"left": {"left": {"leaf/": "x"}}}}),
        &["/tree/left/left/leaf~1 must be an integer, not \"x\""],
    );
    check(
        &json!({"oneOf": [{"type": "object"}, {"required": ["a"]}]}),
        &json!({"a": 1}),
        &["`arguments` matches more than one of the 2 alternatives in `oneOf`"],
    );
    check(
        &json!({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}}),
        &json!({"a": 1}),
        &["/b is missing"],
    );
}

/// What is not understood forbids nothing, on its own and inside out.
#[test]
fn what_is_beyond_us_passes() {
    let check = |rules: Value| check(&rules, &json!({"a": "x", "n": null}), &[]);
    check(json!({"properties": {"a": {"type": "file"}}}));
    check(json!({"properties": {"a": {"format": "email"}}}));
    check(json!({"not": {"properties": {"a": {"format": "email"}}}}));
    check(json!({"oneOf": [{"properties": {"a": {"format": "date"}}}, {"properties": {"a": {"format": "time"}}}]}));
    check(json!({"properties": {"a": {"$ref": "https://example.com/a.json"}}}));
    check(json!({"properties": {"a": {"$ref": "#/nowhere"}}}));
    check(json!({"properties": {"a": {"pattern": "(?=look)ahead"}}}));
    check(json!({"not": {"properties": {"a": {"pattern": "(?!look)ahead"}}}}));
    check(json!({"unevaluatedProperties": false}));
    check(json!({"properties": 3, "required": {"a": 1}, "type": 4, "enum": "x", "items": 7}));
    check(json!({"properties": {"n": {"type": "string", "nullable": true}}}));
    check(json!({"$defs": {"b": {"$id": "b", "$ref": "#/c"}}, "properties": {"a": {"$ref": "#/$defs/b"}}}));
    for text in ["", "3", "true", "{}", "{\"type\": \"ob", &"{\"not\":".repeat(200)] {
        assert!(Schema::read(text).is_none(), "{text}");
    }
}

#[test]
fn old_and_new_rules_beside_a_reference() {
    let rules = |draft: &str| {
        json!({
            "$schema": draft,
            "properties": {"a": {"$ref": "#/definitions/text", "maxLength": 1}, "n": {"minimum": 1, "exclusiveMinimum": true}},
            "definitions": {"text": {"type": "string"}}
        })
    };
    check(&rules("http://json-schema.org/draft-07/schema#"), &json!({"a": "long"}), &[]);
    check(
        &rules("https://json-schema.org/draft/2020-12/schema"),
        &json!({"a": "long"}),
        &["/a must have at most 1 characters"],
    );
    check(&rules("http://json-schema.org/draft-04/schema#"), &json!({"n": 1}), &["/n must be at least 1, not 1"]);
}

/// Schemas that would keep a validator busy for ever, or for years.
#[test]
fn hostile_schemas_are_harmless() {
    let circle = json!({"$ref": "#"});
    assert_eq!(schema(&circle).verdict(&json!({})), Verdict::Maybe);
    let pair = json!({"allOf": [{"$ref": "#/$defs/b"}], "$defs": {"b": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
    assert_eq!(schema(&pair).verdict(&json!({})), Verdict::Maybe);
    // Twice as much work on every level.
    let mut levels = json!({"z": {"type": "string"}});
    for level in 0..60 {
        let next = if level == 0 { "z".to_owned() } else { format!("l{}", level - 1) };
        let next = json!({"$ref": format!("#/$defs/{next}")});
        levels[format!("l{level}")] = json!({"anyOf": [next, next]});
    }
    let doubling = json!({"$ref": "#/$defs/l59", "$defs": levels});
    assert_eq!(schema(&doubling).verdict(&json!(1)), Verdict::Maybe);
    assert!(schema(&doubling).mistakes(&json!(1)).is_empty());
    let deep = json!({"anyOf": [{"items": {"$ref": "#"}, "maxItems": 1}, {"items": {"$ref": "#"}, "maxItems": 1}]});
    let nested = (0..90).fold(json!([1, 2]), |value, _| json!([value]));
    assert_eq!(schema(&deep).verdict(&nested), Verdict::Maybe);
    // What others try for minutes, and what takes more memory than there is.
    for pattern in ["^(a+)+$", "(a|a)*b", "(x+x+)+y", "((a{0,1000}){0,1000}){0,1000}", "\\w{1000}"] {
        let rules = json!({"properties": {"a": {"pattern": pattern}}});
        schema(&rules).verdict(&json!({"a": format!("{}!", "a".repeat(10_000))}));
    }
    let many: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
    let large = json!({"properties": {"a": {"enum": &many[..20_000]}}});
    let found = schema(&large).mistakes(&json!({"a": "none of them"}));
    assert!(found[0].to_string().len() < 1000, "{found:?}");
    assert!(Schema::read(&json!({"enum": many}).to_string()).is_none(), "too large to be looked at");
    let numbers: Vec<usize> = (0..100_000).collect();
    let unique = json!({"properties": {"a": {"type": "array", "uniqueItems": true, "items": {"type": "string"}}}});
    assert_eq!(schema(&unique).mistakes(&json!({"a": numbers})).len(), 8);
}

#[test]
fn what_a_model_reads() {
    let read = |rules: &Value, arguments: &Value, is_wrapped| {
        let schema = schema(rules);
        rejection::write_rejection(
            Some(&schema),
            arguments,
            &schema.mistakes(arguments),
            &CalledAs { name: "make", is_wrapped },
        )
    };
    let mut text = read(&issue(), &json!({"titel": "a", "labels": ["x"], "state": "opne"}), true);
    text.push_str("\n\n");
    let long = "what it is for ".repeat(100);
    let mut rules = issue();
    for number in 0..30 {
        rules["properties"][format!("p{number}")] = json!({"type": "string", "description": long});
    }
    text.push_str(&read(&rules, &json!({"title": 1}), false));
    text.push_str("\n\n");
    for number in 0..300 {
        rules["properties"][format!("q{number}")] = json!({"type": "string", "enum": ["some", "of", "many"]});
    }
    text.push_str(&read(&rules, &json!({"title": 1}), false));
    insta::assert_snapshot!(text);
}

#[test]
fn servers_may_differ() {
    let tool = |server: &str| RawTool {
        name: "make".to_owned(),
        server: Some(server.to_owned()),
        input_schema: to_raw_value(&issue()).ok(),
        ..RawTool::default()
    };
    let (catalog, _) = Catalog::from_tools(vec![tool("strict"), tool("loose")]);
    let [strict, loose] = ["strict/make", "loose/make"].map(|id| catalog.find(id).expect("it is there").clone());
    let called = CalledAs { name: "make", is_wrapped: false };
    let mut validation = Validation::default();
    let refuses =
        |validation: &Validation, tool, is_usual| validation.reject(tool, &json!({}), is_usual, &called).is_some();
    assert!(!refuses(&validation, &strict, false) && refuses(&validation, &strict, true));
    validation.is_on = Some(true);
    validation.servers.insert("loose".to_owned(), false);
    assert!(refuses(&validation, &strict, false) && !refuses(&validation, &loose, true));
    validation.is_on = Some(false);
    validation.servers.insert("strict".to_owned(), true);
    assert!(refuses(&validation, &strict, false));
    assert_eq!(validation.schemas.len(), 1, "read once, and only where it counts");
    assert!(validation.reject(&loose, &json!("x"), true, &called).is_some(), "arguments are an object in any case");
}

/// Values that are likely to meet the rules below, and to miss them.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3_i64..6).prop_map(Value::from),
        prop_oneof![Just(1.0), Just(0.5), Just(2.5), Just(1e20)].prop_map(Value::from),
        "[ab]{0,3}|ä".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[abc]", inner), 0..4).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn any_rules() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["string", "number", "integer", "boolean", "object", "array", "null"]);
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({})),
        kind.clone().prop_map(|kind| json!({"type": kind})),
        (kind.clone(), kind).prop_map(|(one, other)| if one == other {
            json!({"type": one})
        } else {
            json!({"type": [one, other]})
        }),
        any_value().prop_map(|value| json!({"const": value})),
        (any_value(), any_value()).prop_map(|(one, other)| json!({"enum": [one, other]})),
        (-2_i64..3, 0_i64..4).prop_map(|(least, most)| json!({"minimum": least, "exclusiveMaximum": most})),
        Just(json!({"multipleOf": 2})),
        Just(json!({"multipleOf": 0.5})),
        (0_usize..3, 0_usize..3).prop_map(|(least, most)| json!({"minLength": least, "maxLength": most})),
        (0_usize..3, 0_usize..3).prop_map(|(least, most)| json!({"minItems": least, "maxProperties": most})),
        Just(json!({"pattern": "^a+$"})),
        Just(json!({"uniqueItems": true})),
        Just(json!({"required": ["a"]})),
        Just(json!({"dependentRequired": {"a": ["b"]}})),
        Just(json!({"$ref": "#/$defs/text"})),
        Just(json!({"format": "email"})),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        let some = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({"properties": {"a": a, "b": b}, "additionalProperties": false})),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({"patternProperties": {"^[ab]": a}, "additionalProperties": b})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"prefixItems": [a], "items": b})),
            inner.clone().prop_map(|rule| json!({"contains": rule, "minContains": 1, "maxContains": 2})),
            inner.clone().prop_map(|rule| json!({"propertyNames": rule})),
            inner.clone().prop_map(|rule| json!({"not": rule})),
            inner.clone().prop_map(|rule| json!({"dependentSchemas": {"a": rule}})),
            some.clone().prop_map(|rules| json!({"allOf": rules})),
            some.clone().prop_map(|rules| json!({"anyOf": rules})),
            some.prop_map(|rules| json!({"oneOf": rules})),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
        ]
    })
}

/// What the usual crate says.
fn oracle(rules: &Value) -> Option<jsonschema::Validator> {
    jsonschema::draft202012::options().build(rules).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Where we are sure, the usual crate agrees; a no always comes with a mistake.
    #[test]
    fn we_agree_with_the_usual_crate(rules in any_rules(), value in any_value()) {
        let rules = json!({"allOf": [rules], "$defs": {"text": {"type": "string"}}});
        let (ours, theirs) = (schema(&rules), oracle(&rules).expect("a schema"));
        match ours.verdict(&value) {
            Verdict::Yes => prop_assert!(theirs.is_valid(&value)),
            Verdict::No => prop_assert!(!theirs.is_valid(&value)),
            Verdict::Maybe => {}
        }
        prop_assert_eq!(ours.mistakes(&value).is_empty(), ours.verdict(&value) != Verdict::No);
    }

    #[test]
    fn any_schema_is_followed(rules in any_value(), value in any_value()) {
        let rules = json!({"type": rules, "properties": rules, "items": rules, "anyOf": rules, "required": rules,
            "minimum": rules, "pattern": rules, "not": rules, "$ref": rules, "enum": rules, "if": rules});
        let _ = schema(&rules).mistakes(&value);
    }
}

/// Arguments made by a schema's own words.
fn conforming(schema: &Schema, rules: &Value, depth: usize) -> Value {
    let first = |key: &str| rules.get(key).and_then(|list| list.get(0));
    if let Some(value) = rules.get("const").or(first("enum")) {
        return value.clone();
    }
    let target = rules.get("$ref").and_then(Value::as_str).and_then(|reference| schema.target(reference));
    let kind = rules.get("type").map(|kind| kind.get(0).unwrap_or(kind)).and_then(Value::as_str);
    let number = |key: &str| rules.get(key).and_then(Value::as_f64);
    if depth == 0 {
        return Value::Null;
    }
    if let Some(inner) = target.or(first("anyOf")).or(first("oneOf")) {
        return conforming(schema, inner, depth - 1);
    }
    match kind {
        Some("string") => {
            let least = number("minLength").unwrap_or(1.0) as usize;
            json!("a".repeat(least.max(1)))
        }
        Some("integer" | "number") => {
            let least = number("minimum").or(number("exclusiveMinimum").map(|least| least + 1.0));
            let most = number("maximum").or(number("exclusiveMaximum").map(|most| most - 1.0));
            let value = least.or(most).unwrap_or(1.0);
            let step = number("multipleOf").unwrap_or(1.0);
            let value = (value / step).ceil() * step;
            if kind == Some("integer") { json!(value.ceil() as i64) } else { json!(value) }
        }
        Some("boolean") => json!(true),
        Some("array") => {
            let least = number("minItems").unwrap_or(1.0).max(1.0) as usize;
            let any = json!({"type": "string"});
            let item = conforming(schema, rules.get("items").unwrap_or(&any), depth - 1);
            Value::Array(vec![item; if rules.get("uniqueItems").is_some() { 1 } else { least }])
        }
        Some("null") => Value::Null,
        Some("object") | None => {
            let required: Vec<&str> = rules
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let properties = rules.get("properties").and_then(Value::as_object).into_iter().flatten();
            let kept = properties.filter(|(name, _)| depth > 2 || required.contains(&name.as_str()));
            Value::Object(kept.map(|(name, rule)| (name.clone(), conforming(schema, rule, depth - 1))).collect())
        }
        Some(_) => Value::Null,
    }
}

/// The schemas of 2,529 tools of real servers: all are read, and where the usual crate says
/// that arguments fit, so do we.
#[test]
fn schemas_of_real_servers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/fleet/tools.jsonl");
    let path = if path.exists() {
        path
    } else {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/fleet/tools.jsonl")
    };
    let Ok(text) = fs::read_to_string(&path) else {
        eprintln!("SKIPPED: there is no shared/data/fleet/tools.jsonl beside the repository");
        return;
    };
    let (mut tools, mut read, mut fitting, mut sure, mut patterns) = (0, 0, 0, 0, 0);
    let mut wrong = String::new();
    for line in text.lines() {
        let tool: Value = serde_json::from_str(line).expect("JSON");
        let Some(rules) = ["inputSchema", "input_schema", "parameters"].iter().find_map(|key| tool.get(key)) else {
            continue;
        };
        tools += 1;
        let Some(schema) = Schema::read(&rules.to_string()) else { continue };
        read += 1;
        let theirs = oracle(rules).or_else(|| jsonschema::validator_for(rules).ok());
        let full = conforming(&schema, rules, 8);
        let is_theirs = |value: &Value| theirs.as_ref().map(|theirs| theirs.is_valid(value));
        if rules.to_string().contains("\"pattern\"") && is_theirs(&full) != Some(true) {
            patterns += 1;
        } else if is_theirs(&full).unwrap_or(true) {
            fitting += 1;
        }
        sure += usize::from(schema.verdict(&full) == Verdict::Yes);
        // Everything, nothing, and each argument gone wrong.
        let mut tried = vec![full.clone(), json!({})];
        for name in full.as_object().into_iter().flatten().map(|(name, _)| name) {
            for other in [json!(null), json!(3), json!("x"), json!([]), json!({"unheard of": 1})] {
                let mut changed = full.clone();
                changed[name] = other;
                tried.push(changed);
            }
        }
        for value in tried {
            let mistakes = schema.mistakes(&value);
            let is_valid = is_theirs(&value);
            if is_valid == Some(true) && !mistakes.is_empty()
                || is_valid == Some(false) && schema.verdict(&value) == Verdict::Yes
            {
                let _ = writeln!(wrong, "{} {value}: {mistakes:?}", tool["name"]);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(tools > 2000 && read * 100 >= tools * 99, "{read} of {tools} are read");
    assert!((fitting + patterns) * 100 >= read * 97, "{fitting} of {read} have arguments made for them that fit");
    eprintln!(
        "{tools} tools, {read} read, {fitting} with fitting arguments, {sure} without doubt, {patterns} with patterns"
    );
}

/// A few lines that mean millions of values.
#[test]
fn an_example_is_bounded_whatever_the_schema() {
    let names: Vec<String> = (0..251).map(|number| format!("name_{number}")).collect();
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({"$ref": "#"}))).collect();
    let schema = schema(&json!({"type": "object", "properties": properties, "required": names}));
    let mistakes = schema.mistakes(&json!({}));
    let text =
        rejection::write_rejection(Some(&schema), &json!({}), &mistakes, &CalledAs { name: "x", is_wrapped: false });
    assert!(text.len() < 20_000, "{} bytes", text.len());
}
