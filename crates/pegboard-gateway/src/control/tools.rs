//! All tools that a caller may see, for commands that search or list them.

use std::{collections::HashMap, sync::Arc};

use pegboard_core::{Annotations, Tool};
use pegboard_mcp::json::Raw;
use pegboard_upstream::{
    PinReport, Upstream,
    config::{Pinning, ToolOverride},
};
use serde::{Deserialize, Serialize};

use super::{Control, ControlCaller};
use crate::{catalog::directory, lock, routes::lists, settings::Profile};

/// The version of the format.
const FORMAT: u32 = 1;

/// The tools of a gateway, by server.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolList {
    /// Grows when a field is removed or changes its meaning.
    pub format: u32,
    /// The servers of which the caller sees a tool, in the order of the configuration.
    pub servers: Vec<ServerTools>,
}

/// The tools of one server.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerTools {
    /// The name of the server.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it is for in a few words, where the configuration says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Its tools, in its order.
    pub tools: Vec<ToolEntry>,
    /// Its tools that are held until they are approved.
    #[serde(default)]
    pub held: Vec<PinReport>,
}

/// One tool.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolEntry {
    /// The name that models call it by.
    pub name: String,
    /// Its name at the server.
    pub tool: String,
    /// Its name without its server, where the configuration renames it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed: Option<String>,
    /// Whether it is found only by search, where the configuration or the server says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred: Option<bool>,
    /// When and how to use it, where the configuration says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_instructions: Option<String>,
    /// Its definition as `tools/list` has it.
    pub definition: Raw,
    /// Estimated tokens of its definition.
    #[serde(default)]
    pub tokens: u64,
    /// Whether the user approved it: `approved`, `changed`, `new`, or `off` where approvals are not
    /// kept.
    #[serde(default)]
    pub pin: String,
    /// What the configuration changes.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub changes: Option<ToolChanges>,
    /// Calls among the kept activity.
    #[serde(default)]
    pub calls: u64,
}

/// What the configuration changes of a tool.
#[derive(Debug, Deserialize, Serialize)]
pub struct ToolChanges {
    /// The keys that are set.
    pub keys: Vec<String>,
}

impl Control {
    /// Returns the tools that the caller may see.
    pub(super) fn tools(&self, asking: &ControlCaller, calls: &HashMap<String, u64>) -> ToolList {
        let setup = self.setups.current();
        let view = self.catalog.view(&setup, &asking.viewer, Profile::Passthrough.shape());
        let tools = lock(&view.tools);
        let mut list = ToolList { format: FORMAT, servers: Vec::new() };
        let all = self.servers();
        let mut current: Option<&Arc<Upstream>> = None;
        let mut pins = Arc::default();
        for tool in tools.catalog().iter().filter(|tool| tools.selection().allows(tool)) {
            let name = tool.server_name().unwrap_or_default();
            if list.servers.last().is_none_or(|server| server.name != name) {
                let server = tool.server().map(|server| (**server).clone()).unwrap_or_default();
                let (description, summary) = (server.description, server.summary);
                current = all.iter().find(|server| server.name() == name);
                pins = current.map(|server| server.pins()).unwrap_or_default();
                let held = pins.iter().filter(|pin| pin.is_held && asking.has_full_access()).cloned().collect();
                list.servers.push(ServerTools { name: name.to_owned(), description, summary, tools: Vec::new(), held });
            }
            if let Some(server) = list.servers.last_mut() {
                let mut entry = entry(tool, tools.name_of(tool));
                entry.calls = calls.get(&entry.name).copied().unwrap_or_default();
                entry.pin = pin_of(setup.pins.is_some(), current, &pins, &entry.tool).to_owned();
                entry.changes = current.and_then(|server| changes_of(server.config().overrides.get(&entry.tool)?));
                server.tools.push(entry);
            }
        }
        list
    }
}

fn entry(tool: &Tool, name: String) -> ToolEntry {
    let definition = directory::definition(tool, &name);
    ToolEntry {
        tool: tool.upstream_name().to_owned(),
        renamed: tool.is_renamed().then(|| tool.bare_name().to_owned()),
        deferred: tool.deferred(),
        prompt_instructions: tool.prompt_instructions().map(str::to_owned),
        tokens: lists::tokens_of_tool(tool, &name),
        definition: (*definition).to_owned(),
        name,
        pin: String::new(),
        changes: None,
        calls: 0,
    }
}

/// Returns whether a tool was approved.
fn pin_of(has_folder: bool, server: Option<&Arc<Upstream>>, pins: &[PinReport], tool: &str) -> &'static str {
    let is_watched = has_folder && server.is_some_and(|server| server.config().pinning() != Pinning::Off);
    match pins.iter().find(|pin| pin.tool == tool) {
        Some(pin) => pin.kind.as_str(),
        None if is_watched => "approved",
        None => "off",
    }
}

/// Returns the keys of the configuration that change a tool.
fn changes_of(changes: &ToolOverride) -> Option<ToolChanges> {
    let keys = [
        ("name", changes.name.is_some()),
        ("title", changes.title.is_some()),
        ("description", changes.description.is_some()),
        ("annotations", changes.annotations != Annotations::default()),
        ("alwaysShow", changes.always_show.is_some()),
    ];
    let keys: Vec<String> = keys.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key.to_owned()).collect();
    (!keys.is_empty()).then_some(ToolChanges { keys })
}
