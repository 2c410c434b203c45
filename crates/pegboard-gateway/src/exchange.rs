//! One request of a client, with all that its answer depends on.

use std::sync::Arc;

use pegboard_core::Selection;
use pegboard_http::{PeerAddress, Principal};
use pegboard_upstream::{
    era::Era,
    json::{Fields, Raw, raw},
    rpc::{Message, RpcError},
    trace::TraceContext,
};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::{sessions::ClientSession, shares::Party};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// Whoever comes in where no token is asked for.
    Anybody,
    /// Whoever started us and speaks on our pipes.
    Pipe,
    /// The holder of a token.
    Token(Principal),
}

/// What a caller may see.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) caller: Caller,
    pub(crate) selection: Arc<Selection>,
    /// The number of the [setup](crate::setup::Setup) that says so.
    pub(crate) setup: u64,
}

/// Where messages about one request go.
pub(crate) type Outlet = mpsc::Sender<String>;

/// One request of a client.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) era: Era,
    pub(crate) viewer: Viewer,
    /// Where the request comes from; a pipe has no address.
    pub(crate) address: Option<PeerAddress>,
    /// The conversation; modern requests have none.
    pub(crate) session: Option<Arc<ClientSession>>,
    /// What the client can be asked for.
    pub(crate) capabilities: Raw,
    /// From which level on it wants log messages about this request.
    pub(crate) log_level: Option<String>,
    /// What it calls the progress of this request.
    pub(crate) progress: Option<Raw>,
    pub(crate) outlet: Outlet,
    /// Calls of one conversation share a number.
    pub(crate) owner: u64,
    /// Whose trace it belongs to, as the client says.
    pub(crate) trace: TraceContext,
}

/// The levels of log messages, from the least to the most important.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The place of a level among the levels.
pub(crate) fn level(name: &str) -> Option<usize> {
    LEVELS.iter().position(|level| *level == name)
}

impl Exchange {
    /// A request that belongs to a conversation.
    pub(crate) fn legacy(
        session: &Arc<ClientSession>,
        address: Option<PeerAddress>,
        params: Option<&RawValue>,
        trace: TraceContext,
        outlet: Outlet,
    ) -> Self {
        let own = Fields::of_optional(params).object("_meta").unwrap_or_default();
        Self {
            era: Era::Legacy,
            viewer: session.viewer(),
            address,
            session: Some(Arc::clone(session)),
            capabilities: session.capabilities.clone(),
            log_level: None,
            progress: own.get("progressToken").map(ToOwned::to_owned),
            outlet,
            owner: session.owner,
            trace,
        }
    }

    /// Whose shares and limits the request counts against.
    pub(crate) fn party(&self) -> Party {
        Party::of(self.viewer.caller, self.address)
    }

    /// Tells the client something about this request.
    pub(crate) async fn tell(&self, method: &str, params: Option<&RawValue>) {
        // A client that has gone away is no failure of the call.
        let _ = self.outlet.send(Message::notification(method, params)).await;
    }

    /// Passes on what a server says about this request.
    pub(crate) async fn relay(&self, method: &str, params: Option<Raw>) {
        match method {
            "notifications/progress" => {
                let Some(token) = &self.progress else { return };
                let mut fields = Fields::of_optional(params.as_deref());
                fields.set("progressToken", token.clone());
                self.tell(method, Some(&fields.to_raw())).await;
            }
            "notifications/message" => {
                let fields = Fields::of_optional(params.as_deref());
                if self.wants_log(&fields.text("level").unwrap_or_default()) {
                    self.tell(method, params.as_deref()).await;
                }
            }
            _ => self.tell(method, params.as_deref()).await,
        }
    }

    fn wants_log(&self, wanted: &str) -> bool {
        let least = match (&self.session, &self.log_level) {
            (Some(session), _) => Some(session.log_level()),
            (None, Some(least)) => Some(least.clone()),
            // A one-request conversation hears what servers say by default; a modern
            // request hears nothing that it did not ask for.
            (None, None) => (self.era == Era::Legacy).then(|| "info".to_owned()),
        };
        least.is_some_and(|least| level(wanted) >= level(&least))
    }

    /// Whether the client says it can answer such a question.
    pub(crate) fn can_answer(&self, method: &str) -> bool {
        let capability = match method {
            "sampling/createMessage" => "sampling",
            "elicitation/create" => "elicitation",
            "roots/list" => "roots",
            _ => return false,
        };
        Fields::of(&self.capabilities).is_some_and(|capabilities| capabilities.has(capability))
    }

    /// Asks the client of a legacy conversation.
    pub(crate) async fn ask(&self, method: &str, params: Option<Raw>) -> Result<Raw, RpcError> {
        match &self.session {
            Some(session) if self.can_answer(method) => session.ask(&self.outlet, method, params).await,
            _ => Err(cannot_answer(method)),
        }
    }
}

/// What a server hears that asks for something the client has not got.
pub(crate) fn cannot_answer(method: &str) -> RpcError {
    RpcError::new(RpcError::METHOD_NOT_FOUND, format!("the client does not answer `{method}`"))
}

/// The result of a tool that is nothing but text.
pub(crate) fn text_result(text: &str, is_error: bool) -> Fields {
    let mut result = Fields::new().with("content", &serde_json::json!([{"type": "text", "text": text}]));
    if is_error {
        result.set("isError", raw(&true));
    }
    result
}
