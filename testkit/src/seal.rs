//! Sealed state that clients carry from one round to the next and cannot change.

use std::hash::{DefaultHasher, Hasher};

use serde_json::{Value, json};

/// Makes the checksum one that only this program can compute. It is the same in every
/// process, since a retry need not reach the process that asked.
const KEY: &[u8] = b"pegboard-fixture request state, key 1";

/// Packs `state` for a client to carry. `origin` names the request it belongs to.
pub(crate) fn seal(origin: &str, state: &Value) -> String {
    let payload = hex(json!({"origin": origin, "state": state}).to_string().as_bytes());
    format!("{payload}.{:016x}", checksum(&payload))
}

/// Unpacks a state that [`seal`] made for the same origin; `None` for anything else.
pub(crate) fn open(origin: &str, sealed: &str) -> Option<Value> {
    let (payload, sum) = sealed.split_once('.')?;
    if sum != format!("{:016x}", checksum(payload)) {
        return None;
    }
    let mut content: Value = serde_json::from_slice(&unhex(payload)?).ok()?;
    // The state of one tool is not valid for another.
    (content["origin"] == origin).then(|| content["state"].take())
}

fn checksum(payload: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(KEY);
    hasher.write(payload.as_bytes());
    hasher.finish()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16)?.try_into().ok()).collect();
    Some(digits?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_untouched_state_opens() {
        let state = json!({"name": "Zoë", "round": 2});
        let sealed = seal("tools/call a", &state);
        assert_eq!(open("tools/call a", &sealed), Some(state));
        assert_eq!(open("tools/call b", &sealed), None);
        assert_eq!(open("tools/call a", &format!("{sealed}-TAMPERED")), None);
        assert_eq!(open("tools/call a", &sealed.replacen('7', "8", 1)), None);
        assert_eq!(open("tools/call a", ""), None);
    }
}
