//! Servers that are child processes.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use pegboard_core::plain_line;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::AbortHandle,
};

use crate::{
    config::Secret,
    connection::Link,
    lines::{Line, Lines},
    rpc::Message,
};

/// Messages that wait to be written; more make their senders wait.
const QUEUE: usize = 256;

/// A longer line is no message; it is skipped.
const MAX_LINE: usize = 64 << 20;

/// A larger message is not copied where that can be helped.
const LARGE: usize = 1 << 20;

/// A longer line of standard error is cut in the log.
const MAX_LOG_LINE: usize = 4096;

/// So much of a line that is no message is shown.
const MAX_SHOWN: usize = 80;

/// After this many lines that are no messages, the rest is only counted.
const MAX_COMPLAINTS: usize = 5;

/// How long a server may take to end by itself once its input is closed.
const GRACE: Duration = Duration::from_secs(2);

/// How long its supervisor may take to end what is left.
const FORCE: Duration = Duration::from_secs(5);

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

/// What to start.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a [(String, Secret)],
    pub(crate) cwd: Option<&'a Path>,
    /// The command line to put in front, of a program that ends the child when we die.
    pub(crate) supervisor: &'a [OsString],
}

/// A started child, before anything was said.
#[derive(Debug)]
pub(crate) struct Started {
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
    writer: Option<AbortHandle>,
    stderr: Option<AbortHandle>,
}

/// Starts the program.
pub(crate) fn start(program: &Program<'_>) -> io::Result<Started> {
    let path = program.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| OsString::from(path.expose()));
    if let Some(cwd) = program.cwd.filter(|cwd| !cwd.is_dir()) {
        return Err(io::Error::other(format!("there is no folder `{}`", cwd.display())));
    }
    let resolved = find_program(program.command, program.cwd, path.or_else(|| env::var_os("PATH")).as_deref())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no program `{}`", program.command)))?;
    let mut command = match program.supervisor.split_first() {
        Some((supervisor, args)) => {
            let mut command = Command::new(supervisor);
            command.args(args).arg(resolved);
            command
        }
        None => Command::new(resolved),
    };
    command.args(program.args);
    command.envs(program.env.iter().map(|(name, value)| (name, value.expose())));
    if let Some(cwd) = program.cwd {
        command.current_dir(cwd);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A supervisor must not be killed: it ends by itself, and the server before it.
    command.kill_on_drop(program.supervisor.is_empty());
    // A group of its own: a key press that stops us is not the server's, and what the
    // server starts can be ended with it.
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn()?;
    let missing = || io::Error::other("a pipe of the child is missing");
    let stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let (lines, queue) = mpsc::channel(QUEUE);
    let process = Process { child, writer: None, stderr: None };
    Ok(Started { process, sender: StdioSender { lines }, pipes: Pipes { queue, stdin, stdout, stderr } })
}

impl Started {
    /// Takes the sender out, for the link that [`Attachable::attach`] is then given.
    pub(crate) fn split(self) -> (StdioSender, Attachable) {
        (self.sender, Attachable { process: self.process, pipes: self.pipes })
    }
}

/// A started child that waits for its link.
#[derive(Debug)]
pub(crate) struct Attachable {
    process: Process,
    pipes: Pipes,
}

impl Attachable {
    /// Connects the child's pipes with `link`.
    pub(crate) fn attach(mut self, link: &Arc<Link>) -> Process {
        let Pipes { queue, stdin, stdout, stderr } = self.pipes;
        self.process.writer = Some(tokio::spawn(write(queue, stdin)).abort_handle());
        self.process.stderr = Some(tokio::spawn(log(Arc::clone(link), stderr)).abort_handle());
        tokio::spawn(read(Arc::clone(link), stdout));
        self.process
    }
}

