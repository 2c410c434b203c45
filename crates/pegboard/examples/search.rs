//! Searches a catalog: `cargo run --package pegboard --example search -- "weather in Rome"`.

use pegboard::{Catalog, Hybrid, LoadLimits, Query, Ranker, Selection, load};

const TOOLS: &[u8] = br#"[
    {"name": "get_weather", "description": "Current weather of a city", "server": "weather"},
    {"name": "send_mail", "description": "Send a mail to a person", "server": "mail"},
    {"name": "list_invoices", "description": "List invoices by status", "server": "payments"}
]"#;

/// Returns the names of the hits, the best first.
pub(crate) fn run(query: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let loaded = load::parse("tools.json", TOOLS, &LoadLimits::default())?;
    let (catalog, _warnings) = Catalog::from_tools(loaded.tools);
    // Keep the ranker: it holds the index, and updates it when the catalog changes.
    let ranker = Hybrid::default();
    let ranking = ranker.rank(&Query::new(query), &catalog, &Selection::everything())?;
    Ok(ranking.hits.iter().map(|hit| hit.tool.name().to_owned()).collect())
}

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
#[allow(dead_code, reason = "a test includes this file for `run` alone")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let query = std::env::args().nth(1).unwrap_or_else(|| "weather in Rome".to_owned());
    for name in run(&query)? {
        println!("{name}");
    }
    Ok(())
}
