//! The sandbox that contains a command, and its description.

use std::{fmt, path::PathBuf};

/// The sandbox of a shell. Its `Display` text describes what is contained and what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sandbox {
    /// Own namespaces, created by bubblewrap.
    Bubblewrap {
        /// The program `bwrap`.
        program: PathBuf,
        /// Whether system calls are filtered too.
        is_filtered: bool,
    },
    /// Own namespaces, created by this program.
    Namespaces {
        /// Whether system calls are filtered too.
        is_filtered: bool,
    },
    /// Landlock and a system call filter, applied by the process to itself.
    Landlock {
        /// The version of Landlock in the kernel; newer ones restrict more.
        abi: u32,
    },
    /// No sandbox.
    None {
        /// The reason.
        reason: String,
    },
}

/// Accesses that neither Landlock nor a system call filter can restrict.
const NEVER_RESTRICTED: [&str; 2] = [
    "whether other files exist, their sizes, modes and times, and where links lead",
    "network access to other hosts on the port of the tool API",
];

/// The restrictions that each version of Landlock added.
const ADDED_RESTRICTIONS: [(u32, &str); 3] =
    [(4, "TCP connections"), (5, "commands to devices"), (6, "signals to this user's other processes")];

/// Lists what Landlock of this version does not restrict.
fn list_unrestricted(abi: u32) -> String {
    let missing = ADDED_RESTRICTIONS.iter().filter(|(since, _)| abi < *since).map(|(_, what)| *what);
    missing.chain(NEVER_RESTRICTED).collect::<Vec<_>>().join("; ")
}

/// Writes the description of a sandbox with namespaces.
fn describe_namespaces(f: &mut fmt::Formatter<'_>, by: &str, is_filtered: bool) -> fmt::Result {
    write!(
        f,
        "commands run in {by}{}: they can use the system's programs (read-only), their working folder and the tool \
         API, but no other file, process or network{}",
        if is_filtered { " with a system call filter" } else { "" },
        if is_filtered { "" } else { "; not contained: this session's keys" },
    )
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bubblewrap { is_filtered, .. } => describe_namespaces(f, "bubblewrap", *is_filtered),
            Self::Namespaces { is_filtered } => {
                describe_namespaces(f, "their own namespaces (without bubblewrap)", *is_filtered)
            }
            Self::Landlock { abi } => write!(
                f,
                "commands run under Landlock {abi} with a system call filter: they can read the system's programs, \
                 write to their working folder and open no other file; they cannot change modes, owners, times or \
                 attributes of any file, so `chmod`, `cp -p`, `tar -x` and `git init` fail or warn (bubblewrap or \
                 user namespaces avoid that); not contained: {}",
                list_unrestricted(*abi),
            ),
            Self::None { reason } => write!(
                f,
                "commands run WITHOUT A SANDBOX ({reason}): they can read and change everything that this user can, \
                 and reach every network; time, memory, processes, disk and output are limited, but a malicious \
                 command can evade these limits"
            ),
        }
    }
}
