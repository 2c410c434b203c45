//! What each method does.

pub(crate) mod entries;
pub(crate) mod lists;
