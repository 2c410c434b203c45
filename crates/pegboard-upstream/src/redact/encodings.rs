//! The forms in which a secret appears where programs quote, escape or encode it.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

/// One form of a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    pub(super) text: String,
    /// Whether the characters beside it may hold a few bits of the secret as well.
    pub(super) is_base64: bool,
}

/// The encoded forms of `value`, in order and each once. Upper and lower case are not told
/// apart by the search for them, which covers both ways to write hexadecimal digits.
pub(super) fn encodings(value: &str) -> Vec<Form> {
    let plain = [value.to_uppercase(), value.to_lowercase(), hexadecimal(value)];
    let mut forms: Vec<Form> = plain.into_iter().map(|text| Form { text, is_base64: false }).collect();
    let escaped = percent_encoded(value).into_iter().chain(json_escaped(value));
    forms.extend(escaped.map(|text| Form { text, is_base64: false }));
    forms.extend(base64_forms(value).into_iter().map(|text| Form { text, is_base64: true }));
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn hexadecimal(value: &str) -> String {
    value.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Programs differ in what they leave as it is: nothing; what RFC 3986 calls unreserved; what
/// JavaScript's `encodeURIComponent` and `encodeURI` leave; what forms leave, with `+` for a
/// space.
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

/// JSON lets everything be written as `\uXXXX`, and a slash with a backslash. Programs escape
/// what they must, and beside that all that is not ASCII, slashes, what is special in HTML, or
/// everything.
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

/// Base64 packs three bytes into four characters: the same bytes look different by where they
/// begin in a longer text. Of each of the three beginnings, the characters that hold nothing
/// else; in both alphabets, and as URLs and JSON write them.
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

/// Whether a character can stand in base64.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}
