//! The supervisor of a server: a small process between Pegboard and the server that leaves no process behind.
//!
//! A child whose parent is killed continues to run, and so do its descendants. A
//! parent-death signal would reach the child alone. So each server runs under a supervisor:
//! it hands its own standard streams to the server, and watches the pipe of standard error.
//! When the read end of that pipe is closed, Pegboard has ended, and the supervisor ends the
//! server with all its descendants, including those in other sessions and groups.
//!
//! If the supervisor is killed as well, the kernel ends the server: it has a parent-death signal
//! (`leaf.rs`), and in a process namespace everything below it ends with the namespace's first
//! process (`namespace.rs`).

#[cfg(target_os = "linux")]
mod leaf;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(unreachable_pub, reason = "public where it is not compiled for tests alone"))]
mod not_linux;

#[cfg(target_os = "linux")]
pub use self::linux::run;
#[cfg(not(target_os = "linux"))]
pub use self::not_linux::run;

/// Whether a server that is a child process runs in a process (PID) namespace, so that all its
/// descendants end with it even if Pegboard and its supervisor are killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessNamespace {
    /// The server has no process namespace.
    #[default]
    Off,
    /// The server has a process namespace if that needs no user namespace, i.e. with `CAP_SYS_ADMIN`.
    Auto,
    /// The server has a process namespace, in a user namespace if needed; if that fails, it does not
    /// start.
    On,
}

impl ProcessNamespace {
    /// The names that configurations use.
    pub const NAMES: &'static [&'static str] = &["off", "auto", "on"];

    /// Returns the value with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "auto" => Some(Self::Auto),
            "on" => Some(Self::On),
            _ => None,
        }
    }

    /// Returns the name of the value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::On => "on",
        }
    }
}

/// The role of a process in the supervision of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Supervises a server, in a process namespace or not.
    Supervisor(ProcessNamespace),
    /// Becomes the server, and ends with its parent, which has this process id.
    Leaf(i32),
    /// The first process of a process namespace: starts the server and ends with its parent, which has
    /// this process id.
    Init(i32),
    /// The same in a user namespace, whose capabilities are not for the server.
    UserInit(i32),
    /// Tests whether a process namespace can be set up, without starting anything.
    Trial(i32),
}
