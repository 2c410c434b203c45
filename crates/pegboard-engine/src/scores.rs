//! The score ranges of named tools and other hits.

/// Minimum score of tools that a query names exactly.
pub(crate) const NAMED: f64 = 0.9;

/// Maximum score of other tools: clearly less, so that the difference is visible.
pub(crate) const BELOW_NAMED: f64 = 0.89;
