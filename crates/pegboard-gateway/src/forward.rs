//! Forwarding of calls to servers.

pub(crate) mod calls;
pub(crate) mod suspended;
