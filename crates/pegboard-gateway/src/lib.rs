//! The MCP front door: any number of servers behind one endpoint, and each client sees only
//! what it needs.
//!
//! A [`Gateway`] keeps the servers running (`pegboard-upstream`), knows what they offer
//! under names that clients can use, and answers clients of both protocol eras, over HTTP
//! ([`Gateway::router`]) and on a pipe ([`Gateway::serve_pipe`]). What a client sees and how
//! it searches is decided by `pegboard-discovery`; nothing here ranks or phrases.

mod bounds;
mod catalog;
pub mod control;
mod doors;
mod exchange;
mod forward;
mod gateway;
mod limits;
pub mod metrics;
pub mod middleware;
mod pins;
pub mod record;
mod routes;
mod sessions;
mod settings;
mod setup;
mod shares;
mod subscriptions;
mod trace;
mod usage;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use doors::http::{ENDPOINT, HEALTH, READY};
pub use gateway::{Gateway, Rankers};
pub use limits::CallLimits;
pub use metrics::METRICS;
pub use pins::{Lookalike, ToolName};
pub use settings::{ClientProfile, GatewaySettings, Prefixes, Profile, Token};
pub use setup::{Change, holders};

/// Locks that guard plain data; nobody panics while holding one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
