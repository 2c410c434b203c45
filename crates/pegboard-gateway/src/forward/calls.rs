//! Calls to servers, and the events during a call.

use std::sync::Arc;

use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw},
    rpc::RpcError,
};
use pegboard_upstream::{Call, CallError, CallEvent, CallPermit, Fleet, Hello, Upstream, queue};
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinHandle, JoinSet};
use tracing::Instrument as _;

use crate::{
    exchange::{Exchange, unsupported_request_error},
    forward::suspended::{BoundTo, Suspended, SuspendedCalls},
    limits::{AdmissionControl, LimitExceeded, TooMuchUnread},
    metrics::{Metrics, RejectReason},
    request::Forwarded,
    setup::Setups,
    shares::Claim,
    startup::Shutdown,
};

/// Maximum number of unread events of a call.
const EVENTS: usize = 256;

/// Maximum number of times that a server may ask for input in one call.
const MAX_ROUNDS: usize = 16;

/// A call to a server.
#[derive(Clone, Debug)]
pub(crate) struct Forward {
    pub(crate) server: Arc<str>,
    pub(crate) method: &'static str,
    /// The parameters, with the server's own names.
    pub(crate) params: Fields,
    /// The tool, prompt or resource that the call names.
    pub(crate) name: Option<String>,
    /// The parameters that are repeated in headers.
    pub(crate) mirrored: Vec<(String, String)>,
}

/// A running call.
#[derive(Debug)]
pub(crate) struct Running {
    events: queue::Receiver<CallEvent>,
    /// Questions to the client; they end with the call.
    questions: JoinSet<()>,
    task: Option<JoinHandle<UpstreamAnswer>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The caller has gone; this cancels the call at the server.
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// The answer of a server to a call.
#[derive(Debug)]
struct UpstreamAnswer {
    result: Result<Raw, ForwardError>,
    era: Era,
    /// The result's room in its caller's share of memory: it may wait for long until the client has
    /// read what was said before it.
    room: Option<Claim>,
}

/// Makes calls to servers on behalf of clients.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) setups: Arc<Setups>,
    limits: Arc<AdmissionControl>,
    pub(crate) metrics: Arc<Metrics>,
    suspended: SuspendedCalls,
    pub(crate) shutdown: Arc<Shutdown>,
}

