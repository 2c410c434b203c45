//! Inline marks: emphasis, code, links.

use anstyle::{Effects, Style};

use super::{CODE, Glyph, flow::Flow};
use crate::output::FAINT;

/// Maximum number of characters that wait for the end of a mark; beyond it the mark is text.
const MAX_HELD: usize = 1000;

/// Maximum nesting of marks.
const MAX_DEPTH: usize = 8;

/// The part of a line that is not shown yet: it begins with a mark whose end has not come.
#[derive(Debug, Default)]
pub(super) struct Inline {
    held: Vec<char>,
    /// The previous character.
    last: Option<char>,
    style: Style,
}

impl Inline {
    /// Begins a text of this style.
    pub(super) fn begin(&mut self, style: Style) {
        *self = Self { style, ..Self::default() };
    }

    /// Adds a character and shows everything that is decided.
    pub(super) fn push(&mut self, c: char, flow: &mut Flow) {
        self.held.push(c);
        self.show_decided(false, flow);
    }

    /// Shows the rest at the end of the line.
    pub(super) fn finish(&mut self, flow: &mut Flow) {
        self.show_decided(true, flow);
        self.last = None;
    }

    fn show_decided(&mut self, is_whole: bool, flow: &mut Flow) {
        while !self.held.is_empty() {
            let reader = InlineReader { text: &self.held, is_whole: is_whole || self.held.len() > MAX_HELD, depth: 0 };
            let Some((used, glyphs)) = reader.read(self.last, self.style) else { return };
            glyphs.into_iter().for_each(|(c, style)| flow.put(c, style));
            self.last = self.held.drain(..used).next_back();
        }
    }
}

/// Renders a whole text.
pub(super) fn render(text: &str, style: Style) -> Vec<Glyph> {
    render_within(&text.chars().collect::<Vec<_>>(), style, 0)
}

fn render_within(text: &[char], style: Style, depth: usize) -> Vec<Glyph> {
    let mut glyphs = Vec::with_capacity(text.len());
    let (mut at, mut last) = (0, None);
    while at < text.len() {
        let reader = InlineReader { text: &text[at..], is_whole: true, depth };
        let Some((used, read)) = reader.read(last, style) else { break };
        glyphs.extend(read);
        at += used;
        last = Some(text[at - 1]);
    }
    glyphs
}

/// What a text begins with.
enum InlineMatch {
    /// Not known before more of it has come.
    More,
    /// So many plain characters.
    Plain(usize),
    /// So many characters, rendered as these glyphs.
    Marked(usize, Vec<Glyph>),
}

/// A parser of the beginning of a text that is not empty.
#[derive(Clone, Copy)]
struct InlineReader<'a> {
    text: &'a [char],
    /// Whether nothing follows.
    is_whole: bool,
    depth: usize,
}

