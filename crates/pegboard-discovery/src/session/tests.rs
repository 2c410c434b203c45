use pegboard_core::RawTool;
use pegboard_engine::{Hinted, Hybrid, Keyword, Lexical, RegexRanker, Sequence};
use proptest::prelude::*;

use super::*;
use crate::transcript::OpenAiChat;

/// Tools with and without servers, one name twice, and some that are hidden from callers.
fn catalog() -> Catalog {
    let tool = |server: &str, name: &str, description: &str| RawTool {
        name: name.into(),
        description: description.into(),
        server: (!server.is_empty()).then(|| server.into()),
        ..RawTool::default()
    };
    let always = RawTool { category: Some("human".into()), ..tool("", "ask_human", "Ask the user") };
    let fixed = RawTool { deferred: Some(false), ..tool("", "read_clock", "What time it is") };
    let tools = vec![
        tool("github", "create_issue", "Create an issue"),
        tool("github", "list_issues", "List issues"),
        tool("github", "search", "Search code"),
        tool("slack", "search", "Search messages"),
        tool("slack", "send_message", "Send a message to a channel"),
        tool("weather", "get_weather", "Current weather for a city"),
        tool("vault", "zzsecret_read", "Read an issue from the zzsecret vault"),
        tool("weather", "zzsecret_weather", "Weather of zzsecret places"),
        always,
        fixed,
    ];
    Catalog::from_tools(tools).0
}

fn selection() -> Selection {
    Selection::everything().deny(["vault", "zzsecret_weather"])
}

fn ranker(dialect: DialectName) -> Arc<dyn Ranker> {
    match dialect {
        DialectName::Explicit => Arc::new(RegexRanker::default()),
        // The one that is in another crate ranks like this one where it matters here.
        DialectName::Gateway => Arc::new(Lexical::default()),
        DialectName::Select => Arc::new(Keyword::default()),
        DialectName::Ranked => Arc::new(Sequence::default()),
        DialectName::Schema => Arc::new(Hinted::default()),
        DialectName::Bridge => Arc::new(Hybrid::default()),
    }
}

fn session(dialect: DialectName) -> Session {
    let settings = Settings { max_tools_limit: 2, ..Settings::default() };
    Session::new(dialect, settings, catalog(), selection(), ranker(dialect)).expect("a session")
}

/// Calls that models make, well and badly.
fn any_call(dialect: DialectName) -> impl Strategy<Value = (String, Value)> {
    let words = prop::sample::select(vec![
        "issue",
        "search",
        "weather",
        "message",
        "create_issue",
        "select:search",
        "select:github__search,get_weather",
        "+issue",
        "send msg",
        "(",
        "",
        " ",
        "wether",
        "zz",
        "secret",
    ]);
    let meta: Vec<String> = session(dialect).fixed.meta.iter().map(|tool| tool.name.clone()).collect();
    let name = prop_oneof![
        4 => prop::sample::select(if meta.is_empty() { vec!["none".to_owned()] } else { meta }),
        1 => prop::sample::select(vec!["get_weather".to_owned(), "nope".to_owned(), "search".to_owned()]),
    ];
    let arguments = prop_oneof![
        6 => words.clone().prop_map(|query| json!({"query": query})),
        3 => words.clone().prop_map(|name| json!({"tool_names": [name, "get_weather", "create_issue"]})),
        1 => words.prop_map(|name| json!({"name": name, "arguments": {"x": 1}})),
        1 => Just(json!({})),
        1 => Just(json!([1, null, "x"])),
        1 => Just(json!({"query": 5, "max_results": -2, "tool_names": "x"})),
    ];
    (name, arguments)
}

