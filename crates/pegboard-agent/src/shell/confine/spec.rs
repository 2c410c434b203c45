//! What this process, the confining program and its part inside the sandbox tell each other:
//! one JSON object each, by this version of the program to the same.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::shell::command_output::Ending;

/// The order to run a command, one line on the confining program's standard input: arguments
/// can be read by everybody, and it holds a token.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) sandbox: Kind,
    pub(crate) filter: Filter,
    pub(crate) command: String,
    pub(crate) folder: PathBuf,
    /// A folder for this command alone, removed at its end.
    pub(crate) private: PathBuf,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) api: Option<ApiSpec>,
    pub(crate) limits: Limits,
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
    /// Whether commands have a file system, processes and a network of their own.
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self, Self::Bubblewrap { .. } | Self::Namespaces)
    }
}

/// Whether system calls are filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Filter {
    Never,
    /// Where that works.
    Try,
    /// Or nothing is run.
    Must,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ApiSpec {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub(crate) timeout_ms: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) max_processes: usize,
    pub(crate) disk_bytes: u64,
    pub(crate) max_files: usize,
    pub(crate) max_file_bytes: u64,
    pub(crate) temporary_bytes: u64,
    pub(crate) output_bytes: usize,
}

/// What the confining program says at the end, one line on its standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The command ran.
    Ran {
        exit_code: u8,
        stdout: String,
        stderr: String,
        ended_by: Option<Ending>,
        /// The version of Landlock that restricted it; zero without.
        landlock: u32,
        /// Whether its system calls were filtered.
        is_filtered: bool,
    },
    /// It did not.
    Failed { reason: String },
}

/// The order to the part inside the sandbox: all of its standard input.
#[derive(Serialize, Deserialize)]
pub(crate) struct Inside {
    pub(crate) shell: PathBuf,
    pub(crate) command: String,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) memory_bytes: u64,
    pub(crate) max_file_bytes: u64,
    /// How many processes and threads this user may have, those outside included.
    pub(crate) max_tasks: u64,
    pub(crate) relay: Option<Relay>,
    pub(crate) landlock: Option<Rules>,
    pub(crate) filter: Filter,
    /// Whether it is the first process of its PID namespace, which has to wait for the others.
    pub(crate) is_init: bool,
}

/// What the file system of a sandbox of our own namespaces is made of: an argument, which
/// everybody can read, so that nothing secret is in it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// A folder to mount the first file system on.
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

/// A port inside the sandbox that stands for a socket outside.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Relay {
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
}

/// What Landlock leaves open.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rules {
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) port: Option<u16>,
}
