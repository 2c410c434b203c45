//! Input/output cases of the reference systems, which must match exactly.
//!
//! `use: "as is"` binds. `use: "ours"` is where Pegboard follows a system's document
//! instead of its code; [`OURS`] says what is expected there. Cases about replies,
//! argument parsing and session state belong to the dialects; here only their ranking,
//! splitting, limits and errors count.

use pegboard_core::{Catalog, LoadLimits, Query, QueryError, Ranker, Ranking, RawTool, Selection, load};
use pegboard_engine::{Hinted, Keyword, RegexRanker, Sequence, hinted, keyword};
use pegboard_tantivy::Bm25;
use serde_json::Value;

pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) given: Value,
    pub(crate) when: Value,
    pub(crate) expect: Value,
    pub(crate) usage: String,
    pub(crate) is_ours: bool,
}

pub(crate) fn cases(text: &str) -> Vec<Case> {
    let mut file: Value = serde_json::from_str(text).expect("the cases are JSON");
    let givens = file["givens"].take();
    let cases = file["cases"].as_array_mut().expect("a list of cases");
    let case = |case: &mut Value| Case {
        id: case["id"].as_str().expect("an id").to_owned(),
        given: givens[case["given"].as_u64().expect("a number") as usize].clone(),
        when: case["when"].take(),
        expect: case["expect"].take(),
        usage: case["use"].as_str().expect("a use").to_owned(),
        is_ours: case["use"] != "as is",
    };
    cases.iter_mut().map(case).collect()
}

fn catalog(tools: &Value) -> Catalog {
    let text = serde_json::to_vec(tools).expect("JSON");
    if tools.as_array().is_some_and(Vec::is_empty) {
        return Catalog::empty();
    }
    let loaded = load::parse("case", &text, &LoadLimits::default()).expect("a catalog");
    Catalog::from_tools(loaded.tools).0
}

fn rank(ranker: &dyn Ranker, query: &str, limit: usize, catalog: &Catalog) -> Result<Ranking, QueryError> {
    ranker.rank(&Query::new(query).limit(limit), catalog, &Selection::everything())
}

