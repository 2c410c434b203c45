//! The stdio transport: servers that are child processes.

use std::{
    ffi::OsString,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use pegboard_core::text;
use pegboard_mcp::{
    lines::{Line, LineReader},
    rpc::Message,
};
use pegboard_process::{
    processes,
    program::{self, ProgramError},
    supervise::ProcessNamespace,
};
use tokio::{
    io::AsyncWriteExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::JoinHandle,
};

use crate::{
    connection::{CallError, Link},
    environment::Environment,
};

/// Number of messages that can wait to be written before senders wait.
const QUEUE_LENGTH: usize = 256;

/// Size from which a message is not copied if possible.
const LARGE_MESSAGE: usize = 1 << 20;

/// Maximum number of bytes of a line of standard error in the log.
const MAX_LOG_LINE: usize = 4096;

/// Number of bytes that are shown of a line that is not a message.
const MAX_STRAY_LINE: usize = 80;

/// Number of lines that are logged although they are not messages; further ones are only counted.
const MAX_WARNINGS: usize = 5;

/// Time for a server to end by itself after its input is closed.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for the supervisor to end remaining processes.
const SUPERVISOR_TIMEOUT: Duration = Duration::from_secs(5);

/// Time to wait for the last output of a server that has ended.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The queue in front of a child's standard input.
#[derive(Debug)]
pub(crate) struct StdioSender {
    lines: mpsc::Sender<String>,
}

impl StdioSender {
    pub(crate) async fn send(&self, line: String) -> Result<(), mpsc::error::SendError<String>> {
        self.lines.send(line).await
    }
}

/// The program of a server, and how to start it.
#[derive(Debug)]
pub(crate) struct ServerProgram<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    /// All its variables; its supervisor gets the same.
    pub(crate) environment: &'a Environment,
    pub(crate) cwd: Option<&'a Path>,
    /// The command line of the supervisor, which ends the child when this process dies.
    pub(crate) supervisor: &'a [OsString],
    /// Whether the supervisor creates a process namespace for the child.
    pub(crate) namespace: ProcessNamespace,
}

/// A started child before its first message.
#[derive(Debug)]
pub(crate) struct StartedProcess {
    pub(crate) process: Process,
    pub(crate) sender: StdioSender,
    pipes: Pipes,
}

#[derive(Debug)]
struct Pipes {
    queue: mpsc::Receiver<String>,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

/// A running child.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    is_supervised: bool,
    writer: Option<JoinHandle<()>>,
    stdout: Option<JoinHandle<()>>,
    stderr: Option<JoinHandle<()>>,
}

