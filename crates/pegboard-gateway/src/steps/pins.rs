//! Tools that are not approved in their current version.

use std::sync::Arc;

use pegboard_core::{Selection, Tool, naming, text};

use crate::{catalog::directory::Directory, request::Text};

/// Returns the reply to a call of a tool that waits for approval, if the caller could see it.
pub(crate) fn held_back_reply(directory: &Directory, selection: &Selection, name: &str) -> Option<Text> {
    if directory.held.is_empty() {
        return None;
    }
    let folded = naming::fold(name);
    let is_meant = |tool: &&Arc<Tool>| {
        let names = [tool.name(), tool.upstream_name(), tool.id()];
        names.iter().any(|one| *one == name || naming::fold(one) == folded)
    };
    let tool = directory.held.iter().find(|tool| is_meant(tool) && selection.allows(tool))?;
    let (server, own) = (text::line(tool.server_name().unwrap_or_default()), text::line(tool.upstream_name()));
    tracing::warn!(server = &*server, tool = &*own, "call to a held tool rejected");
    Some(Text::error(format!(
        "the tool `{own}` of the server `{server}` is held: its definition is not approved. The operator of \
         Pegboard can review and approve it with `pegboard approve {server} {own}`."
    )))
}
