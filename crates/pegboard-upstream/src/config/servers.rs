//! The `mcpServers` object in the forms that MCP clients write.

mod draft;
mod keys;

use std::collections::BTreeSet;

use self::{draft::ServerDraft, keys::SERVER};
pub use pegboard_config::web::{HEADERS, URL, is_url, read_header_map, read_url};
use pegboard_config::{
    document::{Node, Problems},
    keys::{Lookup, Scope, Shape},
};

use super::{ServerConfig, inherit};

/// The sections of a configuration file that can have servers: that of most clients, and those of
/// VS Code's `mcp.json` and `settings.json`. A file may have several.
pub const SECTIONS: [&[&str]; 3] = [&["mcpServers"], &["servers"], &["mcp", "servers"]];

/// Reads the servers of a configuration, in the order of the file: those under `mcpServers`, under
/// `servers` (VS Code's `mcp.json`) and under `mcp.servers` (VS Code's `settings.json`).
///
/// `env` returns variables, and [`workspaceFolder`](pegboard_config::variables::WORKSPACE_FOLDER).
/// An invalid server is skipped and reported in `problems`.
pub fn read_servers(root: &Node<'_>, env: Lookup<'_>, problems: &mut Problems) -> Vec<ServerConfig> {
    let mut servers = Vec::new();
    let reserved = inherit::reserved_variables(root);
    let mut names = BTreeSet::new();
    for entry in entries(root, problems) {
        if !names.insert(entry.key()) {
            problems.push(entry.problem("is a duplicate server name"));
            continue;
        }
        // The variables of a disabled server are not needed.
        let mut own = Problems::new();
        let server = read_server(&entry, &mut Scope { env, problems: &mut own });
        if server.as_ref().is_some_and(|server| !server.is_enabled) {
            own.remove_missing();
        }
        own.set_server(entry.key());
        let missing = own.missing();
        problems.append(own);
        servers.extend(server.map(|server| ServerConfig { reserved: reserved.clone(), missing, ..server }));
    }
    servers
}

/// Returns the entries of all servers, for readers of further keys.
pub fn entries<'a>(root: &Node<'a>, problems: &mut Problems) -> Vec<Node<'a>> {
    let mut entries = Vec::new();
    for section in SECTIONS {
        let [first, inner @ ..] = section else { continue };
        if let Some(section) = inner.iter().fold(root.get(first), |node, key| node?.get(key)) {
            entries.extend(section.as_object(problems).unwrap_or_default());
        }
    }
    entries
}

/// Returns the keys of a server, for the schema and the reference.
pub fn shape() -> Shape {
    SERVER.shape()
}

fn read_server(entry: &Node<'_>, scope: &mut Scope<'_>) -> Option<ServerConfig> {
    let mut draft = ServerDraft::default();
    SERVER.read(entry, &mut draft, scope);
    if entry.key().trim().is_empty() {
        scope.problems.push(entry.problem("has an empty server name"));
        return None;
    }
    draft.finish(entry, scope.problems)
}

#[cfg(test)]
mod tests;
