//! `pegboard doctor`, with real servers that have real problems.

mod checks;
mod remote;
mod starts;

use std::{os::unix::fs::PermissionsExt, path::PathBuf, process::Output};

use serde_json::{Value, json};

use crate::harness::{Folder, show};

/// A part of every secret here, which no output may contain.
const SECRET: &str = "s3cret";

/// A server that offers the tools of the file in its argument.
const SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}\n' "$id" ;;
    *'"tools/list"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":' "$id"; tr -d '\n' < "$1"; printf '}}\n' ;;
    *'"method":"notifications/'*) ;;
    *)
      printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  esac
done
"#;

/// A tool without problems.
const GOOD_TOOL: &str =
    r#"{"name": "greet", "description": "Greets", "inputSchema": {"type": "object", "properties": {}}}"#;

/// A folder with a configuration and servers in it.
struct DoctorFolder {
    folder: Folder,
    variables: Vec<(&'static str, String)>,
}

impl DoctorFolder {
    fn new(test: &str) -> Self {
        let folder = Self { folder: Folder::new(&format!("doctor_{test}")), variables: Vec::new() };
        folder.program("server.sh", SERVER);
        folder.folder.file("good.json", format!("[{GOOD_TOOL}]"));
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn here(&self) -> String {
        self.folder.path().to_string_lossy().into_owned()
    }

    fn with(mut self, variable: &'static str, value: &str) -> Self {
        self.variables.push((variable, value.to_owned()));
        self
    }

    /// Writes a file with these permissions.
    fn file_with(&self, name: &str, content: &str, mode: u32) -> &Self {
        self.folder.file(name, content);
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).expect("rights");
        self
    }

    fn program(&self, name: &str, content: &str) -> &Self {
        self.file_with(name, content, 0o755)
    }

    /// Returns an entry for the server that offers the tools of a file here.
    fn serving(&self, tools: &str) -> Value {
        json!({"command": self.path("server.sh"), "args": [self.path(tools)]})
    }

    fn configure(&self, config: &Value) -> &Self {
        let text = serde_json::to_string_pretty(config).expect("JSON");
        self.file_with("pegboard.json", &text.replace("[here]", &self.here()), 0o600)
    }

    /// Runs `pegboard doctor` with an otherwise empty environment.
    fn run(&self, args: &[&str]) -> Output {
        let mut command = self.folder.isolated();
        command.args(["doctor", "pegboard.json"]).args(args).current_dir(self.folder.path());
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        let output = command.output().expect("the binary starts");
        for bytes in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(bytes);
            assert!(!text.contains(SECRET), "a secret is shown: {text}");
            assert!(!text.contains('\u{1b}'), "a control character is shown: {text}");
        }
        output
    }

    /// Returns exit code and output, with times and this test's paths replaced by words.
    fn show(&self, args: &[&str]) -> String {
        let text = show(&self.run(args)).replace(&self.here(), "[here]");
        let lines = text.lines().map(|line| match line.split_once(", ready in ") {
            Some((before, _)) => format!("{before}, ready in [time]\n"),
            None => format!("{line}\n"),
        });
        lines.collect()
    }

    /// Returns the findings, each as `severity check server: message → hint`.
    fn findings(&self, args: &[&str]) -> Vec<String> {
        let output = self.run(&[args, &["--format", "json"]].concat());
        let report = crate::harness::json(&output);
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or("-").to_owned();
        let shown = |finding: &Value| {
            let [severity, check, server, message, hint] =
                ["severity", "check", "server", "message", "hint"].map(|key| text(finding, key));
            let details =
                finding["details"].as_array().map(|details| format!(" {}", json!(details))).unwrap_or_default();
            format!("{severity} {check} {server}: {message}{details} → {hint}").replace(&self.here(), "[here]")
        };
        let findings: Vec<String> = report["findings"].as_array().expect("a list").iter().map(shown).collect();
        let has_error = findings.iter().any(|finding| finding.starts_with("error"));
        assert_eq!(output.status.code(), Some(i32::from(has_error)), "{findings:#?}");
        findings
    }
}

/// A free listen address, and no state folder.
const ALONE: &[&str] = &["--listen", "127.0.0.1:0", "--state", "none"];

/// Checks that the findings of `config` are these, in this order. `|` matches any text.
#[track_caller]
fn check(folder: &DoctorFolder, config: &Value, args: &[&str], expected: &[&str]) {
    folder.configure(config);
    let found = folder.findings(&[ALONE, args].concat());
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        let mut rest = found.as_str();
        for part in expected.split('|') {
            let at = rest.find(part).unwrap_or_else(|| panic!("no `{part}` in {found}"));
            rest = &rest[at + part.len()..];
        }
    }
}
