//! The providers' own SDKs as clients of the scripted provider: what it answers is what they
//! expect. `cargo xtask peers` installs them; without them this test says that it is skipped.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn, Sending};
use serde_json::{Value, json};

/// The Python that has the SDKs, if they are installed.
fn python() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools");
    if tools.join("python-sdks.stamp").exists() {
        return Some(tools.join("python-sdks/bin/python"));
    }
    skipped();
    None
}

#[expect(clippy::print_stderr, reason = "the developer must see what was left out")]
fn skipped() {
    eprintln!("SKIPPED: no SDKs of the providers here; `cargo xtask peers` installs them");
}

const THOUGHT: &str = "Where is that — où?";
const TEXT: &str = "Let me see 日本.";
const ANSWER: &str = "It is sunny in Rome ☀.";

/// Fields that the scripted provider sends and the types of this SDK version do not list. The
/// SDK steps over them.
const UNTYPED: [&str; 2] = ["unknown field `store`", "ResponseFunctionCallArgumentsDoneEvent: unknown field `name`"];

/// What the model does for one client: it thinks where the SDK can see that, searches where the
/// wire has a search of its own, calls, and answers.
fn turns(wire: &str) -> [ScriptedTurn; 2] {
    let mut parts = Vec::new();
    if wire != "chat" {
        parts.push(Part::thinking(THOUGHT));
    }
    match wire {
        "anthropic" => parts.push(Part::search("weather", ["get_weather"])),
        "responses" => parts.push(Part::search("weather", ["weather"])),
        _ => {}
    }
    parts.push(Part::text(TEXT));
    parts.push(Part::call("get_weather", json!({"city": "Rome"})));
    [ScriptedTurn::say(parts), ScriptedTurn::say([Part::text(ANSWER)])]
}

fn drive(python: &Path, wire: &str, sending: Sending) -> Value {
    let about = format!("{wire} {sending:?}");
    let provider = Provider::start(Script::new([turns(wire), turns(wire)].concat()).sending(sending));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/peers/sdks/drive.py");
    let output = Command::new(python).arg(script).args([provider.url(), wire]).stdin(Stdio::null()).output();
    let output = output.expect("the script runs");
    let told = String::from_utf8_lossy(&output.stderr);
    let violations = provider.violations();
    assert!(output.status.success(), "{about}: {violations:?}\n{told}");
    assert!(violations.is_empty(), "{about}: {violations:?}");
    assert_eq!(provider.turns_taken(), 4, "{about}");
    serde_json::from_slice(&output.stdout).expect("a report")
}

#[test]
fn sdks_understand_the_scripted_provider() {
    let Some(python) = python() else { return };
    for (wire, kinds, stops) in [
        (
            "anthropic",
            json!(["thinking", "server_tool_use", "tool_search_tool_result", "text", "tool_use"]),
            ["tool_use", "end_turn"],
        ),
        ("chat", json!(["function"]), ["tool_calls", "stop"]),
        (
            "responses",
            json!(["reasoning", "tool_search_call", "tool_search_output", "message", "function_call"]),
            ["completed", "completed"],
        ),
        ("gemini", json!(["thought", "text", "call"]), ["STOP", "STOP"]),
    ] {
        let understood = json!({
            "kinds": kinds,
            "thinking": if wire == "chat" { "" } else { THOUGHT },
            "text": TEXT,
            "call": ["get_weather", {"city": "Rome"}],
            "stops": stops,
            "answer": ANSWER,
            "is_counted": true,
        });
        for sending in [Sending::default(), Sending::chunks_of(3)] {
            let report = drive(&python, wire, sending);
            assert_eq!(report["plain"], understood, "{wire}");
            assert_eq!(report["streamed"], understood, "{wire}, streamed");
            let faults = report["faults"].as_array().expect("a list").iter().filter_map(Value::as_str);
            let faults: Vec<&str> =
                faults.filter(|fault| !UNTYPED.iter().any(|known| fault.ends_with(known))).collect();
            assert!(faults.is_empty(), "{wire}: {faults:#?}");
        }
    }
}
