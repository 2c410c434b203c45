//! The tools of a catalog file in any format, as JSON lines:
//! `cargo run --package pegboard-core --example tools -- FILE`.
//!
//! `train/ours.py` turns OpenAPI descriptions into sets with it.

use std::{
    error::Error,
    fs,
    io::{self, BufWriter, Write},
};

use pegboard_core::{Catalog, LoadLimits, load};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: tools FILE")?;
    let limits = LoadLimits { file_bytes: usize::MAX, ..LoadLimits::default() };
    let (catalog, _) = Catalog::from_tools(load::parse(&file, &fs::read(&file)?, &limits)?.tools);
    let mut out = BufWriter::new(io::stdout().lock());
    for tool in catalog.iter() {
        let schema: Option<Value> = tool.input_schema().map(serde_json::from_str).transpose()?;
        let server = tool.server();
        let line = json!({
            "id": tool.id(),
            "name": tool.name(),
            "title": tool.title(),
            "description": tool.description(),
            "server": server.map(|server| &server.name),
            "server_description": server.map(|server| &server.description),
            "annotations": {
                "readOnlyHint": tool.annotations().read_only,
                "destructiveHint": tool.annotations().destructive,
            },
            "inputSchema": schema,
        });
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}
