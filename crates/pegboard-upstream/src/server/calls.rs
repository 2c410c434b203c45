//! Calls: which connection they use, and how they are repeated, counted and bounded.

use std::{sync::Arc, time::Duration};

use pegboard_core::{
    breaker::{Pass, Transition},
    locks::lock,
};
use pegboard_mcp::json::Raw;
use tokio::{sync::watch, time::Instant};
use tracing::Instrument as _;

use super::{CallClient, StartPhase, State, Upstream, pool::InUse};
use crate::{
    call_queue::CallerKey,
    config::ServerLimits,
    connection::{Call, CallError, Link},
    handshake::Hello,
    listing::Item,
    trace,
};

/// How often a call waits for another catalog connection.
const MAX_REPLACED: usize = 4;

/// The catalog connection, for those that wait for it.
type CatalogConnection = watch::Receiver<Option<(Arc<Link>, Arc<Hello>)>>;

/// A connection that a call can use.
pub(super) struct Usable {
    pub(super) link: Arc<Link>,
    pub(super) hello: Arc<Hello>,
    /// Keeps a connection of the pool open; the catalog connection has none.
    pub(super) in_use: Option<InUse>,
}

/// Which connection a call uses.
#[derive(Clone, Copy)]
enum Route<'a> {
    /// The catalog connection.
    Catalog,
    /// The connection of a client's calls.
    Client { upstream: &'a Arc<Upstream>, client: &'a CallClient },
}

impl Upstream {
    /// Makes a call over the catalog connection. A server that is stopped is started first, and one
    /// whose session has expired is connected again. While the circuit breaker is open, the call is
    /// refused.
    ///
    /// # Errors
    /// When the server refuses, is not there, or does not answer in time.
    pub async fn call(&self, make: impl FnMut(&Hello) -> Call) -> Result<Raw, CallError> {
        self.call_for(CallerKey::default(), make).await
    }

    /// [`call`](Self::call) on behalf of a party, which takes turns with others when there are
    /// more calls than the server may have at a time.
    ///
    /// # Errors
    /// As for [`call`](Self::call); and when it was not the call's turn in time.
    pub async fn call_for(&self, whose: CallerKey, make: impl FnMut(&Hello) -> Call) -> Result<Raw, CallError> {
        self.count_call(whose, self.try_call(Route::Catalog, make)).await
    }

    /// [`call_for`](Self::call_for) over the connection that the client's calls use: the catalog
    /// connection, another shared one, or one of its own, which is opened if necessary.
    ///
    /// # Errors
    /// As for [`call_for`](Self::call_for); and when there are too many connections.
    pub async fn call_as(
        self: &Arc<Self>,
        client: &CallClient,
        whose: CallerKey,
        make: impl FnMut(&Hello) -> Call,
    ) -> Result<Raw, CallError> {
        let route = Route::Client { upstream: self, client };
        self.count_call(whose, self.try_call(route, make)).await
    }

    /// Waits for the call's turn, makes it, and records how it went.
    async fn count_call(
        &self,
        whose: CallerKey,
        call: impl Future<Output = Result<Raw, CallError>>,
    ) -> Result<Raw, CallError> {
        let _using = Using::new(self);
        let (span, began) = (trace::call_span(self.name()), std::time::Instant::now());
        let work = async {
            match self.turns.acquire(whose, self.config.timeouts.call).await {
                Ok(_turn) => call.await,
                Err(busy) => Err(CallError::Busy(busy)),
            }
        };
        let outcome = work.instrument(span.clone()).await;
        trace::record_outcome(&span, &outcome, began);
        self.stats.record_call(&outcome, &self.redactor);
        outcome
    }

    async fn try_call(&self, route: Route<'_>, mut make: impl FnMut(&Hello) -> Call) -> Result<Raw, CallError> {
        let pass = self.breaker.admit(Instant::now().into_std()).map_err(CallError::Tripped)?;
        let mut has_retried = false;
        loop {
            let Usable { link, hello, in_use } = match route {
                Route::Catalog => self.catalog().await?,
                Route::Client { upstream, client } => upstream.connection_for(client).await?,
            };
            let mut call = make(&hello);
            self.check(&call, in_use.as_ref())?;
            call.trace = trace::record_target(&call, &hello);
            match link.call(call).await {
                Err(CallError::SessionExpired) if !has_retried => {
                    has_retried = true;
                    match in_use {
                        Some(in_use) => in_use.retire(),
                        None => self.wait_until_replaced(&link).await,
                    }
                }
                outcome => return self.record_outcome(pass, outcome),
            }
        }
    }

    /// Checks that a call may be sent.
    fn check(&self, call: &Call, in_use: Option<&InUse>) -> Result<(), CallError> {
        // The caller may have decided by a list of an earlier run; the server has sent its own since.
        if let Some(held) = self.hold_of(call, in_use) {
            return Err(held);
        }
        let bytes = call.params.get("arguments").map_or(0, |arguments| arguments.get().len());
        let ServerLimits { argument_bytes, .. } = self.config.limits;
        match bytes > argument_bytes {
            true => Err(CallError::ArgumentsTooLarge { bytes, most: argument_bytes }),
            false => Ok(()),
        }
    }

