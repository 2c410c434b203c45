//! Starting the confining program and hearing what it says.

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
    private_folder::{self, Private},
    relay,
    spec::{ApiSpec, Filter, Kind, Limits, Report, Spec},
};
use crate::shell::{Ran, Sandbox, Shell, ShellError, prepare_folder};

/// How long a sandbox may take to be tried.
const TRIAL: Duration = Duration::from_secs(10);

/// How long the confining program may take beyond the command's time: it has to end
/// everything, and a machine that is short of memory is slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a report holds besides the output.
const REPORT_BYTES: u64 = 64 * 1024;

/// Removes what agents that came to a sudden end have left.
pub(in crate::shell) fn remove_forgotten() {
    private_folder::sweep();
}

/// Runs a command that does nothing in the sandbox; the sandbox, with what is learned
/// about it.
pub(in crate::shell) fn try_sandbox(shell: &Shell, sandbox: Sandbox) -> Result<Sandbox, ShellError> {
    let mut spec = shell.spec(":", TRIAL, &sandbox);
    // Nobody answers at the socket yet.
    spec.api = None;
    spec.filter = match sandbox {
        Sandbox::Bubblewrap { .. } | Sandbox::Namespaces { .. } => Filter::Try,
        // Landlock alone restricts neither modes and times of files nor most sockets.
        Sandbox::Landlock { .. } => Filter::Must,
        Sandbox::None { .. } => Filter::Never,
    };
    let private = Private::new()?;
    private.path.clone_into(&mut spec.private);
    let said = shell.try_out(&spec);
    private.remove();
    match said? {
        Report::Ran { exit_code: 0, landlock, is_filtered, .. } => Ok(with_findings(sandbox, landlock, is_filtered)),
        Report::Ran { stderr, .. } => Err(ShellError::Sandbox { reason: stderr.trim().to_owned() }),
        Report::Failed { reason } => Err(ShellError::Sandbox { reason }),
    }
}

/// Runs a command, for at most `timeout`.
pub(in crate::shell) async fn launch(shell: &Shell, command: &str, timeout: Duration) -> Result<Ran, ShellError> {
    let mut spec = shell.spec(command, timeout, &shell.sandbox);
    let folder = spec.folder.clone();
    // A command can have removed its own folder.
    let prepared = spawn_blocking(move || {
        prepare_folder(&folder)?;
        Private::new()
    });
    let private = prepared.await.map_err(|_| shell.lost())??;
    private.path.clone_into(&mut spec.private);
    let mut running = Running { child: None, private: Some(private) };
    let listener = match (&spec.api, &running.private) {
        (Some(_), Some(private)) if spec.sandbox.is_apart() => Some(private.listen()?),
        _ => None,
    };
    let order = order(&spec)?;
    let start = |source| ShellError::Start { program: shell.program_name(), source };
    let child = running.child.insert(tokio::process::Command::from(shell.confine()).spawn().map_err(start)?);
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(shell.lost());
    };
    let mut line = Vec::new();
    let hear = async {
        stdin.write_all(&order).await?;
        let heard = tokio::io::BufReader::new(stdout.take(report_bytes(&spec))).read_until(b'\n', &mut line).await;
        // It ends when its input does, and must have ended when we say that the command has.
        drop(stdin);
        child.wait().await?;
        heard
    };
    let hear = tokio::time::timeout(Duration::from_millis(spec.limits.timeout_ms) + PATIENCE, hear);
    let heard = match (listener, &spec.api) {
        (Some(listener), Some(api)) => tokio::select! {
            heard = hear => heard,
            never = relay::serve(listener, api.address) => match never {},
        },
        _ => hear.await,
    };
    if !matches!(heard, Ok(Ok(_))) {
        return Err(shell.lost());
    }
    running.tidy().await;
    match serde_json::from_slice(&line) {
        Ok(Report::Ran { exit_code, stdout, stderr, ended_by, .. }) => {
            Ok(Ran { exit_code: exit_code.into(), stdout, stderr, ended_by })
        }
        Ok(Report::Failed { reason }) => Err(ShellError::Sandbox { reason }),
        Err(_) => Err(shell.lost()),
    }
}

