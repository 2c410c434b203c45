//! Sanitizing of untrusted text for a terminal.

use pegboard_core::text::{CUT, word_end};

/// Removes control sequences from a text that comes in pieces, at any cut.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    inside: EscapeState,
}

/// The kind of escape sequence that a piece ends in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EscapeState {
    /// None; plain text.
    #[default]
    Nothing,
    /// One whose kind depends on the next character.
    Escape,
    /// One that ends with a letter.
    Control,
    /// One that contains a text.
    Text,
}

impl Cleaner {
    /// Returns the next piece without escape sequences and other control characters.
    pub(crate) fn clean(&mut self, piece: &str) -> String {
        piece.chars().filter(|c| self.accepts(*c)).collect()
    }

    /// Returns whether a character is text. A malformed sequence ends with its line: it must not
    /// swallow everything after it.
    fn accepts(&mut self, c: char) -> bool {
        use EscapeState::{Control, Escape, Nothing, Text};
        let was = self.inside;
        self.inside = match (was, c) {
            (_, '\u{1b}') => Escape,
            (_, '\n') => Nothing,
            (Nothing, '\u{9b}') | (Escape, '[') => Control,
            (Nothing, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') | (Escape, ']' | 'P' | 'X' | '^' | '_') => Text,
            (Escape, ' '..='/') => Escape,
            (Control, ' '..='?') => Control,
            (Text, '\u{7}' | '\u{18}' | '\u{1a}' | '\u{9c}') => Nothing,
            (Text, _) => Text,
            _ => Nothing,
        };
        // Sequences are ASCII; anything else is text that follows a broken one.
        let is_text = was == Nothing || c == '\n' || (was != Text && !c.is_ascii());
        is_text && self.inside == Nothing && is_plain(c)
    }
}

/// Returns a text without control sequences.
pub(crate) fn clean(text: &str) -> String {
    Cleaner::default().clean(text)
}

/// Maximum number of characters that are considered for one line.
const MAX_LINE: usize = 4000;

/// Returns the beginning of a text on one line of at most `width` columns.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let words = clean(&text.chars().take(MAX_LINE).collect::<String>());
    cut(&words.split_whitespace().collect::<Vec<_>>().join(" "), width)
}

/// Returns a line with visible control characters. A user who decides about it must see all of it.
pub(crate) fn show_controls(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for c in line.chars() {
        if is_plain(c) && c != '\n' { shown.push(c) } else { shown.extend(c.escape_unicode()) }
    }
    shown
}

/// Cuts a line to the words that fit.
pub(crate) fn cut(line: &str, width: usize) -> String {
    let mut used = 0;
    let mut end = 0;
    for (at, c) in line.char_indices() {
        used += columns(c);
        if used > width {
            return format!("{}{CUT}", &line[..word_end(line, end)]);
        }
        // The cut leaves room for the ellipsis.
        if used < width {
            end = at + c.len_utf8();
        }
    }
    line.to_owned()
}

/// Returns JSON on one line with all control characters escaped: still the same JSON.
pub(crate) fn json_line(value: &serde_json::Value) -> String {
    let text = value.to_string();
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if is_plain(c) {
            line.push(c);
        } else {
            // All of them are in the basic plane.
            line.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
    }
    line
}

/// Returns whether a terminal shows a character as text. Direction marks are excluded, because they
/// make one text look like another.
fn is_plain(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    matches!(c, '\n' | '\t') || !(c.is_control() || turns || breaks)
}

/// Returns the width of a line in columns, overestimated if in doubt.
pub(crate) fn columns_of(line: &str) -> usize {
    line.chars().map(columns).sum()
}

/// Returns the width of a character in columns, overestimated if in doubt.
fn columns(c: char) -> usize {
    match c {
        '\0'..='\u{10ff}' | '\u{2000}'..='\u{2e7f}' => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_steers_a_terminal_is_gone() {
        let check = |text: &str, expected: &str| assert_eq!(clean(text), expected, "{text:?}");
        check("a\tb\nc", "a\tb\nc");
        check("\u{1b}[31mred\u{1b}[0m", "red");
        check("\u{1b}]0;title\u{7}text", "text");
        check("a\rb\u{8}c\u{7f}", "abc");
        check("\u{9b}31mred", "red");
        check("\u{1b}]8;;http://a\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link");
        check("\u{1b}(Btext\u{1b}cmore", "textmore");
        check("\u{1b}]0;never ended\nnext", "\nnext");
        check("\u{1b}[3é\u{1b}é", "éé");
        check("safe\u{202e}gpj.exe", "safegpj.exe");
        check("naïve 日本 ☀", "naïve 日本 ☀");
    }

    #[test]
    fn sequences_may_be_cut_anywhere() {
        let text = "one \u{1b}[1;31mtwo\u{1b}[0m three";
        for at in 0..=text.len() {
            let mut cleaner = Cleaner::default();
            let (before, after) = text.split_at(at);
            assert_eq!(cleaner.clean(before) + &cleaner.clean(after), "one two three", "{at}");
        }
    }

    #[test]
    fn lines_are_cut_to_the_width() {
        let check = |text: &str, width: usize, expected: &str| assert_eq!(one_line(text, width), expected, "{text}");
        check("short", 5, "short");
        check("longer", 5, "long…");
        check(" a\n  b ", 10, "a b");
        check("日本語", 4, "日…");
        check("one two three", 9, "one two…");
    }

    #[test]
    fn nothing_is_hidden_from_the_user_who_decides() {
        assert_eq!(show_controls("rm\u{1b}[2K\r\u{202e}x"), "rm\\u{1b}[2K\\u{d}\\u{202e}x");
    }

    proptest! {
        #[test]
        fn clean_texts_have_no_controls(text in any::<String>()) {
            prop_assert!(clean(&text).chars().all(is_plain));
            prop_assert!(show_controls(&text).chars().all(is_plain));
        }

        #[test]
        fn pieces_are_cleaned_like_the_whole(pieces in prop::collection::vec("[\u{1b}\\[\\]0-9;m\u{7}\n\\\\aé]{0,6}", 0..8)) {
            let mut cleaner = Cleaner::default();
            let cleaned: String = pieces.iter().map(|piece| cleaner.clean(piece)).collect();
            prop_assert_eq!(cleaned, clean(&pieces.concat()));
        }

        #[test]
        fn lines_of_json_stay_the_same_json(text in any::<String>()) {
            let value = json!({"text": text});
            let line = json_line(&value);
            prop_assert!(line.chars().all(|c| is_plain(c) && c != '\n'));
            prop_assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), value);
        }

        #[test]
        fn cut_lines_fit(text in "\\PC*", width in 1_usize..40) {
            prop_assert!(cut(&text, width).chars().map(columns).sum::<usize>() <= width);
        }
    }
}
