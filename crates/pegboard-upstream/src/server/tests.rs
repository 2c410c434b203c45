//! Servers inside this process, on a clock that jumps to whatever is waited for.

use std::sync::atomic::{AtomicBool, AtomicU64};

use pegboard_core::breaker::BreakerSettings;
use pegboard_mcp::{era::Era, json::raw, rpc::RpcError};
use serde_json::json;

use super::*;
use crate::{
    CallerKey,
    config::ConnectionMode,
    connection::Call,
    fleet::{Fleet, FleetOptions},
    transport::local::{AnswerFuture, LocalClient, LocalServer},
};

/// A server that can be made to say nothing any more.
#[derive(Debug, Default)]
struct Puppet {
    is_stuck: AtomicBool,
    /// Whether it does not even start.
    is_broken: AtomicBool,
    /// Whether it never gets ready.
    is_hanging: AtomicBool,
    /// How often it was greeted.
    starts: AtomicU64,
    calls: AtomicU64,
    client: Mutex<Option<LocalClient>>,
}

impl Puppet {
    fn stick(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Ordering::Relaxed);
    }

    fn break_down(&self, is_broken: bool) {
        self.is_broken.store(is_broken, Ordering::Relaxed);
    }

    fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Ends the connection.
    fn crash(&self) {
        lock(&self.client).take().expect("it is connected").close("it has ended");
    }
}

impl LocalServer for Puppet {
    fn answer<'a>(&'a self, method: &'a str, _params: Option<Raw>) -> AnswerFuture<'a> {
        Box::pin(async move {
            match method {
                "server/discover" => {
                    self.starts.fetch_add(1, Ordering::Relaxed);
                    if self.is_hanging.load(Ordering::Relaxed) {
                        std::future::pending::<()>().await;
                    }
                    if self.is_broken.load(Ordering::Relaxed) {
                        return Err(RpcError::new(RpcError::INTERNAL, "out of order"));
                    }
                    Ok(raw(&json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})))
                }
                "tools/list" => Ok(raw(&json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}))),
                "tools/call" => {
                    self.calls.fetch_add(1, Ordering::Relaxed);
                    if self.is_stuck.load(Ordering::Relaxed) {
                        std::future::pending::<()>().await;
                    }
                    Err(RpcError::new(RpcError::INVALID_PARAMS, "no"))
                }
                "resources/read" => Ok(raw(&json!({"contents": "x".repeat(1000)}))),
                "initialize" => std::future::pending().await,
                _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
            }
        })
    }

    fn another(&self) -> Option<Arc<dyn LocalServer>> {
        Some(Arc::new(Self::default()))
    }

    fn connected(&self, client: LocalClient) {
        *lock(&self.client) = Some(client);
    }
}

const TIMEOUT: Duration = Duration::from_secs(10);

/// A fleet of one server, and what plays it.
fn fleet(change: impl FnOnce(&mut ServerConfig)) -> (Fleet, Arc<Puppet>) {
    let puppet = Arc::new(Puppet::default());
    let mut config = ServerConfig::new("s", TransportConfig::Local(Arc::clone(&puppet) as Arc<dyn LocalServer>));
    config.timeouts.call = TIMEOUT;
    change(&mut config);
    let (fleet, _notices) = Fleet::start(vec![config], Vec::new());
    (fleet, puppet)
}

async fn call(server: &Upstream) -> String {
    let made = server.call(|_| Call::new("tools/call", Fields::new().with("name", "a"), TIMEOUT)).await;
    made.map_or_else(|error| error.to_string(), |_| "answered".to_owned())
}

