//! The instructions that clients get when they connect.

use std::sync::Arc;

use pegboard_core::Selection;
use pegboard_discovery::Session;
use pegboard_upstream::{Fleet, Upstream};

use crate::{
    catalog::{CatalogView, apps},
    tasks,
};

/// The extensions that the gateway passes on.
const EXTENSIONS: [&str; 2] = [apps::EXTENSION, tasks::EXTENSION];

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

    /// Returns the extensions of the servers that `selection` allows. A server that was not reached
    /// yet may have any: a client that believes that there is none would not use it later.
    pub(crate) fn extensions(&self, selection: &Selection) -> Vec<&'static str> {
        let has = |server: &Upstream, extension: &str| match server.hello() {
            Some(hello) => tasks::has_extension(Some(&hello.capabilities), extension),
            None => server.config().is_enabled,
        };
        let servers = self.fleet.servers();
        let directory = self.catalog.directory();
        let visible: Vec<_> =
            servers.iter().filter(|server| directory.has_visible_tool(selection, server.name())).collect();
        let extensions = EXTENSIONS.into_iter();
        extensions.filter(|extension| visible.iter().any(|server| has(server, extension))).collect()
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
