//! The hot paths: `cargo bench --package pegboard-engine`.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use divan::{Bencher, black_box};
use pegboard_core::{Catalog, LoadLimits, Query, Ranker, RawTool, Selection, load};
use pegboard_engine::{
    Hinted, Hybrid, Keyword, Lexical, Model, RegexRanker, Sequence,
    analysis::Tokenizer,
    semantic::ToolReader,
    usage::{Boost, BoostSource, HabitSettings, Habits, Lesson, UsageRanker},
};

const DEMO: &[u8] = include_bytes!("../../pegboard-demo/catalog/tools.jsonl");

const QUERIES: [&str; 4] = [
    "create issue",
    "send a message to the channel",
    "wether forcast",
    "find overdue invoices and email the customers, then book a meeting",
];

fn main() {
    divan::main();
}

/// The demo catalog over and over, under other server names.
fn catalog(size: usize) -> Catalog {
    let tools = load::parse("demo", DEMO, &LoadLimits::default()).expect("the demo catalog").tools;
    let copy = |at: usize| {
        let tool = &tools[at % tools.len()];
        let server = format!("{}-{}", tool.server.as_deref().unwrap_or("none"), at / tools.len());
        RawTool { server: Some(server), ..tool.clone() }
    };
    Catalog::from_tools((0..size).map(copy).collect()).0
}

fn search(bencher: Bencher<'_, '_>, ranker: &dyn Ranker, size: usize, query: &str) {
    let catalog = catalog(size);
    let everything = Selection::everything();
    let query = Query::new(query);
    // The first search builds what the ranker keeps for the catalog.
    let _ = ranker.rank(&query, &catalog, &everything);
    bencher.bench(|| ranker.rank(black_box(&query), &catalog, &everything));
}

#[divan::bench(args = QUERIES)]
fn lexical_200(bencher: Bencher<'_, '_>, query: &str) {
    search(bencher, &Lexical::default(), 200, query);
}

#[divan::bench(args = QUERIES)]
fn lexical_10000(bencher: Bencher<'_, '_>, query: &str) {
    search(bencher, &Lexical::default(), 10_000, query);
}

/// Habits as many as are kept, of words like those of the queries.
#[derive(Debug)]
struct Learned(Habits);

impl BoostSource for Learned {
    fn boosts(&self, query: &str, is_visible: &dyn Fn(&str) -> bool) -> Vec<Boost> {
        self.0.boosts(query, 0, is_visible)
    }
}

#[divan::bench(args = QUERIES)]
fn habits_10000(bencher: Bencher<'_, '_>, query: &str) {
    let words: Vec<&str> = QUERIES.iter().flat_map(|query| query.split(' ')).collect();
    let mut habits = Habits::new(HabitSettings::default());
    for at in 0..4000 {
        let word = |step: usize| words[at * step % words.len()];
        let query = format!("{} {} {} {}", word(1), word(7), word(11), ["old", "new", "red", "big"][at % 4]);
        let tool = format!("github-{}/create_issue", at % 40);
        Lesson::new(&query, &tool, 1.0, 0).into_iter().for_each(|lesson| habits.learn(lesson));
    }
    let ranker = UsageRanker::new(Arc::new(Lexical::default()), Arc::new(Learned(habits)));
    search(bencher, &ranker, 10_000, query);
}

#[divan::bench(args = QUERIES)]
fn hybrid_200(bencher: Bencher<'_, '_>, query: &str) {
    search(bencher, &Hybrid::default(), 200, query);
}

#[divan::bench(args = QUERIES)]
fn hybrid_10000(bencher: Bencher<'_, '_>, query: &str) {
    search(bencher, &Hybrid::default(), 10_000, query);
}

/// No tool has a word of it, so that what is measured is the scan.
#[divan::bench(args = [1000, 10_000, 100_000])]
fn hybrid_by_meaning_alone(bencher: Bencher<'_, '_>, size: usize) {
    search(bencher, &Hybrid::default(), size, "telephone grandmother");
}

#[divan::bench]
fn embed_a_query(bencher: Bencher<'_, '_>) {
    let model = Model::embedded();
    bencher.bench(|| model.query_vector(black_box(QUERIES[3])));
}

#[divan::bench]
fn embed_1000_tools(bencher: Bencher<'_, '_>) {
    let catalog = catalog(1000);
    let model = Model::embedded();
    let mut reader = ToolReader::default();
    bencher.bench_local(|| catalog.iter().map(|tool| reader.read(black_box(tool), model).scale()).sum::<f32>());
}

#[divan::bench]
fn read_the_model() -> usize {
    let bytes = include_bytes!("../model/pegboard.model");
    Model::parse(std::borrow::Cow::Borrowed(black_box(bytes))).map_or(0, |model| model.dims())
}

#[divan::bench]
fn lexical_10000_under_a_selection(bencher: Bencher<'_, '_>) {
    let catalog = catalog(10_000);
    let ranker = Lexical::default();
    let selection = Selection::everything().allow_servers(["github-0", "slack-0", "mail-3"]);
    ranker.prepare(&catalog);
    bencher.bench(|| ranker.rank(black_box(&Query::new("create issue")), &catalog, &selection));
}

#[divan::bench]
fn lexical_build_1000(bencher: Bencher<'_, '_>) {
    let catalog = catalog(1000);
    bencher.bench(|| Lexical::default().prepare(black_box(&catalog)));
}

#[divan::bench]
fn lexical_replace_one_of_10000(bencher: Bencher<'_, '_>) {
    let catalog = catalog(10_000);
    let ranker = Lexical::default();
    ranker.prepare(&catalog);
    let round = AtomicUsize::new(0);
    bencher
        .with_inputs(|| {
            let round = round.fetch_add(1, Ordering::Relaxed);
            let description = format!("another description, number {round}");
            let raw = RawTool { name: "create_issue".into(), description, ..RawTool::default() };
            catalog.with_tool("github-7/create_issue", raw).expect("the tool is there")
        })
        .bench_values(|changed| ranker.rank(&Query::new("create issue"), &changed, &Selection::everything()));
}

#[divan::bench]
fn regex_1000(bencher: Bencher<'_, '_>) {
    search(bencher, &RegexRanker::default(), 1000, "create_.*|issue");
}

#[divan::bench]
fn keyword_1000(bencher: Bencher<'_, '_>) {
    search(bencher, &Keyword::default(), 1000, "create issue");
}

#[divan::bench]
fn sequence_1000(bencher: Bencher<'_, '_>) {
    search(bencher, &Sequence::default(), 1000, "create an issue");
}

#[divan::bench]
fn hinted_1000(bencher: Bencher<'_, '_>) {
    search(bencher, &Hinted::default(), 1000, "create issue");
}

#[divan::bench]
fn tokenize_the_demo_catalog(bencher: Bencher<'_, '_>) {
    let text = String::from_utf8_lossy(DEMO);
    bencher.bench(|| {
        let mut count = 0;
        Tokenizer::default().tokenize(black_box(&text), &mut |_| count += 1);
        count
    });
}