impl Shell {
    /// Everything that the confining program has to know.
    fn spec(&self, command: &str, timeout: Duration, sandbox: &Sandbox) -> Spec {
        let settings = &self.settings;
        Spec {
            sandbox: kind(sandbox),
            filter: filter(sandbox),
            command: command.to_owned(),
            folder: settings.folder.clone(),
            // Made anew for each command.
            private: PathBuf::new(),
            readable: settings.readable.clone(),
            environment: settings.environment.clone(),
            api: self.api.as_ref().map(|api| ApiSpec { address: api.address, token: api.token.clone() }),
            limits: Limits {
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

    /// What the confining program says, when all is over.
    fn try_out(&self, spec: &Spec) -> Result<Report, ShellError> {
        let order = order(spec)?;
        let start = |source| ShellError::Start { program: self.program_name(), source };
        let mut child = self.confine().spawn().map_err(start)?;
        let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
        // A program that reads nothing says nothing either.
        let _ = stdin.as_mut().map(|stdin| stdin.write_all(&order));
        let mut line = Vec::new();
        let heard = stdout.map(|stdout| BufReader::new(stdout.take(report_bytes(spec))).read_until(b'\n', &mut line));
        drop(stdin);
        if !matches!(heard, Some(Ok(_))) | child.wait().is_err() {
            return Err(self.lost());
        }
        serde_json::from_slice(&line).map_err(|_| self.lost())
    }

    /// The confining program. It gets nothing of our environment, and makes a session of its
    /// own: a key press that stops us must not stop it before the command.
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

/// The sandbox, as the confining program is told.
fn kind(sandbox: &Sandbox) -> Kind {
    match sandbox {
        Sandbox::Bubblewrap { program, .. } => Kind::Bubblewrap { program: program.clone() },
        Sandbox::Namespaces { .. } => Kind::Namespaces,
        Sandbox::Landlock { .. } => Kind::Landlock,
        Sandbox::None { .. } => Kind::None,
    }
}

/// Whether system calls are filtered: where that has worked once, it must always work.
fn filter(sandbox: &Sandbox) -> Filter {
    match sandbox {
        Sandbox::Bubblewrap { is_filtered, .. } | Sandbox::Namespaces { is_filtered } if !*is_filtered => Filter::Never,
        Sandbox::Bubblewrap { .. } | Sandbox::Namespaces { .. } | Sandbox::Landlock { .. } => Filter::Must,
        Sandbox::None { .. } => Filter::Never,
    }
}

/// The same sandbox, with what was found when it was tried.
fn with_findings(sandbox: Sandbox, landlock: u32, is_filtered: bool) -> Sandbox {
    match sandbox {
        Sandbox::Bubblewrap { program, .. } => Sandbox::Bubblewrap { program, is_filtered },
        Sandbox::Namespaces { .. } => Sandbox::Namespaces { is_filtered },
        Sandbox::Landlock { .. } => Sandbox::Landlock { abi: landlock },
        Sandbox::None { reason } => Sandbox::None { reason },
    }
}

/// The line that the confining program reads.
fn order(spec: &Spec) -> Result<Vec<u8>, ShellError> {
    let mut order = serde_json::to_vec(spec).map_err(|source| ShellError::Path { source })?;
    order.push(b'\n');
    Ok(order)
}

/// As much as a report can be: bytes that are no text take three times their room, and
/// quotation marks twice.
fn report_bytes(spec: &Spec) -> u64 {
    let output = u64::try_from(spec.limits.output_bytes).unwrap_or(u64::MAX);
    output.saturating_mul(2 * 3).saturating_add(REPORT_BYTES)
}

/// A command that runs. The confining program removes the private folder, and we do when that
/// has come to a sudden end.
struct Running {
    /// Not killed when dropped: it has to end the command first, and does when its standard
    /// input closes.
    child: Option<Child>,
    private: Option<Private>,
}

impl Running {
    /// Removes what is left when the confining program has ended.
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
            // Nobody is there to wait for it; what it leaves is swept later.
            (Some(_), Err(_)) => {}
        }
    }
}
