//! What the gateway costs: a call beside a direct one, a search, memory, a start.

pub(crate) mod attack;
pub(crate) mod consoles;
mod isolation;
pub(crate) mod real_servers;
mod sessions;
pub(crate) mod soak;
mod startup;
pub(crate) mod throughput;

use std::{
    fs,
    io::{BufRead, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
    time::Instant,
};

use serde_json::{Value, json};

use crate::{gateway, pipe::Pipe, say};

/// Calls of each kind.
const CALLS: usize = 2000;

/// Calls that are made first and not counted.
const WARM_UP: usize = 200;

/// Where the tools of real servers are, if they are.
const FLEET: &str = "../shared/data/fleet/tools.jsonl";

/// Measures the release build. `fleet` names a catalog for the search, if there is one.
pub(crate) fn run(fleet: Option<&str>) -> Result<(), String> {
    let fixture = gateway::fixture("release")?;
    let direct = direct_calls(&fixture)?;
    let mut rows = vec![("direct call on a pipe", direct.clone())];
    {
        let config = json!({
            "mcpServers": {"fixture": {"command": fixture, "args": ["--extras"]}},
            "pegboard": {"exposure": "never"},
        });
        let gateway = gateway::RunningGateway::start("release", "bench-call", &config)?;
        let session = Session::begin(&gateway.url)?;
        rows.push(("the same through the gateway", session.calls("echo", &json!({"message": "hello"}))?));
    }
    rows.push(("the same through the gateway on a pipe", piped_calls(&fixture)?));
    let (search, cpu, resident, tools) = searches(&fixture, fleet.unwrap_or(FLEET))?;
    rows.push(("a search", search));
    say(&format!("{:<42} {:>9} {:>9} {:>9}", "µs", "p50", "p90", "p99"));
    for (name, times) in &rows {
        say(&format!("{name:<42} {:>9.0} {:>9.0} {:>9.0}", at(times, 0.5), at(times, 0.9), at(times, 0.99)));
    }
    say(&format!(
        "added to a direct call: {:.0} µs at p50 (goal: at most 300)",
        at(&rows[1].1, 0.5) - at(&direct, 0.5)
    ));
    say(&format!("a search over {tools} tools: {cpu:.2} ms of processor time (goal: at most 1)"));
    say(&format!("resident with {tools} tools: {resident:.1} MB (goal: at most 40)"));
    let servers = json!({"fixture": {"command": fixture, "args": catalog(fleet.unwrap_or(FLEET))?}});
    throughput::task(None)?;
    isolation::run(&fixture)?;
    sessions::run(&servers)?;
    startup::run(&fixture, fleet.unwrap_or(FLEET))
}

/// The value below which a share of the sorted times lies.
pub(crate) fn at(times: &[f64], share: f64) -> f64 {
    times.get(((times.len() - 1) as f64 * share) as usize).copied().unwrap_or_default()
}

/// Times `work` and sorts what it took, in microseconds.
fn time(mut work: impl FnMut() -> Result<(), String>) -> Result<Vec<f64>, String> {
    for _ in 0..WARM_UP {
        work()?;
    }
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        work()?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn echo_params() -> Value {
    json!({"name": "echo", "arguments": {"message": "hello"}})
}

fn direct_calls(fixture: &Path) -> Result<Vec<f64>, String> {
    let mut pipe = Pipe::start(Command::new(fixture).arg("--extras"))?;
    time(|| expect_result(&pipe.request("tools/call", &echo_params())?))
}

fn piped_calls(fixture: &Path) -> Result<Vec<f64>, String> {
    let config = json!({
        "mcpServers": {"fixture": {"command": fixture, "args": ["--extras"]}},
        "pegboard": {"exposure": "never"},
    });
    let file = "target/bench-pipe.json";
    fs::write(file, config.to_string()).map_err(|error| error.to_string())?;
    let mut pipe =
        Pipe::start(Command::new("target/release/pegboard").args(["serve", file, "--stdio", "--state", "none"]))?;
    pipe.request("tools/list", &json!({}))?;
    time(|| expect_result(&pipe.request("tools/call", &echo_params())?))
}

pub(crate) fn expect_result(message: &Value) -> Result<(), String> {
    if message["result"]["content"].is_array() && message["result"]["isError"] != true {
        return Ok(());
    }
    Err(format!("not a result: {message}"))
}

/// A conversation over one connection that stays open. By hand, so that the client costs
/// as little as possible; it reads no streams, and says so.
struct Session {
    stream: std::cell::RefCell<BufReader<TcpStream>>,
    host: String,
    id: String,
}

impl Session {
    fn begin(url: &str) -> Result<Self, String> {
        Self::begin_as(url, "bench")
    }

    /// Begins as a client of this name, and lists its tools.
    fn begin_as(url: &str, client: &str) -> Result<Self, String> {
        let session = Self::open_as(url, client)?;
        session.request("tools/list", &json!({}))?;
        Ok(session)
    }

    /// Begins as a client of this name.
    fn open_as(url: &str, client: &str) -> Result<Self, String> {
        let host = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let stream = TcpStream::connect(&host).map_err(|error| format!("cannot connect: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut session = Self { stream: BufReader::new(stream).into(), host, id: String::new() };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": client, "version": "1"}
        });
        let (headers, _) =
            session.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))?;
        let line = headers.lines().find(|line| line.to_lowercase().starts_with("mcp-session-id:"));
        session.id = line.and_then(|line| line.split_once(": ")).ok_or("no session")?.1.trim().to_owned();
        Ok(session)
    }

    fn post(&self, body: &Value) -> Result<(String, String), String> {
        let body = body.to_string();
        let session = if self.id.is_empty() { String::new() } else { format!("mcp-session-id: {}\r\n", self.id) };
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             accept: application/json\r\n{session}content-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        let mut stream = self.stream.borrow_mut();
        let failed = |error: std::io::Error| format!("the connection broke: {error}");
        stream.get_mut().write_all(request.as_bytes()).map_err(failed)?;
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") {
            if stream.read_line(&mut headers).map_err(failed)? == 0 {
                return Err(format!("the connection was closed: {headers}"));
            }
        }
        let length =
            headers.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.trim().parse().ok());
        let length: usize = length.ok_or_else(|| format!("an answer without a length: {headers}"))?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).map_err(failed)?;
        Ok((headers, String::from_utf8_lossy(&body).into_owned()))
    }

    fn request(&self, method: &str, params: &Value) -> Result<Value, String> {
        let (_, body) = self.post(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))?;
        serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"))
    }

    fn calls(&self, tool: &str, arguments: &Value) -> Result<Vec<f64>, String> {
        let params = json!({"name": tool, "arguments": arguments});
        time(|| expect_result(&self.request("tools/call", &params)?))
    }
}

