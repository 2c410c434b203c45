//! The `mcpServers` object that MCP clients have, as each of them writes it.

mod draft;
mod keys;

use std::collections::BTreeSet;

use self::{draft::Draft, keys::SERVER};
pub use pegboard_config::web::{HEADERS, URL, is_url, read_header_map, read_url};
use pegboard_config::{
    document::{Node, Problems},
    keys::{Lookup, Scope, Shape},
};

use super::{ServerConfig, inherit};

/// The sections in which a configuration file has its servers: that of most clients, and those of
/// VS Code's `mcp.json` and `settings.json`. A file may have several.
pub const SECTIONS: [&[&str]; 3] = [&["mcpServers"], &["servers"], &["mcp", "servers"]];

/// The servers of a configuration, in the order of the file: those under `mcpServers`, under
/// `servers` (VS Code's `mcp.json`) and under `mcp.servers` (VS Code's `settings.json`).
///
/// `env` is asked for variables, and for [`workspaceFolder`](pegboard_config::variables::WORKSPACE_FOLDER).
/// A server that cannot be understood is left out; `problems` says why.
pub fn read_servers(root: &Node<'_>, env: Lookup<'_>, problems: &mut Problems) -> Vec<ServerConfig> {
    let mut servers = Vec::new();
    let reserved = inherit::reserved(root);
    let mut names = BTreeSet::new();
    for entry in entries(root, problems) {
        if !names.insert(entry.key()) {
            problems.push(entry.problem("is a duplicate server name"));
            continue;
        }
        // Nobody needs the variables of a server that is switched off.
        let mut own = Problems::new();
        let server = read_server(&entry, &mut Scope { env, problems: &mut own });
        if server.as_ref().is_some_and(|server| !server.is_enabled) {
            own.forgive_outside();
        }
        own.name_server(entry.key());
        let missing = own.missing();
        problems.append(own);
        servers.extend(server.map(|server| ServerConfig { reserved: reserved.clone(), missing, ..server }));
    }
    servers
}

/// The entries of all servers, for whoever has keys of their own there.
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

/// The keys of a server, for the schema and the reference.
pub fn shape() -> Shape {
    SERVER.shape()
}

fn read_server(entry: &Node<'_>, scope: &mut Scope<'_>) -> Option<ServerConfig> {
    let mut draft = Draft::default();
    SERVER.read(entry, &mut draft, scope);
    if entry.key().trim().is_empty() {
        scope.problems.push(entry.problem("has an empty server name"));
        return None;
    }
    draft.finish(entry, scope.problems)
}

#[cfg(test)]
mod tests;
