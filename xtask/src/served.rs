//! A running `pegboard serve`, for the checks that need one.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use serde_json::Value;

/// The gateway in front of the configured servers; ended when dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) url: String,
}

impl Served {
    /// Starts the binary of `profile` (`debug` or `release`) and waits until it listens.
    pub(crate) fn start(profile: &str, name: &str, config: &Value) -> Result<Self, String> {
        let file = Path::new("target").join(format!("{name}.json"));
        fs::write(&file, config.to_string()).map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
        let program = Path::new("target").join(profile).join("pegboard");
        let mut command = Command::new(&program);
        // Nothing of one run is to help the next, unless that is what it is about.
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
        // Somebody must read on, or the gateway would wait.
        thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, url })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// The fixture server of the test kit.
pub(crate) fn fixture(profile: &str) -> Result<PathBuf, String> {
    let path = Path::new("target").join(profile).join("pegboard-fixture");
    path.canonicalize().map_err(|error| format!("no `{}`: {error}", path.display()))
}