impl InlineReader<'_> {
    /// Returns how many characters are read, and what is shown for them; `None` while more are
    /// needed.
    fn read(self, last: Option<char>, style: Style) -> Option<(usize, Vec<Glyph>)> {
        let found = match self.text[0] {
            _ if self.depth > MAX_DEPTH => InlineMatch::Plain(1),
            '\\' => self.escape(style),
            '`' => self.code(style),
            '*' | '_' | '~' => self.emphasis(last, style),
            '[' => self.link(style),
            '!' => self.image(style),
            _ => InlineMatch::Plain(1),
        };
        match found {
            InlineMatch::More => None,
            InlineMatch::Plain(used) => Some((used, self.text[..used].iter().map(|c| (*c, style)).collect())),
            InlineMatch::Marked(used, glyphs) => Some((used, glyphs)),
        }
    }

    /// Returns plain text if nothing can follow.
    fn or_plain(self, length: usize) -> InlineMatch {
        if self.is_whole { InlineMatch::Plain(length) } else { InlineMatch::More }
    }

    fn escape(self, style: Style) -> InlineMatch {
        match self.text.get(1) {
            Some(c) if c.is_ascii_punctuation() => InlineMatch::Marked(2, vec![(*c, style)]),
            Some(_) => InlineMatch::Plain(1),
            None => self.or_plain(1),
        }
    }

    fn code(self, style: Style) -> InlineMatch {
        let ticks = run(self.text, 0);
        let Some(end) = code_end(self.text, 0, self.is_whole) else { return self.or_plain(ticks) };
        let code = &self.text[ticks..end - ticks];
        // A space at both ends is there for code that begins with a tick.
        let code = match code {
            [' ', inner @ .., ' '] if inner.iter().any(|c| *c != ' ') => inner,
            code => code,
        };
        let style = style.fg_color(CODE.get_fg_color());
        InlineMatch::Marked(end, code.iter().map(|c| (*c, style)).collect())
    }

    fn emphasis(self, last: Option<char>, style: Style) -> InlineMatch {
        let mark = self.text[0];
        let length = run(self.text, 0);
        let Some(next) = self.text.get(length) else { return self.or_plain(length) };
        let effects = match (mark, length) {
            ('~', 2) => Effects::STRIKETHROUGH,
            ('*' | '_', 1) => Effects::ITALIC,
            ('*' | '_', 2) => Effects::BOLD,
            ('*' | '_', 3) => Effects::BOLD.insert(Effects::ITALIC),
            _ => return InlineMatch::Plain(length),
        };
        if !opens(mark, last, Some(*next)) {
            return InlineMatch::Plain(length);
        }
        let Some(inner_end) = self.emphasis_end(mark, length) else { return self.or_plain(length) };
        let inner = &self.text[length..inner_end];
        let glyphs = render_within(inner, style.effects(style.get_effects().insert(effects)), self.depth + 1);
        InlineMatch::Marked(inner_end + length, glyphs)
    }

    /// Returns where the mark that ends an emphasis begins, if it is there.
    fn emphasis_end(self, mark: char, length: usize) -> Option<usize> {
        let text = self.text;
        // Lengths of marks within that are open.
        let mut open: Vec<usize> = Vec::new();
        let mut at = length;
        while at < text.len() {
            match text[at] {
                '\\' => at += 2,
                '`' => match code_end(text, at, self.is_whole) {
                    Some(end) => at = end,
                    None if self.is_whole => at += run(text, at),
                    None => return None,
                },
                c if c == mark => {
                    let found = run(text, at);
                    let next = text.get(at + found).copied();
                    if next.is_none() && !self.is_whole {
                        return None;
                    }
                    if closes(mark, text[at - 1], next) {
                        let left = close(&mut open, found, length);
                        if left >= length {
                            return Some(at + found - left);
                        }
                    } else if opens(mark, Some(text[at - 1]), next) {
                        open.push(found);
                    }
                    at += found;
                }
                _ => at += 1,
            }
        }
        None
    }

    fn link(self, style: Style) -> InlineMatch {
        let Some(text_end) = matching(self.text, 0, ']') else { return self.or_plain(1) };
        match self.text.get(text_end + 1) {
            Some('(') => {}
            Some(_) => return InlineMatch::Plain(1),
            None => return self.or_plain(1),
        }
        let Some(end) = matching(self.text, text_end + 1, ')') else { return self.or_plain(1) };
        let inside: String = self.text[text_end + 2..end].iter().collect();
        // A title may follow the address.
        let address = inside.split_whitespace().next().unwrap_or_default().trim_matches(['<', '>']);
        if address.is_empty() {
            return InlineMatch::Plain(1);
        }
        let mut glyphs = render_within(&self.text[1..text_end], style.underline(), self.depth + 1);
        let shown: String = glyphs.iter().map(|(c, _)| *c).collect();
        if shown.trim().is_empty() {
            glyphs = address.chars().map(|c| (c, style.underline())).collect();
        } else if shown != address.strip_prefix("mailto:").unwrap_or(address) {
            glyphs.push((' ', Style::new()));
            glyphs.extend(format!("({address})").chars().map(|c| (c, FAINT)));
        }
        InlineMatch::Marked(end + 1, glyphs)
    }

    /// Reads an image, which is shown like a link to it.
    fn image(self, style: Style) -> InlineMatch {
        match self.text.get(1) {
            None => self.or_plain(1),
            Some('[') => match (Self { text: &self.text[1..], ..self }).link(style) {
                InlineMatch::Marked(used, glyphs) => InlineMatch::Marked(used + 1, glyphs),
                InlineMatch::More => InlineMatch::More,
                InlineMatch::Plain(_) => InlineMatch::Plain(1),
            },
            Some(_) => InlineMatch::Plain(1),
        }
    }
}

/// Returns whether a mark can begin an emphasis: not within a word, so that names and products
/// stay.
fn opens(mark: char, last: Option<char>, next: Option<char>) -> bool {
    let is_in_word = match mark {
        '_' => last.is_some_and(char::is_alphanumeric),
        // Scripts without spaces have marks between letters.
        _ => last.is_some_and(|last| last.is_ascii_alphanumeric()),
    };
    !is_in_word && next.is_some_and(|next| !next.is_whitespace())
}

/// Returns whether a mark can end an emphasis.
fn closes(mark: char, last: char, next: Option<char>) -> bool {
    let is_in_word = mark == '_' && next.is_some_and(char::is_alphanumeric);
    !is_in_word && !last.is_whitespace()
}

/// Ends open marks with a mark of length `found`, and returns what is left of it for one of
/// `length`.
fn close(open: &mut Vec<usize>, found: usize, length: usize) -> usize {
    if let Some(at) = open.iter().rposition(|inner| *inner == found) {
        open.truncate(at);
        return 0;
    }
    let mut left = found;
    while found != length
        && let Some(inner) = open.pop_if(|inner| *inner <= left)
    {
        left -= inner;
    }
    left
}

/// Returns how often the character at `at` is repeated there.
fn run(text: &[char], at: usize) -> usize {
    text[at..].iter().take_while(|c| **c == text[at]).count()
}

/// Returns where the code that begins at `at` ends; a run of ticks at the end of the text may still
/// grow.
fn code_end(text: &[char], at: usize, is_whole: bool) -> Option<usize> {
    let ticks = run(text, at);
    let mut at = at + ticks;
    while at < text.len() {
        if text[at] == '`' {
            let found = run(text, at);
            let is_known = is_whole || at + found < text.len();
            if found == ticks && is_known {
                return Some(at + found);
            }
            at += found;
        } else {
            at += 1;
        }
    }
    None
}

/// Returns where the bracket at `at` is closed.
fn matching(text: &[char], at: usize, closing: char) -> Option<usize> {
    let opening = text[at];
    let mut depth = 0_usize;
    let mut is_escaped = false;
    for (at, c) in text.iter().enumerate().skip(at) {
        match *c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == opening => depth += 1,
            c if c == closing => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}
