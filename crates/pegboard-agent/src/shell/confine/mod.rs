//! The hidden command `pegboard confine`: it runs one command within limits and reports how
//! that ended. Its order comes on standard input, its report on standard output.
//!
//! It is several programs in one: the keeper, which does nothing but end what is left; the
//! watcher below it; where bubblewrap is missing, the two that make the namespaces; and the
//! part inside the sandbox, which becomes the command.

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
#[cfg(target_os = "linux")]
mod namespaces;
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

/// Which part of the program this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The keeper or the watcher.
    Outside,
    /// Creates the namespaces of a sandbox with this layout.
    Namespaces(String),
    /// Builds the file system of that sandbox, in its namespaces.
    Root(String),
    /// The part inside the sandbox.
    Inside,
}

/// Runs this part of the program. The order is on standard input.
#[cfg(unix)]
pub fn run(part: Part) -> ExitCode {
    match part {
        Part::Inside => inside::run(),
        #[cfg(target_os = "linux")]
        Part::Namespaces(layout) => namespaces::run(&layout),
        #[cfg(target_os = "linux")]
        Part::Root(layout) => namespaces::run_root(&layout),
        #[cfg(not(target_os = "linux"))]
        Part::Namespaces(_) | Part::Root(_) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "only Linux has namespaces");
            ExitCode::from(126)
        }
        Part::Outside if keep::is_kept() => outside::run(),
        Part::Outside => keep::run(),
    }
}

/// Commands are not run on this system.
#[cfg(not(unix))]
pub fn run(_part: Part) -> ExitCode {
    ExitCode::from(2)
}
