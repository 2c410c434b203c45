//! What the rules of a server forbid.

use pegboard_core::Tool;
use pegboard_upstream::rpc::RpcError;
use serde_json::Value;

use crate::{middleware::Blocked, setup::Setup};

/// Checks a call against the rules of the tool's server.
///
/// # Errors
/// What the rule says that forbids it.
pub(crate) fn check(setup: &Setup, tool: &Tool, arguments: &Value) -> Result<(), RpcError> {
    let (server, name) = (tool.server_name().unwrap_or_default(), tool.upstream_name());
    let blocked = setup.middleware_of(server).iter().find_map(|step| step.forbids(name, arguments));
    let Some(Blocked { rule, is_logged }) = blocked else { return Ok(()) };
    if is_logged {
        tracing::warn!(server, tool = name, rule = rule.name, "call blocked");
    }
    Err(RpcError::new(RpcError::INVALID_PARAMS, rule.message.clone()))
}
