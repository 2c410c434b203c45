use std::{path::PathBuf, sync::Mutex, time::Duration};

use pegboard_mcp::{
    json::{Fields, Raw, raw},
    rpc::RpcError,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    CallerKey,
    config::{ServerConfig, TransportConfig},
    connection::Call,
    fleet::{Fleet, FleetOptions},
    server::{ClientOwner, State},
    transport::local::{AnswerFuture, LocalServer},
};

const LIMIT: Duration = Duration::from_secs(10);

/// A server that lists a tool for each capability of its client.
#[derive(Debug)]
struct Picky {
    era: Era,
    /// What was declared in each handshake, on all connections.
    greetings: Arc<Mutex<Vec<Value>>>,
    /// What was declared in the handshake of this connection.
    declared: Mutex<Fields>,
    /// A capability with which it does not start.
    refused: &'static str,
}

impl Picky {
    fn new(era: Era) -> Self {
        Self { era, greetings: Arc::default(), declared: Mutex::default(), refused: "" }
    }

    fn greet(&self, declared: Fields) -> Result<Raw, RpcError> {
        if declared.has(self.refused) {
            return Err(RpcError::new(RpcError::INVALID_PARAMS, "unexpected capability"));
        }
        Ok(self.accept(declared))
    }

    fn accept(&self, declared: Fields) -> Raw {
        lock(&self.greetings).push(serde_json::from_str(declared.to_raw().get()).expect("JSON"));
        *lock(&self.declared) = declared;
        let capabilities = json!({"tools": {}});
        match self.era {
            Era::Legacy => raw(&json!({"protocolVersion": "2025-11-25", "capabilities": capabilities})),
            Era::Modern => raw(&json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})),
        }
    }
}

impl LocalServer for Picky {
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a> {
        let params = Fields::of_optional(params.as_deref());
        let meta = params.object("_meta").unwrap_or_default();
        let of_request = meta.object("io.modelcontextprotocol/clientCapabilities");
        Box::pin(async move {
            match (method, self.era) {
                ("initialize", Era::Legacy) => self.greet(params.object("capabilities").unwrap_or_default()),
                ("server/discover", Era::Modern) => self.greet(of_request.unwrap_or_default()),
                ("tools/list", _) => {
                    let declared = of_request.unwrap_or_else(|| lock(&self.declared).clone());
                    let names = ["a"].into_iter().chain(declared.iter().map(|(name, _)| name));
                    let tools = names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
                    Ok(raw(&json!({"tools": tools.collect::<Vec<_>>()})))
                }
                ("tools/call", _) => Ok(raw(&json!({"content": []}))),
                _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
            }
        })
    }

    fn another(&self) -> Option<Arc<dyn LocalServer>> {
        let greetings = Arc::clone(&self.greetings);
        Some(Arc::new(Self { era: self.era, greetings, declared: Mutex::default(), refused: self.refused }))
    }
}

/// A fleet of one server, and what was declared to it.
struct Scene {
    fleet: Fleet,
    greetings: Arc<Mutex<Vec<Value>>>,
}

impl Scene {
    fn new(era: Era, mode: ConnectionMode, options: FleetOptions) -> Self {
        Self::of(Picky::new(era), mode, options)
    }

    fn of(server: Picky, mode: ConnectionMode, options: FleetOptions) -> Self {
        let greetings = Arc::clone(&server.greetings);
        let mut config = ServerConfig::new("s", TransportConfig::Local(Arc::new(server)));
        config.connections.mode = mode;
        let (fleet, _notices) = Fleet::start_with(vec![config], options);
        Self { fleet, greetings }
    }

    fn server(&self) -> Arc<Upstream> {
        Arc::clone(&self.fleet.servers()[0])
    }

    /// Notes a client, and waits until servers are listed for it; returns whether there was anything to wait for.
    async fn note(&self, capabilities: Value) -> bool {
        self.fleet.note_client(&raw(&capabilities));
        let is_declaring = self.fleet.is_declaring();
        self.fleet.wait_until_declared().await;
        is_declaring
    }

    fn greetings(&self) -> Vec<Value> {
        lock(&self.greetings).clone()
    }

    fn tools(&self) -> Vec<String> {
        self.server().lists().tools.iter().map(|tool| tool.key.clone()).collect()
    }

