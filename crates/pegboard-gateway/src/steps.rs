//! The steps of a call, each on its own. `pipeline.rs` has their order.

pub(crate) mod arguments;
pub(crate) mod measure;
pub(crate) mod pins;
pub(crate) mod policy;
pub(crate) mod resolve;
