//! The client of one request while it is answered.

use std::{collections::BTreeMap, sync::Arc};

use pegboard_http::PeerAddress;
use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw, raw},
    rpc::{Message, RpcError},
    trace::TraceContext,
};
use pegboard_upstream::{CallClient, CallEvent, CallerKey, ClientOwner, queue};
use serde_json::{Value, value::RawValue};

use crate::{
    activity::EntryListener,
    caller::{Caller, Viewer},
    sessions::ClientSession,
    settings::Shape,
    shares::Party,
};

/// The channel for messages about one request.
pub(crate) type Outlet = queue::Sender<String>;

/// The client of one request: its selection, and how it gets notifications and questions.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) viewer: Viewer,
    /// Where the request comes from; a pipe has no address.
    pub(crate) address: Option<PeerAddress>,
    /// What the client calls itself, if the request says so; a session knows its own.
    pub(crate) client: String,
    /// If the user makes the request in the console: what wants to know its entry in the activity.
    pub(crate) console: Option<EntryListener>,
    /// The number of the pipe that the request comes on.
    pub(crate) pipe: Option<u64>,
    /// The session that it belongs to, if it does.
    pub(crate) session: Option<Arc<ClientSession>>,
    /// What kind of list the client gets.
    pub(crate) shape: Shape,
    /// What the client can be asked for.
    pub(crate) capabilities: Raw,
    /// From which level on it wants log messages about this request; a session knows its own.
    pub(crate) log_level: Option<String>,
    /// What it calls the progress of this request.
    pub(crate) progress: Option<Raw>,
    pub(crate) outlet: Outlet,
    /// Calls of one session share a number.
    pub(crate) owner: u64,
    /// Whose trace it belongs to, as the client says.
    pub(crate) trace: TraceContext,
}

/// The levels of log messages, from the least to the most important.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Returns the position of a level among the levels.
pub(crate) fn log_level_rank(name: &str) -> Option<usize> {
    LEVELS.iter().position(|level| *level == name)
}

impl Exchange {
    /// Returns the party whose shares and limits the request counts against.
    pub(crate) fn party(&self) -> Party {
        Party::of(self.viewer.caller, self.address)
    }

    /// Returns the key for fair queueing at a busy server: `has_others` is whether there are
    /// several tokens. Sessions of one caller share fairly.
    pub(crate) fn on_behalf(&self, has_others: bool) -> CallerKey {
        let party = match self.viewer.caller {
            Caller::Token(holder) if has_others => Some(holder.0 as u64),
            _ => None,
        };
        let member = match &self.session {
            Some(session) if session.is_lasting => session.owner,
            _ => u64::MAX,
        };
        CallerKey { party, member }
    }

    /// Returns whether a question of a server becomes the result of the request, which the client
    /// repeats with its answer. Clients with a session are asked during the request.
    pub(crate) fn is_asked_by_result(&self) -> bool {
        self.session.is_none()
    }

    /// Sends the client a notification about this request.
    pub(crate) async fn notify(&self, method: &str, params: Option<&RawValue>) {
        // A disconnected client is not a failure of the call.
        let _ = self.outlet.send(Message::notification(method, params)).await;
    }

    /// Forwards a notification of a server about this request.
    pub(crate) async fn relay(&self, method: &str, params: Option<Raw>) {
        match method {
            "notifications/progress" => {
                let Some(token) = &self.progress else { return };
                let mut fields = Fields::of_optional(params.as_deref());
                fields.set("progressToken", token.clone());
                self.notify(method, Some(&fields.to_raw())).await;
            }
            "notifications/message" => {
                let fields = Fields::of_optional(params.as_deref());
                if self.wants_log(&fields.text("level").unwrap_or_default()) {
                    self.notify(method, params.as_deref()).await;
                }
            }
            _ => self.notify(method, params.as_deref()).await,
        }
    }

    /// Returns the log level to request from servers: that of the session, else that of the
    /// request.
    pub(crate) fn log_level(&self) -> Option<String> {
        self.session.as_ref().map(|session| session.log_level()).or_else(|| self.log_level.clone())
    }

