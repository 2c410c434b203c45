//! Errors of offloaded outputs.

use std::{io, path::PathBuf};

use pegboard_discovery::host::arguments::ArgumentError;

/// Why an output could not be offloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The session's identifier cannot be used as a folder name.
    #[error("invalid session name `{session}`: expected 1 to {limit} bytes")]
    Session {
        /// The identifier, shortened.
        session: String,
        /// The maximum length.
        limit: usize,
    },
    /// The output is too large.
    #[error("the output is {bytes} bytes, over the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The folder cannot be created, or belongs to another user.
    #[error("cannot use the folder `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The task was cancelled, for example at shutdown.
    #[error("the request was cancelled")]
    Cancelled(#[source] tokio::task::JoinError),
}

impl OutputError {
    /// Returns what the user can do about the error, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TooLarge { .. } => Some("ask the tool for less, for example page by page"),
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or choose another folder for outputs")
            }
            Self::Folder { .. } => Some("choose a writable folder that belongs to you"),
            _ => None,
        }
    }
}

/// Why an output could not be read; the model reads the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The arguments are invalid.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// A parameter is too long.
    #[error("`{name}` is longer than {limit} bytes")]
    TooLong {
        /// The parameter.
        name: &'static str,
        /// The maximum length.
        limit: usize,
    },
    /// A range begins after the last character.
    #[error("start {start} exceeds file length {length}")]
    OutOfRange {
        /// The start of the range.
        start: u64,
        /// The number of characters in the file.
        length: u64,
    },
    /// The file is not an output of this conversation. The message is the same for every other
    /// path, so that the model cannot probe for files.
    #[error("`filename` is not an output of this conversation")]
    Unknown,
    /// The file cannot be read.
    #[error("cannot read the output")]
    Io(#[source] io::Error),
    /// The pattern is not a valid regular expression, or too large.
    #[error("invalid `pattern`: {0}")]
    Pattern(String),
    /// There is no program that runs queries.
    #[error("queries need the `pegboard` program, which was not found")]
    NoProgram,
    /// The program cannot be started.
    #[error("cannot start the program that runs queries")]
    Program(#[source] io::Error),
    /// The program is not a `pegboard` binary.
    #[error("the program that runs queries failed: {0}")]
    OtherProgram(String),
    /// The filter is not valid jq.
    #[error("the filter is not valid: {0}")]
    Filter(String),
    /// The output is not JSON.
    #[error("the output is not JSON: {0}")]
    NotJson(String),
    /// The filter returned an error.
    #[error("the filter failed: {0}")]
    Failed(String),
    /// The filter used too much memory.
    #[error("the filter used more than {0} MiB of memory")]
    Memory(u64),
    /// The filter used too much time.
    #[error("the filter used more than {0} s")]
    Time(u64),
    /// The filter or the output is nested too deeply.
    #[error("the filter used more than {0} MiB of stack: it recurses too deeply, or the output is nested too deeply")]
    Depth(usize),
    /// The task was cancelled, for example at shutdown.
    #[error("the request was cancelled")]
    Cancelled(#[source] tokio::task::JoinError),
}

impl ReadError {
    /// Returns what the model can do about the error, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unknown => Some("pass the file name exactly as it was given; old outputs are removed"),
            Self::NoProgram => Some("install `pegboard`, or set its path with `Agent::builder().program(…)`"),
            Self::OtherProgram(_) => {
                Some("set the path of a `pegboard` of the same version with `Agent::builder().program(…)`")
            }
            Self::NotJson(_) => Some("read or search the output instead"),
            Self::Memory(_) | Self::Time(_) => Some("narrow the filter, or search the output instead"),
            Self::Pattern(_) => Some("escape literal characters, such as `\\(`; look-around is not supported"),
            _ => None,
        }
    }
}
