//! What contains a command, in words.

use std::{fmt, path::PathBuf};

use super::spec::{Filter, Kind};

/// What contains the commands of a shell. Its text says what is contained and what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sandbox {
    /// Namespaces of their own, made by bubblewrap.
    Bubblewrap {
        /// The program `bwrap`.
        program: PathBuf,
        /// Whether system calls are filtered too.
        is_filtered: bool,
    },
    /// Restrictions that a process puts on itself.
    Landlock {
        /// The version of Landlock in the kernel; newer ones restrict more.
        abi: u32,
        /// Whether system calls are filtered too.
        is_filtered: bool,
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
            Self::Bubblewrap { program, .. } => Kind::Bubblewrap { program: program.clone() },
            Self::Landlock { .. } => Kind::Landlock,
            Self::None { .. } => Kind::None,
        }
    }

    /// What has been tried must work.
    pub(super) fn filter(&self) -> Filter {
        match self {
            Self::Bubblewrap { is_filtered, .. } | Self::Landlock { is_filtered, .. } if *is_filtered => Filter::Must,
            _ => Filter::Never,
        }
    }

    /// The same, with what was found when it was tried.
    #[cfg(unix)]
    pub(super) fn found(self, landlock: u32, is_filtered: bool) -> Self {
        match self {
            Self::Bubblewrap { program, .. } => Self::Bubblewrap { program, is_filtered },
            Self::Landlock { .. } => Self::Landlock { abi: landlock, is_filtered },
            Self::None { reason } => Self::None { reason },
        }
    }
}

/// What Landlock cannot restrict at all, and no filter can either.
const NEVER: [&str; 3] = [
    "looking up whether other files are there, their sizes and times, and where links lead",
    "changing modes, owners and times of this user's other files",
    "other hosts at the port of the tool API",
];

/// What each version of Landlock added, and whether a filter of system calls does without it.
const ADDED: [(u32, &str, bool); 6] = [
    (3, "cutting off files", false),
    (4, "TCP connections", false),
    (5, "commands to devices", false),
    (6, "signals to this user's other processes", false),
    (6, "abstract sockets", true),
    (9, "sockets that are files", true),
];

/// What is open without the filter, whatever the version of Landlock.
const UNFILTERED: [&str; 4] = [
    "network traffic other than TCP, and TCP by other names",
    "limits and priorities of this user's other processes",
    "this session's keys",
    "memory that outlives its process",
];

/// What Landlock of this version leaves open.
fn open(abi: u32, is_filtered: bool) -> String {
    let missing = ADDED.iter().filter(|(since, _, by_filter)| abi < *since && !(is_filtered && *by_filter));
    let unfiltered = UNFILTERED.iter().filter(|_| !is_filtered);
    let all: Vec<&str> = missing.map(|(_, what, _)| *what).chain(unfiltered.copied()).chain(NEVER).collect();
    all.join("; ")
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bubblewrap { is_filtered, .. } => write!(
                f,
                "commands run in bubblewrap{}: they see the system's programs, their working folder and the tool API, \
                 and no other file, process or network{}",
                if *is_filtered { " with a filter of system calls" } else { "" },
                if *is_filtered { "" } else { "; not contained: this session's keys" },
            ),
            Self::Landlock { abi, is_filtered } => write!(
                f,
                "commands run under Landlock {abi} {} a filter of system calls: they read the system's programs and \
                 write their working folder, and open no other file; not contained: {}",
                if *is_filtered { "with" } else { "WITHOUT" },
                open(*abi, *is_filtered),
            ),
            Self::None { reason } => write!(
                f,
                "commands run WITHOUT A SANDBOX ({reason}): they can read and change everything that this user can, \
                 and reach every network; time, memory, processes, disk and output are limited, and a command that \
                 means harm can shake these limits off"
            ),
        }
    }
}
