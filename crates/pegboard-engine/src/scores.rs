//! Where the scores of one kind of hit end and those of another begin.

/// Tools that a query names outright score at least this.
pub(crate) const NAMED: f64 = 0.9;

/// Other tools score at most this: clearly less, so that nobody has to guess.
pub(crate) const BELOW_NAMED: f64 = 0.89;
