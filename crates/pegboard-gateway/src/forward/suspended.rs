//! Calls that wait for the input of a client without a session.
//!
//! A legacy server asks during a call; a modern client gets the question as a result, and calls
//! again. In between the call is kept here, under an id that cannot be guessed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use pegboard_mcp::{
    json::{Fields, Raw, raw},
    rpc::RpcError,
};
use serde_json::json;
use tokio::sync::oneshot;

use crate::{caller::Caller, forward::calls::Running, ids::random_id, lock, shares::Claim};

/// The key of the one question that is asked at a time.
const QUESTION: &str = "question";

/// Maximum number of suspended calls.
const MAX_CALLS: usize = 512;

/// Maximum number of suspended calls of one token.
const MAX_CALLS_PER_TOKEN: usize = 64;

/// The owner of a suspended call: its caller, its server, and a digest of the call. No other caller
/// can continue it.
pub(crate) type BoundTo = (Caller, Arc<str>, [u8; 32]);

/// How long suspended calls are kept.
const RETENTION: Duration = Duration::from_secs(600);

/// A suspended call.
#[derive(Debug)]
pub(crate) struct Suspended {
    pub(crate) running: Running,
    /// What is asked.
    pub(crate) method: String,
    pub(crate) params: Option<Raw>,
    pub(crate) reply: oneshot::Sender<Result<Raw, RpcError>>,
    pub(crate) bound_to: BoundTo,
    /// The question's room in its caller's share of memory.
    pub(crate) _room: Option<Claim>,
}

/// All suspended calls.
#[derive(Debug)]
pub(crate) struct SuspendedCalls {
    /// What the names of our calls begin with; a server may be a gateway too, with its own.
    prefix: String,
    by_state: Mutex<HashMap<String, (Instant, Suspended)>>,
}

impl Default for SuspendedCalls {
    fn default() -> Self {
        Self { prefix: format!("pegboard-{}-", &random_id()[..8]), by_state: Mutex::default() }
    }
}

impl SuspendedCalls {
    /// Suspends a call; returns the result that asks the client.
    pub(crate) fn suspend(&self, suspended: Suspended) -> Raw {
        let state = format!("{}{}", self.prefix, random_id());
        let mut question = Fields::new().with("method", &suspended.method);
        question.set("params", suspended.params.clone().unwrap_or_else(|| raw(&json!({}))));
        let requests = Fields::new().with(QUESTION, &question);
        let result = Fields::new()
            .with("resultType", "input_required")
            .with("inputRequests", &requests)
            .with("requestState", &state);
        let mut calls = lock(&self.by_state);
        calls.retain(|_, (since, _)| since.elapsed() < RETENTION);
        let caller = suspended.bound_to.0;
        if matches!(caller, Caller::Token(_)) {
            drop_oldest_call(&mut calls, MAX_CALLS_PER_TOKEN, |call| call.bound_to.0 == caller);
        }
        drop_oldest_call(&mut calls, MAX_CALLS, |_| true);
        calls.insert(state, (Instant::now(), suspended));
        result.to_raw()
    }

    /// Drops the calls whose clients have not come back in time.
    pub(crate) fn sweep(&self) {
        lock(&self.by_state).retain(|_, (since, _)| since.elapsed() < RETENTION);
    }

    /// Drops the calls of a caller that has gone.
    pub(crate) fn forget(&self, caller: Caller) {
        lock(&self.by_state).retain(|_, (_, call)| call.bound_to.0 != caller);
    }

    /// Returns the number of suspended calls.
    pub(crate) fn count(&self) -> usize {
        lock(&self.by_state).values().filter(|(since, _)| since.elapsed() < RETENTION).count()
    }

    /// Returns whether a request state was created by the gateway rather than a server.
    pub(crate) fn is_gateway_state(&self, state: &str) -> bool {
        state.starts_with(&self.prefix)
    }

    /// Resumes a suspended call.
    ///
    /// # Errors
    /// When there is no such call, or it belongs to another caller.
    pub(crate) fn resume(&self, state: &str, bound_to: &BoundTo) -> Result<Suspended, RpcError> {
        let mut calls = lock(&self.by_state);
        let is_theirs = calls.get(state).is_some_and(|(_, call)| call.bound_to == *bound_to);
        let found = if is_theirs { calls.remove(state) } else { None };
        let found = found.filter(|(since, _)| since.elapsed() < RETENTION);
        let gone = || RpcError::new(RpcError::INVALID_PARAMS, "`requestState` is unknown or has expired");
        found.map(|(_, call)| call).ok_or_else(gone)
    }

    /// Drops the oldest suspended call of a caller at a server; returns whether there was one.
    pub(crate) fn drop_oldest_of(&self, bound_to: &BoundTo) -> bool {
        let is_theirs = |call: &Suspended| (call.bound_to.0, &call.bound_to.1) == (bound_to.0, &bound_to.1);
        drop_oldest_call(&mut lock(&self.by_state), 1, is_theirs)
    }

    /// Returns the client's answer among its input responses.
    pub(crate) fn input_response(params: &Fields) -> Option<Raw> {
        params.object("inputResponses")?.get(QUESTION).map(ToOwned::to_owned)
    }
}

/// Makes room for one more call if `most` of those that `is_it` selects are suspended; returns
/// whether that was necessary.
fn drop_oldest_call(
    calls: &mut HashMap<String, (Instant, Suspended)>,
    most: usize,
    is_it: impl Fn(&Suspended) -> bool,
) -> bool {
    let of_them = || calls.iter().filter(|(_, (_, call))| is_it(call));
    if of_them().count() < most {
        return false;
    }
    let oldest = of_them().min_by_key(|(_, (since, _))| *since).map(|(state, _)| state.clone());
    oldest.and_then(|state| calls.remove(&state)).is_some()
}
