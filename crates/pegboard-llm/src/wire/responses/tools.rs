//! The tool list for the provider's own search.

use std::collections::BTreeMap;

use pegboard_core::naming::{ShownNames, Style};
use pegboard_discovery::{Session, ToolDefinition};
use serde_json::{Value, json};

use super::Responses;
use crate::{
    rules,
    tool_list::{Needs, Shelf, deferred},
    wire::format::WireFormat,
};

/// The search of OpenAI comes with the first tool that there is to find, and goes with the
/// last: alone it is refused. So is a group of nothing.
pub(super) fn balance_hosted_search(tools: &mut Vec<Value>, is_first: bool) {
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

/// Groups deferred tools by their server: the model sees a group's name and description,
/// and its tools when it has searched.
pub(super) fn add_namespaces(shelf: &mut Shelf, session: &Session, tools: &[ToolDefinition], needs: &Needs) {
    let mut groups: BTreeMap<String, (String, Vec<Value>)> = BTreeMap::new();
    for definition in tools {
        if !shelf.claim(&definition.name) {
            continue;
        }
        let is_eager = needs.is_eager(&definition.name);
        let server = session.find(&definition.name).and_then(|tool| tool.server().cloned()).filter(|_| !is_eager);
        let tool = Responses.tool(definition);
        match server {
            Some(server) => {
                let group = groups.entry(server.name.clone()).or_insert((server.description.clone(), Vec::new()));
                group.1.push(deferred(tool, true));
            }
            None => shelf.push(tool, !is_eager),
        }
    }
    let style = Style { is_prefixed: false, ..Style::default() };
    let names = ShownNames::new(&style, groups.keys().map(|name| ("", name.as_str())));
    for ((server, (description, tools)), name) in groups.iter().zip(names.iter()) {
        let description = if description.is_empty() { format!("Tools of {server}") } else { description.clone() };
        let group = json!({"type": "namespace", "name": name, "description": description, "tools": tools});
        shelf.push(group, false);
    }
}