async fn reach(server: &Upstream, state: &str) {
    server.state.subscribe().wait_for(|now| now.as_str() == state).await.expect("it lives");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_left_alone() {
    let settings = BreakerSettings { failures: 2, ..BreakerSettings::default() };
    let (fleet, puppet) = fleet(|config| config.breaker = Some(settings));
    let server = &fleet.servers()[0];
    let refused = RpcError::new(RpcError::INVALID_PARAMS, "no").to_string();
    for _ in 0..5 {
        assert_eq!(call(server).await, refused, "what a server says is an answer");
    }
    puppet.stick(true);
    for _ in 0..2 {
        assert_eq!(call(server).await, "no response within 10 s");
    }
    let began = Instant::now();
    let left = "circuit breaker open: the last 2 calls failed (no response within 10 s); try again in 30 s";
    assert_eq!(call(server).await, left);
    assert_eq!((began.elapsed(), puppet.calls()), (Duration::ZERO, 7), "it was not asked");
    let report = server.report();
    assert_eq!((report.breaker.state.as_str(), report.breaker.retry_in_ms), ("open", Some(30_000)));
    assert_eq!(report.calls, CallCounts { total: 8, failed: 3, ..CallCounts::default() });
    assert_eq!(report.last_error.as_deref(), Some(left));
    assert_eq!(report.state, "ready");

    tokio::time::advance(settings.pause).await;
    assert_eq!(server.report().breaker.state, "half-open");
    assert_eq!(call(server).await, "no response within 10 s", "one may try");
    assert!(call(server).await.starts_with("circuit breaker open: the last 3 calls failed"));
    tokio::time::advance(settings.pause).await;
    puppet.stick(false);
    assert_eq!(call(server).await, refused);
    assert_eq!(call(server).await, refused);
    assert_eq!(server.report().breaker, BreakerReport { state: "closed".to_owned(), ..BreakerReport::default() });
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_legacy_handshake_delays_one_call() {
    let (fleet, _puppet) = fleet(|config| config.timeouts.connect = Duration::from_secs(60));
    let server = &fleet.servers()[0];
    let refused = RpcError::new(RpcError::INVALID_PARAMS, "no").to_string();
    assert_eq!(call(server).await, refused);
    let client = CallClient {
        era: Era::Legacy,
        owner: None,
        party: None,
        capabilities: raw(&json!({})),
        log_level: None,
        life: None,
        events: None,
        inbox: None,
    };
    for waited in [10, 0] {
        let began = Instant::now();
        let make = |_: &Hello| Call::new("tools/call", Fields::new().with("name", "a"), TIMEOUT);
        let made = server.call_as(&client, CallerKey::default(), make).await;
        assert_eq!(made.expect_err("no such tool").to_string(), refused, "over the modern connection");
        assert_eq!(began.elapsed().as_secs(), waited);
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_that_nobody_waits_for_is_no_try() {
    let settings = BreakerSettings { failures: 1, ..BreakerSettings::default() };
    let (fleet, puppet) = fleet(|config| config.breaker = Some(settings));
    let server = &fleet.servers()[0];
    puppet.stick(true);
    assert_eq!(call(server).await, "no response within 10 s");
    tokio::time::advance(settings.pause).await;
    let trying = tokio::time::timeout(Duration::from_secs(1), call(server)).await;
    assert!(trying.is_err(), "given up after a second");
    puppet.stick(false);
    assert!(!call(server).await.contains("circuit breaker open"));
}

#[tokio::test(start_paused = true)]
async fn a_lazy_server_is_started_once_and_then_when_it_is_called() {
    let (fleet, puppet) = fleet(|config| config.lazy = Some(true));
    let server = &fleet.servers()[0];
    assert_eq!(server.report().state, "starting");
    reach(server, "ready").await;
    let began = Instant::now();
    reach(server, "lazy").await;
    assert_eq!(began.elapsed(), crate::config::LAZY_IDLE);
    let report = server.report();
    assert_eq!((report.tools, report.pid, report.is_from_manifest), (1, None, false));
    assert_eq!(report.protocol.as_deref(), Some("2026-07-28"));
    assert_eq!(puppet.starts(), 1);
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!((server.report().state.as_str(), puppet.starts()), ("lazy", 1));
    assert_eq!(server.report().since_ms, 3_600_000);
    // Of many callers at once, one starts it.
    tokio::join!(call(server), call(server), call(server));
    assert_eq!((server.report().state.as_str(), puppet.starts(), puppet.calls()), ("ready", 2, 3));
    reach(server, "lazy").await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(puppet.starts(), 2, "a word that came late starts nothing");
    fleet.stop().await;
    assert_eq!(server.report().state, "stopped");
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_is_not_lazy() {
    let (fleet, puppet) = fleet(|config| config.timeouts.idle = Some(Duration::from_secs(5)));
    let server = &fleet.servers()[0];
    reach(server, "idle").await;
    assert!(server.state().is_resting());
    call(server).await;
    assert_eq!((server.report().state.as_str(), puppet.starts()), ("ready", 2));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_switched_off() {
    let (fleet, puppet) = fleet(|config| config.is_enabled = false);
    let server = &fleet.servers()[0];
    fleet.wait_until_listed(TIMEOUT).await;
    assert_eq!(call(server).await, "the server is not connected: it is disabled");
    assert_eq!((server.report().state.as_str(), puppet.starts()), ("disabled", 0));
}

#[tokio::test(start_paused = true)]
async fn disabling_a_running_server_removes_its_tools() {
    let (fleet, _puppet) = fleet(|_| {});
    reach(&fleet.servers()[0], "ready").await;
    assert_eq!(fleet.servers()[0].report().tools, 1);
    let disabled = ServerConfig { is_enabled: false, ..fleet.servers()[0].config().clone() };
    fleet.reconfigure(vec![disabled], TIMEOUT).await;
    let report = fleet.servers()[0].report();
    assert_eq!((report.state.as_str(), report.tools), ("disabled", 0));
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_start() {
    let transport = TransportConfig::Stdio {
        command: "no-such-program-anywhere".to_owned(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
    };
    let (fleet, _notices) = Fleet::start(vec![ServerConfig::new("s", transport)], Vec::new());
    let server = &fleet.servers()[0];
    reach(server, "failed").await;
    let report = server.report();
    assert!(report.reason.as_deref().is_some_and(|reason| reason.contains("no-such-program-anywhere")));
    assert_eq!(report.last_error, report.reason);
    let first = report.retry_in_ms.expect("a next try");
    tokio::time::advance(Duration::from_millis(100)).await;
    assert_eq!(server.report().retry_in_ms, Some(first - 100));
    let written = serde_json::to_value(&report).expect("JSON");
    assert_eq!(serde_json::from_value::<Report>(written).expect("a report"), report);
}

#[tokio::test(start_paused = true)]
async fn a_lazy_server_that_fails_rests_again() {
    let (fleet, puppet) = fleet(|config| config.lazy = Some(true));
    let server = &fleet.servers()[0];
    reach(server, "lazy").await;
    puppet.break_down(true);
    let (one, two, three) = tokio::join!(call(server), call(server), call(server));
    for told in [one, two, three] {
        assert!(told.contains("out of order"), "{told}");
    }
    let report = server.report();
    assert_eq!((report.state.as_str(), report.tools, puppet.starts()), ("lazy", 1, 2), "one try for all of them");
    assert!(report.last_error.is_some_and(|error| error.contains("out of order")));
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!((server.report().state.as_str(), puppet.starts()), ("lazy", 2), "nobody has called it since");
    assert!(call(server).await.contains("out of order"), "every call may try");
    assert_eq!(puppet.starts(), 3);
    puppet.break_down(false);
    call(server).await;
    assert_eq!((server.report().state.as_str(), puppet.calls()), ("ready", 1));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_never_listed_is_tried_again() {
    let (fleet, puppet) = fleet(|config| config.lazy = Some(true));
    puppet.break_down(true);
    let server = &fleet.servers()[0];
    reach(server, "failed").await;
    puppet.break_down(false);
    reach(server, "ready").await;
    assert_eq!(server.report().tools, 1);
}

/// A call that is made meanwhile.
fn start(server: &Arc<Upstream>) -> tokio::task::JoinHandle<String> {
    let server = Arc::clone(server);
    tokio::spawn(async move { call(&server).await })
}

/// Waits until so many calls wait for their turn.
async fn lined_up(server: &Upstream, count: u64) {
    while server.report().calls.waiting != count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_their_turn() {
    let (fleet, puppet) = fleet(|config| config.limits.concurrent = 1);
    let server = Arc::clone(&fleet.servers()[0]);
    puppet.stick(true);
    let first = start(&server);
    while puppet.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let (second, third) = (start(&server), start(&server));
    lined_up(&server, 2).await;
    // An abandoned call does not block others.
    second.abort();
    lined_up(&server, 1).await;
    assert_eq!(puppet.calls(), 1);
    // The first takes as long as a call may, and so does the call that waits for it.
    let told = third.await.expect("it ends");
    let busy = "concurrency limit of the server reached (`maxConcurrent`): 1 call is running; gave up after 10 s";
    assert!(told == busy || told == "no response within 10 s", "{told}");
    assert_eq!(first.await.expect("it ends"), "no response within 10 s");
    puppet.stick(false);
    assert_ne!(call(&server).await, busy);
    let counts = server.report().calls;
    assert_eq!((counts.running, counts.waiting, counts.total), (0, 0, 4), "all places are given back");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_gives_all_places_back() {
    let (fleet, puppet) = fleet(|config| config.limits.concurrent = 1);
    let server = Arc::clone(&fleet.servers()[0]);
    puppet.stick(true);
    let (first, second) = (start(&server), start(&server));
    lined_up(&server, 1).await;
    fleet.stop().await;
    for one in [first, second] {
        assert!(one.await.expect("it ends").starts_with("the server is not connected"));
    }
    assert!(server.turns.is_idle());
}

#[tokio::test(start_paused = true)]
async fn too_much_of_it() {
    let (fleet, puppet) = fleet(|config| {
        (config.limits.argument_bytes, config.limits.result_bytes) = (100, 1000);
    });
    let server = &fleet.servers()[0];
    let make = |method: &'static str, bytes: usize| {
        let arguments = json!({"text": "x".repeat(bytes)});
        server.call(move |_| Call::new(method, Fields::new().with("arguments", &arguments), TIMEOUT))
    };
    let said = make("tools/call", 100).await.expect_err("too much").to_string();
    assert_eq!(
        (said.as_str(), puppet.calls()),
        ("arguments are 111 bytes, over the limit of 100 (`maxArgumentBytes`)", 0)
    );
    let said = make("resources/read", 3).await.expect_err("too much").to_string();
    assert_eq!(said, "result is 1015 bytes, over the limit of 1000 (`maxResultBytes`)");
    assert_eq!(server.report().breaker.failures, 0, "that is no failure to answer");
}

/// A fleet of servers that start in turns; the first of them hangs.
fn in_turns(max_starts: usize, names: &[&str]) -> (Fleet, Vec<Arc<Puppet>>) {
    let puppets: Vec<Arc<Puppet>> = names.iter().map(|_| Arc::default()).collect();
    puppets[0].is_hanging.store(true, Ordering::Relaxed);
    let config = |(name, puppet): (&&str, &Arc<Puppet>)| {
        let mut config = ServerConfig::new(*name, TransportConfig::Local(Arc::clone(puppet) as Arc<dyn LocalServer>));
        config.timeouts.connect = Duration::from_secs(15);
        config
    };
    let configs = names.iter().zip(&puppets).map(config).collect();
    let options = FleetOptions { max_starts: Some(max_starts), ..FleetOptions::default() };
    (Fleet::start_with(configs, options).0, puppets)
}

#[tokio::test(start_paused = true)]
async fn servers_start_in_turns_and_their_time_counts_from_their_start() {
    let (fleet, puppets) = in_turns(1, &["a", "b", "c", "d"]);
    let servers = fleet.servers();
    let began = Instant::now();
    // One that is called does not wait for its turn.
    assert!(!call(&servers[3]).await.contains("starting"));
    let starts = || puppets.iter().map(|puppet| puppet.starts()).collect::<Vec<_>>();
    assert_eq!((starts(), began.elapsed()), (vec![1, 0, 0, 1], Duration::ZERO));
    // One that hangs keeps the others waiting for a while, and not for all its time.
    reach(&servers[1], "ready").await;
    reach(&servers[2], "ready").await;
    assert_eq!((starts(), began.elapsed()), (vec![1, 1, 1, 1], Duration::from_secs(10)));
    reach(&servers[0], "failed").await;
    assert_eq!(began.elapsed(), Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn time_in_the_queue_is_not_time_to_start() {
    let (fleet, puppets) = in_turns(1, &["a", "b", "c"]);
    puppets[1].is_hanging.store(true, Ordering::Relaxed);
    let servers = fleet.servers();
    let began = Instant::now();
    reach(&servers[1], "failed").await;
    assert_eq!(began.elapsed(), Duration::from_secs(25), "10 s in the queue, 15 s of its own");
    assert_eq!(servers[2].report().state, "ready");
}

#[tokio::test]
async fn a_server_that_was_waited_for_in_vain_is_not_waited_for_again() {
    let folder = std::env::temp_dir().join(format!("pegboard-late-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let start = || {
        // What is kept belongs to a program; this one exists, and never says anything.
        let transport = TransportConfig::Stdio {
            command: "sleep".to_owned(),
            args: vec!["600".to_owned()],
            env: Vec::new(),
            cwd: None,
        };
        let mut config = ServerConfig::new("s", transport);
        config.timeouts.connect = Duration::from_secs(600);
        Fleet::start_with(vec![config], FleetOptions { manifests: Some(folder.clone()), ..FleetOptions::default() }).0
    };
    let fleet = start();
    fleet.recalled(TIMEOUT * 6).await;
    fleet.wait_until_listed(Duration::from_millis(1)).await;
    fleet.stop().await;
    let fleet = start();
    // It would wait for ten minutes.
    tokio::time::timeout(Duration::from_secs(60), fleet.wait_until_listed(Duration::from_secs(600)))
        .await
        .expect("at once");
    assert_eq!(fleet.servers()[0].report().state, "starting");
    fleet.stop().await;
    let _ = std::fs::remove_dir_all(&folder);
}

#[tokio::test(start_paused = true)]
async fn restarts_take_turns_too() {
    let (fleet, puppets) = in_turns(1, &["a", "b"]);
    puppets[0].is_hanging.store(false, Ordering::Relaxed);
    puppets.iter().for_each(|puppet| puppet.break_down(true));
    let servers = fleet.servers();
    reach(&servers[0], "failed").await;
    reach(&servers[1], "failed").await;
    for puppet in &puppets {
        puppet.is_hanging.store(true, Ordering::Relaxed);
        puppet.break_down(false);
    }
    let before: u64 = puppets.iter().map(|puppet| puppet.starts()).sum();
    let restarted = || puppets.iter().map(|puppet| puppet.starts()).sum::<u64>() - before;
    // Both are due within two seconds.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(restarted(), 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(restarted(), 2, "one that hangs does not keep the other waiting for ever");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_called_does_not_wait_for_its_turn_to_restart() {
    let (fleet, puppets) = in_turns(1, &["a", "b"]);
    puppets[0].is_hanging.store(false, Ordering::Relaxed);
    let server = &fleet.servers()[1];
    reach(server, "ready").await;
    reach(&fleet.servers()[0], "ready").await;
    // Other servers take all places for ever.
    let _places = Arc::clone(&server.context.starts).acquire_owned().await.expect("a place");
    puppets[1].crash();
    reach(server, "failed").await;
    let refused = RpcError::new(RpcError::INVALID_PARAMS, "no").to_string();
    assert_eq!(call(server).await, refused, "it has answered");
    assert_eq!(puppets[1].starts(), 2);
}

/// A client with connections of its own.
fn own_client(era: Era, life: &watch::Sender<ClientLife>) -> CallClient {
    CallClient {
        era,
        owner: Some(ClientOwner::Session(1)),
        party: None,
        capabilities: raw(&json!({})),
        log_level: life.borrow().log_level.clone(),
        life: Some(life.subscribe()),
        events: None,
        inbox: None,
    }
}

/// Calls the tool `a` for a client.
async fn call_for(server: &Arc<Upstream>, client: &CallClient) -> Result<Raw, CallError> {
    let make = |_: &Hello| Call::new("tools/call", Fields::new().with("name", "a"), TIMEOUT);
    server.call_as(client, CallerKey::default(), make).await
}

#[tokio::test(start_paused = true)]
async fn the_connection_of_a_client_ends_with_it() {
    let (fleet, _puppet) = fleet(|config| config.connections.mode = ConnectionMode::Own);
    let server = &fleet.servers()[0];
    reach(server, "ready").await;
    let life = watch::Sender::new(ClientLife::default());
    let client = own_client(Era::Modern, &life);
    let _ = call_for(server, &client).await;
    assert_eq!(server.pool.counts(), (0, 1));
    life.send_modify(|life| life.has_ended = true);
    server.pool.emptied().await;
    // A call that waited for its turn is late.
    let _ = call_for(server, &client).await;
    server.pool.emptied().await;
}

/// A legacy server. While its second connection is opened, the client sets another log level.
#[derive(Debug, Default)]
struct Logger {
    levels: Arc<Mutex<Vec<String>>>,
    life: Arc<watch::Sender<ClientLife>>,
    /// Whether it never answers to the level of errors.
    is_deaf_to_errors: bool,
}

impl LocalServer for Logger {
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a> {
        Box::pin(async move {
            match method {
                "initialize" => {
                    let capabilities = json!({"logging": {}, "tools": {}});
                    Ok(raw(&json!({"protocolVersion": "2025-11-25", "capabilities": capabilities})))
                }
                "tools/list" => Ok(raw(&json!({"tools": []}))),
                "tools/call" => Ok(raw(&json!({"content": []}))),
                "logging/setLevel" => {
                    let level = Fields::of_optional(params.as_deref()).text("level").unwrap_or_default();
                    let is_unanswered = self.is_deaf_to_errors && level == "error";
                    lock(&self.levels).push(level);
                    if is_unanswered {
                        std::future::pending::<()>().await;
                    }
                    self.life.send_modify(|life| life.log_level = Some("error".to_owned()));
                    Ok(raw(&json!({})))
                }
                _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
            }
        })
    }

    fn another(&self) -> Option<Arc<dyn LocalServer>> {
        let (levels, life) = (Arc::clone(&self.levels), Arc::clone(&self.life));
        Some(Arc::new(Self { levels, life, is_deaf_to_errors: self.is_deaf_to_errors }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_level_that_is_set_while_a_connection_opens_is_not_lost() {
    let logger = Arc::new(Logger::default());
    let (levels, life) = (Arc::clone(&logger.levels), Arc::clone(&logger.life));
    let mut config = ServerConfig::new("s", TransportConfig::Local(logger));
    config.connections.mode = ConnectionMode::Own;
    let (fleet, _notices) = Fleet::start(vec![config], Vec::new());
    let server = &fleet.servers()[0];
    reach(server, "ready").await;
    life.send_modify(|life| life.log_level = Some("debug".to_owned()));
    call_for(server, &own_client(Era::Legacy, &life)).await.expect("an answer");
    wait_for_levels(&levels, 2).await;
    assert_eq!(*lock(&levels), ["debug", "error"]);
}

/// Waits until the server was sent so many log levels.
async fn wait_for_levels(levels: &Mutex<Vec<String>>, count: usize) {
    let sent = async {
        while lock(levels).len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, sent).await.expect("in time");
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_although_the_server_does_not_answer() {
    for is_stopped in [false, true] {
        let logger = Arc::new(Logger { is_deaf_to_errors: true, ..Logger::default() });
        let (levels, life) = (Arc::clone(&logger.levels), Arc::clone(&logger.life));
        let mut config = ServerConfig::new("s", TransportConfig::Local(logger));
        config.connections.mode = ConnectionMode::Own;
        let (fleet, _notices) = Fleet::start(vec![config], Vec::new());
        let server = &fleet.servers()[0];
        reach(server, "ready").await;
        life.send_modify(|life| life.log_level = Some("debug".to_owned()));
        call_for(server, &own_client(Era::Legacy, &life)).await.expect("an answer");
        wait_for_levels(&levels, 2).await;
        let began = Instant::now();
        match is_stopped {
            true => _ = server.stop.send_replace(true),
            false => life.send_modify(|life| life.has_ended = true),
        }
        server.pool.emptied().await;
        let waited = began.elapsed();
        assert!(waited < server.config.timeouts.call / 2, "{is_stopped}: {waited:?}");
    }
}

/// A legacy server with resources.
#[derive(Debug, Default)]
struct Library {
    subscribed: Mutex<Vec<String>>,
}

impl LocalServer for Library {
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a> {
        Box::pin(async move {
            let uri = || Fields::of_optional(params.as_deref()).text("uri").unwrap_or_default();
            match method {
                "initialize" => {
                    let capabilities = json!({"resources": {"subscribe": true}});
                    Ok(raw(&json!({"protocolVersion": "2025-11-25", "capabilities": capabilities})))
                }
                "resources/list" => Ok(raw(&json!({"resources": []}))),
                "resources/templates/list" => Ok(raw(&json!({"resourceTemplates": []}))),
                "resources/subscribe" => {
                    lock(&self.subscribed).push(uri());
                    Ok(raw(&json!({})))
                }
                "resources/unsubscribe" => {
                    lock(&self.subscribed).retain(|one| *one != uri());
                    Ok(raw(&json!({})))
                }
                _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn many_subscriptions_are_compared_once() {
    let library = Arc::new(Library::default());
    let config = ServerConfig::new("s", TransportConfig::Local(Arc::clone(&library) as Arc<dyn LocalServer>));
    let (fleet, _notices) = Fleet::start(vec![config], Vec::new());
    let server = &fleet.servers()[0];
    reach(server, "ready").await;
    let reads = AtomicU64::new(0);
    let watch = async |wanted: &BTreeSet<String>| {
        reads.store(0, Ordering::Relaxed);
        let read = || {
            reads.fetch_add(1, Ordering::Relaxed);
            wanted.clone()
        };
        server.watch_resources(read, &[]).await;
        // For streams, for the differences, and to see that there are none left.
        assert_eq!(reads.load(Ordering::Relaxed), 3);
        assert!(lock(&library.subscribed).iter().eq(wanted));
    };
    let mut wanted: BTreeSet<String> = (0..1000).map(|number| format!("toy://{number:04}")).collect();
    watch(&wanted).await;
    wanted.retain(|uri| uri.ends_with('7'));
    wanted.insert("toy://more".to_owned());
    watch(&wanted).await;
}

/// A modern server that takes a while to agree to a subscription. A call says whether it has.
#[derive(Debug, Default)]
struct Publisher {
    has_agreed: AtomicBool,
    client: Mutex<Option<LocalClient>>,
}

impl LocalServer for Publisher {
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a> {
        Box::pin(async move {
            match method {
                "server/discover" => {
                    let capabilities = json!({"tools": {}, "resources": {"subscribe": true}});
                    Ok(raw(&json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})))
                }
                "tools/list" => Ok(raw(&json!({"tools": []}))),
                "resources/list" => Ok(raw(&json!({"resources": []}))),
                "resources/templates/list" => Ok(raw(&json!({"resourceTemplates": []}))),
                "tools/call" => Ok(raw(&json!({"hasAgreed": self.has_agreed.load(Ordering::Relaxed)}))),
                "subscriptions/listen" => {
                    tokio::time::sleep(AGREEING / 2).await;
                    let wanted = Fields::of_optional(params.as_deref()).object("notifications").unwrap_or_default();
                    self.has_agreed.store(true, Ordering::Relaxed);
                    let client = lock(&self.client).clone().expect("it is connected");
                    let agreed = raw(&json!({"notifications": wanted}));
                    client.notify("notifications/subscriptions/acknowledged", Some(agreed));
                    std::future::pending().await
                }
                _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
            }
        })
    }

    fn another(&self) -> Option<Arc<dyn LocalServer>> {
        Some(Arc::new(Self::default()))
    }

    fn connected(&self, client: LocalClient) {
        *lock(&self.client) = Some(client);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_used_once_the_server_has_agreed_to_its_subscriptions() {
    let mut config = ServerConfig::new("s", TransportConfig::Local(Arc::new(Publisher::default())));
    config.connections.mode = ConnectionMode::Own;
    let (fleet, _notices) = Fleet::start(vec![config], Vec::new());
    let server = &fleet.servers()[0];
    reach(server, "ready").await;
    let life = watch::Sender::new(ClientLife::default());
    let client = own_client(Era::Modern, &life);
    fleet.add_subscription("s", client.owner, Era::Modern, "toy://text");
    let answer = call_for(server, &client).await.expect("an answer");
    assert_eq!(answer.get(), r#"{"hasAgreed":true}"#);
}

/// A server of both eras whose legacy connections end where the client can be asked for samples.
#[derive(Debug, Default)]
struct Fragile {
    client: Mutex<Option<LocalClient>>,
}

impl LocalServer for Fragile {
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a> {
        let params = Fields::of_optional(params.as_deref());
        Box::pin(async move {
            let capabilities = json!({"tools": {}});
            match method {
                "server/discover" => {
                    Ok(raw(&json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})))
                }
                "initialize" if params.object("capabilities").is_some_and(|declared| declared.has("sampling")) => {
                    lock(&self.client).take().expect("it is connected").close("it has ended");
                    std::future::pending().await
                }
                "initialize" => Ok(raw(&json!({"protocolVersion": "2025-11-25", "capabilities": capabilities}))),
                "tools/list" => Ok(raw(&json!({"tools": []}))),
                "tools/call" => Ok(raw(&json!({"content": []}))),
                _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
            }
        })
    }

    fn another(&self) -> Option<Arc<dyn LocalServer>> {
        Some(Arc::new(Self::default()))
    }

    fn connected(&self, client: LocalClient) {
        *lock(&self.client) = Some(client);
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_client_declares_does_not_end_the_legacy_protocol_for_others() {
    let mut config = ServerConfig::new("s", TransportConfig::Local(Arc::new(Fragile::default())));
    config.connections.mode = ConnectionMode::Own;
    let (fleet, _notices) = Fleet::start(vec![config], Vec::new());
    let server = &fleet.servers()[0];
    reach(server, "ready").await;
    let life = watch::Sender::new(ClientLife::default());
    let able = CallClient { capabilities: raw(&json!({"sampling": {}})), ..own_client(Era::Legacy, &life) };
    let error = call_for(server, &able).await.expect_err("its connection ends").to_string();
    assert!(error.contains("it has ended"), "{error}");
    let other = CallClient { owner: Some(ClientOwner::Session(2)), ..own_client(Era::Legacy, &life) };
    call_for(server, &other).await.expect("an answer");
    let eras: Vec<Era> = server.pool.open(|_| true).iter().map(|(_, hello)| hello.era).collect();
    assert_eq!(eras, [Era::Legacy]);
}

/// A legacy server whose calls take until they are let go.
#[derive(Debug)]
struct Slow {
    gate: Arc<Semaphore>,
    running: watch::Sender<u64>,
    connections: Arc<AtomicU64>,
}

impl LocalServer for Slow {
    fn answer<'a>(&'a self, method: &'a str, _: Option<Raw>) -> AnswerFuture<'a> {
        Box::pin(async move {
            match method {
                "initialize" => {
                    self.connections.fetch_add(1, Ordering::Relaxed);
                    Ok(raw(&json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})))
                }
                "tools/list" => Ok(raw(&json!({"tools": []}))),
                "tools/call" => {
                    self.running.send_modify(|running| *running += 1);
                    let _ = self.gate.acquire().await.map(|permit| permit.forget());
                    self.running.send_modify(|running| *running -= 1);
                    Ok(raw(&json!({"content": []})))
                }
                _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
            }
        })
    }

    fn another(&self) -> Option<Arc<dyn LocalServer>> {
        let (gate, connections) = (Arc::clone(&self.gate), Arc::clone(&self.connections));
        Some(Arc::new(Self { gate, running: self.running.clone(), connections }))
    }
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_of_a_modern_client_use_its_one_connection() {
    let (gate, connections) = (Arc::new(Semaphore::new(0)), Arc::<AtomicU64>::default());
    let running = watch::Sender::new(0);
    let slow = Slow { gate: Arc::clone(&gate), running: running.clone(), connections: Arc::clone(&connections) };
    let mut config = ServerConfig::new("s", TransportConfig::Local(Arc::new(slow)));
    config.connections.mode = ConnectionMode::Own;
    let (fleet, _notices) = Fleet::start(vec![config], Vec::new());
    let server = Arc::clone(&fleet.servers()[0]);
    reach(&server, "ready").await;
    let life = watch::Sender::new(ClientLife::default());
    let able = CallClient { capabilities: raw(&json!({"elicitation": {}})), ..own_client(Era::Modern, &life) };
    let begin = || {
        let (server, client) = (Arc::clone(&server), able.clone());
        tokio::spawn(async move { call_for(&server, &client).await })
    };
    let reach_running = async |count: u64| {
        running.subscribe().wait_for(|running| *running == count).await.expect("it lives");
    };
    let both = [begin(), begin()];
    reach_running(2).await;
    gate.add_permits(2);
    for call in both {
        call.await.expect("no panic").expect("an answer");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 2, "the catalog connection, and its own one");
    // A question would not say which of two calls it is about.
    server.asks.record();
    let both = [begin(), begin()];
    reach_running(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*running.borrow(), 1, "the other one waits");
    gate.add_permits(2);
    for call in both {
        call.await.expect("no panic").expect("an answer");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 2);
    let (first, second) = (begin(), begin());
    reach_running(1).await;
    let given_up = async {
        tokio::select! {
            ended = first => ended,
            ended = second => ended,
        }
    };
    let error = given_up.await.expect("no panic").expect_err("it is not its turn").to_string();
    assert!(error.contains("no response") || error.contains("another call"), "{error}");
}
