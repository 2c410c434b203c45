use pegboard_core::{Catalog, Fallback, Field, Query, QueryError, Ranker, RawTool, Selection, Server, naming};
use proptest::prelude::*;

use super::*;

/// Tools from lines of `server/name: description`, or `name: description`.
fn tools(lines: &str) -> Vec<RawTool> {
    let tool = |line: &str| {
        let (id, description) = line.split_once(": ").unwrap_or((line, ""));
        let (server, name) = id.split_once('/').map_or((None, id), |(server, name)| (Some(server.to_owned()), name));
        RawTool { name: name.trim().into(), server, description: description.into(), ..RawTool::default() }
    };
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(tool).collect()
}

pub(crate) fn catalog(lines: &str) -> Catalog {
    Catalog::from_tools(tools(lines)).0
}

pub(crate) fn ids(ranking: &Ranking) -> Vec<String> {
    ranking.hits.iter().map(|hit| hit.tool.id().to_owned()).collect()
}

fn rank(catalog: &Catalog, query: &str) -> Ranking {
    Lexical::default().rank(&Query::new(query), catalog, &Selection::everything()).expect("the query is fine")
}

#[track_caller]
fn check(lines: &str, query: &str, expected: &[&str]) {
    let found = ids(&rank(&catalog(lines), query));
    assert_eq!(found[..expected.len().min(found.len())], *expected, "{query}: {found:?}");
}

pub(crate) const OFFICE: &str = "
    github/create_issue: Open a new issue in a repository
    github/list_issues: List the issues of a repository
    github/create_pull_request: Propose a change to a repository
    slack/send_message: Post a message to a channel
    slack/search: Search messages
    mail/search: Search mails
    weather/getWeather: Current conditions for a city
    calendar/create-event: Put an event into a calendar
    db/run_query: Run an SQL statement against the database
";

/// The servers `report` and `billboard` have words in their names: the first many tools of others have as well.
const NAMED_SERVERS: &str = "
    report/export: Export data
    report/print: Print data
    sales/export: Export the report of a quarter
    sales/print: Print a report
    stock/status: A report on goods
    stock/audit: Write an audit report
    taxes/summary: A report of taxes
    billboard/chart: The hit parade of a week
    music/chart: The hit parade of a week
";

#[track_caller]
fn check_server_reason(query: &str, tool: &str, expected: Option<f64>) {
    let asked = Query::new(query).explain(true);
    let ranking = Lexical::default().rank(&asked, &catalog(NAMED_SERVERS), &Selection::everything()).expect("fine");
    let hit = ranking.hits.iter().find(|hit| hit.tool.id() == tool).expect("it is found");
    let reason = hit.why.iter().find(|reason| reason.field == Field::Server);
    assert_eq!(reason.map(|reason| reason.weight > hit.score / 2.0), expected.map(|least| least > 0.5), "{hit:?}");
}

#[test]
fn the_name_of_a_server_counts_as_far_as_it_tells_servers_apart() {
    check(NAMED_SERVERS, "billboard chart", &["billboard/chart", "music/chart"]);
    check(NAMED_SERVERS, "billbaord chart", &["billboard/chart", "music/chart"]);
    check(NAMED_SERVERS, "print a report", &["sales/print"]);
    check_server_reason("billboard", "billboard/chart", Some(1.0));
    check_server_reason("export the report", "report/export", Some(0.0));
    check_server_reason("export the report", "sales/export", None);
}

#[test]
fn an_exact_name_comes_first_in_any_spelling() {
    for query in [
        "create_issue",
        "createIssue",
        "create-issue",
        "Create Issue",
        "CREATE_ISSUE",
        "github create_issue",
        "github/create_issue",
        "github__create_issue",
        "please call create_issue for this bug",
        "use `create_issue`",
        "first list_the things then createIssue, and search messages",
    ] {
        check(OFFICE, query, &["github/create_issue"]);
    }
    check(OFFICE, "get_weather", &["weather/getWeather"]);
    check(OFFICE, "create event", &["calendar/create-event"]);
    check("a___do_it: x\nb___do_it: x\nc: do it", "do_it", &["a/a___do_it", "b/b___do_it"]);
    check("mcp__slack__send: x\nother: send slack", "slack send", &["mcp__slack__send"]);
}

#[test]
fn of_names_that_fold_alike_the_one_as_written_is_first() {
    let alias = RawTool { aliases: vec!["get_user".into()], ..tools("aaa: x").remove(0) };
    let (catalog, _) = Catalog::from_tools([tools("getUser: x\nget_user: x"), vec![alias]].concat());
    assert_eq!(ids(&rank(&catalog, "get_user")), ["get_user", "getUser", "aaa"]);
    assert_eq!(ids(&rank(&catalog, "getUser")), ["getUser", "get_user", "aaa"]);
    assert_eq!(ids(&rank(&catalog, "now use `getUser` please"))[..2], ["getUser", "get_user"]);
}

