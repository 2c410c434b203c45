//! Starts the confining program and reads its report.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _},
    process::Child,
    runtime::Handle,
    task::spawn_blocking,
};

use super::{
    private_folder::{self, PrivateFolder},
    relay,
    spec::{ApiSpec, CommandLimits, CommandSpec, Filter, Kind, Report},
};
use crate::shell::{CommandOutput, Sandbox, Shell, ShellError, prepare_folder};

/// Timeout of a trial run of a sandbox.
const TRIAL: Duration = Duration::from_secs(10);

/// How long the confining program may take beyond the command's timeout: it has to end all
/// processes, which is slow on a machine without free memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum size of a report, without the output.
const REPORT_BYTES: u64 = 64 * 1024;

/// Removes private folders of agents that were killed.
pub(in crate::shell) fn remove_abandoned() {
    private_folder::sweep();
}

/// Runs an empty command in the sandbox; returns the sandbox with what was found out about it.
pub(in crate::shell) fn try_sandbox(shell: &Shell, sandbox: Sandbox) -> Result<Sandbox, ShellError> {
    let mut spec = shell.spec(":", TRIAL, &sandbox);
    // The socket is not served yet.
    spec.api = None;
    spec.filter = match sandbox {
        Sandbox::Bubblewrap { .. } | Sandbox::Namespaces { .. } => Filter::Try,
        // Landlock alone restricts neither modes and times of files nor most sockets.
        Sandbox::Landlock { .. } => Filter::Must,
        Sandbox::None { .. } => Filter::Never,
    };
    let private = PrivateFolder::new()?;
    private.path.clone_into(&mut spec.private);
    let report = shell.try_out(&spec);
    private.remove();
    match report? {
        Report::Ran { exit_code: 0, landlock, is_filtered, .. } => Ok(with_findings(sandbox, landlock, is_filtered)),
        Report::Ran { stderr, .. } => Err(ShellError::Sandbox { reason: stderr.trim().to_owned() }),
        Report::Failed { reason } => Err(ShellError::Sandbox { reason }),
    }
}

/// Runs a command for at most `timeout`.
pub(in crate::shell) async fn launch(
    shell: &Shell,
    command: &str,
    timeout: Duration,
) -> Result<CommandOutput, ShellError> {
    let mut spec = shell.spec(command, timeout, &shell.sandbox);
    let folder = spec.folder.clone();
    // A command can have removed its own folder.
    let prepared = spawn_blocking(move || {
        prepare_folder(&folder)?;
        PrivateFolder::new()
    });
    let private = prepared.await.map_err(|_| shell.lost())??;
    private.path.clone_into(&mut spec.private);
    let mut running = Running { child: None, private: Some(private) };
    let listener = match (&spec.api, &running.private) {
        (Some(_), Some(private)) if spec.sandbox.has_own_namespaces() => Some(private.listen()?),
        _ => None,
    };
    let order = order(&spec)?;
    let start = |source| ShellError::Start { program: shell.program_name(), source };
    let child = running.child.insert(tokio::process::Command::from(shell.confine()).spawn().map_err(start)?);
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(shell.lost());
    };
    let mut line = Vec::new();
    let exchange = async {
        stdin.write_all(&order).await?;
        let read = tokio::io::BufReader::new(stdout.take(report_bytes(&spec))).read_until(b'\n', &mut line).await;
        // It ends when its input closes, and must have ended before the command is reported as
        // ended.
        drop(stdin);
        child.wait().await?;
        read
    };
    let exchange = tokio::time::timeout(Duration::from_millis(spec.limits.timeout_ms) + PATIENCE, exchange);
    let finished = match (listener, &spec.api) {
        (Some(listener), Some(api)) => tokio::select! {
            finished = exchange => finished,
            never = relay::serve(listener, api.address) => match never {},
        },
        _ => exchange.await,
    };
    if !matches!(finished, Ok(Ok(_))) {
        return Err(shell.lost());
    }
    running.tidy().await;
    match serde_json::from_slice(&line) {
        Ok(Report::Ran { exit_code, stdout, stderr, ended_by, .. }) => {
            Ok(CommandOutput { exit_code: exit_code.into(), stdout, stderr, ended_by })
        }
        Ok(Report::Failed { reason }) => Err(ShellError::Sandbox { reason }),
        Err(_) => Err(shell.lost()),
    }
}

