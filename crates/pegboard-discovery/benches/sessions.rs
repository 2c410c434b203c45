//! What a conversation pays for its tool state: `cargo bench --package pegboard-discovery`.

use std::sync::Arc;

use divan::{Bencher, black_box};
use pegboard_core::{Catalog, RawTool, Selection};
use pegboard_discovery::{DialectName, Session, Settings, transcript::OpenAiChat};
use pegboard_engine::Keyword;
use serde_json::{Value, json};

fn main() {
    divan::main();
}

fn catalog(size: usize) -> Catalog {
    let tool = |at: usize| RawTool {
        name: format!("tool_{at}"),
        description: format!("Does the thing with the number {at}"),
        server: Some(format!("server{}", at / 50)),
        ..RawTool::default()
    };
    Catalog::from_tools((0..size).map(tool).collect()).0
}

fn session(catalog: &Catalog) -> Session {
    let everything = Selection::everything();
    Session::new(DialectName::Select, Settings::default(), catalog.clone(), everything, Arc::new(Keyword::default()))
        .expect("a session")
}

fn select(first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count).map(|at| format!("tool_{at}")).collect();
    format!("select:{}", names.join(","))
}

#[divan::bench]
fn visible_list_of_100_loaded_of_10000(bencher: Bencher<'_, '_>) {
    let mut session = session(&catalog(10_000));
    session.call("tool_search", &json!({"query": select(0, 100)}));
    assert_eq!(session.visible().len(), 101);
    bencher.bench_local(|| black_box(&session).visible());
}

#[divan::bench]
fn rebuild_from_500_messages(bencher: Bencher<'_, '_>) {
    let catalog = catalog(10_000);
    let mut messages: Vec<Value> = Vec::new();
    for turn in 0..125 {
        let id = format!("call_{turn}");
        let names: Vec<String> = (turn * 2..turn * 2 + 2).map(|at| format!("tool_{at}")).collect();
        let function = json!({"name": "tool_search", "arguments": "{}"});
        messages.push(json!({"role": "user", "content": "Please do the next thing"}));
        messages.push(json!({"role": "assistant", "tool_calls": [{"id": id, "function": function}]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": json!({"matches": names}).to_string()}));
        messages.push(json!({"role": "assistant", "content": "Done"}));
    }
    let chat = OpenAiChat { messages };
    bencher.with_inputs(|| (session(&catalog), chat.clone())).bench_local_refs(|(session, chat)| session.follow(chat));
}

#[divan::bench]
fn begin_with_10000_tools(bencher: Bencher<'_, '_>) {
    let catalog = catalog(10_000);
    bencher.bench_local(|| session(black_box(&catalog)));
}
