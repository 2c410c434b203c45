//! Tool search in a loop of one's own on Gemini, with plain HTTP.
//!
//! `GEMINI_API_KEY=… cargo run -p pegboard-llm --example gemini -- "What is the weather in Rome?"`

mod support;

use pegboard_llm::{transcript::Messages, wire::Wire};
use serde_json::{Value, json};
use support::{Failure, answer, post, tool_search};

/// Talks to the model until it has an answer.
pub(crate) async fn run(base_url: &str, key: &str, question: &str) -> Result<String, Failure> {
    let mut search = tool_search()?;
    let mut messages = Messages::new(Wire::Gemini, vec![json!({"role": "user", "parts": [{"text": question}]})]);
    loop {
        let prepared = search.before_model(&mut messages);
        let tools: Vec<Value> = prepared.visible.iter().map(|tool| Wire::Gemini.tool(tool)).collect();
        let body = json!({
            "systemInstruction": {"parts": [{"text": prepared.instructions}]},
            "contents": messages.messages,
            "tools": [{"functionDeclarations": tools}],
        });
        let url = format!("{base_url}/models/gemini-3-pro:generateContent");
        let reply = post(&url, &[("x-goog-api-key", key)], &body).await?;
        // What the model said goes back as it came: parts may carry signatures.
        let content = reply["candidates"][0]["content"].clone();
        let parts = content["parts"].as_array().cloned().unwrap_or_default();
        messages.messages.push(content);
        let calls: Vec<&Value> =
            parts.iter().map(|part| &part["functionCall"]).filter(|call| call.is_object()).collect();
        if calls.is_empty() {
            let said = parts.iter().filter(|part| part["thought"] != true);
            return Ok(said.filter_map(|part| part["text"].as_str()).collect());
        }
        let results: Vec<Value> = calls
            .iter()
            .map(|call| {
                let text = answer(&mut search, call["name"].as_str().unwrap_or_default(), &call["args"]);
                let mut response = json!({"name": call["name"], "response": {"output": text}});
                if call["id"].is_string() {
                    response["id"] = call["id"].clone();
                }
                json!({"functionResponse": response})
            })
            .collect();
        messages.messages.push(json!({"role": "user", "parts": results}));
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
#[allow(dead_code, reason = "tests include this file for `run` alone")]
#[tokio::main]
async fn main() -> Result<(), Failure> {
    let key = std::env::var("GEMINI_API_KEY")
        .map_err(|error| format!("cannot read the variable `GEMINI_API_KEY`: {error}"))?;
    let question = std::env::args().nth(1).unwrap_or_else(|| "What is the weather in Rome?".to_owned());
    println!("{}", run("https://generativelanguage.googleapis.com/v1beta", &key, &question).await?);
    Ok(())
}
