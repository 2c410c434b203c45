//! What the examples share: some tools, and what they answer.

use std::sync::Arc;

use pegboard_core::{Catalog, LoadLimits, Selection, load};
use pegboard_discovery::{DialectName, Session, Settings};
use pegboard_engine::Hybrid;
use pegboard_llm::hooks::ToolSearch;
use serde_json::Value;

/// What can go wrong in an example.
pub(crate) type Failure = Box<dyn std::error::Error>;

const TOOLS: &[u8] = br#"
{"name": "get_weather", "description": "The weather of a city", "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
{"name": "send_mail", "description": "Send a mail", "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}}
"#;

/// Tool search over a few tools, in the dialect whose search loads what it finds.
pub(crate) fn tool_search() -> Result<ToolSearch, Failure> {
    let loaded = load::parse("tools.jsonl", TOOLS, &LoadLimits::default())?;
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let settings = Settings::default();
    let session =
        Session::new(DialectName::Select, settings, catalog, Selection::everything(), Arc::new(Hybrid::default()))?;
    Ok(ToolSearch::new(session))
}

/// Answers a call: a search by tool search, everything else by the program's own tools.
pub(crate) fn answer(search: &mut ToolSearch, name: &str, arguments: &Value) -> String {
    let answer = search.call(name, arguments);
    match answer.target {
        Some(target) => format!("{} says: sunny, with {}", target.name, target.arguments),
        None => answer.reply.to_text(),
    }
}

/// Sends one request and reads the answer. Any client will do.
pub(crate) async fn post(url: &str, headers: &[(&str, &str)], body: &Value) -> Result<Value, Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut request = reqwest::Client::new().post(url).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let text = request.body(body.to_string()).send().await?.error_for_status()?.text().await?;
    Ok(serde_json::from_str(&text)?)
}