    /// Calls a tool for the session with this number.
    async fn call(&self, session: u64, capabilities: Value) {
        let client = CallClient {
            era: Era::Legacy,
            owner: Some(ClientOwner::Session(session)),
            party: None,
            capabilities: raw(&capabilities),
            log_level: None,
            life: None,
            events: None,
            inbox: None,
        };
        let make = |_: &Hello| Call::new("tools/call", Fields::new().with("name", "a"), LIMIT);
        self.server().call_as(&client, CallerKey::default(), make).await.expect("an answer");
    }

    async fn ready(&self) {
        let _ = self.server().state.subscribe().wait_for(|state| *state == State::Ready).await;
    }
}

fn roots() -> Value {
    json!({"roots": {"listChanged": false}})
}

#[test]
fn a_connection_that_was_used_is_not_opened_again() {
    let (nothing, roots) = (Capabilities::default(), Capabilities::named(["roots"]));
    let mut unused = CatalogUse::default();
    assert!(!unused.begin(roots), "it declares less");
    assert!(unused.close() && !unused.close());
    assert!(!unused.begin(nothing), "it is being closed");
    let mut used = CatalogUse { declared: roots, ..CatalogUse::default() };
    assert!(used.begin(nothing) && used.begin(roots) && !used.close());
    assert!(used.begin(Capabilities::named(["roots", "sampling"])));
}

