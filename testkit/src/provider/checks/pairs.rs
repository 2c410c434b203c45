//! A result for every call, a call for every result, as each wire orders them.

pub(super) mod chat;
pub(super) mod gemini;
pub(super) mod messages;
pub(super) mod responses;
