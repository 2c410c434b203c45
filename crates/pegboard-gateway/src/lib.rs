//! The MCP gateway: any number of servers behind one endpoint, where each client sees only what it
//! needs.
//!
//! A [`Gateway`] keeps the servers running (`pegboard-upstream`), knows what they offer
//! under names that clients can use, and answers clients of both protocol eras, over HTTP
//! ([`Gateway::router`]) and on a pipe ([`Gateway::serve_pipe`]). What a client sees and how
//! it searches is decided by `pegboard-discovery`; nothing here ranks or phrases.

mod activity;
mod bounds;
mod caller;
mod catalog;
pub mod control;
mod doors;
mod events;
mod exchange;
mod forward;
mod gateway;
mod greetings;
mod ids;
mod limits;
mod lookalikes;
pub mod metrics;
mod offload;
mod pipeline;
mod progress;
pub mod record;
mod request;
mod routes;
mod savings;
mod sessions;
mod settings;
mod setup;
mod shares;
mod startup;
mod steps;
mod subscriptions;
mod tasks;
#[cfg(test)]
mod testing;
mod text;
mod trace;
mod usage;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use activity::{ActivitySettings, ClientPrice, ConsoleSettings, ContentsPlace, Prices};
pub use doors::http::{ENDPOINT, HEALTH, READY};
pub use gateway::Gateway;
pub use limits::CallLimits;
pub use lookalikes::{Lookalike, LookalikeCounts, ToolName};
pub use metrics::METRICS;
pub use offload::OffloadSettings;
pub use pegboard_core::naming::Prefixes;
pub use pegboard_outputs::Program;
pub use settings::{ClientProfile, GatewaySettings, Profile, Rankers, Token};
pub use setup::{Change, holders};

/// Locks that guard plain data; nobody panics while holding one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
