//! Cleaning of texts that come from outside.

use std::{borrow::Cow, iter::Peekable, str::Chars};

/// Removes control characters except line breaks and tabs, so that a description cannot
/// drive a terminal or end a prompt section by stealth.
pub(crate) fn clean(text: String) -> String {
    remove(text, |c| is_unsafe(c) && c != '\n' && c != '\t')
}

/// Like [`clean`], for names and other single lines.
pub(crate) fn clean_line(text: String) -> String {
    remove(text, is_unsafe)
}

fn remove(text: String, unwanted: impl Fn(char) -> bool) -> String {
    if text.contains(&unwanted) { text.replace(&unwanted, "") } else { text }
}

/// Controls, and the bidirectional overrides and tag characters with which text can be
/// made to read differently from what it says.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{E0000}'..='\u{E007F}')
}

/// `text` as one line that can be shown anywhere: line breaks and tabs are spaces, and what
/// drives a terminal is gone with all that belongs to it.
///
/// ```
/// assert_eq!(pegboard_core::plain_line("\u{1b}[31mred\u{1b}[0m\nnext"), "red next");
/// ```
pub fn plain_line(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_unsafe(c) || is_break(c)) {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            // The same in one character.
            '\u{9b}' => skip_sequence(&mut rest),
            c if is_break(c) || c == '\t' => plain.push(' '),
            c if is_unsafe(c) => {}
            c => plain.push(c),
        }
    }
    plain.into()
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Passes over what follows an escape character.
fn skip_escape(rest: &mut Peekable<Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_sequence(rest);
        }
        // A title or a link, up to a bell or another escape; never beyond a line.
        Some(']' | 'P' | '^' | '_' | 'X') => {
            while let Some(c) = rest.next_if(|c| !is_break(*c)) {
                if c == '\u{7}' || (c == '\u{1b}' && rest.next_if_eq(&'\\').is_some()) {
                    return;
                }
            }
        }
        Some(' '..='~') => {
            rest.next();
        }
        _ => {}
    }
}

/// Passes over the parameters and the last character of a sequence.
fn skip_sequence(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    rest.next_if(|c| matches!(c, '@'..='~'));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_plain() {
        let check = |text: &str, expected: &str| assert_eq!(plain_line(text), expected, "{text:?}");
        check("as it is \u{e9} \u{1f50d}", "as it is \u{e9} \u{1f50d}");
        check("a\r\nb\tc\u{2028}d", "a  b c d");
        check("\u{1b}[1;31mred\u{1b}[0m", "red");
        check("\u{9b}2Jx", "x");
        check("\u{1b}]0;title\u{7}x\u{1b}]8;;http://a\u{1b}\\y", "xy");
        check("\u{1b}]0;no end\nx", " x");
        check("\u{1b}(Bx\u{1b}", "Bx");
        check("\u{202e}evil\u{0}\u{7f}", "evil");
    }

    proptest! {
        #[test]
        fn nothing_drives_a_terminal(text in "(?s)[\\PC\u{0}-\u{9f}\u{2028}]{0,40}") {
            let plain = plain_line(&text);
            prop_assert!(!plain.contains(|c: char| is_unsafe(c) || is_break(c)));
            prop_assert_eq!(plain_line(&plain), plain.clone());
        }
    }
}
