//! Malicious commands, in every sandbox that this machine has.
//!
//! `cargo xtask peers` installs bubblewrap; a sandbox that is not there is reported as skipped.

mod attributes;
mod ends;
mod escapes;
mod limits;
mod runs;
mod system_calls;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use pegboard_agent::{
    Program,
    shell::{ApiAccess, CommandOutput, Sandbox, SandboxKind, SandboxPolicy, Shell, ShellError, ShellSettings},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pegboard");

/// Timeout of every wait, longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every kind of sandbox.
const KINDS: [&str; 3] = ["bubblewrap", "namespaces", "landlock"];

/// The variable that marks the processes of a test.
const MARK: &str = "PEGBOARD_TEST_MARK";

/// A shell in one kind of sandbox, with a folder around its working folder.
struct Place {
    kind: &'static str,
    shell: Arc<Shell>,
    /// The folder outside the sandbox; the working folder is `work` in it.
    outside: PathBuf,
    mark: String,
}

impl Place {
    fn new(
        test: &str,
        kind: &'static str,
        adjust: &dyn Fn(&mut ShellSettings),
        api: Option<ApiAccess>,
    ) -> Option<Self> {
        let mark = format!("{test}-{kind}-{}", std::process::id());
        let outside = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shell-{test}-{kind}"));
        let _ = fs::remove_dir_all(&outside);
        fs::create_dir_all(&outside).expect("a temporary folder");
        let mut settings = settings(kind, &outside.join("work"), &mark)?;
        adjust(&mut settings);
        let shell = match Shell::new(settings, Some(Program::at(PROGRAM)), api) {
            Err(error @ ShellError::NoSandbox { .. }) => {
                skipped(kind, &error.to_string());
                return None;
            }
            shell => shell.expect("a shell"),
        };
        let is_wanted = match shell.sandbox() {
            Sandbox::Bubblewrap { .. } => kind == "bubblewrap",
            Sandbox::Namespaces { .. } => kind == "namespaces",
            Sandbox::Landlock { .. } => kind == "landlock",
            _ => kind == "none",
        };
        assert!(is_wanted, "{kind}: {}", shell.sandbox());
        Some(Self { kind, shell: Arc::new(shell), outside, mark })
    }

    async fn run(&self, command: &str) -> CommandOutput {
        self.shell.run(command, None).await.expect("it runs")
    }

    /// Returns the version of Landlock, where that is the sandbox.
    fn landlock(&self) -> Option<u32> {
        match self.shell.sandbox() {
            Sandbox::Landlock { abi } => Some(*abi),
            _ => None,
        }
    }

    fn work(&self) -> PathBuf {
        self.outside.join("work")
    }

    /// Writes a file that no command may see.
    fn secret(&self) -> PathBuf {
        let path = self.outside.join("secret.txt");
        fs::write(&path, "the-secret").expect("a file");
        path
    }

    /// Checks that nothing of the last command is left, and that the next one works.
    async fn assert_clean(&self) {
        assert_eq!(self.left(), Vec::<String>::new(), "{}: processes are left", self.kind);
        let again = self.run("echo again").await;
        assert_eq!((again.exit_code, again.stdout.as_str()), (0, "again\n"), "{}: {again:?}", self.kind);
    }

    /// Waits until [`left`](Self::left) is empty.
    async fn wait_until_empty(&self) {
        let start = Instant::now();
        while !self.left().is_empty() {
            assert!(start.elapsed() < PATIENCE, "{}: processes are left: {:?}", self.kind, self.left());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a process of a command is found. A process that is just executing another
    /// program has no mark for a moment.
    async fn wait_until_running(&self) {
        let start = Instant::now();
        while self.left().is_empty() {
            assert!(start.elapsed() < PATIENCE, "{}: nothing runs", self.kind);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a command has created this file in the working folder.
    async fn wait_for_file(&self, file: &str) {
        let start = Instant::now();
        while !self.work().join(file).exists() {
            assert!(start.elapsed() < PATIENCE, "{}: `{file}` is not there", self.kind);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the process that supervises the command.
    fn watcher(&self) -> Option<u32> {
        let read = |pid: u32, name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let holds = |pid: u32, text: &str| String::from_utf8_lossy(&read(pid, "environ")).contains(text);
        let all = fs::read_dir("/proc").ok()?.flatten();
        let pids: Vec<u32> = all.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect();
        let mut pid = pids.into_iter().find(|pid| holds(*pid, &format!("{MARK}={}", self.mark)))?;
        while !holds(pid, "PEGBOARD_CONFINE_ROLE=watch") {
            let stat = String::from_utf8_lossy(&read(pid, "stat")).into_owned();
            pid = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        }
        Some(pid)
    }

    /// Returns the command lines of all processes of the test: they have its mark, or name its
    /// folder as bubblewrap does.
    fn left(&self) -> Vec<String> {
        let folder = self.work().to_string_lossy().into_owned();
        let processes = fs::read_dir("/proc").expect("a table of processes").flatten();
        let ours = processes.filter_map(|process| {
            process.file_name().to_str()?.parse::<u32>().ok()?;
            let read = |name| fs::read(process.path().join(name)).unwrap_or_default();
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace('\0', " ");
            let (environment, line) = (text(read("environ")), text(read("cmdline")));
            let is_ours = environment.contains(&format!("{MARK}={}", self.mark)) || line.contains(&folder);
            is_ours.then_some(line)
        });
        ours.collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.outside);
    }
}

/// Runs a test in every available sandbox.
async fn in_each_sandbox(test: &str, adjust: impl Fn(&mut ShellSettings), body: impl AsyncFn(&Place)) {
    for kind in KINDS {
        if let Some(place) = Place::new(test, kind, &adjust, None) {
            body(&place).await;
            place.assert_clean().await;
        }
    }
}

/// Returns the settings for one kind of sandbox; `None` if it is not installed.
pub(super) fn settings(kind: &'static str, work: &Path, mark: &str) -> Option<ShellSettings> {
    let mut settings = ShellSettings::new(work);
    settings.timeout = Duration::from_secs(60);
    settings.environment = vec![(MARK.to_owned(), mark.to_owned())];
    match kind {
        "bubblewrap" => {
            settings.sandboxes = vec![SandboxKind::Bubblewrap];
            settings.bubblewrap = Some(bubblewrap().or_else(|| {
                skipped(kind, "it is not installed; `cargo xtask peers` does");
                None
            })?);
        }
        "namespaces" => settings.sandboxes = vec![SandboxKind::Namespaces],
        "landlock" => settings.sandboxes = vec![SandboxKind::Landlock],
        _ => settings.policy = SandboxPolicy::Off,
    }
    Some(settings)
}

/// Returns the bubblewrap that is named, installed for the tests, or on the search path.
fn bubblewrap() -> Option<PathBuf> {
    let named = std::env::var_os("PEGBOARD_BWRAP").map(PathBuf::from);
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/debian/usr/bin/bwrap");
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|folder| folder.join("bwrap"));
    named.into_iter().chain([installed]).chain(found).find(|path| path.is_file())
}

#[expect(clippy::print_stderr, reason = "the developer must see what was left out")]
fn skipped(kind: &str, reason: &str) {
    eprintln!("SKIPPED: {kind}: {reason}");
}
