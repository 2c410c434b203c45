//! Errors of creating and restoring sessions.

use super::saved::FORMAT;

/// The reason why a session cannot be created or restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A dialect that selects among tools was given none.
    #[error("tools is required")]
    NoTools,
    /// A saved session that this build cannot read.
    #[error("the saved session has format {found}; this version reads format {FORMAT}")]
    Format {
        /// What it says of itself.
        found: String,
    },
    /// A saved session of another dialect.
    #[error("the saved session uses the dialect `{found}`")]
    OtherDialect {
        /// Which.
        found: String,
    },
    /// A saved session that lacks something.
    #[error("the saved session has no `{field}`")]
    Incomplete {
        /// What it lacks.
        field: &'static str,
    },
}
