//! The web console in a real browser: Node.js scripts drive Debian's Chromium against a gateway with real servers.

use std::path::{Path, PathBuf};

use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    CONTROL, Served, client, fixture,
    real::{node, peers, tools},
};
use crate::proxy::RunningProxy;

#[tokio::test]
async fn proxies_beside_the_gateway_are_listed_for_full_access() {
    let (whole, part) = ("a-token-that-sees-everything-here", "a-token-that-sees-one-server-only");
    let provider = Provider::start(Script::default());
    let mut proxy = RunningProxy::start("listed_beside", &provider);
    let config = json!({"mcpServers": {"seen": fixture(&[])}, "pegboard": {"tokens": [
        {"name": "all", "token": whole}, {"name": "part", "token": part, "selection": {"servers": ["seen"]}},
    ]}});
    let state = proxy.state().to_str().expect("a path").to_owned();
    let served = Served::start_with("control-proxies", &config, &["--state", &state], &[]).await;
    let ask = async |token: &str| {
        let url = served.url.replace("/mcp", "/control/llm-proxies");
        let answer = client::http().get(url).bearer_auth(token).send().await.expect("an answer");
        let (status, body) = (answer.status().as_u16(), answer.text().await.expect("a body"));
        (status, serde_json::from_str::<Value>(&body).expect("JSON"))
    };
    let (status, listed) = ask(whole).await;
    let found = &listed["proxies"][0];
    assert_eq!(
        (status, &found["endpoint"], &found["routes"]["openai"]["requests"]),
        (200, &json!(proxy.url), &json!(0))
    );
    assert_eq!(ask(part).await.0, 403);
    proxy.stop();
    assert_eq!(ask(whole).await, (200, json!({"proxies": []})));
}

/// Returns the folder of installed peers, if there is a browser among them.
fn browser_tools() -> Option<PathBuf> {
    let tools = tools()?;
    if tools.join("npm-console.stamp").exists() && tools.join("chromium").exists() {
        return Some(tools);
    }
    no_browser();
    None
}

#[expect(clippy::print_stderr, reason = "people who run the tests must see what was left out")]
fn no_browser() {
    eprintln!("SKIPPED: no Chromium or no checks of the console here; `cargo xtask peers` installs them");
}

/// Returns an empty folder of one test.
fn fresh_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

/// Returns a URL that signs in once.
async fn login_url(served: &Served) -> String {
    let url = served.url.replace("/mcp", "/control/console/url");
    let request = client::http().post(url).bearer_auth(CONTROL).header("content-type", "application/json").body("{}");
    let answer = request.send().await.expect("an answer").text().await.expect("a body");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    answer["url"].as_str().expect("a URL").to_owned()
}

/// Runs a scenario of `testkit/peers/console/check.mjs`.
async fn run(tools: &Path, served: &Served, scenario: &str, more: &[&str]) {
    let base = served.url.replace("/mcp", "");
    let mut command = Command::new(node(tools));
    command.arg(peers().join("console/check.mjs")).args([scenario, "--base", &base]).args(more);
    let output = command.env("PEG_TOOLS", tools).output().await.expect("Node.js starts");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{scenario}:\n{out}\n{errors}\nlog:\n{}", served.log());
}

/// Runs a scenario with the demo behind the console.
async fn check_demo(scenario: &str) {
    let Some(tools) = browser_tools() else { return };
    let served = Served::demo(&format!("console-{scenario}")).await;
    let login = login_url(&served).await;
    run(&tools, &served, scenario, &["--login", &login]).await;
}

#[tokio::test]
async fn the_page_computes_what_it_shows() {
    check_demo("units").await;
}

#[tokio::test]
async fn pages_in_both_themes_at_three_widths() {
    check_demo("pages").await;
}

#[tokio::test]
async fn changes_appear_without_a_reload() {
    check_demo("live").await;
}

#[tokio::test]
async fn a_lost_connection_comes_back() {
    check_demo("lost").await;
}

#[tokio::test]
async fn a_hundred_thousand_entries_scroll() {
    check_demo("many").await;
}

