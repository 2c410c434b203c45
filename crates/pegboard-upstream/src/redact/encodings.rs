//! The forms in which a secret appears where programs quote, escape or encode it.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

/// One encoded form of a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EncodedForm {
    pub(super) text: String,
    /// Whether the adjacent characters may also hold a few bits of the secret.
    pub(super) is_base64: bool,
}

/// Returns the encoded forms of `value`, sorted and without duplicates. The search for them
/// ignores case, which covers both ways to write hexadecimal digits.
pub(super) fn encodings(value: &str) -> Vec<EncodedForm> {
    let plain = [value.to_uppercase(), value.to_lowercase(), hexadecimal(value)];
    let mut forms: Vec<EncodedForm> = plain.into_iter().map(|text| EncodedForm { text, is_base64: false }).collect();
    let escaped = percent_encoded(value).into_iter().chain(json_escaped(value));
    forms.extend(escaped.map(|text| EncodedForm { text, is_base64: false }));
    forms.extend(base64_forms(value).into_iter().map(|text| EncodedForm { text, is_base64: true }));
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn hexadecimal(value: &str) -> String {
    value.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the percent-encoded forms of `value`. Programs differ in the characters that they do
/// not encode: none; the unreserved ones of RFC 3986; those of JavaScript's `encodeURIComponent`
/// and `encodeURI`; those of forms, with `+` for a space.
fn percent_encoded(value: &str) -> Vec<String> {
    let kept = [
        None,
        Some("-._~"),
        Some("-._~/"),
        Some("-_.!~*'()"),
        Some("-_.!~*'();/?:@&=+$,#"),
        Some("*-._"),
        Some("*-._ "),
    ];
    let encode = |kept: Option<&str>| -> String {
        let is_kept = |c: char| kept.is_some_and(|kept| c.is_ascii_alphanumeric() || kept.contains(c));
        let mut text = String::with_capacity(3 * value.len());
        for c in value.chars() {
            match c {
                ' ' if kept.is_some_and(|kept| kept.contains(' ')) => text.push('+'),
                c if is_kept(c) => text.push(c),
                c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("%{byte:02x}"))),
            }
        }
        text
    };
    kept.into_iter().map(encode).collect()
}

/// Returns the JSON-escaped forms of `value`. JSON allows `\uXXXX` for every character and a
/// backslash before a slash. Programs escape what they must, and some also non-ASCII characters,
/// slashes, HTML characters, or everything.
fn json_escaped(value: &str) -> Vec<String> {
    let never = |_: char| false;
    let not_ascii = |c: char| !c.is_ascii();
    let html = |c: char| "<>&'".contains(c);
    let more_html = |c: char| !c.is_ascii() || "<>&'\"+=`".contains(c);
    let all = |_: char| true;
    let mut forms = Vec::new();
    for is_unicode in [never as fn(char) -> bool, not_ascii, html, more_html, all] {
        forms.extend([false, true].map(|has_slashes| json_text(value, is_unicode, has_slashes)));
    }
    // Inside a JSON text that is a string of another one.
    let twice: Vec<String> = forms.iter().take(2).map(|form| json_text(form, never, false)).collect();
    forms.extend(twice);
    forms
}

fn json_text(value: &str, is_unicode: fn(char) -> bool, has_slashes: bool) -> String {
    let mut text = String::with_capacity(2 * value.len());
    for c in value.chars() {
        match c {
            c if is_unicode(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
            }
            '"' | '\\' => text.extend(['\\', c]),
            '/' if has_slashes => text.push_str("\\/"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

/// Returns the base64 forms of `value`. Base64 packs three bytes into four characters, so the same
/// bytes look different depending on their offset in a longer text. For each of the three offsets
/// the result has the characters that hold nothing else, in both alphabets, and as URLs and JSON
/// write them.
fn base64_forms(value: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for offset in 0..3 {
        let bytes: Vec<u8> = std::iter::repeat_n(0, offset).chain(value.bytes()).collect();
        let encoded = STANDARD_NO_PAD.encode(&bytes);
        let (from, to) = ((8 * offset).div_ceil(6), 8 * bytes.len() / 6);
        let Some(own) = encoded.get(from..to) else { continue };
        forms.extend([
            own.to_owned(),
            own.replace('+', "-").replace('/', "_"),
            own.replace('+', "%2b").replace('/', "%2f"),
            own.replace('/', "\\/"),
        ]);
    }
    forms
}

/// Returns whether a character belongs to a base64 alphabet.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}
