//! Tools of the host program.

use std::sync::Arc;

use pegboard_agent::{
    CustomTool, Mode, RegisterError, ServerConfig, ToolDef, ToolError, ToolMeta, TransportConfig,
    outputs::OutputSettings,
    schemars::{self, JsonSchema},
};
use pegboard_mcp::json::{Raw, raw};
use pegboard_upstream::{AnswerFuture, LocalServer};
use serde_json::{Value, json};

use crate::support::{Weather, agent, call, provider, results, run, say};

#[derive(JsonSchema, serde::Deserialize)]
struct Message {
    /// Whom to write to
    to: String,
    text: String,
}

async fn send(message: Message) -> Result<String, ToolError> {
    Ok(format!("sent to {}: {}", message.to, message.text))
}

fn def(name: &str) -> ToolDef {
    ToolDef::new(name, format!("does {name}"), json!({"type": "object", "properties": {}}))
}

async fn done(_: Value) -> Result<&'static str, ToolError> {
    Ok("done")
}

#[tokio::test]
async fn eager_deferred_and_plain_registrations() {
    let provider = provider([say("?")]);
    let agent = agent(&provider)
        .tool(CustomTool::typed("send_message", "Send a message", send).with_hint("post to chat"))
        .tool(CustomTool::new(def("ping"), done).eager())
        .tool_with_meta(def("archive"), done, ToolMeta::deferred_with_hint("put away old mail"))
        .tool(CustomTool::new(def("report"), done).with_category("structured_output"))
        .tool(CustomTool::human(def("consult")))
        .build()
        .await
        .expect("an agent");
    let visible = agent.visible_tools();
    assert!(visible.contains(&"ping".to_owned()) && visible.contains(&"report".to_owned()), "{visible:?}");
    assert!(!visible.contains(&"send_message".to_owned()) && !visible.contains(&"archive".to_owned()), "{visible:?}");
    assert!(!visible.contains(&"consult".to_owned()), "nobody to ask: {visible:?}");
    assert_eq!(agent.tool_count(), 4);
}

#[tokio::test]
async fn hidden_functions_run_and_can_be_registered_later() {
    let provider = provider([
        call("send_message", json!({"to": "Ann", "text": "hi"})),
        call("send_message", json!({"to": 7})),
        say("Sent."),
        call("search_tools", json!({"query": "later"})),
        call("later", json!({})),
        say("Late."),
        call("later", json!({})),
        say("Gone."),
    ]);
    let agent = agent(&provider)
        .tool(CustomTool::typed("send_message", "Send a message", send))
        .build()
        .await
        .expect("an agent");
    let (events, _) = run(&agent, "Write to Ann").await;
    let answered = results(&events);
    assert_eq!(answered[0].1, "sent to Ann: hi");
    assert!(answered[1].2 && answered[1].1.contains("/to must be a string, not 7"), "{answered:?}");
    agent.registry().register(def("later"), done).expect("registered");
    let (events, _) = run(&agent, "And later").await;
    let answered = results(&events);
    assert!(answered[0].1.contains("\"found\":1"), "{answered:?}");
    assert_eq!(answered[1].1, "done");
    assert!(agent.registry().remove("later"));
    let (events, _) = run(&agent, "Again").await;
    let answered = results(&events);
    assert!(answered[0].2 && answered[0].1.starts_with("no tool `later`"), "{answered:?}");
    provider.assert_clean();
}

#[tokio::test]
async fn a_tool_that_panics_breaks_nothing() {
    let provider = provider([call("explode", json!({})), say("Oh.")]);
    let explode = CustomTool::new(def("explode"), |_: Value| async {
        let numbers: Vec<u32> = "no number".split(' ').filter_map(|word| word.parse().ok()).collect();
        Ok::<_, ToolError>(format!("{}", numbers[0]))
    });
    let agent = agent(&provider).tool(explode).build().await.expect("an agent");
    assert_eq!(agent.run("Go").await.expect("an answer").text, "Oh.");
    provider.assert_clean();
}

#[tokio::test]
async fn selections() {
    let check = async |servers: &[&str], tools: &[&str], expected: &[&str]| {
        let provider = provider([say("?")]);
        let agent = agent(&provider)
            .servers([Weather::default().named("github"), Weather::default().named("mail")])
            .tool(CustomTool::new(def("read_workspace_file"), done).with_category("workspace"))
            .tool(CustomTool::new(def("write_workspace_file"), done).with_category("workspace"))
            .selected_servers(servers)
            .selected_tools(tools)
            .pre_discovered(["read_workspace_file", "write_workspace_file", "github___fail", "mail___fail", "fail"])
            .build()
            .await
            .expect("an agent");
        let visible = agent.visible_tools();
        let found: Vec<&str> = visible.iter().skip(4).map(String::as_str).collect();
        assert_eq!(found, expected, "{servers:?} {tools:?}");
    };
    let all = ["read_workspace_file", "write_workspace_file", "github___fail", "mail___fail"];
    check(&[], &[], &all).await;
    check(&["github"], &["workspace:read_workspace_file"], &["read_workspace_file", "github___fail"]).await;
    check(&[], &["workspace:*"], &all[..2]).await;
    check(&["mail"], &[], &["mail___fail"]).await;
}

