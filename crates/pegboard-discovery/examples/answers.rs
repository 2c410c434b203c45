//! Measures the answers of `bridge` on labelled sets:
//! `cargo run --release --package pegboard-discovery --example answers -- DIR...`.
//!
//! Each `DIR` holds `tools.jsonl`, `queries.jsonl` and `qrels.tsv`. An answer is good if it shows
//! a right tool with the name, the type and the allowed values of every required parameter; the
//! text of the answer is looked at, not the code that made it. One line per set goes to standard
//! output: the tokens of the answers (o200k), the share of queries with a right tool among the
//! hits, with a good answer, and with a good answer in at most 300 tokens. `--show` prints the
//! answers too.

use std::{
    collections::{HashMap, HashSet},
    error::Error,
    fs,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use pegboard_core::{Catalog, LoadLimits, Selection, Tool, load};
use pegboard_discovery::{DialectName, Session, Settings, estimate_tokens};
use pegboard_engine::{Hybrid, metrics::percentile};
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

/// Tokens that a good answer may have.
const MAX_TOKENS: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let (options, dirs): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    let is_shown = options.iter().any(|option| option == "--show");
    let bpe = tiktoken_rs::o200k_base()?;
    let mut out = io::stdout().lock();
    for dir in &dirs {
        let set = LabelledSet::read(Path::new(dir))?;
        let mut figures = Figures::default();
        let mut session = session(set.catalog.clone())?;
        for (query, right) in &set.queries {
            let answer = session.call("search_tools", &json!({"query": query}));
            let text = answer.reply.to_text();
            if is_shown {
                let (tokens, estimate) = (bpe.encode_ordinary(&text).len(), estimate_tokens(&text));
                writeln!(out, "## {query} ({tokens} tokens, estimated {estimate})\n{text}\n")?;
            }
            let hits: Vec<(&Arc<Tool>, &str)> =
                answer.searched.iter().flat_map(|searched| &searched.hits).zip(text.lines()).collect();
            figures.add(&hits, right, &text, &bpe);
        }
        writeln!(out, "{dir}: {}", figures.to_text())?;
    }
    Ok(())
}

fn session(catalog: Catalog) -> Result<Session, Box<dyn Error>> {
    let ranker = Arc::new(Hybrid::default());
    Ok(Session::new(DialectName::Bridge, Settings::default(), catalog, Selection::everything(), ranker)?)
}

struct LabelledSet {
    catalog: Catalog,
    /// Queries with the identities of the tools that are right.
    queries: Vec<(String, HashSet<String>)>,
}

impl LabelledSet {
    fn read(dir: &Path) -> Result<Self, Box<dyn Error>> {
        let limits = LoadLimits { file_bytes: usize::MAX, ..LoadLimits::default() };
        let loaded = load::parse("tools.jsonl", &fs::read(dir.join("tools.jsonl"))?, &limits)?;
        let (catalog, _) = Catalog::from_tools(loaded.tools);
        let mut labels: HashMap<String, HashSet<String>> = HashMap::new();
        for line in fs::read_to_string(dir.join("qrels.tsv"))?.lines() {
            let mut fields = line.split('\t');
            if let (Some(query), Some(tool)) = (fields.next(), fields.next()) {
                labels.entry(query.to_owned()).or_default().insert(tool.to_owned());
            }
        }
        let mut queries = Vec::new();
        for line in fs::read_to_string(dir.join("queries.jsonl"))?.lines().filter(|line| !line.trim().is_empty()) {
            let query: Value = serde_json::from_str(line)?;
            let id = query["id"].as_str().unwrap_or_default();
            if let Some(right) = labels.remove(id) {
                queries.push((query["query"].as_str().unwrap_or_default().to_owned(), right));
            }
        }
        Ok(Self { catalog, queries })
    }
}

