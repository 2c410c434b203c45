//! The connections of a server beside the catalog connection.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use pegboard_core::locks::lock;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{
    client::{ClientOwner, ConnectionKey, UpdateSource},
    subscriptions::{SentSubscriptions, set_watched},
};
use crate::{
    capabilities::Capabilities,
    connection::{CallError, Link},
    handshake::Hello,
};

/// The connections of a server beside the catalog connection.
#[derive(Debug)]
pub(super) struct Pool {
    slots: Mutex<Vec<Arc<Slot>>>,
    /// How many there are, with those that are being closed. Waiting for a number must not need the
    /// lock of the slots, under which numbers are sent.
    count: watch::Sender<PoolCount>,
    /// Signals that a call has left its connection.
    freed: Arc<Notify>,
}

impl Default for Pool {
    fn default() -> Self {
        Self { slots: Mutex::default(), count: watch::Sender::new(PoolCount::default()), freed: Arc::default() }
    }
}

/// The number of connections in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PoolCount {
    shared: usize,
    own: usize,
}

impl PoolCount {
    fn of(slots: &[Arc<Slot>]) -> Self {
        let own = slots.iter().filter(|slot| slot.key.is_own()).count();
        Self { shared: slots.len() - own, own }
    }
}

/// One connection of the pool.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: ConnectionKey,
    /// The party that it counts against.
    party: Option<u64>,
    state: watch::Sender<SlotState>,
    calls: AtomicUsize,
    /// Signals that a call has left.
    freed: Arc<Notify>,
    used: Mutex<Instant>,
    is_ending: watch::Sender<bool>,
    /// Whether its client has gone.
    is_released: AtomicBool,
    /// The resources that its client has subscribed to, for a modern server.
    pub(super) watched: watch::Sender<BTreeSet<String>>,
    /// The subscriptions that were sent on it. Locked while one is sent, so that they keep their order.
    pub(super) subscribed: tokio::sync::Mutex<SentSubscriptions>,
    /// Tools that differ here from their approved definition.
    held: Mutex<BTreeSet<String>>,
    /// The capabilities that it declares.
    declared: Mutex<Capabilities>,
}

/// What a connection of the pool is doing.
#[derive(Clone, Debug)]
enum SlotState {
    Opening,
    Open(Arc<Link>, Arc<Hello>),
    Failed(OpenFailure),
}

/// Why a connection of the pool was not opened.
#[derive(Clone, Debug)]
pub(super) enum OpenFailure {
    /// The server does not speak the era of the client, as is known now.
    Era,
    /// Another reason.
    Reason(Arc<str>),
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolLimit {
    /// Maximum number of connections that belong to single clients.
    pub(super) most: usize,
    /// The party that wants one more.
    pub(super) party: Option<u64>,
}

impl PoolLimit {
    /// Returns the maximum for the party: where parties are told apart, none gets more than three
    /// quarters, so that the others get some. Fewer than four are not divided.
    fn most_of_party(self) -> usize {
        match (self.party, self.most) {
            (Some(_), most @ 4..) => most - most / 4,
            (_, most) => most,
        }
    }

    /// Returns whether the party can have one more connection of a single client.
    fn allows_one_more(self, slots: &[Arc<Slot>]) -> bool {
        let own = || slots.iter().filter(|slot| slot.key.is_own());
        let of_party = own().filter(|slot| slot.party == self.party).count();
        own().count() < self.most && of_party < self.most_of_party()
    }
}

/// What a call wants of the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) key: ConnectionKey,
    /// Whether the connection serves one call at a time: others wait. While it waits for its client's answer to a question,
    /// which takes long, a lease is made instead.
    pub(super) is_exclusive: bool,
    pub(super) limit: PoolLimit,
}