/// Starts the program.
pub(crate) fn start(program: &ServerProgram<'_>) -> io::Result<StartedProcess> {
    if let Some(cwd) = program.cwd.filter(|cwd| !cwd.is_dir()) {
        return Err(io::Error::other(format!("the working directory `{}` does not exist", cwd.display())));
    }
    let path = program.environment.path();
    let resolved = program::find(program.command, program.cwd, path).map_err(|error| {
        let kind = match error {
            ProgramError::NotExecutable(_) => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::NotFound,
        };
        io::Error::new(kind, error)
    })?;
    let mut command = match program.supervisor.split_first() {
        Some((supervisor, args)) => {
            let mut command = Command::new(supervisor);
            command.args(supervisor_args(args, program.namespace)).arg(resolved);
            command
        }
        None => Command::new(resolved),
    };
    command.args(program.args);
    // For the supervisor too: a server can read the environment of its parent.
    command.env_clear().envs(program.environment.variables());
    if let Some(cwd) = program.cwd {
        command.current_dir(cwd);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A supervisor must not be killed: it first ends the server, and then itself.
    command.kill_on_drop(program.supervisor.is_empty());
    processes::start_in_group(command.as_std_mut());
    let mut child = command.spawn()?;
    let missing = || io::Error::other("a pipe to the server is missing");
    let stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let (lines, queue) = mpsc::channel(QUEUE_LENGTH);
    let is_supervised = !program.supervisor.is_empty();
    let process = Process { child, is_supervised, writer: None, stdout: None, stderr: None };
    Ok(StartedProcess { process, sender: StdioSender { lines }, pipes: Pipes { queue, stdin, stdout, stderr } })
}

/// Returns the arguments of the supervisor, with the option for a process namespace before the
/// `--` that ends its options.
fn supervisor_args(args: &[OsString], namespace: ProcessNamespace) -> Vec<OsString> {
    let mut args = args.to_vec();
    if namespace != ProcessNamespace::Off {
        let at = args.len() - usize::from(args.last().is_some_and(|last| last == "--"));
        args.insert(at, format!("--process-namespace={}", namespace.name()).into());
    }
    args
}

impl StartedProcess {
    /// Splits off the sender, which the link for [`UnattachedProcess::attach`] needs.
    pub(crate) fn split(self) -> (StdioSender, UnattachedProcess) {
        (self.sender, UnattachedProcess { process: self.process, pipes: self.pipes })
    }
}

/// A started child that is not connected with a link yet.
#[derive(Debug)]
pub(crate) struct UnattachedProcess {
    process: Process,
    pipes: Pipes,
}

impl UnattachedProcess {
    /// Connects the child's pipes with `link`.
    pub(crate) fn attach(mut self, link: &Arc<Link>) -> Process {
        let Pipes { queue, stdin, stdout, stderr } = self.pipes;
        self.process.writer = Some(tokio::spawn(write_messages(queue, stdin)));
        self.process.stderr = Some(tokio::spawn(log_stderr(Arc::clone(link), stderr)));
        self.process.stdout = Some(tokio::spawn(read_messages(Arc::clone(link), stdout)));
        self.process
    }
}

impl Process {
    /// Returns the process id while the child runs: that of the server if it can be found, otherwise
    /// that of its supervisor.
    pub(crate) fn pid(&self) -> Option<u32> {
        let pid = self.child.id()?;
        Some(if self.is_supervised { supervised_pid(pid) } else { pid })
    }

    /// Waits until the child has ended by itself and its output was read, and returns how it ended.
    pub(crate) async fn wait(&mut self) -> String {
        let ended = match self.child.wait().await {
            Ok(status) => describe_exit(status),
            Err(error) => format!("cannot wait for the process: {error}"),
        };
        drain_pipe(&mut self.stderr).await;
        drain_pipe(&mut self.stdout).await;
        ended
    }

    /// Ends the child and all its descendants: first by closing its input, then by its supervisor,
    /// then by killing them.
    pub(crate) async fn stop(mut self) {
        self.close_input();
        if tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await.is_ok() {
            return;
        }
        self.close_stderr();
        if tokio::time::timeout(SUPERVISOR_TIMEOUT, self.child.wait()).await.is_ok() {
            return;
        }
        self.kill_group();
        let _ = self.child.kill().await;
    }

    fn close_input(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.abort();
        }
    }

    /// Closes the pipe that the supervisor watches.
    fn close_stderr(&mut self) {
        if let Some(stderr) = self.stderr.take() {
            stderr.abort();
        }
    }

    fn kill_group(&self) {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            processes::kill_group(pid);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.close_input();
        self.close_stderr();
    }
}

/// Waits until a pipe of a child that has ended was read completely.
async fn drain_pipe(pipe: &mut Option<JoinHandle<()>>) {
    if let Some(reading) = pipe {
        // Another process may have the pipe open; its output is not awaited.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, reading).await;
        *pipe = None;
    }
}

/// Returns the process id of the server below a supervisor. In a process namespace, and while the
/// server starts, there is another process of Pegboard in between.
fn supervised_pid(supervisor: u32) -> u32 {
    let is_ours = |pid: u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"supervise")
    };
    let mut pid = first_child(supervisor).unwrap_or(supervisor);
    while is_ours(pid) {
        match first_child(pid) {
            Some(child) => pid = child,
            None => break,
        }
    }
    pid
}