#[tokio::test]
async fn prompts_and_resources_are_found_and_fetched() {
    let provider = provider([
        call("search_tools", json!({"query": "get_prompt|get_resource"})),
        call("add_tool", json!({"tool_names": ["get_prompt", "get_resource"]})),
        call("get_prompt", json!({"server": "weather", "name": "briefing", "arguments": {"who": "Ann"}})),
        call("get_resource", json!({"server": "weather", "uri": "weather://stations"})),
        call("get_resource", json!({"server": "elsewhere", "uri": "x:y"})),
        call("get_prompt", json!({"server": "weather"})),
        say("Done."),
    ]);
    let agent = agent(&provider).servers([Weather::default().config()]).build().await.expect("an agent");
    let (events, _) = run(&agent, "Brief me").await;
    let answered = results(&events);
    assert!(answered[0].1.contains("\"found\":2"), "{answered:?}");
    assert_eq!(answered[2].1, "user: Brief Ann");
    assert_eq!(answered[3].1, "Rome, Tokyo");
    assert_eq!(answered[4].1, "no server `elsewhere`");
    assert!(answered[5].1.contains("/name is missing"), "{answered:?}");
    let first = provider.requests()[0].body.to_string();
    assert!(first.contains("briefing (server weather): A morning briefing"), "the prompt tells of it");
    provider.assert_clean();
}

#[tokio::test]
async fn names_that_no_provider_takes() {
    let provider = provider([say("?")]);
    let agent = agent(&provider).build().await.expect("an agent");
    let check = |name: &str, expected: Option<RegisterError>| {
        assert_eq!(agent.registry().register(def(name), done).err(), expected, "{name}");
    };
    let wrong = |name: &str| Some(RegisterError::Name { name: name.to_owned() });
    check("fine_name-2", None);
    check("", wrong(""));
    check("2fa_code", wrong("2fa_code"));
    check("two words", wrong("two words"));
    check("größe", wrong("größe"));
    check(&"x".repeat(65), wrong(&"x".repeat(65)));
    check("get_prompt", Some(RegisterError::Reserved { name: "get_prompt".into() }));
    for schema in [json!([]), json!({"type": "string"}), json!(null)] {
        let odd = ToolDef::new("odd", "", schema);
        assert_eq!(agent.registry().register(odd, done), Err(RegisterError::Schema { name: "odd".into() }));
    }
}

#[test]
fn schemas_from_types() {
    let def = ToolDef::of::<Message>("send", "Send");
    assert_eq!(
        def.input_schema,
        json!({
            "type": "object",
            "properties": {"to": {"description": "Whom to write to", "type": "string"}, "text": {"type": "string"}},
            "required": ["to", "text"]
        })
    );
    assert_eq!(ToolDef::of::<()>("none", "").input_schema, json!({"type": "object", "properties": {}}));
}

#[tokio::test]
async fn a_later_function_takes_nothing_from_the_model() {
    let provider = provider([
        call("add_tool", json!({"tool_names": ["get_weather"]})),
        call("get_weather", json!({"location": "Rome"})),
        say("Sunny."),
        call("get_weather", json!({"location": "Oslo"})),
        say("Sunny again."),
    ]);
    let agent = agent(&provider).servers([Weather::default().config()]).build().await.expect("an agent");
    run(&agent, "Weather?").await;
    agent.registry().register(def("get_weather"), done).expect("registered");
    let (events, _) = run(&agent, "And in Oslo?").await;
    assert_eq!(results(&events)[0].1, "sunny in Oslo", "the tool that the model knows by this name");
    provider.assert_clean();
}

#[tokio::test]
async fn servers_cannot_take_names_that_are_not_theirs() {
    let provider = provider([say("?")]);
    let odd = Odd(&["read.large.output", "ask.human", "ping", "2fa_code", "search_tools", "a b", "a_b"]);
    let server = ServerConfig::new("odd", TransportConfig::Local(Arc::new(odd)));
    let agent = agent(&provider)
        .servers([server])
        .tool(CustomTool::new(def("ping"), done).eager())
        .offload(OutputSettings::new(std::env::temp_dir()))
        .mode(Mode::Normal)
        .build()
        .await
        .expect("an agent");
    let mut visible = agent.visible_tools();
    for own in ["ping", "read_large_output", "search_large_output"] {
        assert_eq!(visible.iter().filter(|name| *name == own).count(), 1, "{visible:?}");
    }
    visible.retain(|name| name.starts_with("odd___") || name == "search_tools");
    visible.sort_unstable();
    let expected =
        ["odd___2fa_code", "odd___a_b", "odd___ask_human", "odd___ping", "odd___read_large_output", "search_tools"];
    assert_eq!(visible[..1], expected[..1], "{visible:?}");
    assert!(expected[2..].iter().all(|name| visible.contains(&(*name).to_owned())), "{visible:?}");
    let gemini = regex::Regex::new("^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$").expect("a pattern");
    assert!(agent.visible_tools().iter().all(|name| gemini.is_match(name)), "{:?}", agent.visible_tools());
}

/// A server whose tools are called like this.
#[derive(Debug)]
struct Odd(&'static [&'static str]);

impl LocalServer for Odd {
    fn answer<'a>(&'a self, method: &'a str, _: Option<Raw>) -> AnswerFuture<'a> {
        let tool = |name: &&str| json!({"name": name, "description": "", "inputSchema": {"type": "object"}});
        let result = match method {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
            "tools/list" => json!({"tools": self.0.iter().map(tool).collect::<Vec<_>>()}),
            _ => json!({"content": []}),
        };
        Box::pin(std::future::ready(Ok(raw(&result))))
    }
}

#[tokio::test]
async fn a_tool_may_look_at_its_agent() {
    let provider = provider([call("look", json!({})), say("Seen.")]);
    let agent = agent(&provider).build().await.expect("an agent");
    let this = agent.clone();
    let look = move |_: Value| {
        let this = this.clone();
        async move {
            Ok::<_, ToolError>(format!("{} visible, {} spent", this.visible_tools().len(), this.total_usage().0.output))
        }
    };
    agent.registry().register(def("look"), look).expect("registered");
    let (events, _) = run(&agent, "Look").await;
    assert!(results(&events)[0].1.starts_with("4 visible"), "{events:?}");
}
