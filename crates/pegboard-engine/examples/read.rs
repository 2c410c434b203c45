//! What the engine makes of texts and tools, to be compared with the reference:
//! `cargo run --release --package pegboard-engine --example read [MODEL]`.
//!
//! JSON lines (`{"text": …}` or `{"tool": …}`) come from standard input; for each a line like
//! those of `train/sample.jsonl` goes to standard output. `train/check.py` runs it.

use std::{
    borrow::Cow,
    error::Error,
    fmt::Write as _,
    fs,
    io::{self, BufWriter, Write},
    sync::Arc,
};

use pegboard_core::{Catalog, LoadLimits, load};
use pegboard_engine::{
    Model,
    semantic::{ToolReader, Vector},
};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let model = match std::env::args_os().nth(1) {
        Some(path) => Arc::new(Model::parse(Cow::Owned(fs::read(path)?))?),
        None => Arc::clone(Model::embedded()),
    };
    let mut reader = ToolReader::default();
    let mut out = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let answer = match asked["text"].as_str() {
            Some(text) => read_text(&model, text),
            None => read_tool(&model, &mut reader, &asked["tool"])?,
        };
        writeln!(out, "{answer}")?;
    }
    Ok(out.flush()?)
}

fn read_text(model: &Model, text: &str) -> Value {
    let reading = model.read(text);
    let vector = reading.vector(model).unwrap_or_else(|| Vector::new(&vec![0.0; model.dims()]));
    json!({
        "text": text,
        "tokens": reading.tokens,
        "words": reading.words,
        "known": reading.known,
        "requests": reading.requests(),
        "vector": hexadecimal(&vector),
        "scale": vector.scale(),
    })
}

fn read_tool(model: &Model, reader: &mut ToolReader, tool: &Value) -> Result<Value, Box<dyn Error>> {
    let loaded = load::parse("tool.jsonl", tool.to_string().as_bytes(), &LoadLimits::default())?;
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let vector = reader.read(catalog.iter().next().ok_or("no tool")?, model);
    let fields: Vec<&[u32]> = reader.tokens().collect();
    Ok(json!({ "fields": fields, "vector": hexadecimal(&vector), "scale": vector.scale() }))
}

fn hexadecimal(vector: &Vector) -> String {
    vector.components().fold(String::new(), |mut text, component| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:02x}", component.cast_unsigned());
        text
    })
}
