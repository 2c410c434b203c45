//! What each method does.

pub(crate) mod methods;
pub(crate) mod tools;
