//! Calls that wait for a modern client's input.
//!
//! A legacy server asks in the middle of a call; a modern client is asked by an answer, and
//! calls again. In between the call is kept here, under a name that nobody can guess.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use pegboard_upstream::{
    json::{Fields, Raw, raw},
    rpc::RpcError,
};
use serde_json::json;
use tokio::sync::oneshot;

use crate::{calls::Running, exchange::Caller, lock, sessions::random_id};

/// The key of the one question that is asked at a time.
const QUESTION: &str = "question";

/// Calls that may wait at a time.
const MOST: usize = 512;

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
    /// What was called, and by whom; nobody else can go on with it.
    pub(crate) bound_to: (Caller, String, String),
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
        if calls.len() >= MOST {
            let oldest = calls.iter().min_by_key(|(_, (since, _))| *since).map(|(state, _)| state.clone());
            oldest.and_then(|state| calls.remove(&state));
        }
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
    /// When there is no such call, or it belongs to somebody else.
    pub(crate) fn take(&self, state: &str, bound_to: &(Caller, String, String)) -> Result<Suspended, RpcError> {
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
