//! Why a command could not be run.

use std::{io, path::PathBuf};

/// Why a command could not be run. A command that ran and failed is no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// There is no program to run commands under.
    #[error("the `pegboard` program, which runs commands, was not found")]
    NoProgram,
    /// A sandbox is required, and none works on this machine.
    #[error("no sandbox is available on this machine ({reason})")]
    NoSandbox {
        /// What was tried, and what was wrong with it.
        reason: String,
    },
    /// The working folder cannot be made or found.
    #[error("cannot use the working folder `{path}`")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// The working folder, or the link to it, is somebody else's.
    #[error("`{path}` cannot be the working folder: it belongs to another user")]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// Everything lies below the working folder.
    #[error("`{path}` cannot be the working folder: it is the root directory")]
    Root {
        /// The folder.
        path: PathBuf,
    },
    /// The name or value of a variable cannot be one.
    #[error("invalid environment variable `{name}`")]
    Variable {
        /// The name.
        name: String,
    },
    /// The command is longer than allowed.
    #[error("the command is {bytes} bytes, over the limit of {limit}")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The command contains a byte that no command can contain.
    #[error("the command contains a NUL byte")]
    Nul,
    /// A path is not text.
    #[error("a path is not UTF-8")]
    Path {
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The folder for what only this command uses cannot be made.
    #[error("cannot prepare the folder `{path}`")]
    Private {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: io::Error,
    },
    /// The confining program cannot be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The sandbox could not be set up.
    #[error("cannot set up the sandbox: {reason}")]
    Sandbox {
        /// What the confining program says.
        reason: String,
    },
    /// The confining program ended or fell silent.
    #[error("`{program}` did not report how the command ended")]
    Lost {
        /// The program.
        program: String,
    },
    /// Commands cannot be run on this system.
    #[error("running commands is not supported on this system")]
    System,
}

impl ShellError {
    /// What to do about it, where something can be done.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoProgram => Some("install the `pegboard` program, or set its path"),
            Self::NoSandbox { .. } => Some(
                "install bubblewrap 0.7 or newer (Debian: `apt install bubblewrap`), allow user namespaces, or use \
                 Linux 5.13 or newer with Landlock and seccomp; `--sandbox off` (`SandboxPolicy::Off`) runs commands \
                 without a sandbox, as this user and with this user's files and network",
            ),
            Self::Root { .. } | Self::Foreign { .. } => Some("choose an empty folder of your own"),
            Self::TooLong { .. } => Some("write a script to a file in several steps, then run it"),
            Self::Lost { .. } => Some("use a `pegboard` program of the same version"),
            _ => None,
        }
    }
}
