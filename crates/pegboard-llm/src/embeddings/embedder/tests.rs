use std::{fs, path::PathBuf};

use pegboard_core::{Catalog, Query, RawTool, Selection, Server, ToolVectors, Vectors, vectors::QueryTexts};
use pegboard_engine::Hybrid;
use pegboard_testkit::embedder::{Behavior, Endpoint, EndpointLimits};
use tokio::runtime::Handle;

use super::*;
use crate::embeddings::EmbeddingRanker;

/// Nothing that is answered takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Long enough for a request to reach an endpoint that then says nothing.
const SOON: Duration = Duration::from_secs(3);

struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pegboard-embedder-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn raw(count: usize) -> Vec<RawTool> {
    let tool = |at| RawTool { name: format!("tool_{at}"), description: format!("thing {at}"), ..RawTool::default() };
    (0..count).map(tool).collect()
}

fn catalog(count: usize) -> Catalog {
    let server = Server { name: "s".into(), ..Server::default() };
    Catalog::empty().with_server(server, raw(count)).0
}

fn embedder(endpoint: &Endpoint, place: Option<&Place>) -> Arc<Embedder> {
    embedder_of(EndpointSettings::new(endpoint.url(), "test-model"), place)
}

/// One that waits for whatever comes.
fn embedder_of(settings: EndpointSettings, place: Option<&Place>) -> Arc<Embedder> {
    let settings = EndpointSettings { timeout: PATIENCE, query_timeout: PATIENCE, ..settings };
    Arc::new(Embedder::new(settings, place.map(|place| place.0.as_path())).expect("an embedder"))
}

/// One that gives up queries soon, for endpoints that do not answer them.
fn impatient(endpoint: &Endpoint) -> Arc<Embedder> {
    let settings = EndpointSettings::new(endpoint.url(), "test-model");
    let settings = EndpointSettings { timeout: PATIENCE, query_timeout: SOON, ..settings };
    Arc::new(Embedder::new(settings, None).expect("an embedder"))
}

/// The last table, and what became of it.
async fn tools(embedder: &Embedder, catalog: &Catalog) -> (Arc<ToolVectors>, Result<(), EmbeddingError>) {
    let mut last = Arc::default();
    let done = embedder.embed_tools(catalog, &ToolVectors::default(), &mut |table| last = Arc::clone(table)).await;
    (last, done)
}

async fn asked(embedder: &Embedder, query: &str) -> bool {
    embedder.embed_queries(vec![query.into()]).await.get(query).is_some()
}

#[tokio::test]
async fn after_a_restart_nothing_is_asked_for() {
    let (endpoint, place) = (Endpoint::start(EndpointLimits::default()), Place::new("restart"));
    let (catalog, larger) = (catalog(40), catalog(43));
    let (first, done) = tools(&embedder(&endpoint, Some(&place)), &catalog).await;
    assert!(done.is_ok());
    assert_eq!((first.len(), endpoint.requests().len()), (40, 2));
    let (again, _) = tools(&embedder(&endpoint, Some(&place)), &catalog).await;
    assert_eq!((again.len(), endpoint.requests().len()), (40, 2), "all of it is known");
    assert!(catalog.iter().all(|tool| first.row(tool) == again.row(tool)), "and to the last bit the same");
    // Only what is new is asked for.
    tools(&embedder(&endpoint, Some(&place)), &larger).await.1.expect("vectors");
    assert_eq!(endpoint.requests().last().map(Vec::len), Some(3));
    // Another model, other dimensions or another prefix is another vector.
    let base = EndpointSettings::new(endpoint.url(), "test-model");
    let other = EndpointSettings { document_prefix: "passage: ".into(), ..base.clone() };
    tools(&embedder_of(other, Some(&place)), &catalog).await.1.expect("vectors");
    assert!(
        endpoint.requests().last().is_some_and(|texts| texts.iter().all(|text| text.starts_with("passage: s tool")))
    );
    let other = EndpointSettings { dimensions: Some(8), ..base.clone() };
    assert_eq!(tools(&embedder_of(other, Some(&place)), &catalog).await.0.dimensions(), 8);
    let other = EndpointSettings { model: "other".into(), ..base };
    let (table, done) = tools(&embedder_of(other, Some(&place)), &catalog).await;
    assert!(table.is_empty() && done.is_err_and(|error| error.to_string().contains("404")));
}

