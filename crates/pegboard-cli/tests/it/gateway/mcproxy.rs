//! A configuration file in the form of MCProxy: steps under `httpServer.middleware`.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{Served, command, fixture, names, text};

fn step(kind: &str, config: &Value) -> Value {
    json!({"type": kind, "enabled": true, "config": config})
}

fn rule(name: &str, pattern: &str, is_enabled: bool) -> Value {
    json!({
        "name": name,
        "description": "Blocks what the test sends",
        "pattern": pattern,
        "block_message": format!("{name} is not allowed"),
        "enabled": is_enabled
    })
}

/// Returns a file with all features of MCProxy, with steps for all servers and for single ones.
fn config() -> Value {
    let rules = json!([rule("no_passwords", "/etc/passwd", true), rule("no_tmp", "/tmp", false)]);
    let quiet = json!({"rules": [rule("quiet_rule", "/etc/shadow", true)], "log_blocked": false});
    json!({
        "mcpServers": {"open": fixture(&["--extras"]), "narrow": fixture(&["--extras"]), "quiet": fixture(&["--extras"])},
        "httpServer": {
            "host": "localhost",
            "port": 8080,
            "corsEnabled": true,
            "corsOrigins": ["*"],
            "shutdownTimeout": 5,
            "middleware": {
                "proxy": [
                    step("description_enricher", &json!({})),
                    step("tool_search", &json!({
                        "maxToolsLimit": 5, "searchThreshold": 0.1, "toolSelectionOrder": ["server_priority"]
                    }))
                ],
                "client": {
                    "default": [
                        step("logging", &json!({"level": "info"})),
                        step("security", &json!({"rules": rules, "log_blocked": true}))
                    ],
                    "servers": {
                        "narrow": [step("tool_filter", &json!({"allow": "^(echo|slow)$", "disallow": "slow"}))],
                        "quiet": [step("security", &quiet)]
                    }
                }
            }
        }
    })
}

#[tokio::test]
async fn steps_of_a_file_of_mcproxy_apply() {
    let served = Served::start("mcproxy", &config()).await;
    let session = served.legacy().await;

    // Search is on, for all servers together.
    let listed = session.request("tools/list", json!({})).await;
    let tools = listed.result()["tools"].as_array().expect("a list").clone();
    assert_eq!(names(&listed, "tools").len(), 6, "five tools and the search");
    assert_eq!(names(&listed, "tools").last().map(String::as_str), Some("search_available_tools"));
    let descriptions = tools.iter().take(5).filter_map(|tool| tool["description"].as_str());
    assert!(descriptions.clone().count() == 5 && descriptions.clone().all(|text| text.ends_with(" (via pegboard)")));
    let found = text(&session.call("search_available_tools", json!({"query": "echo"})).await);
    assert!(found.contains("narrow___echo") && found.contains("open___echo"), "{found}");

    // A filter of one server hides its tools there alone.
    let found = text(&session.call("search_available_tools", json!({"query": "server:narrow"})).await);
    assert!(found.contains("narrow___echo") && !found.contains("narrow___slow"), "{found}");
    for hidden in ["narrow___slow", "narrow___exit"] {
        let refused = session.call(hidden, json!({})).await;
        assert!(text(&refused).contains("no tool"), "{refused:?}");
    }

    // Rules block; a rule that is switched off does not, nor do the default rules of a server
    // with a list of its own.
    let blocked = session.call("open___echo", json!({"path": "/etc/passwd"})).await;
    assert_eq!(blocked.error(), (-32602, "no_passwords is not allowed".to_owned()));
    session.call("open___echo", json!({"path": "/tmp/x"})).await.result();
    session.call("narrow___echo", json!({"path": "/etc/passwd"})).await.result();
    let blocked = session.call("quiet___echo", json!({"path": "/etc/shadow"})).await;
    assert_eq!(blocked.error(), (-32602, "quiet_rule is not allowed".to_owned()));

    served.wait_for_log("call blocked server=\"open\" tool=\"echo\" rule=\"no_passwords\"").await;
    served.wait_for_log("call server=\"open\" tool=\"echo\"").await;
    let second = session.call("open___echo", json!({"path": "/etc/passwd", "again": true})).await;
    assert_eq!(second.error().0, -32602);
    let log = served.log();
    assert!(!log.contains("rule=\"quiet_rule\""), "`log_blocked` is false:\n{log}");
    assert!(!log.contains("/etc/passwd"), "arguments are logged:\n{log}");
    served.wait_for_log("setting not applied setting=\"httpServer.corsOrigins\"").await;
}

#[tokio::test]
async fn a_reload_with_a_misplaced_restriction_is_refused() {
    let good = config();
    let served = Served::start("mcproxy-reload", &good).await;
    let mut both = good.clone();
    both["middleware"] = json!([{"type": "logging"}]);
    let mut misplaced = good.clone();
    misplaced["httpServer"]["security"] = json!({"rules": []});
    let mut unknown = good.clone();
    unknown["httpServer"]["middleware"]["proxy"] = json!([{"type": "rate_limit"}]);
    for (bad, reason) in [(both, "cannot be combined"), (misplaced, "httpServer.security"), (unknown, "proxy[0].type")]
    {
        assert!(!served.reconfigure(&bad.to_string()).await, "{bad}");
        let line =
            served.log().lines().rfind(|line| line.contains("configuration rejected")).unwrap_or_default().to_owned();
        assert!(line.contains(reason), "{line}");
    }
    let session = served.legacy().await;
    let blocked = session.call("open___echo", json!({"path": "/etc/passwd"})).await;
    assert_eq!(blocked.error(), (-32602, "no_passwords is not allowed".to_owned()));
}

/// Returns the exit code and standard error of `pegboard serve` with an invalid file.
async fn serve_error(test: &str, config: &Value) -> (Option<i32>, String) {
    let (folder, file) = super::write_config(test, config);
    let mut command = command();
    command.args(["serve", &file, "--listen", "127.0.0.1:0"]).stdin(Stdio::null());
    let output = tokio::time::timeout(super::PATIENCE, command.output()).await.expect("it ends").expect("it starts");
    let _ = std::fs::remove_dir_all(folder);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn restrictions_in_the_wrong_place_keep_the_gateway_from_starting() {
    let servers = json!({"one": fixture(&["--extras"])});
    let with = |place: &str, key: &str| {
        let section = json!({key: {"rules": []}});
        match place {
            "" => json!({"mcpServers": servers, key: {"rules": []}}),
            place => json!({"mcpServers": servers, place: section}),
        }
    };
    for place in ["", "httpServer", "pegboard"] {
        for key in ["security", "filters", "Auth", "middlewares"] {
            let (code, told) = serve_error("mcproxy-misplaced", &with(place, key)).await;
            let path = if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
            assert!(code != Some(0) && told.contains(&format!("`{path}` is not known (")), "{place} {key}: {told}");
        }
    }
}
