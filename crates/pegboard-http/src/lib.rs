//! The HTTP listener that all doors share: it decides who may come in, how much they may
//! send, and how everything ends.
//!
//! Loopback is the default, and a public address requires authentication. Requests whose
//! `Host` or `Origin` is not allowed are rejected before anything else reads them: a web page
//! must not talk to a server on the reader's own machine. Connections are shared fairly between
//! tokens and addresses. A client that does not read its response is disconnected.

mod address;
mod connections;
mod failures;
mod guard;
mod in_progress;
mod listener;
mod log_budget;
mod platform;
mod service;
mod write_timeout;

pub use address::{InvalidNetwork, Network, PeerAddress, TrustedProxies};
pub use connections::ConnectionLimits;
pub use guard::{Guard, Principal, Refusal};
pub use in_progress::RequestSlot;
pub use listener::{Doorkeeper, ListenError, Listener, Settings};
pub use log_budget::LogBudget;
pub use platform::LocalListener;

/// That a request came from whoever runs us, through a socket that is theirs alone; an extension
/// of every request that did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner;
