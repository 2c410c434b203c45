//! The messages between this process, the confining program and its part inside the sandbox: one
//! JSON object each, between processes of the same version.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::shell::command_output::ExceededLimit;

/// The order to run a command, one line on the confining program's standard input. Not an argument:
/// other users can read arguments, and it contains a token.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct CommandSpec {
    pub(crate) sandbox: Kind,
    pub(crate) filter: Filter,
    pub(crate) command: String,
    pub(crate) folder: PathBuf,
    /// A folder for this command only, removed at its end.
    pub(crate) private: PathBuf,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) api: Option<ApiSpec>,
    pub(crate) limits: CommandLimits,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Bubblewrap { program: PathBuf },
    Namespaces,
    Landlock,
    None,
}

impl Kind {
    /// Returns whether commands have their own file system, processes and network.
    pub(crate) fn has_own_namespaces(&self) -> bool {
        matches!(self, Self::Bubblewrap { .. } | Self::Namespaces)
    }
}

/// Whether system calls are filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Filter {
    Never,
    /// If the kernel supports it.
    Try,
    /// Required: without the filter the command is not run.
    Must,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ApiSpec {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct CommandLimits {
    pub(crate) timeout_ms: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) max_processes: usize,
    pub(crate) disk_bytes: u64,
    pub(crate) max_files: usize,
    pub(crate) max_file_bytes: u64,
    pub(crate) temporary_bytes: u64,
    pub(crate) output_bytes: usize,
}

/// The report of the confining program, one line on its standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The command ran.
    Ran {
        exit_code: u8,
        stdout: String,
        stderr: String,
        ended_by: Option<ExceededLimit>,
        /// The version of Landlock that restricted the command; zero without.
        landlock: u32,
        /// Whether its system calls were filtered.
        is_filtered: bool,
    },
    /// The command did not run.
    Failed { reason: String },
}

/// The order to the part inside the sandbox, on its standard input.
#[derive(Serialize, Deserialize)]
pub(crate) struct Inside {
    pub(crate) shell: PathBuf,
    pub(crate) command: String,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) memory_bytes: u64,
    pub(crate) max_file_bytes: u64,
    /// Maximum number of processes and threads of this user, including those outside.
    pub(crate) max_tasks: u64,
    pub(crate) relay: Option<Relay>,
    pub(crate) landlock: Option<Rules>,
    pub(crate) filter: Filter,
    /// Whether it is the first process of its PID namespace, which has to wait for the others.
    pub(crate) is_init: bool,
}

/// The layout of the file system of a sandbox with our own namespaces. It is an argument, which
/// other users can read, so it contains no secrets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// The folder on which the first file system is mounted.
    pub(crate) base: PathBuf,
    /// This program.
    pub(crate) program: PathBuf,
    /// The working folder.
    pub(crate) folder: PathBuf,
    pub(crate) readable: Vec<PathBuf>,
    /// The socket of the tool API.
    pub(crate) socket: Option<PathBuf>,
    pub(crate) temporary_bytes: u64,
}

/// A port inside the sandbox that is connected to a socket outside.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Relay {
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
}

/// The accesses that Landlock allows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rules {
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) port: Option<u16>,
}
