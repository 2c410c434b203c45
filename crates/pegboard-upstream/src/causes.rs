//! Errors as one line for people and models.

use std::error::Error;

/// An error with everything that led to it.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some errors repeat what is below them.
        let below = error.to_string();
        if !text.ends_with(&below) {
            text.push_str(&format!(": {below}"));
        }
        cause = error.source();
    }
    text
}
