//! Runs an agent with a function as a tool: `cargo run --package pegboard --features agent --example agent`.
//!
//! It talks to Anthropic if `ANTHROPIC_API_KEY` is set, and to a scripted model otherwise.

use pegboard::{
    Secret,
    agent::{
        Agent, CustomTool, Model, ToolSearch,
        schemars::{self, JsonSchema},
    },
    llm::Client,
};
use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn};
use serde_json::json;

/// The arguments of the tool.
#[derive(JsonSchema, serde::Deserialize)]
struct Place {
    city: String,
}

/// Returns the answer of the model.
pub(crate) async fn run() -> Result<String, Box<dyn std::error::Error>> {
    let model = Model::parse("anthropic/claude-haiku-4-5")?;
    let mut builder = Agent::builder(model.clone());
    let provider = Provider::start(Script::new([
        ScriptedTurn::say([Part::call("get_weather", json!({"city": "Rome"}))]),
        ScriptedTurn::say([Part::text("It is sunny in Rome.")]),
    ]));
    if std::env::var("ANTHROPIC_API_KEY").is_err() {
        builder = builder.client(Client::new(model.provider, Secret::new("no key"))?.with_base_url(provider.url()));
    }
    let agent = builder
        .tool_search(ToolSearch::default())
        .tool(CustomTool::typed("get_weather", "The weather of a city", async |place: Place| {
            Ok(format!("sunny in {}", place.city))
        }))
        .build()
        .await?;
    Ok(agent.run("How is the weather in Rome?").await?.text)
}

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
#[allow(dead_code, reason = "a test includes this file for `run` alone")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", run().await?);
    Ok(())
}
