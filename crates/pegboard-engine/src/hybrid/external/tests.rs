use pegboard_core::{Catalog, Field, Query, Ranker, Ranking, RawTool, Selection};
use proptest::prelude::*;

use super::*;
use crate::Hybrid;

const NAMES: [&str; 6] = ["place_call", "get_weather", "send_mail", "create_issue", "book_flight", "play_song"];

fn catalog() -> Catalog {
    let tool = |name: &&str| {
        let description = format!("It can {}", name.replace('_', " a "));
        RawTool { name: (*name).to_owned(), description, server: Some("s".to_owned()), ..RawTool::default() }
    };
    Catalog::from_tools(NAMES.iter().map(tool).collect()).0
}

/// A table in which each of these tools points along the axis of its number.
fn table(catalog: &Catalog, has_row: impl Fn(usize) -> bool) -> Arc<ToolVectors> {
    let rows = catalog.iter().enumerate().filter(|(at, _)| has_row(*at));
    Arc::new(ToolVectors::new(rows.map(|(at, tool)| (Arc::clone(tool), Arc::new(axis(at))))))
}

fn axis(at: usize) -> Direction {
    // A common part, as models have it.
    let vector: Vec<f32> = (0..8).map(|place| if place == at { 1.0 } else { 0.2 }).collect();
    Direction::of(&vector).expect("a direction")
}

/// Vectors by these texts.
fn vectors(rows: &[(&str, &[f32])]) -> Vectors {
    rows.iter().map(|(text, vector)| ((*text).to_owned(), Arc::from(*vector))).collect()
}

fn rank(ranker: &Hybrid, catalog: &Catalog, query: &str, vector: Option<&[f32]>) -> Ranking {
    rank_by(ranker, catalog, query, &vectors(vector.map(|vector| (query, vector)).as_slice()))
}

fn rank_by(ranker: &Hybrid, catalog: &Catalog, query: &str, vectors: &Vectors) -> Ranking {
    let query = Query::new(query).vectors(Some(vectors)).explain(true).least_confidence(0.0);
    ranker.rank(&query, catalog, &Selection::everything()).expect("a ranking")
}

fn names(ranking: &Ranking) -> Vec<&str> {
    ranking.hits.iter().map(|hit| hit.tool.name()).collect()
}

#[test]
fn it_finds_what_words_and_our_model_do_not() {
    let (catalog, ranker) = (catalog(), Hybrid::default());
    let vector = axis(4).to_vector();
    // Nobody here reads this.
    assert_eq!(names(&rank(&ranker, &catalog, "จองเที่ยวบิน", Some(&vector))), Vec::<&str>::new());
    assert!(ranker.use_vectors(&table(&catalog, |_| true)));
    let ranking = rank(&ranker, &catalog, "จองเที่ยวบิน", Some(&vector));
    assert_eq!(names(&ranking), ["book_flight"]);
    assert_eq!(ranking.hits[0].why[0].field, Field::Meaning);
    assert_eq!(ranking.hits[0].why[0].term, "(embeddings)");
    assert!(names(&rank(&ranker, &catalog, "จองเที่ยวบิน", None)).is_empty(), "without a vector it is as before");
    assert!(names(&rank(&ranker, &catalog, "จองเที่ยวบิน", Some(&[1.0; 5]))).is_empty(), "another length is no vector");
    assert!(names(&rank(&ranker, &catalog, "จองเที่ยวบิน", Some(&[f32::NAN; 8]))).is_empty());
}

/// Our own model cannot say that nothing fits a query that it cannot read.
#[test]
fn what_only_it_reads_is_not_withheld() {
    let filler = (0..100).map(|at| RawTool {
        name: format!("keep_{at}"),
        description: format!("Keeps the thing with the number {at}"),
        ..RawTool::default()
    });
    let named = RawTool { name: "book_flight".to_owned(), ..RawTool::default() };
    let catalog = Catalog::from_tools(std::iter::once(named).chain(filler).collect()).0;
    let ranker = Hybrid::default();
    let rows = catalog.iter().enumerate().map(|(at, tool)| (Arc::clone(tool), Arc::new(axis(at.min(1)))));
    assert!(ranker.use_vectors(&Arc::new(ToolVectors::new(rows))));
    let vector = axis(0).to_vector();
    let vectors = vectors(&[("จองเที่ยวบิน", &vector)]);
    let query = Query::new("จองเที่ยวบิน").vectors(Some(&vectors));
    let ranking = ranker.rank(&query, &catalog, &Selection::everything()).expect("a ranking");
    assert_eq!(names(&ranking), ["book_flight"], "{:?}", ranking.confidence);
}

/// The whole query is near neither of the two tools that it asks for.
#[test]
fn each_of_several_requests_has_a_say() {
    let (catalog, ranker) = (catalog(), Hybrid::default());
    ranker.use_vectors(&table(&catalog, |_| true));
    let query = "จองเที่ยวบิน，เล่นเพลง";
    assert_eq!(ranker.requests(query), ["จองเที่ยวบิน", "เล่นเพลง"]);
    let (whole, flight, song) = (axis(1).to_vector(), axis(4).to_vector(), axis(5).to_vector());
    let all = [(query, &*whole), ("จองเที่ยวบิน", &*flight), ("เล่นเพลง", &*song)];
    assert_eq!(names(&rank_by(&ranker, &catalog, query, &vectors(&all))), ["book_flight", "play_song", "get_weather"]);
    // Of one request alone nothing is learned: that would speak against the other.
    assert_eq!(names(&rank_by(&ranker, &catalog, query, &vectors(&all[..2]))), ["get_weather"]);
}

