//! Adds tool search to a loop of one's own: `cargo run --package pegboard --features llm --example own_loop`.
//!
//! The program keeps its messages, its HTTP client and its tools. A function stands in for the model here.

use std::sync::Arc;

use pegboard::{
    Catalog, DialectName, Hybrid, LoadLimits, Selection, Session, Settings,
    discovery::transcript::OpenAiChat,
    llm::hooks::{Prepared, ToolSearch},
    load,
};
use serde_json::{Value, json};

const TOOLS: &[u8] = br#"[
    {"name": "get_weather", "description": "Current weather of a city"},
    {"name": "send_mail", "description": "Send a mail to a person"}
]"#;

/// Runs the loop until the model answers with text.
pub(crate) fn run() -> Result<String, Box<dyn std::error::Error>> {
    let (catalog, _warnings) = Catalog::from_tools(load::parse("tools.json", TOOLS, &LoadLimits::default())?.tools);
    let everything = Selection::everything();
    let ranker = Arc::new(Hybrid::default());
    let mut search =
        ToolSearch::new(Session::new(DialectName::Select, Settings::default(), catalog, everything, ranker)?);
    let mut chat = OpenAiChat { messages: vec![json!({"role": "user", "content": "How is the weather in Rome?"})] };
    loop {
        // Only the visible tools are sent to the model.
        let prepared = search.before_model(&mut chat);
        let reply = ask_model(&prepared, &chat.messages);
        chat.messages.push(reply.clone());
        let Some(call) = reply["tool_calls"].get(0) else {
            return Ok(reply["content"].as_str().unwrap_or_default().to_owned());
        };
        let name = call["function"]["name"].as_str().unwrap_or_default();
        let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap_or("{}"))?;
        // A search is answered here; any other call names the tool of the program that is to run.
        let result = match name {
            "get_weather" => "sunny".to_owned(),
            _ => search.call(name, &arguments).reply.to_json().to_string(),
        };
        chat.messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
    }
}

/// A model that searches for a tool, calls it, and reports the result.
fn ask_model(prepared: &Prepared, messages: &[Value]) -> Value {
    let call = |name: &str, arguments: Value| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": name, "type": "function", "function": function}]})
    };
    let last = messages.last().cloned().unwrap_or_default();
    if last["tool_call_id"] == "get_weather" {
        return json!({"role": "assistant", "content": format!("It is {} in Rome.", last["content"].as_str().unwrap_or("?"))});
    }
    if prepared.visible.iter().any(|tool| tool.name == "get_weather") {
        return call("get_weather", json!({"city": "Rome"}));
    }
    call("tool_search", json!({"query": "weather"}))
}

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
#[allow(dead_code, reason = "a test includes this file for `run` alone")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", run()?);
    Ok(())
}
