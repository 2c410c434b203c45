//! One module for each command.

pub(crate) mod agent;
pub(crate) mod approve;
pub(crate) mod bench;
pub(crate) mod catalog;
pub(crate) mod completions;
pub(crate) mod connect;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod import;
pub(crate) mod lint;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod man;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod status;
pub(crate) mod tokens;
pub(crate) mod usage;
