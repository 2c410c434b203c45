//! The effect of slow and hanging servers on calls of another server.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::json;

use super::{Session, at, expect_result};
use crate::{gateway, say};

/// Maximum additional latency of the slowest calls, in milliseconds.
const GOAL_MS: f64 = 5.0;

/// Sessions that keep the slow server busy.
const SLOW: usize = 8;

/// Calls one server with and without a slow one and one that never answers behind the gateway.
pub(super) fn run(fixture: &Path) -> Result<(), String> {
    let server = json!({"command": fixture, "args": ["--extras"]});
    let servers = json!({"fast": server});
    let config = json!({"mcpServers": servers, "pegboard": {"exposure": "never", "prefix": "always"}});
    let alone = {
        let gateway = gateway::RunningGateway::start("release", "bench-alone", &config)?;
        Session::begin(&gateway.url)?.calls("fast___echo", &json!({"message": "hello"}))?
    };
    let hung = json!({"command": "sleep", "args": ["1000"]});
    let servers = json!({"fast": server, "slow": server, "hung": hung});
    let config =
        json!({"mcpServers": servers, "pegboard": {"exposure": "never", "prefix": "always", "startupWait": "1s"}});
    let gateway = gateway::RunningGateway::start("release", "bench-neighbours", &config)?;
    let session = Session::begin(&gateway.url)?;
    let is_over = AtomicBool::new(false);
    let beside = thread::scope(|scope| {
        for _ in 0..SLOW {
            scope.spawn(|| {
                let Ok(session) = Session::begin(&gateway.url) else { return };
                let params = json!({"name": "slow___slow", "arguments": {"ms": 20}});
                while !is_over.load(Ordering::Relaxed) {
                    let called = session.request("tools/call", &params).and_then(|answer| expect_result(&answer));
                    if called.is_err() {
                        return;
                    }
                }
            });
        }
        let times = session.calls("fast___echo", &json!({"message": "hello"}));
        is_over.store(true, Ordering::Relaxed);
        times
    })?;
    let (alone, beside) = (at(&alone, 0.99) / 1e3, at(&beside, 0.99) / 1e3);
    say(&format!(
        "calls beside a slow and a hung server: p99 {beside:.2} ms, alone {alone:.2} ms (goal: at most {GOAL_MS} ms more)"
    ));
    Ok(())
}
