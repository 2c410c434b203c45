//! A running `pegboard serve`, for the checks that need one.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Timeout for the start of all servers, also on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running gateway with the configured servers, which is stopped when it is dropped.
pub(crate) struct RunningGateway {
    child: Child,
    pub(crate) url: String,
}

impl RunningGateway {
    /// Starts the binary of `profile` (`debug` or `release`) and waits until it listens.
    pub(crate) fn start(profile: &str, name: &str, config: &Value) -> Result<Self, String> {
        let file = Path::new("target").join(format!("{name}.json"));
        fs::write(&file, config.to_string()).map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
        let program = Path::new("target").join(profile).join("pegboard");
        let mut command = Command::new(&program);
        // The state of one run must not affect the next, unless a benchmark measures that.
        if config["pegboard"]["stateFolder"].is_null() {
            command.args(["serve", "--state", "none"]);
        } else {
            command.arg("serve");
        }
        let mut child = command
            .arg(&file)
            .args(["--listen", "127.0.0.1:0", "--log-level", "warn"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start `{}`: {error}", program.display()))?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("no pipe")?).lines();
        let mut log = String::new();
        let url = loop {
            match lines.next() {
                Some(Ok(line)) => match line.split_once("listening on ") {
                    Some((_, url)) => break url.trim().to_owned(),
                    None => log.push_str(&format!("{line}\n")),
                },
                _ => return Err(format!("the gateway did not listen:\n{log}")),
            }
        };
        // Standard error must be read, or the gateway would block.
        thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, url })
    }

    /// Waits until no server of the gateway is starting any more: a client that comes earlier may be
    /// shown less, and told of the rest while it checks something else.
    pub(crate) fn wait_until_started(&self) -> Result<(), String> {
        self.wait_until_started_within(START_TIMEOUT)
    }

    /// The same for many servers, which need longer.
    pub(crate) fn wait_until_started_within(&self, limit: Duration) -> Result<(), String> {
        let host = self.url.trim_start_matches("http://").trim_end_matches("/mcp");
        let began = Instant::now();
        while began.elapsed() < limit {
            let readiness = readiness(host).map_err(|error| format!("cannot ask `{host}` for readiness: {error}"))?;
            if readiness["starting"] == 0 {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the servers of the gateway are still starting after {} s", limit.as_secs()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// Returns the body of `/ready`.
fn readiness(host: &str) -> io::Result<Value> {
    let mut stream = TcpStream::connect(host)?;
    write!(stream, "GET /ready HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(io::Error::from)
}

/// Returns the path of the fixture server.
pub(crate) fn fixture(profile: &str) -> Result<PathBuf, String> {
    let path = Path::new("target").join(profile).join("pegboard-fixture");
    path.canonicalize().map_err(|error| format!("no `{}`: {error}", path.display()))
}
