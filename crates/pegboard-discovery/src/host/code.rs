//! The tools of the HTTP API, for models that write programs.

use serde_json::{Value, json};

/// The environment variable with the address of the API.
pub const URL_VARIABLE: &str = "MCP_API_URL";

/// The environment variable with the token for the API.
pub const TOKEN_VARIABLE: &str = "MCP_API_TOKEN";

pub(super) fn api_spec() -> (&'static str, Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "server_name": {
                "type": "string",
                "description": "Server whose tools to describe; without it, the servers are listed"
            },
            "tool_name": {"type": "string", "description": "Only this tool of the server, in full detail"}
        }
    });
    (
        "Describe the tools of a server as an HTTP API: OpenAPI 3.0.3 in YAML, with the path, the parameters and \
         the reply of each tool. Read it before you write a program that calls them.",
        schema,
    )
}

pub(super) fn shell() -> (&'static str, Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "Command to run; may have several lines"},
            "timeout_seconds": {"type": "integer", "minimum": 1, "description": "Timeout of the command"}
        },
        "required": ["command"]
    });
    (
        "Run a command in a shell and read its exit code and what it printed. Programs reach the tool API at \
         $MCP_API_URL with the token $MCP_API_TOKEN; both are set.",
        schema,
    )
}
