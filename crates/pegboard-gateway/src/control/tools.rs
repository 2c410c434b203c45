//! All tools that a caller may see, for commands that search or list them.

use pegboard_core::Tool;
use pegboard_mcp::json::Raw;
use serde::{Deserialize, Serialize};

use super::{Control, ControlCaller};
use crate::{catalog::directory, lock, settings::Profile};

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
}

impl Control {
    /// Returns the tools that the caller may see.
    pub(super) fn tools(&self, asking: &ControlCaller) -> ToolList {
        let setup = self.setups.current();
        let view = self.catalog.view(&setup, &asking.viewer, Profile::Passthrough.shape());
        let tools = lock(&view.tools);
        let mut list = ToolList { format: FORMAT, servers: Vec::new() };
        for tool in tools.catalog().iter().filter(|tool| tools.selection().allows(tool)) {
            let name = tool.server_name().unwrap_or_default();
            if list.servers.last().is_none_or(|server| server.name != name) {
                let server = tool.server().map(|server| (**server).clone()).unwrap_or_default();
                let (description, summary) = (server.description, server.summary);
                list.servers.push(ServerTools { name: name.to_owned(), description, summary, tools: Vec::new() });
            }
            if let Some(server) = list.servers.last_mut() {
                server.tools.push(entry(tool, tools.name_of(tool)));
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
        definition: (*definition).to_owned(),
        name,
    }
}
