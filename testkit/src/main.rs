//! `pegboard-fixture`: the MCP server that tests put behind the gateway.
//!
//! It speaks both eras of the protocol over stdin and stdout, offers every tool, prompt
//! and resource that the official conformance suite asks for by name, and on request
//! misbehaves in the ways that real servers do. It is written against the specification
//! and shares no code with the gateway, so that a mistake in one is not repeated, and
//! thereby hidden, in the other.

mod args;
mod call;
mod calls;
mod changes;
mod completion;
mod dispatch;
mod handshake;
mod input;
mod pages;
mod prompts;
mod questions;
mod resources;
mod seal;
mod server;
mod subscriptions;
mod tools;
mod wire;

use std::{
    io::{Write, stderr, stdout},
    process::ExitCode,
};

use args::{Args, Parsed};

fn main() -> ExitCode {
    match Args::parse(std::env::args().skip(1)) {
        Ok(Parsed::Run(args)) => server::run(args),
        Ok(Parsed::Help) => {
            // A reader that went away needs no help text.
            let _ = stdout().write_all(args::USAGE.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(stderr(), "pegboard-fixture: {error}\n\n{}", args::USAGE);
            ExitCode::from(2)
        }
    }
}
