//! `pegboard lint`: its output and exit codes.

use std::path::Path;

use crate::harness::{Folder, json, show};

const TOOLS: &str = r#"{"name": "create_issue", "server": "gh", "description": "Create an issue in a repository. Returns its number."}
{"name": "weather", "server": "sky", "description": "The weather of a city"}
{"name": "start.build", "server": "ci", "description": "Start a build of a branch", "inputSchema": {"type": "object", "properties": {"z": {"type": "string"}}, "required": ["z"]}}
{"name": "start_recording", "server": "tv", "description": "Controls the recorder under the television. Returns its state."}
{"name": "stop_recording", "server": "tv", "description": "Controls the recorder under the television. Returns its state."}
{"name": "tune", "server": "tv"}
"#;

const GOOD: &str = r#"[{"name": "create_issue", "server": "gh", "description": "Create an issue in a repository. Returns its number."}]"#;

fn folder(test: &str) -> Folder {
    let folder = Folder::new(&format!("lint_{test}"));
    folder.file("tools.jsonl", TOOLS).file("good.json", GOOD);
    folder
}

/// Checks the exit code of `lint` on the weak tools.
#[track_caller]
fn check(folder: &Folder, args: &[&str], expected: i32) {
    let output = folder.run(&[&["lint", "--catalog", "tools.jsonl"], args].concat());
    assert_eq!(output.status.code(), Some(expected), "{args:?}\n{}", show(&output));
}

#[test]
fn findings_for_people_and_for_programs() {
    let folder = folder("pages");
    insta::assert_snapshot!(folder.show(&["lint", "--catalog", "tools.jsonl", "--format", "text"]));
    insta::assert_snapshot!(folder.show(&[
        "lint",
        "--catalog",
        "tools.jsonl",
        "--only",
        "confusable,undescribed-parameter"
    ]));
    insta::assert_snapshot!(folder.show(&["lint", "--catalog", "good.json", "--format", "text"]));
}

