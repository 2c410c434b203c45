//! Systems without Unix resource limits.

use std::io;

/// Does nothing: this system has no such limits. The process that started this one watches the clock.
pub(crate) fn give_up_rights(_memory_bytes: u64, _cpu_seconds: u64) -> io::Result<()> {
    Ok(())
}

/// `None`: the size of standard input is not known.
pub(crate) fn input_size() -> Option<usize> {
    None
}