#[test]
fn no_text_can_outweigh_an_exact_name() {
    check(&format!("GitHub: x\nB: {}", "GitHub git hub ".repeat(200)), "GitHub", &["GitHub", "B"]);
}

#[test]
fn a_name_on_several_servers_gives_all_of_them() {
    check(OFFICE, "search", &["mail/search", "slack/search"]);
    check(OFFICE, "mail search", &["mail/search"]);
}

#[test]
fn aliases_are_names_too() {
    let alias = RawTool { aliases: vec!["open_ticket".into()], ..tools("gh/new: x").remove(0) };
    let (catalog, _) = Catalog::from_tools([tools("open_tickets: Open tickets"), vec![alias]].concat());
    assert_eq!(ids(&rank(&catalog, "openTicket"))[0], "gh/new");
}

#[test]
fn a_verb_in_the_name_beats_one_in_the_description() {
    check("a: create an issue\ncreate_issue_now: x", "create issue", &["create_issue_now"]);
}

#[test]
fn typos_beginnings_and_compounds() {
    check(OFFICE, "wether", &["weather/getWeather"]);
    check(OFFICE, "creat isue", &["github/create_issue"]);
    check(OFFICE, "databse", &["db/run_query"]);
    check(OFFICE, "repo pull", &["github/create_pull_request"]);
    check(OFFICE, "pullrequest", &["github/create_pull_request"]);
    let ranking = rank(&catalog(OFFICE), "wether");
    assert_eq!((ranking.fallback, ranking.unmatched.len()), (Some(Fallback::Typo), 0));
}

#[test]
fn words_of_another_language_are_not_typed_wrong() {
    let unmatched = |query: &str| rank(&catalog(OFFICE), query).unmatched;
    assert_eq!(unmatched("wo sind meine rechnungen"), ["wo", "sind", "meine", "rechnungen"]);
    // `was` and `in` are English too.
    assert_eq!(unmatched("was sind meine rechnungen in rom"), ["sind", "meine", "rechnungen", "rom"]);
    // Two letters in the wrong order are a slip in any language.
    assert_eq!(unmatched("sned xyzzy plugh quux"), ["xyzzy", "plugh", "quux"]);
    // Alone, or beside known words, it may be a slip.
    check(OFFICE, "sind", &["slack/send_message"]);
    check(OFFICE, "sind a message", &["slack/send_message"]);
    // Of the same origin.
    assert_eq!(unmatched("quiero una lista completa"), ["quiero", "una", "completa"]);
}

#[test]
fn words_that_no_tool_matches_are_reported() {
    let ranking = rank(&catalog(OFFICE), "weather in Reykjavik xqzzy");
    assert_eq!(ranking.unmatched, ["Reykjavik", "xqzzy"]);
    assert_eq!(rank(&catalog(OFFICE), "qqqq wwww").hits.len(), 0);
    // Pairs of characters are put together again, and only said if all are unknown.
    let ranking = rank(&catalog("mail: 发送电子邮件"), "发邮件 天气预报 weather");
    assert_eq!(ranking.unmatched, ["天气预报", "weather"]);
}

#[test]
fn stop_words_cannot_lose_a_hit() {
    check("a: to be\nb: nothing", "to be or not to be", &["a"]);
    check(OFFICE, "what is the weather", &["weather/getWeather"]);
    // Alone, even a stop word is a word.
    check("who: Tells about people\nb: x", "who", &["who"]);
    check("delete_tweet: x\nlike_tweet: x\npost_tweet: x", "like a tweet", &["like_tweet"]);
}

#[test]
fn each_intent_gets_a_hit() {
    let ranking =
        rank(&catalog(OFFICE), "create a calendar event and post a message to the channel, then run a database query");
    let found = ids(&ranking);
    for wanted in ["calendar/create-event", "slack/send_message", "db/run_query"] {
        assert!(found[..3].iter().any(|id| id == wanted), "{wanted} in {found:?}");
    }
}

