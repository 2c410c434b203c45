//! What the LLM API proxy adds to the first byte of an answer, and what a stream occupies.

mod client;
mod litellm;
mod provider;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::{client::Connection, provider::Provider};
use crate::{
    bench_gateway::{at, resident_mb},
    peers, say,
};

/// The tools of real servers, one per line, if they are there.
const FLEET: &str = "../shared/data/fleet/tools.jsonl";

/// How many tools there are without them.
const TOOLS: usize = 2529;

/// How much is measured.
pub(crate) struct Scale {
    profile: &'static str,
    requests: usize,
    /// Requests with all tools, each of some megabytes.
    large_requests: usize,
    streams: usize,
    has_litellm: bool,
    /// Whether a missed goal is an error. Without goals, only streams of several times the memory are.
    has_goals: bool,
}

impl Scale {
    /// The measurement of the release build.
    pub(crate) const FULL: Self = Self {
        profile: "release",
        requests: 1000,
        large_requests: 100,
        streams: 1000,
        has_litellm: true,
        has_goals: true,
    };

    /// Whether it works at all, with the debug build.
    pub(crate) const SHORT: Self =
        Self { profile: "debug", requests: 20, large_requests: 3, streams: 100, has_litellm: false, has_goals: false };
}

/// A way to the provider, with what it may add to the first byte, in milliseconds.
struct Way {
    name: &'static str,
    mode: &'static str,
    tools: usize,
    goal_ms: f64,
}

const WAYS: [Way; 4] = [
    Way { name: "pass, 1 tool", mode: "pass", tools: 1, goal_ms: 0.5 },
    Way { name: "pass, 200 tools", mode: "pass", tools: 200, goal_ms: 0.5 },
    Way { name: "defer, 200 tools", mode: "defer", tools: 200, goal_ms: 2.0 },
    Way { name: "defer, all tools", mode: "defer", tools: usize::MAX, goal_ms: 15.0 },
];

/// Threads that open streams.
const WORKERS: usize = 16;

/// The most memory of one stream, in kilobytes.
const STREAM_KB: f64 = 100.0;

/// The least share of the tokens of all definitions that the provider must be spared.
const SAVED: f64 = 0.97;

/// Measures the proxy against a provider of this program. A missed goal is an error once everything is measured.
pub(crate) fn run(scale: &Scale) -> Result<(), String> {
    let tools = catalog()?;
    let provider = Provider::start()?;
    say(&format!(
        "{:<24} {:>10} {:>10} {:>10} {:>10} {:>8}",
        "time to the first byte", "request kB", "direct µs", "proxy µs", "added ms", "goal ms"
    ));
    let mut passed = 0.0;
    let mut missed = Vec::new();
    for way in &WAYS {
        let proxy = RunningProxy::start(scale.profile, way.mode, provider.address())?;
        let body = request(&tools[..way.tools.min(tools.len())]);
        let count = if body.len() > 1 << 20 { scale.large_requests } else { scale.requests };
        let (direct, through) =
            alternate(&target(provider.address(), "/v1"), &target(&proxy.address, "/openai/v1"), &body, count)?;
        let (direct, through) = (at(&direct, 0.5), at(&through, 0.5));
        let added = (through - direct) / 1000.0;
        say(&format!(
            "{:<24} {:>10.0} {direct:>10.0} {through:>10.0} {added:>10.2} {:>8}",
            way.name,
            body.len() as f64 / 1000.0,
            way.goal_ms
        ));
        if way.tools == 1 {
            passed = added;
        }
        if scale.has_goals && added > way.goal_ms {
            missed.push(format!("{}: {added:.2} ms added, the goal is {}", way.name, way.goal_ms));
        }
        if way.mode == "defer" {
            let saved = say_saved(&proxy.address)?;
            if scale.has_goals && way.tools > tools.len() && saved < SAVED {
                let (saved, goal) = (100.0 * saved, 100.0 * SAVED);
                missed.push(format!("{}: {saved:.2} % fewer tokens, the goal is {goal} %", way.name));
            }
        }
    }
    let each = streams(scale, &provider, &request(&tools[..200.min(tools.len())]))?;
    let most = if scale.has_goals { STREAM_KB } else { 4.0 * STREAM_KB };
    if each > most {
        missed.push(format!("{each:.0} kB of memory for a stream, the limit is {most:.0}"));
    }
    if scale.has_litellm {
        peers::install_bench_proxy()?;
        compare(scale, &provider, &request(&tools[..1]), passed)?;
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("goals missed: {}", missed.join("; "))) }
}

