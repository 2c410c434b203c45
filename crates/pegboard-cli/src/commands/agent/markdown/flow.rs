//! Glyphs in lines: breaks between words, and changes of style.

use anstyle::{Reset, Style};
use unicode_width::UnicodeWidthChar;

use super::Glyph;
use crate::output::FAINT;

/// A word that begins in this many columns from the right is shown when it is complete, since it may
/// have to go to the next line; all others are shown letter by letter.
const MARGIN: usize = 24;

/// What is being shown.
#[derive(Debug)]
pub(super) struct Flow {
    /// What was not taken yet.
    ready: String,
    width: usize,
    /// The style that is on.
    style: Style,
    column: usize,
    /// Whether the line has begun on the terminal.
    is_open: bool,
    layout: Layout,
    /// Spaces whose word has not come.
    spaces: Vec<Style>,
    word: Word,
}

/// What is at the left of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    quotes: usize,
    indent: usize,
    /// The indent of what does not fit on the line.
    hang: usize,
}

/// The word that is being written.
#[derive(Debug)]
enum Word {
    None,
    /// One that is shown as it comes.
    Shown,
    /// One that waits for its end.
    Held(Vec<Glyph>),
}

impl Flow {
    pub(super) fn new(width: usize) -> Self {
        Self {
            ready: String::new(),
            width,
            style: Style::new(),
            column: 0,
            is_open: false,
            layout: Layout::default(),
            spaces: Vec::new(),
            word: Word::None,
        }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// What can be shown now.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.ready)
    }

    /// Begins a line behind so many marks of a quote and spaces.
    pub(super) fn begin(&mut self, quotes: usize, indent: usize, hang: usize) {
        // Half of the line is for the text.
        let most = self.width / 2;
        self.layout = Layout { quotes: quotes.min(most / 2), indent, hang: hang.min(most) };
    }

    /// Adds a character of a text whose lines may be broken between words.
    pub(super) fn put(&mut self, c: char, style: Style) {
        if c.is_ascii_whitespace() {
            self.end_word();
            self.spaces.push(style);
            return;
        }
        self.open();
        if matches!(self.word, Word::None) {
            let starts_at = self.column + self.spaces.len();
            if starts_at + MARGIN <= self.width {
                self.write_spaces();
                self.word = Word::Shown;
            } else {
                self.word = Word::Held(Vec::new());
            }
        }
        let Word::Held(word) = &mut self.word else { return self.write(c, style) };
        word.push((c, style));
        let length: usize = word.iter().map(|(c, _)| columns(*c)).sum();
        if self.column + self.spaces.len() + length > self.width {
            let word = std::mem::replace(&mut self.word, Word::Shown);
            self.wrap();
            self.write_word(word);
        }
    }

    /// Adds a character of a line that is shown as it is.
    pub(super) fn put_as_is(&mut self, c: char, style: Style) {
        self.open();
        self.write(c, style);
    }

    /// Ends the line.
    pub(super) fn end(&mut self) {
        self.end_word();
        self.spaces.clear();
        if self.layout.quotes > 0 {
            self.open();
        }
        self.set_style(Style::new());
        self.ready.push('\n');
        (self.column, self.is_open, self.layout) = (0, false, Layout::default());
    }

    fn open(&mut self) {
        if !std::mem::replace(&mut self.is_open, true) {
            self.write_left(self.layout.indent);
        }
    }

    /// Goes on in the next line.
    fn wrap(&mut self) {
        self.spaces.clear();
        // A word that is longer than the line stays where it is.
        if self.column > self.layout.quotes * 2 + self.layout.hang {
            self.set_style(Style::new());
            self.ready.push('\n');
            self.column = 0;
            self.write_left(self.layout.hang);
        }
    }

    fn write_left(&mut self, indent: usize) {
        for c in "│ ".repeat(self.layout.quotes).chars() {
            self.write(c, FAINT);
        }
        (0..indent).for_each(|_| self.write(' ', Style::new()));
    }

    fn end_word(&mut self) {
        if let word @ Word::Held(_) = std::mem::replace(&mut self.word, Word::None) {
            self.write_spaces();
            self.write_word(word);
        }
    }

    fn write_spaces(&mut self) {
        for style in std::mem::take(&mut self.spaces) {
            self.write(' ', style);
        }
    }

    fn write_word(&mut self, word: Word) {
        if let Word::Held(glyphs) = word {
            glyphs.into_iter().for_each(|(c, style)| self.write(c, style));
        }
    }

    fn write(&mut self, c: char, style: Style) {
        self.set_style(style);
        self.ready.push(c);
        self.column += columns(c);
        if self.column > self.width {
            // The terminal has begun another line.
            self.column = columns(c);
        }
    }

    fn set_style(&mut self, style: Style) {
        if style == self.style {
            return;
        }
        if self.style != Style::new() {
            self.ready.push_str(&Reset.to_string());
        }
        self.ready.push_str(&style.to_string());
        self.style = style;
    }
}

fn columns(c: char) -> usize {
    c.width().unwrap_or_default()
}
