//! Servers with malicious text.

use serde_json::{Value, json};

use super::{Served, command, fixture, names, text};

/// Returns a character that must not get through: it controls a terminal, changes the text
/// direction, or is only visible to models.
fn forbidden(text: &str) -> Option<char> {
    text.chars().find(|c| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    })
}

#[track_caller]
fn check_text(what: &str, text: &str) {
    assert_eq!(forbidden(text), None, "{what}: {text:?}");
}

/// Checks all texts in a value, except those that must stay unchanged.
#[track_caller]
fn check(what: &str, value: &Value) {
    match value {
        Value::String(text) => check_text(what, text),
        Value::Array(items) => items.iter().for_each(|item| check(what, item)),
        Value::Object(fields) => {
            fields
                .iter()
                .filter(|(key, _)| *key != "enum")
                .for_each(|(key, value)| check(&format!("{what}.{key}"), value));
        }
        _ => {}
    }
}

fn config(pegboard: &Value) -> Value {
    json!({"mcpServers": {"evil": fixture(&["--extras", "--fault", "hostile"])}, "pegboard": pegboard})
}

#[tokio::test]
async fn lists_calls_and_logs_are_clean() {
    let served = Served::start("hostile-lists", &config(&json!({"exposure": "never"}))).await;
    let session = served.legacy().await;
    let listed = session.request("tools/list", json!({})).await;
    check_text("tools/list", &listed.raw);
    check("tools/list", listed.result());
    check("initialize", &session.hello);
    assert!(session.hello.to_string().contains("nothing it does matters"));
    let tools = listed.result()["tools"].as_array().cloned().unwrap_or_default();
    let wipe = tools.iter().find(|tool| tool["title"].as_str().is_some_and(|title| title.starts_with("Wipe")));
    let wipe = wipe.expect("the tool is there");
    // Visible text is complete, including whole graphemes and all languages.
    assert_eq!(wipe["description"], "Shows the time. 👩\u{200d}👧 שלום");
    assert_eq!(wipe["inputSchema"]["properties"]["path"]["title"], "a b");
    let long = wipe["inputSchema"]["properties"]["mode"]["description"].as_str().unwrap_or_default();
    assert!(long.len() <= 16 << 10 && long.ends_with('…'), "{}", long.len());
    // A value is what it is.
    let value = wipe["inputSchema"]["properties"]["mode"]["enum"][0].as_str().unwrap_or_default();
    assert!(value.starts_with("fast") && value.contains('\u{202e}'), "{value:?}");
    let name = wipe["name"].as_str().expect("a name");
    assert!(name.is_ascii(), "{name}");
    assert_eq!(text(&session.call(name, json!({})).await), "called by its true name");
    let refused = session.call("refuse", json!({})).await;
    check("refusal", &refused.response);
    assert!(refused.error().1.starts_with("No."), "{refused:?}");
    served.wait_for_log("hostile words").await;
    served.wait_for_log("hidden-characters").await;
    check_text("log", &served.log());
    // Other definitions are passed on to the byte.
    assert!(
        listed.raw.contains(r#""inputSchema":{"type":"object","additionalProperties":true,"x-vendor":{"kept":true}}"#)
    );
}

#[tokio::test]
async fn searches_and_prompts_are_clean() {
    let served = Served::start("hostile-search", &config(&json!({"dialect": "bridge"}))).await;
    let session = served.legacy().await;
    check("initialize", &session.hello);
    let found = session.call("search_tools", json!({"query": "shows the time wipe disk"})).await;
    check("search", found.result());
    assert!(text(&found).contains("wipe"), "{found:?}");
    let modern = served.modern("server/discover", json!({})).await;
    check("discover", modern.result());
    let unknown = session.call("call_tool", json!({"name": "no\u{202e}such\u{1b}[31m", "arguments": {}})).await;
    check("unknown", unknown.result());
    assert!(!names(&session.request("tools/list", json!({})).await, "tools").is_empty());
    check_text("log", &served.log());
}

#[tokio::test]
async fn catalogs_are_clean() {
    let folder = crate::harness::Folder::new("hostile-catalog");
    folder.file("pegboard.json", config(&json!({})).to_string());
    let output =
        command().args(["catalog", "pegboard.json", "--log-level", "debug"]).current_dir(folder.path()).output();
    let output = output.await.expect("it ends");
    let (out, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    check_text("catalog", &out);
    check_text("log", &log);
    let line = out.lines().find(|line| line.contains("Shows the time.")).expect("the tool is there");
    check("catalog", &serde_json::from_str(line).expect("JSON"));
    // And can be searched.
    folder.file("tools.jsonl", out.as_bytes());
    let found = folder.run(&["search", "shows the time", "--catalog", "tools.jsonl", "--format", "text"]);
    check_text("search", &String::from_utf8_lossy(&found.stdout));
}
