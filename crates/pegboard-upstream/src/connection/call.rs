//! A call to a server.

use std::time::Duration;

use pegboard_mcp::{
    era::{Era, MODERN_VERSION, meta},
    json::{Fields, Raw, raw},
    rpc::{Id, Message},
    trace::TraceContext,
};

use super::CallEvent;
use crate::{handshake, queue, transport::Outgoing};

/// A call to a server.
#[derive(Debug)]
pub struct Call {
    /// The method.
    pub method: String,
    /// The parameters, with the caller's own part of `_meta`.
    pub params: Fields,
    /// The tool, prompt or resource, for transports that repeat it in a header.
    pub name: Option<String>,
    /// Headers that repeat parameters, by the part of their name behind `Mcp-Param-`.
    pub mirrored: Vec<(String, String)>,
    /// The capabilities of the client behind the call, as JSON; `None` for those of the connection.
    pub capabilities: Option<Raw>,
    /// The lowest level of log messages that the client wants.
    pub log_level: Option<String>,
    /// Whether the caller wants progress notifications.
    pub wants_progress: bool,
    /// The owner of the call: calls of one conversation share a number.
    pub owner: u64,
    /// The channel for events during the call.
    pub events: Option<queue::Sender<CallEvent>>,
    /// The trace context, which replaces the one in `_meta`.
    pub trace: TraceContext,
    /// The timeout, which each progress notification restarts. `None`: no timeout.
    pub timeout: Option<Duration>,
}

impl Call {
    /// Returns a call of the program itself, without a client.
    pub fn new(method: &str, params: Fields, timeout: Duration) -> Self {
        Self {
            method: method.to_owned(),
            params,
            name: None,
            mirrored: Vec::new(),
            capabilities: None,
            log_level: None,
            wants_progress: false,
            owner: 0,
            events: None,
            trace: TraceContext::default(),
            timeout: Some(timeout),
        }
    }

    /// Returns whether the call is part of the handshake.
    pub(super) fn is_greeting(&self) -> bool {
        [handshake::DISCOVER, handshake::INITIALIZE].contains(&self.method.as_str())
    }

    /// Returns the message with the number `id`, and with what the era puts into `_meta`. `declared` returns the
    /// capabilities of the connection.
    pub(super) fn into_message(mut self, id: u64, era: Option<Era>, declared: impl FnOnce() -> Raw) -> Outgoing {
        let era = if self.method == handshake::DISCOVER { Some(Era::Modern) } else { era };
        let said = self.take_meta(id, era, declared);
        if !said.is_empty() {
            self.params.set("_meta", said.to_raw());
        }
        let params = (!self.params.is_empty()).then(|| self.params.to_raw());
        Outgoing {
            line: Message::request(&Id::from(id), &self.method, params.as_deref()),
            request: Some(id),
            era,
            method: self.method,
            params,
            name: self.name,
            headers: self.mirrored,
            trace: self.trace,
        }
    }

    /// Takes out `_meta`, and replaces the parts that the caller does not decide.
    fn take_meta(&mut self, id: u64, era: Option<Era>, declared: impl FnOnce() -> Raw) -> Fields {
        let mut own = self.params.object("_meta").unwrap_or_default();
        self.params.remove("_meta");
        for key in [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES, meta::CLIENT_INFO, meta::LOG_LEVEL] {
            own.remove(key);
        }
        for key in pegboard_mcp::trace::KEYS {
            own.remove(key);
        }
        for (key, text) in self.trace.iter() {
            own.set(key, raw(text));
        }
        own.remove("progressToken");
        if self.wants_progress {
            own.set("progressToken", raw(&id));
        }
        if era == Some(Era::Modern) {
            own.set(meta::PROTOCOL_VERSION, raw(MODERN_VERSION));
            own.set(meta::CLIENT_INFO, handshake::client_info());
            own.set(meta::CLIENT_CAPABILITIES, self.capabilities.take().unwrap_or_else(declared));
            if let Some(level) = &self.log_level {
                own.set(meta::LOG_LEVEL, raw(level));
            }
        }
        own
    }
}
