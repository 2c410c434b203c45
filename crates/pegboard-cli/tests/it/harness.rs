//! Runs the binary and renders its output for snapshots.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A folder for each test, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        // Left over from a run that was killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.0.join(name), content).expect("a temporary file");
        self
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns `pegboard` with this folder as its home and an otherwise empty environment.
    pub(crate) fn isolated(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pegboard"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("HOME", &self.0).env("PATH", path).stdin(Stdio::null());
        command
    }

    /// Runs `pegboard` here, without a terminal, colours or settings from outside.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.run_with_input(args, b"")
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pegboard"))
            .args(args)
            .current_dir(&self.0)
            .env_remove("PEGBOARD_RANKER")
            .env_remove("PEGBOARD_CONFIG")
            .env_remove("PEGBOARD_FORMAT")
            .env_remove("PEGBOARD_CACHE")
            .env("XDG_CONFIG_HOME", self.0.join("settings"))
            .env("XDG_CACHE_HOME", self.0.join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // The binary may end without reading everything.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        child.wait_with_output().expect("the binary ends")
    }

    /// Returns exit code, standard output and standard error, with timings blanked out.
    pub(crate) fn show(&self, args: &[&str]) -> String {
        show(&self.run(args))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn show(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stdout = without_times(&text(&output.stdout));
    format!("exit {}\n--- stdout\n{stdout}--- stderr\n{}", output.status.code().unwrap_or(-1), text(&output.stderr))
}

/// Returns the JSON on standard output.
pub(crate) fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

/// Blanks out timings such as `"took_us": 17` and `17 µs`, which differ from run to run.
fn without_times(text: &str) -> String {
    let mut shown = String::new();
    for line in text.lines() {
        let is_time = ["\"took_us\"", "\"p50_us\"", "\"p99_us\"", "\"build_ms\"", "\"update_us\""];
        if let Some(key) = is_time.iter().find(|key| line.contains(*key)) {
            let indent = &line[..line.len() - line.trim_start().len()];
            let comma = if line.ends_with(',') { "," } else { "" };
            shown.push_str(&format!("{indent}{key}: [time]{comma}"));
        } else if let Some((before, after)) = line.split_once(" µs (") {
            let number = before.rfind(' ').map_or(0, |at| at + 1);
            shown.push_str(&format!("{}[time] µs ({after}", &before[..number]));
        } else {
            shown.push_str(line);
        }
        shown.push('\n');
    }
    shown
}