fn any_dialect_and_calls() -> impl Strategy<Value = (DialectName, Vec<(String, Value)>)> {
    prop::sample::select(DialectName::ALL.to_vec())
        .prop_flat_map(|dialect| (Just(dialect), prop::collection::vec(any_call(dialect), 1..12)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_visible_list_only_ever_grows((dialect, calls) in any_dialect_and_calls()) {
        let mut session = session(dialect);
        for (name, arguments) in calls.iter().filter(|(name, _)| name != "remove_tool") {
            let before = session.visible_names();
            let answer = session.call(name, arguments);
            let after = session.visible_names();
            if dialect != DialectName::Gateway {
                prop_assert!(after.starts_with(&before), "{:?} then {:?}", before, after);
            }
            prop_assert_eq!(answer.list_changed, before != after);
            prop_assert!(!answer.is_error || before == after);
        }
    }

    #[test]
    fn a_session_rebuilt_from_its_transcript_is_the_same((dialect, calls) in any_dialect_and_calls()) {
        let mut live = session(dialect);
        let mut chat = OpenAiChat::default();
        for (at, (name, arguments)) in calls.iter().enumerate() {
            let answer = live.call(name, arguments);
            let id = format!("call_{at}");
            let function = json!({"name": name, "arguments": arguments.to_string()});
            chat.messages.push(json!({"role": "assistant", "tool_calls": [{"id": id, "function": function}]}));
            chat.messages.push(json!({"role": "tool", "tool_call_id": id, "content": answer.reply.to_text()}));
        }
        let mut rebuilt = session(dialect);
        rebuilt.follow(&mut chat);
        prop_assert_eq!(rebuilt.visible_names(), live.visible_names());
        if dialect != DialectName::Gateway {
            // A compaction drops calls and results; what we keep ourselves is enough.
            chat.messages.retain(|message| message["role"] == "user");
            let mut compacted = session(dialect);
            compacted.follow(&mut chat);
            prop_assert_eq!(compacted.visible_names(), live.visible_names());
        }
    }

    #[test]
    fn a_hidden_tool_is_never_named((dialect, calls) in any_dialect_and_calls()) {
        let mut session = session(dialect);
        let mut text = session.prompt();
        for (name, arguments) in &calls {
            let answer = session.call(name, arguments);
            text.push_str(&format!("{:?} {:?} {:?}", answer.reply, answer.metadata, session.visible()));
        }
        let mut chat = OpenAiChat::default();
        session.follow(&mut chat);
        text.push_str(&format!("{:?} {}", chat.messages, session.to_json()));
        prop_assert!(!text.contains("zzsecret"), "{}", text);
    }

    #[test]
    fn the_same_calls_give_the_same_bytes((dialect, calls) in any_dialect_and_calls()) {
        let run = || {
            let mut session = session(dialect);
            let answers: Vec<String> = calls.iter().map(|(name, arguments)| format!("{:?}", session.call(name, arguments))).collect();
            format!("{answers:?} {} {}", session.to_json(), session.prompt())
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn a_saved_session_goes_on_where_it_stopped((dialect, calls) in any_dialect_and_calls()) {
        let mut first = session(dialect);
        calls.iter().for_each(|(name, arguments)| { first.call(name, arguments); });
        let mut second = session(dialect);
        second.restore(&first.to_json()).expect("our own format");
        prop_assert_eq!(second.visible_names(), first.visible_names());
        prop_assert_eq!(second.to_json(), first.to_json());
    }
}

#[test]
fn the_least_recently_used_tool_gives_way() {
    let settings = Settings { max_loaded: 2, ..Settings::default() };
    let dialect = DialectName::Select;
    let mut session = Session::new(dialect, settings, catalog(), selection(), ranker(dialect)).expect("a session");
    let load = |session: &mut Session, name: &str| {
        session.call("tool_search", &json!({"query": format!("select:{name}")}));
    };
    load(&mut session, "create_issue");
    load(&mut session, "list_issues");
    session.call("create_issue", &json!({}));
    load(&mut session, "get_weather");
    assert_eq!(session.visible_names()[3..], ["create_issue", "get_weather"]);
    assert!(session.pin("create_issue"));
    load(&mut session, "send_message");
    load(&mut session, "list_issues");
    assert_eq!(session.visible_names()[3..], ["create_issue", "list_issues"]);
    assert!(session.list_changes() >= 5);
}

#[test]
fn a_changed_catalog_is_picked_up_at_once() {
    let mut session = session(DialectName::Select);
    session.call("tool_search", &json!({"query": "select:get_weather,create_issue"}));
    let changed = RawTool { name: "get_weather".into(), description: "Weather, renewed".into(), ..RawTool::default() };
    let (catalog, _) = session
        .catalog
        .with_server(pegboard_core::Server { name: "weather".into(), ..Default::default() }, vec![changed]);
    let catalog = catalog.without_server("github");
    assert_eq!(session.update(catalog), ["create_issue"]);
    let visible = session.visible();
    assert_eq!(visible.last().map(|tool| tool.description.as_str()), Some("Weather, renewed"));
    assert_eq!(session.update(session.catalog.clone()), Vec::<String>::new());
}

#[test]
fn a_session_of_another_format_is_refused() {
    let mut session = session(DialectName::Bridge);
    assert_eq!(session.restore(&json!({})), Err(SessionError::Format { found: "none".into() }));
    assert_eq!(session.restore(&json!({"version": 9})), Err(SessionError::Format { found: "9".into() }));
    assert_eq!(session.restore(&json!({"version": 1})), Err(SessionError::Incomplete { field: "loaded" }));
}

#[test]
fn a_sub_session_sees_no_more_than_its_parent() {
    let mut parent = session(DialectName::Select);
    parent.call("tool_search", &json!({"query": "select:get_weather"}));
    let child = parent.sub_session(Selection::everything().allow_servers(["weather", "vault"])).expect("a session");
    assert_eq!(
        child.native().deferred.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["get_weather", "ask_human"]
    );
    assert_eq!(child.visible_names(), ["tool_search", "ask_human"]);
}

#[test]
fn an_unloaded_call_can_answer_with_the_schema() {
    let settings = Settings { run_unloaded: false, ..Settings::default() };
    let dialect = DialectName::Select;
    let mut session = Session::new(dialect, settings, catalog(), selection(), ranker(dialect)).expect("a session");
    let answer = session.call("get_weather", &json!({}));
    assert!(answer.is_error && answer.target.is_none() && answer.reply.to_text().contains("inputSchema"));
    session.call("tool_search", &json!({"query": "select:get_weather"}));
    assert!(session.call("get_weather", &json!({})).target.is_some());
}

#[test]
fn prompts_can_be_strict_or_the_users_own() {
    let prompt = |settings: Settings| {
        let session = Session::new(DialectName::Select, settings, catalog(), selection(), ranker(DialectName::Select));
        session.expect("a session").with_categories(["github (issues)".to_owned()]).prompt()
    };
    assert!(prompt(Settings { strict: true, ..Settings::default() }).ends_with("search first."));
    let template = Some("Tools:\n{categories}".to_owned());
    assert_eq!(prompt(Settings { prompt_template: template, ..Settings::default() }), "Tools:\n- github (issues)");
}

#[test]
fn what_lies_behind_the_search_is_told_in_few_tokens() {
    let tool = |at: usize| RawTool {
        name: format!("do_{at}"),
        server: Some(format!("a-server-with-a-long-name-{}", at % 90)),
        ..RawTool::default()
    };
    let (catalog, _) = Catalog::from_tools((0..2000).map(tool).collect());
    let new = || {
        Session::new(
            DialectName::Bridge,
            Settings::default(),
            catalog.clone(),
            Selection::everything(),
            ranker(DialectName::Bridge),
        )
    };
    let (first, second) = (new().expect("a session").visible(), new().expect("a session").visible());
    assert_eq!(first, second);
    assert!(crate::estimate_tokens(&first[0].description) <= 120, "{}", first[0].description);
    assert!(first[0].description.contains(" more."), "{}", first[0].description);
}