/// The place of a call in the pool.
enum Place<'a> {
    /// A connection that is there.
    Known(&'a Arc<Slot>),
    /// One that is to be opened.
    New(ConnectionKey),
    /// A connection that serves another call.
    Busy(&'a Arc<Slot>),
    /// There are too many.
    None,
}

impl Wanted {
    fn place(self, slots: &[Arc<Slot>]) -> Place<'_> {
        let Self { key, is_exclusive, limit } = self;
        let known = slots.iter().find(|slot| slot.key == key && key != ConnectionKey::Lease && slot.is_usable());
        if let Some(slot) = known {
            if !is_exclusive || !key.is_own() || !slot.is_busy() {
                return Place::Known(slot);
            }
            if !slot.is_asking() {
                return Place::Busy(slot);
            }
        }
        let key = if known.is_some() { ConnectionKey::Lease } else { key };
        if key.is_own() && !limit.allows_one_more(slots) { Place::None } else { Place::New(key) }
    }
}

/// The error of a call that gets no connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolFull {
    most: usize,
    /// Whether the connection of the client serves another call.
    pub(super) is_busy: bool,
    /// Whether a connection of a single client is being closed: it counts until its process is gone.
    pub(super) is_making_room: bool,
}

impl From<PoolFull> for CallError {
    fn from(PoolFull { most, is_busy, .. }: PoolFull) -> Self {
        if is_busy { Self::ConnectionBusy } else { Self::TooManyConnections { most } }
    }
}

impl Pool {
    /// Returns the wanted connection, reserved for a call, and whether it is to be opened.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn reserve(&self, wanted: Wanted) -> Result<(InUse, bool), PoolFull> {
        let mut slots = lock(&self.slots);
        let key = match wanted.place(&slots) {
            Place::Known(slot) => return Ok((InUse::new(slot), false)),
            Place::New(key) => key,
            Place::Busy(_) => return Err(PoolFull { most: wanted.limit.most, is_busy: true, is_making_room: false }),
            Place::None => {
                let is_making_room = slots.iter().any(|slot| slot.key.is_own() && slot.is_ending());
                return Err(PoolFull { most: wanted.limit.most, is_busy: false, is_making_room });
            }
        };
        let slot = Arc::new(Slot::new(key, wanted.limit.party, Arc::clone(&self.freed)));
        slots.push(Arc::clone(&slot));
        self.count.send_replace(PoolCount::of(&slots));
        Ok((InUse::new(&slot), true))
    }

    /// Removes a connection that is closed.
    pub(super) fn remove(&self, slot: &Arc<Slot>) {
        let mut slots = lock(&self.slots);
        slots.retain(|one| !Arc::ptr_eq(one, slot));
        self.count.send_replace(PoolCount::of(&slots));
    }

    /// Ends the connections of a client.
    pub(super) fn release(&self, owner: ClientOwner) {
        lock(&self.slots).iter().filter(|slot| slot.key.belongs_to(owner)).for_each(|slot| slot.release());
    }

    /// Sets the resources that the clients of connections have subscribed to.
    pub(super) fn watch(&self, source: UpdateSource, wanted: impl Fn() -> BTreeSet<String>) {
        let slots = lock(&self.slots);
        let concerned = slots.iter().filter(|slot| slot.key.source() == Some(source));
        concerned.for_each(|slot| set_watched(&slot.watched, &wanted));
    }

    /// Returns the open connections that `is_it` selects by their key.
    pub(super) fn open(&self, is_it: impl Fn(ConnectionKey) -> bool) -> Vec<(Arc<Link>, Arc<Hello>)> {
        self.open_slots(is_it).into_iter().map(|(_, link, hello)| (link, hello)).collect()
    }

    /// Returns the open connections that `is_it` selects by their key, with their places.
    pub(super) fn open_slots(&self, is_it: impl Fn(ConnectionKey) -> bool) -> Vec<(Arc<Slot>, Arc<Link>, Arc<Hello>)> {
        let slots = lock(&self.slots);
        let open = |slot: &Arc<Slot>| match &*slot.state.borrow() {
            SlotState::Open(link, hello) => Some((Arc::clone(slot), Arc::clone(link), Arc::clone(hello))),
            SlotState::Opening | SlotState::Failed(_) => None,
        };
        slots.iter().filter(|slot| is_it(slot.key) && !slot.is_ending()).filter_map(open).collect()
    }

    /// Returns what the connection with this key declares, also while it is opened.
    pub(super) fn declared_on(&self, key: ConnectionKey) -> Option<Capabilities> {
        let slots = lock(&self.slots);
        slots.iter().find(|slot| slot.key == key && slot.is_usable()).map(|slot| slot.declared())
    }

    /// Returns the number of shared connections and of connections of single clients.
    pub(super) fn counts(&self) -> (usize, usize) {
        let PoolCount { shared, own } = *self.count.borrow();
        (shared, own)
    }

    /// Waits until no call has used a connection for so long, and ends it then; for ever if `limit`
    /// is zero.
    pub(super) async fn unused(&self, slot: &Slot, limit: Duration) {
        if limit.is_zero() {
            return std::future::pending().await;
        }
        loop {
            let until = *lock(&slot.used) + limit;
            tokio::time::sleep_until(until).await;
            // No call can begin meanwhile.
            let _slots = lock(&self.slots);
            if slot.is_busy() {
                *lock(&slot.used) = Instant::now();
            } else if *lock(&slot.used) + limit <= Instant::now() {
                return slot.end();
            }
        }
    }

    /// Waits until a call can have the wanted connection: until there is room for one more, or its
    /// client's own one is not busy any more.
    pub(super) async fn has_room(&self, wanted: Wanted) {
        let mut count = self.count.subscribe();
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            count.mark_unchanged();
            let busy = match wanted.place(&lock(&self.slots)) {
                Place::Known(_) | Place::New(_) => return,
                Place::Busy(slot) => Some(Arc::clone(slot)),
                Place::None => None,
            };
            let asking = async {
                match &busy {
                    Some(slot) => slot.wait_until_asking().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = count.changed() => if changed.is_err() { return },
                () = freed => {}
                () = asking => {}
            }
        }
    }

    /// Waits until there are no connections.
    pub(super) async fn emptied(&self) {
        let _ = self.count.subscribe().wait_for(|count| *count == PoolCount::default()).await;
    }
}

