//! Runs one command confined: starts the hidden command `pegboard confine` (`launch.rs`), and
//! implements it. It reads its order from standard input, runs the command within limits, and
//! writes a report to standard output.
//!
//! It is several programs in one: the keeper, which only ends what is left; the watcher below it;
//! without bubblewrap, the two that create the namespaces; and the part inside the sandbox, which
//! becomes the command.
//!
//! All of it needs Unix, and the sandboxes need Linux. The conditional compilation is only in this
//! folder; other systems get the functions of `other.rs`, which return errors.

#[cfg(unix)]
mod bubblewrap;
#[cfg(unix)]
mod cleanup;
#[cfg(unix)]
mod disk;
#[cfg(unix)]
mod file_watch;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod filter;
#[cfg(unix)]
mod held_files;
#[cfg(unix)]
mod inside;
#[cfg(unix)]
mod keeper;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(unix)]
mod launch;
#[cfg(unix)]
mod machine;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(any(test, not(unix)))]
#[cfg_attr(unix, expect(unreachable_pub, reason = "public where it is not compiled for tests alone"))]
mod other;
#[cfg(unix)]
mod output;
#[cfg(unix)]
mod outside;
#[cfg(unix)]
mod parts;
#[cfg(unix)]
mod private_folder;
#[cfg(unix)]
mod process_watch;
#[cfg(unix)]
mod relay;
#[cfg(unix)]
mod spec;
#[cfg(unix)]
mod start;
#[cfg(unix)]
mod system;

#[cfg(unix)]
pub(super) use self::launch::{launch, remove_abandoned, try_sandbox};
#[cfg(not(unix))]
pub use self::other::run;
#[cfg(not(unix))]
pub(super) use self::other::{launch, remove_abandoned, try_sandbox};
#[cfg(unix)]
pub use self::parts::run;

/// The part of the confining program that this process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfinePart {
    /// The keeper or the watcher.
    Outside,
    /// Creates the namespaces of a sandbox with this layout.
    Namespaces(String),
    /// Builds the file system of that sandbox, in its namespaces.
    Root(String),
    /// The part inside the sandbox.
    Inside,
}
