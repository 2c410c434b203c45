//! Shares of connections, so that one caller cannot lock out the others.
//!
//! A connection takes a place when it is accepted and gives it back when it closes; nothing ever
//! waits for a place. If a share is full, an idle connection is closed for the new one,
//! unauthenticated ones first; if none is idle, the new one is rejected.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{PeerAddress, Principal, Rejection};

/// Limits on simultaneous connections and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of connections, not counting the reserved ones.
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

/// The token or address whose share a request in progress counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ShareOwner {
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
    /// The open ones by where they come from.
    groups: HashMap<Group, Members>,
    /// How many requests of each holder are in progress.
    in_progress: HashMap<ShareOwner, usize>,
    /// How many of the open ones are reserved.
    n_reserved: usize,
    /// Numbers connections, and the moments at which they became idle.
    next: u64,
}

/// The key by which connections are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Group {
    /// Nothing for a trusted proxy, whose connections are those of many callers.
    address: Option<PeerAddress>,
    is_reserved: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Members {
    count: usize,
    /// The numbers of those that are idle, in the order in which they are closed for others.
    idle: BTreeMap<IdleOrder, u64>,
}

/// The order in which idle connections are closed: unauthenticated before authenticated, longest
/// idle first.
type IdleOrder = (bool, u64);

#[derive(Debug)]
struct Connection {
    group: Group,
    /// Whether a request on it was let in.
    is_known: bool,
    requests: usize,
    /// Which one became idle first.
    idle_order: u64,
    idle_since: Instant,
    closing: Arc<Notify>,
}

