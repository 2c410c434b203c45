//! Errors of reading.

use std::io;

use pegboard_discovery::host::arguments::ArgumentError;

/// Error of reading an output. Its message is the result that the model gets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The arguments are wrong.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// A parameter exceeds its maximum length.
    #[error("`{name}` is longer than {limit} bytes")]
    TooLong {
        /// The parameter.
        name: &'static str,
        /// The maximum length in bytes.
        limit: usize,
    },
    /// The range starts after the last character.
    #[error("start {start} exceeds file length {length}")]
    OutOfRange {
        /// The start of the range.
        start: u64,
        /// The number of characters of the output.
        length: u64,
    },
    /// The range of lines starts after the last line.
    #[error("first_line {first} exceeds the number of lines {lines}")]
    BeyondLines {
        /// The first line of the range.
        first: u64,
        /// The number of lines of the output.
        lines: usize,
    },
    /// The name is not an output of this conversation. The message does not depend on what else the
    /// name may lead to, so that names cannot be probed.
    #[error("`filename` is not an output of this conversation")]
    Unknown,
    /// The file cannot be read.
    #[error("cannot read the output")]
    Io(#[source] io::Error),
    /// The pattern is not a valid regular expression, or it is too large.
    #[error("invalid `pattern`: {0}")]
    Pattern(String),
    /// There is no program to run queries.
    #[error("queries need the `pegboard` program, which was not found")]
    NoProgram,
    /// The program that runs queries cannot be started.
    #[error("cannot start the program that runs queries")]
    Program(#[source] io::Error),
    /// The program is not a `pegboard` that runs queries.
    #[error("the program that runs queries failed: {0}")]
    OtherProgram(String),
    /// The filter is not valid jq.
    #[error("the filter is not valid: {0}")]
    Filter(String),
    /// The output is not JSON.
    #[error("the output is not JSON: {0}")]
    NotJson(String),
    /// The filter ended with an error.
    #[error("the filter failed: {0}")]
    Failed(String),
    /// The filter exceeded the memory limit.
    #[error("the filter used more than {0} MiB of memory")]
    Memory(u64),
    /// The filter exceeded the time limit.
    #[error("the filter used more than {0} s")]
    Time(u64),
    /// The filter or the output nests too deeply.
    #[error("the filter used more than {0} MiB of stack: it recurses too deeply, or the output is nested too deeply")]
    Depth(usize),
    /// The request was cancelled, for example because the program ends.
    #[error("the request was cancelled")]
    Cancelled(#[source] tokio::task::JoinError),
}

impl ReadError {
    /// Returns what the model or the user can do about the error.
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
