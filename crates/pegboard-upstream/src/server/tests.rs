//! Servers inside this process, on a clock that jumps to whatever is waited for.

use std::sync::atomic::{AtomicBool, AtomicU64};

use serde_json::json;

use super::*;
use crate::{
    breaker::BreakerSettings,
    fleet::Fleet,
    json::raw,
    rpc::RpcError,
    transport::local::{Answering, LocalServer},
};

/// A server that can be made to say nothing any more.
#[derive(Debug, Default)]
struct Puppet {
    is_stuck: AtomicBool,
    /// How often it was greeted.
    starts: AtomicU64,
    calls: AtomicU64,
}

impl Puppet {
    fn stick(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Ordering::Relaxed);
    }

    fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl LocalServer for Puppet {
    fn answer<'a>(&'a self, method: &'a str, _params: Option<Raw>) -> Answering<'a> {
        Box::pin(async move {
            match method {
                "server/discover" => {
                    self.starts.fetch_add(1, Ordering::Relaxed);
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
                _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
            }
        })
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
        assert_eq!(call(server).await, "no answer within 10 s");
    }
    let began = Instant::now();
    let left = "its last 2 calls failed (no answer within 10 s), so it is left alone; try again in 30 s";
    assert_eq!(call(server).await, left);
    assert_eq!((began.elapsed(), puppet.calls()), (Duration::ZERO, 7), "it was not asked");
    let report = server.report();
    assert_eq!((report.breaker.state.as_str(), report.breaker.retry_in_ms), ("open", Some(30_000)));
    assert_eq!(report.calls, CallCounts { running: 0, total: 8, failed: 3 });
    assert_eq!(report.last_error.as_deref(), Some(left));
    assert_eq!(report.state, "ready");

    tokio::time::advance(settings.pause).await;
    assert_eq!(server.report().breaker.state, "half-open");
    assert_eq!(call(server).await, "no answer within 10 s", "one may try");
    assert!(call(server).await.starts_with("its last 3 calls failed"));
    tokio::time::advance(settings.pause).await;
    puppet.stick(false);
    assert_eq!(call(server).await, refused);
    assert_eq!(call(server).await, refused);
    assert_eq!(server.report().breaker, BreakerReport { state: "closed".to_owned(), ..BreakerReport::default() });
}

#[tokio::test(start_paused = true)]
async fn a_try_that_nobody_waits_for_is_no_try() {
    let settings = BreakerSettings { failures: 1, ..BreakerSettings::default() };
    let (fleet, puppet) = fleet(|config| config.breaker = Some(settings));
    let server = &fleet.servers()[0];
    puppet.stick(true);
    assert_eq!(call(server).await, "no answer within 10 s");
    tokio::time::advance(settings.pause).await;
    let trying = tokio::time::timeout(Duration::from_secs(1), call(server)).await;
    assert!(trying.is_err(), "given up after a second");
    puppet.stick(false);
    assert!(!call(server).await.contains("left alone"));
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
    fleet.listed(TIMEOUT).await;
    assert_eq!(call(server).await, "the server is not connected: it is disabled");
    assert_eq!((server.report().state.as_str(), puppet.starts()), ("disabled", 0));
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