impl Connection {
    fn order(&self) -> IdleOrder {
        (self.is_known, self.idle_order)
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn n_unreserved(&self) -> usize {
        self.open.len() - self.n_reserved
    }

    /// Returns how many connections of a group count against the share of its address.
    fn count(&self, group: Group) -> usize {
        group.address.and_then(|_| self.groups.get(&group)).map_or(0, |members| members.count)
    }

    fn insert(&mut self, number: u64, connection: Connection) {
        self.n_reserved += usize::from(connection.group.is_reserved);
        let members = self.groups.entry(connection.group).or_default();
        members.count += 1;
        if connection.requests == 0 {
            members.idle.insert(connection.order(), number);
        }
        self.open.insert(number, connection);
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.open.remove(&number)?;
        self.n_reserved -= usize::from(connection.group.is_reserved);
        if let Some(members) = self.groups.get_mut(&connection.group) {
            members.idle.remove(&connection.order());
            members.count -= 1;
            if members.count == 0 {
                self.groups.remove(&connection.group);
            }
        }
        Some(connection)
    }

    /// Records that a request begins on a connection.
    fn begin(&mut self, number: u64, is_known: bool) {
        let Some(connection) = self.open.get_mut(&number) else { return };
        if connection.requests == 0
            && let Some(members) = self.groups.get_mut(&connection.group)
        {
            members.idle.remove(&connection.order());
        }
        connection.requests += 1;
        connection.is_known |= is_known;
    }

    /// Records that a request has ended.
    fn end(&mut self, number: u64) {
        let now = self.tick();
        let Some(connection) = self.open.get_mut(&number) else { return };
        connection.requests -= 1;
        (connection.idle_order, connection.idle_since) = (now, Instant::now());
        if connection.requests == 0
            && let Some(members) = self.groups.get_mut(&connection.group)
        {
            members.idle.insert(connection.order(), number);
        }
    }

    /// Returns whether a reserved place is free or can be freed by closing an idle connection. One
    /// address has at most half of them.
    fn has_reserve(&mut self, limits: &ConnectionLimits, address: Option<PeerAddress>) -> bool {
        let group = Group { address, is_reserved: true };
        if address.is_some() && self.count(group) >= limits.reserved.div_ceil(2) {
            return self.close_idle_of(group);
        }
        self.n_reserved < limits.reserved || self.close_idle(true)
    }

    /// Closes the first idle connection of a group; `false` if there is none.
    fn close_idle_of(&mut self, group: Group) -> bool {
        let first = self.groups.get(&group).and_then(|members| members.idle.values().next());
        let Some(connection) = first.copied().and_then(|number| self.remove(number)) else { return false };
        connection.closing.notify_one();
        true
    }

    /// Closes one idle connection, reserved or not: unauthenticated before authenticated ones, then
    /// from the address with the most connections, the one that has been idle longest. `false` if
    /// there is none.
    fn close_idle(&mut self, is_reserved: bool) -> bool {
        let groups = self.groups.iter().filter(|(group, _)| group.is_reserved == is_reserved);
        let idle = groups.filter_map(|(group, members)| Some((*group, *members.idle.keys().next()?)));
        let first = idle.min_by_key(|(group, (is_known, order))| {
            (*is_known, Reverse(self.count(Group { is_reserved: false, ..*group })), *order)
        });
        first.is_some_and(|(group, _)| self.close_idle_of(group))
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

    /// Admits a connection from an address; a trusted proxy has no address here.
    ///
    /// # Errors
    /// When a share is full and none of its connections is idle.
    pub(crate) fn admit(self: &Arc<Self>, address: Option<PeerAddress>) -> Result<Ticket, Rejection> {
        let mut state = self.state();
        let group = Group { address, is_reserved: false };
        let has_share = address.is_none() || state.count(group) < self.limits.per_address || state.close_idle_of(group);
        let has_room = has_share && (state.n_unreserved() < self.limits.total || state.close_idle(false));
        // A caller that is rejected everywhere else may still ask for health and status.
        if !has_room && !state.has_reserve(&self.limits, address) {
            return Err(if has_share { Rejection::Connections } else { Rejection::AddressShare });
        }
        let (number, closing) = (state.tick(), Arc::new(Notify::new()));
        let connection = Connection {
            group: Group { address, is_reserved: !has_room },
            is_known: false,
            requests: 0,
            idle_order: number,
            idle_since: Instant::now(),
            closing: Arc::clone(&closing),
        };
        state.insert(number, connection);
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
    /// Checks whether the connection may serve any path: it is not reserved, or no longer needs to
    /// be.
    ///
    /// # Errors
    /// When it is reserved and all others are taken.
    pub(crate) fn claim_any_path(&self) -> Result<(), Rejection> {
        let mut state = self.connections.state();
        let limits = &self.connections.limits;
        let Some(Connection { group, .. }) = state.open.get(&self.number) else { return Err(Rejection::Connections) };
        if !group.is_reserved {
            return Ok(());
        }
        let unreserved = Group { is_reserved: false, ..*group };
        if unreserved.address.is_some() && state.count(unreserved) >= limits.per_address {
            return Err(Rejection::AddressShare);
        }
        if state.n_unreserved() >= limits.total {
            return Err(Rejection::Connections);
        }
        if let Some(connection) = state.remove(self.number) {
            state.insert(self.number, Connection { group: unreserved, ..connection });
        }
        Ok(())
    }

    /// Begins a request that counts against the share of `holder`. A request without a holder
    /// counts against no share and leaves the connection unauthenticated.
    ///
    /// # Errors
    /// When the share of the holder is full.
    pub(crate) fn begin(self: &Arc<Self>, holder: Option<ShareOwner>) -> Result<InProgress, Rejection> {
        let limits = &self.connections.limits;
        let mut state = self.connections.state();
        if let Some(holder) = holder {
            let (most, rejection) = match holder {
                ShareOwner::Token(_) => (limits.per_token, Rejection::TokenShare),
                ShareOwner::Address(_) => (limits.per_address, Rejection::AddressShare),
                ShareOwner::TokenPriority(_) => (PRIORITY_REQUESTS, Rejection::TokenShare),
                ShareOwner::AddressPriority(_) => (PRIORITY_REQUESTS, Rejection::AddressShare),
            };
            let running = state.in_progress.entry(holder).or_default();
            if *running >= most {
                return Err(rejection);
            }
            *running += 1;
        }
        state.begin(self.number, holder.is_some());
        Ok(InProgress { ticket: Arc::clone(self), holder })
    }

    /// Waits until the connection must close: it was closed for another one, or has not
    /// authenticated in time.
    pub(crate) async fn wait_until_must_close(&self) -> &'static str {
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
            () = self.closing.notified() => "evicted for a new connection",
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
    holder: Option<ShareOwner>,
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut state = self.ticket.connections.state();
        if let Some(holder) = self.holder {
            decrement(&mut state.in_progress, &holder);
        }
        state.end(self.ticket.number);
    }
}

#[cfg(test)]
mod tests;
