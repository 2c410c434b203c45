//! Starting the confining program and hearing what it says.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixListener,
    task::spawn_blocking,
};

use super::{
    Shell,
    error::ShellError,
    prepare_folder,
    ran::Ran,
    relay,
    sandbox::Sandbox,
    spec::{Kind, Report, Spec},
};

/// The socket of the tool API in a command's private folder.
pub(super) const SOCKET: &str = "api.sock";

/// How long a sandbox may take to be tried.
const TRIAL: Duration = Duration::from_secs(10);

/// How long the confining program may take beyond the command's time: it has to end
/// everything, and a machine that is short of memory is slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a report holds besides the output.
const REPORT_BYTES: u64 = 64 * 1024;

impl Shell {
    /// Runs a command that does nothing in the sandbox; the sandbox, with what is learned
    /// about it.
    pub(super) fn try_sandbox(&self, sandbox: Sandbox) -> Result<Sandbox, ShellError> {
        let mut spec = self.spec(":", TRIAL, &sandbox);
        // Nobody answers at the socket yet.
        spec.api = None;
        let mut private = Private::new()?;
        private.path.clone_into(&mut spec.private);
        let program = self.program_name();
        let start = |source| ShellError::Start { program: program.clone(), source };
        let mut child = self.confine().spawn().map_err(start)?;
        private.is_handed_on = true;
        let order = order(&spec)?;
        let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
        // A program that reads nothing says nothing either.
        let _ = stdin.as_mut().map(|stdin| stdin.write_all(&order));
        let mut line = Vec::new();
        let lost = || ShellError::Lost { program: program.clone() };
        let stdout = stdout.ok_or_else(lost)?;
        let heard = BufReader::new(stdout.take(report_bytes(&spec))).read_until(b'\n', &mut line);
        drop(stdin);
        if heard.is_err() || child.wait().is_err() {
            return Err(lost());
        }
        private.is_handed_on = false;
        match (serde_json::from_slice(&line), sandbox) {
            (Ok(Report::Ran { exit_code: 0, landlock, .. }), Sandbox::Landlock { .. }) => {
                Ok(Sandbox::Landlock { abi: landlock })
            }
            (Ok(Report::Ran { exit_code: 0, .. }), sandbox) => Ok(sandbox),
            (Ok(Report::Ran { stderr, .. }), _) => Err(ShellError::Sandbox { reason: stderr.trim().to_owned() }),
            (Ok(Report::Failed { reason }), _) => Err(ShellError::Sandbox { reason }),
            (Err(_), _) => Err(lost()),
        }
    }

    /// Runs a command.
    pub(super) async fn launch(&self, spec: &Spec) -> Result<Ran, ShellError> {
        let mut spec = spec.clone();
        let folder = spec.folder.clone();
        // A command can have removed its own folder.
        let prepared = spawn_blocking(move || {
            prepare_folder(&folder)?;
            Private::new()
        });
        let mut private = prepared.await.map_err(|_| self.lost())??;
        private.path.clone_into(&mut spec.private);
        let listener = match (&spec.sandbox, &spec.api) {
            (Kind::Bubblewrap { .. }, Some(_)) => Some(private.listen()?),
            _ => None,
        };
        let order = order(&spec)?;
        let start = |source| ShellError::Start { program: self.program_name(), source };
        // Not killed when dropped: it has to end the command first, and does when its
        // standard input closes.
        let mut child = tokio::process::Command::from(self.confine()).spawn().map_err(start)?;
        private.is_handed_on = true;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(self.lost());
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
            return Err(self.lost());
        }
        match serde_json::from_slice(&line) {
            Ok(Report::Ran { exit_code, stdout, stderr, ended_by, .. }) => {
                Ok(Ran { exit_code: exit_code.into(), stdout, stderr, ended_by })
            }
            Ok(Report::Failed { reason }) => Err(ShellError::Sandbox { reason }),
            Err(_) => Err(self.lost()),
        }
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

/// A folder that nobody else can enter. The confining program removes it; we do when that was
/// never started, or turned out to be another program.
struct Private {
    path: PathBuf,
    is_handed_on: bool,
}

impl Private {
    fn new() -> Result<Self, ShellError> {
        let base = std::env::temp_dir();
        let base = base.canonicalize().map_err(|source| ShellError::Private { path: base.clone(), source })?;
        let mut random = [0; 16];
        let cannot = |path: &Path, source| ShellError::Private { path: path.to_owned(), source };
        getrandom::fill(&mut random).map_err(|error| cannot(&base, io::Error::other(error.to_string())))?;
        let name = random.iter().fold("pegboard-".to_owned(), |name, byte| format!("{name}{byte:02x}"));
        let path = base.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|source| cannot(&path, source))?;
        Ok(Self { path, is_handed_on: false })
    }

    fn listen(&self) -> Result<UnixListener, ShellError> {
        let path = self.path.join(SOCKET);
        UnixListener::bind(&path).map_err(|source| ShellError::Private { path, source })
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if !self.is_handed_on {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
