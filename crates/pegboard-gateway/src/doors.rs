//! Where requests come in, and their answers go out.

pub(crate) mod http;
pub(crate) mod legacy_form;
mod stdio;
