//! How much is too much, and how far reading may go.

use std::{path::PathBuf, time::Duration};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// When outputs are put aside, where, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSettings {
    /// Where outputs are kept, one folder in it for each session.
    pub folder: PathBuf,
    /// Outputs of more tokens than this (estimated) are put aside.
    pub threshold_tokens: usize,
    /// Characters of an output that stay in the conversation, beginning and end together.
    pub preview_chars: usize,
    /// How long outputs are kept.
    pub retention: Duration,
    /// Outputs of more bytes than this are refused.
    pub max_output_bytes: usize,
    /// How far a search may go.
    pub search: SearchLimits,
    /// How far a query may go.
    pub query: QueryLimits,
}

impl OutputSettings {
    /// The defaults, in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            threshold_tokens: 10_000,
            preview_chars: 4_000,
            retention: Duration::from_secs(7 * 24 * 60 * 60),
            max_output_bytes: 256 * MIB,
            search: SearchLimits::default(),
            query: QueryLimits::default(),
        }
    }
}

/// What a search of an output may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// How long it may take; what was found until then is the answer.
    pub wall: Duration,
    /// How long a pattern may be.
    pub pattern_bytes: usize,
    /// How large a pattern may become when it is compiled.
    pub compiled_bytes: usize,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { wall: Duration::from_secs(10), pattern_bytes: 4 * KIB, compiled_bytes: 10 * MIB }
    }
}

/// What a query of an output may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    /// Memory of the process that runs it. There, JSON takes up to fifteen times its size.
    pub memory_bytes: u64,
    /// Processor time, in whole seconds, at least one.
    pub cpu: Duration,
    /// Time by the clock on the wall.
    pub wall: Duration,
    /// How much it may print.
    pub output_bytes: usize,
    /// How long a filter may be.
    pub filter_bytes: usize,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 2 * 1024 * MIB as u64,
            cpu: Duration::from_secs(10),
            wall: Duration::from_secs(15),
            output_bytes: 256 * KIB,
            filter_bytes: 16 * KIB,
        }
    }
}
