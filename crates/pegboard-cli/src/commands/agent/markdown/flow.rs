//! Line breaks between words, and changes of style.

use anstyle::{Reset, Style};
use unicode_width::UnicodeWidthChar;

use super::Glyph;
use crate::output::FAINT;

/// Width of the right margin in which a word is shown only when it is complete, since it may have
/// to move to the next line; all others are shown letter by letter.
const MARGIN: usize = 24;

/// Text that is being shown.
#[derive(Debug)]
pub(super) struct Flow {
    /// Rendered output that was not taken yet.
    ready: String,
    width: usize,
    /// The active style.
    style: Style,
    column: usize,
    /// Whether the line has begun on the terminal.
    is_open: bool,
    layout: Layout,
    /// Spaces before the next word.
    spaces: Vec<Style>,
    word: Word,
}

/// The left margin of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    quotes: usize,
    indent: usize,
    /// The indent of wrapped lines.
    hang: usize,
}

/// The current word.
#[derive(Debug)]
enum Word {
    None,
    /// A word that is shown letter by letter.
    Shown,
    /// A word that waits for its end.
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

    /// Takes the output that can be shown now.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.ready)
    }

    /// Begins a line after so many quote marks and spaces.
    pub(super) fn begin(&mut self, quotes: usize, indent: usize, hang: usize) {
        // Half of the line is for the text.
        let most = self.width / 2;
        self.layout = Layout { quotes: quotes.min(most / 2), indent, hang: hang.min(most) };
    }

    /// Adds a character of a text that may be wrapped between words.
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

    /// Adds a character of a line that is not wrapped.
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

    /// Continues on the next line.
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