impl Slot {
    fn new(key: ConnectionKey, party: Option<u64>, freed: Arc<Notify>) -> Self {
        Self {
            key,
            party,
            freed,
            state: watch::Sender::new(SlotState::Opening),
            calls: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            is_ending: watch::Sender::new(false),
            is_released: AtomicBool::new(false),
            watched: watch::Sender::default(),
            subscribed: tokio::sync::Mutex::default(),
            held: Mutex::default(),
            declared: Mutex::default(),
        }
    }

    fn is_ending(&self) -> bool {
        *self.is_ending.borrow()
    }

    /// Returns whether it waits for the client's answer to a question.
    fn is_asking(&self) -> bool {
        matches!(&*self.state.borrow(), SlotState::Open(link, _) if link.has_open_question())
    }

    async fn wait_until_asking(&self) {
        let mut state = self.state.subscribe();
        loop {
            let link = match &*state.borrow_and_update() {
                SlotState::Open(link, _) => Some(Arc::clone(link)),
                SlotState::Opening | SlotState::Failed(_) => None,
            };
            let Some(link) = link else {
                if state.changed().await.is_err() {
                    return std::future::pending().await;
                }
                continue;
            };
            return link.wait_for_question().await;
        }
    }

    fn is_busy(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > 0
    }

    /// Returns whether a call can use the connection, or wait for it.
    fn is_usable(&self) -> bool {
        let is_alive = match &*self.state.borrow() {
            SlotState::Opening => true,
            SlotState::Open(link, _) => link.close_reason().is_none(),
            SlotState::Failed(_) => false,
        };
        is_alive && !self.is_ending()
    }

