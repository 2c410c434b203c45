//! Servers of a client that Pegboard replaces.

use std::path::Path;

use crate::{
    clients::{read, read::ClientServers},
    error::{CliError, say},
};

/// The client's own servers, as `--replace` treats them.
#[derive(Debug, Default)]
pub(crate) struct ReplacedServers {
    /// Servers that are removed, because the configuration has them too.
    pub(crate) names: Vec<String>,
    /// Servers that stay, with the reason.
    staying: Vec<(String, &'static str)>,
}

impl ReplacedServers {
    pub(super) fn say(&self, what: &str) {
        if !self.names.is_empty() {
            let names: Vec<String> = self.names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
            say(&format!("{what}, because the configuration has them: {}", names.join(", ")));
        }
        for (name, reason) in &self.staying {
            say(&format!("`{}` is kept: {reason}", name.escape_debug()));
        }
    }
}

/// Returns the servers of the client's file that `config` has as well. Each server there matches
/// one of the client's: two accounts of one service are two servers, even if their tokens have
/// become variables.
pub(super) fn find_replaced_servers(
    content: &ClientServers,
    project: Option<&Path>,
    config: &Path,
) -> Result<ReplacedServers, CliError> {
    let own = read::read_own(config).map_err(|error| CliError::new(format!("`{}` {error}", config.display())))?;
    let own = own.unwrap_or_default();
    let mut used = vec![false; own.len()];
    let mut replaced = ReplacedServers::default();
    // Servers that Claude Code keeps for single projects in the same file do not interfere.
    let is_here = |entry: &&read::ServerEntry| {
        let is_pegboard = entry.server.as_ref().is_ok_and(|server| server.is_pegboard(&entry.name));
        entry.project.as_deref() == project && !is_pegboard
    };
    for entry in content.entries.iter().filter(is_here) {
        let name = entry.name.clone();
        let Ok(server) = &entry.server else {
            replaced.staying.push((name, "Pegboard does not support it"));
            continue;
        };
        let fits = |at: &usize| !used[*at] && own[*at].1.covers(server);
        // An exact match goes first, so that no other takes its place.
        let exact = (0..own.len()).filter(fits).find(|at| own[*at].1.is_same(server));
        match exact.or_else(|| (0..own.len()).find(fits)) {
            None => replaced.staying.push((name, "it is not in the configuration")),
            Some(at) if own[at].1.is_disabled && !server.is_disabled => {
                replaced.staying.push((name, "it is disabled in the configuration"));
            }
            Some(at) => {
                used[at] = true;
                replaced.names.push(name);
            }
        }
    }
    Ok(replaced)
}
