//! The HTTP listener that all doors share: it decides who may come in, how much they may
//! send, and how everything ends.
//!
//! Loopback is the default, and a public address wants authentication. Requests whose
//! `Host` or `Origin` is not ours are refused before anything looks at them: a web page
//! must not talk to a server on the reader's own machine. Whoever asks and does not read
//! the answer is cut off.

mod guard;
mod listener;
#[cfg(unix)]
mod local;
mod stalled;

pub use guard::{Guard, Principal, Refusal};
pub use listener::{Doorkeeper, ListenError, Listener, Settings};
#[cfg(unix)]
pub use local::LocalListener;

/// That a request came from whoever runs us, through a socket that is theirs alone; an extension
/// of every request that did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner;
