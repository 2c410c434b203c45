//! What the loop itself costs: a run of twenty turns at the size of a real fleet, with a model
//! that answers at once and tools that do nothing.
//!
//! `cargo bench -p pegboard-agent --bench turns`. One item is one turn.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use divan::{Bencher, counter::ItemsCount};
use pegboard_agent::{Agent, DialectName, Model, ModelClient, RunLimits, ToolSearch, TurnFuture};
use pegboard_llm::{
    Conversation,
    wire::{Delta, Stop, ToolCall, Turn, Usage},
};
use pegboard_mcp::json::{Raw, raw};
use pegboard_upstream::{
    AnswerFuture, LocalServer,
    config::{ServerConfig, TransportConfig},
};
use serde_json::{Value, json};

const TURNS: usize = 20;

/// As many as the real tool lists that this project is measured on.
const TOOLS: usize = 2529;

fn main() {
    divan::main();
}

/// Searches, calls what it knows, and ends after twenty turns.
#[derive(Debug)]
struct Model20 {
    dialect: DialectName,
    turn: AtomicUsize,
}

impl Model20 {
    fn call(&self, turn: usize) -> (&'static str, Value) {
        let tool = format!("do_thing_{}", turn * 97 % TOOLS);
        match (self.dialect, turn % 2) {
            (DialectName::Bridge, 0) => ("search_tools", json!({"query": format!("thing {turn}")})),
            (DialectName::Bridge, _) => ("call_tool", json!({"name": tool, "arguments": {"what": "it"}})),
            (_, 0) => ("add_tool", json!({"tool_names": [tool]})),
            _ => ("search_tools", json!({"query": format!("thing_{turn}\\d?$")})),
        }
    }
}

impl ModelClient for Model20 {
    fn next_turn<'a>(
        &'a self,
        conversation: &'a mut Conversation,
        _: &'a mut (dyn FnMut(Delta) + Send),
    ) -> TurnFuture<'a> {
        Box::pin(async move {
            let request = conversation.request(true)?;
            divan::black_box(conversation.wire().body(&request).to_string());
            let number = self.turn.fetch_add(1, Ordering::Relaxed);
            let is_last = (number + 1).is_multiple_of(TURNS);
            let (name, arguments) = self.call(number);
            let id = format!("toolu_{number}");
            let content = match is_last {
                true => json!([{"type": "text", "text": "Done."}]),
                false => json!([{"type": "tool_use", "id": id, "name": name, "input": arguments}]),
            };
            let call = ToolCall { id, name: name.to_owned(), arguments, is_search: false };
            let turn = Turn {
                text: if is_last { "Done.".to_owned() } else { String::new() },
                calls: if is_last { Vec::new() } else { vec![call] },
                stop: if is_last { Stop::End } else { Stop::Tools },
                usage: Usage::default(),
                echo: vec![json!({"role": "assistant", "content": content})],
            };
            conversation.record_turn(&turn);
            Ok(turn)
        })
    }
}

/// A server with many tools that do nothing.
#[derive(Debug)]
struct Idle;

impl LocalServer for Idle {
    fn answer<'a>(&'a self, method: &'a str, _: Option<Raw>) -> AnswerFuture<'a> {
        let tool = |at: usize| {
            json!({
                "name": format!("do_thing_{at}"),
                "description": format!("Does thing {at} to whatever it is given, and says what came of it in a sentence."),
                "inputSchema": {"type": "object", "properties": {
                    "what": {"type": "string", "description": "What to do it to"},
                    "how": {"type": "string", "enum": ["fast", "slow"]},
                    "times": {"type": "integer", "minimum": 1}
                }, "required": ["what"]}
            })
        };
        let result = match method {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
            "tools/list" => json!({"tools": (0..TOOLS).map(tool).collect::<Vec<_>>()}),
            _ => json!({"content": [{"type": "text", "text": "done"}]}),
        };
        Box::pin(std::future::ready(Ok(raw(&result))))
    }
}

/// The first run of an agent, with the making of its index.
#[divan::bench(args = ["bridge", "explicit"], sample_count = 30, sample_size = 1)]
fn first_twenty_turns(bencher: Bencher<'_, '_>, dialect: &str) {
    turns(bencher, dialect, 0);
}

/// A later one, with a history of twenty turns behind it.
#[divan::bench(args = ["bridge", "explicit"], sample_count = 30, sample_size = 1)]
fn next_twenty_turns(bencher: Bencher<'_, '_>, dialect: &str) {
    turns(bencher, dialect, 1);
}

fn turns(bencher: Bencher<'_, '_>, dialect: &str, runs_before: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let dialect = DialectName::ALL.into_iter().find(|one| one.as_str() == dialect).expect("a dialect");
    let server = || ServerConfig::new("idle", TransportConfig::Local(Arc::new(Idle)));
    bencher
        .counter(ItemsCount::new(TURNS))
        .with_inputs(|| {
            let model = Model::parse("anthropic/claude-opus-4-8").expect("a model");
            let agent = Agent::builder(model)
                .client(Model20 { dialect, turn: AtomicUsize::new(0) })
                .tool_search(ToolSearch::with_dialect(dialect))
                .servers([server()])
                .limits(RunLimits { turns: 100, ..RunLimits::default() })
                .build();
            let agent = runtime.block_on(agent).expect("an agent");
            for _ in 0..runs_before {
                runtime.block_on(agent.run("Do twenty things")).expect("an answer");
            }
            agent
        })
        .bench_values(|agent| {
            let answer = runtime.block_on(agent.run("Do twenty things")).expect("an answer");
            assert_eq!(answer.turns as usize, TURNS);
            agent
        });
}
