//! The control API.

use std::time::Duration;

use axum::http::Method;
use pegboard_core::Selection;
use pegboard_discovery::DialectName;
use pegboard_gateway::{
    Change, GatewaySettings, Profile,
    control::{Options, Reload},
};
use pegboard_upstream::config::{ServerConfig, TransportConfig};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    tokens::token,
    world::{PATIENCE, Server, World, plain, read, settings, tool, until},
};

/// The control API of a gateway.
struct Desk(World);

impl Desk {
    fn new(world: &World, options: Options) -> Self {
        Self(world.at(world.gateway.control_router(options)))
    }

    /// The status code and the document.
    async fn ask(&self, method: Method, path: &str, holder: Option<usize>, headers: &[(&str, &str)]) -> (u16, Value) {
        let response = self.0.http(method, &format!("/control/{path}"), holder, headers, "{}").await;
        let (status, mut document) = (response.status().as_u16(), read(response).await.2);
        (status, document.pop().unwrap_or_default())
    }

    async fn status(&self, holder: Option<usize>) -> Value {
        let (status, document) = self.ask(Method::GET, "status", holder, &[]).await;
        assert_eq!(status, 200, "{document}");
        document
    }

    /// Waits for a status in which a server is in this state.
    async fn status_with(&self, server: usize, state: &str) -> Value {
        let polled = async {
            loop {
                let status = self.status(None).await;
                if status["servers"][server]["state"] == state {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, polled).await.expect("in time")
    }

    /// Asks for a change, with further headers.
    async fn post(&self, path: &str, holder: Option<usize>, headers: &[(&str, &str)]) -> (u16, Value) {
        let headers = [&[("content-type", "application/json")], headers].concat();
        self.ask(Method::POST, path, holder, &headers).await
    }
}

/// The names of the servers in a status.
fn names(status: &Value) -> Vec<&str> {
    let servers = status["servers"].as_array().expect("a list");
    servers.iter().map(|server| server["name"].as_str().expect("a name")).collect()
}

/// Answers requests to read the configuration again.
fn reloader(answer: impl Fn() -> Result<Change, String> + Send + 'static) -> mpsc::Sender<Reload> {
    let (reload, mut asked) = mpsc::channel::<Reload>(1);
    tokio::spawn(async move {
        while let Some(reply) = asked.recv().await {
            let _ = reply.send(answer());
        }
    });
    reload
}

/// A server that cannot be started.
fn broken() -> ServerConfig {
    let command = "/nowhere/to/be/found".to_owned();
    ServerConfig::new("broken", TransportConfig::Stdio { command, args: Vec::new(), env: Vec::new(), cwd: None })
}

fn disabled() -> ServerConfig {
    ServerConfig { is_enabled: false, ..Server::new(&[]).config("off") }
}

#[tokio::test]
async fn the_status_shows_servers_sessions_and_totals() {
    let servers = vec![Server::new(&["echo", "wait"]).config("one"), broken(), disabled()];
    let world = World::new(servers, settings(Profile::Dialect(DialectName::Bridge))).await;
    let endpoint = Some("http://127.0.0.1:1/mcp".to_owned());
    let configuration = Some("/somewhere/pegboard.json".into());
    let desk = Desk::new(&world, Options { endpoint, configuration, ..Options::default() });
    let session = world.legacy().await;
    session.names().await;
    assert!(session.call("search_tools", r#"{"query":"echo"}"#).await.contains("one___echo("));
    assert_eq!(session.call("call_tool", r#"{"name":"one___echo","arguments":{}}"#).await, "done");
    let status = desk.status_with(1, "failed").await;
    assert_eq!((&status["format"], names(&status)), (&json!(1), vec!["one", "broken", "off"]));
    assert_eq!(status["gateway"]["endpoint"], "http://127.0.0.1:1/mcp");
    assert_eq!(status["gateway"]["pid"], std::process::id());
    assert_eq!(status["configuration"], json!({"file": "/somewhere/pegboard.json", "refused": null}));
    let one = &status["servers"][0];
    assert_eq!(
        (&one["state"], &one["calls"]["total"], &one["calls"]["failed"], &one["tools"]),
        (&json!("ready"), &json!(1), &json!(0), &json!(2))
    );
    assert_eq!(one["latency"], json!({"p50Us": null, "p99Us": null}), "one call says nothing about the next");
    let broken = &status["servers"][1];
    assert!(broken["reason"].as_str().is_some_and(|reason| reason.contains("/nowhere/to/be/found")), "{broken}");
    assert!(broken["retryInMs"].is_u64() && broken["lastError"].is_string(), "{broken}");
    assert_eq!(status["servers"][2]["state"], "disabled");
    let client = &status["sessions"]["clients"][0];
    assert_eq!((&status["sessions"]["count"], &client["client"]), (&json!(1), &json!("test")));
    assert_eq!((&client["profile"], &client["sessions"]), (&json!("bridge"), &json!(1)));
    let totals = &status["totals"];
    assert_eq!((&totals["hits"], &totals["misses"], &totals["lists"]), (&json!(1), &json!(0), &json!(1)));
    assert_eq!(totals["tokensSaved"], 0, "two small tools cost less than the two that stand for them");
    assert!(!status.to_string().contains(session.id()), "the names of sessions are secrets");
}

#[tokio::test]
async fn percentiles_come_from_enough_calls() {
    let world = World::new(vec![Server::new(&["echo"]).config("one")], plain()).await;
    let desk = Desk::new(&world, Options::default());
    let session = world.legacy().await;
    let mut made = 0;
    let mut check = async |calls: usize, has_p50: bool, has_p99: bool| {
        while made < calls {
            session.call("echo", "{}").await;
            made += 1;
        }
        let latency = &desk.status_with(0, "ready").await["servers"][0]["latency"];
        assert_eq!((latency["p50Us"].is_u64(), latency["p99Us"].is_u64()), (has_p50, has_p99), "{calls} calls");
    };
    check(9, false, false).await;
    check(10, true, false).await;
    check(99, true, false).await;
    check(100, true, true).await;
}

#[tokio::test]
async fn tokens_saved_are_fewer_than_there_are() {
    let long = "Does something that takes many words to say, and so costs a context. ".repeat(20);
    // What models do not get is not saved either.
    let annotated = |at: usize| {
        let mut tool = tool(&format!("tool_{at}"), &long);
        tool["outputSchema"] = json!({"type": "object", "description": long});
        tool
    };
    let server = Server::with((0..40).map(annotated).collect());
    let world = World::new(vec![server.config("one")], settings(Profile::Dialect(DialectName::Bridge))).await;
    let session = world.legacy().await;
    session.names().await;
    let saved = Desk::new(&world, Options::default()).status_with(0, "ready").await["totals"]["tokensSaved"].clone();
    let definition = json!({"name": "tool_10", "description": long, "input_schema": {"type": "object"}});
    let all = 40 * pegboard_discovery::estimate_tokens(&definition.to_string()) as u64;
    let saved = saved.as_u64().unwrap_or_default();
    assert!((all / 2..=all).contains(&saved), "{saved} of about {all}");
}

#[tokio::test]
async fn a_token_shows_and_changes_what_its_selection_allows() {
    let (ann, bob, cat) = (Some(0), Some(1), Some(2));
    let everything = Selection::everything;
    let tokens = vec![
        token("ann", everything()),
        token("bob", everything().allow_tools(["one:echo"]).allow_servers(["three"])),
        token("cat", everything().deny(["one:slow", "echo"])),
    ];
    let (one, two, three) = (Server::new(&["echo", "slow"]), Server::new(&["echo"]), Server::new(&["other"]));
    let servers = vec![one.config("one"), two.config("two"), three.config("three")];
    let world = World::new(servers, GatewaySettings { tokens, ..plain() }).await;
    let reload = Some(reloader(|| Ok(Change::default())));
    let desk = Desk::new(&world, Options { reload, ..Options::default() });
    for holder in [None, Some(7)] {
        assert_eq!(desk.ask(Method::GET, "status", holder, &[]).await.0, 401);
    }
    let _session = world.legacy_with(ann, "of ann", json!({})).await;
    let whole = desk.status(ann).await;
    assert_eq!(names(&whole), ["one", "two", "three"]);
    assert_eq!(whole["sessions"]["clients"][0]["client"], "of ann");
    assert!(whole["totals"].is_object() && whole["configuration"].is_object(), "{whole}");
    let part = desk.status(bob).await;
    assert_eq!((names(&part), &part["servers"][0]["tools"]), (vec!["one", "three"], &json!(1)));
    assert_eq!(
        (&part["sessions"]["count"], &part["totals"], &part["configuration"]),
        (&json!(0), &Value::Null, &Value::Null)
    );
    for (path, holder, expected) in [
        ("reload", None, 401),
        ("reload", bob, 403),
        ("reload", ann, 200),
        ("servers/two/restart", bob, 404),
        // It sees one tool of it, and others need the rest.
        ("servers/one/restart", bob, 404),
        ("servers/three/restart", bob, 202),
        // A denied tool is a part of its server that the token does not see.
        ("servers/one/restart", cat, 404),
        ("servers/two/restart", cat, 404),
        ("servers/four/restart", ann, 404),
        ("servers/two/restart", ann, 202),
    ] {
        let (status, answer) = desk.post(path, holder, &[]).await;
        assert_eq!(status, expected, "{path} {holder:?} {answer}");
    }
    until("both are started again", async || [&two, &three].iter().all(|server| server.starts() == 2)).await;
    assert_eq!(one.starts(), 1);
    // With a token a page may do so too.
    assert_eq!(desk.post("reload", ann, &[("origin", "http://localhost:5173")]).await.0, 200);
}

#[tokio::test]
async fn servers_are_started_again_on_request() {
    let one = Server::new(&["echo"]);
    let world = World::new(vec![one.config("one"), disabled()], plain()).await;
    let desk = Desk::new(&world, Options::default());
    // No web page without a token, whatever it sends.
    assert_eq!(desk.ask(Method::POST, "servers/one/restart", None, &[]).await.0, 415);
    for header in [("origin", "http://localhost:5173"), ("sec-fetch-site", "same-origin")] {
        assert_eq!(desk.post("servers/one/restart", None, &[header]).await.0, 403);
    }
    assert_eq!(one.starts(), 1);
    let session = world.legacy().await;
    let (status, restarted) = desk.post("servers/one/restart", None, &[]).await;
    assert_eq!((status, &restarted["restarting"]), (202, &json!("one")));
    until("it is started again", async || one.starts() == 2).await;
    assert_eq!(session.call("echo", "{}").await, "done");
    assert_eq!(desk.post("servers/off/restart", None, &[]).await.0, 409);
}

#[tokio::test]
async fn the_configuration_is_read_again_on_request() {
    let world = World::new(vec![Server::new(&["echo"]).config("one")], plain()).await;
    let with = |reload| Desk::new(&world, Options { reload, ..Options::default() });
    let desk = with(Some(reloader(|| Ok(Change::default()))));
    let (status, document) = desk.ask(Method::GET, "reload", None, &[]).await;
    assert_eq!((status, document), (405, Value::Null));
    assert_eq!(desk.ask(Method::POST, "reload", None, &[]).await.0, 415);
    let same = json!({"added": [], "changed": [], "removed": [], "hasSettings": false});
    assert_eq!(desk.post("reload", None, &[]).await, (200, same));
    let desk = with(Some(reloader(|| Err("unknown key `comand`".to_owned()))));
    let refused = json!({"error": "unknown key `comand`"});
    assert_eq!(desk.post("reload", None, &[]).await, (422, refused));
    world.gateway.refuse_configuration("unknown key `comand`".to_owned());
    assert_eq!(desk.status(None).await["configuration"]["refused"], "unknown key `comand`");
    let servers = vec![Server::new(&["echo"]).config("one")];
    world.gateway.reconfigure(servers, plain(), None).await;
    assert_eq!(desk.status(None).await["configuration"]["refused"], Value::Null);
    // The demo has no file to read.
    let desk = with(None);
    assert_eq!(desk.post("reload", None, &[]).await.0, 409);
    assert_eq!(desk.status(None).await["configuration"], json!({"file": null, "refused": null}));
}
