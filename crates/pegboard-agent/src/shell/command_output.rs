//! What a command did.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A limit that ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ending {
    /// It ran too long.
    Timeout,
    /// It occupied too much memory.
    Memory,
    /// While it ran, so much memory of the machine was used up that it must have been to
    /// blame, though no process of it shows that.
    Machine,
    /// It had too many processes or threads.
    Processes,
    /// Its working folder held too much, too many files, or what could not be measured.
    Disk,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => "the time limit",
            Self::Memory => "the memory limit",
            Self::Machine => "low memory on the machine",
            Self::Processes => "the process limit",
            Self::Disk => "the disk limit of the working folder",
        })
    }
}

/// How a command ended and what it printed, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its exit code; 128 and more for a signal.
    pub exit_code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// The limit that ended it, if one did.
    pub ended_by: Option<Ending>,
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit_code: {}\nstdout:\n{}\nstderr:\n{}", self.exit_code, self.stdout, self.stderr)?;
        match self.ended_by {
            Some(ending) if self.stderr.is_empty() || self.stderr.ends_with('\n') => write!(f, "ended by {ending}"),
            Some(ending) => write!(f, "\nended by {ending}"),
            None => Ok(()),
        }
    }
}
