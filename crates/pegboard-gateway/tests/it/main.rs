//! The gateway through its doors, in this process: servers are [`LocalServer`]s, and clients call
//! the routes without a socket.
//!
//! [`LocalServer`]: pegboard_upstream::LocalServer

mod apps;
mod calls;
mod chained;
mod connections;
mod console;
mod control;
mod doors;
mod eras;
mod exposure;
mod limits;
mod names;
mod offload;
mod overrides;
mod passing;
mod pins;
mod probes;
mod record;
mod reloading;
mod resuming;
mod returning;
mod server;
mod shares;
mod tasks;
mod tokens;
mod traces;
mod usage;
mod world;
