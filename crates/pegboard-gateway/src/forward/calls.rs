//! Calls on their way to a server, and what happens meanwhile.

use std::sync::Arc;

use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw},
    rpc::RpcError,
};
use pegboard_upstream::{Call, CallError, Event, Fleet, Hello, Turn, Upstream, queue};
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinHandle, JoinSet};
use tracing::Instrument as _;

use crate::{
    exchange::{Exchange, cannot_answer},
    forward::suspended::{BoundTo, Suspended, SuspendedCalls},
    limits::{Limits, Refusal, TooMuchUnread},
    metrics::{Metrics, Refused},
    request::Forwarded,
    setup::Setups,
    shares::Claim,
    startup::Shutdown,
};

/// What a server says during a call and is not read yet.
const EVENTS: usize = 256;

/// How often a server may ask again before its call is given up.
const MAX_ROUNDS: usize = 16;

/// A call to make of a server.
#[derive(Clone, Debug)]
pub(crate) struct Forward {
    pub(crate) server: Arc<str>,
    pub(crate) method: &'static str,
    /// With the server's own names.
    pub(crate) params: Fields,
    /// The tool, prompt or resource it names.
    pub(crate) name: Option<String>,
    /// Parameters that headers repeat.
    pub(crate) mirrored: Vec<(String, String)>,
}

/// A call that a server is busy with.
#[derive(Debug)]
pub(crate) struct Running {
    events: queue::Receiver<Event>,
    /// Questions to the client; they end with the call.
    questions: JoinSet<()>,
    task: Option<JoinHandle<Ended>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody waits for it any more; the server is told.
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// A call that its server has answered.
#[derive(Debug)]
struct Ended {
    result: Result<Raw, ForwardError>,
    era: Era,
    /// The result's room in its caller's share of memory: it may wait for long until the client has
    /// read what was said before it.
    room: Option<Claim>,
}

/// Makes calls of servers on behalf of clients.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) setups: Arc<Setups>,
    limits: Arc<Limits>,
    pub(crate) metrics: Arc<Metrics>,
    suspended: SuspendedCalls,
    shutdown: Arc<Shutdown>,
}

