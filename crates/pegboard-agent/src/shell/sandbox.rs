//! What contains a command, in words.

use std::{fmt, path::PathBuf};

use super::spec::Kind;

/// What contains the commands of a shell. Its text says what is contained and what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sandbox {
    /// Namespaces of their own, made by bubblewrap.
    Bubblewrap {
        /// The program `bwrap`.
        program: PathBuf,
    },
    /// Restrictions that a process puts on itself.
    Landlock {
        /// The version of Landlock in the kernel; newer ones restrict more.
        abi: u32,
    },
    /// Nothing.
    None {
        /// Why not.
        reason: String,
    },
}

impl Sandbox {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Bubblewrap { program } => Kind::Bubblewrap { program: program.clone() },
            Self::Landlock { .. } => Kind::Landlock,
            Self::None { .. } => Kind::None,
        }
    }
}

/// What Landlock cannot restrict at all.
const NEVER: [&str; 3] =
    ["network traffic other than TCP", "other hosts at the port of the tool API", "file modes and times"];

/// What each version of Landlock added.
const ADDED: [(u32, &str); 6] = [
    (3, "cutting off files"),
    (4, "TCP connections"),
    (5, "commands to devices"),
    (6, "signals to other processes"),
    (6, "abstract sockets"),
    (9, "sockets that are files"),
];

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bubblewrap { .. } => f.write_str(
                "commands run in bubblewrap: they see the system's programs, their working folder and the tool API, \
                 and no other file, process or network",
            ),
            Self::Landlock { abi } => {
                let missing = ADDED.iter().filter(|(since, _)| abi < since).map(|(_, what)| *what);
                let open: Vec<&str> = missing.chain(NEVER).collect();
                write!(
                    f,
                    "commands run under Landlock {abi}: they read the system's programs and write their working folder, \
                     and open no other file; not contained: {}",
                    open.join(", ")
                )
            }
            Self::None { reason } => write!(
                f,
                "commands run WITHOUT A SANDBOX ({reason}): they can read and change everything that this user can, \
                 and reach every network; only time, memory, processes, disk and output are limited"
            ),
        }
    }
}
