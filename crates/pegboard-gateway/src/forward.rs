//! Calls on their way to a server.

pub(crate) mod calls;
pub(crate) mod suspended;