impl Forwarder {
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        setups: Arc<Setups>,
        limits: Arc<Limits>,
        metrics: Arc<Metrics>,
        shutdown: Arc<Shutdown>,
    ) -> Self {
        Self { fleet, setups, limits, metrics, suspended: SuspendedCalls::default(), shutdown }
    }

    /// Makes a call on behalf of a client, and sees it through.
    ///
    /// # Errors
    /// What the server refuses, as it says it; and what went wrong on the way.
    pub(crate) async fn forward(&self, exchange: &Exchange, forward: Forward) -> Result<Forwarded, ForwardError> {
        let mut cutting = self.shutdown.cutting.subscribe();
        let (server, method, name) = (Arc::clone(&forward.server), forward.method, forward.name.clone());
        let outcome = tokio::select! {
            // A call that has just ended keeps its result.
            biased;
            outcome = self.see_through(exchange, forward) => outcome,
            _ = cutting.wait_for(|is_cut| *is_cut) => {
                tracing::warn!(%server, method, name, "call interrupted by shutdown");
                Err(ForwardError::Cut)
            }
        };
        if let Some(refused) = outcome.as_ref().err().and_then(ForwardError::refused) {
            self.metrics.refused(refused);
        }
        outcome
    }

    /// How many calls wait for the input of their clients.
    pub(crate) fn suspended_calls(&self) -> usize {
        self.suspended.count()
    }

    async fn see_through(&self, exchange: &Exchange, forward: Forward) -> Result<Forwarded, ForwardError> {
        let is_resource = forward.method == "resources/read";
        let finish =
            |driven: Driven| Forwarded { result: driven.result, era: driven.era, is_resource, room: driven.room };
        let state = forward.params.text("requestState").filter(|state| self.suspended.is_ours(state));
        let bound_to = (exchange.viewer.caller, Arc::clone(&forward.server), identity(&forward));
        if let Some(state) = state {
            let suspended = self.suspended.take(&state, &bound_to)?;
            let Some(answer) = SuspendedCalls::answer(&forward.params) else {
                return Ok(finish(Driven::question(self.suspended.put(suspended))));
            };
            let Suspended { running, reply, .. } = suspended;
            let _ = reply.send(Ok(answer));
            return self.drive(exchange, running, &bound_to).await.map(finish);
        }
        let upstream = self.fleet.find(&forward.server);
        let upstream = upstream
            .ok_or_else(|| RpcError::new(RpcError::INTERNAL, "the server was removed from the configuration"))?;
        let limits = self.setups.current().limits_of(exchange.viewer.caller);
        let turn = self.limits.admit(limits, exchange.party(), upstream.config().timeouts.call).await?;
        let mut params = forward.params.clone();
        for _ in 0..MAX_ROUNDS {
            let running = self.start_call(exchange, &upstream, &forward, params.clone(), turn.clone());
            let driven = self.drive(exchange, running, &bound_to).await?;
            if exchange.is_asked_by_result() || !is_input_required(&driven.result) {
                return Ok(finish(driven));
            }
            // The client is asked what its server wants to know, and the call made again.
            let fields = Fields::of(&driven.result).unwrap_or_default();
            let responses = self.collect(exchange, fields.object("inputRequests").unwrap_or_default()).await?;
            params = forward.params.clone();
            params.set("inputResponses", responses.to_raw());
            if let Some(state) = fields.get("requestState") {
                params.set("requestState", state.to_owned());
            }
        }
        Err(RpcError::new(RpcError::INTERNAL, "too many input requests from the server for one call").into())
    }

    /// Asks the client of a session everything that its server wants to know.
    async fn collect(&self, exchange: &Exchange, requests: Fields) -> Result<Fields, RpcError> {
        let mut responses = Fields::new();
        for (key, request) in requests.iter() {
            let request = Fields::of(request).unwrap_or_default();
            let method = request.text("method").unwrap_or_default();
            let answer = exchange.ask(&method, request.get("params").map(ToOwned::to_owned)).await?;
            responses.set(key, answer);
        }
        Ok(responses)
    }

    fn start_call(
        &self,
        exchange: &Exchange,
        upstream: &Arc<Upstream>,
        forward: &Forward,
        params: Fields,
        turn: Option<Arc<Turn>>,
    ) -> Running {
        let upstream = Arc::clone(upstream);
        let (events, received) = queue::channel(EVENTS);
        let (method, name, mirrored) = (forward.method, forward.name.clone(), forward.mirrored.clone());
        let (capabilities, log_level) = (exchange.capabilities.clone(), exchange.log_level());
        let (wants_progress, owner) = (exchange.progress.is_some(), exchange.owner);
        let whose = exchange.on_behalf(self.setups.current().tokens.len() > 1);
        let trace = exchange.trace.clone();
        let (limits, party) = (Arc::clone(&self.limits), exchange.party());
        let most = self.setups.current().unread_bytes_per_caller;
        let work = async move {
            // Given back when the call ends, however it does: the task is dropped with it.
            let _turn = turn;
            let timeout = upstream.config().timeouts.call;
            let mut era = Era::Legacy;
            let make = |hello: &Hello| {
                era = hello.era;
                Call {
                    name: name.clone(),
                    mirrored: mirrored.clone(),
                    capabilities: Some(capabilities.clone()),
                    log_level: log_level.clone(),
                    wants_progress,
                    owner,
                    events: Some(events.clone()),
                    trace: trace.clone(),
                    ..Call::new(method, params.clone(), timeout)
                }
            };
            let result = upstream.call_for(whose, make).await.map_err(ForwardError::from);
            let room = result.as_ref().map_or(Ok(None), |result| limits.open_answer(party, result.get().len(), most));
            match room {
                Ok(room) => Ended { result, era, room },
                Err(error) => Ended { result: Err(error.into()), era, room: None },
            }
        };
        let task = tokio::spawn(work.in_current_span());
        Running { events: received, questions: JoinSet::new(), task: Some(task) }
    }

    /// Sees a call through to its result, or to a question that is a result itself.
    async fn drive(
        &self,
        exchange: &Exchange,
        mut running: Running,
        bound_to: &BoundTo,
    ) -> Result<Driven, ForwardError> {
        loop {
            let Some(task) = running.task.as_mut() else {
                return Err(RpcError::new(RpcError::INTERNAL, "the call has ended").into());
            };
            let event = tokio::select! {
                // What was said before the result must be passed on before it.
                biased;
                Some(event) = running.events.recv() => event,
                ended = task => {
                    running.task = None;
                    let cancelled = |_| RpcError::new(RpcError::INTERNAL, "the call was cancelled");
                    let Ended { result, era, room } = ended.map_err(cancelled)?;
                    return Ok(Driven { result: result?, era, room });
                }
            };
            match event {
                Event::Notification { method, params } => exchange.relay(&method, params).await,
                Event::Request { method, reply, .. } if !exchange.can_answer(&method) => {
                    let _ = reply.send(Err(cannot_answer(&method)));
                }
                Event::Request { method, params, reply } if !exchange.is_asked_by_result() => {
                    let exchange = exchange.clone();
                    let mut reply = reply;
                    while running.questions.try_join_next().is_some() {}
                    let asking = async move {
                        let answer = tokio::select! {
                            answer = exchange.ask(&method, params) => answer,
                            // The server no longer wants to know.
                            () = reply.closed() => return,
                        };
                        let _ = reply.send(answer);
                    };
                    running.questions.spawn(asking.in_current_span());
                }
                Event::Request { method, params, reply } => {
                    let bytes = params.as_ref().map_or(0, |params| params.get().len());
                    let most = self.setups.current().unread_bytes_per_caller;
                    match self.limits.open_answer(exchange.party(), bytes, most) {
                        Ok(room) => {
                            let bound_to = bound_to.clone();
                            let suspended = Suspended { running, method, params, reply, bound_to, _room: room };
                            return Ok(Driven::question(self.suspended.put(suspended)));
                        }
                        Err(error) => _ = reply.send(Err(RpcError::new(RpcError::INTERNAL, error.to_string()))),
                    }
                }
            }
        }
    }
}

