//! Escape sequences of terminals.

use std::borrow::Cow;

/// Maximum length of a sequence that carries a text of its own; an unterminated sequence is treated
/// as text.
const MAX_STRING: usize = 4096;

/// Returns `text` without escape sequences: complete ones are removed entirely, of others only the
/// introducing character.
pub(super) fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains(is_introducer) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_introducer) {
        kept.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[length(rest).min(rest.len())..];
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// Returns whether a character introduces a sequence: ESC, or one of the C1 controls.
fn is_introducer(c: char) -> bool {
    matches!(c, '\u{1B}' | '\u{90}' | '\u{98}' | '\u{9B}' | '\u{9D}'..='\u{9F}')
}

/// Returns the length in bytes of the sequence at the start of `text`.
fn length(text: &str) -> usize {
    let mut letters = text.chars();
    let first = letters.next().unwrap_or_default();
    let (kind, head) = match first {
        '\u{1B}' => match letters.next() {
            Some(kind @ ('[' | ']' | 'P' | 'X' | '^' | '_')) => (kind, 2),
            // A few in between, and the one that ends it.
            Some(' '..='/') => {
                let between = text[1..].bytes().take_while(|byte| matches!(byte, b' '..=b'/')).count();
                let has_end = text.as_bytes().get(1 + between).is_some_and(|byte| matches!(byte, b'0'..=b'~'));
                return 1 + between + usize::from(has_end);
            }
            Some('0'..='~') => return 2,
            _ => return 1,
        },
        '\u{9B}' => ('[', first.len_utf8()),
        '\u{9D}' => (']', first.len_utf8()),
        _ => ('P', first.len_utf8()),
    };
    let body = &text[head..];
    head + if kind == '[' { control(body) } else { string(body, kind == ']') }
}

/// Returns the length of a control sequence: parameters, intermediate bytes and one final letter.
fn control(body: &str) -> usize {
    let bytes = body.as_bytes();
    let inside = bytes.iter().take_while(|byte| matches!(byte, b' '..=b'?')).count();
    inside + usize::from(bytes.get(inside).is_some_and(|byte| matches!(byte, b'@'..=b'~')))
}

/// Returns the length of a control string including its terminator; 0 if it has none.
fn string(body: &str, may_ring: bool) -> usize {
    let near = &body[..body.floor_char_boundary(MAX_STRING)];
    for (at, c) in near.char_indices() {
        match c {
            '\u{7}' if may_ring => return at + 1,
            '\u{9C}' => return at + c.len_utf8(),
            '\u{1B}' if near[at + 1..].starts_with('\\') => return at + 2,
            '\u{1B}' | '\n' => return 0,
            _ => {}
        }
    }
    0
}
