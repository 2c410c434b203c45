//! The specs of the tool API, checked by an independent YAML reader and OpenAPI validator. `cargo
//! xtask peers` installs them; without them these tests report that they are skipped.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use pegboard_core::{Catalog, LoadLimits, RawTool, Selection, load};
use pegboard_discovery::openapi::Api;
use serde_json::{Value, json, value::to_raw_value};

/// Reads specs, writes for each the document and what is wrong with it.
const SCRIPT: &str = r#"
import json, sys, yaml
from openapi_spec_validator import OpenAPIV30SpecValidator
answers = []
for text in json.load(sys.stdin):
    document = yaml.safe_load(text)
    wrong = [f"{list(error.absolute_path)}: {error.message[:300]}" for error in OpenAPIV30SpecValidator(document).iter_errors()]
    answers.append({"document": document, "wrong": wrong[:5]})
json.dump(answers, sys.stdout)
"#;

/// Returns the documents of these specs, which must all be valid; `None` without the validator.
#[track_caller]
fn validate_specs(specs: &[(String, String)]) -> Option<Vec<Value>> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/python/bin/python");
    let has_checker = Command::new(&python)
        .args(["-c", "import yaml, openapi_spec_validator"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_checker {
        skipped();
        return None;
    }
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let texts: Vec<&str> = specs.iter().map(|(_, text)| text.as_str()).collect();
    child.stdin.take().expect("a pipe").write_all(json!(texts).to_string().as_bytes()).expect("python reads");
    let output = child.wait_with_output().expect("python ends");
    let answers: Vec<Value> = serde_json::from_slice(&output.stdout).expect("python answers in JSON");
    assert_eq!(answers.len(), specs.len());
    for ((name, text), answer) in specs.iter().zip(&answers) {
        assert_eq!(answer["wrong"], json!([]), "{name}:\n{text}");
    }
    Some(answers.into_iter().map(|mut answer| answer["document"].take()).collect())
}

#[expect(clippy::print_stderr, reason = "the developer must see what was left out")]
fn skipped() {
    eprintln!("SKIPPED: no checker of OpenAPI here; `cargo xtask peers` installs it");
}

/// Returns the spec of every server, in full and in short, and of every tool alone.
fn specs(catalog: &Catalog) -> Vec<(String, String)> {
    let selection = Selection::everything();
    let api = Api::new(catalog, &selection);
    let mut specs = Vec::new();
    for server in api.servers() {
        specs.push((server.name().to_owned(), server.spec(None, usize::MAX)));
        specs.push((format!("{} in short", server.name()), server.spec(None, 2000)));
        for tool in server.tools() {
            specs.push((tool.id().to_owned(), server.spec(Some(tool), 1500)));
        }
    }
    specs
}

#[test]
fn specs_of_the_demo_catalog() {
    let file = include_bytes!("../../../../pegboard-demo/catalog/tools.jsonl");
    let loaded = load::parse("demo", file, &LoadLimits::default()).expect("the demo catalog");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let specs = specs(&catalog);
    let Some(documents) = validate_specs(&specs) else { return };
    let mut paths = 0;
    for server in catalog.servers() {
        let at = specs.iter().position(|(name, _)| *name == server.name).expect("a spec");
        paths += documents[at]["paths"].as_object().expect("paths").len();
    }
    assert_eq!((catalog.servers().len(), paths), (15, catalog.len()));
}

/// Returns unusual schemas that servers have sent, or could send.
fn unusual_schemas() -> Vec<Value> {
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"type": "object", "properties": {"a": deep}, "required": ["a"]});
    }
    let chain: serde_json::Map<String, Value> = (0..300)
        .map(|at| (format!("d{at}"), json!({"type": "array", "items": {"$ref": format!("#/$defs/d{}", at + 1)}})))
        .collect();
    vec![
        json!(true),
        json!({"type": ["object", "null"], "properties": {"a": {"type": ["string", "integer", "array", "null"]}}}),
        json!({"$ref": "#/$defs/Node", "$defs": {"Node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Node", "description": "the next"}, "all": {
                "type": "array", "items": {"$ref": "#/$defs/Node"}}}}}}),
        json!({"properties": {"me": {"$ref": "#"}, "a": {"$ref": "#/properties/me"}}}),
        json!({"$ref": "#/$defs/A", "$defs": {
            "A": {"description": "a", "$ref": "#/$defs/B"}, "B": {"description": "b", "$ref": "#/$defs/A"}}}),
        json!({"allOf": [{"$ref": "#"}], "description": "itself"}),
        json!({"properties": {"$ref": {"type": "string"}, "required": {"enum": ["a", 1, null]}, "type": true}}),
        json!({"properties": {"a": {"default": {"$ref": "#/nowhere"}, "example": {"$ref": "x"}, "const": {"$ref": "y"}}}}),
        json!({"required": ["a"], "anyOf": [{"required": ["b"]}, {"required": ["c"]}, {"type": "null"}]}),
        json!({"properties": {"a": {"exclusiveMinimum": 1e300, "maximum": 1e-7}, "b": {"prefixItems": [true, false]}}}),
        json!({"properties": {"a": {"type": "string", "default": 7}, "b": {"enum": ["x"], "default": "y"}}}),
        json!({"properties": {"x".repeat(3000): {"type": "string"}, "a: b # c": {}, "- d": {}, "é\u{0}\u{2028}": {}}}),
        json!({"properties": {"a": {"pattern": "^[a-z]+$", "format": "no such", "minLength": -1, "type": "file"}}}),
        json!({"$ref": "https://example.org/schema.json"}),
        json!({"$ref": "#/$defs/d0", "$defs": chain}),
        json!({"description": 5, "properties": [], "required": "a", "items": 7, "enum": {}, "anyOf": {}}),
        deep,
    ]
}