#[test]
fn scripts_without_spaces() {
    let lines =
        "mail: 发送电子邮件给联系人\nsearch: ファイルを検索する\nnote: añadir una nota\nmsg: отправить сообщение";
    check(lines, "发邮件", &["mail"]);
    check(lines, "検索", &["search"]);
    check(lines, "邮", &["mail"]);
    check(lines, "anadir NOTA", &["note"]);
    check(lines, "отправка сообщений", &["msg"]);
    check("a: новый файл\nb: x", "нового", &["a"]);
    // However the letters are put together: jamo, half-width kana, combining marks.
    check("a: 메일 보내기\nb: x", "\u{1106}\u{1166}\u{110B}\u{1175}\u{11AF}", &["a"]);
    check("a: データベース\nb: x", "ﾃﾞｰﾀﾍﾞｰｽ", &["a"]);
    check("a: añadir\nb: x", "an\u{303}adir", &["a"]);
}

#[test]
fn every_field_is_searchable() {
    let json = br#"[{"name": "n", "title": "titleword", "description": "descword", "server": "serverword",
        "server_description": "sdword", "category": "catword", "search_hint": "hintword",
        "prompt_instructions": "usageword", "aliases": ["aliasword"],
        "inputSchema": {"type": "object", "properties": {"paramword": {"type": "object", "description": "pdword",
            "properties": {"innerword": {"enum": ["enumword"], "anyOf": [{"description": "branchword"}]}}}}}},
        {"name": "other", "description": "something else"}]"#;
    let loaded = pegboard_core::load::parse("t", json, &pegboard_core::LoadLimits::default()).unwrap();
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    for word in [
        "titleword",
        "descword",
        "serverword",
        "sdword",
        "catword",
        "hintword",
        "usageword",
        "aliasword",
        "paramword",
        "pdword",
        "innerword",
        "enumword",
        "branchword",
    ] {
        assert_eq!(ids(&rank(&catalog, word)), ["serverword/n"], "{word}");
    }
}

#[test]
fn reasons_add_up_to_the_score() {
    let catalog = catalog(OFFICE);
    for query in
        ["create an issue in a repository", "wether", "create_issue", "use create_issue now", "search messages"]
    {
        let query = Query::new(query).explain(true);
        let ranking = Lexical::default().rank(&query, &catalog, &Selection::everything()).unwrap();
        for hit in &ranking.hits {
            let sum: f64 = hit.why.iter().map(|reason| reason.weight).sum();
            assert!((sum - hit.score).abs() < 1e-6, "{query:?} {} {sum} {}", hit.tool.id(), hit.score);
            assert!(hit.why.is_sorted_by(|a, b| a.weight >= b.weight));
        }
    }
    let ranking =
        Lexical::default().rank(&Query::new("wether").explain(true), &catalog, &Selection::everything()).unwrap();
    assert_eq!(ranking.hits[0].why[0].term, "wether→weather");
}

#[test]
fn limit_and_threshold() {
    let catalog = catalog(OFFICE);
    let everything = Selection::everything();
    let rank = |query: Query<'_>| Lexical::default().rank(&query, &catalog, &everything).unwrap();
    let all = rank(Query::new("create repository issue"));
    assert!(all.hits.len() > 2);
    assert_eq!(rank(Query::new("create repository issue").limit(1)).total, all.total);
    assert_eq!(rank(Query::new("create repository issue").limit(0)).hits.len(), 0);
    let strict = rank(Query::new("create repository issue").threshold(0.9));
    assert!(strict.hits.iter().all(|hit| hit.score >= 0.9 * all.hits[0].score) && strict.hits.len() < all.hits.len());
}

#[test]
fn blank_and_long_queries_are_refused() {
    let catalog = catalog(OFFICE);
    let rank = |text: &str| Lexical::default().rank(&Query::new(text), &catalog, &Selection::everything()).map(|_| ());
    assert_eq!(rank(" \n"), Err(QueryError::Empty));
    assert_eq!(
        rank(&"a".repeat(20_000)),
        Err(QueryError::TooLong { bytes: 20_000, limit: pegboard_core::ranking::MAX_QUERY_BYTES })
    );
    assert_eq!(rank(&"a ".repeat(8_000)), Ok(()));
}

/// Words that make tools which share some of them.
const WORDS: &[&str] = &[
    "create",
    "issue",
    "list",
    "files",
    "send",
    "message",
    "weather",
    "city",
    "get",
    "channel",
    "repository",
    "search",
    "query",
    "table",
    "event",
    "calendar",
    "user",
    "邮件",
    "จดหมาย",
    "搜索",
    "año",
    "pull",
    "request",
    "pullrequester",
    "issues",
];

fn sentence(most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS), 0..=most).prop_map(|words| words.join(" "))
}

pub(crate) fn any_tool() -> impl Strategy<Value = RawTool> {
    (0..4_usize, prop::collection::vec(prop::sample::select(WORDS), 1..4), sentence(12)).prop_map(
        |(server, name, description)| RawTool {
            server: Some(format!("s{server}")),
            name: name.join("_"),
            description,
            ..RawTool::default()
        },
    )
}