    fn wants_log(&self, wanted: &str) -> bool {
        is_logged(wanted, self.log_level().as_deref())
    }

    /// Returns whether the client declares that it can answer such a question.
    pub(crate) fn can_answer(&self, method: &str) -> bool {
        can_answer(&self.capabilities, method)
    }

    /// Returns the owner of the client's connections to servers; an anonymous client has none.
    pub(crate) fn client_owner(&self) -> Option<ClientOwner> {
        match (&self.session, self.pipe, self.viewer.caller) {
            // A session that lasts for one request is nobody's.
            (Some(session), ..) => session.is_lasting.then_some(ClientOwner::Session(session.owner)),
            (None, Some(pipe), _) => Some(ClientOwner::Session(pipe)),
            (None, None, Caller::Token(holder)) => Some(ClientOwner::Caller(holder.0 as u64)),
            (None, None, Caller::Anybody | Caller::Pipe) => None,
        }
    }

    /// Returns the client for the connections to servers. Its identity is what was authenticated;
    /// `events` is where the events of the call go.
    pub(crate) fn call_client(&self, events: Option<queue::Sender<CallEvent>>) -> CallClient {
        let session = self.session.as_ref();
        let lasting = session.filter(|session| session.is_lasting);
        let log_level = match session {
            Some(session) => session.chosen_log_level(),
            None => self.log_level.clone(),
        };
        CallClient {
            era: if session.is_some() { Era::Legacy } else { Era::Modern },
            owner: self.client_owner(),
            party: Some(self.party().key()),
            capabilities: declared_capabilities(&self.capabilities),
            log_level,
            life: lasting.map(|session| session.life()),
            events,
            inbox: lasting.map(|session| session.inbox()),
        }
    }

    /// Asks the client of a session.
    pub(crate) async fn ask_client(&self, method: &str, params: Option<Raw>) -> Result<Raw, RpcError> {
        match &self.session {
            Some(session) if self.can_answer(method) => session.ask_client(Some(&self.outlet), method, params).await,
            _ => Err(unsupported_request_error(method)),
        }
    }
}

/// Returns whether a client that wants log messages from the level `least` on gets one of the level
/// `wanted`.
pub(crate) fn is_logged(wanted: &str, least: Option<&str>) -> bool {
    least.is_some_and(|least| log_level_rank(wanted) >= log_level_rank(least))
}

/// Returns whether a client with these capabilities can answer such a question.
pub(crate) fn can_answer(capabilities: &Raw, method: &str) -> bool {
    let capability = match method {
        "sampling/createMessage" => "sampling",
        "elicitation/create" => "elicitation",
        "roots/list" => "roots",
        _ => return false,
    };
    Fields::of(capabilities).is_some_and(|capabilities| capabilities.has(capability))
}

/// Returns the error for a server that asks for something the client does not support.
pub(crate) fn unsupported_request_error(method: &str) -> RpcError {
    RpcError::new(RpcError::METHOD_NOT_FOUND, format!("the client does not support `{method}`"))
}

/// Returns the capabilities of a client in the form in which servers are told of them: ordered, so that
/// the same ones lead to the same connection, and without members that are not objects, because some
/// servers reject a handshake with these.
pub(crate) fn declared_capabilities(given: &Raw) -> Raw {
    let mut known: BTreeMap<String, Value> = serde_json::from_str(given.get()).unwrap_or_default();
    known.retain(|_, capability| capability.is_object());
    raw(&known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_told_in_one_form() {
        let check = |given: &str, expected: &str| {
            let given: Raw = serde_json::from_str(given).expect("JSON");
            assert_eq!(declared_capabilities(&given).get(), expected);
        };
        check(r#"{"sampling": {}, "roots": {"listChanged": true}}"#, r#"{"roots":{"listChanged":true},"sampling":{}}"#);
        check(r#"{"sampling": 5, "roots": null, "elicitation": {}}"#, r#"{"elicitation":{}}"#);
        check("[1]", "{}");
        check("null", "{}");
    }
}
