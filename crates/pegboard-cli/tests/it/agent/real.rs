//! The agent with server processes: real ones from npm and PyPI, and the fixture for faults.

use std::{path::PathBuf, time::Duration};

use pegboard_agent::{
    Agent, AgentBuilder, AgentEvent, DialectName, Model, RunLimits, ToolSearch, outputs::OutputSettings,
};
use pegboard_core::Secret;
use pegboard_llm::{Client, Provider as Vendor, client};
use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn};
use serde_json::{Value, json};

use crate::{
    gateway::{
        fixture,
        real::{peer_file, tools},
    },
    harness::Folder,
};

const MODELS: [&str; 6] = [
    "anthropic/claude-opus-4-8",
    "openai/gpt-5.4",
    "openai-responses/gpt-5.4",
    "gemini/gemini-3-pro",
    "minimax/MiniMax-M3",
    "minimax-chat/MiniMax-M3",
];

pub(crate) fn agent(model: &str, provider: &Provider) -> AgentBuilder {
    let model = Model::parse(model).expect("a model");
    let url = provider.url();
    let base = match model.provider {
        Vendor::Anthropic => url.to_owned(),
        Vendor::OpenAi | Vendor::OpenAiResponses => format!("{url}/v1"),
        Vendor::Gemini => format!("{url}/v1beta"),
        Vendor::MiniMax => format!("{url}/minimax/anthropic"),
        Vendor::MiniMaxChat => format!("{url}/minimax/v1"),
    };
    let client = Client::new(model.provider, Secret::new("a-key")).expect("a client").with_base_url(base);
    let client = client.with_settings(client::Settings { max_retries: 0, ..client::Settings::default() });
    Agent::builder(model)
        .client(client)
        .program(env!("CARGO_BIN_EXE_pegboard"))
        .tool_search(ToolSearch::with_dialect(DialectName::Explicit))
}

pub(crate) fn call(name: &str, arguments: Value) -> ScriptedTurn {
    ScriptedTurn::say([Part::call(name, arguments)])
}

pub(crate) fn say(text: &str) -> ScriptedTurn {
    ScriptedTurn::say([Part::text(text)])
}

/// Runs a prompt to its end, and returns the results of its calls, in the order of their ends.
pub(crate) async fn run(agent: &Agent, prompt: &str) -> Vec<(String, bool)> {
    let mut run = agent.stream(prompt);
    let mut results = Vec::new();
    while let Some(event) = run.next().await {
        if let AgentEvent::CallFinished { text, is_error, .. } = event {
            results.push((text, is_error));
        }
    }
    run.answer().await.expect("an answer");
    results
}

fn config(folder: &Folder, servers: &Value) -> PathBuf {
    folder.file("mcp.json", json!({"mcpServers": servers}).to_string());
    folder.path().join("mcp.json")
}

