//! The document's flow: search, add, call, answer.

use pegboard_agent::{AgentEvent, DialectName, Mode, ToolSearch};
use pegboard_core::naming::{Prefixes, Style};
use pegboard_testkit::provider::{Output, Part, Provider, Script, ScriptedTurn, Stop};
use serde_json::json;

use crate::support::{MODELS, Weather, agent, agent_of, call, last_body, provider, results, run, say};

fn weather_script() -> Script {
    Script::new([
        call("search_tools", json!({"query": "weather"})),
        call("add_tool", json!({"tool_names": ["get_weather"]})),
        call("get_weather", json!({"location": "Tokyo"})),
        say("It is sunny in Tokyo."),
    ])
    // Seen by the model only when it was added.
    .forbid("get_weather", 2)
    .forbid("weather_forecast", 9)
}

#[tokio::test]
async fn search_add_call_answer_with_each_provider() {
    for model in MODELS {
        let provider = Provider::start(weather_script());
        let agent = agent_of(model, &provider).servers([Weather::default().config()]).build().await.expect("an agent");
        let first = agent.visible_tools();
        assert_eq!(first, ["search_tools", "add_tool", "show_all_tools", "remove_tool"], "{model}");
        let (events, answer) = run(&agent, "Get the weather in Tokyo").await;
        assert_eq!(answer.text, "It is sunny in Tokyo.", "{model}");
        assert_eq!(answer.turns, 4);
        let answered = results(&events);
        assert!(answered[0].1.contains("\"found\":2"), "{model}: {answered:?}");
        assert_eq!(answered[1].1, "Added tools: get_weather");
        assert_eq!(answered[2].1, "sunny in Tokyo");
        let changed = events.iter().any(
            |event| matches!(event, AgentEvent::ToolsChanged { visible } if visible.last().is_some_and(|name| name == "get_weather")),
        );
        assert!(changed, "{model}: {events:?}");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn every_dialect_finds_and_calls() {
    let found = |dialect| match dialect {
        DialectName::Bridge => (
            call("search_tools", json!({"query": "weather now"})),
            call("call_tool", json!({"name": "get_weather", "arguments": {"location": "Tokyo"}})),
        ),
        DialectName::Select => {
            (call("tool_search", json!({"query": "weather"})), call("get_weather", json!({"location": "Tokyo"})))
        }
        DialectName::Schema => {
            (call("ToolSearch", json!({"query": "weather"})), call("get_weather", json!({"location": "Tokyo"})))
        }
        DialectName::Ranked => (
            call("tool_search", json!({"query": "get current weather"})),
            call("get_weather", json!({"location": "Tokyo"})),
        ),
        _ => (
            call("search_available_tools", json!({"query": "weather"})),
            call("get_weather", json!({"location": "Tokyo"})),
        ),
    };
    for dialect in DialectName::ALL.into_iter().filter(|dialect| *dialect != DialectName::Explicit) {
        let (search, called) = found(dialect);
        let provider = provider([search, called, say("Sunny.")]);
        let mut search = ToolSearch::with_dialect(dialect);
        search.settings.max_tools_limit = 1;
        let builder = agent(&provider).servers([Weather::default().config()]).tool_search(search);
        let agent = builder.build().await.expect("an agent");
        let (events, answer) = run(&agent, "Weather?").await;
        assert_eq!(answer.text, "Sunny.", "{dialect:?}");
        let answered = results(&events);
        assert!(answered[0].1.contains("get_weather"), "{dialect:?}: {answered:?}");
        assert_eq!(answered[1].1, "sunny in Tokyo", "{dialect:?}: {answered:?}");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn parallel_calls_are_answered_in_their_order_and_refresh_once() {
    let add = |name: &str| Part::call("add_tool", json!({"tool_names": [name]}));
    let provider = provider([
        ScriptedTurn::say([add("get_weather"), add("weather_forecast")]),
        ScriptedTurn::say([
            Part::call("weather_forecast", json!({"location": "Rome"})),
            Part::call("get_weather", json!({"location": "Rome"})),
            Part::call("fail", json!({})),
        ]),
        say("Done."),
    ]);
    let agent = agent(&provider).servers([Weather::default().config()]).build().await.expect("an agent");
    let (events, _) = run(&agent, "Both, please").await;
    let changes = events.iter().filter(|event| matches!(event, AgentEvent::ToolsChanged { .. })).count();
    assert_eq!(changes, 1, "one refresh for the batch: {events:?}");
    let body = last_body(&provider);
    let place = |text: &str| body.rfind(text).unwrap_or_else(|| panic!("no `{text}` in {body}"));
    assert!(place("rain for 7 days") < place("sunny in Rome") && place("sunny in Rome") < place("the station is down"));
    provider.assert_clean();
}

#[tokio::test]
async fn what_goes_wrong_in_a_tool_is_for_the_model_to_read() {
    let provider = provider([
        call("fail", json!({})),
        call("refuse", json!({})),
        call("get_wether", json!({"location": "Rome"})),
        call("nothing_like_it_at_all", json!({})),
        say("I tried."),
    ]);
    let agent = agent(&provider).servers([Weather::default().config()]).build().await.expect("an agent");
    let (events, answer) = run(&agent, "Try").await;
    assert_eq!(answer.text, "I tried.");
    let answered = results(&events);
    assert!(answered.iter().all(|(_, _, is_error)| *is_error), "{answered:?}");
    assert_eq!(answered[0].1, "the station is down");
    assert_eq!(answered[1].1, "`city` is not a city");
    assert!(answered[2].1.contains("nearest names: get_weather"), "{answered:?}");
    assert!(answered[3].1.starts_with("no tool `nothing_like_it_at_all`"), "{answered:?}");
    provider.assert_clean();
}

#[tokio::test]
async fn an_unloaded_tool_follows_policy() {
    for (runs, expected) in [(true, "sunny in Rome"), (false, "is not loaded")] {
        let provider = provider([call("get_weather", json!({"location": "Rome"})), say("Done.")]);
        let mut search = ToolSearch::with_dialect(DialectName::Explicit);
        search.settings.run_unloaded = runs;
        let builder = agent(&provider).servers([Weather::default().config()]).tool_search(search);
        let agent = builder.build().await.expect("an agent");
        let (events, _) = run(&agent, "Weather?").await;
        let (_, text, is_error) = &results(&events)[0];
        assert!(text.contains(expected), "{text}");
        assert_eq!(*is_error, !runs);
        assert!(runs || text.contains("inputSchema"), "the schema heals: {text}");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_call_nothing() {
    let provider = provider([
        // Chat carries arguments as text; this one is cut.
        ScriptedTurn::say([Part::Raw(json!({"tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"location\": "}}
        ]}))]),
        say("Sorry."),
    ]);
    let weather = Weather::default();
    let agent = agent_of("openai/gpt-5.4", &provider).servers([weather.config()]).build().await.expect("an agent");
    let answer = agent.run("Weather?").await.expect("an answer");
    assert_eq!(answer.text, "Sorry.");
    assert!(last_body(&provider).contains("are not JSON; nothing was called"));
    assert_eq!(weather.calls.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn one_conversation_across_runs() {
    let provider = Provider::start(
        Script::new([
            call("add_tool", json!({"tool_names": ["get_weather"]})),
            say("Added."),
            call("get_weather", json!({"location": "Oslo"})),
            say("Sunny in Oslo."),
        ])
        .forbid("get_weather", 1),
    );
    let agent = agent(&provider).servers([Weather::default().config()]).build().await.expect("an agent");
    assert_eq!(agent.run("Get ready").await.expect("an answer").text, "Added.");
    assert!(agent.visible_tools().contains(&"get_weather".to_owned()));
    assert_eq!(agent.run("Weather in Oslo?").await.expect("an answer").text, "Sunny in Oslo.");
    assert!(last_body(&provider).contains("Get ready"));
    let (usage, cost) = agent.total_usage();
    assert!(usage.input > 0 && usage.output > 0 && cost.is_none());
    provider.assert_clean();
}

#[tokio::test]
async fn names_that_several_servers_have() {
    let provider = provider([
        call("add_tool", json!({"tool_names": ["get_weather", "north__get_weather"]})),
        call("north___get_weather", json!({"location": "Oslo"})),
        call("get_weather", json!({"location": "Rome"})),
        call("mcp__south__get_weather", json!({"location": "Rome"})),
        say("Done."),
    ]);
    let weather = Weather::default();
    let servers = [weather.named("north"), weather.named("south")];
    let agent = agent(&provider).servers(servers).build().await.expect("an agent");
    let (events, _) = run(&agent, "Weather?").await;
    let answered = results(&events);
    let added = "Added tools: north___get_weather\nNot found: get_weather\n\
                 Nearest names: north___get_weather, south___get_weather";
    assert_eq!(answered[0].1, added);
    assert_eq!(answered[1].1, "sunny in Oslo");
    let ambiguous = "`get_weather` is on several servers: north___get_weather, south___get_weather";
    assert_eq!((answered[2].1.as_str(), answered[2].2), (ambiguous, true));
    assert_eq!(answered[3].1, "sunny in Rome");
}

#[tokio::test]
async fn names_carry_their_server_when_they_are_told_to() {
    let check = async |prefixes: Prefixes, names: &[&str], expected: &[&str]| {
        let weather = Weather::default();
        let servers: Vec<_> = names.iter().map(|name| weather.named(name)).collect();
        let provider = provider([say("?")]);
        let style = Style { separator: "__".to_owned(), ..Style::default() };
        let agent = agent(&provider).servers(servers).names(style, prefixes).mode(Mode::Normal);
        let agent = agent.build().await.expect("an agent");
        let mut visible = agent.visible_tools();
        visible.retain(|name| name.ends_with("get_weather"));
        assert_eq!(visible, expected, "{prefixes:?} {names:?}");
    };
    check(Prefixes::Auto, &["north"], &["get_weather"]).await;
    check(Prefixes::Always, &["north"], &["north__get_weather"]).await;
    let both = ["north__get_weather", "south__get_weather"];
    check(Prefixes::Auto, &["north", "south"], &both).await;
    check(Prefixes::Never, &["north", "south"], &both).await;
    check(Prefixes::Never, &["north"], &["get_weather"]).await;
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_not_made() {
    let calls = vec![Part::call("get_weather", json!({"location": "Rome"})), Part::call("fail", json!({}))];
    let cut = ScriptedTurn::Say(Output { parts: calls, stop: Some(Stop::MaxTokens), ..Output::default() });
    let provider = provider([cut, say("Shorter, then.")]);
    let weather = Weather::default();
    let agent = agent(&provider).servers([weather.config()]).build().await.expect("an agent");
    let (events, _) = run(&agent, "Both").await;
    let answered = results(&events);
    assert!(answered.iter().any(|(_, text, is_error)| text == "sunny in Rome" && !is_error), "{answered:?}");
    assert!(answered.iter().any(|(_, text, is_error)| text.contains("were cut off") && *is_error), "{answered:?}");
    assert_eq!(weather.calls.load(std::sync::atomic::Ordering::SeqCst), 1);
    provider.assert_clean();
}

#[tokio::test]
async fn events_tell_what_a_search_found() {
    let provider = provider([call("search_tools", json!({"query": "weather"})), say("Found.")]);
    let agent = agent(&provider).servers([Weather::default().config()]).build().await.expect("an agent");
    let (events, _) = run(&agent, "Weather?").await;
    let found = events.iter().find_map(|event| match event {
        AgentEvent::CallFinished { metadata, .. } => metadata.clone(),
        _ => None,
    });
    let search = &found.expect("what was found")["searches"][0];
    assert_eq!((&search["query"], &search["hits"][0]), (&json!("weather"), &json!("get_weather")));
}
