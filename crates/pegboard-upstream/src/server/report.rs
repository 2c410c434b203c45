//! The status of a server.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use pegboard_core::locks::lock;
use pegboard_mcp::era::Era;
use serde::{Deserialize, Serialize};
use tokio::{sync::Notify, time::Instant};

use super::{State, Upstream};
use crate::{connection::CallError, redact::Redactor};

/// The status of a server at one moment. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Report {
    /// The name that it is configured under.
    pub name: String,
    /// What it is doing, as [`State::as_str`] says it.
    pub state: String,
    /// Since when, from 1970 on.
    pub since: u64,
    /// For how long.
    pub since_ms: u64,
    /// Why it does not run.
    pub reason: Option<String>,
    /// How long until it is tried again.
    pub retry_in_ms: Option<u64>,
    /// Its process, if it is a program of ours that runs. Where that cannot be told from
    /// outside (anywhere but on Linux), the process that supervises it.
    pub pid: Option<u32>,
    /// `legacy` or `modern`, as it was last found.
    pub era: Option<String>,
    /// The version of the protocol that was agreed on.
    pub protocol: Option<String>,
    /// How many tools it offers.
    pub tools: usize,
    /// How many tools of it are held back until they are approved.
    pub held: usize,
    /// How many prompts.
    pub prompts: usize,
    /// How many resources.
    pub resources: usize,
    /// How many resource templates.
    pub templates: usize,
    /// Whether that is what was kept of its last run, and it was not asked yet.
    pub is_from_manifest: bool,
    /// Its calls.
    pub calls: CallCounts,
    /// Whether they are refused.
    pub breaker: BreakerReport,
    /// Its connections beside the one that its lists come from.
    pub connections: ConnectionCounts,
    /// What last went wrong with it.
    pub last_error: Option<String>,
}

/// The calls of a server since the gateway was started, also before a restart of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct CallCounts {
    /// Those that it is busy with, and those that wait for their turn.
    pub running: u64,
    /// Those that wait for their turn.
    pub waiting: u64,
    /// All of them.
    pub total: u64,
    /// Those that it did not answer. What it refuses is an answer.
    pub failed: u64,
}

/// The connections of a server beside the one that its lists come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionCounts {
    /// `auto`, `shared` or `own`, as it is configured.
    pub mode: String,
    /// Whether the server has asked a client anything.
    pub asks: bool,
    /// Those that clients share.
    pub shared: usize,
    /// Those that belong to single clients.
    pub own: usize,
}

/// What a server's circuit breaker does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BreakerReport {
    /// `closed` when calls pass, `open` when they are refused, `half-open` when one may try.
    pub state: String,
    /// Failures in a row.
    pub failures: u32,
    /// How long calls are refused.
    pub retry_in_ms: Option<u64>,
}

/// Counters and the last errors of a server.
#[derive(Debug)]
pub(super) struct ServerStats {
    pub(super) running: AtomicU64,
    /// Notified when the last running call has ended.
    idle: Notify,
    total: AtomicU64,
    failed: AtomicU64,
    /// Number of failures, and the last reason.
    failures: Mutex<(u64, String)>,
    /// 0: none.
    pid: AtomicU32,
    last_error: Mutex<Option<String>>,
    /// When it began to do what it is doing.
    since: Mutex<(SystemTime, Instant)>,
}

impl Default for ServerStats {
    fn default() -> Self {
        Self {
            running: AtomicU64::new(0),
            idle: Notify::new(),
            total: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            failures: Mutex::default(),
            pid: AtomicU32::new(0),
            last_error: Mutex::default(),
            since: Mutex::new((SystemTime::now(), Instant::now())),
        }
    }
}

impl ServerStats {
    /// Records a new state.
    pub(super) fn record_state(&self, state: &State) {
        *lock(&self.since) = (SystemTime::now(), Instant::now());
        if let State::Failed { reason, .. } = state {
            self.record_failure(reason);
        }
    }

    /// Records that the server did not start, or ended unexpectedly.
    pub(super) fn record_failure(&self, reason: &str) {
        *lock(&self.last_error) = Some(reason.to_owned());
        let mut failures = lock(&self.failures);
        *failures = (failures.0 + 1, reason.to_owned());
    }

    /// Adds the calls of a predecessor.
    pub(super) fn continue_from(&self, old: &Self) {
        self.total.fetch_add(old.total.load(Ordering::Relaxed), Ordering::Relaxed);
        self.failed.fetch_add(old.failed.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(super) fn failures(&self) -> u64 {
        lock(&self.failures).0
    }

    /// Returns the last reason why it did not start or ended.
    pub(super) fn last_failure(&self) -> String {
        lock(&self.failures).1.clone()
    }

    pub(super) fn begin_call(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the end of a call.
    pub(super) fn end_call(&self) {
        if self.running.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.idle.notify_waiters();
        }
    }

    /// Waits until no call runs.
    pub(super) async fn wait_until_idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.running.load(Ordering::Relaxed) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Records the outcome of a call.
    pub(super) fn record_call<T>(&self, outcome: &Result<T, CallError>, redactor: &Redactor) {
        match outcome {
            Ok(_) | Err(CallError::Rpc(_)) => {}
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                *lock(&self.last_error) = Some(redactor.redact_owned(crate::with_causes(error)));
            }
        }
    }

    pub(super) fn set_pid(&self, pid: Option<u32>) {
        self.pid.store(pid.unwrap_or(0), Ordering::Relaxed);
    }
}

impl Upstream {
    /// Returns the number of its connections beside the one that its lists come from.
    pub fn connection_counts(&self) -> ConnectionCounts {
        let (shared, own) = self.pool.counts();
        let mode = self.config.connections.mode.as_str().to_owned();
        ConnectionCounts { mode, asks: self.asks.has_asked(), shared, own }
    }

    /// Returns the status.
    pub fn report(&self) -> Report {
        let (state, lists, hello) = (self.state(), self.lists(), self.hello());
        let (since, entered) = *lock(&self.stats.since);
        let since_1970 = since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (reason, retry_in) = match &state {
            State::Failed { reason, retry_in } => {
                (Some(reason.clone()), retry_in.map(|retry_in| retry_in.saturating_sub(entered.elapsed())))
            }
            _ => (None, None),
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let pid = self.stats.pid.load(Ordering::Relaxed);
        let era = |era| match era {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        };
        let (breaker, failures, refused_for) = self.breaker.state_at(Instant::now().into_std());
        Report {
            name: self.name().to_owned(),
            state: state.as_str().to_owned(),
            since: millis(since_1970),
            since_ms: millis(entered.elapsed()),
            reason,
            retry_in_ms: retry_in.map(millis),
            pid: (pid != 0).then_some(pid),
            era: hello.as_ref().map(|hello| era(hello.era).to_owned()),
            protocol: hello.as_ref().map(|hello| hello.version.clone()),
            tools: lists.tools.len(),
            held: lists.held.len(),
            prompts: lists.prompts.len(),
            resources: lists.resources.len(),
            templates: lists.templates.len(),
            is_from_manifest: self.is_from_manifest(),
            calls: CallCounts {
                running: count(&self.stats.running),
                waiting: self.turns.waiting() as u64,
                total: count(&self.stats.total),
                failed: count(&self.stats.failed),
            },
            breaker: BreakerReport {
                state: breaker.as_str().to_owned(),
                failures,
                retry_in_ms: refused_for.map(millis),
            },
            connections: self.connection_counts(),
            last_error: lock(&self.stats.last_error).clone(),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