impl Shell {
    /// Returns the order for the confining program.
    fn spec(&self, command: &str, timeout: Duration, sandbox: &Sandbox) -> CommandSpec {
        let settings = &self.settings;
        CommandSpec {
            sandbox: kind(sandbox),
            filter: filter(sandbox),
            command: command.to_owned(),
            folder: settings.folder.clone(),
            // Created anew for each command.
            private: PathBuf::new(),
            readable: settings.readable.clone(),
            environment: settings.environment.clone(),
            api: self.api.as_ref().map(|api| ApiSpec { address: api.address, token: api.token.clone() }),
            limits: CommandLimits {
                timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
                memory_bytes: settings.memory_bytes,
                max_processes: settings.max_processes,
                disk_bytes: settings.disk_bytes,
                max_files: settings.max_files,
                max_file_bytes: settings.max_file_bytes,
                temporary_bytes: settings.temporary_bytes,
                output_bytes: settings.output_bytes,
            },
        }
    }

    /// Runs the confining program to its end and returns its report.
    fn try_out(&self, spec: &CommandSpec) -> Result<Report, ShellError> {
        let order = order(spec)?;
        let start = |source| ShellError::Start { program: self.program_name(), source };
        let mut child = self.confine().spawn().map_err(start)?;
        let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
        // A program that does not read its input does not report either.
        let _ = stdin.as_mut().map(|stdin| stdin.write_all(&order));
        let mut line = Vec::new();
        let read = stdout.map(|stdout| BufReader::new(stdout.take(report_bytes(spec))).read_until(b'\n', &mut line));
        drop(stdin);
        if !matches!(read, Some(Ok(_))) | child.wait().is_err() {
            return Err(self.lost());
        }
        serde_json::from_slice(&line).map_err(|_| self.lost())
    }

    /// Returns the command line of the confining program. It inherits no environment, and gets a
    /// new session: a keyboard signal that stops this program must not stop it before the command.
    fn confine(&self) -> Command {
        let line = self.program.command("confine");
        let mut words = line.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    fn program_name(&self) -> String {
        let line = self.program.command("confine");
        line.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn lost(&self) -> ShellError {
        ShellError::Lost { program: self.program_name() }
    }
}

/// Returns the kind of sandbox for the order.
fn kind(sandbox: &Sandbox) -> Kind {
    match sandbox {
        Sandbox::Bubblewrap { program, .. } => Kind::Bubblewrap { program: program.clone() },
        Sandbox::Namespaces { .. } => Kind::Namespaces,
        Sandbox::Landlock { .. } => Kind::Landlock,
        Sandbox::None { .. } => Kind::None,
    }
}

/// Returns whether system calls are filtered: required if it worked in the trial run.
fn filter(sandbox: &Sandbox) -> Filter {
    match sandbox {
        Sandbox::Bubblewrap { is_filtered, .. } | Sandbox::Namespaces { is_filtered } if !*is_filtered => Filter::Never,
        Sandbox::Bubblewrap { .. } | Sandbox::Namespaces { .. } | Sandbox::Landlock { .. } => Filter::Must,
        Sandbox::None { .. } => Filter::Never,
    }
}

/// Returns the sandbox with the findings of its trial run.
fn with_findings(sandbox: Sandbox, landlock: u32, is_filtered: bool) -> Sandbox {
    match sandbox {
        Sandbox::Bubblewrap { program, .. } => Sandbox::Bubblewrap { program, is_filtered },
        Sandbox::Namespaces { .. } => Sandbox::Namespaces { is_filtered },
        Sandbox::Landlock { .. } => Sandbox::Landlock { abi: landlock },
        Sandbox::None { reason } => Sandbox::None { reason },
    }
}

/// Serializes the order to one line.
fn order(spec: &CommandSpec) -> Result<Vec<u8>, ShellError> {
    let mut order = serde_json::to_vec(spec).map_err(|source| ShellError::Path { source })?;
    order.push(b'\n');
    Ok(order)
}

/// Returns the maximum size of a report: invalid UTF-8 takes three times its size, and quotation
/// marks twice.
fn report_bytes(spec: &CommandSpec) -> u64 {
    let output = u64::try_from(spec.limits.output_bytes).unwrap_or(u64::MAX);
    output.saturating_mul(2 * 3).saturating_add(REPORT_BYTES)
}

/// A running command. The confining program removes the private folder; this removes it if the
/// confining program is killed.
struct Running {
    /// Not killed when dropped: it has to end the command first, and does when its standard input
    /// closes.
    child: Option<Child>,
    private: Option<PrivateFolder>,
}

impl Running {
    /// Removes the private folder when the confining program has ended.
    async fn tidy(mut self) {
        self.child = None;
        if let Some(private) = self.private.take() {
            let _ = spawn_blocking(|| private.remove()).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(private) = self.private.take() else { return };
        match (self.child.take(), Handle::try_current()) {
            (None, _) => private.remove(),
            (Some(mut child), Ok(runtime)) => {
                runtime.spawn(async move {
                    let _ = child.wait().await;
                    let _ = spawn_blocking(|| private.remove()).await;
                });
            }
            // No task can wait for it; its private folder is removed later.
            (Some(_), Err(_)) => {}
        }
    }
}