pub(crate) fn any_query() -> impl Strategy<Value = String> {
    let several = (sentence(4), sentence(4), sentence(3)).prop_map(|(a, b, c)| format!("{a}, {b} and {c}"));
    let typos = sentence(8).prop_map(|text| format!("{text}. wether, isue and quary pullrequest"));
    let named = (sentence(3), sentence(3)).prop_map(|(a, b)| format!("{} `{}`", a, b.replace(' ', "_")));
    prop_oneof![sentence(6), "[a-z_ ]{1,30}", several, typos, named]
        .prop_filter("not blank", |text| !text.trim().is_empty())
}

fn full(
    ranker: &Lexical,
    query: &str,
    limit: usize,
    catalog: &Catalog,
    selection: &Selection,
) -> (Vec<(String, f64)>, usize, Vec<String>) {
    let ranking = ranker.rank(&Query::new(query).limit(limit), catalog, selection).unwrap();
    let hits = ranking.hits.iter().map(|hit| (hit.tool.id().to_owned(), hit.score)).collect();
    (hits, ranking.total, ranking.unmatched)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happened to an index before, it answers like a fresh one.
    #[test]
    fn an_updated_index_equals_a_fresh_one(
        first in prop::collection::vec(any_tool(), 0..60),
        steps in prop::collection::vec((0..4_usize, prop::collection::vec(any_tool(), 0..30)), 1..6),
        query in any_query(),
    ) {
        let ranker = Lexical::default();
        let (mut catalog, _) = Catalog::from_tools(first);
        ranker.prepare(&catalog);
        for (server, tools) in steps {
            let server = Server { name: format!("s{server}"), ..Server::default() };
            (catalog, _) = if tools.is_empty() {
                (catalog.without_server(&server.name), Vec::new())
            } else {
                catalog.with_server(server, tools)
            };
            let updated = full(&ranker, &query, 10, &catalog, &Selection::everything());
            let fresh = full(&Lexical::default(), &query, 10, &catalog, &Selection::everything());
            prop_assert_eq!(updated, fresh);
        }
    }

    /// What a selection hides leaves no trace.
    #[test]
    fn a_selection_equals_a_smaller_catalog(
        tools in prop::collection::vec(any_tool(), 0..60),
        query in any_query(),
    ) {
        let (catalog, _) = Catalog::from_tools(tools.clone());
        let selection = Selection::everything().allow_servers(["s1", "s3"]);
        let visible = tools.into_iter().filter(|tool| ["s1", "s3"].contains(&tool.server.as_deref().unwrap_or("")));
        let (smaller, _) = Catalog::from_tools(visible.collect());
        let selected = full(&Lexical::default(), &query, 10, &catalog, &selection);
        let expected = full(&Lexical::default(), &query, 10, &smaller, &Selection::everything());
        prop_assert_eq!(selected, expected);
    }

    /// Passing postings over changes nothing: the first few of all are the best few.
    #[test]
    fn a_limit_only_cuts(
        tools in prop::collection::vec(any_tool(), 0..200),
        query in any_query(),
        limit in 0..12_usize,
    ) {
        let (catalog, _) = Catalog::from_tools(tools);
        let ranker = Lexical::default();
        let some = full(&ranker, &query, limit, &catalog, &Selection::everything());
        let mut all = full(&ranker, &query, usize::MAX, &catalog, &Selection::everything());
        all.0.truncate(limit);
        prop_assert_eq!(some, all);
    }

    #[test]
    fn an_existing_name_is_always_first(tools in prop::collection::vec(any_tool(), 1..60), at: prop::sample::Index) {
        let (catalog, _) = Catalog::from_tools(tools);
        let tool = catalog.iter().nth(at.index(catalog.len())).unwrap().clone();
        for query in [tool.name().to_owned(), tool.name().replace('_', "-"), format!("please use {} now", tool.id())] {
            let best = rank(&catalog, &query).hits.remove(0).tool;
            prop_assert_eq!(naming::fold(best.name()), naming::fold(tool.name()));
        }
    }

    #[test]
    fn any_text_is_answered(query in ".{0,200}", tools in prop::collection::vec((".{1,20}", ".{0,60}"), 0..10)) {
        let tool = |(name, description): (String, String)| RawTool { name, description, ..RawTool::default() };
        let (catalog, _) = Catalog::from_tools(tools.into_iter().map(tool).collect());
        let ranking = Lexical::default().rank(&Query::new(&query).explain(true), &catalog, &Selection::everything());
        if let Ok(ranking) = ranking {
            prop_assert!(ranking.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
            prop_assert!(ranking.hits.len() <= ranking.total);
        }
    }
}