#[test]
fn tools_without_servers_are_counted_alone() {
    let folder = folder("servers");
    folder.file("bare.json", GOOD.replace(r#""server": "gh", "#, ""));
    let shown = folder.show(&["lint", "--catalog", "bare.json", "--format", "text"]);
    assert!(shown.contains("1 tool, no problems found"), "{shown}");
}

#[test]
fn the_demo_catalog_has_no_tool_that_is_not_found_or_confused() {
    let folder = folder("demo");
    let rules = "not-found-by-description,not-found-by-name-words,confusable,no-description,no-domain";
    let output = folder.run(&["lint", "--only", rules]);
    assert_eq!(output.status.code(), Some(0), "{}", show(&output));
    assert_eq!(json(&output)["tools"], 207);
    assert_eq!(folder.run(&["lint"]).status.code(), Some(1));
}

#[test]
fn thresholds_decide_the_exit_code() {
    let folder = folder("thresholds");
    check(&folder, &[], 1);
    check(&folder, &["--max-findings", "4"], 1);
    check(&folder, &["--max-findings", "5"], 0);
    check(&folder, &["--fail-on", "error"], 1);
    check(&folder, &["--fail-on", "error", "--allow", "no-description"], 0);
    check(&folder, &["--fail-on", "never"], 0);
    check(&folder, &["--fail-on", "never", "--deny", "no-output"], 1);
    check(&folder, &["--only", "costly-schema"], 0);
    check(&folder, &["--only", "costly-schema", "--max-tokens", "5"], 1);
    check(&folder, &["--only", "long-description", "--max-description-tokens", "3"], 1);
    check(&folder, &["--only", "no-output"], 0);
    check(&folder, &["--only", "no-output", "--fail-on", "note"], 1);
}

#[test]
fn a_baseline_lets_only_new_findings_count() {
    let folder = folder("baseline");
    check(&folder, &["--baseline", "known.json"], 2);
    let written = folder.run(&["lint", "--catalog", "tools.jsonl", "--baseline", "known.json", "--write-baseline"]);
    insta::assert_snapshot!(show(&written));
    let baseline = std::fs::read_to_string(folder.path().join("known.json")).expect("a baseline");
    insta::assert_snapshot!(baseline);
    check(&folder, &["--baseline", "known.json"], 0);
    let less = TOOLS.lines().filter(|line| !line.contains("weather")).collect::<Vec<_>>().join("\n");
    folder.file("tools.jsonl", format!("{less}\n{{\"name\": \"new\", \"server\": \"tv\"}}\n"));
    let args = ["lint", "--catalog", "tools.jsonl", "--baseline", "known.json", "--format", "text"];
    insta::assert_snapshot!(folder.show(&args));
}

#[test]
fn the_configuration_may_say_what_passes() {
    let folder = folder("configuration");
    let with = |lint: &str| {
        folder.file("pegboard.json", format!(r#"{{"pegboard": {{"catalogs": ["tools.jsonl"], "lint": {lint}}}}}"#));
        folder.run(&["lint", "--config", "pegboard.json"]).status.code()
    };
    assert_eq!(with("{}"), Some(1));
    assert_eq!(with(r#"{"failOn": "never"}"#), Some(0));
    assert_eq!(with(r#"{"maxFindings": 5}"#), Some(0));
    assert_eq!(with(r#"{"failOn": "never", "deny": ["no-action"]}"#), Some(1));
    assert_eq!(
        with(r#"{"allow": ["no-action", "no-description", "confusable", "unsafe-name", "undescribed-parameter"]}"#),
        Some(0)
    );
    assert_eq!(with(r#"{"baseline": "known.json"}"#), Some(2));
    // A flag takes precedence.
    let args = ["lint", "--config", "pegboard.json", "--write-baseline", "--baseline", "other.json"];
    assert_eq!(folder.run(&args).status.code(), Some(0));
    assert!(folder.path().join("other.json").exists() && !folder.path().join("known.json").exists());
    folder.file("pegboard.json", r#"{"pegboard": {"lint": {"deny": ["nonsense"], "failOn": 7}}}"#);
    insta::assert_snapshot!(folder.show(&["lint", "--config", "pegboard.json"]));
}

#[test]
fn bad_input_is_exit_two_with_the_reason() {
    let folder = folder("nonsense");
    folder
        .file("broken.json", "[\n{\"name\": ")
        .file("empty.jsonl", "[]")
        .file("known.json", "{\"version\": 1, \"findings\": [{\"rule\": \"nonsense\"}]}")
        .file("servers.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    let show = |args: &[&str]| format!("$ pegboard {}\n{}", args.join(" "), folder.show(args));
    insta::assert_snapshot!(
        [
            show(&["lint", "--catalog", "missing.json"]),
            show(&["lint", "--catalog", "broken.json"]),
            show(&["lint", "--catalog", "empty.jsonl"]),
            show(&["lint", "--config", "servers.json"]),
            show(&["lint", "--write-baseline"]),
            show(&["lint", "--baseline", "known.json"]),
            show(&["lint", "--baseline", "nowhere.json"]),
            show(&["lint", "--allow", "no-action", "--deny", "no-action"]),
            show(&["lint", "--hits", "0"]),
            show(&["lint", "--only", "nonsense"]).lines().take(6).collect::<Vec<_>>().join("\n"),
        ]
        .join("\n")
    );
}

#[test]
fn hostile_texts_do_not_reach_the_terminal() {
    let folder = folder("hostile");
    folder.file("tools.jsonl", "{\"name\": \"a\\u001b[31mb\\u202e\", \"server\": \"s\\u001b]0;x\\u0007\"}\n");
    let output = folder.run(&["lint", "--catalog", "tools.jsonl", "--format", "text"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
}

#[test]
fn every_rule_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lint.md");
    let page = std::fs::read_to_string(page).expect("docs/lint.md");
    let rules = pegboard_cli::reference::lint_rules();
    assert!(page.contains(&rules), "docs/lint.md must have this table:\n{rules}");
    for rule in rules.lines().skip(2).filter_map(|line| line.split('`').nth(1)) {
        assert!(page.contains(&format!("\n### {rule}\n")), "docs/lint.md explains `{rule}`");
    }
}