    /// Returns the capabilities that the connection declares.
    pub(super) fn declared(&self) -> Capabilities {
        *lock(&self.declared)
    }

    /// Records the capabilities that the connection declares.
    pub(super) fn set_declared(&self, declared: Capabilities) {
        *lock(&self.declared) = declared;
    }

    /// Marks the connection as open.
    pub(super) fn set_open(&self, link: &Arc<Link>, hello: &Arc<Hello>) {
        self.state.send_replace(SlotState::Open(Arc::clone(link), Arc::clone(hello)));
    }

    /// Marks the connection as not opened.
    pub(super) fn set_failed(&self, failure: OpenFailure) {
        self.state.send_replace(SlotState::Failed(failure));
    }

    /// Marks a connection that is still waited for as not opened.
    pub(super) fn set_closed(&self) {
        self.state.send_if_modified(|state| {
            let is_opening = matches!(state, SlotState::Opening);
            if is_opening {
                *state = SlotState::Failed(OpenFailure::Reason("the connection was closed".into()));
            }
            is_opening
        });
    }

    /// Holds these tools back on this connection.
    pub(super) fn hold(&self, tools: BTreeSet<String>) {
        *lock(&self.held) = tools;
    }

    /// Ends the connection.
    pub(super) fn end(&self) {
        self.is_ending.send_replace(true);
    }

    /// Ends the connection, because its client has gone.
    pub(super) fn release(&self) {
        self.is_released.store(true, Ordering::Relaxed);
        self.end();
    }

    /// Returns whether the client of the connection has gone.
    pub(super) fn is_released(&self) -> bool {
        self.is_released.load(Ordering::Relaxed)
    }

    /// Waits until the connection is to be ended.
    pub(super) async fn ending(&self) {
        let _ = self.is_ending.subscribe().wait_for(|is_ending| *is_ending).await;
    }
}

/// A connection of the pool while a call uses it.
#[derive(Debug)]
pub(super) struct InUse(Arc<Slot>);

