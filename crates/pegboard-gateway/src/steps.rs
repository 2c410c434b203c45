//! The steps of a call. `pipeline.rs` defines their order.

pub(crate) mod arguments;
pub(crate) mod measure;
pub(crate) mod offload;
pub(crate) mod pins;
pub(crate) mod policy;
pub(crate) mod resolve;
