//! Why a command could not be run.

use std::{io, path::PathBuf};

/// Why a command could not be run. A command that ran and failed is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// There is no program to run commands under.
    #[error("the `pegboard` program, which runs commands, was not found")]
    NoProgram,
    /// A sandbox is required, but none works on this machine.
    #[error("no sandbox is available on this machine ({reason})")]
    NoSandbox {
        /// The sandboxes that were tried, and why they failed.
        reason: String,
    },
    /// The working folder cannot be created or opened.
    #[error("cannot use the working folder `{path}`")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The working folder, or the link to it, belongs to another user.
    #[error("`{path}` cannot be the working folder: it belongs to another user")]
    OtherOwner {
        /// The folder.
        path: PathBuf,
    },
    /// The working folder is the root folder.
    #[error("`{path}` cannot be the working folder: it is the root directory")]
    Root {
        /// The folder.
        path: PathBuf,
    },
    /// The name or value of an environment variable is invalid.
    #[error("invalid environment variable `{name}`")]
    Variable {
        /// The name.
        name: String,
    },
    /// The command is longer than allowed.
    #[error("the command is {bytes} bytes, over the limit of {limit}")]
    TooLong {
        /// The length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The command contains a NUL byte.
    #[error("the command contains a NUL byte")]
    Nul,
    /// A path is not text.
    #[error("a path is not UTF-8")]
    Path {
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The private folder of the command cannot be created.
    #[error("cannot prepare the folder `{path}`")]
    Private {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The confining program cannot be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The sandbox could not be set up.
    #[error("cannot set up the sandbox: {reason}")]
    Sandbox {
        /// The message of the confining program.
        reason: String,
    },
    /// The confining program ended without a report.
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
    /// Returns what the user can do about the error, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoProgram => Some("install the `pegboard` program, or set its path"),
            Self::NoSandbox { .. } => Some(
                "install bubblewrap 0.7 or newer (Debian: `apt install bubblewrap`), allow user namespaces, or use \
                 Linux 5.13 or newer with Landlock and seccomp; `--sandbox off` (`SandboxPolicy::Off`) runs commands \
                 without a sandbox, as this user and with this user's files and network",
            ),
            Self::Root { .. } | Self::OtherOwner { .. } => Some("choose an empty folder of your own"),
            Self::TooLong { .. } => Some("write a script to a file in several steps, then run it"),
            Self::Lost { .. } => Some("use a `pegboard` program of the same version"),
            _ => None,
        }
    }
}
