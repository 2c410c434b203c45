use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::load::{LoadError, parse};

/// The tools of a description with these paths and components, and its warnings.
fn load(paths: &Value, components: &Value) -> (Vec<RawTool>, Vec<String>) {
    let document = json!({"openapi": "3.1.0", "info": {"title": "T"}, "paths": paths, "components": components});
    let loaded =
        parse("t.json", document.to_string().as_bytes(), &LoadLimits::default()).expect("a usable description");
    (loaded.tools, loaded.warnings.iter().map(ToString::to_string).collect())
}

/// The input schema of `POST /x` with this JSON schema of a required body.
#[track_caller]
fn check(schemas: &Value, body: &Value, expected: &Value) {
    let paths =
        json!({"/x": {"post": {"requestBody": {"required": true, "content": {"application/json": {"schema": body}}}}}});
    let (tools, warnings) = load(&paths, &json!({ "schemas": schemas }));
    let schema = tools[0].input_schema.as_ref().expect("a schema");
    let mut found: Value = serde_json::from_str(schema.get()).expect("JSON");
    let found = found["properties"]["body"].take();
    assert_eq!(found, *expected);
    assert_eq!(warnings, [""; 0]);
}

/// The names of the tools of operations, given as path, method and `operationId`.
#[track_caller]
fn check_names(operations: &[(&str, &str, Option<&str>)], expected: &[&str]) {
    let mut paths = json!({});
    for (path, method, id) in operations {
        paths[*path][*method] = json!({ "operationId": id });
    }
    let (tools, _) = load(&paths, &json!({}));
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, expected);
}

#[track_caller]
fn check_error(text: &str, message: &str, hint: &str) {
    let error = parse("t.json", text.as_bytes(), &LoadLimits::default()).expect_err("must fail");
    assert_eq!(error.to_string(), "t.json:1: cannot read the API description");
    assert!(error.hint().contains(hint), "{}", error.hint());
    let LoadError::OpenApi { source, .. } = error else { panic!("not of OpenAPI: {error}") };
    assert_eq!(source.to_string(), message);
}

#[test]
fn names_are_safe_short_and_unique() {
    check_names(
        &[
            ("/v2/droplets/{id}", "get", None),
            ("/v2/droplets/{id}/actions/{action_id}.json", "post", Some(" ")),
            ("/", "get", None),
            ("/a", "get", Some("pets/list all")),
            ("/b", "get", Some("kept__as-it_is")),
        ],
        &[
            "get_v2_droplets_by_id",
            "post_v2_droplets_by_id_actions_by_action_id_json",
            "get",
            "pets_list_all",
            "kept__as-it_is",
        ],
    );
    let long = "verb".repeat(30);
    let (tools, _) =
        load(&json!({"/a": {"get": {"operationId": long}}, "/b": {"get": {"operationId": long}}}), &json!({}));
    assert_eq!(tools[0].name.len(), 64);
    assert_ne!(tools[0].name, tools[1].name);
}

#[test]
fn servers_are_named_by_title_then_file() {
    let check = |title: &str, source: &str, expected: &str| {
        assert_eq!(naming::server_name(title, source, 1024), expected, "{title} {source}");
    };
    check("DigitalOcean API", "x.json", "digitalocean");
    check("Discord HTTP API (Preview)", "x.json", "discord");
    check("Twilio SendGrid v3 API", "x.json", "twilio-sendgrid");
    check("The API", "specs/weather.openapi.json", "weather");
    check("", "openapi.json", "api");
    check("A Very Long Title of an Otherwise Small Service", "x", "a-very-long-title-of-an");
    check("Погода API", "x.json", "погода");
}

