//! Records of the requests that the server received.

use serde_json::{Value, json};

use super::{
    checks::Violation,
    route::{Vendor, Wire},
};

/// A request and its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The path with its query.
    pub path: String,
    /// The wire of the path, if it is one.
    pub wire: Option<Wire>,
    /// The provider whose rules were applied, if any.
    pub vendor: Option<Vendor>,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// The body; null if it is not JSON.
    pub body: Value,
    /// The original bytes of the body.
    pub raw: Vec<u8>,
    /// The violations.
    pub violations: Vec<Violation>,
    /// How much of the conversation's previous request is still a prefix of this one, in the
    /// order in which the provider caches (tools that are not deferred, system, messages):
    /// bytes of the prefix in common ÷ bytes of the previous request. None for the first.
    ///
    /// A conversation is what one model is asked on one wire, unless the header
    /// `x-conversation` tells several apart; only requests that were answered count.
    pub prefix_share: Option<f64>,
    /// The number of the turn that answered it, counted from zero.
    pub turn: Option<usize>,
    /// The HTTP status it was answered with, if any.
    pub status: Option<u16>,
    /// How the answer ended.
    pub ending: Ending,
}

impl Recorded {
    /// Returns the value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the record as `GET /_requests` shows it.
    pub(crate) fn to_json(&self) -> Value {
        let violation = |violation: &Violation| json!({"check": violation.check.name(), "message": violation.message});
        let headers = |(name, value): &(String, String)| (name.clone(), Value::from(value.as_str()));
        json!({
            "path": self.path,
            "headers": self.headers.iter().map(headers).collect::<serde_json::Map<_, _>>(),
            "body": self.body,
            "violations": self.violations.iter().map(violation).collect::<Vec<_>>(),
            "prefix_share": self.prefix_share,
            "turn": self.turn,
            "status": self.status,
            "ending": format!("{:?}", self.ending).to_lowercase(),
        })
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// It is still being sent.
    #[default]
    Pending,
    /// It was sent completely.
    Sent,
    /// The script broke it off, or had none.
    Broken,
    /// The client closed the connection.
    Gone,
}
