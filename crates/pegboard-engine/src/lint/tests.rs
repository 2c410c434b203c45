use std::sync::Arc;

use pegboard_core::{Catalog, Hit, LoadLimits, Query, QueryError, Ranker, Ranking, RawTool, Selection, Tool, load};
use proptest::prelude::*;
use serde_json::value::RawValue;

use super::{Baseline, Finding, Linter, Report, Rule, Severity, Thresholds};
use crate::{Hybrid, Model};

fn tokens(text: &str) -> usize {
    text.len() / 4
}

fn catalog(tools: &str) -> Catalog {
    let loaded = load::parse("tools.jsonl", tools.as_bytes(), &LoadLimits::default()).expect("a catalog");
    Catalog::from_tools(loaded.tools).0
}

fn report(catalog: &Catalog, thresholds: Thresholds) -> Report {
    Linter::new(&Hybrid::default(), tokens, thresholds).model(Model::embedded()).check(catalog)
}

/// Looks at `tools`, one a line, and compares `rule tool, tool` of what is found.
#[track_caller]
fn check(tools: &str, expected: &[&str]) {
    let report = report(&catalog(tools), Thresholds::default());
    let found: Vec<String> =
        report.findings.iter().map(|finding| format!("{} {}", finding.rule, finding.tools.join(", "))).collect();
    assert_eq!(found, expected, "{:#?}", report.findings);
}

const GOOD: &str = r#"{"name": "create_issue", "server": "gh", "description": "Create an issue in a repository. Returns its number."}
{"name": "get_weather", "server": "sky", "description": "Get the weather forecast of a city."}
{"name": "send_mail", "server": "post", "description": "Send a mail to several people. Returns the id of the mail."}"#;

#[test]
fn nothing_is_wrong_with_good_tools() {
    check(GOOD, &[]);
}

/// Each property leads to all properties again: following all ways would never end.
#[test]
fn a_schema_that_refers_to_itself_has_an_end() {
    let fields: Vec<String> = (0..400).map(|at| format!(r##""p{at}": {{"$ref": "#/$defs/a"}}"##)).collect();
    let schema = format!(
        r##"{{"type": "object", "required": ["p0"], "properties": {{"p0": {{"$ref": "#/$defs/a"}}}},
            "$defs": {{"a": {{"type": "object", "properties": {{{}}}}}}}}}"##,
        fields.join(", ")
    );
    let tool = format!(
        r#"{{"name": "create_issue", "description": "Create an issue. Returns its number.", "inputSchema": {schema}}}"#
    );
    let report = report(&catalog(&tool.replace('\n', " ")), Thresholds::default());
    assert!(report.findings.iter().all(|finding| finding.rule == Rule::CostlySchema), "{:?}", report.findings);
}