#[test]
fn descriptions_are_plain_text() {
    let check = |markdown: &str, expected: &str| assert_eq!(prose::plain(markdown, 200), expected, "{markdown}");
    check("See [the docs](https://x.example/a_(b)) and [more][1].", "See the docs and more.");
    check("![A chart](chart.png) **bold** * 2 and a[0] [x]", "A chart bold * 2 and a[0] [x]");
    check("<p>One</p><p>two <code>x</code> &amp; <id> a < b", "One\ntwo x & <id> a < b");
    check("## Title\nwrapped\nline\n\n- item\n- item\n1. first", "Title\nwrapped line\n- item\n- item\n1. first");
    check("<!-- hidden -->shown <https://x.example>", "shown https://x.example");
    check(&"[".repeat(5000), &format!("{}…", "[".repeat(197)));
    let check = |summary, text, is_deprecated, expected: &str| {
        assert_eq!(prose::description(summary, text, is_deprecated, 60), expected);
    };
    check("List pets", "Returns pets.", false, "List pets. Returns pets.");
    check("List pets.", "List pets of a shop.", false, "List pets of a shop.");
    check("Really?", "Yes", true, "Deprecated. Really? Yes");
    check("", "Deprecated: use v2", true, "Deprecated: use v2");
    check("", "", false, "");
    check("", &"word ".repeat(30), false, "word word word word word word word word word word word…");
}

