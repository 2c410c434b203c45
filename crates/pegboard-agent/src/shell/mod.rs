//! Runs a model's shell commands in a sandbox.
//!
//! A command runs in a working folder with a clean environment, in a sandbox if the system has one,
//! and with limits on time, memory, processes, disk and output. No process that it starts outlives
//! it, or this program.
//!
//! ```text
//! this process ─ pegboard confine ─ pegboard confine ─ bwrap ─ pegboard confine --inside ─ bash -c …
//!   relay to       the keeper:        the watcher:            filter, relay from
//!   the tool API   end of the rest    limits, the end         a port in the sandbox
//! ```
//!
//! Without bubblewrap, `pegboard confine --namespaces` takes its place; where no user namespace
//! can be created, the part inside restricts itself by Landlock.
//!
//! The programs in the middle are part of Pegboard. The watcher checks all processes below it and
//! reports how the command ended. It reads its order from standard input and watches for the end of
//! it: when its parent exits, standard input closes and the command is ended. The keeper ends what
//! is left if the watcher is killed.

mod command_output;
pub mod confine;
mod error;
mod sandbox;
mod settings;
#[cfg(test)]
mod tests;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use pegboard_state::platform as files;

pub use self::{
    command_output::{CommandOutput, ExceededLimit},
    error::ShellError,
    sandbox::Sandbox,
    settings::{ApiAccess, SandboxKind, SandboxPolicy, ShellSettings},
};
use crate::Program;

/// The path of the working folder in a sandbox with its own file system.
pub(crate) const WORKSPACE: &str = "/workspace";

/// Runs commands, each in a separate process and all in one working folder.
#[derive(Debug)]
pub struct Shell {
    settings: ShellSettings,
    program: Program,
    api: Option<ApiAccess>,
    sandbox: Sandbox,
}

impl Shell {
    /// Prepares the working folder and finds the best sandbox by trying: this starts the program
    /// once or twice and waits for it, which takes some 10 ms.
    pub fn new(
        mut settings: ShellSettings,
        program: Option<Program>,
        api: Option<ApiAccess>,
    ) -> Result<Self, ShellError> {
        let program = program.ok_or(ShellError::NoProgram)?;
        settings.folder = prepare_folder(&settings.folder)?;
        confine::remove_abandoned();
        let is_variable =
            |(name, value): &(String, String)| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
        if let Some((name, _)) = settings.environment.iter().find(|variable| !is_variable(variable)) {
            return Err(ShellError::Variable { name: name.clone() });
        }
        let mut shell = Self { settings, program, api, sandbox: Sandbox::None { reason: String::new() } };
        shell.sandbox = shell.choose_sandbox()?;
        Ok(shell)
    }

    /// Returns the sandbox of the commands.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Returns the working folder, as commands see it.
    pub fn folder(&self) -> &Path {
        match self.sandbox {
            Sandbox::Bubblewrap { .. } | Sandbox::Namespaces { .. } => Path::new(WORKSPACE),
            Sandbox::Landlock { .. } | Sandbox::None { .. } => &self.settings.folder,
        }
    }

    /// Runs one command for at most `timeout`, capped at the maximum timeout. Dropping the future
    /// ends all processes of the command.
    pub async fn run(&self, command: &str, timeout: Option<Duration>) -> Result<CommandOutput, ShellError> {
        let limit = self.settings.command_bytes;
        if command.len() > limit {
            return Err(ShellError::TooLong { bytes: command.len(), limit });
        }
        if command.contains('\0') {
            return Err(ShellError::Nul);
        }
        let timeout = timeout.unwrap_or(self.settings.timeout).min(self.settings.max_timeout);
        confine::launch(self, command, timeout).await
    }

    /// Finds the first sandbox that works on this machine.
    fn choose_sandbox(&self) -> Result<Sandbox, ShellError> {
        let settings = &self.settings;
        if settings.policy == SandboxPolicy::Off {
            return confine::try_sandbox(self, Sandbox::None { reason: "disabled".to_owned() });
        }
        let mut failures = Vec::new();
        for kind in &settings.sandboxes {
            match self.try_kind(*kind) {
                Err(ShellError::Sandbox { reason }) => failures.push(format!("{kind}: {reason}")),
                other => return other,
            }
        }
        if failures.is_empty() {
            failures.push("the settings allow no kind of sandbox".to_owned());
        }
        let reason = failures.join("; ");
        match settings.policy {
            SandboxPolicy::Require => Err(ShellError::NoSandbox { reason }),
            SandboxPolicy::Auto | SandboxPolicy::Off => confine::try_sandbox(self, Sandbox::None { reason }),
        }
    }

    /// Tries one kind of sandbox; [`ShellError::Sandbox`] when it does not work.
    fn try_kind(&self, kind: SandboxKind) -> Result<Sandbox, ShellError> {
        let sandbox = match kind {
            SandboxKind::Bubblewrap => {
                let found = settings::find_bubblewrap(self.settings.bubblewrap.as_deref());
                let program = found.map_err(|reason| ShellError::Sandbox { reason })?;
                Sandbox::Bubblewrap { program, is_filtered: false }
            }
            SandboxKind::Namespaces => Sandbox::Namespaces { is_filtered: false },
            SandboxKind::Landlock => Sandbox::Landlock { abi: 0 },
        };
        confine::try_sandbox(self, sandbox)
    }
}

/// Creates the working folder, readable only by this user, if it is missing; returns its full path.
fn prepare_folder(folder: &Path) -> Result<PathBuf, ShellError> {
    let cannot = |source| ShellError::Folder { path: folder.to_owned(), source };
    files::create_private_folder(folder).map_err(cannot)?;
    // In a world-writable folder, another user could have created the folder, or a link to one of
    // ours.
    for data in [fs::symlink_metadata(folder), fs::metadata(folder)] {
        if !files::is_own(&data.map_err(cannot)?) {
            return Err(ShellError::OtherOwner { path: folder.to_owned() });
        }
    }
    let full = folder.canonicalize().map_err(cannot)?;
    // A sandbox around the root folder would contain nothing.
    if full.parent().is_none() { Err(ShellError::Root { path: full }) } else { Ok(full) }
}
