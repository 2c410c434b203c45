//! `code`: programs call the tools over HTTP. Two tools are visible, and that never changes.

use std::sync::Arc;

use pegboard_core::Tool;
use serde_json::{Map, Value, json};

use super::{Dialect, DialectView, MetaTool};
use crate::{
    host::HostTool,
    openapi::{Api, path_of},
    outcome::{Effect, Outcome, ToolDefinition},
    tokens::estimate_tokens,
};

/// The names of all its meta-tools.
pub(super) const META_NAMES: &[&str] = &["get_api_spec", "execute_shell_command"];

/// Maximum number of tokens (estimated) of the list of tools in the prompt; above it, servers are
/// only counted.
const INDEX_TOKENS: usize = 4000;

#[derive(Debug)]
pub(super) struct Code;

impl Dialect for Code {
    fn name(&self) -> &'static str {
        "code"
    }

    fn default_ranker(&self) -> &'static str {
        "hybrid"
    }

    fn has_fixed_list(&self) -> bool {
        true
    }

    fn meta_tools(&self, _view: &DialectView<'_>) -> Vec<ToolDefinition> {
        [HostTool::GetApiSpec, HostTool::ExecuteShellCommand].map(HostTool::definition).into()
    }

    fn lists_catalog(&self) -> bool {
        false
    }

    fn meta_tool(&self, name: &str, _view: &DialectView<'_>) -> Option<MetaTool> {
        META_NAMES.contains(&name).then_some(MetaTool::Other)
    }

    fn call(&self, name: &str, arguments: &Value, view: &DialectView<'_>) -> Option<Outcome> {
        match HostTool::from_name(name)? {
            HostTool::GetApiSpec => Some(spec(arguments, view).map_or_else(Outcome::error, Outcome::text)),
            HostTool::ExecuteShellCommand => Some(shell(arguments)),
            _ => None,
        }
    }

    fn check_direct_call(&self, tool: &Arc<Tool>, view: &DialectView<'_>) -> Option<Outcome> {
        // Nothing can be loaded here, so there is another way to name.
        let runs = view.settings.run_unloaded || (view.shown_name)(tool).is_some();
        (!runs).then(|| {
            let path = path_of(tool.server_name(), tool.bare_name());
            Outcome::error(format!(
                "`{}` can only be called from a program: use execute_shell_command to POST its arguments to \
                 $MCP_API_URL{path}",
                view.names.shown(tool)
            ))
        })
    }

    fn instructions(&self, view: &DialectView<'_>, _categories: &[String]) -> String {
        format!("{HOW}\n\n{}", index(&Api::new(view.catalog, view.selection)))
    }

    fn strict_rule(&self) -> &'static str {
        "Before you say what you cannot do, read the spec of every server that could help."
    }
}

const HOW: &str = r#"## Calling tools

You call tools from programs: they form an HTTP API that scripts reach through execute_shell_command.

1. get_api_spec with the server's name, and with tool_name for one tool, returns the paths and the parameters. Read it before you call anything for the first time.
2. Write a script (python3, bash, curl) that sends a tool's arguments as a JSON object: POST $MCP_API_URL/tools/mcp/SERVER/TOOL, or $MCP_API_URL/tools/custom/TOOL for tools without a server, with the header `Authorization: Bearer $MCP_API_TOKEN`. Both variables are set. Take the paths as the spec writes them.
3. The reply is {"success": true, "result": …, "error": null} or {"success": false, "result": null, "error": "…"}, with status 200 in both cases: check `success`. Any other status means that nothing was called; `error` gives the reason. `result` is JSON where the tool returned JSON, else a string.

Do as much as you can in one script: chain calls, loop, filter and count there, and print only what you need, because you see only what is printed. To start with:

```python
import json, os, urllib.request
def call(path, **arguments):
    request = urllib.request.Request(os.environ["MCP_API_URL"] + path, json.dumps(arguments).encode(),
        {"Authorization": "Bearer " + os.environ["MCP_API_TOKEN"], "Content-Type": "application/json"})
    try:
        reply = json.load(urllib.request.urlopen(request))
    except urllib.error.HTTPError as refused:
        reply = json.load(refused)
    if not reply["success"]:
        raise SystemExit(reply["error"])
    return reply["result"]
```"#;

/// Returns the list of callable tools, as far as it fits.
fn index(api: &Api<'_>) -> String {
    if api.servers().is_empty() {
        return "There are no tools to call at the moment.".to_owned();
    }
    let mut servers = Map::new();
    let mut tokens = 0;
    for server in api.servers() {
        let names: Vec<&str> = server.tools().iter().map(|tool| tool.bare_name()).collect();
        let tools = json!({"tools": names});
        tokens += estimate_tokens(server.name()) + estimate_tokens(&tools.to_string());
        if tokens > INDEX_TOKENS {
            return format!(
                "There are too many tools to name here; get_api_spec lists those of a server. {}",
                counts(api)
            );
        }
        servers.insert(server.name().to_owned(), tools);
    }
    format!("The tools of each server:\n\n{}", Value::Object(servers))
}

/// Returns the servers with the number of their tools, as far as that fits.
fn counts(api: &Api<'_>) -> String {
    let mut text = "Servers and how many tools they have:\n".to_owned();
    let mut tokens = 0;
    for (at, server) in api.servers().iter().enumerate() {
        let line = format!("\n- {} ({})", server.name(), server.tools().len());
        tokens += estimate_tokens(&line);
        if tokens > INDEX_TOKENS {
            text.push_str(&format!("\n- and {} more", api.servers().len() - at));
            break;
        }
        text.push_str(&line);
    }
    text
}

/// Returns the text of `get_api_spec`, or the error in its arguments.
fn spec(arguments: &Value, view: &DialectView<'_>) -> Result<String, String> {
    let text = |key: &str| match arguments.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
        Some(_) => Err(format!("`{key}` must be a string")),
    };
    let api = Api::new(view.catalog, view.selection);
    let Some(server) = text("server_name")? else {
        return Ok(format!("`server_name` is required; {}", api.summarize_servers()));
    };
    let server = api.server(server)?;
    let tool = text("tool_name")?.map(|name| server.tool(name)).transpose()?;
    Ok(server.spec(tool.map(|tool| &**tool), view.settings.spec_tokens))
}

fn shell(arguments: &Value) -> Outcome {
    match arguments.get("command") {
        Some(Value::String(command)) if !command.trim().is_empty() => {
            let tool = HostTool::ExecuteShellCommand;
            Outcome::text("").with_effect(Effect::Host { tool, arguments: arguments.clone() })
        }
        Some(Value::String(_) | Value::Null) | None => {
            Outcome::error("`command` is required: the shell command to run")
        }
        Some(_) => Outcome::error("`command` must be a string"),
    }
}
