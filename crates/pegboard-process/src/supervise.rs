//! The small program between us and a server, that leaves no process behind.
//!
//! A child whose parent is killed goes on running, and so does everything it started. A
//! parent-death signal would reach the child alone. So each server runs under a supervisor:
//! it hands its own standard streams to the server, and watches the pipe of standard error.
//! When nobody reads that pipe any more, we are gone, in whatever way, and it ends the
//! server with all its descendants, those in other sessions and groups included.
//!
//! When the supervisor is killed as well, the kernel is all that is left: the server has a
//! parent-death signal (`leaf.rs`), and in a process namespace everything below it ends with the
//! namespace's first process (`namespace.rs`).

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

/// Whether a server that is a child process runs in a process (PID) namespace, so that
/// everything it has started ends with it even when Pegboard and its supervisor are killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessNamespace {
    /// No.
    #[default]
    Off,
    /// Where that needs no user namespace, that is with `CAP_SYS_ADMIN`; otherwise no.
    Auto,
    /// Yes, in a user namespace where that is needed; where it fails, the server does not start.
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

/// Which part of the program this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Watches over a server, in a process namespace or not.
    Supervisor(ProcessNamespace),
    /// Becomes the server, and ends with the process of this number, its parent.
    Leaf(i32),
    /// The first process of a process namespace: starts the server and ends with the process of
    /// this number, its parent.
    Init(i32),
    /// The same in a user namespace, whose capabilities are not for the server.
    UserInit(i32),
    /// Tries whether a process namespace can be set up, and starts nothing.
    Trial(i32),
}