#[tokio::test]
async fn what_came_before_a_failure_is_kept() {
    let (endpoint, place) = (Endpoint::start(EndpointLimits::default()), Place::new("failure"));
    tools(&embedder(&endpoint, Some(&place)), &catalog(32)).await.1.expect("vectors");
    let before = endpoint.requests().len();
    for conduct in
        [Behavior::Half, Behavior::Garbage, Behavior::NotANumber, Behavior::Breaks, Behavior::Refuses(500, Some(0))]
    {
        endpoint.set_behavior(conduct.clone());
        let (table, done) = tools(&embedder(&endpoint, Some(&place)), &catalog(40)).await;
        assert!(done.is_err(), "{conduct:?}");
        assert_eq!(table.len(), 32, "{conduct:?}: the others have theirs");
    }
    let is_small = |texts: &Vec<String>| texts.len() == 8 || texts[0] == "tool";
    assert!(endpoint.requests()[before..].iter().all(is_small), "the known ones are not asked for");
    endpoint.set_behavior(Behavior::Answers);
    assert_eq!(tools(&embedder(&endpoint, Some(&place)), &catalog(40)).await.0.len(), 40);
}

#[tokio::test]
async fn another_model_under_the_same_name_is_noticed() {
    let (endpoint, place) = (Endpoint::start(EndpointLimits::default()), Place::new("swapped"));
    tools(&embedder(&endpoint, Some(&place)), &catalog(40)).await.1.expect("vectors");
    endpoint.set_behavior(Behavior::Dimensions(32));
    let (table, done) = tools(&embedder(&endpoint, Some(&place)), &catalog(41)).await;
    assert!(done.is_ok());
    assert_eq!((table.dimensions(), table.len()), (32, 41), "all were embedded again");
    let before = endpoint.requests().len();
    assert_eq!(tools(&embedder(&endpoint, Some(&place)), &catalog(41)).await.0.dimensions(), 32);
    assert_eq!(endpoint.requests().len(), before, "the old ones are forgotten");
}

#[tokio::test]
async fn a_doubt_is_looked_into() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let embedder = embedder(&endpoint, None);
    let catalog = catalog(40);
    let (mut table, _) = tools(&embedder, &catalog).await;
    let before = endpoint.requests().len();
    let old = Arc::clone(&table);
    embedder
        .refresh_if_dimensions_changed(&catalog, &old, &mut |new| table = Arc::clone(new))
        .await
        .expect("an answer");
    assert_eq!(endpoint.requests().len(), before + 1, "one text tells");
    assert!(catalog.iter().all(|tool| table.row(tool) == old.row(tool)), "all is as it was");
    // What is new meanwhile is not forgotten over it.
    let larger = catalog.with_server(Server { name: "s".into(), ..Server::default() }, raw(41)).0;
    embedder.refresh_if_dimensions_changed(&larger, &old, &mut |new| table = Arc::clone(new)).await.expect("vectors");
    assert_eq!((table.len(), endpoint.requests().len()), (41, before + 3));
    // Without a table there is nothing to doubt.
    let none = ToolVectors::default();
    embedder.refresh_if_dimensions_changed(&catalog, &none, &mut |new| table = Arc::clone(new)).await.expect("vectors");
    assert_eq!((table.len(), endpoint.requests().len()), (40, before + 5));
    endpoint.set_behavior(Behavior::Dimensions(32));
    assert!(!asked(&embedder, "a").await);
    let old = Arc::clone(&table);
    embedder.refresh_if_dimensions_changed(&catalog, &old, &mut |new| table = Arc::clone(new)).await.expect("vectors");
    assert_eq!((table.dimensions(), table.len()), (32, 40));
    assert!(asked(&embedder, "a").await);
}

#[tokio::test]
async fn queries_are_remembered_and_asked_for_together() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let settings =
        EndpointSettings { query_prefix: "query: ".into(), ..EndpointSettings::new(endpoint.url(), "test-model") };
    let embedder = embedder_of(settings, None);
    assert!(!asked(&embedder, "a").await, "there is nothing to compare with yet");
    assert!(endpoint.requests().is_empty());
    tools(&embedder, &catalog(2)).await.1.expect("vectors");
    let vectors = embedder.embed_queries(vec!["a".into(), "b".into(), " ".into(), "a".into()]).await;
    assert!(vectors.get("a").is_some() && vectors.get("b").is_some() && vectors.get(" ").is_none());
    assert_eq!(endpoint.requests().last(), Some(&vec!["query: a".to_owned(), "query: b".to_owned()]));
    let before = endpoint.requests().len();
    assert!(asked(&embedder, "b").await);
    assert_eq!(endpoint.requests().len(), before);
    let status = embedder.status();
    assert_eq!((status.fetched, status.known, status.failed), (2, 1, 0));
}

