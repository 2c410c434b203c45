//! Functions as tools: typed arguments, a hint to be found by, consent before something is
//! deleted, and an answer with a form.
//!
//! `cargo run -p pegboard-agent --example custom_tools`; with a key in the environment, against
//! a real model.

mod support;

use pegboard_agent::{
    Approval, CustomTool, Question, Registry, ToolDef, ToolError, ToolMeta, ToolSearch,
    schemars::{self, JsonSchema},
};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{Failure, call, say, show};

/// What `list_notes` takes.
#[derive(JsonSchema, Deserialize)]
struct About {
    /// A word that the notes must hold
    topic: String,
}

/// What the model is to hand over.
#[derive(Debug, JsonSchema, Deserialize)]
pub(crate) struct Report {
    /// How many notes there were
    pub(crate) notes: u32,
    /// What they say, in a sentence
    pub(crate) summary: String,
}

async fn list_notes(about: About) -> Result<Value, ToolError> {
    Ok(json!([format!("buy {} tomorrow", about.topic), format!("{} is out", about.topic)]))
}

async fn delete_notes(_: Value) -> Result<&'static str, ToolError> {
    Ok("deleted")
}

/// Tools can be registered on an agent that is running already.
fn register_later(registry: &Registry) -> Result<(), Failure> {
    let def = ToolDef::new("post_message", "Posts a message", json!({"type": "object", "properties": {}}));
    let post = async |_: Value| Ok::<_, ToolError>("posted");
    Ok(registry.register_with_meta(def, post, ToolMeta::deferred_with_hint("send a slack message"))?)
}

/// The agent reads notes, wants to delete them, is not allowed to, and reports.
pub(crate) async fn run() -> Result<Report, Failure> {
    let (builder, _provider) = support::agent([
        call("search_tools", json!({"query": "read notes"})),
        call("call_tool", json!({"name": "list_notes", "arguments": {"topic": "milk"}})),
        call("call_tool", json!({"name": "delete_notes", "arguments": {}})),
        call("final_answer", json!({"notes": 2, "summary": "Milk is out and is to be bought."})),
        say("unused"),
    ])?;
    let delete = ToolDef::new("delete_notes", "Deletes all notes", json!({"type": "object", "properties": {}}));
    let agent = builder
        .tool_search(ToolSearch::default())
        .tool(CustomTool::typed("list_notes", "Lists notes on a topic", list_notes).with_hint("read memos").read_only())
        .tool(CustomTool::new(delete, delete_notes).destructive())
        .approval(Approval::Destructive)
        .human(async |_: Question| Some("no, I still need them".to_owned()))
        .output::<Report>()
        .build()
        .await?;
    register_later(agent.registry())?;
    let answer = show(&agent, "Sum up my notes on milk and delete them.").await?;
    Ok(answer.parse()?)
}

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
#[allow(dead_code, reason = "tests include this file for `run` alone")]
#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Report { notes, summary } = run().await?;
    println!("{notes} notes: {summary}");
    Ok(())
}
