//! What the examples share: a model, real where there is a key for one and scripted elsewhere.

use std::env;

use pegboard_agent::{Agent, AgentBuilder, AgentEvent, Model, RunAnswer};
use pegboard_core::Secret;
use pegboard_llm::Client;
use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn};
use serde_json::Value;

/// Whatever goes wrong in an example ends it.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Models to talk to, by the variable that holds the key.
const MODELS: [(&str, &str); 3] = [
    ("ANTHROPIC_API_KEY", "anthropic/claude-haiku-4-5"),
    ("OPENAI_API_KEY", "openai-responses/gpt-5.4-mini"),
    ("GEMINI_API_KEY", "gemini/gemini-3-flash"),
];

/// An agent to be, and the scripted provider that it talks to where there is no key.
/// `PEGBOARD_MODEL` chooses another model.
pub(crate) fn agent(
    script: impl IntoIterator<Item = ScriptedTurn>,
) -> Result<(AgentBuilder, Option<Provider>), Failure> {
    let is_set = |name: &str| env::var(name).is_ok_and(|value| !value.is_empty());
    if let Some((_, usual)) = MODELS.iter().find(|(key, _)| is_set(key)) {
        let model = env::var("PEGBOARD_MODEL").unwrap_or_else(|_| (*usual).to_owned());
        return Ok((Agent::builder(Model::parse(&model)?), None));
    }
    let provider = Provider::start(Script::new(script));
    let model = Model::parse("anthropic/claude-haiku-4-5")?;
    let client = Client::new(model.provider, Secret::new("no key"))?.with_base_url(provider.url());
    Ok((Agent::builder(model).client(client), Some(provider)))
}

/// The model calls a tool.
pub(crate) fn call(name: &str, arguments: Value) -> ScriptedTurn {
    ScriptedTurn::say([Part::call(name, arguments)])
}

/// The model says something.
pub(crate) fn say(text: &str) -> ScriptedTurn {
    ScriptedTurn::say([Part::text(text)])
}

/// Runs a prompt and shows what happens.
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) async fn show(agent: &Agent, prompt: &str) -> Result<RunAnswer, Failure> {
    println!("> {prompt}");
    let mut run = agent.stream(prompt);
    while let Some(event) = run.next().await {
        match event {
            AgentEvent::CallStarted { name, arguments, .. } => println!("  {name} {arguments}"),
            AgentEvent::CallFinished { text, .. } => println!("    {}", text.chars().take(100).collect::<String>()),
            AgentEvent::ToolsChanged { visible } => println!("  visible now: {}", visible.join(", ")),
            _ => {}
        }
    }
    let answer = run.answer().await?;
    println!("{}\n", answer.text);
    Ok(answer)
}
