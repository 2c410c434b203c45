//! Code execution: the model writes a script that calls tools over HTTP, in a sandbox.
//!
//! `cargo run -p pegboard-agent --example code_execution`; with a key in the environment,
//! against a real model. Commands are run by the `pegboard` program: the one on the search path,
//! or the one that `cargo build` has put beside the examples.

mod support;

use std::path::PathBuf;

use pegboard_agent::{CustomTool, Program, ToolError, schemars, schemars::JsonSchema, shell::ShellSettings};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{Failure, call, say, show};

/// What `sales` takes.
#[derive(JsonSchema, Deserialize)]
struct Month {
    /// Counted from 1
    month: u32,
}

async fn sales(month: Month) -> Result<Value, ToolError> {
    Ok(json!({"month": month.month, "sold": month.month * 7 % 10}))
}

/// Adds up twelve results without one of them entering the conversation.
const SCRIPT: &str = r#"python3 - <<'END'
import json, os, urllib.request
total = 0
for month in range(1, 13):
    request = urllib.request.Request(
        os.environ["MCP_API_URL"] + "/tools/custom/sales",
        json.dumps({"month": month}).encode(),
        {"Authorization": "Bearer " + os.environ["MCP_API_TOKEN"], "Content-Type": "application/json"},
    )
    total += json.load(urllib.request.urlopen(request))["result"]["sold"]
print("sold in all:", total)
END"#;

/// Where the program is that runs commands.
fn program() -> Option<PathBuf> {
    if Program::find().is_some() {
        return None;
    }
    let name = format!("pegboard{}", std::env::consts::EXE_SUFFIX);
    let here = std::env::current_exe().ok()?;
    here.ancestors().map(|folder| folder.join(&name)).find(|path| path.is_file())
}

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (mut builder, _provider) = support::agent([
        call("get_api_spec", json!({"server_name": "custom"})),
        call("execute_shell_command", json!({"command": SCRIPT})),
        say("The script has the sum."),
    ])?;
    if let Some(program) = program() {
        builder = builder.program(program);
    }
    let folder = std::env::temp_dir().join(format!("pegboard-example-{}", std::process::id()));
    let agent = builder
        .tool(CustomTool::typed("sales", "How much was sold in a month", sales).read_only())
        .code_execution(ShellSettings::new(&folder))
        .build()
        .await?;
    if let Some(sandbox) = agent.sandbox() {
        println!("{sandbox}");
    }
    show(&agent, "How much was sold in the whole year?").await?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
