//! The watcher, the part of the program outside the sandbox: it starts the command, watches it and
//! removes what it leaves.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use pegboard_process::processes::{self, ProcessTable};
use rustix::process::{Pid, Signal, kill_process, setpriority_process, setsid};

use super::{
    cleanup,
    file_watch::FileWatch,
    inside::READY,
    output::HeadAndTail,
    process_watch,
    spec::{CommandSpec, Report},
    start::InsideCommand,
};
use crate::shell::command_output::ExceededLimit;

/// Maximum size of an order.
const ORDER_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum length of the line that reports that the sandbox is set up.
const READY_BYTES: u64 = 64;

/// How long to wait for output after all processes have ended.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// The exit code of a command that was killed.
const KILLED: u8 = 128 + 9;

/// The priority while watching.
const WATCHING: i32 = -5;

/// The priority while ending processes: the highest.
const ENDING: i32 = -20;

enum WatchEvent {
    Ended(u8),
    Limit(ExceededLimit),
    /// The parent process has exited.
    Orphaned,
}

pub(super) fn run() -> ExitCode {
    let mut order = Vec::new();
    let read = io::stdin().lock().take(ORDER_BYTES).read_until(b'\n', &mut order);
    let spec: CommandSpec = match read.map(|_| serde_json::from_slice(&order)) {
        Ok(Ok(spec)) => spec,
        Ok(Err(error)) => return report(&failed(format!("cannot read the command specification: {error}"))),
        Err(error) => return report(&failed(format!("cannot read the command specification: {error}"))),
    };
    let outcome = match ProcessTable::open() {
        Ok(table) => run_to_end(&spec, table).unwrap_or_else(failed),
        Err(error) => failed(format!("cannot read the process table: {error}")),
    };
    report(&outcome)
}

fn failed(reason: String) -> Report {
    Report::Failed { reason }
}

fn report(report: &Report) -> ExitCode {
    let mut line = serde_json::to_vec(report).unwrap_or_default();
    line.push(b'\n');
    // The parent process may have exited.
    let _ = io::stdout().write_all(&line).and_then(|()| io::stdout().flush());
    ExitCode::SUCCESS
}

/// Runs the command and removes what it leaves.
fn run_to_end(spec: &CommandSpec, mut table: ProcessTable) -> Result<Report, String> {
    let mut result = confine(spec, &mut table);
    // Processes may have been started before the failure.
    if result.is_err() {
        result = end_all(&mut table).and(result);
    }
    // The parent process handles what cannot be removed.
    let _ = cleanup::remove(&spec.private);
    result
}

fn end_all(table: &mut ProcessTable) -> Result<(), String> {
    table.end_all(Duration::ZERO).map_err(|error| format!("cannot verify that all processes have ended: {error}"))
}

/// Runs the command to its end, or until it exceeds a limit.
fn confine(spec: &CommandSpec, table: &mut ProcessTable) -> Result<Report, String> {
    let (tell, news) = mpsc::channel();
    // Leave the parent's session: signals to ours must not reach it.
    let _ = setsid();
    raise_priority(WATCHING);
    processes::adopt_orphans();
    let start = InsideCommand::new(spec)?;
    let files = FileWatch::new(&start.folders, spec);
    // On this thread, which keeps running: bubblewrap ends when its parent thread does.
    let mut child = spawn(&start)?;
    let output = OutputStreams::follow(&mut child, spec.limits.output_bytes)?;
    let order = serde_json::to_vec(&start.order).map_err(|error| error.to_string())?;
    let (order_pipe, child_pid) = (child.stdin.take(), i32::try_from(child.id()).ok().and_then(Pid::from_raw));
    start_watching(child, files, spec, &tell)?;
    // A child that ends before it has read everything reports the reason on standard error.
    let _ = order_pipe.map(|mut pipe| pipe.write_all(&order));
    let ended = news.recv_timeout(Duration::from_millis(spec.limits.timeout_ms));
    if !matches!(ended, Ok(WatchEvent::Ended(_))) {
        // With bubblewrap this ends all processes at once, before they can multiply.
        let _ = child_pid.map(|pid| kill_process(pid, Signal::KILL));
        raise_priority(ENDING);
    }
    end_all(table)?;
    let (exit_code, ended_by) = match ended {
        Ok(WatchEvent::Ended(code)) => (code, None),
        Ok(WatchEvent::Limit(ending)) => (KILLED, Some(ending)),
        Ok(WatchEvent::Orphaned) => return Err("the parent process exited".to_owned()),
        Err(_) => (KILLED, Some(ExceededLimit::Timeout)),
    };
    let (ready, stdout, stderr) = output.finish();
    match ready {
        Some((landlock, is_filtered)) => Ok(Report::Ran { exit_code, stdout, stderr, ended_by, landlock, is_filtered }),
        None => Err(match ended_by {
            Some(ending) => format!("the sandbox was not set up: stopped by {ending}"),
            None => reason(&stderr, exit_code),
        }),
    }
}

