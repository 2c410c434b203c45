//! `subscriptions/listen`: the notifications a modern client asked for.

use std::sync::Mutex;

use serde_json::{Value, json};

use crate::{
    call::{Call, Outcome, Stop},
    changes::Change,
    wire::{META, Output, RpcError, lock},
};

/// The subscriptions that are open.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<Vec<Subscription>>);

struct Subscription {
    /// The id of the request that opened it, which every notification repeats.
    id: Value,
    tools: bool,
    prompts: bool,
    resources: Vec<Value>,
}

/// Opens a subscription; the response comes when this server ends it.
pub(crate) fn listen(call: &Call) -> Outcome {
    let Some(filter) = call.request.params["notifications"].as_object() else {
        return Err(RpcError::invalid_params("`notifications` must be an object").into());
    };
    let wants = |key: &str| filter.get(key) == Some(&Value::Bool(true));
    let subscription = Subscription {
        id: call.request.id.clone(),
        tools: wants("toolsListChanged"),
        prompts: wants("promptsListChanged"),
        resources: filter.get("resourceSubscriptions").and_then(Value::as_array).cloned().unwrap_or_default(),
    };
    // Both under one lock: the acknowledgement comes before any notification.
    let mut open = lock(&call.server.subscriptions.0);
    let params = json!({"_meta": subscription.meta(), "notifications": subscription.granted()});
    call.server.output.notification("notifications/subscriptions/acknowledged", &params);
    open.push(subscription);
    Err(Stop::Silent)
}

impl Subscriptions {
    /// Notifies the subscriptions of its kind of `change`.
    pub(crate) fn notify(&self, output: &Output, change: &Change) {
        for subscription in lock(&self.0).iter().filter(|subscription| subscription.covers(change)) {
            let mut params = change.params();
            params["_meta"] = subscription.meta();
            output.notification(change.method(), &params);
        }
    }

    /// Forgets a subscription that its client cancelled, which wants no response.
    pub(crate) fn remove(&self, id: &Value) {
        lock(&self.0).retain(|subscription| subscription.id != *id);
    }

    /// Ends all of them in good order.
    pub(crate) fn close_all(&self, output: &Output) {
        for subscription in lock(&self.0).drain(..) {
            output.result(&subscription.id, &json!({"resultType": "complete", "_meta": subscription.meta()}));
        }
    }
}

impl Subscription {
    fn covers(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resource(uri) => self.resources.iter().any(|wanted| wanted == uri),
        }
    }

    /// The part of the filter that will be honoured.
    fn granted(&self) -> Value {
        let mut granted = json!({});
        if self.tools {
            granted["toolsListChanged"] = true.into();
        }
        if self.prompts {
            granted["promptsListChanged"] = true.into();
        }
        if !self.resources.is_empty() {
            granted["resourceSubscriptions"] = self.resources.clone().into();
        }
        granted
    }

    fn meta(&self) -> Value {
        json!({format!("{META}subscriptionId"): self.id})
    }
}
