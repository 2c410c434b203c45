//! The output of a command.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The limit that ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExceededLimit {
    /// The time limit.
    Timeout,
    /// The memory limit.
    Memory,
    /// The machine ran low on memory while the command ran, and no single process shows why.
    Machine,
    /// The limit on processes and threads.
    Processes,
    /// The limits of the working folder on size and files, or its size could not be measured.
    Disk,
}

impl fmt::Display for ExceededLimit {
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

/// The exit code and output of a command, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit code; 128 and above for a signal.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The limit that ended the command, if any.
    pub ended_by: Option<ExceededLimit>,
}

impl fmt::Display for CommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit_code: {}\nstdout:\n{}\nstderr:\n{}", self.exit_code, self.stdout, self.stderr)?;
        match self.ended_by {
            Some(ending) if self.stderr.is_empty() || self.stderr.ends_with('\n') => write!(f, "ended by {ending}"),
            Some(ending) => write!(f, "\nended by {ending}"),
            None => Ok(()),
        }
    }
}
