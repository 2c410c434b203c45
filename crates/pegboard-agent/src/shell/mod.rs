//! A model's shell commands, confined.
//!
//! A command runs in a working folder of its own with a clean environment, in a sandbox
//! where the system has one, and within limits on time, memory, processes, disk and output.
//! Nothing that it starts outlives it, nor us.
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
//! The programs in the middle are ours alone. The watcher looks at everything below it and
//! reports how the command ended. Its standard input is both the order and the life line: when
//! that closes, whoever ordered is gone, and so is the command. The keeper ends what is left
//! when the watcher is killed.

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
    command_output::{Ending, Ran},
    error::ShellError,
    sandbox::Sandbox,
    settings::{Api, SandboxKind, SandboxPolicy, ShellSettings},
};
use crate::program::Program;

/// Where the working folder is in a sandbox with a file system of its own.
pub(crate) const WORKSPACE: &str = "/workspace";

/// Runs commands, each in a process of its own and all in one working folder.
#[derive(Debug)]
pub struct Shell {
    settings: ShellSettings,
    program: Program,
    api: Option<Api>,
    sandbox: Sandbox,
}

impl Shell {
    /// Prepares the working folder and finds the best sandbox by trying: this starts the
    /// program once or twice and waits for it, some hundredths of a second.
    pub fn new(mut settings: ShellSettings, program: Option<Program>, api: Option<Api>) -> Result<Self, ShellError> {
        let program = program.ok_or(ShellError::NoProgram)?;
        settings.folder = prepare_folder(&settings.folder)?;
        confine::remove_forgotten();
        let is_variable =
            |(name, value): &(String, String)| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
        if let Some((name, _)) = settings.environment.iter().find(|variable| !is_variable(variable)) {
            return Err(ShellError::Variable { name: name.clone() });
        }
        let mut shell = Self { settings, program, api, sandbox: Sandbox::None { reason: String::new() } };
        shell.sandbox = shell.choose_sandbox()?;
        Ok(shell)
    }

    /// What contains the commands.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// The working folder, as commands see it.
    pub fn folder(&self) -> &Path {
        match self.sandbox {
            Sandbox::Bubblewrap { .. } | Sandbox::Namespaces { .. } => Path::new(WORKSPACE),
            Sandbox::Landlock { .. } | Sandbox::None { .. } => &self.settings.folder,
        }
    }

    /// Runs one command to its end, for at most `timeout` and at most the longest time that
    /// is allowed. Dropping the future ends everything that the command has started.
    pub async fn run(&self, command: &str, timeout: Option<Duration>) -> Result<Ran, ShellError> {
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

/// Makes the working folder if it is missing, for us alone; its full path.
fn prepare_folder(folder: &Path) -> Result<PathBuf, ShellError> {
    let cannot = |source| ShellError::Folder { path: folder.to_owned(), source };
    files::create_private_folder(folder).map_err(cannot)?;
    // Where everybody can write, somebody could have put a folder of theirs, or a link to one
    // of ours, in its place.
    for data in [fs::symlink_metadata(folder), fs::metadata(folder)] {
        if !files::is_own(&data.map_err(cannot)?) {
            return Err(ShellError::Foreign { path: folder.to_owned() });
        }
    }
    let full = folder.canonicalize().map_err(cannot)?;
    // Everything lies below it: a sandbox around it would contain nothing.
    if full.parent().is_none() { Err(ShellError::Root { path: full }) } else { Ok(full) }
}
