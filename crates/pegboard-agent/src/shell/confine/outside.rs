//! The part of the program outside the sandbox: it starts the command, watches over it and
//! leaves nothing of it behind.

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

use pegboard_process::processes::{self, Table};
use rustix::process::{Pid, Signal, kill_process, setpriority_process, setsid};

use super::{
    cleanup,
    file_watch::Files,
    inside::READY,
    output::Kept,
    process_watch,
    spec::{Report, Spec},
    start::Start,
};
use crate::shell::command_output::Ending;

/// As long as an order may be.
const ORDER_BYTES: u64 = 16 * 1024 * 1024;

/// As long as the line may be that says that the sandbox is set up.
const READY_BYTES: u64 = 64;

/// How long to wait for output when everything that could write it has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// The exit code of a command that we ended, as by the signal that does it.
const KILLED: u8 = 128 + 9;

/// The priority of watching.
const WATCHING: i32 = -5;

/// The priority of ending everything: the highest that there is.
const ENDING: i32 = -20;

enum News {
    Ended(u8),
    Limit(Ending),
    /// Whoever ordered the command is gone.
    Alone,
}

pub(super) fn run() -> ExitCode {
    let mut order = Vec::new();
    let read = io::stdin().lock().take(ORDER_BYTES).read_until(b'\n', &mut order);
    let spec: Spec = match read.map(|_| serde_json::from_slice(&order)) {
        Ok(Ok(spec)) => spec,
        Ok(Err(error)) => return report(&failed(format!("cannot read the command specification: {error}"))),
        Err(error) => return report(&failed(format!("cannot read the command specification: {error}"))),
    };
    let said = match Table::open() {
        Ok(table) => run_to_end(&spec, table).unwrap_or_else(failed),
        Err(error) => failed(format!("cannot read the process table: {error}")),
    };
    report(&said)
}

fn failed(reason: String) -> Report {
    Report::Failed { reason }
}

fn report(report: &Report) -> ExitCode {
    let mut line = serde_json::to_vec(report).unwrap_or_default();
    line.push(b'\n');
    // Nobody may be there to hear it.
    let _ = io::stdout().write_all(&line).and_then(|()| io::stdout().flush());
    ExitCode::SUCCESS
}

/// Runs the command and leaves nothing of it behind.
fn run_to_end(spec: &Spec, mut table: Table) -> Result<Report, String> {
    let mut said = confine(spec, &mut table);
    // Something may have been started before something else went wrong.
    if said.is_err() {
        said = end_all(&mut table).and(said);
    }
    // Whoever ordered it looks after what cannot be removed.
    let _ = cleanup::remove(&spec.private);
    said
}

fn end_all(table: &mut Table) -> Result<(), String> {
    table.end_all(Duration::ZERO).map_err(|error| format!("cannot verify that all processes have ended: {error}"))
}

