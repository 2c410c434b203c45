//! What deferral saves over a conversation of twenty turns, and what it costs us.
//!
//! `cargo xtask bench-llm [CATALOG]`. Counted are o200k tokens of the compact JSON of all tool
//! definitions that are sent, and the share of each request that is still a prefix of the next
//! one, in the order in which providers cache: tools that are not deferred, system, messages.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::{sync::Arc, time::Instant};

use pegboard_core::{Catalog, Limits, Selection, load};
use pegboard_discovery::{DialectName, Session, Settings, ToolDefinition};
use pegboard_engine::{Hinted, Hybrid, Keyword};
use pegboard_llm::{
    Called, Conversation, Delivery, Model,
    wire::{CallResult, Request, Stop, ToolCall, Turn, Usage, Wire},
};
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

/// Turns of the conversation; every second one calls what the one before has found.
const TURNS: usize = 20;

/// What is looked for; each finds something new.
const QUERIES: [&str; 10] = [
    "create issue",
    "send message",
    "list files",
    "query database",
    "get weather",
    "search web",
    "create event",
    "read spreadsheet",
    "upload image",
    "deploy service",
];

struct Row {
    dialect: DialectName,
    delivery: Delivery,
    model: &'static str,
    tokens: usize,
    /// The smallest share of a request that the next one kept.
    kept: f64,
    /// The time that one turn took us, in microseconds, on the median.
    overhead: f64,
}

fn main() {
    let path = std::env::args().nth(1).filter(|path| !path.starts_with("--"));
    let path = path.unwrap_or_else(|| "../shared/data/fleet/tools.jsonl".to_owned());
    let Ok(bytes) = std::fs::read(&path) else {
        println!("skipped: no catalog `{path}`");
        return;
    };
    let loaded = load::parse(&path, &bytes, &Limits::default()).expect("a catalog");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let bpe = tiktoken_rs::o200k_base().expect("the tokenizer");
    let definitions: Vec<Value> = catalog.iter().map(|tool| ToolDefinition::of(tool, tool.name()).to_json()).collect();
    let all = count(&bpe, &definitions) * TURNS;
    println!("{} tools, {TURNS} turns; all of them in every turn: {all} tokens", catalog.len());
    println!(
        "{:<10} {:<14} {:<28} {:>12} {:>9} {:>10} {:>9}",
        "DIALECT", "DELIVERY", "MODEL", "TOOL TOKENS", "FEWER", "PREFIX", "µs/TURN"
    );
    for (dialect, delivery, model) in pairings() {
        let row = measure(&catalog, &bpe, dialect, delivery, model);
        let fewer = 100.0 * (1.0 - row.tokens as f64 / all as f64);
        println!(
            "{:<10} {:<14} {:<28} {:>12} {:>7.2} % {:>8.1} % {:>9.0}",
            row.dialect.as_str(),
            row.delivery.as_str(),
            row.model,
            row.tokens,
            fewer,
            100.0 * row.kept,
            row.overhead
        );
    }
}

fn pairings() -> Vec<(DialectName, Delivery, &'static str)> {
    use DialectName::{Bridge, Schema, Select};
    let anthropic = "anthropic/claude-opus-4-8";
    let responses = "openai-responses/gpt-5.4";
    vec![
        (Bridge, Delivery::Constant, anthropic),
        (Bridge, Delivery::Constant, "openai/gpt-5.4"),
        (Bridge, Delivery::Constant, "gemini/gemini-3-pro"),
        (Select, Delivery::Reference, anthropic),
        (Schema, Delivery::Reference, anthropic),
        (Select, Delivery::ClientNative, responses),
        (Schema, Delivery::ClientNative, responses),
        (Select, Delivery::Inject, "openai/gpt-5.4"),
        (Schema, Delivery::Inject, "gemini/gemini-3-pro"),
        (Select, Delivery::Native, anthropic),
        (Select, Delivery::Native, responses),
    ]
}

fn count(bpe: &CoreBPE, tools: &[Value]) -> usize {
    tools.iter().map(|tool| bpe.encode_ordinary(&tool.to_string()).len()).sum()
}

fn session(catalog: &Catalog, dialect: DialectName) -> Session {
    // Tools of a file are shown by `schema` unless they say otherwise; here all are deferred.
    let ranker: Arc<dyn pegboard_core::Ranker> = match dialect {
        DialectName::Select => Arc::new(Keyword::default()),
        DialectName::Schema => Arc::new(Hinted::default()),
        _ => Arc::new(Hybrid::default()),
    };
    ranker.prepare(catalog);
    let tools = catalog.iter().map(|tool| pegboard_core::RawTool {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        server: tool.server_name().map(str::to_owned),
        input_schema: tool.input_schema().and_then(|schema| serde_json::from_str(schema).ok()),
        deferred: Some(true),
        ..pegboard_core::RawTool::default()
    });
    let (catalog, _) = Catalog::from_tools(tools.collect());
    Session::new(dialect, Settings::default(), catalog, Selection::everything(), ranker).expect("a session")
}

