//! Tests of the status screen.

use pegboard_gateway::control::Status;
use serde_json::{Value, json};

use super::{changes::changes, screen};

fn status(value: Value) -> Status {
    serde_json::from_value(value).expect("a status")
}

fn server(name: &str, state: &str, mut more: Value) -> Value {
    let mut server = json!({"name": name, "state": state, "breaker": {"state": "closed"}});
    server.as_object_mut().expect("an object").append(more.as_object_mut().expect("an object"));
    server
}

/// Returns the status of a gateway with every feature in use.
fn busy() -> Value {
    json!({
        "format": 1,
        "gateway": {
            "version": "0.1.0", "pid": 4711, "since": 0, "uptimeMs": 11_531_000,
            "endpoint": "http://127.0.0.1:8080/mcp"
        },
        "configuration": {"file": "/home/ann/mcp.json", "refused": "`/home/ann/mcp.json` has errors; line 3: \
         `comand` is not known (did you mean `command`?)"},
        "servers": [
            server("github", "ready", json!({
                "tools": 26, "calls": {"total": 1234, "running": 2, "failed": 1}, "toolErrors": 3,
                "latency": {"p50Us": 210_000, "p99Us": 1_250_000}, "lastError": "no response within 60 s"
            })),
            server("slack", "failed", json!({
                "reason": "cannot start `npx`: no such program (hint: install Node.js, or give the whole path of the program as `command`, since clients start us with another `PATH` than your shell's)",
                "retryInMs": 12_400, "lastError": "cannot start `npx`"
            })),
            server("a-server-with-a-rather-long-name-that-somebody-chose", "lazy", json!({"tools": 14, "isFromManifest": true})),
            server("search", "ready", json!({
                "tools": 3, "calls": {"total": 9, "failed": 5},
                "breaker": {"state": "open", "failures": 5, "retryInMs": 21_000},
                "latency": {"p50Us": 30_000_000, "p99Us": 60_000_000}
            })),
            server("日本\u{1b}[31m", "starting", json!({})),
            server("old", "disabled", json!({})),
        ],
        "tools": 43,
        "sessions": {"count": 4, "clients": [
            {"client": "claude-code", "profile": "bridge", "sessions": 3, "idleMs": 2_100},
            {"client": "evil\u{1b}]0;title\u{7}\u{202e}\nname", "profile": "passthrough", "sessions": 1, "idleMs": 3_600_000}
        ]},
        "totals": {
            "hits": 40, "misses": 2, "searchLatency": {"p50Us": 80, "p99Us": 1_240}, "lists": 12,
            "tokensSaved": 1_203_456, "suspendedCalls": 1
        },
        "llmProxy": {
            "anthropic": {
                "requests": 1_204, "bypassed": {"few-tools": 12, "forced-tool": 1}, "toolsIn": 240_800, "toolsSent": 2_610,
                "tokensSaved": 31_203_456, "hiddenRounds": 812, "failedRounds": 1, "misses": 2, "retries": 1, "addedMs": 520.5,
                "cacheReadTokens": 810_000
            },
            "gemini": {},
            "openai": {"requests": 1, "toolsIn": 40, "toolsSent": 2, "addedMs": 2.5}
        },
        "somethingNew": {"of": "a later version"}
    })
}

#[test]
fn one_screen() {
    for width in [140, 80, 40] {
        let shown = screen::screen(&status(busy()), width);
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert!(!plain.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{plain:?}");
        for line in plain.lines() {
            assert!(crate::terminal_text::columns_of(line) <= width, "{line}");
        }
        insta::assert_snapshot!(format!("{width} columns"), plain);
    }
}

#[test]
fn little_to_say() {
    let demo = json!({
        "format": 1, "gateway": {"version": "0.1.0", "pid": 1, "uptimeMs": 900}, "configuration": {"file": null},
        "totals": {}
    });
    // The status for a restricted token.
    let part = json!({
        "format": 1, "gateway": {"version": "0.1.0", "pid": 1, "uptimeMs": 90_000_000, "endpoint": "http://[::1]:1/mcp"},
        "servers": [server("one", "ready", json!({"tools": 1}))], "tools": 1, "sessions": {"count": 0, "clients": []}
    });
    let shown = [&demo, &part].map(|value| screen::screen(&status(value.clone()), 80));
    let summaries = [demo, part, busy()].map(|value| screen::summary("http://127.0.0.1:8080", &status(value), 80));
    let shown = format!("{}\n{}\n{}", shown[0], shown[1], summaries.concat());
    insta::assert_snapshot!(anstream::adapter::strip_str(&shown).to_string());
}

#[test]
fn a_line_for_each_change() {
    let mut shown = String::new();
    let mut last: Option<Status> = None;
    let mut next = |value: &Value| {
        let now = status(value.clone());
        changes(last.as_ref(), &now).iter().for_each(|line| shown.push_str(&format!("{line}\n")));
        shown.push_str("---\n");
        last = Some(now);
    };
    let mut value = busy();
    next(&value);
    next(&value);
    // Neither calls nor times are changes.
    value["gateway"]["uptimeMs"] = json!(11_532_000);
    value["servers"][0]["calls"]["total"] = json!(1235);
    value["servers"][1]["retryInMs"] = json!(11_400);
    next(&value);
    value["configuration"]["refused"] = Value::Null;
    value["servers"][1] = server("slack", "ready", json!({"tools": 7}));
    value["servers"][4]["state"] = json!("ready");
    value["servers"].as_array_mut().expect("a list").pop();
    next(&value);
    value["gateway"]["pid"] = json!(4712);
    next(&value);
    insta::assert_snapshot!(shown);
}

#[test]
fn what_waits_for_approval() {
    let value = json!({
        "format": 1,
        "pins": [
            {"server": "bank", "tool": "pay", "kind": "changed", "isHeld": true, "since": 1,
             "diff": ["description:", "- Pays.", "+ Pays, and sends the key along."]},
            {"server": "bank", "tool": "more", "kind": "new", "isHeld": false, "since": 1, "diff": ["description:", "+ More."]},
        ],
        "lookalikes": [
            {"first": {"server": "bank", "tool": "pay"}, "second": {"server": "thief", "tool": "p\u{430}y"}, "likeness": "confusable", "isSuspicious": true},
            {"first": {"server": "bank", "tool": "list"}, "second": {"server": "thief", "tool": "list"}, "likeness": "same"},
        ],
        "lookalikeCounts": {"suspicious": 8, "same": 1}
    });
    let shown = anstream::adapter::strip_str(&screen::screen(&status(value), 80)).to_string();
    let lines: Vec<&str> = shown.lines().skip_while(|line| !line.contains("approval")).collect();
    assert_eq!(
        lines,
        [
            "1 tool waits for approval; review with `pegboard approve`",
            "1 tool is not as approved, but not held; review with `pegboard approve`",
            "  bank pay  changed, held",
            "    description:",
            "    - Pays.",
            "    + Pays, and sends the key along.",
            "  bank more  new",
            "    description:",
            "    + More.",
            "p\u{430}y of thief looks like pay of bank (confusable)",
            "7 further pairs of confusable tool names",
        ]
    );
}
