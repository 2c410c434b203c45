//! A real server with a browser behind it: what one client has opened, no other client sees.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Legacy, Served,
    faults::children,
    real::{node, tools},
    starting::end,
    text, wait_until_gone,
};

/// Returns the configuration of a browser server, unless the machine has no browser.
fn config(tools: &Path, test: &str, connections: &str) -> Option<Value> {
    let browser = tools.join("chromium");
    if !browser.exists() {
        no_browser();
        return None;
    }
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-pages"));
    let cli = tools.join("npm/node_modules/@playwright/mcp/cli.js");
    let args =
        json!([cli, "--headless", "--no-sandbox", "--isolated", "--executable-path", browser, "--output-dir", output]);
    let server = json!({"command": node(tools), "args": args, "pegboard": {"connections": connections}});
    Some(json!({"mcpServers": {"browser": server}, "pegboard": {"exposure": "never", "startupWait": 60}}))
}

#[expect(clippy::print_stderr, reason = "people who run the tests must see what was left out")]
fn no_browser() {
    eprintln!("SKIPPED: no Chromium here; `cargo xtask peers` installs it as root");
}

/// Calls a tool of the browser as a client that has no folders to show.
async fn call(client: &Legacy, tool: &str, arguments: Value) -> String {
    let call = json!({"name": tool, "arguments": arguments});
    text(&client.request_answering("tools/call", call, |_| json!({"roots": []})).await)
}

async fn open_page(client: &Legacy, of: &str) {
    let url = format!("data:text/html,<title>Page of {of}</title><h1>Written for {of}</h1>");
    let reply = call(client, "browser_navigate", json!({"url": url})).await;
    assert!(reply.contains(&format!("Page of {of}")), "{reply}");
}

/// Checks that a client sees the page that it opened, in the only tab.
async fn sees(client: &Legacy, own: &str, others: &[&str]) {
    let page = call(client, "browser_snapshot", json!({})).await;
    let tabs = call(client, "browser_tabs", json!({"action": "list"})).await;
    for shown in [page, tabs] {
        assert!(shown.contains(&format!("Page of {own}")), "{own}: {shown}");
        assert!(others.iter().all(|other| !shown.contains(other)), "{own}: {shown}");
    }
}

/// Two clients open pages at the same time, one of them leaves, and a third one comes.
async fn stay_apart(served: Served) {
    let [ann, bob] = [served.legacy().await, served.legacy().await];
    // A server that is not known to ask has got its own connections from now on.
    call(&ann, "browser_tabs", json!({"action": "list"})).await;
    for round in 0..2 {
        let [of_ann, of_bob] = ["ann", "bob"].map(|name| format!("{name}-{round}"));
        tokio::join!(open_page(&ann, &of_ann), open_page(&bob, &of_bob));
        tokio::join!(sees(&ann, &of_ann, &["bob"]), sees(&bob, &of_bob, &["ann"]));
    }
    ann.end().await;
    let cat = served.legacy().await;
    open_page(&cat, "cat").await;
    tokio::join!(sees(&bob, "bob-1", &["ann", "cat"]), sees(&cat, "cat", &["ann", "bob"]));
    let processes = children(served.pid());
    assert!(processes.len() >= 3, "one of the catalog, and one of each client: {processes:?}");
    end(served).await;
    for pid in processes {
        wait_until_gone(pid).await;
    }
}

#[tokio::test]
async fn pages_of_clients_stay_apart_on_own_connections() {
    let Some(tools) = tools() else { return };
    let Some(config) = config(&tools, "browser-own", "own") else { return };
    stay_apart(Served::start("browser-own", &config).await).await;
}

#[tokio::test]
async fn pages_of_clients_stay_apart_once_the_server_has_asked() {
    let Some(tools) = tools() else { return };
    let Some(config) = config(&tools, "browser-auto", "auto") else { return };
    stay_apart(Served::start("browser-auto", &config).await).await;
}
