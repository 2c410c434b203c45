//! Tool search in a loop of one's own on OpenAI Chat Completions, with plain HTTP.
//!
//! `OPENAI_API_KEY=… cargo run -p pegboard-llm --example chat -- "What is the weather in Rome?"`

mod support;

use pegboard_llm::{transcript::Messages, wire::Wire};
use serde_json::{Value, json};
use support::{Failure, answer, post, tool_search};

/// Talks to the model until it has an answer.
pub(crate) async fn run(base_url: &str, key: &str, question: &str) -> Result<String, Failure> {
    let mut search = tool_search()?;
    let mut messages = Messages::new(Wire::Chat, vec![json!({"role": "user", "content": question})]);
    loop {
        let prepared = search.before_model(&mut messages);
        let tools: Vec<Value> = prepared.visible.iter().map(|tool| Wire::Chat.tool(tool)).collect();
        let mut sent = vec![json!({"role": "system", "content": prepared.instructions})];
        sent.extend(messages.messages.iter().cloned());
        let body = json!({"model": "gpt-5.4", "messages": sent, "tools": tools});
        let key = format!("Bearer {key}");
        let reply = post(&format!("{base_url}/chat/completions"), &[("authorization", &key)], &body).await?;
        let message = reply["choices"][0]["message"].clone();
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        messages.messages.push(message.clone());
        if calls.is_empty() {
            return Ok(message["content"].as_str().unwrap_or_default().to_owned());
        }
        for call in calls {
            let arguments = call["function"]["arguments"].as_str().unwrap_or("{}");
            let arguments = serde_json::from_str(arguments).unwrap_or_default();
            let text = answer(&mut search, call["function"]["name"].as_str().unwrap_or_default(), &arguments);
            messages.messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": text}));
        }
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
#[allow(dead_code, reason = "tests include this file for `run` alone")]
#[tokio::main]
async fn main() -> Result<(), Failure> {
    let key = std::env::var("OPENAI_API_KEY")
        .map_err(|error| format!("cannot read the variable `OPENAI_API_KEY`: {error}"))?;
    let question = std::env::args().nth(1).unwrap_or_else(|| "What is the weather in Rome?".to_owned());
    println!("{}", run("https://api.openai.com/v1", &key, &question).await?);
    Ok(())
}
