//! The security rules of a server.

use pegboard_core::Tool;
use pegboard_discovery::policy::Blocked;
use pegboard_mcp::rpc::RpcError;
use serde_json::Value;

use crate::setup::Setup;

/// Checks a call against the rules of the tool's server.
///
/// # Errors
/// The message of the rule that forbids the call.
pub(crate) fn check(setup: &Setup, tool: &Tool, arguments: &Value) -> Result<(), RpcError> {
    let (server, name) = (tool.server_name().unwrap_or_default(), tool.upstream_name());
    let Some(Blocked { rule, is_logged }) = setup.policies.forbids(server, name, arguments) else { return Ok(()) };
    if is_logged {
        tracing::warn!(server, tool = name, rule = rule.name, "call blocked");
    }
    Err(RpcError::new(RpcError::INVALID_PARAMS, rule.message.clone()))
}
