//! Error messages of endpoints, without the texts that were sent.

use serde_json::Value;

/// The replacement for text that is not repeated.
pub(super) const HIDDEN: &str = "[hidden]";

/// Number of bytes by which a text is recognized; messages often repeat a part.
const KNOWN_BY: usize = 16;

/// Returns the message of a refusal, if it has a known form. Other bodies are not reported, since
/// they may hold anything.
pub(super) fn message(body: &[u8]) -> Option<String> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let places = ["/error/message", "/error", "/message", "/detail"];
    places.iter().find_map(|place| json.pointer(place).and_then(Value::as_str)).map(str::to_owned)
}

/// Returns the message without a text that it repeats, or begins to repeat.
pub(super) fn without(message: &str, text: &str) -> String {
    let text = text.trim();
    let known_by = &text[..text.ceil_char_boundary(KNOWN_BY)];
    if known_by.is_empty() {
        return message.to_owned();
    }
    let (mut shown, mut rest, mut before) = (String::new(), message, None);
    while let Some(at) = rest.find(known_by) {
        let common = rest[at..].chars().zip(text.chars()).take_while(|(a, b)| a == b);
        let end = at + common.map(|(letter, _)| letter.len_utf8()).sum::<usize>();
        // A short text is often a part of other words.
        let is_in_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let is_part = known_by.len() < KNOWN_BY
            && (is_in_word(rest[..at].chars().next_back().or(before)) || is_in_word(rest[end..].chars().next()));
        shown.push_str(&rest[..at]);
        shown.push_str(if is_part { &rest[at..end] } else { HIDDEN });
        before = rest[..end].chars().next_back();
        rest = &rest[end..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        let check = |body: &str, expected: Option<&str>| assert_eq!(message(body.as_bytes()).as_deref(), expected);
        check(r#"{"error": {"message": "no"}}"#, Some("no"));
        check(r#"{"error": "no"}"#, Some("no"));
        check(r#"{"detail": [{"input": "what somebody asked"}]}"#, None);
        check("what somebody asked", None);
    }

    #[test]
    fn what_was_sent_is_not_repeated() {
        let check = |message: &str, text: &str, expected: &str| assert_eq!(without(message, text), expected);
        check("`my secret plan` is not allowed", " my secret plan ", "`[hidden]` is not allowed");
        check("bad: how to fire my whole te...", "how to fire my whole team", "bad: [hidden]...");
        check("bad input: ad ad", "ad", "bad input: [hidden] [hidden]");
        check("a", "a", "[hidden]");
        check("что-то увольнение всех и каждого", "увольнение всех и вся", "что-то [hidden]каждого");
        check("nothing of it", "", "nothing of it");
    }
}
