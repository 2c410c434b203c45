//! Parsers of this crate that are not public, for the fuzz targets alone.

use serde_json::Value;

pub use crate::embeddings::fuzzing::{embeddings, refusal_without};
use crate::wire::{Delta, Wire, WireError};

/// The whole answer that these events make, and its pieces.
///
/// # Errors
/// When they make none.
pub fn collect(wire: Wire, events: &[(String, Value)]) -> Result<(Value, Vec<Delta>), WireError> {
    let mut collector = wire.format().collector();
    let mut deltas = Vec::new();
    for (kind, data) in events {
        deltas.extend(collector.event(kind, data)?);
    }
    Ok((collector.finish()?, deltas))
}