impl Process {
    /// Its number, as long as it runs: of the supervisor where there is one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until the child has ended by itself.
    pub(crate) async fn wait(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => describe(status),
            Err(error) => format!("cannot be waited for: {error}"),
        }
    }

    /// Ends the child and everything it started: first by closing its input, then by its
    /// supervisor, then by force.
    pub(crate) async fn stop(mut self) {
        self.close_input();
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_ok() {
            return;
        }
        self.close_log();
        if tokio::time::timeout(FORCE, self.child.wait()).await.is_ok() {
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
    fn close_log(&mut self) {
        if let Some(stderr) = self.stderr.take() {
            stderr.abort();
        }
    }

    #[cfg(unix)]
    fn kill_group(&self) {
        let pid = self.child.id().and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }

    #[cfg(not(unix))]
    fn kill_group(&self) {}
}

impl Drop for Process {
    fn drop(&mut self) {
        self.close_input();
        self.close_log();
    }
}

fn describe(status: ExitStatus) -> String {
    format!("the server ended with {status}")
}

/// The program that `command` means, as a shell would find it.
fn find_program(command: &str, cwd: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_program = |file: &Path| file.metadata().is_ok_and(|data| data.is_file() && is_executable(&data));
    if command.contains('/') || command.contains(std::path::MAIN_SEPARATOR) {
        let file = cwd.unwrap_or(Path::new("")).join(command);
        return is_program(&file).then_some(file);
    }
    let names: &[&str] = if cfg!(windows) { &["", ".exe", ".cmd", ".bat"] } else { &[""] };
    let folders = env::split_paths(path?).collect::<Vec<_>>();
    let files = folders.iter().flat_map(|folder| names.iter().map(move |end| folder.join(format!("{command}{end}"))));
    files.into_iter().find(|file| is_program(file))
}

#[cfg(unix)]
fn is_executable(data: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    data.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_data: &std::fs::Metadata) -> bool {
    true
}

async fn write(mut queue: mpsc::Receiver<String>, mut stdin: ChildStdin) {
    while let Some(mut line) = queue.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read(link: Arc<Link>, stdout: ChildStdout) {
    let mut lines = Lines::new(stdout, MAX_LINE);
    let mut complaints = 0;
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return link.close("the server closed its standard output"),
            Err(error) => return link.close(format!("the server's standard output cannot be read: {error}")),
        };
        let mut shown = String::new();
        let message = match line {
            Line::Whole(bytes) if bytes.len() > LARGE && bytes.starts_with(b"{") => {
                shown = plain_line(&String::from_utf8_lossy(&bytes[..MAX_SHOWN])).into_owned();
                let text = String::from_utf8(lines.take()).ok();
                text.map(|text| Message::parse_large(text).map(|message| vec![message]))
            }
            Line::Whole(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => continue,
            Line::Whole(bytes) => {
                shown = plain_line(&String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SHOWN)])).into_owned();
                std::str::from_utf8(bytes).ok().map(Message::parse_all)
            }
            Line::TooLong => None,
        };
        match message {
            Some(Ok(messages)) => messages.into_iter().for_each(|message| link.incoming(message, None)),
            other => {
                complaints += 1;
                let reason = match other {
                    Some(Err(error)) => error.to_string(),
                    _ => "too long, or not text".to_owned(),
                };
                if complaints <= MAX_COMPLAINTS {
                    let server = &*link.server;
                    tracing::warn!(
                        server,
                        reason,
                        line = shown,
                        "a line on standard output is no message and is skipped"
                    );
                }
            }
        }
    }
}

/// Passes on what the server writes for people. Before it is ready that is talk of starting,
/// and of questions that it does not know; the last of it explains a failure.
async fn log(link: Arc<Link>, stderr: ChildStderr) {
    let mut lines = Lines::new(stderr, 1 << 20);
    // Around the text, not beside it: a server can write anything, but not who it is.
    let span = tracing::error_span!("server", server = &*link.server);
    while let Ok(Some(line)) = lines.next().await {
        let Line::Whole(bytes) = line else { continue };
        let text = plain_line(&String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_LOG_LINE)])).into_owned();
        if text.trim().is_empty() {
            continue;
        }
        link.wrote(text.trim());
        span.in_scope(|| match link.is_ready() {
            true => tracing::info!(target: "pegboard::server", "{text}"),
            false => tracing::debug!(target: "pegboard::server", "{text}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_like_a_shell_does() {
        let path = OsString::from("/nowhere:/bin:/usr/bin");
        assert!(find_program("sh", None, Some(&path)).is_some());
        assert!(find_program("no-such-program-here", None, Some(&path)).is_none());
        assert!(find_program("/bin/sh", None, None).is_some());
    }
}