/// Where requests go: an address, and the path of the wire there.
pub(super) struct Target {
    pub(super) address: String,
    pub(super) path: String,
}

fn target(address: &str, prefix: &str) -> Target {
    Target { address: address.to_owned(), path: format!("{prefix}/chat/completions") }
}

/// Times requests to both targets in turn, so that what else happens on the machine meets both.
fn alternate(direct: &Target, through: &Target, body: &str, count: usize) -> Result<(Vec<f64>, Vec<f64>), String> {
    let mut connections = [Connection::open(direct)?, Connection::open(through)?];
    let mut times = [Vec::new(), Vec::new()];
    for turn in 0..count + count / 10 + 1 {
        for (connection, times) in connections.iter_mut().zip(&mut times) {
            let took = connection.first_byte(body)?;
            // The first requests fill caches.
            if turn > count / 10 {
                times.push(took);
            }
        }
    }
    let [mut direct, mut through] = times;
    direct.sort_by(f64::total_cmp);
    through.sort_by(f64::total_cmp);
    Ok((direct, through))
}

/// Says how many tokens of definitions the provider was spared, and returns their share.
fn say_saved(address: &str) -> Result<f64, String> {
    let failed = |error: std::io::Error| format!("no numbers of the proxy: {error}");
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    write!(stream, "GET /proxy/status HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let numbers: Value = serde_json::from_str(body).map_err(|error| format!("no numbers of the proxy: {error}"))?;
    let number = |key: &str| numbers["openai"][key].as_f64().unwrap_or_default();
    let (all, sent) = (number("definitionTokensIn"), number("definitionTokensSent"));
    let (each, requests) = (all / number("requests").max(1.0), number("requests"));
    let saved = 1.0 - sent / all.max(1.0);
    say(&format!(
        "  {each:.0} tokens of definitions in a request, {:.0} sent: {:.2} % fewer; {requests} requests",
        sent / requests.max(1.0),
        100.0 * saved
    ));
    Ok(saved)
}

/// Measures what open streams occupy, and returns the kilobytes of each.
fn streams(scale: &Scale, provider: &Provider, body: &str) -> Result<f64, String> {
    let proxy = RunningProxy::start(scale.profile, "defer", provider.address())?;
    let through = target(&proxy.address, "/openai/v1");
    // The tools are known before, as all streams share them, and so is what the allocator keeps of requests.
    for mut connection in open_streams(&through, body, 8 * WORKERS)? {
        connection.finish()?;
    }
    let before = resident_mb(proxy.child.id());
    provider.hold(true);
    let began = Instant::now();
    let open = open_streams(&through, body, scale.streams)?;
    let took = began.elapsed();
    let during = resident_mb(proxy.child.id());
    provider.hold(false);
    for mut connection in open {
        connection.finish()?;
    }
    let each = (during - before) * 1024.0 / scale.streams as f64;
    say(&format!(
        "{} streams at the same time, opened in {:.1} s: {each:.0} kB of memory each (goal: at most {STREAM_KB:.0}), \
         {before:.0} MB before and {during:.0} MB with them",
        scale.streams,
        took.as_secs_f64()
    ));
    Ok(each)
}

/// Opens streams on many threads; each has had its first byte.
fn open_streams(through: &Target, body: &str, count: usize) -> Result<Vec<Connection>, String> {
    let open = |first: usize| -> Result<Vec<Connection>, String> {
        (first..count)
            .step_by(WORKERS)
            .map(|_| {
                let mut connection = Connection::open(through)?;
                connection.begin(body)?;
                Ok(connection)
            })
            .collect()
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|first| scope.spawn(move || open(first))).collect();
        let opened = workers.into_iter().map(|worker| worker.join().map_err(|_| "a client panicked".to_owned())?);
        Ok(opened.collect::<Result<Vec<_>, String>>()?.into_iter().flatten().collect())
    })
}

