//! How the model gets at its tools.

use pegboard_agent::{CustomTool, Exposure, Mode, ToolDef, ToolError, ToolSearch};
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
    let visible = agent.visible();
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
    check(Exposure::Auto { max_tools: 5, max_tokens: 10_000 }, Mode::ToolSearch, "more than 5").await;
    check(Exposure::Auto { max_tools: 50, max_tokens: 10 }, Mode::ToolSearch, "more than 10").await;
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
    let visible = agent.visible();
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
        assert!(agent.visible().len() <= 512, "{mode}: {}", agent.visible().len());
        provider.assert_clean();
    }
}
