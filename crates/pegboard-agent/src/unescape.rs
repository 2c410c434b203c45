//! Unescapes JSON strings without a second copy in memory.
//!
//! The JSON crate decodes into a buffer and copies that: an output of 50 MB would be in memory
//! three times. A decoded escape is never longer than the escape, so a text can be decoded in
//! place.

use std::ops::Range;

/// Returns the decoded JSON string at `place` of `json`, in the same buffer. Unpaired surrogates,
/// which JSON allows and text does not, become replacement characters.
pub(crate) fn unescape_in_place(json: String, place: Range<usize>) -> String {
    let mut bytes = json.into_bytes();
    let end = place.end.saturating_sub(1).min(bytes.len());
    let (mut from, mut to) = (place.start + 1, 0);
    while from < end {
        let plain = bytes[from..end].iter().position(|byte| *byte == b'\\').unwrap_or(end - from);
        bytes.copy_within(from..from + plain, to);
        (from, to) = (from + plain, to + plain);
        if from < end {
            let (c, length) = decode_escape(&bytes[from..end]);
            let mut buffer = [0; 4];
            let encoded = c.encode_utf8(&mut buffer).as_bytes();
            bytes[to..to + encoded.len()].copy_from_slice(encoded);
            (from, to) = (from + length, to + encoded.len());
        }
    }
    bytes.truncate(to);
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Decodes the escape at the start of `bytes`; returns the character and the length of the escape.
fn decode_escape(bytes: &[u8]) -> (char, usize) {
    let simple = |c| (c, 2);
    match bytes.get(1) {
        Some(b'n') => simple('\n'),
        Some(b't') => simple('\t'),
        Some(b'r') => simple('\r'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'u') => decode_unicode_escape(bytes),
        Some(other) if other.is_ascii() => simple(char::from(*other)),
        _ => (char::REPLACEMENT_CHARACTER, 1),
    }
}

fn decode_unicode_escape(bytes: &[u8]) -> (char, usize) {
    let unit = |at: usize| {
        let digits = bytes.get(at + 2..at + 6).filter(|_| bytes[at..].starts_with(b"\\u"))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let Some(first) = unit(0) else { return (char::REPLACEMENT_CHARACTER, bytes.len().min(6)) };
    let second = (0xd800..0xdc00).contains(&first).then(|| bytes.get(6).and_then(|_| unit(6))).flatten();
    match second.filter(|second| (0xdc00..0xe000).contains(second)) {
        Some(second) => {
            let c = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
        }
        None => (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_of_all_kinds() {
        let check = |json: &str, expected: &str| {
            assert_eq!(unescape_in_place(json.to_owned(), 0..json.len()), expected, "{json}");
        };
        check(r#""""#, "");
        check(r#""plain""#, "plain");
        check(r#""a\nb\t\"\\\/c""#, "a\nb\t\"\\/c");
        check(r#""\u00e4\u4e2d\ud83d\ude00!""#, "ä中😀!");
        check(r#""\ud83d and \ude00 and \ud83d\u0041""#, "\u{fffd} and \u{fffd} and \u{fffd}A");
        // What a JSON reader would have refused must still not panic.
        check(r#""\u12""#, "\u{fffd}");
        check("\"a\\\"", "a\u{fffd}");
    }

    proptest! {
        #[test]
        fn the_same_as_the_json_crate(text in any::<String>(), before in "[a-z]{0,5}") {
            let json = format!("{before}{}rest", serde_json::Value::from(text.clone()));
            let place = before.len()..json.len() - 4;
            prop_assert_eq!(unescape_in_place(json, place), text);
        }

        #[test]
        fn escapes_that_nobody_needs_are_understood(text in any::<String>()) {
            let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let json = format!("\"{units}\"");
            let length = json.len();
            prop_assert_eq!(unescape_in_place(json, 0..length), text);
        }

        #[test]
        fn nothing_panics(bytes in "[\"\\\\u0-9a-fn]{0,30}", start in 0usize..5, end in 0usize..35) {
            let end = end.min(bytes.len());
            let _ = unescape_in_place(bytes, start.min(end)..end);
        }
    }
}
