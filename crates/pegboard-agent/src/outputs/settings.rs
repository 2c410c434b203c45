//! The settings of offloaded outputs.

use std::{path::PathBuf, time::Duration};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// When outputs are offloaded, where, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSettings {
    /// The folder of outputs, with one folder in it for each session.
    pub folder: PathBuf,
    /// Number of tokens (estimated) above which outputs are offloaded.
    pub threshold_tokens: usize,
    /// Number of characters of the preview, start and end together.
    pub preview_chars: usize,
    /// How long outputs are kept.
    pub retention: Duration,
    /// Maximum size of an output in bytes; larger ones are rejected.
    pub max_output_bytes: usize,
    /// The limits of a search.
    pub search: SearchLimits,
    /// The limits of a query.
    pub query: QueryLimits,
}

impl OutputSettings {
    /// Creates the default settings with this folder.
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

/// The limits of a search in an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// Maximum duration; the results up to then are returned.
    pub wall: Duration,
    /// Maximum length of a pattern in bytes.
    pub pattern_bytes: usize,
    /// Maximum size of a compiled pattern.
    pub compiled_bytes: usize,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { wall: Duration::from_secs(10), pattern_bytes: 4 * KIB, compiled_bytes: 10 * MIB }
    }
}

/// The limits of a query of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    /// Maximum memory of the process. JSON takes up to fifteen times its size there.
    pub memory_bytes: u64,
    /// Maximum CPU time, in whole seconds, at least one.
    pub cpu: Duration,
    /// Maximum duration.
    pub wall: Duration,
    /// Maximum size of the output in bytes.
    pub output_bytes: usize,
    /// Maximum length of a filter in bytes.
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