/// Queries with one to four words, some of them misspelt.
const QUERIES: [&str; 8] = [
    "create issue",
    "send a message to a channel",
    "list pull requests",
    "query metrics",
    "upload file",
    "get weather forecast",
    "crete databse table",
    "spreadsheet rows",
];

/// Searches among many tools: times, processor time of one in milliseconds, resident
/// memory in megabytes, and the number of tools.
fn searches(fixture: &Path, fleet: &str) -> Result<(Vec<f64>, f64, f64, u64), String> {
    let args = catalog(fleet)?;
    let config = json!({
        "mcpServers": {"fixture": {"command": fixture, "args": args}},
        "pegboard": {"dialect": "bridge"},
    });
    let gateway = gateway::RunningGateway::start("release", "bench-search", &config)?;
    let session = Session::begin(&gateway.url)?;
    let mut next = 0;
    let before = processor_ms(gateway.pid());
    let times = time(|| {
        next += 1;
        let query = QUERIES[next % QUERIES.len()];
        let params = json!({"name": "search_tools", "arguments": {"query": query}});
        expect_result(&session.request("tools/call", &params)?)
    })?;
    let cpu = (processor_ms(gateway.pid()) - before) / (CALLS + WARM_UP) as f64;
    let health = {
        let mut stream = TcpStream::connect(&session.host).map_err(|error| error.to_string())?;
        let request = format!("GET /health HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", session.host);
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        answer.split("\r\n\r\n").nth(1).and_then(|body| serde_json::from_str::<Value>(body).ok()).unwrap_or_default()
    };
    Ok((times, cpu, resident_mb(gateway.pid()), health["tools"].as_u64().unwrap_or_default()))
}

/// What lets the fixture offer many tools.
fn catalog(fleet: &str) -> Result<Value, String> {
    if Path::new(fleet).exists() {
        let fleet = Path::new(fleet).canonicalize().map_err(|error| error.to_string())?;
        return Ok(json!(["--catalog", fleet]));
    }
    say(&format!("no `{fleet}`: measured on synthetic tools"));
    Ok(json!(["--tools", "2500"]))
}

/// Processor time of a process so far, in milliseconds.
fn processor_ms(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default();
    // Linux counts in hundredths of a second, whatever the kernel's own clock is.
    (ticks(11) + ticks(12)) * 10.0
}

pub(crate) fn resident_mb(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kilobytes: f64 = line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or_default();
    kilobytes / 1024.0
}
