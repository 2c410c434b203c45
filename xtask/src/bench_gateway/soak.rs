//! Soak test: memory under load for a long time.

use std::{
    fs,
    ops::Range,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{QUERIES, Session, expect_result, resident_mb};
use crate::{gateway, say};

/// Requests a second, of all clients together.
const RATE: u32 = 200;

/// Clients at a time.
pub(super) const CLIENTS: u32 = 4;

/// Number of requests after which a client is replaced by another one.
const STAY: u64 = 500;

/// Maximum growth of memory between the first and the last quarter: allocators return memory late.
const SLACK: f64 = 0.05;

/// How many seconds the activity that is kept in memory may take to reach its limit.
const WARM_UP: usize = 300;

/// [`SLACK`] of a run that ends before that.
const WARM_UP_SLACK: f64 = 0.1;

/// How many times longer a busy machine may take for the same requests.
const MAX_DELAY: u32 = 5;

/// Sends as many requests of every kind as `seconds` have room for, and looks at the memory
/// meanwhile.
pub(crate) fn run(profile: &str, seconds: u64) -> Result<(), String> {
    let fixture = gateway::fixture(profile)?;
    let state = std::path::absolute("target/bench-soak").map_err(|error| error.to_string())?;
    let _ = fs::remove_dir_all(&state);
    let config = config(&fixture, &state);
    let gateway = gateway::RunningGateway::start(profile, "bench-soak", &config)?;
    gateway.wait_until_started()?;
    let wanted = u64::from(RATE) * seconds;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (outcome, memory) = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (url, stop, done) = (&gateway.url, &stop, &done);
                scope.spawn(move || work(url, number, stop, done))
            })
            .collect();
        let time = Duration::from_secs(seconds) * MAX_DELAY;
        let enough =
            || done.load(Ordering::Relaxed) >= wanted || clients.iter().any(thread::ScopedJoinHandle::is_finished);
        let memory = watch(gateway.pid(), &done, time, enough);
        stop.store(true, Ordering::Relaxed);
        let ended: Result<Vec<()>, String> =
            clients.into_iter().map(|client| client.join().map_err(|_| "a client panicked".to_owned())?).collect();
        (ended, memory)
    });
    outcome?;
    judge(&memory, wanted)
}

/// Returns a configuration with what the requests of [`work`] need.
pub(super) fn config(fixture: &Path, state: &Path) -> Value {
    json!({
        "mcpServers": {
            "one": {"command": fixture, "args": ["--extras", "--tools", "300"]},
            "two": {"command": fixture, "args": ["--extras"]},
        },
        "pegboard": {
            "exposure": "always", "dialect": "bridge", "prefix": "always", "stateFolder": state,
            // So that conversations are forgotten as well as begun.
            "maxSessions": 50,
            "clients": {"explicit": "explicit", "everything": "passthrough"},
        },
    })
}

/// The requests that were answered and the memory of the gateway, once a second until `is_enough`,
/// at most for `time`.
fn watch(pid: u32, done: &AtomicU64, time: Duration, is_enough: impl Fn() -> bool) -> Vec<(u64, f64)> {
    let began = Instant::now();
    let mut memory = Vec::new();
    while began.elapsed() < time && !is_enough() {
        thread::sleep(Duration::from_secs(1));
        memory.push((done.load(Ordering::Relaxed), resident_mb(pid)));
    }
    memory
}

/// One client after the other, each at its share of the rate.
pub(super) fn work(url: &str, number: u32, stop: &AtomicBool, done: &AtomicU64) -> Result<(), String> {
    let names = ["somebody", "explicit", "everything", "somebody else"];
    let pause = Duration::from_secs(1) * CLIENTS / RATE;
    let mut due = Instant::now();
    let mut round = u64::from(number);
    let mut session = Session::begin_as(url, names[number as usize % names.len()])?;
    while !stop.load(Ordering::Relaxed) {
        due += pause;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        request(&session, names[number as usize % names.len()], round)?;
        round += 1;
        done.fetch_add(1, Ordering::Relaxed);
        if round.is_multiple_of(STAY) {
            session = Session::begin_as(url, names[number as usize % names.len()])?;
        }
    }
    Ok(())
}

