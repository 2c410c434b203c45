//! Limits on the memory that a client can make the gateway use.

use std::{collections::BTreeMap, sync::Arc};

use pegboard_mcp::{
    json::{Fields, Raw},
    rpc::{Id, RpcError},
};
use serde_json::value::RawValue;

use crate::shares::{Claim, Party, Shares};

/// Maximum number of bytes of a URI, or of the id of a task.
const MAX_URI: usize = 8 << 10;

/// Maximum number of bytes of a name, a cursor, a request id or a progress token.
const MAX_NAME: usize = 1 << 10;

/// Maximum number of bytes of the capabilities that a client declares.
const MAX_CAPABILITIES: usize = 32 << 10;

/// Maximum number of resources that one session or listener may subscribe to.
const MAX_SUBSCRIPTIONS: usize = 1000;

/// Maximum number of bytes of the subscriptions of one session or listener.
const SUBSCRIPTION_BYTES: usize = 256 << 10;

/// Maximum number of bytes of all subscriptions of one token, or of one address without tokens.
const SUBSCRIPTION_BYTES_PER_CALLER: usize = 1 << 20;

/// Number of bytes that a subscription takes in addition to its URI.
const SUBSCRIPTION_OVERHEAD: usize = 128;

fn too_long(key: &str, bytes: usize, most: usize) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, format!("`{key}` is {bytes} bytes, over the limit of {most}"))
}

/// Returns the text under `key`, which must be present and within its maximum length.
///
/// # Errors
/// When it is missing, not text, or too long.
pub(crate) fn required(params: &Fields, key: &str) -> Result<String, RpcError> {
    let text = params.text(key);
    let text = text
        .ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, format!("`{key}` is required and must be a string")))?;
    // The id of a task names its server, and may be a sealed id of another gateway.
    let most = if matches!(key, "uri" | "taskId") { MAX_URI } else { MAX_NAME };
    if text.len() > most { Err(too_long(key, text.len(), most)) } else { Ok(text) }
}

/// Checks the parts of a request that are kept while it is answered.
///
/// # Errors
/// When the id, the cursor or the progress token is too long.
pub(crate) fn check_request(id: &Id, params: &Fields, progress: Option<&RawValue>) -> Result<(), RpcError> {
    let cursor = params.get("cursor").map_or(0, |cursor| cursor.get().len());
    let parts = [
        ("id", id.to_raw().get().len()),
        ("cursor", cursor),
        ("progressToken", progress.map_or(0, |token| token.get().len())),
    ];
    // Quotes and escapes are not counted against the client.
    match parts.into_iter().find(|(_, bytes)| *bytes > MAX_NAME + 2) {
        Some((key, bytes)) => Err(too_long(key, bytes, MAX_NAME)),
        None => Ok(()),
    }
}

/// Checks the capabilities that a client declares.
///
/// # Errors
/// When they are too long.
pub(crate) fn check_capabilities(capabilities: &Raw) -> Result<(), RpcError> {
    let bytes = capabilities.get().len();
    if bytes > MAX_CAPABILITIES { Err(too_long("capabilities", bytes, MAX_CAPABILITIES)) } else { Ok(()) }
}

/// The resources that one session or listener has subscribed to, within its bounds and those of
/// its caller.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    by_uri: BTreeMap<String, Claim>,
}

impl Subscriptions {
    /// Adds a resource; `false` if it was already there.
    ///
    /// # Errors
    /// When there are too many, or they are too long altogether.
    pub(crate) fn add(&mut self, uri: &str, shares: &Arc<Shares>, party: Party) -> Result<bool, RpcError> {
        if self.by_uri.contains_key(uri) {
            return Ok(false);
        }
        if uri.len() > MAX_URI {
            return Err(too_long("uri", uri.len(), MAX_URI));
        }
        let refused = |message: String| Err(RpcError::new(RpcError::INVALID_PARAMS, message));
        if self.by_uri.len() >= MAX_SUBSCRIPTIONS {
            return refused(format!("too many subscriptions: the limit is {MAX_SUBSCRIPTIONS} per session"));
        }
        let bytes = uri.len() + SUBSCRIPTION_OVERHEAD;
        let own: usize = self.by_uri.values().map(Claim::amount).sum();
        if own + bytes > SUBSCRIPTION_BYTES {
            return refused(format!("too many subscriptions: their URIs exceed {SUBSCRIPTION_BYTES} bytes"));
        }
        let Some(claim) = shares.take(party, bytes, SUBSCRIPTION_BYTES_PER_CALLER) else {
            let most = SUBSCRIPTION_BYTES_PER_CALLER;
            return refused(format!("too many subscriptions: the URIs of all your sessions exceed {most} bytes"));
        };
        self.by_uri.insert(uri.to_owned(), claim);
        Ok(true)
    }

    /// Removes a resource; `false` if it was not there.
    pub(crate) fn remove(&mut self, uri: &str) -> bool {
        self.by_uri.remove(uri).is_some()
    }

    /// Keeps the resources that `is_kept` names.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&str) -> bool) {
        self.by_uri.retain(|uri, _| is_kept(uri));
    }

    /// The resources in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &String> {
        self.by_uri.keys()
    }
}

#[cfg(test)]
mod tests {
    use pegboard_http::Principal;
    use pegboard_mcp::json::raw;

