//! The hidden command `pegboard confine`: it runs one command within limits and reports how
//! that ended. Its order comes on standard input, its report on standard output.

#[cfg(unix)]
mod bubblewrap;
#[cfg(unix)]
mod disk;
#[cfg(unix)]
mod inside;
#[cfg(target_os = "linux")]
mod landlock;
mod output;
#[cfg(unix)]
mod outside;
#[cfg(unix)]
mod start;
#[cfg(unix)]
mod system;
#[cfg(unix)]
mod watch;

use std::process::ExitCode;

/// Runs the command that is ordered on standard input; `inside` is the part of it that runs in
/// the sandbox.
#[cfg(unix)]
pub fn run(inside: bool) -> ExitCode {
    if inside { inside::run() } else { outside::run() }
}

/// Commands are not run on this system.
#[cfg(not(unix))]
pub fn run(_inside: bool) -> ExitCode {
    ExitCode::from(2)
}
