//! What deferral saves over a conversation of twenty turns, and what it costs us.
//!
//! `cargo xtask bench-llm [CATALOG]`. Counted are o200k tokens of the compact JSON of all tool
//! definitions that are sent, and the share of each request that is still a prefix of the next
//! one, in the order in which providers cache: tools that are not deferred, system, messages.
//! What of all requests is read from the provider's cache, written to it and neither, is counted
//! by the scripted provider of the test kit, whose cache works by the rules of the real ones; its
//! tokens are four bytes each.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::{sync::Arc, time::Instant};

use pegboard_core::{Catalog, LoadLimits, Secret, Selection, load};
use pegboard_discovery::{DialectName, Session, Settings, ToolDefinition};
use pegboard_engine::{Hinted, Hybrid, Keyword};
use pegboard_llm::{
    Called, Client, Conversation, Delivery, Model, Provider,
    wire::{CallResult, Request, Usage},
};
use pegboard_testkit::provider::{self, Check, Part, Script, Search};
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
    /// What the provider counted over all requests.
    usage: Usage,
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
    let loaded = load::parse(&path, &bytes, &LoadLimits::default()).expect("a catalog");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let bpe = tiktoken_rs::o200k_base().expect("the tokenizer");
    let definitions: Vec<Value> = catalog.iter().map(|tool| ToolDefinition::of(tool, tool.name()).to_json()).collect();
    let all = count(&bpe, &definitions) * TURNS;
    println!("{} tools, {TURNS} turns; all of them in every turn: {all} tokens", catalog.len());
    println!(
        "{:<10} {:<14} {:<28} {:>12} {:>9} {:>10} {:>11} {:>9} {:>9} {:>9}",
        "DIALECT", "DELIVERY", "MODEL", "TOOL TOKENS", "FEWER", "PREFIX", "READ", "WRITTEN", "UNCACHED", "µs/TURN"
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for (dialect, delivery, model) in pairings() {
        let row = runtime.block_on(measure(&catalog, &bpe, dialect, delivery, model));
        let fewer = 100.0 * (1.0 - row.tokens as f64 / all as f64);
        println!(
            "{:<10} {:<14} {:<28} {:>12} {:>7.2} % {:>8.1} % {:>11} {:>9} {:>9} {:>9.0}",
            row.dialect.as_str(),
            row.delivery.as_str(),
            row.model,
            row.tokens,
            fewer,
            100.0 * row.kept,
            row.usage.cached,
            row.usage.cache_written,
            row.usage.input - row.usage.cached - row.usage.cache_written,
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
        (Select, Delivery::Inject, "minimax/MiniMax-M3"),
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

async fn measure(
    catalog: &Catalog,
    bpe: &CoreBPE,
    dialect: DialectName,
    delivery: Delivery,
    model: &'static str,
) -> Row {
    let parsed = Model::parse(model).expect("a model");
    // The catalog is a file, sent as it is: some schemas have no `type`, some names have dots.
    let script = Script::default().without(Check::Required).without(Check::ToolNames);
    let provider = provider::Provider::start(script);
    let client = client(&parsed, provider.url());
    let session = session(catalog, dialect);
    let mut conversation = Conversation::new(parsed, session, Some(delivery)).expect("a conversation");
    conversation.say("Do ten things for me.");
    let (mut tokens, mut times, mut usage) = (0, Vec::new(), Usage::default());
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
        provider.go_on([provider::ScriptedTurn::say(next_parts(&conversation, dialect, delivery, turn))]);
        let said = client.send(&request).await.unwrap_or_else(|error| panic!("{model} {delivery}: {error}"));
        usage.input += said.usage.input;
        usage.cached += said.usage.cached;
        usage.cache_written += said.usage.cache_written;
        let began = Instant::now();
        conversation.record_turn(&said);
        let answer = |call| match conversation.call(call) {
            Called::Answered(result) => result,
            Called::Invoke(_) => CallResult::text(call.clone(), "done"),
        };
        let results: Vec<CallResult> = said.calls.iter().map(answer).collect();
        conversation.add_results(&results);
        spent += began.elapsed();
        times.push(spent.as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let kept = provider.requests().iter().filter_map(|request| request.prefix_share).fold(1.0, f64::min);
    Row { dialect, delivery, model, tokens, kept, usage, overhead: times[times.len() / 2] }
}

fn client(model: &Model, url: &str) -> Client {
    let base = match model.provider {
        Provider::Anthropic => url.to_owned(),
        Provider::OpenAi | Provider::OpenAiResponses => format!("{url}/v1"),
        Provider::Gemini => format!("{url}/v1beta"),
        Provider::MiniMax => format!("{url}/minimax/anthropic"),
        Provider::MiniMaxChat => format!("{url}/minimax/v1"),
    };
    Client::new(model.provider, Secret::new("a-key")).expect("a client").with_base_url(base)
}

/// All definitions that a request carries, those in the answers of searches included.
fn definitions(request: &Request) -> Vec<Value> {
    let in_answers = request.messages.iter().filter(|item| item["type"] == "tool_search_output");
    let in_answers = in_answers.flat_map(|item| item["tools"].as_array().cloned().unwrap_or_default());
    request.tools.iter().cloned().chain(in_answers).collect()
}

/// What the model says next: a search, then a call of what was found last.
fn next_parts(conversation: &Conversation, dialect: DialectName, delivery: Delivery, turn: usize) -> Vec<Part> {
    let query = QUERIES[(turn / 2) % QUERIES.len()];
    let arguments = json!({"query": query});
    let found = conversation.session().visible_names().pop().unwrap_or_default();
    let part = match (turn % 2, dialect, delivery) {
        (_, _, Delivery::Native) => {
            // The provider searches; what it finds is what our search would find.
            let answer = conversation.session().fork().call("tool_search", &arguments);
            let found = answer.reply.to_json()["matches"][0].as_str().unwrap_or_default().to_owned();
            let search = Search { query: Some(query.to_owned()), matches: vec![found.clone()], ..Search::default() };
            let call = Part::call(found, json!({}));
            return if turn.is_multiple_of(2) { vec![Part::Search(search), call] } else { vec![call] };
        }
        (0, _, Delivery::ClientNative) => {
            Part::Search(Search { client: true, arguments: Some(arguments), ..Search::default() })
        }
        (0, DialectName::Bridge, _) => Part::call("search_tools", arguments),
        (0, DialectName::Schema, _) => Part::call("ToolSearch", arguments),
        (0, _, _) => Part::call("tool_search", arguments),
        (_, DialectName::Bridge, _) => Part::call("call_tool", json!({"name": "create_issue", "arguments": {}})),
        _ => Part::call(found, json!({})),
    };
    vec![part]
}