/// Measures another proxy for the same request, and says how much more it adds than ours in `pass`.
fn compare(scale: &Scale, provider: &Provider, body: &str, ours_ms: f64) -> Result<(), String> {
    let other = litellm::Server::start(provider.address())?;
    let through = target(&other.address, "/v1");
    let (direct, through) = alternate(&target(provider.address(), "/v1"), &through, body, scale.requests / 5)?;
    let added = (at(&through, 0.5) - at(&direct, 0.5)) / 1000.0;
    say(&format!(
        "LiteLLM {} for the same request: {added:.2} ms added, {:.0} times as much; resident {:.0} MB",
        litellm::VERSION,
        added / ours_ms.max(0.001),
        other.resident_mb()
    ));
    Ok(())
}

/// A request with these tools, streamed.
fn request(tools: &[Value]) -> String {
    let messages = json!([{"role": "user", "content": "Please list the open issues of the repository."}]);
    json!({"model": "gpt-5.4", "stream": true, "messages": messages, "tools": tools}).to_string()
}

/// Returns the tools in the form of Chat Completions: of the fleet, or made up.
fn catalog() -> Result<Vec<Value>, String> {
    let function = |tool: &Value| {
        let schema = tool.get("inputSchema").or(tool.get("input_schema")).cloned();
        json!({"type": "function", "function": {
            "name": tool["name"].as_str().unwrap_or_default(),
            "description": tool["description"],
            "parameters": schema.unwrap_or_else(|| json!({"type": "object"})),
        }})
    };
    let Ok(text) = fs::read_to_string(FLEET) else {
        say(&format!("no `{FLEET}`: measured on made-up tools"));
        return Ok((0..TOOLS).map(|number| function(&made_up(number))).collect());
    };
    let mut names = std::collections::BTreeSet::new();
    let mut tools = Vec::new();
    for line in text.lines() {
        let mut tool: Value = serde_json::from_str(line).map_err(|error| format!("`{FLEET}`: {error}"))?;
        // The same name on two servers is two tools.
        let mut name = tool["name"].as_str().unwrap_or_default().to_owned();
        while !names.insert(name.clone()) {
            name.push_str("_2");
        }
        tool["name"] = name.into();
        tools.push(function(&tool));
    }
    Ok(tools)
}

/// A tool with a definition of about the usual length.
fn made_up(number: usize) -> Value {
    let properties: serde_json::Map<String, Value> = (0..8)
        .map(|field| {
            let words = format!("The value of field {field} for the operation with the number {number}, as a text");
            (format!("field_{field}"), json!({"type": "string", "description": words}))
        })
        .collect();
    json!({
        "name": format!("operation_{number}"),
        "description": format!("Performs operation {number} on the records of department {}.", number % 40),
        "inputSchema": {"type": "object", "properties": properties},
    })
}

/// A running `pegboard proxy`, which is stopped when it is dropped.
struct RunningProxy {
    child: Child,
    address: String,
}

impl RunningProxy {
    fn start(profile: &str, mode: &str, provider: &str) -> Result<Self, String> {
        let program = Path::new("target").join(profile).join("pegboard");
        let upstream = format!("openai=http://{provider}/v1");
        // The user's own configuration must not change the measurement.
        let config = Path::new("target").join("bench-proxy.json");
        fs::write(&config, r#"{"mcpServers": {}}"#).map_err(|error| error.to_string())?;
        let mut child = Command::new(&program)
            .args(["proxy", "--listen", "127.0.0.1:0", "--state", "none", "--log-level", "warn", "--config"])
            .arg(&config)
            .args(["--mode", mode, "--upstream", &upstream])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start `{}`: {error}", program.display()))?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("no pipe")?).lines();
        let address = lines
            .find_map(|line| {
                Some(line.ok()?.split_once("listening on http://")?.1.split_whitespace().next()?.to_owned())
            })
            .ok_or("the proxy does not listen")?;
        // Standard error must be read, or the proxy would block.
        thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address })
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// Ends a child process.
fn stop(child: &mut Child) {
    if child.try_wait().is_ok_and(|status| status.is_some()) {
        return;
    }
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}
