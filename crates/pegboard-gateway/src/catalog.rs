//! What the servers offer, and what each caller sees of it.

pub(crate) mod directory;
pub(crate) mod uris;
pub(crate) mod views;