/// A call that came to its end.
struct Driven {
    result: Raw,
    /// The rules of the server that it came from.
    era: Era,
    /// The result's room in its caller's share of memory.
    room: Option<Claim>,
}

impl Driven {
    /// A question that is the result.
    fn question(result: Raw) -> Self {
        Self { result, era: Era::Modern, room: None }
    }
}

/// Why a call failed: what the server said, or what happened to it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error(transparent)]
    Rpc(#[from] RpcError),
    #[error(transparent)]
    Lost(CallError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Unread(#[from] TooMuchUnread),
    #[error("the gateway is shutting down; the call was interrupted and may or may not have taken effect")]
    Cut,
}

impl From<CallError> for ForwardError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Rpc(error) => Self::Rpc(error),
            error => Self::Lost(error),
        }
    }
}

impl ForwardError {
    /// As the wire says it.
    pub(crate) fn into_rpc(self, server: &str) -> RpcError {
        match self {
            Self::Rpc(error) => error,
            Self::Lost(_) | Self::Cut => RpcError::new(RpcError::INTERNAL, format!("server `{server}`: {self}")),
            Self::Unread(error) => RpcError::new(RpcError::INTERNAL, error.to_string()),
            Self::Refused(refusal) => RpcError::new(RpcError::INTERNAL, format!("request not sent: {refusal}")),
        }
    }

    /// Which limit a call has met with, if that is why it failed.
    pub(crate) fn refused(&self) -> Option<Refused> {
        Some(match self {
            Self::Refused(Refusal::Rate { .. }) => Refused::Rate,
            Self::Refused(Refusal::Busy(_)) => Refused::CallerBusy,
            Self::Lost(CallError::Busy(_)) => Refused::ServerBusy,
            Self::Lost(CallError::Tripped(_)) => Refused::Breaker,
            Self::Lost(CallError::ArgumentsTooLarge { .. }) => Refused::ArgumentBytes,
            Self::Lost(CallError::ResultTooLarge { .. }) => Refused::ResultBytes,
            _ => return None,
        })
    }
}

/// A digest of what a call is about: its continuation must be about the same, and arguments can
/// be too large to be kept.
fn identity(forward: &Forward) -> [u8; 32] {
    let arguments = forward.params.get("arguments").map(|arguments| arguments.get()).unwrap_or_default();
    let name = forward.name.as_deref().unwrap_or_default();
    // The length keeps a name and its arguments apart.
    let head = format!("{} {} {name} ", forward.method, name.len());
    Sha256::new().chain_update(head).chain_update(arguments).finalize().into()
}

/// Whether a result asks the client for something.
pub(crate) fn is_input_required(result: &Raw) -> bool {
    // Looking is cheaper than taking apart.
    result.get().contains("\"input_required\"")
        && Fields::of(result).and_then(|fields| fields.text("resultType")).as_deref() == Some("input_required")
}

#[cfg(test)]
mod tests;