#[tokio::test(start_paused = true)]
async fn a_server_learns_what_a_client_can_be_asked_for_and_nothing_else() {
    for mode in [ConnectionMode::Auto, ConnectionMode::Own] {
        let scene = Scene::new(Era::Legacy, mode, FleetOptions::default());
        scene.ready().await;
        assert_eq!((scene.greetings(), scene.tools()), (vec![json!({})], vec!["a".to_owned()]));
        assert!(!scene.note(json!({})).await, "there is nothing to declare");
        assert!(scene.note(json!({"roots": {"listChanged": true}, "tasks": {}})).await);
        assert_eq!(scene.greetings(), [json!({}), roots()]);
        assert_eq!(scene.tools(), ["a", "roots"], "listed when the client is noted");
        assert!(!scene.note(roots()).await && !scene.note(json!({})).await);
        assert_eq!(scene.greetings().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_learns_it_without_another_connection() {
    let scene = Scene::new(Era::Modern, ConnectionMode::Auto, FleetOptions::default());
    scene.ready().await;
    scene.call(1, json!({})).await;
    assert!(scene.note(roots()).await);
    assert_eq!((scene.greetings().len(), scene.tools()), (1, vec!["a".to_owned(), "roots".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn roots_are_not_declared_where_no_client_would_be_asked() {
    let scene = Scene::new(Era::Legacy, ConnectionMode::Shared, FleetOptions::default());
    scene.ready().await;
    assert!(scene.note(json!({"roots": {}, "sampling": {}})).await);
    assert_eq!(scene.greetings(), [json!({}), json!({"sampling": {}})]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_in_use_stays_until_the_next_start() {
    let scene = Scene::new(Era::Legacy, ConnectionMode::Auto, FleetOptions::default());
    scene.ready().await;
    scene.call(1, json!({})).await;
    let sampling = json!({"sampling": {}});
    assert!(scene.note(sampling.clone()).await);
    assert_eq!(scene.greetings(), [json!({})], "the state of the first client is kept");
    scene.call(2, sampling.clone()).await;
    assert_eq!(scene.greetings(), [json!({}), sampling.clone()], "it gets a connection of its own");
    scene.call(1, json!({})).await;
    assert_eq!((scene.greetings().len(), scene.server().pool.counts()), (2, (0, 1)));
    assert!(scene.fleet.restart("s", Duration::ZERO).await);
    scene.ready().await;
    assert_eq!(scene.greetings().last(), Some(&sampling), "the next start declares it");
    scene.call(2, sampling.clone()).await;
    assert_eq!((scene.greetings().len(), scene.server().pool.counts()), (3, (0, 0)), "shared from then on");
}

#[tokio::test(start_paused = true)]
async fn a_client_keeps_its_own_connection_when_the_server_is_opened_again() {
    let scene = Scene::new(Era::Legacy, ConnectionMode::Auto, FleetOptions::default());
    scene.ready().await;
    scene.call(1, json!({})).await;
    let sampling = json!({"sampling": {}});
    scene.note(sampling.clone()).await;
    scene.call(2, sampling.clone()).await;
    let (link, _) = scene.server().connection.borrow().clone().expect("it is open");
    link.close("session expired on the server");
    scene.server().wait_until_declared().await;
    let mut connection = scene.server().connection.subscribe();
    let is_other =
        |now: &Option<(Arc<Link>, Arc<Hello>)>| now.as_ref().is_some_and(|(now, _)| !Arc::ptr_eq(now, &link));
    connection.wait_for(is_other).await.expect("it is opened again");
    assert_eq!(scene.greetings().len(), 3);
    scene.call(2, sampling).await;
    assert_eq!((scene.greetings().len(), scene.server().pool.counts()), (3, (0, 1)), "its state is there");
}

/// A folder for one test, removed afterwards.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pegboard-declaring-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn the_next_run_declares_it_at_the_start() {
    let place = Place::new("next");
    let options = || FleetOptions { clients: Some(place.0.clone()), ..FleetOptions::default() };
    let first = Scene::new(Era::Legacy, ConnectionMode::Auto, options());
    first.ready().await;
    first.note(roots()).await;
    let is_saved = async {
        while !place.0.join("clients.json").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_saved).await.expect("it is saved");
    let second = Scene::new(Era::Legacy, ConnectionMode::Auto, options());
    second.ready().await;
    assert_eq!((second.greetings(), second.tools()), (vec![roots()], vec!["a".to_owned(), "roots".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_never_listed_waits_a_moment_for_the_first_client() {
    let options = || FleetOptions { first_client_wait: LIMIT, ..FleetOptions::default() };
    let scene = Scene::new(Era::Legacy, ConnectionMode::Auto, options());
    tokio::time::sleep(LIMIT / 2).await;
    assert!(scene.greetings().is_empty());
    scene.note(roots()).await;
    scene.ready().await;
    assert_eq!(scene.greetings(), [roots()], "started once");
    let alone = Scene::new(Era::Legacy, ConnectionMode::Auto, options());
    let began = tokio::time::Instant::now();
    alone.ready().await;
    assert_eq!((alone.greetings(), began.elapsed()), (vec![json!({})], LIMIT), "started without a client");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_to_start_again_keeps_nobody_waiting() {
    let scene = Scene::new(Era::Legacy, ConnectionMode::Auto, FleetOptions::default());
    scene.ready().await;
    let server = scene.server();
    server.stop();
    server.stopped().await;
    let began = tokio::time::Instant::now();
    assert!(scene.note(roots()).await);
    assert_eq!((began.elapsed(), server.running_calls()), (Duration::ZERO, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_start_with_a_capability_is_not_told_of_it() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Picky { refused: "sampling", ..Picky::new(era) };
        let scene = Scene::of(server, ConnectionMode::Auto, FleetOptions::default());
        scene.ready().await;
        scene.note(json!({"sampling": {}})).await;
        let began = tokio::time::Instant::now();
        assert!(scene.fleet.restart("s", Duration::ZERO).await);
        scene.ready().await;
        assert_eq!((scene.greetings().last(), began.elapsed()), (Some(&json!({})), Duration::ZERO), "{era:?}");
        scene.call(1, json!({})).await;
    }
}

#[test]
fn a_failed_start_is_tried_once_with_less() {
    let [nothing, roots, both] =
        [&[][..], &["roots"], &["roots", "sampling"]].map(|names: &[&str]| Capabilities::named(names.iter().copied()));
    let check = |before: DeclaredLimit, declared, listed, expected| {
        assert_eq!(before.after_failure(declared, listed), expected, "{before:?} {declared:?}");
    };
    check(DeclaredLimit::None, both, Some(roots), DeclaredLimit::Trying(roots));
    check(DeclaredLimit::None, both, None, DeclaredLimit::Trying(nothing));
    check(DeclaredLimit::None, roots, Some(both), DeclaredLimit::Trying(nothing));
    check(DeclaredLimit::None, nothing, None, DeclaredLimit::None);
    check(DeclaredLimit::Trying(roots), roots, Some(roots), DeclaredLimit::None);
    check(DeclaredLimit::Kept(roots), roots, Some(roots), DeclaredLimit::Kept(roots));
}

#[tokio::test(start_paused = true)]
async fn calls_are_not_rejected_for_what_they_could_be_asked_for() {
    let mut config = ServerConfig::new("s", TransportConfig::Local(Arc::new(Picky::new(Era::Legacy))));
    config.connections.max = 1;
    let (fleet, _notices) = Fleet::start(vec![config], Vec::new());
    let scene = Scene { fleet, greetings: Arc::default() };
    scene.ready().await;
    scene.call(1, json!({})).await;
    let sampling = json!({"sampling": {}});
    scene.note(sampling.clone()).await;
    for session in 2..5 {
        scene.call(session, sampling.clone()).await;
    }
    assert_eq!(scene.server().pool.counts(), (0, 1), "the others use the shared connection");
}
