//! What clients want to hear about, and what servers say of their own accord.

pub(crate) mod listeners;
pub(crate) mod notices;
pub(crate) mod watches;