/// Some tool is always nearest to thanks.
#[test]
fn a_request_that_is_near_to_nothing_brings_no_tool() {
    let (catalog, ranker) = (catalog(), Hybrid::default());
    ranker.use_vectors(&table(&catalog, |_| true));
    let (flight, thanks) = (axis(4).to_vector(), [0.2, 0.2, 0.2, 0.2, 0.2, 0.3, 0.2, 0.2]);
    let all = [("จองเที่ยวบิน，ขอบคุณ", &*flight), ("จองเที่ยวบิน", &*flight), ("ขอบคุณ", &thanks)];
    assert_eq!(names(&rank_by(&ranker, &catalog, "จองเที่ยวบิน，ขอบคุณ", &vectors(&all))), ["book_flight"]);
}

#[test]
fn an_exact_name_stays_first() {
    let (catalog, ranker) = (catalog(), Hybrid::default());
    ranker.use_vectors(&table(&catalog, |_| true));
    let ranking = rank(&ranker, &catalog, "play_song", Some(&axis(0).to_vector()));
    assert_eq!(ranking.hits[0].tool.name(), "play_song");
    assert_eq!(ranking.confidence, Some(1.0));
}

#[test]
fn reasons_add_up() {
    let (catalog, ranker) = (catalog(), Hybrid::default());
    ranker.use_vectors(&table(&catalog, |_| true));
    for hit in rank(&ranker, &catalog, "call somebody about the weather", Some(&axis(1).to_vector())).hits {
        let sum: f64 = hit.why.iter().map(|reason| reason.weight).sum();
        assert!((sum - hit.score).abs() < 1e-6, "{hit:?}");
    }
}

#[test]
fn confidence_is_our_own() {
    let (catalog, ranker) = (catalog(), Hybrid::default());
    let before = rank(&ranker, &catalog, "get the weather", None).confidence;
    ranker.use_vectors(&table(&catalog, |_| true));
    let after = rank(&ranker, &catalog, "get the weather", Some(&axis(5).to_vector())).confidence;
    assert!(after >= before, "{before:?} {after:?}");
}

#[test]
fn a_tool_without_a_row_keeps_its_place() {
    let (catalog, ranker) = (catalog(), Hybrid::default());
    let query = "make a phone call to a colleague";
    let own = rank(&ranker, &catalog, query, None);
    assert_eq!(own.hits[0].tool.name(), "place_call");
    // All others have rows, and the query's vector is nearest to none of them in particular.
    ranker.use_vectors(&table(&catalog, |at| at != 0));
    let with = rank(&ranker, &catalog, query, Some(&Direction::of(&[1.0; 8]).expect("a direction").to_vector()));
    assert_eq!(with.hits[0].tool.name(), "place_call", "it is not punished");
    // Nor favoured: what the other model is sure of comes first.
    let ranking = rank(&ranker, &catalog, "จองเที่ยวบิน", Some(&axis(4).to_vector()));
    assert_eq!(names(&ranking), ["book_flight"]);
}

#[test]
fn a_tool_that_changed_has_no_row() {
    let (catalog, ranker) = (catalog(), Hybrid::default());
    ranker.use_vectors(&table(&catalog, |_| true));
    let changed = RawTool { name: "book_flight".into(), description: "Another".into(), ..RawTool::default() };
    let changed = catalog.with_tool("s/book_flight", changed).expect("a catalog");
    assert!(names(&rank(&ranker, &changed, "จองเที่ยวบิน", Some(&axis(4).to_vector()))).is_empty());
}

proptest! {
    /// Whatever is hidden leaves no trace, and neither does the way to a catalog.
    #[test]
    fn a_selection_equals_a_smaller_catalog(
        vector in prop::collection::vec(-1.0_f32..1.0, 8),
        hidden in prop::collection::vec(any::<bool>(), NAMES.len()),
        rows in prop::collection::vec(any::<bool>(), NAMES.len()),
        request in prop::collection::vec(-1.0_f32..1.0, 8),
        query in "(call|weather|航|mail and flight|zzz)",
    ) {
        let catalog = catalog();
        let ranker = Hybrid::default();
        ranker.use_vectors(&table(&catalog, |at| rows[at]));
        let denied = NAMES.iter().zip(&hidden).filter(|(_, is_hidden)| **is_hidden).map(|(name, _)| *name);
        let selection = Selection::everything().deny(denied.clone());
        let vectors = vectors(&[(&query, &vector), ("mail", &request), ("flight", &vector)]);
        let asked = Query::new(&query).vectors(Some(&vectors)).explain(true).least_confidence(0.0);
        let show = |ranking: Ranking| format!("{:?}", (ranking.hits.iter().map(|hit| (hit.tool.id().to_owned(), hit.score, hit.why.clone())).collect::<Vec<_>>(), ranking.total, ranking.confidence));
        let selected = show(ranker.rank(&asked, &catalog, &selection).unwrap());
        // The tools that are left are the same ones, so they keep their rows.
        let other = Hybrid::default();
        other.use_vectors(&table(&catalog, |at| rows[at] && !hidden[at]));
        prop_assert_eq!(&selected, &show(other.rank(&asked, &catalog, &selection).unwrap()));
        prop_assert_eq!(&selected, &show(ranker.rank(&asked, &catalog, &selection).unwrap()));
    }
}
