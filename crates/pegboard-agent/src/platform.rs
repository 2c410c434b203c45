//! The parts of the agent that depend on the operating system, except running commands, which is in
//! `shell/confine`.
//!
//! Every implementation has the same types and functions, and tests also run those of other systems.

#[cfg(any(test, not(unix)))]
mod folder_other;
#[cfg(unix)]
mod folder_unix;
#[cfg(any(test, not(unix)))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(all(feature = "code-execution", not(unix)))]
pub(crate) use self::other::is_root;
#[cfg(all(feature = "code-execution", unix))]
pub(crate) use self::unix::is_root;
#[cfg(not(unix))]
pub(crate) use self::{
    folder_other::Folder,
    other::{give_up_rights, input_size},
};
#[cfg(unix)]
pub(crate) use self::{
    folder_unix::Folder,
    unix::{give_up_rights, input_size},
};

#[cfg(test)]
mod tests;
