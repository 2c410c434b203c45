//! Standard input and output that a client has made non-blocking.
//!
//! The flag belongs to the pipe and not to a process: a client that reads or writes its own end
//! through an event loop, as Node does with inherited streams, sets it for us too. A read that finds
//! nothing would then be an error.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Lets reads and writes of standard input and output wait.
pub(super) fn let_block() {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    block(&input);
    block(&output);
}

fn block(stream: &impl std::os::fd::AsFd) {
    let is_changed = fcntl_getfl(stream).and_then(|flags| match flags.contains(OFlags::NONBLOCK) {
        true => fcntl_setfl(stream, flags.difference(OFlags::NONBLOCK)),
        false => Ok(()),
    });
    if let Err(error) = is_changed {
        tracing::debug!(%error, "standard stream flags not readable");
    }
}
