//! The output of the main commands on terminals of several widths.

use std::process::Command;

use regex::Regex;
use serde_json::{Value, json};

use crate::{gateway::fixture, harness::Folder};

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/agent/cli/terminal.py");

/// Returns what a terminal of `columns` columns shows; each step waits for a text and types a
/// reply.
fn screen(folder: &Folder, columns: usize, args: &[&str], steps: &[(&str, &str)]) -> String {
    let mut command = Command::new("python3");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", folder.path());
    command.env("TERM", "xterm").env("TERMINAL_COLUMNS", columns.to_string()).current_dir(folder.path());
    command.args([DRIVER, &json!(steps).to_string(), env!("CARGO_BIN_EXE_pegboard")]).args(args);
    let output = command.output().expect("Python runs");
    let seen: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let times = Regex::new(r"\b[0-9.]+ (µs|ms)").expect("a pattern");
    let ports = Regex::new(r"127\.0\.0\.1:\d{4,5}").expect("a pattern");
    let shown = times.replace_all(seen["screen"].as_str().expect("a text"), "[time]");
    let shown = ports.replace_all(&shown, "127.0.0.1:[port]");
    let codes = Regex::new(r"#code=[\w-]+").expect("a pattern");
    let shown = codes.replace_all(&shown, "#code=[code]");
    // Its number differs between systems.
    let refused = Regex::new(r"os error \d+").expect("a pattern");
    let shown = refused.replace_all(&shown, "os error [number]");
    format!("$ pegboard {}\n{}\n", args.join(" "), shown.trim_end())
}

#[test]
fn the_main_commands_fit_terminals() {
    let folder = Folder::new("screens");
    for columns in [60, 80, 120] {
        let shown: Vec<String> = [
            &["help"][..],
            &["search", "create a github issue", "--limit", "4"],
            &["tools", "overdue invoices"],
            &["tools", "github___create_issue"],
            &["tokens"],
            &["call", "github___create_isue"],
            &["trust"],
            &["status", "--url", "http://127.0.0.1:1/mcp"],
            &["doctor"],
            &["agent", "talk", "about", "files"],
            &["agent", "talk about files", "pegboard.json"],
        ]
        .iter()
        .map(|args| screen(&folder, columns, args, &[]))
        .collect();
        insta::assert_snapshot!(format!("{columns} columns"), shown.join("\n"));
    }
}

/// Returns a table or a list of measurements without its numbers and their widths, which differ
/// from run to run.
fn without_numbers(shown: &str) -> String {
    let number = Regex::new(r" +[0-9][0-9.]*\b").expect("a pattern");
    let gap = Regex::new(r"(\S) {2,}").expect("a pattern");
    let line = |line: &str| match line.starts_with(['$', '.']) {
        true => line.to_owned(),
        false => gap.replace_all(&number.replace_all(line, "  #"), "$1  ").into_owned(),
    };
    shown.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn measurements_fit_terminals() {
    let folder = Folder::new("screens-measured");
    folder.file(
        "tools.jsonl",
        "{\"name\": \"get_weather\", \"description\": \"Weather of a city\"}\n{\"name\": \"send_mail\"}\n",
    );
    folder.file("queries.jsonl", "{\"id\": 1, \"query\": \"weather in Rome\"}\n");
    folder.file("qrels.tsv", "1\tget_weather\t1\n");
    for columns in [60, 80, 120] {
        let commands = [&["eval", ".", "--ranker", "all"][..], &["bench", "--sizes", "100", "--queries", "10"]];
        let shown = commands.map(|args| {
            let shown = screen(&folder, columns, args, &[]);
            assert!(shown.lines().all(|line| line.chars().count() <= columns && !line.contains('…')), "{shown}");
            without_numbers(&shown)
        });
        insta::assert_snapshot!(format!("measurements in {columns} columns"), shown.join("\n"));
    }
}

#[test]
fn a_gateway_says_on_a_terminal_how_to_connect() {
    let shown = [60, 80, 120].map(|columns| {
        // Without the tool lists of an earlier run.
        let folder = Folder::new(&format!("screens-serve-{columns}"));
        folder.file("one.json", json!({"mcpServers": {"one": fixture(&[])}}).to_string());
        screen(&folder, columns, &["serve", "one.json", "--listen", "127.0.0.1:0"], &[("--write`\r\n", "\u{3}")])
    });
    insta::assert_snapshot!(shown.join("\n"));
}