#[test]
fn keywords_of_openapi_become_json_schema() {
    let array = |items: Value| json!({"type": "array", "items": items});
    let check_items = |items, expected| check(&json!({}), &array(items), &array(expected));
    check_items(
        json!({"type": "string", "nullable": true, "enum": ["a"], "example": "a", "x-order": 1, "xml": {}}),
        json!({"type": ["string", "null"], "enum": ["a", null]}),
    );
    check_items(
        json!({"anyOf": [{"type": "string"}], "nullable": true}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
    );
    check_items(
        json!({"minimum": 1, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false}),
        json!({"exclusiveMinimum": 1, "maximum": 9}),
    );
    check_items(
        json!({"title": "T", "description": "See [x](y)", "additionalProperties": {}, "discriminator": {}}),
        json!({"description": "See x"}),
    );
    check_items(
        json!({"properties": {"id": {"readOnly": true}, "a": {"writeOnly": true}}, "required": ["id", "a", "a", 7]}),
        json!({"properties": {"a": {}}, "required": ["a"]}),
    );
    check_items(json!(true), json!(true));
    check_items(json!({"type": 5, "properties": [1], "oneOf": {"a": 1}}), json!({"type": 5}));
}

#[test]
fn references_lead_anywhere_in_the_document() {
    let array = |items: Value| json!({"type": "array", "items": items});
    let schemas = json!({
        "A b": {"type": "string", "description": "of A"},
        "Alias": {"$ref": "#/components/schemas/A%20b"},
        "Deep": {"properties": {"x/y": {"type": "integer"}}},
        "Base": {"properties": {"id": {"type": "integer"}, "at": {"readOnly": true}}, "required": ["id", "at"]},
        "Node": {"type": "object", "description": "a node", "properties": {"next": {"$ref": "#/components/schemas/Node"}}},
    });
    let check_items = |items, expected| check(&schemas, &array(items), &array(expected));
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    check_items(to("Alias"), json!({"type": "string", "description": "of A"}));
    check_items(
        json!({"$ref": "#/components/schemas/Alias", "description": "own"}),
        json!({"description": "own", "type": "string"}),
    );
    check_items(to("Deep/properties/x~1y"), json!({"type": "integer"}));
    check_items(
        json!({"allOf": [to("Base"), {"properties": {"n": {}}, "required": ["n"]}], "nullable": true, "type": "object"}),
        json!({"type": ["object", "null"], "properties": {"id": {"type": "integer"}, "n": {}}, "required": ["id", "n"]}),
    );
    let inner = json!({"type": "object", "description": "a node"});
    check_items(to("Node"), json!({"type": "object", "description": "a node", "properties": {"next": inner}}));
}

#[test]
fn paths_and_parameters_may_be_references() {
    let paths = json!({
        "/a": {"$ref": "#/components/pathItems/A"},
        "/b": {"get": {"parameters": [{"$ref": "#/paths/~1c/get/parameters/0"}, {"$ref": "other.json#/x"}]}},
        "/c": {"get": {"parameters": [
            {"name": "id", "in": "query", "content": {"application/json": {"schema": {"type": "integer"}}}},
            {"name": "id", "in": "header", "deprecated": true},
            {"name": "odd", "in": "moon"}, 7
        ]}},
    });
    let (tools, warnings) = load(&paths, &json!({"pathItems": {"A": {"head": {"operationId": "a"}}}}));
    let schemas: Vec<&str> = tools.iter().filter_map(|tool| Some(tool.input_schema.as_ref()?.get())).collect();
    assert_eq!(
        schemas,
        [
            r#"{"type":"object","properties":{}}"#,
            r#"{"type":"object","properties":{"id":{"type":"integer"}}}"#,
            r#"{"type":"object","properties":{"id":{"type":"integer"},"id_header":{"deprecated":true}}}"#,
        ]
    );
    assert_eq!(warnings, ["t.json:1: `$ref` `other.json#/x` cannot be resolved; ignored [unresolved-reference]"]);
}

#[test]
fn tools_know_their_lines() {
    let text = "{\"openapi\": \"3.0.0\",\n\"paths\": {\n\"/a\": {\"get\": {}},\n\"/b\": {\n\"put\": {}}}}";
    let loaded = parse("t.json", text.as_bytes(), &LoadLimits::default()).expect("a usable description");
    let lines: Vec<usize> = loaded.tools.iter().filter_map(|tool| Some(tool.location.as_ref()?.line)).collect();
    assert_eq!(lines, [3, 5]);
}

#[test]
fn other_formats_are_told_apart() {
    check_error(
        r#"{"swagger": "2.0", "paths": {}}"#,
        "Swagger `2.0` is not supported, only OpenAPI 3",
        "swagger2openapi",
    );
    check_error(r#"{"openapi": "4.0"}"#, "OpenAPI version `4.0` is not supported, only 3.x", "3.1");
    check_error(r#"{"openapi": "3.0.0", "paths": []}"#, "`paths` is not an object", "paths");
    check_error(r#"{"openapi": "3.0.0", "paths": {"/a": {"summary": {}}}}"#, "no operations in `paths`", "paths");
    let yaml = "the file is YAML, and only JSON is supported";
    check_error("# An API\nopenapi: 3.0.1\ninfo:\n  title: x\n", yaml, "yq");
    check_error("info: {}\n\"swagger\": '2.0'\n", yaml, "yq");
    let tool = parse("t", br#"{"name": "a", "openapi": "3.0"}"#, &LoadLimits::default()).expect("a tool");
    assert_eq!(tool.tools[0].name, "a");
}

/// Converts a hostile document; the test ends, and the tools are within bounds.
#[track_caller]
fn check_bounded(text: &str) -> (Vec<RawTool>, Vec<String>) {
    let loaded = parse("t.json", text.as_bytes(), &LoadLimits::default()).expect("a usable description");
    for tool in &loaded.tools {
        let bytes = tool.input_schema.as_ref().map_or(0, |schema| schema.get().len());
        assert!(bytes <= MAX_SCHEMA_BYTES && tool.description.len() <= MAX_DESCRIPTION_BYTES);
    }
    (loaded.tools, loaded.warnings.iter().map(ToString::to_string).collect())
}

/// A description with one operation, whose body is the schema `S0`.
fn hostile(schemas: &str) -> String {
    format!(
        r##"{{"openapi": "3.0.0", "paths": {{"/a": {{"post": {{"requestBody":
        {{"content": {{"application/json": {{"schema": {{"$ref": "#/components/schemas/S0"}}}}}}}}}}}}}},
        "components": {{"schemas": {{{schemas}}}}}}}"##
    )
}

