//! JSON-RPC 2.0 messages, parsed as little as possible.

use std::{borrow::Cow, fmt, hash};

use pegboard_core::text;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::{Raw, one_line, range_in, raw};

/// Maximum number of bytes of an error message; a longer one is cut.
const MAX_MESSAGE: usize = 16 << 10;

/// The id of a request: a string or a number, exactly as its sender wrote it.
#[derive(Clone, Debug)]
pub struct Id(Raw);

impl Id {
    /// Returns the id in `value` if it is a valid one.
    pub fn of(value: &RawValue) -> Option<Self> {
        let is_id = value.get().starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit());
        is_id.then(|| Self(value.to_owned()))
    }

    /// Returns the id as JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Returns the id as a JSON value.
    pub fn to_raw(&self) -> Raw {
        self.0.clone()
    }

    /// Returns the id as a number, if it is one that Pegboard assigns.
    pub fn as_number(&self) -> Option<u64> {
        self.get().parse().ok()
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Self {
        Self(raw(&number))
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self(raw(text))
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Id {}

impl hash::Hash for Id {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.get().hash(state);
    }
}

/// A JSON-RPC error.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// The error code.
    pub code: i64,
    /// The error message.
    pub message: String,
    /// Further data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Raw>,
}

impl RpcError {
    /// Not JSON.
    pub const PARSE: i64 = -32700;
    /// Not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Wrong parameters.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Failed for no fault of the caller.
    pub const INTERNAL: i64 = -32603;
    /// No such resource, before 2026-07-28.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// A header that contradicts the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client lacks what the request needs.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// A protocol version that the server does not speak.
    pub const UNSUPPORTED_VERSION: i64 = -32022;

    /// Reads the error of a peer. An error of an invalid form is still an error.
    fn of(value: &RawValue) -> Self {
        let mut error: Self = serde_json::from_str(value.get()).unwrap_or_else(|_| {
            let text = text::brief(value.get(), 500);
            Self::new(Self::INTERNAL, format!("malformed JSON-RPC error: {text}"))
        });
        // It is shown in logs and on terminals.
        if let Cow::Owned(clean) = text::clean(&error.message) {
            error.message = clean;
        }
        if let Cow::Owned(cut) = text::bounded(&error.message, MAX_MESSAGE) {
            error.message = cut;
        }
        error
    }

    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds data.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        self.data = Some(raw(data));
        self
    }
}

/// A JSON-RPC message.
#[derive(Debug)]
pub enum Message {
    /// A request, which needs a response.
    Request {
        /// The id, which the response repeats.
        id: Id,
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Raw>,
    },
    /// A notification, which has no response.
    Notification {
        /// What happened.
        method: String,
        /// More about it.
        params: Option<Raw>,
    },
    /// The response to a request.
    Response {
        /// The id of the request; `None` if its sender could not read it.
        id: Option<Id>,
        /// The result or the error.
        outcome: Result<Raw, RpcError>,
    },
}

