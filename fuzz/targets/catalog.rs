//! Tools in every form that they come in: catalog files, and lists of servers.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pegboard_core::{Catalog, LoadLimits, RawTool, load, schema, text::line};
use pegboard_fuzz::text;
use pegboard_mcp::json::Fields;
use pegboard_upstream::{ListKind, fuzzing::read_page};
use serde_json::{Value, value::RawValue};

/// So small that inputs of a fuzzer reach them.
const LIMITS: LoadLimits = LoadLimits { file_bytes: 3000, name_bytes: 20, text_bytes: 60, schema_bytes: 300 };

fuzz_target!(|bytes: &[u8]| {
    for limits in [LoadLimits::default(), LIMITS] {
        if let Ok(loaded) = load::parse("tools.json", bytes, &limits) {
            check_loaded(bytes, &limits, loaded);
        }
    }
    let Some(Ok(result)) = text(bytes).map(serde_json::from_str::<&RawValue>) else { return };
    for kind in ListKind::ALL {
        check_page(kind, result);
    }
});

/// What is loaded is within its bounds, and makes a catalog that can be looked through.
fn check_loaded(bytes: &[u8], limits: &LoadLimits, loaded: load::Loaded) {
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    for warning in &loaded.warnings {
        let location = warning.location.as_ref().expect("a warning has a place");
        assert!((1..=lines).contains(&location.line), "a place is in the file");
        assert!(!warning.message.is_empty());
    }
    for tool in &loaded.tools {
        check_tool(limits, tool);
    }
    let (count, tools) = (loaded.tools.len(), loaded.tools.clone());
    let (catalog, warnings) = Catalog::from_tools(loaded.tools);
    assert_eq!(catalog.len() + warnings.len(), count, "a tool is taken in, or a warning says why not");
    let mut ids = std::collections::HashSet::new();
    for tool in catalog.iter() {
        assert!(!tool.name().is_empty() && ids.insert(tool.id().to_owned()), "an identity is one tool's");
        assert_eq!(catalog.find(tool.id()).map(|found| found.id()), Some(tool.id()), "a tool is found by its identity");
        let schema: Option<Value> = tool.input_schema().and_then(|schema| serde_json::from_str(schema).ok());
        let mut texts = 0;
        schema::visit(schema.as_ref().unwrap_or(&Value::Null), &mut |_| texts += 1);
        let bytes = tool.input_schema().map_or(0, str::len);
        assert!(texts <= bytes, "a schema holds no more texts than bytes");
    }
    let (again, _) = Catalog::from_tools(tools);
    let ids = |catalog: &Catalog| catalog.iter().map(|tool| tool.id().to_owned()).collect::<Vec<_>>();
    assert_eq!(ids(&again), ids(&catalog), "the same file is the same catalog");
}

fn check_tool(limits: &LoadLimits, tool: &RawTool) {
    let within = |text: &Option<String>, most| text.as_ref().is_none_or(|text| text.len() <= most);
    assert!(tool.name.len() <= limits.name_bytes && tool.description.len() <= limits.text_bytes);
    assert!(within(&tool.id, limits.name_bytes) && within(&tool.server, limits.name_bytes));
    assert!(tool.aliases.iter().all(|alias| alias.len() <= limits.name_bytes));
    let texts = [&tool.title, &tool.category, &tool.search_hint, &tool.prompt_instructions, &tool.server_description];
    assert!(texts.into_iter().all(|text| within(text, limits.text_bytes)));
    for schema in [&tool.input_schema, &tool.output_schema].into_iter().flatten() {
        assert!(schema.get().len() <= limits.schema_bytes && schema.get().starts_with('{'));
    }
}

/// What a server lists is mended once and for all, and a tool among it is one of a catalog.
fn check_page(kind: ListKind, result: &RawValue) {
    let Ok((items, _)) = read_page(kind, result) else { return };
    let mut keys = std::collections::HashSet::new();
    for item in &items {
        assert!(!item.key.is_empty() && keys.insert(item.key.as_str()), "a key is one item's");
        let read: Value = serde_json::from_str(item.raw.get()).expect("an item can be read");
        // A name is cleaned for reading; the key stays what the server knows.
        let key = if kind.key() == "name" { line(&item.key) } else { item.key.as_str().into() };
        assert_eq!(read.get(kind.key()).and_then(Value::as_str), Some(&*key));
        assert!(read.get("name").is_some_and(Value::is_string), "people know everything by a name");
    }
    let names: std::collections::HashSet<_> = items.iter().map(|item| line(&item.key)).collect();
    if names.len() < items.len() || names.iter().any(|name| name.is_empty()) {
        // Keys that differ in hidden characters alone are told apart by their keys only.
        return;
    }
    let list: Vec<&RawValue> = items.iter().map(|item| &*item.raw).collect();
    let (again, warnings) = read_page(kind, &Fields::new().with(kind.field(), &list).to_raw()).expect("a list");
    assert!(warnings.is_empty(), "what was mended needs no mending: {warnings:?}");
    let raws = |items: &[pegboard_upstream::Item]| -> Vec<String> {
        items.iter().map(|item| item.raw.get().to_owned()).collect()
    };
    assert_eq!(raws(&again), raws(&items));
    if kind == ListKind::Tools {
        for item in &items {
            let tool = item.to_tool("shown").expect("a tool of a server is one of a catalog");
            assert_eq!((tool.name.as_str(), tool.upstream_name.as_deref()), ("shown", Some(item.key.as_str())));
        }
    }
}