impl InUse {
    fn new(slot: &Arc<Slot>) -> Self {
        slot.calls.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(slot))
    }

    pub(super) fn slot(&self) -> &Arc<Slot> {
        &self.0
    }

    /// Waits until the connection is open.
    pub(super) async fn opened(&self) -> Result<(Arc<Link>, Arc<Hello>), OpenFailure> {
        let mut state = self.0.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, SlotState::Opening)).await;
        match settled.as_deref() {
            Ok(SlotState::Open(link, hello)) => Ok((Arc::clone(link), Arc::clone(hello))),
            Ok(SlotState::Failed(failure)) => Err(failure.clone()),
            Ok(SlotState::Opening) | Err(_) => Err(OpenFailure::Reason("closed".into())),
        }
    }

    /// Returns whether a tool is held back on this connection.
    pub(super) fn holds(&self, tool: &str) -> bool {
        lock(&self.0.held).contains(tool)
    }

    /// Ends the connection, because the server has forgotten it.
    pub(super) fn retire(self) {
        self.0.end();
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        *lock(&self.0.used) = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
        if self.0.key == ConnectionKey::Lease {
            self.0.end();
        }
        self.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use pegboard_mcp::{
        era::Era,
        json::{Fields, Raw, raw},
    };
    use serde_json::json;

    use super::*;
    use crate::{
        connection::{Call, LinkSettings},
        server::CallClient,
        transport::{
            Outbound,
            local::{AnswerFuture, LocalServer},
        },
    };

    const LIMIT: PoolLimit = PoolLimit { most: 4, party: None };

    /// The key of a session's own connection.
    fn session(number: u64) -> ConnectionKey {
        let client = CallClient {
            era: Era::Legacy,
            owner: Some(ClientOwner::Session(number)),
            party: None,
            capabilities: raw(&json!({})),
            log_level: None,
            life: None,
            events: None,
            inbox: None,
        };
        client.own_key()
    }

    /// What a call of a client wants.
    fn wanted(key: ConnectionKey, is_exclusive: bool) -> Wanted {
        Wanted { key, is_exclusive, limit: LIMIT }
    }

    #[tokio::test]
    async fn a_client_has_one_connection_and_a_lease_is_for_one_call() {
        let pool = Pool::default();
        let (first, is_new) = pool.reserve(wanted(session(1), false)).expect("there is room");
        assert!(is_new);
        let (second, is_new) = pool.reserve(wanted(session(1), false)).expect("it is there");
        assert!(!is_new && Arc::ptr_eq(first.slot(), second.slot()));
        let leases = [(); 2].map(|()| pool.reserve(wanted(ConnectionKey::Lease, true)).expect("there is room"));
        assert!(leases.iter().all(|(_, is_new)| *is_new));
        let slot = Arc::clone(leases[0].0.slot());
        assert!(!slot.is_ending());
        drop(leases);
        assert!(slot.is_ending() && !first.slot().is_ending());
        assert_eq!(pool.counts(), (0, 3), "closing ones count until they are gone");
        pool.release(ClientOwner::Session(1));
        assert!(first.slot().is_ending());
        let (_, is_new) = pool.reserve(wanted(session(1), false)).expect("there is room");
        assert!(is_new, "one that ends is not used");
    }

    /// A connection to a server that never answers.
    fn open_link() -> Arc<Link> {
        let (notices, _) = tokio::sync::mpsc::channel(1);
        Link::new(LinkSettings::test(notices), Outbound::Local(Arc::new(Mute)))
    }

    #[derive(Debug)]
    struct Mute;

    impl LocalServer for Mute {
        fn answer<'a>(&'a self, _: &'a str, _: Option<Raw>) -> AnswerFuture<'a> {
            Box::pin(std::future::pending())
        }
    }

    fn hello() -> Arc<Hello> {
        let (capabilities, version) = (Fields::new(), String::new());
        Arc::new(Hello { era: Era::Legacy, version, capabilities, server_info: None, instructions: None })
    }

    #[tokio::test]
    async fn a_busy_exclusive_connection_is_waited_for_unless_its_client_is_asked() {
        let pool = Pool::default();
        let wanted = wanted(session(1), true);
        let (first, _) = pool.reserve(wanted).expect("there is room");
        let link = open_link();
        first.slot().set_open(&link, &hello());
        let full = pool.reserve(wanted).expect_err("one call at a time");
        assert!(full.is_busy && !full.is_making_room);
        let mut waiting = std::pin::pin!(pool.has_room(wanted));
        let mut poll =
            async || std::future::poll_fn(|context| std::task::Poll::Ready(waiting.as_mut().poll(context))).await;
        assert!(poll().await.is_pending());
        // A question that is on its way to the client.
        let (events, _heard) = crate::queue::channel(1);
        let call = Call { events: Some(events), ..Call::new("tools/call", Fields::new(), Duration::MAX) };
        let calling = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.call(Call { timeout: None, ..call }).await }
        });
        tokio::task::yield_now().await;
        let question = link.reply("elicitation/create".to_owned(), None, None);
        assert!(poll().await.is_ready());
        let (second, is_new) = pool.reserve(wanted).expect("there is room");
        assert_eq!((second.slot().key, is_new), (ConnectionKey::Lease, true), "an answer can take long");
        drop((question, second));
        assert!(pool.reserve(wanted).is_err());
        calling.abort();
        drop(first);
        let (third, is_new) = pool.reserve(wanted).expect("it is there");
        assert_eq!((third.slot().key, is_new), (session(1), false));
    }

    #[tokio::test]
    async fn connections_are_bounded_for_all_and_for_each_party() {
        /// Reserves connections for parties, and returns which of them were refused.
        fn refused(most: usize, parties: &[Option<u64>]) -> Vec<bool> {
            let pool = Pool::default();
            let mut kept = Vec::new();
            let reserve = |(number, party): (usize, &Option<u64>)| {
                let limit = PoolLimit { most, party: *party };
                let reserved = pool.reserve(Wanted { key: session(number as u64), is_exclusive: false, limit });
                let is_refused = reserved.is_err();
                kept.extend(reserved);
                is_refused
            };
            parties.iter().enumerate().map(reserve).collect()
        }
        assert_eq!(refused(2, &[None, None, None]), [false, false, true]);
        assert_eq!(refused(4, &[Some(1), Some(1), Some(1), Some(1), Some(2)]), [false, false, false, true, false]);
        assert_eq!(refused(1, &[Some(1), Some(2)]), [false, true]);
        let pool = Pool::default();
        let shared = ConnectionKey::Shared(Era::Legacy);
        let limit = PoolLimit { most: 1, party: None };
        let _held = [session(1), shared].map(|key| pool.reserve(Wanted { key, is_exclusive: false, limit }));
        assert_eq!(pool.counts(), (1, 1), "a shared one does not count");
    }

    #[tokio::test]
    async fn room_is_there_when_a_closed_connection_is_gone() {
        let (pool, limit) = (Pool::default(), PoolLimit { most: 4, party: Some(1) });
        let wanted = |number| Wanted { key: session(number), is_exclusive: false, limit };
        let mut held: Vec<InUse> =
            (0..3).map(|number| pool.reserve(wanted(number)).expect("there is room").0).collect();
        let full = pool.reserve(wanted(9)).expect_err("the party has its share");
        assert!(!full.is_making_room);
        let slot = Arc::clone(held[0].slot());
        pool.release(ClientOwner::Session(0));
        drop(held.remove(0));
        assert!(pool.reserve(wanted(9)).expect_err("it is not gone yet").is_making_room);
        let mut waiting = std::pin::pin!(pool.has_room(wanted(9)));
        let mut poll =
            async || std::future::poll_fn(|context| std::task::Poll::Ready(waiting.as_mut().poll(context))).await;
        assert!(poll().await.is_pending());
        pool.remove(&slot);
        assert!(poll().await.is_ready());
        assert!(pool.reserve(wanted(9)).is_ok());
    }

    #[tokio::test]
    async fn room_is_there_when_the_connection_of_the_client_is_free() {
        let pool = Pool::default();
        let wanted = Wanted { key: session(1), is_exclusive: true, limit: PoolLimit { most: 1, party: None } };
        let (busy, _) = pool.reserve(wanted).expect("there is room");
        assert!(pool.reserve(wanted).is_err(), "one call at a time");
        let mut waiting = std::pin::pin!(pool.has_room(wanted));
        let mut poll =
            async || std::future::poll_fn(|context| std::task::Poll::Ready(waiting.as_mut().poll(context))).await;
        assert!(poll().await.is_pending());
        drop(busy);
        assert!(poll().await.is_ready());
        let (again, is_new) = pool.reserve(wanted).expect("it is free");
        assert_eq!((again.slot().key, is_new), (session(1), false));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unused_connection_ends_and_a_busy_one_does_not() {
        let (pool, limit) = (Pool::default(), Duration::from_secs(10));
        let (in_use, _) = pool.reserve(wanted(session(1), false)).expect("there is room");
        let slot = Arc::clone(in_use.slot());
        let busy = tokio::time::timeout(limit * 3, pool.unused(&slot, limit)).await;
        assert!(busy.is_err() && !slot.is_ending());
        drop(in_use);
        let began = Instant::now();
        pool.unused(&slot, limit).await;
        assert!(slot.is_ending() && began.elapsed() == limit);
        let never = tokio::time::timeout(limit * 100, pool.unused(&slot, Duration::ZERO)).await;
        assert!(never.is_err());
    }
}
