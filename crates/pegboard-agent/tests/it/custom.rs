//! Tools of the host program.

use pegboard_agent::{
    CustomTool, RegisterError, ToolDef, ToolError, ToolMeta,
    schemars::{self, JsonSchema},
};
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
    let visible = agent.visible().await;
    assert!(visible.contains(&"ping".to_owned()) && visible.contains(&"report".to_owned()), "{visible:?}");
    assert!(!visible.contains(&"send_message".to_owned()) && !visible.contains(&"archive".to_owned()), "{visible:?}");
    assert!(!visible.contains(&"consult".to_owned()), "nobody to ask: {visible:?}");
    assert_eq!(agent.tool_count().await, 4);
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
    assert!(answered[1].2 && answered[1].1.contains("the arguments do not fit"), "{answered:?}");
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
            .pre_discovered(["read_workspace_file", "write_workspace_file", "github__fail", "mail__fail", "fail"])
            .build()
            .await
            .expect("an agent");
        let visible = agent.visible().await;
        let found: Vec<&str> = visible.iter().skip(4).map(String::as_str).collect();
        assert_eq!(found, expected, "{servers:?} {tools:?}");
    };
    let all = ["read_workspace_file", "write_workspace_file", "github__fail", "mail__fail"];
    check(&[], &[], &all).await;
    check(&["github"], &["workspace:read_workspace_file"], &["read_workspace_file", "github__fail"]).await;
    check(&[], &["workspace:*"], &all[..2]).await;
    check(&["mail"], &[], &["mail__fail"]).await;
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
    assert_eq!(answered[4].1, "there is no server `elsewhere`");
    assert_eq!(answered[5].1, "`server` and `name` are required");
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
    check("two words", wrong("two words"));
    check("größe", wrong("größe"));
    check(&"x".repeat(65), wrong(&"x".repeat(65)));
    check("get_prompt", Some(RegisterError::Reserved { name: "get_prompt".into() }));
    let odd = ToolDef::new("odd", "", json!([]));
    assert_eq!(agent.registry().register(odd, done), Err(RegisterError::Schema { name: "odd".into() }));
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
