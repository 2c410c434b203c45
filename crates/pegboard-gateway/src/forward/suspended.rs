//! Calls that wait for the input of a client without a session.
//!
//! A legacy server asks in the middle of a call; a modern client is asked by an answer, and
//! calls again. In between the call is kept here, under a name that nobody can guess.

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

/// Calls that may wait at a time.
const MAX_CALLS: usize = 512;

/// Calls of one token that may wait at a time.
const MAX_CALLS_PER_TOKEN: usize = 64;

/// What a call belongs to: its caller, its server, and a digest of what is called. Nobody else
/// can continue it.
pub(crate) type BoundTo = (Caller, Arc<str>, [u8; 32]);

/// How long they are kept.
const KEPT: Duration = Duration::from_secs(600);

/// A call that waits.
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

/// All calls that wait.
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
    /// Puts a call aside; the result that asks the client.
    pub(crate) fn put(&self, suspended: Suspended) -> Raw {
        let state = format!("{}{}", self.prefix, random_id());
        let mut question = Fields::new().with("method", &suspended.method);
        question.set("params", suspended.params.clone().unwrap_or_else(|| raw(&json!({}))));
        let requests = Fields::new().with(QUESTION, &question);
        let result = Fields::new()
            .with("resultType", "input_required")
            .with("inputRequests", &requests)
            .with("requestState", &state);
        let mut calls = lock(&self.by_state);
        calls.retain(|_, (since, _)| since.elapsed() < KEPT);
        let caller = suspended.bound_to.0;
        if matches!(caller, Caller::Token(_)) {
            drop_oldest(&mut calls, MAX_CALLS_PER_TOKEN, |call| call.bound_to.0 == caller);
        }
        drop_oldest(&mut calls, MAX_CALLS, |_| true);
        calls.insert(state, (Instant::now(), suspended));
        result.to_raw()
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        lock(&self.by_state).values().filter(|(since, _)| since.elapsed() < KEPT).count()
    }

    /// Whether a state is one of ours rather than a server's.
    pub(crate) fn is_ours(&self, state: &str) -> bool {
        state.starts_with(&self.prefix)
    }

    /// Takes a call up again.
    ///
    /// # Errors
    /// When there is no such call, or it belongs to another caller.
    pub(crate) fn take(&self, state: &str, bound_to: &BoundTo) -> Result<Suspended, RpcError> {
        let mut calls = lock(&self.by_state);
        let is_theirs = calls.get(state).is_some_and(|(_, call)| call.bound_to == *bound_to);
        let found = if is_theirs { calls.remove(state) } else { None };
        let found = found.filter(|(since, _)| since.elapsed() < KEPT);
        let gone = || RpcError::new(RpcError::INVALID_PARAMS, "`requestState` is unknown or has expired");
        found.map(|(_, call)| call).ok_or_else(gone)
    }

    /// The client's answer among its input responses.
    pub(crate) fn answer(params: &Fields) -> Option<Raw> {
        params.object("inputResponses")?.get(QUESTION).map(ToOwned::to_owned)
    }
}

/// Makes room for one more call where as many as `most` of those that `is_it` names wait.
fn drop_oldest(calls: &mut HashMap<String, (Instant, Suspended)>, most: usize, is_it: impl Fn(&Suspended) -> bool) {
    let of_them = || calls.iter().filter(|(_, (_, call))| is_it(call));
    if of_them().count() < most {
        return;
    }
    let oldest = of_them().min_by_key(|(_, (since, _))| *since).map(|(state, _)| state.clone());
    oldest.and_then(|state| calls.remove(&state));
}