/// One request of many kinds.
fn request(session: &Session, client: &str, round: u64) -> Result<(), String> {
    let call = |tool: &str, arguments: serde_json::Value| {
        session.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    };
    let query = QUERIES[round as usize % QUERIES.len()];
    let message = json!({"message": "x".repeat(round as usize % 2000)});
    let answer = match (client, round % 8) {
        (_, 0) => return session.request("tools/list", &json!({})).map(drop),
        (_, 1) => return session.request("resources/list", &json!({})).map(drop),
        // A list that changes now and then: always the same tools, so that it is not the
        // catalog that grows.
        ("everything", 2) if round.is_multiple_of(200) => {
            call("one___change_tools", json!({"name": format!("new_{}", round / 200 % 5)}))?
        }
        ("everything", _) => call("two___echo", message)?,
        ("explicit", 2) => call("search_tools", json!({"query": query.split(' ').next()}))?,
        ("explicit", 3) => {
            let name = format!("one___tool_{:05}", round % 300);
            call("add_tool", json!({"tool_names": [name]}))?
        }
        ("explicit", _) => call("two___echo", message)?,
        (_, 2 | 3) => call("search_tools", json!({"query": query}))?,
        (_, 4) => return call("call_tool", json!({"name": "no_such_tool", "arguments": {}})).map(drop),
        _ => call("call_tool", json!({"name": "two___echo", "arguments": message}))?,
    };
    expect_result(&answer)
}

/// Compares the second quarter of the requests with the last. Not of the time: on a busy machine
/// fewer requests are answered in a second, and memory grows with the first ones.
fn judge(memory: &[(u64, f64)], wanted: u64) -> Result<(), String> {
    let done = memory.last().map_or(0, |(done, _)| *done);
    let early = middle(memory, done / 4..done / 2);
    let late = middle(memory, done - done / 4..done + 1);
    let (Some(early), Some(late)) = (early, late) else {
        return Err(format!("{done} requests are too few to tell anything"));
    };
    let most = memory.iter().map(|(_, mb)| *mb).fold(0.0, f64::max);
    say(&format!(
        "{done} requests in {} s: {early:.1} MB in their second quarter, {late:.1} MB in the last, {most:.1} MB at most",
        memory.len()
    ));
    let slack = if memory.len() < WARM_UP { WARM_UP_SLACK } else { SLACK };
    if late > early * (1.0 + slack) + 1.0 {
        return Err(format!("memory grows: from {early:.1} MB to {late:.1} MB"));
    }
    if done < wanted {
        // Slower machines prove less, and are not at fault.
        say(&format!("fewer requests than {wanted}: the machine is busy"));
    }
    Ok(())
}

/// The median of the memory while so many requests were answered.
fn middle(memory: &[(u64, f64)], requests: Range<u64>) -> Option<f64> {
    let mut sorted: Vec<f64> = memory.iter().filter(|(done, _)| requests.contains(done)).map(|(_, mb)| *mb).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_are_of_requests() {
        // Growth while the first quarter is answered, however long that takes.
        let slow_start = [(10, 50.0), (20, 60.0), (24, 70.0), (40, 80.0), (60, 80.0), (80, 80.5), (100, 81.0)];
        assert_eq!(judge(&slow_start, 100), Ok(()));
        let grows = [(25, 50.0), (30, 60.0), (60, 70.0), (80, 80.0), (100, 90.0)];
        assert!(judge(&grows, 100).is_err_and(|error| error.starts_with("memory grows: from 60.0 MB to 90.0 MB")));
        assert!(judge(&[(0, 50.0)], 100).is_err());
        assert!(judge(&[], 100).is_err());
    }
}
