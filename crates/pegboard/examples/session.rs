//! Holds the tool state of one conversation: `cargo run --package pegboard --example session`.

use std::sync::Arc;

use pegboard::{Catalog, DialectName, Hybrid, LoadLimits, Selection, Session, Settings, load};
use serde_json::json;

/// Searches in a session and returns the tools that the model sees afterwards.
pub(crate) fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let file = br#"[{"name": "get_weather", "description": "Current weather"}, {"name": "send_mail"}]"#;
    let (catalog, _warnings) = Catalog::from_tools(load::parse("tools.json", file, &LoadLimits::default())?.tools);
    let mut session = Session::new(
        DialectName::Select,
        Settings::default(),
        catalog,
        Selection::everything(),
        Arc::new(Hybrid::default()),
    )?;
    // The model calls the search, and the session loads what it finds.
    session.call("tool_search", &json!({"query": "weather"}));
    Ok(session.visible_names())
}

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
#[allow(dead_code, reason = "a test includes this file for `run` alone")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("the model sees: {}", run()?.join(", "));
    Ok(())
}