#[tokio::test]
async fn what_nobody_may_see_is_not_sent() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let embedder = Embedder::new(EndpointSettings::new(endpoint.url(), "test-model"), None).expect("an embedder");
    let embedder = embedder.with_selection(Selection::everything().deny(["s:tool_1"]));
    let (table, done) = tools(&embedder, &catalog(3)).await;
    assert!(done.is_ok());
    assert_eq!((table.len(), embedder.status().tools), (2, 2));
    assert!(!endpoint.requests().concat().iter().any(|text| text.contains("thing 1")));
}

#[tokio::test]
async fn one_tool_that_is_refused_does_not_stop_the_others() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    // The server comes first, so every half of the text has the word.
    let server = Server { name: "poison poison poison poison poison poison".into(), ..Server::default() };
    let catalog = catalog(40).with_server(server, raw(1)).0;
    for conduct in [Behavior::RefusesWord("poison", 500), Behavior::ZerosFor("poison")] {
        endpoint.set_behavior(conduct.clone());
        let embedder = embedder(&endpoint, None);
        let (table, done) = tools(&embedder, &catalog).await;
        assert!(done.is_ok(), "{conduct:?}: {done:?}");
        assert_eq!((table.len(), embedder.status().refused), (40, 1), "{conduct:?}");
    }
}

#[tokio::test]
async fn one_query_that_is_refused_is_nobody_elses_concern() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let embedder = embedder(&endpoint, None);
    tools(&embedder, &catalog(2)).await.1.expect("vectors");
    endpoint.set_behavior(Behavior::RefusesWord("poison", 400));
    for at in 0..5 {
        let bad = format!("poison poison poison poison {at}");
        let vectors = embedder.embed_queries(vec![bad.clone().into(), "good".into()]).await;
        assert!(vectors.get(&bad).is_none() && vectors.get("good").is_some());
        assert!(!asked(&embedder, &format!("poison poison poison poison alone {at}")).await);
    }
    let status = embedder.status();
    assert_eq!((status.fetched, status.failed, status.skipped), (1, 10, 0));
    assert_eq!(status.problem, None);
}

fn several(whole: &str, requests: &[&str]) -> QueryTexts {
    QueryTexts { whole: whole.into(), requests: requests.iter().map(|one| (*one).to_owned()).collect() }
}

#[tokio::test]
async fn requests_that_take_too_long_cost_the_query_nothing() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let embedder = impatient(&endpoint);
    tools(&embedder, &catalog(2)).await.1.expect("vectors");
    endpoint.set_behavior(Behavior::HangsAt("slow"));
    let before = endpoint.requests().len();
    for at in 0..4 {
        let whole = format!("slow and fast {at}");
        let vectors = embedder.embed_queries(vec![several(&whole, &["slow", "fast"])]).await;
        assert!(vectors.get(&whole).is_some() && vectors.get("fast").is_none());
    }
    let status = embedder.status();
    assert_eq!((status.fetched, status.failed, status.skipped), (4, 4, 4), "requests are given up, queries not");
    assert_eq!((status.problem, endpoint.requests().len() - before), (None, 6));
    // Without the whole they are of no use.
    endpoint.set_behavior(Behavior::RefusesWord("poison", 400));
    embedder.embed_queries(vec![several("poison", &["one", "two"])]).await;
    let status = embedder.status();
    assert_eq!((status.failed, status.skipped), (5, 6));
}

#[tokio::test]
async fn the_same_call_has_the_same_vectors_again() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let embedder = embedder(&endpoint, None);
    tools(&embedder, &catalog(2)).await.1.expect("vectors");
    let requests = |name: &str| -> Vec<String> { (0..12).map(|at| format!("{name}{at}")).collect() };
    let query = |name: &str| QueryTexts { whole: name.into(), requests: requests(name) };
    let queries = vec![query("a"), query("b"), query("c")];
    let vectors = embedder.embed_queries(queries.clone()).await;
    let has_all = |name: &str| requests(name).iter().all(|text| vectors.get(text).is_some());
    assert!(has_all("a") && has_all("b") && vectors.get("c").is_some() && vectors.get("c0").is_none());
    assert_eq!(endpoint.requests().last().map(Vec::len), Some(24), "nothing is paid for in vain");
    let before = endpoint.requests().len();
    assert_eq!(embedder.embed_queries(queries).await, vectors);
    assert_eq!((endpoint.requests().len(), embedder.status().skipped), (before, 24));
}