    use super::*;
    use crate::caller::Caller;

    fn party(number: usize) -> Party {
        Party::Caller(Caller::Token(Principal(number)))
    }

    fn message<T: std::fmt::Debug>(result: Result<T, RpcError>) -> String {
        result.expect_err("it is too much").message
    }

    #[test]
    fn texts_have_a_length_that_fits_them() {
        let check = |key: &str, length: usize, expected: Option<&str>| {
            let found = required(&Fields::new().with(key, &"x".repeat(length)), key);
            assert_eq!(found.err().map(|error| error.message).as_deref(), expected, "{key} {length}");
        };
        check("uri", 8192, None);
        check("uri", 8193, Some("`uri` is 8193 bytes, over the limit of 8192"));
        check("name", 1024, None);
        check("name", 1025, Some("`name` is 1025 bytes, over the limit of 1024"));
    }

    #[test]
    fn requests_carry_nothing_endless() {
        let check = |id: usize, cursor: usize, progress: usize, expected: Option<&str>| {
            let id = Id::of(&raw(&"i".repeat(id))).expect("an id");
            let params = Fields::new().with("cursor", &"c".repeat(cursor));
            let found = check_request(&id, &params, Some(&raw(&"p".repeat(progress))));
            let found = found.err().map(|error| error.message);
            assert_eq!(found.as_deref().map(|message| message.split(' ').next().unwrap_or_default()), expected);
        };
        check(1024, 1024, 1024, None);
        check(1025, 0, 0, Some("`id`"));
        check(0, 1025, 0, Some("`cursor`"));
        check(0, 0, 1025, Some("`progressToken`"));
    }

    #[test]
    fn capabilities_have_a_bound() {
        let check = |length: usize| check_capabilities(&raw(&"c".repeat(length - 2))).map_err(|error| error.message);
        assert_eq!(check(32_768), Ok(()));
        assert_eq!(check(32_769), Err("`capabilities` is 32769 bytes, over the limit of 32768".to_owned()));
    }

    #[test]
    fn subscriptions_are_listed_and_given_up() {
        let shares = Arc::new(Shares::default());
        let mut own = Subscriptions::default();
        for uri in ["b", "a", "c"] {
            assert_eq!(own.add(uri, &shares, party(1)).ok(), Some(true));
        }
        own.retain(|uri| uri != "b");
        assert_eq!(own.iter().collect::<Vec<_>>(), ["a", "c"]);
        // Exactly as long as one may be, and exactly as many bytes as one session may have.
        let mut full = Subscriptions::default();
        let uri = |number: usize| format!("{number:0MAX_URI$}");
        let most = SUBSCRIPTION_BYTES / (MAX_URI + SUBSCRIPTION_OVERHEAD);
        for number in 0..most {
            assert_eq!(full.add(&uri(number), &shares, party(2)).ok(), Some(true));
        }
        let left = SUBSCRIPTION_BYTES - most * (MAX_URI + SUBSCRIPTION_OVERHEAD) - SUBSCRIPTION_OVERHEAD;
        assert_eq!(full.add(&"x".repeat(left), &shares, party(2)).ok(), Some(true));
        assert!(full.add("y", &shares, party(2)).is_err());
    }

    #[test]
    fn a_session_has_bounds() {
        let shares = Arc::new(Shares::default());
        let mut many = Subscriptions::default();
        for number in 0..MAX_SUBSCRIPTIONS {
            assert_eq!(many.add(&number.to_string(), &shares, party(1)).ok(), Some(true));
        }
        assert_eq!(many.add("0", &shares, party(1)).ok(), Some(false), "it is there already");
        assert_eq!(
            message(many.add("one more", &shares, party(1))),
            "too many subscriptions: the limit is 1000 per session"
        );
        let mut long = Subscriptions::default();
        let uri = |number: usize| format!("{number:08000}");
        let taken = (0..1000).take_while(|number| long.add(&uri(*number), &shares, party(2)).is_ok()).count();
        assert_eq!(taken, SUBSCRIPTION_BYTES / (8000 + SUBSCRIPTION_OVERHEAD));
        assert_eq!(
            message(long.add(&uri(1000), &shares, party(2))),
            "too many subscriptions: their URIs exceed 262144 bytes"
        );
    }

    #[test]
    fn all_sessions_of_a_caller_have_a_bound_together() {
        let shares = Arc::new(Shares::default());
        let uri = "u".repeat(8000);
        let mut sessions: Vec<Subscriptions> = Vec::new();
        loop {
            let mut session = Subscriptions::default();
            if session.add(&uri, &shares, party(1)).is_err() {
                break;
            }
            sessions.push(session);
        }
        assert_eq!(sessions.len(), SUBSCRIPTION_BYTES_PER_CALLER / (8000 + SUBSCRIPTION_OVERHEAD));
        assert_eq!(
            Subscriptions::default().add(&uri, &shares, party(2)).ok(),
            Some(true),
            "another caller has its own"
        );
        assert!(sessions[0].remove(&uri));
        assert_eq!(Subscriptions::default().add(&uri, &shares, party(1)).ok(), Some(true));
        assert_eq!(
            message(Subscriptions::default().add(&"u".repeat(8193), &shares, party(3))),
            "`uri` is 8193 bytes, over the limit of 8192"
        );
    }
}
