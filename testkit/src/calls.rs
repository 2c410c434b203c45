//! Requests in progress, and how they are stopped.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;

use crate::wire::lock;

/// Tells one request that its client no longer wants it.
#[derive(Default)]
pub(crate) struct Cancel {
    cancelled: Mutex<bool>,
    changed: Condvar,
}

impl Cancel {
    pub(crate) fn cancel(&self) {
        *lock(&self.cancelled) = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        *lock(&self.cancelled)
    }

    /// Waits for `time`, or until cancelled; says whether it was.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        let guard = lock(&self.cancelled);
        let waited = self.changed.wait_timeout_while(guard, time, |cancelled| !*cancelled);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The requests in progress, by id.
#[derive(Default)]
pub(crate) struct Calls {
    open: Mutex<HashMap<Value, Arc<Cancel>>>,
    closed: Condvar,
}

impl Calls {
    /// Registers a request; done on the reading thread, so that a cancellation in the
    /// next line finds it.
    pub(crate) fn begin(&self, id: &Value) -> Arc<Cancel> {
        let cancel = Arc::new(Cancel::default());
        lock(&self.open).insert(id.clone(), Arc::clone(&cancel));
        cancel
    }

    pub(crate) fn end(&self, id: &Value) {
        lock(&self.open).remove(id);
        self.closed.notify_all();
    }

    pub(crate) fn cancel(&self, id: &Value) {
        if let Some(cancel) = lock(&self.open).get(id) {
            cancel.cancel();
        }
    }

    /// Waits until nothing is in progress, but no longer than `time`.
    pub(crate) fn drain(&self, time: Duration) {
        // Whether it timed out makes no difference: what is left is abandoned.
        let _ = self.closed.wait_timeout_while(lock(&self.open), time, |open| !open.is_empty());
    }
}
