//! Tool search in a loop of one's own on OpenAI Responses, with plain HTTP.
//!
//! `OPENAI_API_KEY=… cargo run -p pegboard-llm --example responses -- "What is the weather in Rome?"`

mod support;

use pegboard_llm::{transcript::Messages, wire::Wire};
use serde_json::{Value, json};
use support::{Failure, answer, post, tool_search};

/// Talks to the model until it has an answer.
pub(crate) async fn run(base_url: &str, key: &str, question: &str) -> Result<String, Failure> {
    let mut search = tool_search()?;
    let mut messages = Messages::new(Wire::Responses, vec![json!({"role": "user", "content": question})]);
    loop {
        let prepared = search.before_model(&mut messages);
        let tools: Vec<Value> = prepared.visible.iter().map(|tool| Wire::Responses.tool(tool)).collect();
        let body = json!({
            "model": "gpt-5.4", "instructions": prepared.instructions, "input": messages.messages,
            "tools": tools, "store": false,
        });
        let key = format!("Bearer {key}");
        let reply = post(&format!("{base_url}/responses"), &[("authorization", &key)], &body).await?;
        let output = reply["output"].as_array().cloned().unwrap_or_default();
        messages.messages.extend(output.iter().cloned());
        let calls: Vec<&Value> = output.iter().filter(|item| item["type"] == "function_call").collect();
        if calls.is_empty() {
            let parts = output.iter().filter_map(|item| item["content"].as_array()).flatten();
            return Ok(parts.filter_map(|part| part["text"].as_str()).collect());
        }
        for call in calls {
            let arguments = serde_json::from_str(call["arguments"].as_str().unwrap_or("{}")).unwrap_or_default();
            let text = answer(&mut search, call["name"].as_str().unwrap_or_default(), &arguments);
            let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": text});
            messages.messages.push(result);
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
