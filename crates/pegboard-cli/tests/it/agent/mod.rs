//! The agent from the outside, with the binary that does what must not be done in its process.

mod cli;
mod code;
mod outputs;
mod real;
mod shell;
mod specs;