#[tokio::test]
async fn many_searches_are_few_requests_at_once() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let embedder = impatient(&endpoint);
    tools(&embedder, &catalog(2)).await.1.expect("vectors");
    let before = endpoint.requests().len();
    endpoint.set_behavior(Behavior::Hangs);
    let many: Vec<_> = (0..MAX_CONCURRENT_QUERIES + 20)
        .map(|at| {
            let embedder = Arc::clone(&embedder);
            tokio::spawn(async move { asked(&embedder, &at.to_string()).await })
        })
        .collect();
    for one in many {
        assert!(!one.await.expect("an answer"));
    }
    assert_eq!(endpoint.requests().len() - before, MAX_CONCURRENT_QUERIES);
    assert_eq!(embedder.status().skipped, 20);
}

#[tokio::test]
async fn a_dead_endpoint_costs_two_waits() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let embedder = impatient(&endpoint);
    tools(&embedder, &catalog(2)).await.1.expect("vectors");
    let before = endpoint.requests().len();
    endpoint.set_behavior(Behavior::Hangs);
    for query in ["a", "b", "c", "d"] {
        assert!(!asked(&embedder, query).await);
    }
    assert_eq!(endpoint.requests().len() - before, 2, "then it is left alone");
    let status = embedder.status();
    assert_eq!((status.failed, status.skipped), (2, 2));
    assert_eq!(status.problem.as_deref(), Some("the endpoint did not respond within 3 s"));
}

#[tokio::test]
async fn a_vector_of_another_length_is_not_used() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let embedder = embedder(&endpoint, None);
    tools(&embedder, &catalog(2)).await.1.expect("vectors");
    endpoint.set_behavior(Behavior::Dimensions(5));
    assert!(!asked(&embedder, "a").await);
    let problem = "the endpoint's vectors have 5 dimensions; those of the tools have 64";
    assert_eq!(embedder.status().problem.as_deref(), Some(problem));
    endpoint.set_behavior(Behavior::Answers);
    assert!(asked(&embedder, "a").await);
    assert_eq!(embedder.status().problem, None);
}

#[tokio::test]
async fn kept_queries_are_known_after_a_restart() {
    let (endpoint, place) = (Endpoint::start(EndpointLimits::default()), Place::new("queries"));
    let (queries, limit) = (["a".into(), "b".into()], PATIENCE);
    let first = embedder(&endpoint, Some(&place)).embed_cached_queries(&queries, limit).await.expect("vectors");
    let again = embedder(&endpoint, Some(&place)).embed_cached_queries(&queries, limit).await.expect("vectors");
    assert_eq!(first, again);
    assert_eq!(endpoint.requests().len(), 1);
    // Others are not written down.
    for at in 2..4 {
        embedder(&endpoint, Some(&place)).embed_query(&"c".into(), limit).await.expect("vectors");
        assert_eq!(endpoint.requests().len(), at);
    }
}

#[tokio::test]
async fn kept_queries_of_another_model_are_fetched_again() {
    let (endpoint, place) = (Endpoint::start(EndpointLimits::default()), Place::new("old-queries"));
    let (queries, limit) = (["a".into()], PATIENCE);
    let length = |vectors: Vectors| vectors.get("a").map(<[f32]>::len);
    embedder(&endpoint, Some(&place)).embed_cached_queries(&queries, limit).await.expect("vectors");
    endpoint.set_behavior(Behavior::Dimensions(32));
    for _ in 0..2 {
        let embedder = embedder(&endpoint, Some(&place));
        tools(&embedder, &catalog(2)).await.1.expect("vectors");
        assert_eq!(length(embedder.embed_cached_queries(&queries, limit).await.expect("vectors")), Some(32));
    }
    assert_eq!(endpoint.requests().len(), 3, "once each");
    // Here the tools are the ones that are known.
    endpoint.set_behavior(Behavior::Answers);
    let embedder = embedder(&endpoint, Some(&place));
    tools(&embedder, &catalog(2)).await.1.expect("vectors");
    let error = embedder.embed_query(&"b".into(), limit).await.expect_err("not to be compared");
    assert!(error.hint().is_some_and(|hint| hint.contains("behind this name has changed")), "{error}");
}