impl Forwarder {
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        setups: Arc<Setups>,
        limits: Arc<AdmissionControl>,
        metrics: Arc<Metrics>,
        shutdown: Arc<Shutdown>,
    ) -> Self {
        Self { fleet, setups, limits, metrics, suspended: SuspendedCalls::default(), shutdown }
    }

    /// Makes a call on behalf of a client, and waits for its result.
    ///
    /// # Errors
    /// The error of the server, or the reason why the call failed.
    pub(crate) async fn forward(&self, exchange: &Exchange, forward: Forward) -> Result<Forwarded, ForwardError> {
        let mut cutting = self.shutdown.cutting.subscribe();
        let (server, method, name) = (Arc::clone(&forward.server), forward.method, forward.name.clone());
        let outcome = tokio::select! {
            // A call that has just ended keeps its result.
            biased;
            outcome = self.run_to_completion(exchange, forward) => outcome,
            _ = cutting.wait_for(|is_cut| *is_cut) => {
                tracing::warn!(%server, method, name, "call interrupted by shutdown");
                Err(ForwardError::Cut)
            }
        };
        if let Some(refused) = outcome.as_ref().err().and_then(ForwardError::reject_reason) {
            self.metrics.count_rejection(refused);
        }
        outcome
    }

    /// Returns the calls that wait for the input of their clients.
    pub(crate) fn suspended(&self) -> &SuspendedCalls {
        &self.suspended
    }

    async fn run_to_completion(&self, exchange: &Exchange, forward: Forward) -> Result<Forwarded, ForwardError> {
        let is_resource = forward.method == "resources/read";
        let finish = |driven: CompletedCall| Forwarded {
            result: driven.result,
            era: driven.era,
            is_resource,
            room: driven.room,
        };
        let state = forward.params.text("requestState").filter(|state| self.suspended.is_gateway_state(state));
        let bound_to = (exchange.viewer.caller, Arc::clone(&forward.server), digest(&forward));
        if let Some(state) = state {
            let suspended = self.suspended.resume(&state, &bound_to)?;
            let Some(answer) = SuspendedCalls::input_response(&forward.params) else {
                return Ok(finish(CompletedCall::question(self.suspended.suspend(suspended))));
            };
            let Suspended { running, reply, .. } = suspended;
            let _ = reply.send(Ok(answer));
            return self.drive_call(exchange, running, &bound_to).await.map(finish);
        }
        let upstream = self.fleet.find(&forward.server);
        let upstream = upstream
            .ok_or_else(|| RpcError::new(RpcError::INTERNAL, "the server was removed from the configuration"))?;
        let limits = self.setups.current().limits_of(exchange.viewer.caller);
        let turn = self.limits.admit(limits, exchange.party(), upstream.config().timeouts.call).await?;
        let mut params = forward.params.clone();
        let mut has_made_room = false;
        for _ in 0..MAX_ROUNDS {
            let running = self.start_call(exchange, &upstream, &forward, params.clone(), turn.clone());
            let driven = match self.drive_call(exchange, running, &bound_to).await {
                // A call that waits for input keeps its connection; the caller's oldest one makes room,
                // and no further one: this call needs one connection.
                Err(ForwardError::Lost(CallError::TooManyConnections { .. }))
                    if !has_made_room && self.suspended.drop_oldest_of(&bound_to) =>
                {
                    has_made_room = true;
                    upstream.wait_for_room(&exchange.call_client(None)).await;
                    continue;
                }
                driven => driven?,
            };
            if exchange.is_asked_by_result() || !is_input_required(&driven.result) {
                return Ok(finish(driven));
            }
            // The client is asked what its server wants to know, and the call made again.
            let fields = Fields::of(&driven.result).unwrap_or_default();
            let responses = self.collect_inputs(exchange, fields.object("inputRequests").unwrap_or_default()).await?;
            params = forward.params.clone();
            params.set("inputResponses", responses.to_raw());
            if let Some(state) = fields.get("requestState") {
                params.set("requestState", state.to_owned());
            }
        }
        Err(RpcError::new(RpcError::INTERNAL, "too many input requests from the server for one call").into())
    }

    /// Asks the client of a session everything that its server wants to know.
    async fn collect_inputs(&self, exchange: &Exchange, requests: Fields) -> Result<Fields, RpcError> {
        let mut responses = Fields::new();
        for (key, request) in requests.iter() {
            let request = Fields::of(request).unwrap_or_default();
            let method = request.text("method").unwrap_or_default();
            let answer = exchange.ask_client(&method, request.get("params").map(ToOwned::to_owned)).await?;
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
        turn: Option<Arc<CallPermit>>,
    ) -> Running {
        let upstream = Arc::clone(upstream);
        let (events, received) = queue::channel(EVENTS);
        let (method, name, mirrored) = (forward.method, forward.name.clone(), forward.mirrored.clone());
        let (capabilities, log_level) = (exchange.capabilities.clone(), exchange.log_level());
        let client = exchange.call_client(Some(events.clone()));
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
            let result = upstream.call_as(&client, whose, make).await.map_err(ForwardError::from);
            let room = result.as_ref().map_or(Ok(None), |result| limits.open_answer(party, result.get().len(), most));
            match room {
                Ok(room) => UpstreamAnswer { result, era, room },
                Err(error) => UpstreamAnswer { result: Err(error.into()), era, room: None },
            }
        };
        let task = tokio::spawn(work.in_current_span());
        Running { events: received, questions: JoinSet::new(), task: Some(task) }
    }

    /// Runs a call until its result, or until a question that becomes a result.
    async fn drive_call(
        &self,
        exchange: &Exchange,
        mut running: Running,
        bound_to: &BoundTo,
    ) -> Result<CompletedCall, ForwardError> {
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
                    let UpstreamAnswer { result, era, room } = ended.map_err(cancelled)?;
                    return Ok(CompletedCall { result: result?, era, room });
                }
            };
            match event {
                CallEvent::Notification { method, params } => exchange.relay(&method, params).await,
                CallEvent::Request { method, reply, .. } if !exchange.can_answer(&method) => {
                    let _ = reply.send(Err(unsupported_request_error(&method)));
                }
                CallEvent::Request { method, params, reply } if !exchange.is_asked_by_result() => {
                    let exchange = exchange.clone();
                    let mut reply = reply;
                    while running.questions.try_join_next().is_some() {}
                    let asking = async move {
                        let answer = tokio::select! {
                            answer = exchange.ask_client(&method, params) => answer,
                            // The server no longer wants to know.
                            () = reply.closed() => return,
                        };
                        let _ = reply.send(answer);
                    };
                    running.questions.spawn(asking.in_current_span());
                }
                CallEvent::Request { method, params, reply } => {
                    let bytes = params.as_ref().map_or(0, |params| params.get().len());
                    let most = self.setups.current().unread_bytes_per_caller;
                    match self.limits.open_answer(exchange.party(), bytes, most) {
                        Ok(room) => {
                            let bound_to = bound_to.clone();
                            let suspended = Suspended { running, method, params, reply, bound_to, _room: room };
                            return Ok(CompletedCall::question(self.suspended.suspend(suspended)));
                        }
                        Err(error) => _ = reply.send(Err(RpcError::new(RpcError::INTERNAL, error.to_string()))),
                    }
                }
            }
        }
    }
}

