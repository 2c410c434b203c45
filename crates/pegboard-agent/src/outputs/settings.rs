//! The settings of offloaded outputs.

use std::{path::PathBuf, time::Duration};

use pegboard_outputs::{QueryLimits, SearchLimits};

const MIB: usize = 1024 * 1024;

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
