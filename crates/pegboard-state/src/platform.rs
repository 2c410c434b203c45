//! Modes, owners and identities of files.
//!
//! Every function exists on every system with the same signature, so that callers need no gates of
//! their own. Systems without Unix modes and owners get the functions of `platform/other.rs`.

#[cfg(any(test, not(unix)))]
#[cfg_attr(unix, expect(unreachable_pub, reason = "public where it is not compiled for tests alone"))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use self::other::*;
#[cfg(unix)]
pub use self::unix::*;

#[cfg(test)]
mod tests;