#[derive(Default)]
struct Figures {
    tokens: Vec<f64>,
    /// Tokens of the answers with five hits.
    tokens_of_five: Vec<f64>,
    right: usize,
    good: usize,
    good_and_short: usize,
    /// Required parameters of right tools, and those with a comment.
    required: usize,
    with_comment: usize,
}

impl Figures {
    fn add(&mut self, hits: &[(&Arc<Tool>, &str)], right: &HashSet<String>, text: &str, bpe: &CoreBPE) {
        let tokens = bpe.encode_ordinary(text).len();
        self.tokens.push(tokens as f64);
        if hits.len() == 5 {
            self.tokens_of_five.push(tokens as f64);
        }
        let right: Vec<&(&Arc<Tool>, &str)> = hits.iter().filter(|(tool, _)| right.contains(tool.id())).collect();
        let is_good = right.iter().any(|(tool, line)| shows_required(tool, line));
        self.right += usize::from(!right.is_empty());
        self.good += usize::from(is_good);
        self.good_and_short += usize::from(is_good && tokens <= MAX_TOKENS);
        for (tool, line) in right {
            let schema = schema_of(tool);
            for (name, _) in required(&schema) {
                self.required += 1;
                // The type of a nested object has parameters of its own.
                let ends = after(line, name).map(|rest| rest.split(", ").next().unwrap_or(rest));
                self.with_comment += usize::from(ends.is_some_and(|ends| ends.contains("/*")));
            }
        }
    }

    fn to_text(&self) -> String {
        let of = |samples: &[f64], share: f64| {
            let mut samples = samples.to_vec();
            samples.sort_by(f64::total_cmp);
            percentile(&samples, share)
        };
        let queries = self.tokens.len().max(1);
        let share = |count: usize, all: usize| 100.0 * count as f64 / all.max(1) as f64;
        let over = self.tokens.iter().filter(|tokens| **tokens > MAX_TOKENS as f64).count();
        format!(
            "{} queries; tokens p50 {} p90 {} max {}, of five hits p50 {}, over {MAX_TOKENS}: {:.1} %; \
             right {:.1} %, good {:.1} %, good within {MAX_TOKENS} {:.1} %; {:.1} % of required with a comment",
            self.tokens.len(),
            of(&self.tokens, 0.5),
            of(&self.tokens, 0.9),
            of(&self.tokens, 1.0),
            of(&self.tokens_of_five, 0.5),
            share(over, queries),
            share(self.right, queries),
            share(self.good, queries),
            share(self.good_and_short, queries),
            share(self.with_comment, self.required),
        )
    }
}

fn schema_of(tool: &Tool) -> Value {
    tool.input_schema().and_then(|schema| serde_json::from_str(schema).ok()).unwrap_or_default()
}

fn required(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.filter_map(|name| Some((name, schema["properties"].get(name)?)))
}

/// What follows the parameter `name` in a signature.
fn after<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    ["(", ", "].iter().find_map(|before| line.split_once(&format!("{before}{name}: ")).map(|(_, rest)| rest))
}

/// Whether `line` has the name, the type and the allowed values of every required parameter.
fn shows_required(tool: &Tool, line: &str) -> bool {
    let schema = schema_of(tool);
    required(&schema).all(|(name, property)| {
        let has_type = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "properties"];
        let has_type = has_type.iter().any(|key| property.get(key).is_some_and(|value| value != "any"));
        after(line, name).is_some_and(|rest| {
            let is_typed = !rest.starts_with(['/', ',', ')']) && (!has_type || !rest.starts_with("any"));
            let is_typed = is_typed && !rest.split([',', ')']).next().is_some_and(|shown| shown.contains("{…}"));
            is_typed && allowed_values(property).iter().all(|value| rest.contains(&value.to_string()))
        })
    })
}

fn allowed_values(property: &Value) -> Vec<&Value> {
    let own = property["enum"].as_array().into_iter().flatten();
    let of_items = property["items"]["enum"].as_array().into_iter().flatten();
    own.chain(of_items).collect()
}
