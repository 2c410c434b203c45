//! Shares of the connections, so that one caller cannot lock out the others.
//!
//! A connection takes a place when it is accepted and gives it back when it closes; nothing ever
//! waits for a place. Where a share is full, an idle connection is closed for the new one, those
//! that have not authenticated first; where none is idle, the new one is refused.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{PeerAddress, Principal, Refusal};

/// How many connections and requests there may be at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// All connections together, reserved ones aside.
    pub total: usize,
    /// Further connections that only serve [priority paths](crate::Settings::priority_paths), for
    /// when all others are taken.
    pub reserved: usize,
    /// Connections from one address; for clients behind a trusted proxy, requests in progress.
    pub per_address: usize,
    /// Requests in progress with one token, event streams included.
    pub per_token: usize,
    /// How long a connection that has not authenticated may take to send the headers of a
    /// request.
    pub header_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { total: 1024, reserved: 16, per_address: 512, per_token: 128, header_timeout: Duration::from_secs(5) }
    }
}

impl ConnectionLimits {
    /// Limits for a listener with a single caller, who may use all connections.
    pub fn for_one_caller(total: usize) -> Self {
        Self { total, reserved: 0, per_address: total, per_token: total, ..Self::default() }
    }
}

/// Requests to [priority paths](crate::Settings::priority_paths) that one token, or one address
/// without a token, may have in progress. They count against no other share, so that the
/// operator of a gateway reaches it when its callers use all of theirs.
const PRIORITY_REQUESTS: usize = 8;

/// Whose share a request in progress counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    Token(Principal),
    Address(PeerAddress),
    /// Requests of a token to priority paths.
    TokenPriority(Principal),
    /// Requests of an address to priority paths.
    AddressPriority(PeerAddress),
}

/// All open connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<u64, Connection>,
    /// How many connections each address has, reserved ones aside.
    by_address: HashMap<PeerAddress, usize>,
    /// How many reserved connections each address has.
    reserved_by_address: HashMap<PeerAddress, usize>,
    /// How many requests of each holder are in progress.
    in_progress: HashMap<Holder, usize>,
    /// How many of the open ones are reserved.
    n_reserved: usize,
    /// Numbers connections, and the moments at which they became idle.
    next: u64,
}

#[derive(Debug)]
struct Connection {
    /// Nothing for a trusted proxy, whose connections are those of many callers.
    address: Option<PeerAddress>,
    /// Whether a request on it was let in.
    is_known: bool,
    is_reserved: bool,
    requests: usize,
    /// Which one became idle first.
    idle_order: u64,
    idle_since: Instant,
    closing: Arc<Notify>,
}

impl State {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn n_unreserved(&self) -> usize {
        self.open.len() - self.n_reserved
    }

    fn count(&self, address: Option<PeerAddress>) -> usize {
        address.and_then(|address| self.by_address.get(&address)).copied().unwrap_or(0)
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.open.remove(&number)?;
        self.n_reserved -= usize::from(connection.is_reserved);
        if let Some(address) = connection.address {
            decrement(self.counts(connection.is_reserved), &address);
        }
        Some(connection)
    }

    fn counts(&mut self, is_reserved: bool) -> &mut HashMap<PeerAddress, usize> {
        if is_reserved { &mut self.reserved_by_address } else { &mut self.by_address }
    }

    /// Whether a reserved place is free, or can be made free by closing an idle connection. One
    /// address has at most half of them.
    fn has_reserve(&mut self, limits: &ConnectionLimits, address: Option<PeerAddress>) -> bool {
        let own = address.and_then(|address| self.reserved_by_address.get(&address)).copied().unwrap_or(0);
        if address.is_some() && own >= limits.reserved.div_ceil(2) {
            return self.close_idle(|connection| connection.is_reserved && connection.address == address);
        }
        self.n_reserved < limits.reserved || self.close_idle(|connection| connection.is_reserved)
    }

    /// Closes one idle connection among those that `is_it` names: one that has not
    /// authenticated before one that has, of the address with the most connections, the one
    /// that has been idle longest. Whether there was one.
    fn close_idle(&mut self, is_it: impl Fn(&Connection) -> bool) -> bool {
        let idle = self.open.iter().filter(|(_, connection)| connection.requests == 0 && is_it(connection));
        let first = idle.min_by_key(|(_, connection)| {
            (connection.is_known, Reverse(self.count(connection.address)), connection.idle_order)
        });
        let Some(number) = first.map(|(number, _)| *number) else { return false };
        if let Some(connection) = self.remove(number) {
            connection.closing.notify_one();
        }
        true
    }
}

