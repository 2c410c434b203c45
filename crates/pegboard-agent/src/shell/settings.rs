//! The settings of a shell.

use std::{
    env, fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::platform;

/// Whether commands have to run in a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxPolicy {
    /// Commands run in the best sandbox that works on this machine. Without one,
    /// [`Shell::new`](super::Shell::new) fails.
    #[default]
    Require,
    /// Commands run in the best sandbox that works on this machine, and **without a sandbox
    /// where none works** (fail open). [`Shell::sandbox`](super::Shell::sandbox) returns which.
    Auto,
    /// Commands run without a sandbox.
    Off,
}

/// A kind of sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxKind {
    /// Namespaces that the program `bwrap` creates.
    Bubblewrap,
    /// Namespaces that this program creates itself.
    Namespaces,
    /// Landlock and a filter of system calls.
    Landlock,
}

impl SandboxKind {
    /// Returns all kinds, the best first. For root that is not bubblewrap: there, root's commands
    /// can change modes and times of the machine's device files.
    pub fn preferred() -> Vec<Self> {
        match platform::is_root() {
            true => vec![Self::Namespaces, Self::Bubblewrap, Self::Landlock],
            false => vec![Self::Bubblewrap, Self::Namespaces, Self::Landlock],
        }
    }
}

impl fmt::Display for SandboxKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Namespaces => "namespaces",
            Self::Landlock => "Landlock",
        })
    }
}

/// The settings of a [`Shell`](super::Shell).
#[derive(Clone)]
pub struct ShellSettings {
    /// The working folder. It is created if it is missing; files in it are kept.
    pub folder: PathBuf,
    /// Whether commands have to run in a sandbox.
    pub policy: SandboxPolicy,
    /// The kinds of sandbox that may be used, in the order in which they are tried.
    pub sandboxes: Vec<SandboxKind>,
    /// The program `bwrap`; by default it is searched in `PATH`.
    pub bubblewrap: Option<PathBuf>,
    /// Timeout of a command that does not request one.
    pub timeout: Duration,
    /// Maximum timeout that a command may request.
    pub max_timeout: Duration,
    /// Maximum memory of all processes of a command together. A single process cannot allocate
    /// more.
    pub memory_bytes: u64,
    /// Maximum number of concurrent processes of a command.
    pub max_processes: usize,
    /// Maximum size of the working folder. A folder that is larger already must not grow.
    pub disk_bytes: u64,
    /// Maximum number of files and folders in the working folder.
    pub max_files: usize,
    /// Maximum size of one file.
    pub max_file_bytes: u64,
    /// Maximum size of the folder for temporary files, if that is in memory.
    pub temporary_bytes: u64,
    /// Maximum number of bytes kept of each of standard output and standard error: the start and
    /// the end.
    pub output_bytes: usize,
    /// Additional environment variables; `PATH` and `LANG` can be replaced.
    pub environment: Vec<(String, String)>,
    /// Files and folders that commands may read in addition to the system's, for example an
    /// interpreter below a home folder.
    pub readable: Vec<PathBuf>,
    /// Maximum length of a command in bytes.
    pub command_bytes: usize,
}

impl ShellSettings {
    /// Creates the default settings with this working folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            folder: folder.into(),
            policy: SandboxPolicy::default(),
            sandboxes: SandboxKind::preferred(),
            bubblewrap: None,
            timeout: Duration::from_secs(120),
            max_timeout: Duration::from_secs(600),
            memory_bytes: 1024 * MIB,
            max_processes: 128,
            disk_bytes: 1024 * MIB,
            max_files: 100_000,
            max_file_bytes: 512 * MIB,
            temporary_bytes: 64 * MIB,
            output_bytes: 256 * 1024,
            environment: Vec::new(),
            readable: Vec::new(),
            command_bytes: 64 * 1024,
        }
    }
}

impl fmt::Debug for ShellSettings {
    /// Variables are shown by name: their values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&str> = self.environment.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ShellSettings")
            .field("folder", &self.folder)
            .field("policy", &self.policy)
            .field("sandboxes", &self.sandboxes)
            .field("bubblewrap", &self.bubblewrap)
            .field("timeout", &self.timeout)
            .field("max_timeout", &self.max_timeout)
            .field("memory_bytes", &self.memory_bytes)
            .field("max_processes", &self.max_processes)
            .field("disk_bytes", &self.disk_bytes)
            .field("max_files", &self.max_files)
            .field("max_file_bytes", &self.max_file_bytes)
            .field("temporary_bytes", &self.temporary_bytes)
            .field("output_bytes", &self.output_bytes)
            .field("environment", &variables)
            .field("readable", &self.readable)
            .field("command_bytes", &self.command_bytes)
            .finish()
    }
}

/// The address and the token of the tool API that commands call.
#[derive(Clone)]
pub struct ApiAccess {
    /// The address on this machine.
    pub address: SocketAddr,
    /// The token.
    pub token: String,
}

impl fmt::Debug for ApiAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Finds the program `bwrap`; on failure returns the reason.
pub(super) fn find_bubblewrap(given: Option<&Path>) -> Result<PathBuf, String> {
    match given {
        // The confining program runs elsewhere, so the path must be a full one.
        Some(path) => path.canonicalize().map_err(|error| format!("no bubblewrap at `{}`: {error}", path.display())),
        None => {
            let paths = env::var_os("PATH").unwrap_or_default();
            let mut candidates = env::split_paths(&paths).map(|folder| folder.join("bwrap"));
            let found = candidates.find(|path| path.is_absolute() && path.is_file());
            found.ok_or_else(|| "no program `bwrap` in `PATH`".to_owned())
        }
    }
}
