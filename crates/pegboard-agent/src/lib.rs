//! An agent that finds its tools.

pub mod code;
pub mod outputs;
pub mod program;
pub mod shell;