/// Runs the command to its end, or to the end of a limit.
fn confine(spec: &Spec, table: &mut Table) -> Result<Report, String> {
    let (tell, news) = mpsc::channel();
    // Out of the session of whoever started us: what we do to ours must not touch them.
    let _ = setsid();
    go_before_others(WATCHING);
    processes::adopt_orphans();
    let start = Start::new(spec)?;
    let files = Files::new(&start.folders, spec);
    // By this thread, which lasts: bubblewrap ends when its parent thread does.
    let mut child = spawn(&start)?;
    let output = Streams::follow(&mut child, spec.limits.output_bytes)?;
    let order = serde_json::to_vec(&start.order).map_err(|error| error.to_string())?;
    let (order_pipe, child_pid) = (child.stdin.take(), i32::try_from(child.id()).ok().and_then(Pid::from_raw));
    watch_over(child, files, spec, &tell)?;
    // What ends before it has read everything says why on standard error.
    let _ = order_pipe.map(|mut pipe| pipe.write_all(&order));
    let ended = news.recv_timeout(Duration::from_millis(spec.limits.timeout_ms));
    if !matches!(ended, Ok(News::Ended(_))) {
        // With bubblewrap everything ends at once, before anything can multiply.
        let _ = child_pid.map(|pid| kill_process(pid, Signal::KILL));
        go_before_others(ENDING);
    }
    end_all(table)?;
    let (exit_code, ended_by) = match ended {
        Ok(News::Ended(code)) => (code, None),
        Ok(News::Limit(ending)) => (KILLED, Some(ending)),
        Ok(News::Alone) => return Err("the parent process exited".to_owned()),
        Err(_) => (KILLED, Some(Ending::Timeout)),
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

/// Goes before what we start, where we may: who has to end a crowd must not wait in line
/// with it.
fn go_before_others(priority: i32) {
    let _ = setpriority_process(None, priority);
    // The session counts as one against others, and a crowd can have many.
    let _ = fs::write("/proc/self/autogroup", priority.to_string());
}

/// What the sandbox says when it fails.
fn reason(stderr: &str, code: u8) -> String {
    match stderr.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => line.trim().to_owned(),
        None => format!("exit code {code}"),
    }
}

fn spawn(start: &Start) -> Result<Child, String> {
    let (program, args) = start.words.split_first().ok_or("no program to start")?;
    let mut command = Command::new(program);
    command.args(args).env_clear().current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| format!("cannot start `{}`: {error}", program.to_string_lossy()))
}

/// Starts everything that can have news.
fn watch_over(mut child: Child, files: Files, spec: &Spec, tell: &Sender<News>) -> Result<(), String> {
    let limits = spec.limits;
    let table = || Table::open().map_err(|error| format!("cannot read the process table: {error}"));
    let (mut for_processes, mut for_files) = (table()?, table()?);
    let watch = |wait: Box<dyn FnOnce() -> News + Send>| {
        let tell = tell.clone();
        thread::spawn(move || {
            let _ = tell.send(wait());
        });
    };
    watch(Box::new(move || News::Ended(processes::wait_for(&mut child))));
    watch(Box::new(move || News::Limit(process_watch::processes(&mut for_processes, &limits))));
    watch(Box::new(move || News::Limit(files.watch(&mut for_files))));
    watch(Box::new(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        News::Alone
    }));
    Ok(())
}

/// The version of Landlock, and whether system calls are filtered.
type Ready = (u32, bool);

/// What the command prints, while it does.
struct Streams {
    stdout: Arc<Mutex<Stream>>,
    stderr: Arc<Mutex<Stream>>,
    ends: Receiver<()>,
}

struct Stream {
    /// Set when the sandbox was.
    ready: Option<Ready>,
    kept: Kept,
}

impl Streams {
    fn follow(child: &mut Child, limit: usize) -> Result<Self, String> {
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("a pipe is missing".to_owned());
        };
        let (tell, ends) = mpsc::channel();
        let new = || Arc::new(Mutex::new(Stream { ready: None, kept: Kept::new(limit) }));
        let streams = Self { stdout: new(), stderr: new(), ends };
        let (out, err, told) = (Arc::clone(&streams.stdout), Arc::clone(&streams.stderr), tell.clone());
        thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            expect_ready(&mut stdout, &out);
            drain(stdout, &out);
            let _ = told.send(());
        });
        thread::spawn(move || {
            drain(stderr, &err);
            let _ = tell.send(());
        });
        Ok(streams)
    }

    /// Whether the sandbox was set up, and what was printed.
    fn finish(self) -> (Option<Ready>, String, String) {
        // A process that is not ours could have been handed the pipe, and is not waited for.
        for _ in 0..2 {
            let _ = self.ends.recv_timeout(LAST_OUTPUT);
        }
        let take = |stream: &Mutex<Stream>| {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            (stream.ready, std::mem::replace(&mut stream.kept, Kept::new(0)).into_text())
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