    /// Records the outcome with the circuit breaker, and bounds the size of the result.
    fn record_outcome(&self, pass: Pass<'_>, outcome: Result<Raw, CallError>) -> Result<Raw, CallError> {
        // A connection that ends with the gateway is not a failure of the server.
        let is_failure = |error: &&CallError| error.is_server_failure() && !*self.stop.borrow();
        let failure = outcome.as_ref().err().filter(is_failure);
        match pass.record(failure.map(|error| error.to_string().into()), Instant::now().into_std()) {
            Transition::None => {}
            Transition::Opened => tracing::warn!(server = self.name(), "circuit breaker opened"),
            Transition::Closed => tracing::info!(server = self.name(), "circuit breaker closed"),
        }
        let ServerLimits { result_bytes, .. } = self.config.limits;
        outcome.and_then(|result| match result.get().len() {
            bytes if bytes > result_bytes => Err(CallError::ResultTooLarge { bytes: Some(bytes), most: result_bytes }),
            _ => Ok(result),
        })
    }

    /// Returns the error of a call of a tool that must be approved first.
    fn hold_of(&self, call: &Call, in_use: Option<&InUse>) -> Option<CallError> {
        let lists = self.lists();
        if call.method != "tools/call" || (lists.held.is_empty() && in_use.is_none()) {
            return None;
        }
        let name = call.params.text("name").or_else(|| call.name.clone())?;
        let has = |items: &[Item]| items.iter().any(|item| item.key == name);
        if has(&lists.held) {
            return Some(CallError::Held);
        }
        in_use.filter(|in_use| in_use.holds(&name)).map(|_| CallError::Held)
    }

    /// Returns the catalog connection, waited for as long as a start may take.
    async fn catalog(&self) -> Result<Usable, CallError> {
        let usable = self.catalog_while(|| true).await?;
        usable.ok_or_else(|| CallError::NotRunning("it is still starting".into()))
    }

    /// Returns the catalog connection; `None` if it is not the wanted one any more when it is open.
    pub(super) async fn catalog_while(&self, is_wanted: impl Fn() -> bool) -> Result<Option<Usable>, CallError> {
        for _ in 0..MAX_REPLACED {
            let mut connection = self.connection.subscribe();
            let ready = connection.borrow_and_update().clone().filter(|(link, _)| link.close_reason().is_none());
            let (link, hello) = match ready {
                Some(ready) => ready,
                None => self.wait_until_started(connection).instrument(trace::start_span(self.name())).await?,
            };
            if !is_wanted() {
                return Ok(None);
            }
            // In this order: one that is closed after the question was not opened again for the sake of clients.
            if self.use_catalog(&hello) && link.close_reason().is_none() {
                return Ok(Some(Usable { link, hello, in_use: None }));
            }
            self.wait_until_replaced(&link).await;
        }
        Err(CallError::NotRunning("it is still starting".into()))
    }

    /// Waits until the server has started, and starts it if need be.
    async fn wait_until_started(
        &self,
        mut connection: CatalogConnection,
    ) -> Result<(Arc<Link>, Arc<Hello>), CallError> {
        let failures = self.stats.failures();
        // A server that is called has waited long enough for others to be served.
        self.context.advance(StartPhase::Started);
        let refuse = |reason: &str| Err(CallError::NotRunning(reason.into()));
        match self.state() {
            State::Disabled => return refuse("it is disabled"),
            State::Stopped => return refuse("it was stopped"),
            // One that is about to start need not wait for its turn.
            State::Failed { retry_in, .. } if self.is_restarting(retry_in) => self.wake.notify_one(),
            State::Failed { reason, .. } => return refuse(&reason),
            State::Lazy | State::Idle | State::Starting => self.wake.notify_one(),
            State::Ready => {}
        }
        let ready = async {
            let mut state = self.state.subscribe();
            loop {
                let usable = connection.borrow_and_update().clone();
                if let Some(usable) = usable.filter(|(link, _)| link.close_reason().is_none()) {
                    return Ok(usable);
                }
                match &*state.borrow_and_update() {
                    State::Failed { retry_in, .. } if self.is_restarting(*retry_in) => self.wake.notify_one(),
                    State::Failed { reason, .. } => return refuse(reason),
                    State::Disabled | State::Stopped => return refuse("it was stopped"),
                    // What woke it was one try; the next call may make another.
                    State::Lazy if self.stats.failures() > failures => {
                        return refuse(&self.stats.last_failure());
                    }
                    // It may have gone to sleep after we looked.
                    State::Lazy | State::Idle => self.wake.notify_one(),
                    // One that is opened again need not wait for its turn.
                    State::Starting => self.wake.notify_one(),
                    State::Ready => {}
                }
                tokio::select! {
                    _ = connection.changed() => {}
                    _ = state.changed() => {}
                }
            }
        };
        match tokio::time::timeout(self.config.timeouts.connect, ready).await {
            Ok(ready) => ready,
            Err(_) => refuse("it is still starting"),
        }
    }

    /// Returns whether a server that ran until it failed is started again soon, so that a call can
    /// wait for it. After a start that failed, the next one is not expected to succeed.
    fn is_restarting(&self, retry_in: Option<Duration>) -> bool {
        let is_soon = retry_in.is_some_and(|pause| pause < self.config.timeouts.connect);
        is_soon && self.failed_start().is_none()
    }

    /// Waits until a dead catalog connection is no longer offered.
    async fn wait_until_replaced(&self, link: &Arc<Link>) {
        let mut connection = self.connection.subscribe();
        let is_other =
            |now: &Option<(Arc<Link>, Arc<Hello>)>| now.as_ref().is_none_or(|(now, _)| !Arc::ptr_eq(now, link));
        let _ = tokio::time::timeout(self.config.timeouts.connect, connection.wait_for(is_other)).await;
    }
}

/// Counts a call while it runs.
struct Using<'a>(&'a Upstream);

impl<'a> Using<'a> {
    fn new(upstream: &'a Upstream) -> Self {
        upstream.stats.begin_call();
        Self(upstream)
    }
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.stats.end_call();
        *lock(&self.0.last_used) = Instant::now();
    }
}
