//! The gateway through its doors, in this process: servers are [`LocalServer`]s, and clients call
//! the routes without a socket.
//!
//! [`LocalServer`]: pegboard_upstream::LocalServer

mod chained;
mod names;
mod world;