#[test]
fn specs_of_nasty_schemas() {
    let tool = |(at, schema): (usize, Value)| RawTool {
        name: format!("t{at}"),
        server: Some("nasty".into()),
        input_schema: to_raw_value(&schema).ok(),
        output_schema: to_raw_value(&schema).ok(),
        ..RawTool::default()
    };
    let (catalog, _) = Catalog::from_tools(unusual_schemas().into_iter().enumerate().map(tool).collect());
    validate_specs(&specs(&catalog));
}

#[test]
fn any_text_comes_back_as_it_was() {
    let texts: &[&str] = &[
        "",
        " ",
        "a ",
        " a",
        "~",
        "null",
        "Yes",
        "1",
        "1.5",
        "0x1f",
        "1e3",
        "1_000",
        "12:30:45",
        "2026-01-01",
        "3.0.3",
        "=",
        "<<",
        "- a",
        "a: b",
        "a #b",
        "#a",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a`",
        "{a}",
        "[a]",
        "\"a\"",
        "'a'",
        "a\\b",
        "a\tb",
        "a\r\nb",
        "a\nb",
        "a\n",
        "\na",
        "a\n\n b\n\tc",
        "a\n  b\n c",
        " a\nb",
        "a \nb",
        "a\n#b\n---\n...",
        "\u{0}\u{7}\u{7f}\u{85}\u{a0}\u{2028}\u{2029}\u{feff}\u{fffe}\u{1f600}",
        "häßlich",
        "日本語: 1",
        "a\u{2028}\nb",
        "---",
        "...",
        "?",
        "? a",
        ":",
        "a:",
        ".inf",
        "on",
        "N",
        "/a/b",
        "a, b; c (d) + 1.5%",
    ];
    let input_schema = to_raw_value(&json!({
        "properties": {"given": {"enum": texts}},
        "required": texts,
    }));
    let tools = texts.iter().enumerate().map(|(at, text)| RawTool {
        name: format!("t{at}"),
        upstream_name: Some(format!("{at} {text}")),
        server: Some((*text).into()),
        description: (*text).into(),
        ..RawTool::default()
    });
    let given = RawTool {
        name: "given".into(),
        server: Some("given".into()),
        input_schema: input_schema.ok(),
        ..RawTool::default()
    };
    let (catalog, _) = Catalog::from_tools(tools.chain([given]).collect());
    let specs = specs(&catalog);
    let Some(documents) = validate_specs(&specs) else { return };
    let at = specs.iter().position(|(name, _)| name == "given").expect("a spec");
    let post = &documents[at]["paths"]["/tools/mcp/given/given"]["post"];
    let schema = &post["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(schema["properties"]["given"]["enum"], json!(texts));
    let mut keys: Vec<&str> = schema["properties"].as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = [&["given"], texts].concat();
    keys.sort_unstable();
    expected.sort_unstable();
    assert_eq!(keys, expected);
}