#[tokio::test]
async fn texts_of_servers_are_never_markup() {
    let Some(tools) = browser_tools() else { return };
    let folder = fresh_folder("serve-console-poisoned");
    let changed = folder.join("changed").to_str().expect("a path").to_owned();
    let server = json!({"command": node(&tools), "args": [peers().join("console/poisoned.mjs"), changed.as_str()]});
    let config = json!({"mcpServers": {"poisoned": server}, "pegboard": {"pinning": "hold"}});
    let file = folder.join("pegboard.json");
    std::fs::write(&file, config.to_string()).expect("a temporary file");
    let served = Served::start_in(folder.clone(), &file, &folder.join("state")).await;
    let login = login_url(&served).await;
    run(&tools, &served, "poisoned", &["--login", &login, "--server", "poisoned", "--file", &changed]).await;
}

#[tokio::test]
async fn cases_approvals_findings_and_clients_of_a_configuration() {
    let Some(tools) = browser_tools() else { return };
    let folder = fresh_folder("serve-console-configured");
    let offered = folder.join("tools.json");
    let tool = json!([{"name": "repeat", "description": "Repeat a text.", "inputSchema": {"type": "object"}}]);
    std::fs::write(&offered, tool.to_string()).expect("a temporary file");
    let server = json!({"command": node(&tools), "args": [peers().join("console/changing.mjs"), &offered]});
    // With a second server, names have the server in front.
    let servers = json!({"changing": server, "fixture": fixture(&[])});
    // With `select`, clients have tools that can be unloaded.
    let settings = json!({
        "pinning": "hold", "dialect": "select", "exposure": "always",
        "console": {"prices": {"currency": "EUR", "perMillionTokens": 2.5}},
    });
    let file = folder.join("pegboard.json");
    let config = json!({"mcpServers": servers, "pegboard": settings});
    std::fs::write(&file, config.to_string()).expect("a temporary file");
    // The files of clients are those of another user.
    let home = folder.join("home");
    std::fs::create_dir_all(home.join(".cursor")).expect("a temporary folder");
    let own = json!({"mcpServers": {"own": {"command": "own-server"}}});
    std::fs::write(home.join(".cursor/mcp.json"), own.to_string()).expect("a temporary file");
    let path = |path: &Path| path.to_str().expect("a path").to_owned();
    let (file, state, home, offered) = (path(&file), path(&folder.join("state")), path(&home), path(&offered));
    let variables = [("PEGBOARD_LOG", "debug"), ("HOME", home.as_str())];
    let served = Served::spawn_with(folder, &[&file, "--state", &state], "127.0.0.1:0", &variables).await;
    let login = login_url(&served).await;
    let more = ["--login", &login, "--server", "changing", "--file", &offered, "--home", &home];
    run(&tools, &served, "configured", &more).await;
}

#[tokio::test]
async fn a_token_with_a_selection_sees_its_part() {
    let Some(tools) = browser_tools() else { return };
    let server = |name: &str| json!({"command": node(&tools), "args": [peers().join("console/poisoned.mjs")], "env": {"NAME": name}});
    let config = json!({
        "mcpServers": {"seen": server("seen"), "hidden": server("hidden")},
        "pegboard": {"tokens": [
            {"name": "all", "token": "a-token-that-sees-everything-here"},
            {"name": "part", "token": "a-token-that-sees-one-server-only", "selection": {"servers": ["seen"]}},
        ]},
    });
    let served = Served::start("console-restricted", &config).await;
    let tokens = ["--token", "a-token-that-sees-one-server-only", "--admin", "a-token-that-sees-everything-here"];
    run(&tools, &served, "restricted", &[&tokens[..], &["--server", "seen"]].concat()).await;
}

#[tokio::test]
async fn routes_of_the_llm_api_proxy_are_shown() {
    let Some(tools) = browser_tools() else { return };
    let file = Part::call("tool_7", json!({"text": "a note"}));
    let reach = ScriptedTurn::reach("handle case 7: file the text of case 7", [file]);
    let filed = || ScriptedTurn::say([Part::text("Filed.")]);
    let provider = Provider::start(Script::new([reach, filed(), filed(), filed(), filed()]));
    let beside = RunningProxy::start("console_routes", &provider);
    let upstreams = json!({"openai": format!("{}/v1", provider.url()), "anthropic": provider.url()});
    let proxy = json!({"onGateway": true, "upstreams": upstreams});
    let config = json!({"mcpServers": {"fixture": fixture(&[])}, "pegboard": {"proxy": proxy}});
    let state = beside.state().to_str().expect("a path").to_owned();
    let served = Served::start_with("console-routes", &config, &["--state", &state], &[]).await;
    let login = login_url(&served).await;
    run(&tools, &served, "routes", &["--login", &login, "--proxy", &beside.url]).await;
    provider.assert_clean();
}
