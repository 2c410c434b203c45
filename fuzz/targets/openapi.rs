//! Tools as an API: paths that programs send, and the texts that are made of servers' schemas.
//!
//! The first byte says which: `p` a path and a body, any other a catalog, and how long a text
//! may be.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pegboard_core::{Catalog, LoadLimits, Selection, load};
use pegboard_discovery::openapi::{Api, find, parse_path, path_of};
use pegboard_fuzz::{choice, text};
use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = choice(bytes) else { return };
    if kind == b'p' {
        return check_call(bytes);
    }
    let Ok(loaded) = load::parse("tools.json", bytes, &LoadLimits::default()) else { return };
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    check_api(&catalog, usize::from(kind) * 40);
});

/// A path leads to one tool, whatever it is called; a body is arguments or none.
fn check_call(bytes: &[u8]) {
    let (path, body) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()));
    if let Some((server, name)) = text(path).and_then(parse_path) {
        let path = path_of(server.as_deref(), &name);
        assert_eq!(parse_path(&path), Some((server, name)));
    }
    let most = 40;
    if let Ok(arguments) = pegboard_agent::fuzzing::arguments(body, most) {
        let read: Option<Value> = serde_json::from_slice(body).ok();
        assert!(arguments.is_object() && read.is_none_or(|read| read == arguments));
        assert!(count(&arguments) <= most, "arguments are within their bounds");
    }
    if let Some(json) = text(body.trim_ascii()).filter(|json| json.starts_with('"'))
        && let Ok(expected) = serde_json::from_str::<String>(json)
    {
        let length = json.len();
        assert_eq!(pegboard_agent::fuzzing::unescape(json.to_owned(), 0..length), expected);
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// The text of a server can be read, and names each tool by the path that leads to it.
fn check_api(catalog: &Catalog, max_tokens: usize) {
    let selection = Selection::everything();
    let api = Api::new(catalog, &selection);
    for server in api.servers() {
        let whole = server.spec(None, max_tokens);
        assert_eq!(whole, server.spec(None, max_tokens), "the same tools are the same text");
        check_yaml(&whole);
        for tool in server.tools().iter().take(3) {
            check_yaml(&server.spec(Some(tool), max_tokens));
            let (of, name) = parse_path(&path_of(tool.server_name(), tool.upstream_name())).expect("a path");
            let found = find(catalog, &selection, of.as_deref(), &name).expect("a tool behind its path");
            assert_eq!(found.upstream_name(), tool.upstream_name());
        }
        let full = server.spec(None, usize::MAX);
        let document = check_yaml(&full);
        let paths = document["paths"].as_hash().expect("paths");
        for tool in server.tools() {
            let path = Yaml::String(path_of(tool.server_name(), tool.upstream_name()));
            assert!(paths.contains_key(&path), "every tool has its path");
        }
    }
}

/// The document in a text, which others can read.
fn check_yaml(text: &str) -> Yaml {
    let mut documents = YamlLoader::load_from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(documents.len(), 1);
    let document = documents.remove(0);
    assert_eq!(document["openapi"].as_str(), Some("3.0.3"), "{text}");
    document
}
