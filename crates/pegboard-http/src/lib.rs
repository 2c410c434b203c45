//! The HTTP listener that all doors share: it decides who may come in, how much they may
//! send, and how everything ends.
//!
//! Loopback is the default, and a public address wants authentication. Requests whose
//! `Host` or `Origin` is not ours are refused before anything looks at them: a web page
//! must not talk to a server on the reader's own machine. Whoever asks and does not read
//! the answer is cut off.

mod guard;
mod listener;
mod stalled;

pub use guard::{Guard, Principal, Refusal};
pub use listener::{Doorkeeper, ListenError, Listener, Settings};
