//! Child processes: finding their programs, supervising them, and leaving none behind.
//!
//! [`program`] finds the program of a command as a shell would. [`supervise`] is the small process
//! between Pegboard and a server that ends the server with all its descendants. [`processes`] reads
//! the table of processes and `namespaces` creates Linux namespaces. All code for child processes
//! that depends on the operating system is in this crate.
//!
//! Every function exists on every system, except those of `namespaces`: their types are the Linux
//! kernel's, and only code that exists on Linux alone can use them.

#[cfg(target_os = "linux")]
pub mod namespaces;
pub mod processes;
pub mod program;
pub mod supervise;
mod system;

pub use system::System;
