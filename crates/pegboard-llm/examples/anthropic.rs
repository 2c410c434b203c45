//! Tool search in a loop of one's own on Anthropic Messages, with plain HTTP.
//!
//! `ANTHROPIC_API_KEY=… cargo run -p pegboard-llm --example anthropic -- "What is the weather in Rome?"`

mod support;

use pegboard_llm::{transcript::Messages, wire::Wire};
use serde_json::{Value, json};
use support::{Failure, answer, post, tool_search};

/// Talks to the model until it has an answer.
pub(crate) async fn run(base_url: &str, key: &str, question: &str) -> Result<String, Failure> {
    let mut search = tool_search()?;
    let mut messages = Messages::new(Wire::Anthropic, vec![json!({"role": "user", "content": question})]);
    loop {
        let prepared = search.before_model(&mut messages);
        let tools: Vec<Value> = prepared.visible.iter().map(|tool| Wire::Anthropic.tool(tool)).collect();
        let body = json!({
            "model": "claude-haiku-4-5", "max_tokens": 1000, "system": prepared.instructions,
            "tools": tools, "messages": messages.messages,
        });
        let headers = [("x-api-key", key), ("anthropic-version", "2023-06-01")];
        let reply = post(&format!("{base_url}/v1/messages"), &headers, &body).await?;
        let blocks = reply["content"].as_array().cloned().unwrap_or_default();
        messages.messages.push(json!({"role": "assistant", "content": blocks}));
        let calls: Vec<&Value> = blocks.iter().filter(|block| block["type"] == "tool_use").collect();
        if calls.is_empty() {
            return Ok(blocks.iter().filter_map(|block| block["text"].as_str()).collect());
        }
        let results: Vec<Value> = calls
            .iter()
            .map(|call| {
                let text = answer(&mut search, call["name"].as_str().unwrap_or_default(), &call["input"]);
                json!({"type": "tool_result", "tool_use_id": call["id"], "content": text})
            })
            .collect();
        messages.messages.push(json!({"role": "user", "content": results}));
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
#[allow(dead_code, reason = "tests include this file for `run` alone")]
#[tokio::main]
async fn main() -> Result<(), Failure> {
    let key = std::env::var("ANTHROPIC_API_KEY")
        .map_err(|error| format!("cannot read the variable `ANTHROPIC_API_KEY`: {error}"))?;
    let question = std::env::args().nth(1).unwrap_or_else(|| "What is the weather in Rome?".to_owned());
    println!("{}", run("https://api.anthropic.com", &key, &question).await?);
    Ok(())
}
