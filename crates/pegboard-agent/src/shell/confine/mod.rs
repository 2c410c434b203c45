//! Running one command confined: starting the hidden command `pegboard confine` (`launch.rs`) and
//! that command itself, which runs a command within limits and reports how that ended. Its order
//! comes on standard input, its report on standard output.
//!
//! It is several programs in one: the keeper, which does nothing but end what is left; the
//! watcher below it; where bubblewrap is missing, the two that make the namespaces; and the
//! part inside the sandbox, which becomes the command.
//!
//! All of it needs Unix, and the sandboxes need Linux. The gates are in this folder and nowhere else;
//! other systems get the functions of `other.rs`, which refuse.

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
pub(super) use self::launch::{launch, remove_forgotten, try_sandbox};
#[cfg(not(unix))]
pub use self::other::run;
#[cfg(not(unix))]
pub(super) use self::other::{launch, remove_forgotten, try_sandbox};
#[cfg(unix)]
pub use self::parts::run;

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
