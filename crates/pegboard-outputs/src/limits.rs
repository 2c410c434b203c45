//! Limits of reading.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

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
