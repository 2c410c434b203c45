//! Systems without Unix users and resource limits.

use std::io;

/// Returns `false`: this system has no root user.
#[cfg(feature = "code-execution")]
pub(crate) fn is_root() -> bool {
    false
}

/// Does nothing: this system has no such limits. The parent process enforces a timeout.
pub(crate) fn give_up_rights(_memory_bytes: u64, _cpu_seconds: u64) -> io::Result<()> {
    Ok(())
}

/// Returns `None`: the size of standard input is not known.
pub(crate) fn input_size() -> Option<usize> {
    None
}
