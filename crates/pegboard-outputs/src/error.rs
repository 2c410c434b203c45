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
    /// A parameter is longer than it may be.
    #[error("`{name}` is longer than {limit} bytes")]
    TooLong {
        /// The parameter.
        name: &'static str,
        /// How long it may be.
        limit: usize,
    },
    /// A range begins behind the last character.
    #[error("start {start} exceeds file length {length}")]
    OutOfRange {
        /// Where it begins.
        start: u64,
        /// How many characters there are.
        length: u64,
    },
    /// A range of lines begins behind the last line.
    #[error("first_line {first} exceeds the number of lines {lines}")]
    BeyondLines {
        /// Where it begins.
        first: u64,
        /// How many lines there are.
        lines: usize,
    },
    /// No file of this conversation. The same words for everything else that a name can
    /// lead to, so that names cannot be tried out.
    #[error("`filename` is not an output of this conversation")]
    Unknown,
    /// The file cannot be read.
    #[error("cannot read the output")]
    Io(#[source] io::Error),
    /// The pattern is no regular expression, or too large a one.
    #[error("invalid `pattern`: {0}")]
    Pattern(String),
    /// There is no program to run queries.
    #[error("queries need the `pegboard` program, which was not found")]
    NoProgram,
    /// The program does not run.
    #[error("cannot start the program that runs queries")]
    Program(#[source] io::Error),
    /// The program runs, and is not ours.
    #[error("the program that runs queries failed: {0}")]
    OtherProgram(String),
    /// The filter is not jq.
    #[error("the filter is not valid: {0}")]
    Filter(String),
    /// The output is not JSON.
    #[error("the output is not JSON: {0}")]
    NotJson(String),
    /// The filter ended in an error.
    #[error("the filter failed: {0}")]
    Failed(String),
    /// The filter took too much memory.
    #[error("the filter used more than {0} MiB of memory")]
    Memory(u64),
    /// The filter took too much time.
    #[error("the filter used more than {0} s")]
    Time(u64),
    /// The filter or the output nests too deeply.
    #[error("the filter used more than {0} MiB of stack: it recurses too deeply, or the output is nested too deeply")]
    Depth(usize),
    /// The work was given up, as when the program ends.
    #[error("the request was cancelled")]
    Cancelled(#[source] tokio::task::JoinError),
}

impl ReadError {
    /// What can be done about it.
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
