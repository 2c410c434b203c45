//! What a client is told of the gateway when it comes.

use pegboard_upstream::json::{Raw, raw};
use serde_json::json;

use super::Gateway;
use crate::{catalog::views::View, lock, settings::Profile};

/// Bytes of what servers say of their use.
const MAX_INSTRUCTIONS: usize = 8 << 10;

impl Gateway {
    /// Who we are.
    pub(crate) fn server_info() -> serde_json::Value {
        json!({"name": "pegboard", "title": "Pegboard", "version": env!("CARGO_PKG_VERSION")})
    }

    /// What a client can do here. Servers come and go, so everything is offered.
    pub(crate) fn capabilities() -> Raw {
        let capabilities = json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "completions": {},
            "logging": {},
        });
        raw(&capabilities)
    }

    /// How clients should use what is here.
    pub(crate) fn instructions(&self, view: &View, profile: Profile) -> Option<String> {
        let text = if view.is_search_on && profile != Profile::Passthrough {
            lock(&view.tools).prompt()
        } else {
            self.instructions_of_servers(view)
        };
        let text = text.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// What the servers say themselves, each under its name where there are several.
    fn instructions_of_servers(&self, view: &View) -> String {
        let selection = lock(&view.tools).selection().clone();
        let has_several = self.fleet.servers().len() > 1;
        let mut text = String::new();
        for (server, instructions) in &self.directory().instructions {
            if !selection.allows_server(server) || text.len() + instructions.len() >= MAX_INSTRUCTIONS {
                continue;
            }
            let heading = if has_several { format!("## {server}\n") } else { String::new() };
            text.push_str(&format!("{heading}{instructions}\n"));
        }
        text
    }
}
