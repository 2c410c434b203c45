//! Connections to MCP servers: starting, listing, calling and restarting them.
//!
//! A [`Fleet`] starts the configured servers in parallel and keeps each as an
//! [`Upstream`]: connected, listed, restarted when it fails. A call names a method and
//! passes its parameters through; what the server sends meanwhile (progress, log messages,
//! questions) reaches the caller.
//!
//! Messages are raw JSON and do not use the MCP crate's typed model: a proxy must not lose
//! fields that it does not know, reorder keys or rewrite numbers, must support two eras on one
//! pipe, and one of the transports was removed from that crate. Its OAuth is used, in one file of
//! [`auth`].

pub mod auth;
mod call_queue;
mod capabilities;
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
mod presentation;
pub mod queue;
mod redact;
mod server;
mod server_output;
mod trace;
mod transport;

pub use call_queue::{Busy, CallPermit, CallQueue, CallerKey};
pub use causes::{causes, with_causes};
pub use connection::{Call, CallError, CallEvent, NetworkFault, Notice};
pub use fleet::{Fleet, FleetOptions, Reconfigured, default_starts};
pub use handshake::{ConnectError, Hello};
pub use listing::{Item, ListKind, Lists};
pub use pins::{PinKind, PinReport, Pins, PinsError, WaitingPin};
pub use presentation::{Presentation, PresentedTool, UnusedOverride};
pub use redact::{HIDDEN, SecretFilter};
pub use server::{
    BreakerReport, CallClient, CallCounts, ClientLife, ClientOwner, ConnectionCounts, FailedStart, OwnTools, Rejected,
    Report, State, UpdateSource, Upstream,
};
pub use server_output::ServerOutput;
pub use transport::local::{AnswerFuture, LocalClient, LocalServer};