/// A completed call.
struct CompletedCall {
    result: Raw,
    /// The era of the server.
    era: Era,
    /// The result's room in its caller's share of memory.
    room: Option<Claim>,
}

impl CompletedCall {
    /// Creates a result that is a question.
    fn question(result: Raw) -> Self {
        Self { result, era: Era::Modern, room: None }
    }
}

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error(transparent)]
    Rpc(#[from] RpcError),
    #[error(transparent)]
    Lost(CallError),
    #[error(transparent)]
    LimitExceeded(#[from] LimitExceeded),
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
    /// Converts the error into a JSON-RPC error.
    pub(crate) fn into_rpc(self, server: &str) -> RpcError {
        match self {
            Self::Rpc(error) => error,
            Self::Lost(_) | Self::Cut => RpcError::new(RpcError::INTERNAL, format!("server `{server}`: {self}")),
            Self::Unread(error) => RpcError::new(RpcError::INTERNAL, error.to_string()),
            Self::LimitExceeded(refusal) => RpcError::new(RpcError::INTERNAL, format!("request not sent: {refusal}")),
        }
    }

    /// Returns the limit that the call exceeded, if that is why it failed.
    pub(crate) fn reject_reason(&self) -> Option<RejectReason> {
        Some(match self {
            Self::LimitExceeded(LimitExceeded::Rate { .. }) => RejectReason::Rate,
            Self::LimitExceeded(LimitExceeded::Busy(_)) => RejectReason::CallerBusy,
            Self::Lost(CallError::Busy(_) | CallError::ConnectionBusy | CallError::TooManyConnections { .. }) => {
                RejectReason::ServerBusy
            }
            Self::Lost(CallError::Tripped(_)) => RejectReason::Breaker,
            Self::Lost(CallError::ArgumentsTooLarge { .. }) => RejectReason::ArgumentBytes,
            Self::Lost(CallError::ResultTooLarge { .. }) => RejectReason::ResultBytes,
            _ => return None,
        })
    }
}

/// Returns a digest of a call: its continuation must be the same call, and arguments can be too
/// large to keep.
fn digest(forward: &Forward) -> [u8; 32] {
    let arguments = forward.params.get("arguments").map(|arguments| arguments.get()).unwrap_or_default();
    let name = forward.name.as_deref().unwrap_or_default();
    // The length keeps a name and its arguments apart.
    let head = format!("{} {} {name} ", forward.method, name.len());
    Sha256::new().chain_update(head).chain_update(arguments).finalize().into()
}

/// Returns whether a result asks the client for input.
pub(crate) fn is_input_required(result: &Raw) -> bool {
    // Looking is cheaper than taking apart.
    result.get().contains("\"input_required\"")
        && Fields::of(result).and_then(|fields| fields.text("resultType")).as_deref() == Some("input_required")
}

#[cfg(test)]
mod tests;
