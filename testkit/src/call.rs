//! One request in progress, as the tools and prompts see it.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    calls::Cancel,
    server::Server,
    wire::{META, Request, RpcError},
};

/// Which rules a request is served by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// How much a log message matters; the order is that of the protocol's levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(usize);

impl Level {
    const NAMES: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

    pub(crate) const INFO: Level = Level(1);

    pub(crate) fn parse(name: &Value) -> Option<Level> {
        Self::NAMES.iter().position(|known| name == known).map(Level)
    }

    fn name(self) -> &'static str {
        Self::NAMES[self.0]
    }
}

/// The client that sent a request.
pub(crate) struct Client {
    pub(crate) era: Era,
    pub(crate) capabilities: Value,
    /// The least level it wants to see; none means no log messages at all.
    pub(crate) level: Option<Level>,
}

/// Why a request ends other than with its result.
pub(crate) enum Stop {
    /// The client must first give the input that this result describes.
    InputRequired(Value),
    /// The request was wrong.
    Error(RpcError),
    /// The tool failed: for the model to read, not for the protocol to handle.
    Failed(String),
    /// Nothing is to be sent: it was cancelled, or stays open.
    Silent,
}

impl From<RpcError> for Stop {
    fn from(error: RpcError) -> Stop {
        Stop::Error(error)
    }
}

/// The result of a request, or why there is none.
pub(crate) type Outcome = Result<Value, Stop>;

/// A request in progress.
pub(crate) struct Call {
    pub(crate) server: Arc<Server>,
    pub(crate) request: Request,
    pub(crate) client: Client,
    pub(crate) cancel: Arc<Cancel>,
}

impl Call {
    /// The string parameter `key`, which the method requires.
    pub(crate) fn param(&self, key: &str) -> Result<&str, RpcError> {
        self.request.params[key].as_str().ok_or_else(|| RpcError::invalid_params(format!("`{key}` must be a string")))
    }

    /// The arguments of a tool or prompt; none when they were left out.
    pub(crate) fn arguments(&self) -> Map<String, Value> {
        self.request.params["arguments"].as_object().cloned().unwrap_or_default()
    }

    /// The argument `key` of a tool, which its schema requires.
    pub(crate) fn argument(&self, key: &str) -> Result<&str, Stop> {
        let argument = self.request.params["arguments"][key].as_str();
        argument.ok_or_else(|| Stop::Failed(format!("the argument `{key}` must be a string")))
    }

    /// Checks that the client declared every capability in `needed`.
    pub(crate) fn require<'a>(&self, needed: impl IntoIterator<Item = &'a str>) -> Result<(), Stop> {
        let missing: Map<String, Value> = needed
            .into_iter()
            .filter(|capability| !self.has(capability))
            .map(|capability| (capability.to_owned(), json!({})))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = missing.keys().map(String::as_str).collect();
        let message = format!("the client does not declare {}", names.join(", "));
        Err(match self.client.era {
            Era::Legacy => Stop::Failed(message),
            Era::Modern => RpcError::new(RpcError::MISSING_CAPABILITY, message)
                .with_data(json!({"requiredCapabilities": missing}))
                .into(),
        })
    }

    /// Whether the client declared `capability`.
    pub(crate) fn has(&self, capability: &str) -> bool {
        self.client.capabilities[capability].is_object()
    }

    /// Reports progress, if the client asked for it.
    pub(crate) fn progress(&self, progress: u64, total: u64) {
        let token = &self.request.params["_meta"]["progressToken"];
        if !token.is_null() {
            let params = json!({"progressToken": token, "progress": progress, "total": total});
            self.notify("notifications/progress", &params);
        }
    }

    /// Sends a log message, if the client wants any of this level.
    pub(crate) fn log(&self, level: Level, text: &str) {
        if self.client.level.is_some_and(|least| level >= least) {
            let params = json!({"level": level.name(), "logger": "pegboard-fixture", "data": text});
            self.notify("notifications/message", &params);
        }
    }

    /// Waits; a cancellation ends both the wait and the request.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), Stop> {
        if self.cancel.sleep(time) { Err(Stop::Silent) } else { Ok(()) }
    }

    /// Sends the response that `outcome` amounts to, unless the client cancelled.
    pub(crate) fn finish(&self, outcome: Outcome) {
        let (id, output) = (&self.request.id, &self.server.output);
        if self.cancel.is_cancelled() {
            return;
        }
        match outcome {
            Ok(result) => output.result(id, &self.dress(result, "complete")),
            Err(Stop::InputRequired(result)) => output.result(id, &self.dress(result, "input_required")),
            Err(Stop::Error(error)) => output.error(id, &error),
            Err(Stop::Failed(text)) => output.error(id, &RpcError::new(RpcError::INTERNAL, text)),
            Err(Stop::Silent) => {}
        }
    }

    /// Adds what every result carries in the modern era.
    fn dress(&self, mut result: Value, kind: &str) -> Value {
        if self.client.era == Era::Modern {
            result["resultType"] = kind.into();
            result["_meta"][format!("{META}serverInfo")] = server_info();
        }
        result
    }

    fn notify(&self, method: &str, params: &Value) {
        if !self.cancel.is_cancelled() {
            self.server.output.notification(method, params);
        }
    }
}

/// How this server names itself.
pub(crate) fn server_info() -> Value {
    json!({"name": "pegboard-fixture", "version": env!("CARGO_PKG_VERSION")})
}
