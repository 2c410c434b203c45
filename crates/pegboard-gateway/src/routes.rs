//! Handlers of methods other than tool calls.

pub(crate) mod entries;
pub(crate) mod lists;