#[tokio::test]
async fn a_late_vector_of_the_old_model_is_not_used() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let embedder = embedder(&endpoint, None);
    tools(&embedder, &catalog(2)).await.1.expect("vectors");
    lock(&embedder.recent).put("a", direction(&[1.0, 2.0]).expect("a direction"));
    assert_eq!(embedder.embed_queries(vec!["a".into()]).await.get("a").map(<[f32]>::len), Some(64));
}

/// Waits until as many tools have a vector.
async fn embedded(embedder: &Embedder, count: usize) {
    let wait = async {
        while embedder.status().embedded != count {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(waited.is_ok(), "{:?}", embedder.status());
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_embedded_in_the_background_as_catalogs_come_by() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    endpoint.means(&["航班"], "thing");
    let embedder = embedder(&endpoint, None);
    let ranker = EmbeddingRanker::wrap(Arc::new(Hybrid::default()), &embedder, &Handle::current());
    let first = catalog(3);
    ranker.prepare(&first);
    embedded(&embedder, 3).await;
    let source = ranker.vector_source().expect("a source");
    let vectors = source.ask(vec!["航班 2".into()]).await;
    let query = Query::new("航班 2").vectors(Some(&vectors)).least_confidence(0.0);
    let ranking = ranker.rank(&query, &first, &Selection::everything()).expect("a ranking");
    assert_eq!(ranking.hits.first().map(|hit| hit.tool.name()), Some("tool_2"));
    // The next catalog shares its old tools with this one.
    let second = first.with_server(Server { name: "s".into(), ..Server::default() }, raw(5)).0;
    let _ = ranker.rank(&Query::new("thing"), &second, &Selection::everything());
    embedded(&embedder, 5).await;
    let documents: Vec<usize> =
        endpoint.requests().iter().filter(|texts| texts[0].starts_with("s tool")).map(Vec::len).collect();
    assert_eq!(documents, [3, 2]);
    // A holder of the old catalog does not turn it back.
    let _ = ranker.rank(&Query::new("thing"), &first, &Selection::everything());
    embedded(&embedder, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_ranker_takes_over_what_is_known() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let (embedder, catalog) = (embedder(&endpoint, None), catalog(3));
    let make = || EmbeddingRanker::wrap(Arc::new(Hybrid::default()), &embedder, &Handle::current());
    let first = make();
    first.prepare(&catalog);
    embedded(&embedder, 3).await;
    assert!(asked(&embedder, "a").await);
    let before = endpoint.requests().len();
    drop(first);
    let second = make();
    assert_eq!(second.requests("航班预订，播放歌曲"), ["航班预订", "播放歌曲"]);
    second.prepare(&catalog);
    // It has them when it ranks with them.
    let vectors = embedder.embed_queries(vec!["thing 2".into(), "a".into()]).await;
    let query = Query::new("thing 2").vectors(Some(&vectors)).explain(true);
    let wait = async {
        while !format!("{:?}", second.rank(&query, &catalog, &Selection::everything())).contains("(embeddings)") {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok());
    assert_eq!(endpoint.requests()[before..], [["thing 2".to_owned()]]);
    assert_eq!(embedder.status().known, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_catalog_is_not_kept_waiting_by_a_failure() {
    let (endpoint, place) = (Endpoint::start(EndpointLimits::default()), Place::new("pause"));
    let known = catalog(5);
    tools(&embedder(&endpoint, Some(&place)), &known).await.1.expect("vectors");
    endpoint.set_behavior(Behavior::Refuses(401, None));
    let embedder = embedder(&endpoint, Some(&place));
    let ranker = EmbeddingRanker::wrap(Arc::new(Hybrid::default()), &embedder, &Handle::current());
    ranker.prepare(&catalog(1).with_server(Server { name: "t".into(), ..Server::default() }, raw(1)).0);
    embedded(&embedder, 1).await;
    while embedder.status().problem.is_none() {
        tokio::task::yield_now().await;
    }
    ranker.prepare(&known);
    embedded(&embedder, 5).await;
}
