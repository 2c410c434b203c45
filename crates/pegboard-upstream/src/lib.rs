//! MCP servers: how they are reached, kept running and listed.
//!
//! A [`Fleet`] starts the configured servers in parallel and keeps each as an
//! [`Upstream`]: connected, listed, restarted when it fails. A call names a method and
//! passes its parameters through; what the server says meanwhile (progress, log messages,
//! questions) reaches whoever made the call.
//!
//! The wire is spoken here directly, on raw JSON, and not through the MCP crate's typed
//! model: a proxy must not lose fields that it does not know, reorder keys or rewrite
//! numbers, must speak two eras on one pipe, and one of the transports has left that crate. Its
//! OAuth is used, in one file of [`auth`].

pub mod auth;
mod call_queue;
mod causes;
pub mod config;
pub mod connection;
pub mod environment;
mod fleet;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod listing;
mod manifest;
mod pins;
pub mod queue;
mod redact;
mod server;
mod server_output;
mod trace;
mod transport;

pub use call_queue::{Busy, OnBehalf, Turn, Turns};
pub use causes::{causes, with_causes};
pub use connection::{Call, CallError, Event, NetworkFault, Notice};
pub use fleet::{Fleet, FleetOptions, Reconfigured};
pub use handshake::{ConnectError, Hello};
pub use listing::{Item, ListKind, Lists};
pub use pins::{PinKind, PinReport, Pins, PinsError, WaitingPin};
pub use redact::{HIDDEN, SecretFilter};
pub use server::{BreakerReport, CallCounts, FailedStart, Report, State, Upstream};
pub use server_output::Talk;
pub use transport::local::{Answering, LocalClient, LocalServer};
