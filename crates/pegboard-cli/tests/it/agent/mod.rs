//! The agent from the outside, with the binary that runs its helper processes.

mod cli;
mod code;
mod outputs;
mod real;
mod shell;
mod specs;