/// Raises our priority above that of the command, if allowed: ending many processes must not wait
/// for them.
fn raise_priority(priority: i32) {
    let _ = setpriority_process(None, priority);
    // For the scheduler a session counts as one group, and a command can have many.
    let _ = fs::write("/proc/self/autogroup", priority.to_string());
}

/// Returns the error message of the sandbox.
fn reason(stderr: &str, code: u8) -> String {
    match stderr.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => line.trim().to_owned(),
        None => format!("exit code {code}"),
    }
}

fn spawn(start: &InsideCommand) -> Result<Child, String> {
    let (program, args) = start.words.split_first().ok_or("no program to start")?;
    let mut command = Command::new(program);
    command.args(args).env_clear().current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| format!("cannot start `{}`: {error}", program.to_string_lossy()))
}

/// Starts the threads that send watch events.
fn start_watching(
    mut child: Child,
    files: FileWatch,
    spec: &CommandSpec,
    tell: &Sender<WatchEvent>,
) -> Result<(), String> {
    let limits = spec.limits;
    let table = || ProcessTable::open().map_err(|error| format!("cannot read the process table: {error}"));
    let (mut for_processes, mut for_files) = (table()?, table()?);
    let watch = |wait: Box<dyn FnOnce() -> WatchEvent + Send>| {
        let tell = tell.clone();
        thread::spawn(move || {
            let _ = tell.send(wait());
        });
    };
    watch(Box::new(move || WatchEvent::Ended(processes::wait_for(&mut child))));
    watch(Box::new(move || WatchEvent::Limit(process_watch::watch_processes(&mut for_processes, &limits))));
    watch(Box::new(move || WatchEvent::Limit(files.watch(&mut for_files))));
    watch(Box::new(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        WatchEvent::Orphaned
    }));
    Ok(())
}

/// The version of Landlock, and whether system calls are filtered.
type Ready = (u32, bool);

/// The output of the command while it runs.
struct OutputStreams {
    stdout: Arc<Mutex<Stream>>,
    stderr: Arc<Mutex<Stream>>,
    ends: Receiver<()>,
}

struct Stream {
    /// Set when the sandbox was set up.
    ready: Option<Ready>,
    kept: HeadAndTail,
}

impl OutputStreams {
    fn follow(child: &mut Child, limit: usize) -> Result<Self, String> {
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("a pipe is missing".to_owned());
        };
        let (tell, ends) = mpsc::channel();
        let new = || Arc::new(Mutex::new(Stream { ready: None, kept: HeadAndTail::new(limit) }));
        let streams = Self { stdout: new(), stderr: new(), ends };
        let (out, err, stdout_ended) = (Arc::clone(&streams.stdout), Arc::clone(&streams.stderr), tell.clone());
        thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            expect_ready(&mut stdout, &out);
            drain(stdout, &out);
            let _ = stdout_ended.send(());
        });
        thread::spawn(move || {
            drain(stderr, &err);
            let _ = tell.send(());
        });
        Ok(streams)
    }

    /// Returns whether the sandbox was set up, and the output.
    fn finish(self) -> (Option<Ready>, String, String) {
        // Another program could have inherited the pipe, and is not waited for.
        for _ in 0..2 {
            let _ = self.ends.recv_timeout(LAST_OUTPUT);
        }
        let take = |stream: &Mutex<Stream>| {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            (stream.ready, std::mem::replace(&mut stream.kept, HeadAndTail::new(0)).into_text())
        };
        let ((ready, stdout), (_, stderr)) = (take(&self.stdout), take(&self.stderr));
        (ready, stdout, stderr)
    }
}

/// Reads the line that the part inside prints before the command.
fn expect_ready(stdout: &mut impl BufRead, stream: &Mutex<Stream>) {
    let mut line = Vec::new();
    let _ = stdout.take(READY_BYTES).read_until(b'\n', &mut line);
    let text = String::from_utf8_lossy(&line);
    let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
    let ready = text.strip_prefix(READY).and_then(|ready| ready.trim_end().split_once(' '));
    match ready.and_then(|(version, filter)| Some((version.parse().ok()?, filter.parse().ok()?))) {
        Some(ready) => stream.ready = Some(ready),
        None => stream.kept.push(&line),
    }
}

fn drain(mut pipe: impl Read, stream: &Mutex<Stream>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                stream.kept.push(&buffer[..length]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