fn names(ranking: &Ranking) -> Vec<&str> {
    ranking.hits.iter().map(|hit| hit.tool.name()).collect()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Checks how many cases of a file ran, so that a changed format cannot pass by running none.
#[track_caller]
fn assert_ran(ran: usize, expected: usize) {
    assert_eq!(ran, expected, "the number of cases that were compared");
}

#[test]
fn regex() {
    let mut ran = 0;
    for case in cases(include_str!("cases/seed0.json")) {
        if case.when["call"] != "search_tools" || !case.id.starts_with("mcpagent-v1") {
            continue;
        }
        // Missing and wrongly typed arguments are the dialect's.
        let Some(query) = case.when["arguments"]["query"].as_str() else { continue };
        ran += 1;
        let catalog = catalog(&case.given["deferred_tools_in_registration_order"]);
        let found = rank(&RegexRanker::default(), query, usize::MAX, &catalog);
        let expect = &case.expect;
        if let Some(tools) = expect["upstream_result"]["tools"].as_array() {
            let expected: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
            assert_eq!(names(&found.expect(&case.id)), expected, "{}", case.id);
        } else if let Some(included) = expect["doc_expect"]["must_include"].as_array() {
            let found = found.expect(&case.id);
            assert!(found.hits.len() <= 5, "{}", case.id);
            for name in included {
                assert!(names(&found).contains(&name.as_str().expect("a name")), "{}: {:?}", case.id, names(&found));
            }
        } else if expect["upstream_result"].as_str().is_some_and(|text| text.contains("Invalid regex")) {
            // The reason behind the prefix is ours.
            let error = found.expect_err(&case.id);
            assert!(error.to_string().starts_with("invalid regex pattern: "), "{}: {error}", case.id);
        } else if expect["upstream_result"].as_str().is_some_and(|text| text.contains("required")) {
            assert_eq!(found.expect_err(&case.id), QueryError::Empty, "{}", case.id);
        } else {
            assert_eq!(names(&found.expect(&case.id)), Vec::<&str>::new(), "{}", case.id);
        }
    }
    assert_ran(ran, 14);
}

#[test]
fn bm25() {
    let mut ran = 0;
    for case in cases(include_str!("cases/seed1.json")) {
        if !case.id.starts_with("mcproxy-bm25") {
            continue;
        }
        ran += 1;
        let catalog = catalog(&case.given["tools"]);
        let query = case.when["arguments"]["query"].as_str().expect("a query");
        let limit = case.given["result_limit"].as_u64().expect("a limit") as usize;
        let found = rank(&Bm25::default(), query, limit, &catalog).expect(&case.id);
        if case.is_ours {
            // The document: `word*` finds every tool with a word that begins so.
            let all = rank(&Bm25::default(), "github", limit, &catalog).expect(&case.id);
            assert_eq!(names(&found), names(&all), "{}", case.id);
            continue;
        }
        let mut expected: Vec<(&str, f64)> = case.expect["raw_bm25"]
            .as_array()
            .expect("scores")
            .iter()
            .map(|pair| (pair[0].as_str().expect("a name"), pair[1].as_f64().expect("a score")))
            .collect();
        let scores: Vec<f64> = found.hits.iter().map(|hit| hit.score).collect();
        assert_eq!(scores.len(), expected.len(), "{}: {:?}", case.id, names(&found));
        for (score, (name, expected)) in scores.iter().zip(&expected) {
            assert!((score - expected).abs() < 1e-4, "{} {name}: {score} instead of {expected}", case.id);
        }
        // Upstream leaves equal scores in any order, and cuts among them anywhere.
        expected.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        let is_cut_among_equals = case.id == "mcproxy-bm25-50";
        if !is_cut_among_equals {
            let expected: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
            assert_eq!(names(&found), expected, "{}", case.id);
        }
    }
    assert_ran(ran, 41);
}

#[test]
fn keyword_ranking_and_splitting() {
    let mut ran = 0;
    for case in cases(include_str!("cases/seed2.json")) {
        if let Some(name) = case.given["tool_name"].as_str() {
            ran += 1;
            assert_eq!(keyword::split_name(name), strings(&case.expect["parts"]), "{}", case.id);
            continue;
        }
        if !case.id.starts_with("eino-search") {
            continue;
        }
        let arguments = &case.when["arguments"];
        let query = arguments["query"].as_str().unwrap_or_default();
        // `select:` and the types of arguments are the dialect's.
        let is_argument_error = case.expect["error"].as_str().is_some_and(|error| error.contains("unmarshal"));
        if query.trim().starts_with("select:") || is_argument_error {
            continue;
        }
        ran += 1;
        let catalog = catalog(&case.given["dynamic_tools"]);
        let limit = arguments["max_results"].as_u64().filter(|limit| *limit > 0).unwrap_or(5) as usize;
        let found = rank(&Keyword::default(), query, limit, &catalog);
        if let Some(error) = case.expect["error"].as_str() {
            assert_eq!(found.expect_err(&case.id).to_string(), error, "{}", case.id);
            continue;
        }
        let found = found.expect(&case.id);
        assert_eq!(names(&found), strings(&case.expect["matches"]), "{}", case.id);
        assert_eq!(found.total as u64, case.expect["total_scoring_tools"].as_u64().expect("a total"), "{}", case.id);
        for hit in &found.hits {
            assert_eq!(
                Some(hit.score),
                case.expect["scores"][hit.tool.name()].as_f64(),
                "{} {}",
                case.id,
                hit.tool.name()
            );
        }
    }
    assert_ran(ran, 53);
}

#[test]
fn sequence() {
    let mut ran = 0;
    for case in cases(include_str!("cases/seed3.json")) {
        let query = match &case.when["arguments"]["query"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        // A nameless tool is left out of every catalog.
        if case.id == "ship-missingkeys" {
            continue;
        }
        ran += 1;
        let catalog = catalog(&case.given["available_tools"]);
        let bonus = case.given["config"]["token_bonus"].as_f64().expect("a bonus");
        let metadata = &case.expect["metadata"];
        let limit = metadata["limit"].as_u64().unwrap_or(5) as usize;
        let found = rank(&Sequence::new(bonus), &query, limit, &catalog);
        if metadata["error"] == "empty_query" {
            assert_eq!(found.expect_err(&case.id), QueryError::Empty, "{}", case.id);
            continue;
        }
        let found = found.expect(&case.id);
        let found: Vec<(&str, f64)> = found.hits.iter().map(|hit| (hit.tool.name(), hit.score)).collect();
        let matches = metadata["matches"].as_array().expect("matches");
        let expected =
            matches.iter().map(|hit| (hit["name"].as_str().expect("a name"), hit["score"].as_f64().expect("a score")));
        // Where the reference lists its noise, the noise is absent here.
        let expected: Vec<(&str, f64)> = expected.filter(|(_, score)| !case.is_ours || *score > 0.05).collect();
        assert_eq!(found, expected, "{}", case.id);
    }
    assert_ran(ran, 30);
}

#[test]
fn hinted_ranking_and_splitting() {
    let mut ran = 0;
    for case in cases(include_str!("cases/seed4.json")) {
        if let Some(name) = case.given["tool_name"].as_str() {
            ran += 1;
            assert_eq!(hinted::split_name(name), strings(&case.expect["parts"]), "{}", case.id);
            continue;
        }
        // Which tools are deferred, and argument errors, are the dialect's.
        let is_dialects = ["nexo-sel", "nexo-reg"].iter().any(|start| case.id.starts_with(start));
        if is_dialects || case.id == "nexo-none-01" || case.id == "nexo-err-02" {
            continue;
        }
        ran += 1;
        let catalog = hinted_catalog(&case.given);
        let arguments = if case.when["arguments"].is_object() { &case.when["arguments"] } else { &case.when };
        let query = arguments["query"].as_str().expect("a query");
        let limit = arguments["max_results"].as_u64().unwrap_or(5).clamp(1, 25) as usize;
        let found = rank(&Hinted::default(), query, limit, &catalog);
        if case.expect["error"].is_string() {
            assert_eq!(found.expect_err(&case.id), QueryError::Empty, "{}", case.id);
            continue;
        }
        let found = found.expect(&case.id);
        let scored: Vec<(&str, f64)> = found.hits.iter().map(|hit| (hit.tool.name(), hit.score)).collect();
        if let Some(matches) = case.expect["matches"].as_array() {
            let pair = |hit: &Value| match hit {
                Value::Array(pair) => {
                    (pair[0].as_str().unwrap_or_default().to_owned(), pair[1].as_f64().unwrap_or_default())
                }
                hit => (hit["name"].as_str().unwrap_or_default().to_owned(), hit["score"].as_f64().unwrap_or_default()),
            };
            let expected: Vec<(String, f64)> = matches.iter().map(pair).collect();
            let expected: Vec<(&str, f64)> = expected.iter().map(|(name, score)| (name.as_str(), *score)).collect();
            assert_eq!(scored, expected, "{}", case.id);
        }
        if let Some(count) = case.expect["count"].as_u64() {
            assert_eq!(scored.len() as u64, count, "{}", case.id);
        }
        if case.expect["names"].is_array() {
            assert_eq!(names(&found), strings(&case.expect["names"]), "{}", case.id);
        }
        if let Some(score) = case.expect["each_score"].as_f64() {
            assert!(scored.iter().all(|(_, other)| *other == score), "{}", case.id);
        }
    }
    assert_ran(ran, 41);
}

/// Returns tools given as objects, as `[name, description, hint]`, or as `"Name 'description'"`.
fn hinted_catalog(given: &Value) -> Catalog {
    let tools = given.get("deferred_tools").or(given.get("deferred")).and_then(Value::as_array);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let tool = |tool: &Value| match tool {
        Value::Array(parts) => RawTool {
            name: text(&parts[0]).unwrap_or_default(),
            description: text(&parts[1]).unwrap_or_default(),
            search_hint: text(&parts[2]),
            ..RawTool::default()
        },
        Value::String(short) => {
            let (name, description) = short.split_once(" '").unwrap_or((short, ""));
            RawTool { name: name.into(), description: description.trim_end_matches('\'').into(), ..RawTool::default() }
        }
        tool => RawTool {
            name: text(&tool["name"]).unwrap_or_default(),
            description: text(&tool["description"]).unwrap_or_default(),
            search_hint: text(&tool["search_hint"]),
            ..RawTool::default()
        },
    };
    Catalog::from_tools(tools.into_iter().flatten().map(tool).collect()).0
}

#[test]
fn selection() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("cases/selection.json")).expect("JSON");
    for case in &cases {
        let id = case["id"].as_str().expect("an id");
        let group = case["when"]["server_or_category"].as_str().expect("a group").to_owned();
        let is_custom = case["when"]["custom"] == 1;
        let raw = RawTool {
            name: case["when"]["tool"].as_str().expect("a name").to_owned(),
            server: (!is_custom).then(|| group.clone()),
            category: is_custom.then_some(group),
            ..RawTool::default()
        };
        let (catalog, _) = Catalog::from_tools(vec![raw]);
        let selection = Selection::everything()
            .allow_servers(strings(&case["given"]["selectedServers"]))
            .allow_tools(strings(&case["given"]["selectedTools"]));
        // Where servers and tools are both given, ours is their union.
        let expected = case["use"] == "ours" || case["expect"]["included"] == true;
        assert_eq!(selection.count(&catalog) == 1, expected, "{id}");
    }
    assert_ran(cases.len(), 16);
}
