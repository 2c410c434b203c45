//! The HTTP listener that every endpoint shares: it authenticates requests, limits connections and
//! sizes, and shuts down gracefully.
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
pub use guard::{Guard, Principal, Rejection};
pub use in_progress::RequestSlot;
pub use listener::{GuardHandle, ListenError, Listener, Settings};
pub use log_budget::LogBudget;
pub use platform::LocalListener;

/// Marks a request that came through the local control socket, which only the user who runs the
/// program can open; an extension of every such request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner;
