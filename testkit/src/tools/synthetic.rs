//! Tools that exist only to be listed: many, long, changing.

use std::fs;

use serde_json::{Value, json};

use super::no_arguments;
use crate::call::Call;

/// The tool that `test_trigger_tool_change` revises.
const CHANGING: &str = "test_dynamic_tool";

/// The tool of `--description-bytes`.
const LONG: &str = "long_description";

/// Their definitions, in an order that stays.
pub(super) fn definitions(call: &Call) -> Vec<Value> {
    let (args, changes) = (&call.server.args, &call.server.changes);
    let define = |name: &str, description: &str| json!({"name": name, "description": description, "inputSchema": no_arguments()});
    let mut definitions =
        vec![define(CHANGING, &format!("Revision {} of a tool that changes", changes.tool_revision()))];
    definitions.extend(args.catalog.as_deref().map(read_catalog).unwrap_or_default());
    definitions.extend(args.description_bytes.map(|n_bytes| define(LONG, &long_text(n_bytes))));
    definitions.extend((0..args.tools).map(|idx| define(&numbered(idx), &format!("Synthetic tool number {idx}"))));
    definitions.extend(changes.added_tools().iter().map(|name| define(name, "A tool that change_tools added")));
    definitions
}

/// Whether one of them is called `name`.
pub(super) fn exists(call: &Call, name: &str) -> bool {
    let args = &call.server.args;
    let idx = name.strip_prefix("tool_").and_then(|digits| digits.parse().ok());
    name == CHANGING
        || (name == LONG && args.description_bytes.is_some())
        || idx.is_some_and(|idx| idx < args.tools && name == numbered(idx))
        || args.catalog.as_deref().map(read_catalog).unwrap_or_default().iter().any(|tool| tool["name"] == name)
        || call.server.changes.added_tools().iter().any(|added| added == name)
}

fn numbered(idx: usize) -> String {
    format!("tool_{idx:05}")
}

/// Returns a long text of words rather than of one letter, for tests of cutting and counting.
fn long_text(n_bytes: usize) -> String {
    "lorem ipsum dolor sit amet ".chars().cycle().take(n_bytes).collect()
}

/// The tools of a catalog file, each under its server's name as well as its own, since
/// servers share names. A file that cannot be read has none.
fn read_catalog(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut definitions: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for definition in &mut definitions {
        let Some(fields) = definition.as_object_mut() else { continue };
        let server = fields.remove("server").unwrap_or_default();
        if let (Some(server), Some(name)) = (server.as_str(), fields.get("name").and_then(Value::as_str)) {
            let name = format!("{server}__{name}");
            fields.insert("name".to_owned(), name.into());
        }
    }
    definitions
}
