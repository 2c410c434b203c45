//! How the model gets at its tools.

use pegboard_agent::{AgentEvent, CustomTool, Delivery, DialectName, Exposure, Mode, ToolDef, ToolError, ToolSearch};
use pegboard_testkit::provider::{Fault, ScriptedError, ScriptedTurn};
use serde_json::{Value, json};

use crate::support::{Weather, agent, agent_of, call, provider, results, run, say};

async fn done(_: Value) -> Result<&'static str, ToolError> {
    Ok("done")
}

#[tokio::test]
async fn normal_mode_shows_everything_and_no_search() {
    let provider = provider([call("get_weather", json!({"location": "Rome"})), say("Sunny.")]);
    let builder = agent(&provider).servers([Weather::default().config()]).mode(Mode::Normal);
    let agent = builder.build().await.expect("an agent");
    let visible = agent.visible_tools();
    assert!(visible.contains(&"get_weather".to_owned()) && visible.contains(&"get_prompt".to_owned()), "{visible:?}");
    assert!(!visible.iter().any(|name| name.contains("search")), "{visible:?}");
    let (events, _) = run(&agent, "Weather?").await;
    assert_eq!(results(&events)[0].1, "sunny in Rome");
    let first = provider.requests()[0].body.to_string();
    assert!(!first.contains("defer_loading") && !first.contains("search"), "{first}");
    provider.assert_clean();
}

#[tokio::test]
async fn auto_decides_by_number_and_tokens() {
    let check = async |exposure: Exposure, expected: Mode, because: &str| {
        let provider = provider([say("?")]);
        let search = ToolSearch { exposure, ..ToolSearch::default() };
        let builder = agent(&provider).servers([Weather::default().config()]).tool_search(search).mode(Mode::Auto);
        let agent = builder.build().await.expect("an agent");
        let (mode, reason) = agent.mode();
        assert_eq!(mode, expected, "{reason}");
        assert!(reason.contains(because), "{reason}");
    };
    check(Exposure::default(), Mode::Normal, "within").await;
    check(Exposure::Auto { max_tools: 5, max_tokens: 10_000 }, Mode::ToolSearch, "over the limit of 5").await;
    check(Exposure::Auto { max_tools: 50, max_tokens: 10 }, Mode::ToolSearch, "over the limit of 10").await;
}

