//! The effect of attacks on other callers from the same address, and on memory.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{at, resident_mb};
use crate::{gateway, say};

const ADMIN: &str = "the-token-of-the-admin";
const GUEST: &str = "the-token-of-the-guest";

/// The longest that a request of another caller may be delayed, in milliseconds.
const MAX_DELAY_MS: f64 = 100.0;

/// What refused subscriptions may leave in memory, in megabytes.
const MAX_RETAINED_MB: f64 = 1.0;

/// Requests that are measured during an attack.
const REQUESTS: usize = 300;

/// Attacks the gateway of `profile` in every way there is here.
pub(crate) fn run(profile: &str) -> Result<(), String> {
    let config = json!({
        "mcpServers": {"one": {"command": gateway::fixture(profile)?, "args": ["--extras"]}},
        "pegboard": {"exposure": "never", "tokens": [
            {"name": "admin", "token": ADMIN},
            {"name": "guest", "token": GUEST, "selection": {"servers": ["one"]}},
        ]},
    });
    let start = |name: &str| gateway::RunningGateway::start(profile, name, &config);
    let quiet = start("attack-quiet")?;
    let undisturbed = delays(&quiet, "undisturbed")?;
    drop(quiet);
    let mut found = vec![undisturbed];
    for (name, attack) in [
        ("1,024 streams of one token", streams as fn(&str) -> io::Result<Vec<TcpStream>>),
        ("1,200 idle connections", |host| (0..1200).map(|_| TcpStream::connect(host)).collect()),
        ("1,200 half requests", half_requests),
    ] {
        let gateway = start("attack")?;
        let open = attack(host(&gateway)).map_err(|error| format!("{name}: {error}"))?;
        found.push(delays(&gateway, name)?);
        drop(open);
    }
    let retained = memory(&start("attack-memory")?)?;
    say(&format!("50 subscriptions to URIs of 3.9 MB: {retained:.2} MB retained"));
    let slowest = found.into_iter().fold(0.0_f64, f64::max);
    if slowest > MAX_DELAY_MS {
        return Err(format!("a request was delayed by {slowest:.1} ms, over the limit of {MAX_DELAY_MS}"));
    }
    if retained > MAX_RETAINED_MB {
        return Err(format!("{retained:.2} MB are retained, over the limit of {MAX_RETAINED_MB}"));
    }
    Ok(())
}

fn host(gateway: &gateway::RunningGateway) -> &str {
    gateway.url.trim_start_matches("http://").trim_end_matches("/mcp")
}

/// Returns the longest time of requests of the admin, each on its own connection.
fn delays(gateway: &gateway::RunningGateway, name: &str) -> Result<f64, String> {
    let mut times = Vec::new();
    for _ in 0..REQUESTS {
        let began = Instant::now();
        let (status, _) = post(host(gateway), ADMIN, "", &ping()).map_err(|error| format!("{name}: {error}"))?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        if status != 200 {
            return Err(format!("{name}: the admin got {status}"));
        }
    }
    times.sort_by(f64::total_cmp);
    let longest = times.last().copied().unwrap_or_default();
    say(&format!("{name}: median {:.2} ms, 99 % {:.2} ms, longest {longest:.2} ms", at(&times, 0.5), at(&times, 0.99)));
    Ok(longest)
}

fn ping() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
}

fn write_request(stream: &mut TcpStream, token: &str, headers: &str, body: &str) -> io::Result<()> {
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends one request on its own connection and returns the status and the whole response.
fn post(host: &str, token: &str, headers: &str, body: &Value) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write_request(&mut stream, token, &format!("{headers}connection: close\r\n"), &body.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, answer))
}

/// Opens many event streams of the guest; most are rejected.
fn streams(host: &str) -> io::Result<Vec<TcpStream>> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "guest", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}).to_string();
    let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\n";
    let mut open = Vec::new();
    for _ in 0..1024 {
        let mut stream = TcpStream::connect(host)?;
        write_request(&mut stream, GUEST, headers, &body)?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        open.push(stream);
    }
    Ok(open)
}

fn half_requests(host: &str) -> io::Result<Vec<TcpStream>> {
    let half = |_| {
        let mut stream = TcpStream::connect(host)?;
        // The gateway may have closed it for a newer one already.
        let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: local");
        Ok(stream)
    };
    (0..1200).map(half).collect()
}

/// Megabytes that subscriptions to long URIs leave behind, after the same number of requests of
/// that size that keep nothing: buffers that the allocator holds on to are not retained data.
fn memory(gateway: &gateway::RunningGateway) -> Result<f64, String> {
    let failed = |error: io::Error| error.to_string();
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "guest", "version": "1"}
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let (_, hello) = post(host(gateway), GUEST, "", &body).map_err(failed)?;
    let session = hello.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).ok_or("no session")?;
    let headers = format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
    let send = |method: &str| {
        for number in 0..50 {
            let uri = format!("test://{number}/{}", "u".repeat(3_900_000));
            let body = json!({"jsonrpc": "2.0", "id": number, "method": method, "params": {"uri": uri}});
            let (status, answer) = post(host(gateway), GUEST, &headers, &body)?;
            if status != 200 || !answer.contains("\"error\"") {
                return Err(io::Error::other(format!("`{method}` was answered {status}")));
            }
        }
        Ok(())
    };
    send("unknown/method").map_err(failed)?;
    let before = resident_mb(gateway.pid());
    send("resources/subscribe").map_err(failed)?;
    Ok(resident_mb(gateway.pid()) - before)
}
