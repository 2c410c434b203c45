//! The throughput of the gateway: requests per second of each kind, as a share of `/health` in the
//! same run.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::processor_ms;
use crate::{gateway, say};

/// The tools of the demo.
const DEMO: &str = "crates/pegboard-demo/catalog/tools.jsonl";

/// What the README searches for.
const QUERIES: [&str; 1] = ["overdue invoices"];

/// Connections that ask at the same time.
const CONNECTIONS: usize = 16;

/// How long each kind is measured, and how long it runs before that.
const TIME: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_secs(1);

/// A kind of request, and the share of `/health` that it should reach, in percent.
struct RequestKind {
    name: &'static str,
    goal: Option<f64>,
    /// One for each query.
    requests: Vec<Vec<u8>>,
}

/// What was measured of a kind.
struct Rate {
    per_second: f64,
    /// Processor time of the gateway for one request.
    cpu_us: f64,
}

/// Measures the gateway alone, in front of the tools of this catalog.
pub(crate) fn task(catalog: Option<&str>) -> Result<(), String> {
    let (command, args) = (gateway::fixture("release")?, super::catalog(catalog.unwrap_or(DEMO))?);
    run(&json!({"fixture": {"command": command, "args": args}}))
}

/// Measures the gateway in front of these servers.
pub(super) fn run(servers: &Value) -> Result<(), String> {
    let config = json!({
        "mcpServers": servers,
        "pegboard": {"clients": {"exposing": "gateway"}},
    });
    let gateway = gateway::RunningGateway::start("release", "bench-throughput", &config)?;
    gateway.wait_until_started()?;
    let host = gateway.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let kinds = [
        RequestKind { name: "/health", goal: None, requests: vec![get(&host, "/health")] },
        RequestKind { name: "search_tools, no session", goal: Some(40.0), requests: stateless(&host) },
        RequestKind {
            name: "search_tools, one session",
            goal: Some(40.0),
            requests: in_session(&gateway.url, "bench", "search_tools")?,
        },
        RequestKind {
            name: "search_available_tools, no session",
            goal: Some(12.0),
            requests: calls(&host, "", "search_available_tools"),
        },
        RequestKind {
            name: "search_available_tools, one session",
            goal: Some(12.0),
            requests: in_session(&gateway.url, "exposing", "search_available_tools")?,
        },
    ];
    let _pinned = Pinned::to_one_core();
    say(&format!("{:<36} {:>10} {:>10} {:>10} {:>7}", "throughput", "per second", "of /health", "cpu µs", "goal"));
    let mut health = None;
    for kind in &kinds {
        let rate = measure(&host, gateway.pid(), &kind.requests)?;
        let share = 100.0 * rate.per_second / *health.get_or_insert(rate.per_second);
        let goal = kind.goal.map_or_else(String::new, |goal| format!("{goal} %"));
        say(&format!("{:<36} {:>10.0} {share:>8.1} % {:>10.1} {goal:>7}", kind.name, rate.per_second, rate.cpu_us));
    }
    Ok(())
}

fn get(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").into_bytes()
}

fn post(host: &str, headers: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\naccept: application/json\r\n\
         {headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A search for each of the queries.
fn calls(host: &str, headers: &str, tool: &str) -> Vec<Vec<u8>> {
    let call = |query: &&str| {
        let params = json!({"name": tool, "arguments": {"query": query}});
        post(host, headers, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    };
    QUERIES.iter().map(call).collect()
}

/// The searches of clients of 2026-07-28.
fn stateless(host: &str) -> Vec<Vec<u8>> {
    let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: search_tools\r\n";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = |query: &&str| {
        let params = json!({"name": "search_tools", "arguments": {"query": query}, "_meta": meta});
        post(host, headers, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    };
    QUERIES.iter().map(call).collect()
}

/// The searches of one session that all connections share.
fn in_session(url: &str, client: &str, tool: &str) -> Result<Vec<Vec<u8>>, String> {
    let session = super::Session::begin_as(url, client)?;
    let headers = format!("mcp-session-id: {}\r\nmcp-protocol-version: 2025-11-25\r\n", session.id);
    Ok(calls(&session.host, &headers, tool))
}

fn measure(host: &str, pid: u32, requests: &[Vec<u8>]) -> Result<Rate, String> {
    load(host, requests, WARM_UP)?;
    let (began, cpu) = (Instant::now(), processor_ms(pid));
    let answered = load(host, requests, TIME)?;
    let cpu = processor_ms(pid) - cpu;
    Ok(Rate { per_second: answered as f64 / began.elapsed().as_secs_f64(), cpu_us: cpu * 1e3 / answered as f64 })
}

/// Asks on all connections for a while; how many answers came.
fn load(host: &str, requests: &[Vec<u8>], time: Duration) -> Result<usize, String> {
    let end = Instant::now() + time;
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..CONNECTIONS).map(|first| scope.spawn(move || ask(host, requests, first, end))).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a client panicked".to_owned())?).sum()
    })
}

fn ask(host: &str, requests: &[Vec<u8>], first: usize, end: Instant) -> Result<usize, String> {
    let failed = |error: std::io::Error| format!("the connection broke: {error}");
    let mut stream = TcpStream::connect(host).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let mut answers = BufReader::with_capacity(64 << 10, stream.try_clone().map_err(failed)?);
    let mut count = 0;
    while Instant::now() < end {
        let request = &requests[(first + count) % requests.len()];
        stream.write_all(request).map_err(failed)?;
        read_answer(&mut answers)?;
        count += 1;
    }
    Ok(count)
}

/// Reads an answer to its end, which must be 200 and no error.
fn read_answer(stream: &mut BufReader<TcpStream>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the connection broke: {error}");
    let (mut line, mut length, mut is_first) = (String::new(), 0, true);
    loop {
        line.clear();
        if stream.read_line(&mut line).map_err(failed)? == 0 {
            return Err("the connection was closed".to_owned());
        }
        if is_first && !line.starts_with("HTTP/1.1 200") {
            return Err(format!("not an answer: {line}"));
        }
        is_first = false;
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().map_err(|_| format!("a length: {line}"))?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).map_err(failed)?;
    let is_refused = body.windows(8).take(80).any(|part| part == b"\"error\":");
    if is_refused { Err(format!("refused: {}", String::from_utf8_lossy(&body))) } else { Ok(()) }
}

/// Keeps this program on one core, so that the gateway has the others.
struct Pinned;

impl Pinned {
    fn to_one_core() -> Self {
        if !bind("0") {
            say("the client cannot be kept on one core");
        }
        Self
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        // The affinity from before is not known; all cores is the usual one.
        bind(&format!("0-{}", cores.max(256)));
    }
}

fn bind(cores: &str) -> bool {
    let mut command = Command::new("taskset");
    command.args(["-c", "-p", cores, &std::process::id().to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
