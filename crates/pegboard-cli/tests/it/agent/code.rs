//! Code execution from end to end: the model reads an API description, writes a script, and
//! the script calls tools from inside a sandbox.

use pegboard_agent::{Approval, CustomTool, Mode, Question, ToolDef, ToolError, shell::ShellSettings};
use pegboard_testkit::provider::{Provider, Script};
use serde_json::{Value, json};

use super::{
    real::{agent, call, run, say},
    shell::settings,
};
use crate::{gateway::fixture, harness::Folder};

/// Returns a request written by hand, so that no more than bash is needed.
fn post(path: &str, body: &str) -> String {
    format!(
        r#"address="${{MCP_API_URL#http://}}"
exec 3<>"/dev/tcp/${{address%:*}}/${{address#*:}}"
printf 'POST {path} HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}' "$address" "$MCP_API_TOKEN" >&3
cat <&3"#,
        length = body.len()
    )
}

fn double() -> CustomTool {
    let def =
        ToolDef::new("double", "Doubles a number", json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
    CustomTool::new(def, async |arguments: Value| {
        Ok::<_, ToolError>(json!({"doubled": arguments["n"].as_i64().unwrap_or(0) * 2}))
    })
}

async fn check(kind: &'static str) {
    let folder = Folder::new(&format!("agent-code-{kind}"));
    let Some(settings) = settings(kind, &folder.path().join("work"), kind) else { return };
    folder.file("mcp.json", json!({"mcpServers": {"fixture": fixture(&["--extras"])}}).to_string());
    let in_bash = |script: &str| {
        call("execute_shell_command", json!({"command": format!("bash -c '{}'", script.replace('\'', "'\\''"))}))
    };
    let provider = Provider::start(Script::new([
        call("get_api_spec", json!({"server_name": "fixture", "tool_name": "echo"})),
        in_bash(&post("/tools/mcp/fixture/echo", r#"{"hello": "there"}"#)),
        in_bash(&post("/tools/custom/double", r#"{"n": 21}"#)),
        in_bash(&post("/tools/mcp/fixture/ecko", "{}")),
        call("execute_shell_command", json!({"command": "echo kept > note.txt; exit 3"})),
        call("execute_shell_command", json!({"command": "cat note.txt; env | grep -c SECRET"})),
        call("echo", json!({"called": "directly"})),
        say("Done."),
    ]));
    let builder = agent("anthropic/claude-opus-4-8", &provider).mcp_config(folder.path().join("mcp.json"));
    let agent = builder.tool(double().eager()).code_execution(settings).build().await.expect("an agent");
    assert_eq!(agent.mode().0, Mode::CodeExecution);
    assert_eq!(agent.visible_tools(), ["get_api_spec", "execute_shell_command"], "and nothing else");
    let results = run(&agent, "Write a script").await;
    let about = format!("{kind}: {results:#?}");
    assert!(results[0].0.contains("openapi: 3.0.3") && results[0].0.contains("/tools/mcp/fixture/echo"), "{about}");
    assert!(results[1].0.starts_with("exit_code: 0\nstdout:\n") && results[1].0.contains("200 OK"), "{about}");
    assert!(results[1].0.contains(r#""success":true"#) && results[1].0.contains("there"), "{about}");
    assert!(results[2].0.contains(r#"{"success":true,"result":{"doubled":42},"error":null}"#), "{about}");
    assert!(results[3].0.contains("404 Not Found") && results[3].0.contains("echo"), "{about}");
    assert_eq!(results[4].0, "exit_code: 3\nstdout:\n\nstderr:\n", "{about}");
    assert!(results[5].0.contains("kept\n0\n"), "{about}");
    assert!(results[6].0.contains("directly"), "hiding is no permission: {about}");
    let first = provider.requests()[0].body.to_string();
    assert!(first.contains("MCP_API_TOKEN"), "the prompt says how");
    provider.assert_clean();
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_call_tools_from_inside_bubblewrap() {
    check("bubblewrap").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_call_tools_from_inside_namespaces() {
    check("namespaces").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_call_tools_from_inside_landlock() {
    check("landlock").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_need_consent_too() {
    let folder = Folder::new("agent-code-consent");
    let provider = Provider::start(Script::new([
        call("execute_shell_command", json!({"command": "touch here"})),
        say("I was not allowed to."),
    ]));
    let agent = agent("anthropic/claude-opus-4-8", &provider)
        .tool(double())
        .code_execution(ShellSettings::new(folder.path().join("work")))
        .human(async |_: Question| Some("not today".to_owned()))
        .approval(Approval::Destructive)
        .build()
        .await
        .expect("an agent");
    let results = run(&agent, "Make a file").await;
    assert_eq!(results[0].0, "`execute_shell_command` was not called: the user declined: not today");
    assert!(!folder.path().join("work/here").exists());
    provider.assert_clean();
}
