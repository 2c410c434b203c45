//! The tool list for the provider's own search.

use std::collections::BTreeMap;

use pegboard_core::naming::{ShownNames, Style};
use pegboard_discovery::{Session, ToolDefinition};
use serde_json::{Value, json};

use super::Responses;
use crate::{
    rules,
    tool_list::{RequiredTools, ToolList, deferred},
    wire::format::WireFormat,
};

/// Adds the search tool if a tool is deferred, and removes it otherwise: OpenAI refuses it alone.
/// Empty groups, which it refuses too, are removed.
pub(super) fn adjust_search_tool(tools: &mut Vec<Value>, is_first: bool) {
    tools.retain(|tool| tool["type"] != "namespace" || tool["tools"].as_array().is_some_and(|t| !t.is_empty()));
    let search = tools.iter().position(|tool| tool["type"] == "tool_search");
    let is_needed = Responses.flatten(tools).iter().any(|(tool, _)| rules::is_deferred(tool));
    match search {
        Some(at) if !is_needed => drop(tools.remove(at)),
        None if is_needed => {
            let place = if is_first { 0 } else { tools.len() };
            tools.insert(place, json!({"type": "tool_search"}));
        }
        _ => {}
    }
}

/// Adds deferred tools grouped by their server. The model sees the name and description of a
/// group, and its tools after a search.
pub(super) fn add_namespaces(
    tool_list: &mut ToolList,
    session: &Session,
    tools: &[ToolDefinition],
    required: &RequiredTools,
) {
    let mut groups: BTreeMap<String, (String, Vec<Value>)> = BTreeMap::new();
    for definition in tools {
        if !tool_list.claim_name(&definition.name) {
            continue;
        }
        let is_eager = required.is_eager(&definition.name);
        let server = session.find(&definition.name).and_then(|tool| tool.server().cloned()).filter(|_| !is_eager);
        let tool = Responses.tool(definition);
        match server {
            Some(server) => {
                let group = groups.entry(server.name.clone()).or_insert((server.description.clone(), Vec::new()));
                group.1.push(deferred(tool, true));
            }
            None => tool_list.push(tool, !is_eager),
        }
    }
    let style = Style { is_prefixed: false, ..Style::default() };
    let names = ShownNames::new(&style, groups.keys().map(|name| ("", name.as_str())));
    for ((server, (description, tools)), name) in groups.iter().zip(names.iter()) {
        let description = if description.is_empty() { format!("Tools of {server}") } else { description.clone() };
        let group = json!({"type": "namespace", "name": name, "description": description, "tools": tools});
        tool_list.push(group, false);
    }
}
