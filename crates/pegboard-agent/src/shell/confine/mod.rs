//! The hidden command `pegboard confine`: it runs one command within limits and reports how
//! that ended. Its order comes on standard input, its report on standard output.
//!
//! It is three programs in one: the keeper, which does nothing but end what is left; the
//! watcher below it; and the part inside the sandbox, which becomes the command.

#[cfg(unix)]
mod bubblewrap;
#[cfg(unix)]
mod disk;
#[cfg(unix)]
mod files;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod filter;
#[cfg(unix)]
mod held;
#[cfg(unix)]
mod inside;
#[cfg(unix)]
mod keep;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(unix)]
mod machine;
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
    match inside {
        true => inside::run(),
        false if keep::is_kept() => outside::run(),
        false => keep::run(),
    }
}

/// Commands are not run on this system.
#[cfg(not(unix))]
pub fn run(_inside: bool) -> ExitCode {
    ExitCode::from(2)
}
