//! Tool search: a documentation server among sixty other tools, found when it is needed.
//!
//! `cargo run -p pegboard-agent --example tool_search` talks to a scripted model; with
//! `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY` set, to a real one.

mod support;

use std::sync::Arc;

use pegboard_agent::{Agent, CustomTool, DialectName, ToolDef, ToolError, ToolSearch};
use pegboard_mcp::json::{Raw, raw};
use pegboard_upstream::{
    AnswerFuture, LocalServer,
    config::{ServerConfig, TransportConfig},
};
use serde_json::{Value, json};
use support::{Failure, call, say, show};

/// A server that knows libraries. Any MCP server would do; this one needs no network.
#[derive(Debug)]
struct Documentation;

impl Documentation {
    fn handle(method: &str, params: &Value) -> Value {
        let library = json!({"type": "object", "properties": {"library": {"type": "string"}}, "required": ["library"]});
        match method {
            "server/discover" => json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "instructions": "Documentation of libraries"
            }),
            "tools/list" => json!({"tools": [
                {"name": "find_library", "description": "Find a library by name", "inputSchema": library},
                {"name": "read_docs", "description": "Read the documentation of a library", "inputSchema": library}
            ]}),
            _ => {
                let library = params["arguments"]["library"].as_str().unwrap_or("nothing");
                let text = match params["name"].as_str() {
                    Some("find_library") => format!("found: /{}/{0}", library.to_lowercase()),
                    _ => format!("{library} builds user interfaces from components; state lives in hooks."),
                };
                json!({"content": [{"type": "text", "text": text}]})
            }
        }
    }
}

impl LocalServer for Documentation {
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a> {
        let params = params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        Box::pin(std::future::ready(Ok(raw(&Self::handle(method, &params)))))
    }
}

/// One of many tools that nobody needs today.
fn other(number: usize) -> CustomTool {
    let def = ToolDef::new(
        format!("counter_{number}"),
        format!("Counts the things of shelf {number}"),
        json!({"type": "object", "properties": {}}),
    );
    CustomTool::new(def, async |_: Value| Ok::<_, ToolError>("12")).with_category("warehouse")
}

/// The agent asks for documentation that it has to find first.
pub(crate) async fn run() -> Result<(Agent, String), Failure> {
    let (builder, _provider) = support::agent([
        call("search_tools", json!({"query": "documentation|library"})),
        call("add_tool", json!({"tool_names": ["find_library", "read_docs"]})),
        call("find_library", json!({"library": "React"})),
        call("read_docs", json!({"library": "React"})),
        say("React builds user interfaces from components, and keeps their state in hooks."),
    ])?;
    let mut builder = builder
        .servers([ServerConfig::new("docs", TransportConfig::Local(Arc::new(Documentation)))])
        .tool_search(ToolSearch::with_dialect(DialectName::Explicit))
        .pre_discovered(["counter_1"]);
    for number in 1..=60 {
        builder = builder.tool(other(number));
    }
    let agent = builder.build().await?;
    let answer = show(&agent, "Tell me about the React library, from its documentation.").await?;
    Ok((agent, answer.text))
}

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
#[allow(dead_code, reason = "tests include this file for `run` alone")]
#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (agent, _) = run().await?;
    println!("{} tools, of which the model was shown {}", agent.tool_count(), agent.visible_tools().len());
    Ok(())
}
