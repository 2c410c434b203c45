//! The causes of errors, of which those of the HTTP client have layers.

use std::error::Error;

/// Returns the error with its causes in one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    pegboard_core::error_chain::with_causes(error, |error| error.is::<reqwest::Error>())
}
