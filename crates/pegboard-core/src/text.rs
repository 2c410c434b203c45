//! Texts from outside, made fit to be shown: to people on a terminal, in a log, and to models.
//!
//! What a server says of itself and of its tools can hold more than words: sequences that control a
//! terminal, characters that reverse the direction of a line, and letters that people do not see
//! but every model reads. [`clean`] takes them out and leaves everything else as it is:
//! right-to-left languages, emoji of several characters, accents.
//!
//! ```
//! use pegboard_core::text;
//!
//! assert_eq!(text::clean("\u{1b}[31mred\u{1b}[0m\nand\u{202e} more"), "red\nand more");
//! assert_eq!(text::line("two\nlines"), "two lines");
//! assert_eq!(text::line("שלום 👩‍👩‍👧"), "שלום 👩‍👩‍👧");
//! assert_eq!(text::bounded("a long story about tools", 20), "a long story…");
//! ```

mod escapes;
mod json;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use self::json::{clean_definition, escape_json};

/// What stands at the end of a text that was cut.
pub const CUT: &str = "…";

/// `text` without what could drive a terminal or be read by models alone. Line breaks and tabs
/// stay. A text without such characters is not copied.
pub fn clean(text: &str) -> Cow<'_, str> {
    cleaned(text, true)
}

/// [`clean`] for a single line: line breaks and tabs become spaces.
pub fn line(text: &str) -> Cow<'_, str> {
    cleaned(text, false)
}

/// `text` in at most `most` bytes. A text that is cut ends with [`CUT`] behind a [whole word](word_end).
pub fn bounded(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    cut_at(text, most.saturating_sub(CUT.len()))
}

/// `text` in at most `most` characters. A text that is cut ends with [`CUT`] behind a
/// [whole word](word_end).
pub fn excerpt(text: &str, most: usize) -> Cow<'_, str> {
    if text.char_indices().nth(most).is_none() {
        return Cow::Borrowed(text);
    }
    let room = text.char_indices().nth(most.saturating_sub(1)).map_or(0, |(at, _)| at);
    cut_at(text, room)
}

fn cut_at(text: &str, room: usize) -> Cow<'_, str> {
    // Half of what belongs together would be neither.
    let kept = text[..word_end(text, room)].trim_end_matches(|c| is_joiner(c) || is_selector(c));
    Cow::Owned(format!("{kept}{CUT}"))
}

/// Bytes that at most are dropped to end a text behind a word.
const MAX_DROPPED: usize = 24;

/// The end of the last whole word in the first `room` bytes of `text`. Where that would drop more than
/// half of them, or more than a word has, as in an address or a script without spaces, the last character
/// boundary instead.
pub fn word_end(text: &str, room: usize) -> usize {
    let end = text.floor_char_boundary(room);
    let (start, rest) = text.split_at(end);
    let behind = rest.trim_start_matches([',', ';', ':', '.', '!', '?', ')']);
    let words = match behind.is_empty() || behind.starts_with(char::is_whitespace) {
        true => start,
        false => start.rfind(char::is_whitespace).map_or("", |at| &start[..at]),
    };
    let words = words.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':'));
    if words.len() * 2 < end || words.len() + MAX_DROPPED < end { end } else { words.len() }
}

/// One [`line()`] of at most `most` bytes, for messages.
pub fn brief(text: &str, most: usize) -> String {
    // Whatever is removed is removed from a text that is not longer than needed.
    let start = &text[..text.floor_char_boundary(most.saturating_mul(4))];
    bounded(&line(start), most).into_owned()
}

/// Returns whether [`clean`] certainly leaves `text` as it is, by a quick check of its characters.
fn is_plainly_clean(text: &str, is_multi_line: bool) -> bool {
    let is_break = |c: char| c == '\n' || c == '\t';
    !text.chars().any(|c| if is_break(c) { !is_multi_line } else { needs_a_look(c) })
}

fn cleaned(text: &str, is_multi_line: bool) -> Cow<'_, str> {
    if is_plainly_clean(text, is_multi_line) {
        return Cow::Borrowed(text);
    }
    let without_escapes = escapes::without_escapes(text);
    let visible: String = without_escapes.chars().filter_map(|c| shown(c, is_multi_line)).collect();
    let joined = without_stray_joiners(&visible);
    if joined == text { Cow::Borrowed(text) } else { Cow::Owned(joined) }
}

/// What is shown for one character, whatever stands around it.
fn shown(c: char, is_multi_line: bool) -> Option<char> {
    match c {
        '\n' | '\t' if is_multi_line => Some(c),
        '\n' | '\t' => Some(' '),
        // Terminals and editors break lines here as well.
        '\u{85}' | '\u{2028}' | '\u{2029}' => Some(if is_multi_line { '\n' } else { ' ' }),
        c if is_hidden(c) => None,
        c => Some(c),
    }
}

/// Joiners and selectors say how their neighbours are drawn. Where there are no such neighbours
/// they draw nothing, and a row of them can spell out a hidden text.
fn without_stray_joiners(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut before: Option<char> = None;
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        let is_kept = if is_joiner(c) {
            let joins = |c: char| !c.is_ascii() && !c.is_whitespace() && !is_joiner(c);
            before.is_some_and(joins) && letters.peek().is_some_and(|next| joins(*next) && !is_selector(*next))
        } else if is_selector(c) {
            let is_base = |c: char| !c.is_whitespace() && !is_joiner(c) && !is_selector(c);
            before.is_some_and(|before| is_base(before) && (!before.is_ascii() || is_keycap(before)))
        } else {
            true
        };
        if is_kept {
            kept.push(c);
            before = Some(c);
        }
    }
    kept
}

/// Characters of ASCII that have an emoji form.
fn is_keycap(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '#' | '*')
}

/// Characters that join their neighbours into one sign, as families of emoji, Persian and
/// the languages of India need them.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}')
}

/// Characters that choose the form of the one before.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{180B}'..='\u{180D}' | '\u{180F}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

/// Whether a text with `c` in it must be looked at more closely.
fn needs_a_look(c: char) -> bool {
    !matches!(c, ' '..='~') && (is_hidden(c) || is_joiner(c) || is_selector(c) || matches!(c, '\u{2028}' | '\u{2029}'))
}

/// Controls, what turns the direction of a text, and what has no width and no meaning that
/// could be missed: spaces and fillers of no width, notes between lines, tags.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180E}'
            | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E00FF}' | '\u{E01F0}'..='\u{E0FFF}')
}

/// [`clean`] for who owns the text.
pub(crate) fn clean_owned(text: String) -> String {
    match clean(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    }
}

/// [`line()`] for who owns the text.
pub(crate) fn line_owned(text: String) -> String {
    match line(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    }
}