/// Returns the first child of a process. A supervisor starts one, and adopts others only later.
/// Reading `/proc` does not access a disk.
fn first_child(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn describe_exit(status: ExitStatus) -> String {
    format!("the server exited with {status}")
}

async fn write_messages(mut queue: mpsc::Receiver<String>, mut stdin: ChildStdin) {
    while let Some(mut line) = queue.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read_messages(link: Arc<Link>, stdout: ChildStdout) {
    let mut lines = LineReader::new(stdout, link.max_message);
    let mut warnings = 0;
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return link.close("the server closed its standard output"),
            Err(error) => return link.close(format!("cannot read the server's standard output: {error}")),
        };
        let mut shown = String::new();
        let message = match line {
            Line::Whole(bytes) if bytes.len() > LARGE_MESSAGE && bytes.starts_with(b"{") => {
                let start = bytes[..MAX_LOG_LINE].to_vec();
                let text = String::from_utf8(lines.take_line()).ok();
                let message = text.map(|text| Message::parse_large(text).map(|message| vec![message]));
                if !matches!(message, Some(Ok(_))) {
                    shown = clean_line(&link, &start, MAX_STRAY_LINE);
                }
                message
            }
            Line::Whole(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => continue,
            Line::Whole(bytes) => {
                let message = std::str::from_utf8(bytes).ok().map(Message::parse_all);
                if !matches!(message, Some(Ok(_))) {
                    shown = clean_line(&link, bytes, MAX_STRAY_LINE);
                }
                message
            }
            Line::TooLong => {
                if let Some(id) = lines.skipped_answer_id() {
                    link.settle(id, Err(CallError::ResultTooLarge { bytes: None, most: link.max_message }));
                    continue;
                }
                None
            }
        };
        match message {
            Some(Ok(messages)) => messages.into_iter().for_each(|message| link.incoming(message, None)),
            other => {
                warnings += 1;
                link.record_stray(&shown);
                let reason = match other {
                    Some(Err(error)) => error.to_string(),
                    _ => "too long, or not UTF-8".to_owned(),
                };
                if warnings <= MAX_WARNINGS {
                    let server = &*link.server;
                    tracing::warn!(
                        server,
                        reason,
                        line = shown,
                        "line on standard output skipped: not a JSON-RPC message"
                    );
                }
            }
        }
    }
}

/// Logs the lines of the server's standard error. Before it is ready they are about its start and
/// about requests that it does not know; the last ones explain a failure.
async fn log_stderr(link: Arc<Link>, stderr: ChildStderr) {
    let mut lines = LineReader::new(stderr, 1 << 20);
    // The name is in a span and not in the text, so that a server cannot forge it.
    let span = tracing::error_span!("server", server = &*link.server);
    while let Ok(Some(line)) = lines.next().await {
        let Line::Whole(bytes) = line else { continue };
        let text = clean_line(&link, bytes, MAX_LOG_LINE);
        if text.trim().is_empty() {
            continue;
        }
        link.record_stderr(text.trim());
        span.in_scope(|| match link.is_ready() {
            true => tracing::info!(target: "pegboard::server", "{text}"),
            false => tracing::debug!(target: "pegboard::server", "{text}"),
        });
    }
}

/// Removes control characters from a line of the server, then its secrets, and then shortens it. In
/// this order, so that no part of a secret is left.
fn clean_line(link: &Link, bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    text::bounded(&link.redactor.redact(&text::line(&text)), most).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{ServerConfig, TransportConfig},
        environment::ReservedVariables,
    };

    /// Starts a shell script as a server.
    fn script(text: &str, supervisor: &[OsString], max_message: usize) -> (Arc<Link>, Process) {
        let args = ["-c".to_owned(), text.to_owned()];
        let namespace = ProcessNamespace::Off;
        let transport =
            TransportConfig::Stdio { command: "sh".to_owned(), args: args.to_vec(), env: Vec::new(), cwd: None };
        let environment = Environment::of(&ServerConfig::new("s", transport), &ReservedVariables::default());
        let program =
            ServerProgram { command: "sh", args: &args, environment: &environment, cwd: None, supervisor, namespace };
        let (sender, unattached) = start(&program).expect("it starts").split();
        let (notices, _) = mpsc::channel(1);
        let settings =
            crate::connection::LinkSettings { max_message, ..crate::connection::LinkSettings::test(notices) };
        let link = Link::new(settings, crate::transport::Outbound::Stdio(sender));
        let process = unattached.attach(&link);
        (link, process)
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_an_error_at_once() {
        let answer = r#"{"result":{"text":"%0500d"},"jsonrpc":"2.0","id":1}"#;
        let (link, process) = script(&format!("read line; printf '{answer}\\n' 0; cat > /dev/null"), &[], 400);
        let call =
            crate::connection::Call::new("tools/call", pegboard_mcp::json::Fields::new(), Duration::from_secs(60));
        let error = link.call(call).await.expect_err("it is too long");
        assert_eq!(error.to_string(), "result is more than 400 bytes, over the limit of 400 (`maxResultBytes`)");
        link.close("done");
        process.stop().await;
    }

    #[test]
    fn the_option_for_a_namespace_is_one_of_the_supervisors() {
        let check = |args: &[&str], namespace, expected: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            assert_eq!(supervisor_args(&args, namespace), expected, "{namespace:?}");
        };
        check(&["supervise", "--"], ProcessNamespace::Off, &["supervise", "--"]);
        check(&["supervise", "--"], ProcessNamespace::On, &["supervise", "--process-namespace=on", "--"]);
        check(&["supervise"], ProcessNamespace::Auto, &["supervise", "--process-namespace=auto"]);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_number_is_the_servers_own() {
        let supervisor = ["sh", "-c", "\"$@\" & wait", "sh"].map(OsString::from);
        let (_link, process) = script("exec sleep 60", &supervisor, 400);
        let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let own = async {
            loop {
                let pid = process.pid().expect("it runs");
                if name(pid).trim() == "sleep" {
                    return pid;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let pid = tokio::time::timeout(Duration::from_secs(60), own).await.expect("it is found");
        assert_ne!(Some(pid), process.child.id());
        processes::kill(i32::try_from(pid).expect("a number"));
        process.stop().await;
    }
}