fn measure(catalog: &Catalog, bpe: &CoreBPE, dialect: DialectName, delivery: Delivery, model: &'static str) -> Row {
    let parsed = Model::parse(model).expect("a model");
    let session = session(catalog, dialect);
    let mut conversation = Conversation::new(parsed, session, Some(delivery)).expect("a conversation");
    let wire = conversation.wire();
    conversation.say("Do ten things for me.");
    let (mut tokens, mut kept, mut times) = (0, 1.0_f64, Vec::new());
    let mut before: Option<String> = None;
    let mut counted: Option<(Vec<Value>, usize)> = None;
    for turn in 0..TURNS {
        let began = Instant::now();
        let request = conversation.request(false).expect("a request");
        let mut spent = began.elapsed();
        let sent = definitions(&request);
        // The same list need not be counted again.
        let cost = match &counted {
            Some((tools, cost)) if *tools == sent => *cost,
            _ => count(bpe, &sent),
        };
        tokens += cost;
        counted = Some((sent, cost));
        let prefix = prefix(&request);
        if let Some(before) = &before {
            let common = before.bytes().zip(prefix.bytes()).take_while(|(a, b)| a == b).count();
            kept = kept.min(common as f64 / before.len() as f64);
        }
        before = Some(prefix);
        let call = next_call(&conversation, dialect, delivery, turn);
        let began = Instant::now();
        conversation.heard(&said(wire, &call));
        let result = match conversation.call(&call) {
            Called::Answered(result) => result,
            Called::Invoke(_) => CallResult { call, text: "done".into(), is_error: false, references: Vec::new() },
        };
        conversation.answer(&[result]);
        spent += began.elapsed();
        times.push(spent.as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Row { dialect, delivery, model, tokens, kept, overhead: times[times.len() / 2] }
}

/// All definitions that a request carries, those in the answers of searches included.
fn definitions(request: &Request) -> Vec<Value> {
    let in_answers = request.messages.iter().filter(|item| item["type"] == "tool_search_output");
    let in_answers = in_answers.flat_map(|item| item["tools"].as_array().cloned().unwrap_or_default());
    request.tools.iter().cloned().chain(in_answers).collect()
}

/// A request in the order in which it is cached.
fn prefix(request: &Request) -> String {
    let tools = request.tools.iter().filter(|tool| tool.get("defer_loading").is_none()).map(Value::to_string);
    let messages = request.messages.iter().map(Value::to_string);
    tools.chain(request.system.clone()).chain(messages).collect::<Vec<_>>().join("\n")
}

/// What the model wants next: a search, then a call of what was found last.
fn next_call(conversation: &Conversation, dialect: DialectName, delivery: Delivery, turn: usize) -> ToolCall {
    let id = format!("call-{turn}");
    let found = conversation.session().visible_names().pop().unwrap_or_default();
    let query = json!({"query": QUERIES[(turn / 2) % QUERIES.len()]});
    let (name, arguments, is_search) = match (turn % 2, dialect) {
        (0, DialectName::Bridge) => ("search_tools".to_owned(), query, false),
        (0, DialectName::Schema) => ("ToolSearch".to_owned(), query, delivery == Delivery::ClientNative),
        (0, _) => ("tool_search".to_owned(), query, delivery == Delivery::ClientNative),
        (_, DialectName::Bridge) => ("call_tool".to_owned(), json!({"name": "create_issue", "arguments": {}}), false),
        _ => (found, json!({}), false),
    };
    ToolCall { id, name, arguments, is_search }
}

/// What a model of this wire says when it wants a tool called.
fn said(wire: Wire, call: &ToolCall) -> Turn {
    let (id, name, arguments) = (&call.id, &call.name, &call.arguments);
    let echo = match wire {
        Wire::Anthropic => {
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": arguments}]})
        }
        Wire::Chat => json!({"role": "assistant", "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}
        ]}),
        Wire::Responses if call.is_search => {
            json!({"type": "tool_search_call", "call_id": id, "execution": "client", "arguments": arguments})
        }
        Wire::Responses => json!({
            "type": "function_call", "call_id": id, "name": name, "arguments": arguments.to_string(), "namespace": name
        }),
        Wire::Gemini => json!({"role": "model", "parts": [{"functionCall": {"name": name, "args": arguments}}]}),
    };
    Turn {
        text: String::new(),
        calls: vec![call.clone()],
        stop: Stop::Tools,
        usage: Usage::default(),
        echo: vec![echo],
    }
}
