//! The instructions that clients get when they connect.

use std::sync::Arc;

use pegboard_discovery::Session;
use pegboard_upstream::Fleet;

use crate::catalog::CatalogView;

/// Maximum number of bytes of the instructions of servers.
const MAX_INSTRUCTIONS: usize = 8 << 10;

/// Writes the instructions for clients.
#[derive(Debug)]
pub(crate) struct Greetings {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) catalog: Arc<CatalogView>,
}

impl Greetings {
    /// Returns the instructions for a client.
    pub(crate) fn instructions(&self, tools: &Session) -> Option<String> {
        let text = if tools.lists_everything() { self.instructions_of_servers(tools) } else { tools.prompt() };
        let text = text.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// Returns the instructions of the servers, each under its name if there are several.
    fn instructions_of_servers(&self, tools: &Session) -> String {
        let has_several = self.fleet.servers().len() > 1;
        let mut text = String::new();
        for (server, instructions) in &self.catalog.directory().instructions {
            let is_seen = tools.selection().allows_server(server);
            if !is_seen || text.len() + instructions.len() >= MAX_INSTRUCTIONS {
                continue;
            }
            let heading = if has_several { format!("## {server}\n") } else { String::new() };
            text.push_str(&format!("{heading}{instructions}\n"));
        }
        text
    }
}