#[tokio::test]
async fn an_agent_without_tools_talks() {
    for mode in [Mode::Auto, Mode::Normal] {
        let provider = provider([say("Hello.")]);
        let agent = agent(&provider).mode(mode).build().await.expect("an agent");
        assert_eq!(agent.run("Hi").await.expect("an answer").text, "Hello.");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn a_custom_tool_like_a_meta_tool_is_shown_under_another_name() {
    let provider = provider([say("?")]);
    let def = ToolDef::new("add_tool", "adds", json!({"type": "object", "properties": {}}));
    let agent = agent(&provider).tool(CustomTool::new(def, done).eager()).build().await.expect("an agent");
    let visible = agent.visible_tools();
    assert_eq!(visible.iter().filter(|name| *name == "add_tool").count(), 1, "{visible:?}");
    assert_eq!(visible.len(), 5, "{visible:?}");
}

#[tokio::test]
async fn no_provider_is_sent_more_than_it_takes() {
    for mode in [Mode::Normal, Mode::ToolSearch] {
        let names: Vec<String> = (0..600).map(|number| format!("counter_{number}")).collect();
        let add = call("add_tool", json!({"tool_names": names}));
        let provider = provider([if mode == Mode::Normal { say("So many.") } else { add }, say("So many.")]);
        let mut builder = agent_of("gemini/gemini-3-pro", &provider).mode(mode);
        for name in &names {
            let def = ToolDef::new(name.as_str(), "Counts", json!({"type": "object", "properties": {}}));
            builder = builder.tool(CustomTool::new(def, done));
        }
        let agent = builder.build().await.expect("an agent");
        assert_eq!(agent.run("Count").await.expect("an answer").text, "So many.", "{mode}");
        assert!(agent.visible_tools().len() <= 512, "{mode}: {}", agent.visible_tools().len());
        provider.assert_clean();
    }
}

/// The deliveries and warnings among the events of a run.
fn reported(events: &[AgentEvent]) -> Vec<String> {
    let report = |event: &AgentEvent| match event {
        AgentEvent::Delivery { delivery, reason } => Some(format!("{delivery}: {reason}")),
        AgentEvent::Warning(text) => Some(format!("warning: {text}")),
        _ => None,
    };
    events.iter().filter_map(report).collect()
}

#[tokio::test]
async fn the_delivery_and_every_fallback_are_reported() {
    let check = async |model: &str, wish: Option<Delivery>, turns: Vec<ScriptedTurn>, expected: &[&str]| {
        let provider = provider(turns);
        let search = ToolSearch { delivery: wish, ..ToolSearch::with_dialect(DialectName::Select) };
        let builder = agent_of(model, &provider).servers([Weather::default().config()]).tool_search(search);
        let agent = builder.build().await.expect("an agent");
        let (events, _) = run(&agent, "Hi").await;
        assert_eq!(reported(&events), expected, "{model}");
        let (events, _) = run(&agent, "Again").await;
        assert_eq!(reported(&events), [""; 0], "{model}: reported once");
    };
    let refused = || {
        let message = Some("tools.1: Extra inputs are not permitted".to_owned());
        ScriptedTurn::Fail(Fault::Status(ScriptedError { status: 400, message, ..ScriptedError::default() }))
    };
    let knows = "reference: `claude-opus-4-8` supports tool references";
    check("anthropic/claude-opus-4-8", None, vec![say("Hello."), say("Again.")], &[knows]).await;
    // A newer model of the family, which refuses with a message that is not known here.
    let newer = "reference: `claude-saga-6` is newer than models known to support tool references";
    let fallback = "inject: anthropic rejected delivery `reference`";
    check("anthropic/claude-saga-6", None, vec![say("Hello."), say("Again.")], &[newer]).await;
    check("anthropic/claude-saga-6", None, vec![refused(), say("Hello."), say("Again.")], &[newer, fallback]).await;
    // Asked for, and honoured.
    let warning = "warning: delivery `reference` with `minimax/MiniMax-M9`: the model is not known to support tool \
                   references; `inject` is used if the provider rejects it";
    let turns = vec![say("Hello."), say("Again.")];
    let expected = ["reference: requested", warning, "inject: minimax rejected delivery `reference`"];
    check("minimax/MiniMax-M9", Some(Delivery::Reference), turns, &expected).await;
}

#[tokio::test]
async fn normal_mode_says_what_it_hides() {
    let check = async |tools: usize, delivery: Option<Delivery>, expected: &[&str]| {
        let provider = provider([say("So many."), say("Again.")]);
        let search = ToolSearch { delivery, ..ToolSearch::default() };
        let mut builder = agent_of("gemini/gemini-3-pro", &provider).tool_search(search).mode(Mode::Normal);
        for number in 0..tools {
            let def = ToolDef::new(format!("counter_{number}"), "Counts", json!({"type": "object", "properties": {}}));
            builder = builder.tool(CustomTool::new(def, done));
        }
        let agent = builder.build().await.expect("an agent");
        let (events, _) = run(&agent, "Count").await;
        assert_eq!(reported(&events), expected, "{tools}");
        let (events, _) = run(&agent, "Again").await;
        assert_eq!(reported(&events), [""; 0], "{tools}: reported once");
    };
    check(400, None, &[]).await;
    let hides = "warning: mode `normal` cannot list all 600 tools: gemini accepts 512 per request; 120 are hidden \
                 until the model finds them with `search_available_tools`";
    check(600, None, &[hides]).await;
    let unused = "warning: delivery `inject` has no effect in mode `normal`, which does not use tool search";
    check(3, Some(Delivery::Inject), &[unused]).await;
}
