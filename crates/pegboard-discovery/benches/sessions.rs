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

/// A tool such as trackers have: text, numbers, lists, choices.
fn issue() -> (Session, Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "owner": {"type": "string", "description": "Whose it is", "minLength": 1},
            "repo": {"type": "string", "pattern": "^[A-Za-z0-9._-]+$"},
            "title": {"type": "string"},
            "body": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
            "state": {"type": "string", "enum": ["open", "closed", "all"]},
            "page": {"type": "integer", "minimum": 1, "maximum": 100}
        },
        "required": ["owner", "repo", "title"],
        "additionalProperties": false
    });
    let input_schema = serde_json::value::to_raw_value(&schema).ok();
    let tool = RawTool { name: "create_issue".to_owned(), input_schema, ..RawTool::default() };
    let (catalog, _) = Catalog::from_tools(vec![tool]);
    let ranker = Arc::new(Keyword::default());
    let session =
        Session::expecting(DialectName::Bridge, Settings::default(), catalog, Selection::everything(), ranker);
    let arguments = json!({
        "owner": "someone", "repo": "some.thing", "title": "It does not work", "body": "It does not.",
        "labels": ["bug", "help wanted"], "state": "open", "page": 3
    });
    (session, arguments)
}

#[divan::bench]
fn call_that_fits(bencher: Bencher<'_, '_>) {
    let (mut session, arguments) = issue();
    assert!(!session.call("create_issue", &arguments).is_error);
    bencher.bench_local(move || session.call("create_issue", black_box(&arguments)));
}

#[divan::bench]
fn call_that_is_not_checked(bencher: Bencher<'_, '_>) {
    let (session, arguments) = issue();
    let mut settings = Settings::default();
    settings.validation.is_on = Some(false);
    let ranker = Arc::new(Keyword::default());
    let catalog = session.catalog().clone();
    let mut session = Session::expecting(DialectName::Bridge, settings, catalog, Selection::everything(), ranker);
    bencher.bench_local(move || session.call("create_issue", black_box(&arguments)));
}

#[divan::bench]
fn call_that_does_not_fit(bencher: Bencher<'_, '_>) {
    let (mut session, mut arguments) = issue();
    arguments["titel"] = arguments["title"].take();
    assert!(session.call("create_issue", &arguments).is_misfit);
    bencher.bench_local(move || session.call("create_issue", black_box(&arguments)));
}

#[divan::bench]
fn schema_that_is_read_for_the_first_time(bencher: Bencher<'_, '_>) {
    let (session, _) = issue();
    let tool = session.find("create_issue").expect("it is there");
    let text = tool.input_schema().expect("a schema").to_owned();
    bencher.bench_local(move || pegboard_discovery::arguments::Schema::read(black_box(&text)));
}

/// Five tools such as trackers have, each parameter described.
fn described() -> Session {
    let text = |description: &str| json!({"type": "string", "description": description});
    let schema = json!({
        "properties": {
            "project": text("Project ID or URL-encoded path"),
            "since": text("Only issues after this time (ISO 8601, e.g. 2024-01-31T08:00:00Z)"),
            "labels": text("Comma-separated list of labels"),
            "order": text("Order of the results: 'asc' or 'desc'. Defaults to 'desc'"),
            "owner": text("The owner of the project"),
            "page": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Page to return"}
        },
        "required": ["project", "since"]
    });
    let tool = |at: usize| RawTool {
        name: format!("list_issues_{at}"),
        input_schema: serde_json::value::to_raw_value(&schema).ok(),
        ..RawTool::default()
    };
    let (catalog, _) = Catalog::from_tools((0..5).map(tool).collect());
    let ranker = Arc::new(Keyword::default());
    Session::expecting(DialectName::Bridge, Settings::default(), catalog, Selection::everything(), ranker)
}

#[divan::bench]
fn search_answer(bencher: Bencher<'_, '_>) {
    let (mut session, query) = (described(), json!({"query": "list issues"}));
    let answer = session.call("search_tools", &query).reply.to_text();
    assert!(answer.contains("ISO 8601"), "{answer}");
    bencher.bench_local(move || session.call("search_tools", black_box(&query)));
}

#[divan::bench]
fn search_answer_for_the_first_time(bencher: Bencher<'_, '_>) {
    let query = json!({"query": "list issues"});
    bencher.with_inputs(described).bench_local_refs(|session| session.call("search_tools", black_box(&query)));
}