#[test]
fn a_schema_of_ten_thousand_levels_is_missing_alone() {
    let deep = format!("{}{{}}{}", r#"{"items":"#.repeat(10_000), "}".repeat(10_000));
    let (tools, warnings) = check_bounded(&hostile(&format!(r#""S0": {deep}"#)));
    assert_eq!(
        tools[0].input_schema.as_ref().expect("a schema").get(),
        r#"{"type":"object","properties":{"body":{}}}"#
    );
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let inline = format!(r#"{{"openapi": "3.0.0", "paths": {{"/a": {{"post": {{"parameters": {deep}}}}}}}}}"#);
    let (tools, warnings) = check_bounded(&inline);
    assert!(tools[0].input_schema.is_some());
    assert!(warnings[0].contains("`parameters` cannot be read and is ignored"), "{warnings:?}");
}

#[test]
fn a_chain_of_ten_thousand_references_ends() {
    let chain = |link: fn(usize) -> String| -> String {
        (0..10_000).map(|at| format!(r#""S{at}": {},"#, link(at + 1))).collect::<String>() + r#""S10000": {}"#
    };
    check_bounded(&hostile(&chain(|next| format!(r##"{{"$ref": "#/components/schemas/S{next}"}}"##))));
    check_bounded(&hostile(&chain(|next| format!(r##"{{"allOf": [{{"$ref": "#/components/schemas/S{next}"}}]}}"##))));
    check_bounded(&hostile(&chain(|next| format!(r##"{{"items": {{"$ref": "#/components/schemas/S{next}"}}}}"##))));
}

#[test]
fn references_that_double_are_bounded() {
    for pattern in [
        r##"{"type": "object", "properties": {"a": REF, "b": REF, "c": REF}}"##,
        r##"{"allOf": [REF, REF, REF]}"##,
        r##"{"anyOf": [REF, REF, REF, REF, REF, REF, REF, REF, REF, REF]}"##,
        r##"{"items": {"allOf": [REF, {"contains": REF}]}, "additionalProperties": REF}"##,
    ] {
        let schema = |at: usize| {
            let next = format!(r##"{{"$ref": "#/components/schemas/S{}"}}"##, (at + 1) % 40);
            format!(r#""S{at}": {}"#, pattern.replace("REF", &next))
        };
        let (tools, warnings) = check_bounded(&hostile(&(0..40).map(schema).collect::<Vec<_>>().join(",")));
        // Levels do not help against an `allOf` that doubles.
        assert_eq!(tools[0].input_schema.is_some(), !pattern.starts_with(r#"{"allOf""#), "{pattern}");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
    }
}

#[test]
fn references_to_large_things_are_bounded() {
    let big = "x".repeat(1 << 20);
    let parameters = vec![json!({"$ref": "#/components/parameters/P"}); 1000];
    let document = json!({
        "openapi": "3.0.0",
        "paths": {"/a": {"get": {"parameters": parameters}}},
        "components": {"parameters": {"P": {"name": big, "in": "query"}}},
    });
    let (tools, _) = check_bounded(&document.to_string());
    assert_eq!(tools[0].input_schema.as_ref().expect("a schema").get(), r#"{"type":"object","properties":{}}"#);

    let paths: Value = (0..300).map(|at| (format!("/{at}"), json!({"$ref": "#/components/pathItems/I"}))).collect();
    let item = json!({"get": {"operationId": "a", "x-big": big}});
    let document = json!({"openapi": "3.0.0", "paths": paths, "components": {"pathItems": {"I": item}}});
    let (tools, warnings) = check_bounded(&document.to_string());
    assert!((100..200).contains(&tools.len()), "{}", tools.len());
    assert_eq!(
        warnings,
        ["t.json:1: the schemas of the file are too large; some tools are left without theirs [too-long]"]
    );
}

#[test]
fn all_operations_share_the_work() {
    let text = hostile(r##""S0": {"type": "object"}"##);
    let fields: Fields<'_> = serde_json::from_str(&text).expect("an object");
    let mut document = Document::new(fields).expect("paths");
    assert!(document.spend(document::MAX_WORK - 100) && !document.is_exhausted());
    let reference = json!({"$ref": "#/components/schemas/S0"});
    let mut expand = || Expander::new(&mut document, MAX_LEVELS, 1000).schema(&reference, 0).is_ok();
    assert!(expand());
    assert!(!expand() && !expand());
    assert!(document.is_exhausted());
}

/// Any JSON, with the words of OpenAPI in it.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "#/components/schemas/A",
        "#/components/schemas/B",
        "#/paths/~1a",
        "#",
        "query",
        "path",
        "object",
        "a",
        "é[x](",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        words.prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "$ref",
        "allOf",
        "oneOf",
        "anyOf",
        "items",
        "properties",
        "additionalProperties",
        "required",
        "type",
        "nullable",
        "readOnly",
        "description",
        "enum",
        "name",
        "in",
        "schema",
        "content",
        "application/json",
        "parameters",
        "requestBody",
        "get",
        "post",
        "operationId",
        "summary",
        "tags",
        "minimum",
        "exclusiveMinimum",
        "a",
        "A",
    ]);
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..6)
                .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_description_is_tools_and_warnings_within_the_limits(
        item in any_json(), operation in any_json(), parameter in any_json(), body in any_json(),
        a in any_json(), b in any_json(), info in any_json(),
    ) {
        let post = json!({"parameters": [parameter], "requestBody": {"content": {"a/b": {"schema": body}}}});
        let document = json!({
            "openapi": "3.0.0", "info": info,
            "paths": {"/a": item, "/b": {"get": operation, "post": post}},
            "components": {"schemas": {"A": a, "B": b}, "securitySchemes": {"A": a}},
        });
        let limits = LoadLimits { name_bytes: 20, text_bytes: 60, schema_bytes: 300, ..LoadLimits::default() };
        let text = document.to_string();
        for limits in [LoadLimits::default(), limits] {
            let loaded = parse("f", text.as_bytes(), &limits).expect("there is an operation");
            for tool in &loaded.tools {
                prop_assert!(tool.name.len() <= limits.name_bytes.min(64) && !tool.name.is_empty());
                prop_assert!(tool.name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-'));
                prop_assert!(tool.description.len() <= limits.text_bytes);
                prop_assert!(tool.server.as_ref().is_some_and(|server| server.len() <= limits.name_bytes));
                let schema = tool.input_schema.as_ref().map_or("", |schema| schema.get());
                prop_assert!(schema.len() <= limits.schema_bytes);
            }
            let count = loaded.tools.len();
            let (catalog, warnings) = crate::Catalog::from_tools(loaded.tools);
            prop_assert_eq!((catalog.len(), warnings.len()), (count, 0));
        }
    }

    #[test]
    fn any_text_becomes_plain_text_within_its_bounds(text in r#"(\PC|[\[\]()<>!*#&;\n ]|</?(p|br|b)>){0,80}"#, most in 10_usize..100) {
        let plain = prose::plain(&text, most);
        prop_assert!(plain.len() <= most.max(text::CUT.len()));
        let _ = prose::description(&text, &plain, true, most);
    }
}

#[test]
fn a_small_document_cannot_ask_for_much() {
    // Every spelling of a key full of tildes would be a copy of its value.
    let key = "~".repeat(14);
    let spelling = |at: usize| (0..14).map(|bit| if at >> bit & 1 == 0 { "~" } else { "~0" }).collect::<String>();
    let parameters: Vec<Value> =
        (0..400).map(|at| json!({"$ref": format!("#/components/parameters/{}", spelling(at))})).collect();
    let value = json!({"name": "x", "in": "query", "description": "y".repeat(100_000)});
    let text = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "paths": {"/a": {"get": {"operationId": "a", "parameters": parameters}}},
        "components": {"parameters": {key: value}},
    });
    let loaded =
        crate::load::parse("x.json", text.to_string().as_bytes(), &crate::LoadLimits::default()).expect("a catalog");
    assert_eq!(loaded.tools.len(), 1);
    let unresolved = loaded.warnings.iter().filter(|warning| warning.message.contains("cannot be resolved")).count();
    assert!(unresolved >= 398, "{unresolved}: only the escaped spelling is a pointer");
}