#[tokio::test(flavor = "multi_thread")]
async fn search_add_call_answer_with_real_servers_and_each_provider() {
    let Some(tools) = tools() else { return };
    let all = peer_file("servers.json", &tools);
    let servers = json!({"everything": all["mcpServers"]["everything"], "time": all["mcpServers"]["time"]});
    let folder = Folder::new("agent-real");
    let config = config(&folder, &servers);
    for model in MODELS {
        let script = Script::new([
            call("search_tools", json!({"query": "current time"})),
            call("add_tool", json!({"tool_names": ["get_current_time"]})),
            ScriptedTurn::say([
                Part::call("time___get_current_time", json!({"timezone": "UTC"})),
                Part::call("echo", json!({"message": "from the agent"})),
                Part::call("get_current_time", json!({"timezone": "Nowhere/Land"})),
            ]),
            say("It is late."),
        ]);
        let provider = Provider::start(script.forbid("time___get_current_time", 2).forbid("time___convert_time", 9));
        let agent = agent(model, &provider).mcp_config(&config).build().await.expect("an agent");
        assert_eq!(agent.failed_servers(), [], "{model}");
        let results = run(&agent, "What time is it?").await;
        let about = format!("{model}: {results:?}");
        assert!(results[0].0.contains("get_current_time"), "{about}");
        assert_eq!(results[1].0, "Added tools: time___get_current_time");
        let has = |text: &str, is_error: bool| {
            results.iter().any(|(said, failed)| said.contains(text) && *failed == is_error)
        };
        assert!(has("\"timezone\": \"UTC\"", false) && has("Echo: from the agent", false), "{about}");
        assert!(has("Nowhere/Land", true), "an error in a tool: {about}");
        provider.assert_clean();
        agent.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_change_and_die_under_the_agent() {
    let folder = Folder::new("agent-changing");
    let config = config(&folder, &json!({"fixture": fixture(&["--extras"])}));
    let provider = Provider::start(Script::new([
        call("change_tools", json!({"name": "brand_new"})),
        call("exit", json!({})),
        call("echo", json!({"still": "here"})),
        say("I saw."),
    ]));
    let agent = agent(MODELS[0], &provider).mcp_config(&config).build().await.expect("an agent");
    let results = run(&agent, "Watch").await;
    assert!(results[1].1, "the server died in the middle: {results:?}");
    // Whether it is back in time for the next call depends on the system; the agent continues.
    assert_eq!(results.len(), 3);
    provider.assert_clean();
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_comes_is_found_and_one_that_goes_is_gone() {
    let folder = Folder::new("agent-coming");
    let config = config(&folder, &json!({"fixture": fixture(&["--extras"])}));
    let provider = Provider::start(Script::new([call("change_tools", json!({"name": "brand_new"})), say("Changed.")]));
    let agent = agent(MODELS[0], &provider).mcp_config(&config).build().await.expect("an agent");
    let mut changes = agent.fleet().changes();
    let before = agent.tool_count();
    changes.mark_unchanged();
    run(&agent, "Change").await;
    let grown = async {
        while agent.tool_count() == before {
            changes.changed().await.expect("a fleet");
        }
    };
    tokio::time::timeout(Duration::from_secs(60), grown).await.expect("the new tool is seen");
    provider.go_on([
        call("search_tools", json!({"query": "brand_new"})),
        call("add_tool", json!({"tool_names": ["brand_new"]})),
        say("Found."),
    ]);
    let results = run(&agent, "Find it").await;
    assert_eq!(results[1].0, "Added tools: brand_new");
    // The server has ended for good: its tools are still listed, and a call reports the failure.
    agent.stop().await;
    provider.go_on([call("brand_new", json!({})), say("Gone.")]);
    let results = run(&agent, "Call it").await;
    assert!(results[0].1 && results[0].0.contains("server `fixture`"), "{results:?}");
    provider.assert_clean();
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn fifty_megabytes_go_to_a_file() {
    const SIZE: usize = 50_000_000;
    let folder = Folder::new("agent-fifty");
    let config = config(&folder, &json!({"fixture": fixture(&["--extras"])}));
    let search =
        |name: &str| json!({"filename": name, "operation": "search", "pattern": "line 900000:", "max_results": 3});
    let provider = Provider::start(Script::new([call("large", json!({"bytes": SIZE})), say("Large.")]));
    let builder = agent(MODELS[0], &provider).mcp_config(&config).offload(OutputSettings::new(folder.path()));
    let agent = builder.build().await.expect("an agent");
    let before = peak();
    let mut run_ = agent.stream("All of it");
    let mut kept = None;
    while let Some(event) = run_.next().await {
        if let AgentEvent::CallFinished { offloaded, .. } = event {
            kept = offloaded;
        }
    }
    run_.answer().await.expect("an answer");
    let grown = peak() - before;
    let kept = kept.expect("it is offloaded");
    assert!(std::fs::metadata(&kept).expect("a file").len() >= SIZE as u64);
    let name = kept.file_name().and_then(|name| name.to_str()).expect("a name");
    provider.go_on([call("search_large_output", search(name)), say("Read.")]);
    let results = run(&agent, "Search it").await;
    assert!(results[0].0.contains("line 900000: nothing to see"), "{results:?}");
    assert!(provider.requests().iter().all(|request| request.body.to_string().len() < 200_000));
    // The message, its text, and what reading a line takes: measured 2.0 times its size.
    assert!(grown < 3 * SIZE / 2, "{grown} bytes more at the peak");
    provider.assert_clean();
    agent.stop().await;
}

/// Returns the peak memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kilobytes: usize = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    kilobytes * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cancelled_is_told_to_its_process() {
    let folder = Folder::new("agent-cancelled");
    let config = config(&folder, &json!({"fixture": fixture(&["--extras"])}));
    let provider = Provider::start(Script::new([call("slow", json!({"ms": 60_000})), say("Never mind.")]));
    let limits = RunLimits { startup: Duration::from_secs(60), ..RunLimits::default() };
    let agent = agent(MODELS[0], &provider).mcp_config(&config).limits(limits).build().await.expect("an agent");
    let mut run_ = agent.stream("Sleep");
    while let Some(event) = run_.next().await {
        if matches!(event, AgentEvent::CallStarted { .. }) {
            break;
        }
    }
    drop(run_);
    let busy = async {
        while agent.fleet().servers().iter().any(|server| server.running_calls() > 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), busy).await.expect("the call is given up");
    assert_eq!(agent.run("Then not").await.expect("an answer").text, "Never mind.");
    provider.assert_clean();
    agent.stop().await;
}
