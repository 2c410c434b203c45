//! The parts of the agent that depend on the operating system, except running commands, which is in
//! `shell/confine`.
//!
//! Every implementation has the same types and functions, and tests also run those of other systems.

#[cfg(any(test, not(unix)))]
mod folder_other;
#[cfg(unix)]
mod folder_unix;
#[cfg(all(feature = "code-execution", any(test, not(unix))))]
mod other;
#[cfg(all(feature = "code-execution", unix))]
mod unix;

#[cfg(not(unix))]
pub(crate) use self::folder_other::Folder;
#[cfg(unix)]
pub(crate) use self::folder_unix::Folder;
#[cfg(all(feature = "code-execution", not(unix)))]
pub(crate) use self::other::is_root;
#[cfg(all(feature = "code-execution", unix))]
pub(crate) use self::unix::is_root;

#[cfg(test)]
mod tests;