fn decrement<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a connection from an address; from a trusted proxy, without one.
    ///
    /// # Errors
    /// When a share is full and none of its connections is idle.
    pub(crate) fn admit(self: &Arc<Self>, address: Option<PeerAddress>) -> Result<Ticket, Refusal> {
        let mut state = self.state();
        let has_share = address.is_none()
            || state.count(address) < self.limits.per_address
            || state.close_idle(|connection| !connection.is_reserved && connection.address == address);
        let has_room = has_share
            && (state.n_unreserved() < self.limits.total || state.close_idle(|connection| !connection.is_reserved));
        // A caller that is refused everything else may still ask for health and status.
        if !has_room && !state.has_reserve(&self.limits, address) {
            return Err(if has_share { Refusal::Connections } else { Refusal::AddressShare });
        }
        let (number, closing) = (state.tick(), Arc::new(Notify::new()));
        let connection = Connection {
            address,
            is_known: false,
            is_reserved: !has_room,
            requests: 0,
            idle_order: number,
            idle_since: Instant::now(),
            closing: Arc::clone(&closing),
        };
        state.n_reserved += usize::from(connection.is_reserved);
        if let Some(address) = address {
            *state.counts(connection.is_reserved).entry(address).or_default() += 1;
        }
        state.open.insert(number, connection);
        drop(state);
        Ok(Ticket { number, closing, connections: Arc::clone(self) })
    }
}

/// The place of one connection; dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct Ticket {
    number: u64,
    closing: Arc<Notify>,
    connections: Arc<Connections>,
}

impl Ticket {
    /// Whether the connection may serve any path: it is not reserved, or need not be any longer.
    ///
    /// # Errors
    /// When it is reserved and all others are taken.
    pub(crate) fn claim_any_path(&self) -> Result<(), Refusal> {
        let mut state = self.connections.state();
        let limits = &self.connections.limits;
        let Some(connection) = state.open.get(&self.number) else { return Err(Refusal::Connections) };
        let address = connection.address;
        if !connection.is_reserved {
            return Ok(());
        }
        if address.is_some() && state.count(address) >= limits.per_address {
            return Err(Refusal::AddressShare);
        }
        if state.n_unreserved() >= limits.total {
            return Err(Refusal::Connections);
        }
        if let Some(connection) = state.open.get_mut(&self.number) {
            connection.is_reserved = false;
        }
        state.n_reserved -= 1;
        if let Some(address) = address {
            decrement(&mut state.reserved_by_address, &address);
            *state.by_address.entry(address).or_default() += 1;
        }
        Ok(())
    }

    /// Begins a request that counts against the share of `holder`. One without a holder counts
    /// against none, and leaves the connection unauthenticated.
    ///
    /// # Errors
    /// When the share of the holder is full.
    pub(crate) fn begin(self: &Arc<Self>, holder: Option<Holder>) -> Result<InProgress, Refusal> {
        let limits = &self.connections.limits;
        let mut state = self.connections.state();
        if let Some(holder) = holder {
            let (most, refusal) = match holder {
                Holder::Token(_) => (limits.per_token, Refusal::TokenShare),
                Holder::Address(_) => (limits.per_address, Refusal::AddressShare),
                Holder::TokenPriority(_) => (PRIORITY_REQUESTS, Refusal::TokenShare),
                Holder::AddressPriority(_) => (PRIORITY_REQUESTS, Refusal::AddressShare),
            };
            let running = state.in_progress.entry(holder).or_default();
            if *running >= most {
                return Err(refusal);
            }
            *running += 1;
        }
        if let Some(connection) = state.open.get_mut(&self.number) {
            connection.requests += 1;
            connection.is_known |= holder.is_some();
        }
        Ok(InProgress { ticket: Arc::clone(self), holder })
    }

    /// Waits until the connection must close: it was closed for another one, or has not
    /// authenticated in time.
    pub(crate) async fn must_close(&self) -> &'static str {
        let timeout = self.connections.limits.header_timeout;
        let timed_out = async {
            loop {
                let idle_since = {
                    let state = self.connections.state();
                    let unknown = state.open.get(&self.number).filter(|connection| !connection.is_known);
                    // A request in progress does not wait for headers; this checks again later.
                    unknown
                        .map(|connection| if connection.requests == 0 { connection.idle_since } else { Instant::now() })
                };
                match idle_since.map(|since| since + timeout) {
                    Some(deadline) if deadline <= Instant::now() => return,
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = self.closing.notified() => "closed for a new connection",
            () = timed_out => "no authenticated request in time",
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.connections.state().remove(self.number);
    }
}

/// A request in progress; dropping it ends it.
#[derive(Debug)]
pub(crate) struct InProgress {
    ticket: Arc<Ticket>,
    holder: Option<Holder>,
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut state = self.ticket.connections.state();
        if let Some(holder) = self.holder {
            decrement(&mut state.in_progress, &holder);
        }
        let now = state.tick();
        if let Some(connection) = state.open.get_mut(&self.ticket.number) {
            connection.requests -= 1;
            (connection.idle_order, connection.idle_since) = (now, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