#[test]
fn vague_descriptions() {
    let conditions = r#"{"name": "get_weather", "description": "Returns data about conditions"}"#;
    check(conditions, &["no-domain get_weather"]);
    let thing = r#"{"name": "create_repo", "server": "github", "description": "Github repository thing"}"#;
    let rules: Vec<Rule> =
        report(&catalog(thing), Thresholds::default()).findings.iter().map(|finding| finding.rule).collect();
    assert!(rules.contains(&Rule::NoAction), "{rules:?}");
    check(r#"{"name": "get_weather", "description": "Get current weather conditions for a city or location"}"#, &[]);
}

#[test]
fn descriptions() {
    check(r#"{"name": "create_issue"}"#, &["no-description create_issue"]);
    check(r#"{"name": "create_issue", "description": " \n"}"#, &["no-description create_issue"]);
    check(
        r#"{"name": "create_issue", "description": "Create issue."}"#,
        &["no-description create_issue", "no-output create_issue"],
    );
    check(r#"{"name": "weather", "description": "The weather of a city"}"#, &["no-action weather"]);
    check(r#"{"name": "weather", "description": "Frobnicates the weather of a city"}"#, &[]);
    check(r#"{"name": "run", "description": "Execute the query and return all results"}"#, &["no-domain run"]);
    check(r#"{"name": "comment", "description": "Create a comment"}"#, &["no-output comment"]);
    check(r#"{"name": "close_issue", "description": "Close an issue"}"#, &[]);
    check(r#"{"name": "open_ticket", "description": "Create a ticket for the help desk"}"#, &[]);
    check(r#"{"name": "start_build", "description": "Start a build of a branch"}"#, &["no-output start_build"]);
    check(r#"{"name": "start_build", "description": "Start a build of a branch. Returns its id."}"#, &[]);
    check(r#"{"name": "start_build", "description": "Description not available"}"#, &["no-description start_build"]);
    check(
        r#"{"name": "start_build", "description": "Start a build of a branch", "outputSchema": {"type": "object"}}"#,
        &[],
    );
    let long =
        format!(r#"{{"name": "plan_trip", "description": "Plan a trip. Returns it.\n\n{}"}}"#, "word ".repeat(600));
    check(&long, &["long-description plan_trip"]);
}

#[test]
fn texts_in_other_languages_are_not_judged_by_english_words() {
    check(r#"{"name": "weather", "description": "获取城市的天气预报"}"#, &[]);
    check(r#"{"name": "wetter", "description": "Wetter heute und morgen"}"#, &[]);
    check(r#"{"name": "pogoda", "description": "Погода в городе"}"#, &[]);
    check(r#"{"name": "clima", "description": "El clima de una ciudad"}"#, &[]);
    // What is no matter of words holds in all of them.
    check(r#"{"name": "天气", "description": "获取城市的天气预报"}"#, &["unsafe-name 天气"]);
}

#[test]
fn names() {
    let long = "a_very_long_name_".repeat(5);
    let with_server = format!("{}_{}", "get_weather", "x".repeat(40));
    let tool = |name: &str, server: &str| {
        format!(r#"{{"name": "{name}", "server": "{server}", "description": "Get the weather of a city {name}."}}"#)
    };
    check(&tool(&long, "s"), &[&format!("name-too-long s/{long}")]);
    check(&tool(&with_server, "some_long_server"), &[&format!("name-too-long some_long_server/{with_server}")]);
    check(&tool("get.weather", "s"), &["unsafe-name s/get.weather"]);
    check(&tool("2get", "s"), &["unsafe-name s/2get"]);
}

#[test]
fn the_same_name() {
    let tools = r#"{"name": "search", "server": "wiki", "description": "Search pages of the wiki by title"}
{"name": "Search", "server": "shop", "description": "Find shoes and hats that are in stock"}"#;
    check(tools, &["duplicate-name shop/Search, wiki/search"]);
    let tools = r#"{"name": "getIssue", "server": "gh", "description": "Get an issue by number"}
{"name": "get_issue", "server": "gh", "description": "List everybody who watches the repository"}"#;
    let found = report(&catalog(tools), Thresholds::default()).findings;
    assert_eq!((found[0].rule, found[0].severity), (Rule::DuplicateName, Severity::Warning));
}

#[test]
fn confusable_tools_are_told_of_in_groups() {
    check(
        r#"{"name": "start_recording", "server": "tv", "description": "Controls the recording of a channel. Returns its state."}
{"name": "stop_recording", "server": "tv", "description": "Controls the recording of a channel. Returns its state."}
{"name": "pause_recording", "server": "tv", "description": "Controls the recording of a channel. Returns its state."}"#,
        &["confusable tv/pause_recording, tv/start_recording, tv/stop_recording"],
    );
    check(
        r#"{"name": "get_user", "server": "a", "description": "Get the profile of a user by login name"}
{"name": "fetch_user", "server": "b", "description": "Fetches the profile of a user by login name"}
{"name": "delete_user", "server": "b", "description": "Deletes the profile of a user by login name. Returns nothing."}"#,
        &["confusable a/get_user, b/fetch_user"],
    );
}

#[test]
fn tools_that_name_their_product_are_not_confused() {
    check(
        r#"{"name": "push_files", "server": "server-github", "description": "Push files to a GitHub repository in a single commit"}
{"name": "push_files", "server": "server-gitlab", "description": "Push files to a GitLab repository in a single commit"}"#,
        &["duplicate-name server-github/push_files, server-gitlab/push_files"],
    );
}

#[test]
fn suggestions_name_words_that_tell_tools_apart() {
    let tools = r#"{"name": "get_user", "server": "a", "description": "Get the profile of a user by login name or address of the directory"}
{"name": "get_user", "server": "b", "description": "Get the profile of a user by login name or address of the payroll"}"#;
    let found = report(&catalog(tools), Thresholds::default()).findings;
    assert_eq!(found[0].rule, Rule::Confusable, "{found:#?}");
    assert!(found[0].suggestion.contains("“directory”") && found[0].suggestion.contains("“payroll”"), "{found:#?}");
}

/// Finds all tools whatever is asked, in the order of the catalog.
#[derive(Debug)]
struct Indifferent;

impl Ranker for Indifferent {
    fn name(&self) -> &'static str {
        "indifferent"
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
        let score = |at: usize| 1.0 / (at + 1) as f64;
        let hit = |(at, tool): (usize, &Arc<Tool>)| Hit { tool: Arc::clone(tool), score: score(at), why: Vec::new() };
        Ok(Ranking { hits: catalog.iter().enumerate().map(hit).take(query.limit).collect(), ..Ranking::default() })
    }
}

#[test]
fn tools_that_are_not_found() {
    let tool = |kind: &str, text: &str| format!("{{\"name\": \"read_{kind}\", \"description\": \"{text}\"}}\n");
    let thresholds = Thresholds { hits: 2, ..Thresholds::default() };
    let check = |tools: &str, expected: &[&str]| {
        let report = Linter::new(&Indifferent, tokens, thresholds.clone()).check(&catalog(tools));
        let found: Vec<String> = report
            .findings
            .iter()
            .map(|finding| {
                format!("{} {}: {} {}", finding.rule, finding.tools.join(", "), finding.message, finding.suggestion)
            })
            .collect();
        assert_eq!(found, expected);
    };
    let first =
        tool("mail", "Read the mail of a person by date") + &tool("font", "Read a font for the printer by size");
    let third = tool("map", "Read a map of the region by place");
    check(
        &(first.clone() + &third),
        &[
            "not-found-by-description read_map: a search for the beginning of its description finds it at rank 3, \
             behind `read_mail` and `read_font` begin the description with what distinguishes this tool: “map”, \
             “region”, “place”",
            "not-found-by-name-words read_map: a search for the words of its name finds 2 other tools before it name \
             it after what it does and what it acts on, in words that the other tools do not use",
        ],
    );
    // What is told of many is told once.
    let same =
        ["log", "note", "text"].map(|kind| tool(kind, &format!("The public API of the city library. Read a {kind}")));
    let only = Thresholds { allowed: [Rule::NotFoundByNameWords].into(), ..thresholds.clone() };
    let found = Linter::new(&Indifferent, tokens, only).check(&catalog(&(first + &same.concat()))).findings;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].tools, ["read_log", "read_note", "read_text"]);
    assert!(found[0].message.contains("all begin with “The public API of the city library.”"), "{found:#?}");
}

#[test]
fn schemas() {
    let tool = |schema: &str| {
        format!(r#"{{"name": "get_weather", "description": "Get the weather of a city", "inputSchema": {schema}}}"#)
    };
    let dark = &["undescribed-parameter get_weather"];
    check(&tool(r#"{"properties": {"z": {"type": "string"}}, "required": ["z"]}"#), dark);
    check(&tool(r#"{"properties": {"z": {"description": "", "items": {}}}, "required": ["z"]}"#), dark);
    check(&tool(r#"{"properties": {"z": {"type": "string"}}}"#), &[]);
    check(&tool(r#"{"properties": {"city": {"type": "string"}}, "required": ["city"]}"#), &[]);
    check(&tool(r#"{"properties": {"limit": {"type": "integer"}}, "required": ["limit"]}"#), &[]);
    check(
        &tool(
            r##"{"properties": {"z": {"$ref": "#/$defs/z"}}, "required": ["z"], "$defs": {"z": {"description": "d"}}}"##,
        ),
        &[],
    );
    check(&tool(r##"{"properties": {"z": {"$ref": "#/properties/z"}}, "required": ["z"]}"##), dark);
    check(&tool(r#"{"properties": {"z": {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}}, "required": ["z"]}"#), &[]);
    check(&tool("[1, 2]"), &[]);
    let wide = format!(
        r#"{{"properties": {{"unit": {{"description": "d", "enum": [{}"x"]}}}}}}"#,
        "\"celsius\", ".repeat(900)
    );
    check(&tool(&wide), &["costly-schema get_weather"]);
    let finding = &report(&catalog(&tool(&wide)), Thresholds::default()).findings[0];
    assert!(finding.message.contains("`unit`") && finding.message.contains("901 choices"), "{finding:?}");
    assert!(finding.suggestion.contains("remove `unit`"), "{finding:?}");
}

#[test]
fn thresholds_decide() {
    let catalog = catalog(r#"{"name": "weather", "description": "The weather of a city"}"#);
    let is_over = |change: &dyn Fn(&mut Thresholds)| {
        let mut thresholds = Thresholds::default();
        change(&mut thresholds);
        report(&catalog, thresholds.clone()).is_over(&thresholds)
    };
    assert!(is_over(&|_| {}));
    assert!(!is_over(&|all| all.max_findings = 1));
    assert!(!is_over(&|all| all.fail_on = Some(Severity::Error)));
    assert!(!is_over(&|all| all.fail_on = None));
    assert!(!is_over(&|all| _ = all.allowed.insert(Rule::NoAction)));
    assert!(is_over(&|all| {
        all.denied.insert(Rule::NoAction);
        all.fail_on = None;
        all.max_findings = 10;
    }));
}

#[test]
fn baselines_let_pass_what_is_known() {
    let old = report(&catalog("{\"name\": \"a\"}\n{\"name\": \"b\"}"), Thresholds::default());
    let text = Baseline::of(&old).to_json().to_string();
    let baseline = Baseline::parse(&text).expect("what was written");
    assert_eq!(baseline, Baseline::of(&old));
    let mut new = report(&catalog("{\"name\": \"b\"}\n{\"name\": \"c\"}"), Thresholds::default());
    assert_eq!(baseline.apply(&mut new), (1, 1));
    assert_eq!(new.findings.iter().map(|finding| finding.tools[0].as_str()).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn a_group_that_grows_is_news_and_one_that_shrinks_is_not() {
    let group = |tools: &[&str]| Finding {
        rule: Rule::Confusable,
        severity: Severity::Warning,
        server: None,
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        parameters: Vec::new(),
        message: String::new(),
        suggestion: String::new(),
    };
    let report = |tools: &[&str]| Report { findings: vec![group(tools)], ..Report::default() };
    let baseline = Baseline::of(&report(&["a", "b", "c"]));
    let check = |tools: &[&str], known| assert_eq!(baseline.apply(&mut report(tools)).0, known, "{tools:?}");
    check(&["a", "b", "c"], 1);
    check(&["c", "a"], 1);
    check(&["a", "b", "d"], 0);
}

#[test]
fn what_is_no_baseline() {
    let check = |text: &str, expected: &str| {
        let error = Baseline::parse(text).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    };
    check("oops", "not JSON");
    check("[]", "not a baseline of version 1");
    check(r#"{"version": 2, "findings": []}"#, "not a baseline of version 1");
    let entry = "entry 1 has no known `rule` or no list of `tools`";
    check(r#"{"version": 1, "findings": [{"rule": "no-such", "tools": ["a"]}]}"#, entry);
    check(r#"{"version": 1, "findings": [{"rule": "no-action", "tools": [1]}]}"#, entry);
    check(r#"{"version": 1, "findings": [{"rule": "no-action", "tools": [], "parameters": 1}]}"#, entry);
    check(r#"{"version": 1, "findings": [7]}"#, entry);
}

prop_compose! {
    fn any_tool()(
        name in prop_oneof!["[a-z_]{1,12}", ".{1,20}", Just("get_user".to_owned())],
        description in prop_oneof![
            ".{0,60}",
            "((get|list|the|user|file|data|of|all|returns)[ .]){0,12}",
            Just("Get the user.".to_owned()),
        ],
        server in prop::option::of("[ab]"),
        schema in prop_oneof![
            Just("{}".to_owned()),
            Just("[]".to_owned()),
            Just(r##"{"properties": {"z": {"$ref": "#"}}, "required": ["z", 1]}"##.to_owned()),
            Just(r#"{"properties": [], "required": {}}"#.to_owned()),
        ],
    ) -> RawTool {
        RawTool { name, description, server, input_schema: RawValue::from_string(schema).ok(), ..RawTool::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_catalog_has_a_report_whatever_its_order(mut tools in prop::collection::vec(any_tool(), 0..10), turn in 0_usize..10) {
        // The first of two with one identity is kept; then their order counts.
        let mut seen = std::collections::HashSet::new();
        let (kept, _) = Catalog::from_tools(tools.clone());
        let ids: Vec<String> = kept.iter().map(|tool| tool.id().to_owned()).collect();
        tools.retain(|tool| seen.insert((tool.server.clone(), pegboard_core::plain_line(&tool.name).to_string())));
        prop_assume!(tools.len() == ids.len());
        let (catalog, _) = Catalog::from_tools(tools.clone());
        let first = report(&catalog, Thresholds::default());
        if !tools.is_empty() {
            let places = tools.len();
            tools.rotate_left(turn % places);
        }
        let second = report(&Catalog::from_tools(tools).0, Thresholds::default());
        prop_assert_eq!(&first, &second);
        for finding in &first.findings {
            prop_assert!(!finding.message.is_empty() && !finding.suggestion.is_empty());
            prop_assert!(finding.tools.iter().all(|tool| ids.contains(tool)));
        }
        let mut known = first.clone();
        let (count, gone) = Baseline::of(&first).apply(&mut known);
        prop_assert_eq!((count, gone, known.findings.len()), (first.findings.len(), 0, 0));
    }
}

/// Counts its searches.
#[derive(Debug, Default)]
struct Counting(std::sync::atomic::AtomicUsize);

impl Ranker for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn rank(&self, _: &Query<'_>, _: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Ranking::default())
    }
}

#[test]
fn a_text_that_tools_share_is_searched_for_once() {
    let line = |at: usize| {
        format!(
            r#"{{"name": "get_issue", "server": "s{at}", "description": "Get one issue of a repository. Number {}."}}"#,
            at % 7
        )
    };
    let catalog = catalog(&(0..300).map(line).collect::<Vec<_>>().join("\n"));
    let (ranker, progress) = (Counting::default(), std::sync::atomic::AtomicUsize::new(0));
    let on_searched = || _ = progress.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Linter::new(&ranker, tokens, Thresholds::default()).progress(&on_searched).check(&catalog);
    // The name, and the sentence that all descriptions begin with.
    assert_eq!((ranker.0.into_inner(), progress.into_inner()), (2, 300));
}