/// The error of parsing a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Not JSON.
    #[error("not JSON")]
    NotJson(#[source] serde_json::Error),
    /// JSON, but not JSON-RPC 2.0.
    #[error("not a JSON-RPC 2.0 message: {0}")]
    NotRpc(&'static str),
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl<'a> Wire<'a> {
    fn read(text: &'a str) -> Result<Self, MessageError> {
        let wire: Self = match serde_json::from_str(text) {
            Ok(wire) => wire,
            Err(error) if error.is_data() => return Err(MessageError::NotRpc("a field has the wrong type")),
            Err(error) => return Err(MessageError::NotJson(error)),
        };
        if wire.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
            return Err(MessageError::NotRpc("`jsonrpc` is not \"2.0\""));
        }
        Ok(wire)
    }

    fn id(&self) -> Result<Option<Id>, MessageError> {
        let wrong = MessageError::NotRpc("`id` is neither a string nor a number");
        self.id.map(|id| Id::of(id).ok_or(wrong)).transpose()
    }
}

impl Message {
    /// Parses one message.
    ///
    /// # Errors
    /// When the text is not a JSON-RPC message.
    pub fn parse(text: &str) -> Result<Self, MessageError> {
        Self::of(Wire::read(text)?)
    }

    /// Parses a large message without a copy: the text is cut to the result in place.
    ///
    /// # Errors
    /// When the text is not a JSON-RPC message.
    pub fn parse_large(mut text: String) -> Result<Self, MessageError> {
        let wire = Wire::read(&text)?;
        let Some(result) = wire.result.filter(|_| wire.method.is_none() && wire.error.is_none()) else {
            return Self::of(wire);
        };
        let id = wire.id()?;
        let place = range_in(&text, result);
        text.truncate(place.end);
        text.drain(..place.start);
        let result = RawValue::from_string(text).map_err(MessageError::NotJson)?;
        Ok(Self::Response { id, outcome: Ok(result) })
    }

    fn of(wire: Wire<'_>) -> Result<Self, MessageError> {
        let id = wire.id()?;
        let params = wire.params.map(ToOwned::to_owned);
        match (wire.method, id) {
            (Some(method), Some(id)) => Ok(Self::Request { id, method, params }),
            (Some(method), None) => Ok(Self::Notification { method, params }),
            (None, id) => match (wire.error, wire.result) {
                (Some(error), _) => Ok(Self::Response { id, outcome: Err(RpcError::of(error)) }),
                (None, Some(result)) => Ok(Self::Response { id, outcome: Ok(result.to_owned()) }),
                (None, None) => Err(MessageError::NotRpc("neither `method` nor `result` nor `error`")),
            },
        }
    }

    /// Parses one message, or a batch of messages of 2025-03-26.
    ///
    /// # Errors
    /// When the text is neither.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, MessageError> {
        if !text.trim_start().starts_with('[') {
            return Self::parse(text).map(|message| vec![message]);
        }
        let parts: Vec<&RawValue> = serde_json::from_str(text).map_err(MessageError::NotJson)?;
        parts.into_iter().map(|part| Self::parse(part.get())).collect()
    }

    /// Returns a request as one line.
    pub fn request(id: &Id, method: &str, params: Option<&RawValue>) -> String {
        line(format_args!("\"id\":{},\"method\":{}", id.get(), raw(method).get()), params)
    }

    /// Returns a notification as one line.
    pub fn notification(method: &str, params: Option<&RawValue>) -> String {
        line(format_args!("\"method\":{}", raw(method).get()), params)
    }

    /// Returns a response as one line.
    pub fn response(id: Option<&Id>, outcome: Result<&RawValue, &RpcError>) -> String {
        let id = id.map_or("null", Id::get);
        match outcome {
            Ok(result) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}}}", one_line(result)),
            Err(error) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{}}}", one_line(&raw(error))),
        }
    }
}

fn line(head: fmt::Arguments<'_>, params: Option<&RawValue>) -> String {
    match params {
        Some(params) => format!("{{\"jsonrpc\":\"2.0\",{head},\"params\":{}}}", one_line(params)),
        None => format!("{{\"jsonrpc\":\"2.0\",{head}}}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_of_all_kinds() {
        let check = |text: &str, expected: &str| {
            let found = match Message::parse(text) {
                Ok(Message::Request { id, method, .. }) => format!("request {} {method}", id.get()),
                Ok(Message::Notification { method, .. }) => format!("notification {method}"),
                Ok(Message::Response { id, outcome }) => {
                    let id = id.as_ref().map_or("null", Id::get);
                    format!("response {id} {:?}", outcome.map(|r| r.get().to_owned()).map_err(|e| e.code))
                }
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected, "{text}");
        };
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping");
        check(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#, "request \"a\" ping");
        check(r#"{"jsonrpc":"2.0","method":"x"}"#, "notification x");
        check(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "response 1 Ok(\"{}\")");
        check(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#, "response null Err(-32700)");
        check("[]", "not a JSON-RPC 2.0 message: a field has the wrong type");
        check("{", "not JSON");
        check(
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            "not a JSON-RPC 2.0 message: `id` is neither a string nor a number",
        );
        check(r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, "not a JSON-RPC 2.0 message: `jsonrpc` is not \"2.0\"");
    }

    #[test]
    fn large_messages_are_the_same() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"content": [ "a" ]}}"#,
            r#" { "result" : [1, 2] , "id" : "x", "jsonrpc" : "2.0" } "#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":[],"result":{}}"#,
            r#"{"jsonrpc":"2.0"}"#,
            "nonsense",
        ] {
            let (whole, large) = (Message::parse(text), Message::parse_large(text.to_owned()));
            assert_eq!(format!("{whole:?}"), format!("{large:?}"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_message_or_an_error(text in ".{0,60}") {
            let _ = Message::parse(&text);
        }

        #[test]
        fn what_is_written_can_be_read(method in ".{0,20}", id in ".{0,8}") {
            let line = Message::request(&Id::from(id.as_str()), &method, Some(&raw(&[1, 2])));
            prop_assert!(!line.contains('\n'));
            let Ok(Message::Request { id: read_id, method: read, .. }) = Message::parse(&line) else {
                return Err(TestCaseError::fail(line));
            };
            prop_assert_eq!(read, method);
            prop_assert_eq!(read_id, Id::from(id.as_str()));
        }
    }
}
