//! Markdown on a terminal, piece by piece as a model writes it.
//!
//! A line is shown from the moment its kind is known, and the text within it as soon as no mark is
//! open; a table is shown at its end. The output does not depend on how the text is cut into pieces,
//! because every character is taken by itself.
//!
//! Written by hand, because a parser of whole documents such as `pulldown-cmark` can read a text
//! only once it is complete, and text that a terminal has shown cannot be taken back.

mod flow;
mod inline;
mod line;
mod table;
#[cfg(test)]
mod tests;

use anstyle::{AnsiColor, Style};

use self::{
    flow::Flow,
    inline::Inline,
    line::{Fence, Kind, Quote},
    table::Table,
};
use crate::output::FAINT;

const HEADING: Style = Style::new().bold().underline();
const CODE: Style = AnsiColor::Cyan.on_default();

/// Indent of code, and of wrapped list items.
const CODE_INDENT: &str = "  ";

/// The longest horizontal rule.
const MAX_RULE: usize = 40;

/// A character and its style.
type Glyph = (char, Style);

/// A Markdown text that is being rendered.
#[derive(Debug)]
pub(super) struct Markdown {
    flow: Flow,
    inline: Inline,
    /// The beginning of a line whose kind is not known yet; `None` in the middle of a line.
    begun: Option<String>,
    /// Block quotes around the current line.
    quotes: usize,
    fence: Option<Fence>,
    /// Lines that begin with `|` and may be a table.
    rows: Vec<String>,
}

impl Markdown {
    /// Returns a renderer for a terminal of `width` columns.
    pub(super) fn new(width: usize) -> Self {
        Self {
            flow: Flow::new(width),
            inline: Inline::default(),
            begun: Some(String::new()),
            quotes: 0,
            fence: None,
            rows: Vec::new(),
        }
    }

    /// Renders a whole text, with a line break at its end.
    pub(super) fn render(text: &str, width: usize) -> String {
        let mut markdown = Self::new(width);
        markdown.push(text) + &markdown.finish()
    }

    /// Takes the next piece and returns what can be shown now.
    pub(super) fn push(&mut self, piece: &str) -> String {
        piece.chars().for_each(|c| self.take(c));
        self.flow.take()
    }

    /// Ends the text: returns what was held back, with a line break if a line is open.
    pub(super) fn finish(&mut self) -> String {
        match self.begun.take() {
            Some(begun) if !begun.trim().is_empty() => self.begin(begun, true),
            Some(_) => {}
            None => self.end_line(),
        }
        self.end_table();
        let shown = self.flow.take();
        *self = Self::new(self.flow.width());
        shown
    }

    fn take(&mut self, c: char) {
        match (self.begun.take(), c) {
            (Some(begun), '\n') => self.begin(begun, true),
            (Some(mut begun), c) => {
                begun.push(c);
                self.begin(begun, false);
            }
            (None, '\n') => self.end_line(),
            (None, c) if self.fence.is_some() => self.flow.put_as_is(c, CODE),
            (None, c) => self.inline.push(c, &mut self.flow),
        }
    }

    /// Begins a line if enough of it is known; `is_whole` when it does not go on.
    fn begin(&mut self, begun: String, is_whole: bool) {
        let Some(begun) = self.strip_quotes(begun, is_whole) else { return };
        match self.fence.as_ref() {
            Some(fence) if !is_whole && fence.may_end_at(&begun) => self.begun = Some(begun),
            Some(fence) if fence.ends_at(&begun) => {
                self.fence = None;
                self.skip_line();
            }
            Some(_) => self.begin_code(&begun, is_whole),
            None => match line::kind(&begun, is_whole) {
                Some(kind) => self.begin_kind(kind, &begun, is_whole),
                None => self.begun = Some(begun),
            },
        }
    }

    /// Removes the marks of block quotes; `None` while more of the line is needed for that.
    fn strip_quotes(&mut self, mut begun: String, is_whole: bool) -> Option<String> {
        // Within a fence only the marks that it began with are marks.
        while self.fence.as_ref().is_none_or(|fence| self.quotes < fence.quotes) {
            match line::quote(&begun, is_whole) {
                Quote::Undecided => {
                    self.begun = Some(begun);
                    return None;
                }
                Quote::Mark(used) => {
                    self.end_table();
                    self.quotes += 1;
                    begun.drain(..used);
                }
                Quote::None => {
                    // A fence ends with the quote that it is in.
                    self.fence = None;
                    break;
                }
            }
        }
        Some(begun)
    }

    fn begin_code(&mut self, code: &str, is_whole: bool) {
        self.flow.begin(self.quotes, 0, 0);
        if !code.is_empty() {
            CODE_INDENT.chars().chain(code.chars()).for_each(|c| self.flow.put_as_is(c, CODE));
        }
        if is_whole {
            self.end_line();
        }
    }

    /// Begins a line outside of code.
    fn begin_kind(&mut self, kind: Kind, begun: &str, is_whole: bool) {
        if kind == Kind::Row && self.quotes == 0 {
            self.take_row(begun);
            return self.skip_line();
        }
        self.end_table();
        let indent = line::indent(begun);
        match kind {
            Kind::Fence(fence) => return self.begin_fence(Fence { quotes: self.quotes, ..fence }),
            Kind::Rule => {
                self.flow.begin(self.quotes, 0, 0);
                let length = self.flow.width().min(MAX_RULE);
                (0..length).for_each(|_| self.flow.put_as_is('─', FAINT));
            }
            Kind::Heading(used) => self.begin_text("", &begun[used..], HEADING, 0),
            Kind::Bullet(used) => self.begin_text("• ", &begun[used..], Style::new(), indent),
            Kind::Number(used) => self.begin_text(begun[..used].trim_start(), &begun[used..], Style::new(), indent),
            Kind::Text | Kind::Row => self.begin_text("", begun.trim_start(), Style::new(), indent),
        }
        if is_whole {
            self.end_line();
        }
    }

    fn begin_fence(&mut self, fence: Fence) {
        if !fence.language.is_empty() {
            self.flow.begin(self.quotes, 0, 0);
            let indent = " ".repeat(fence.indent);
            let shown = [&indent, CODE_INDENT, &fence.language].concat();
            shown.chars().for_each(|c| self.flow.put_as_is(c, FAINT));
            self.flow.end();
        }
        self.fence = Some(fence);
        self.skip_line();
    }

    /// Begins a line of text; wrapped text aligns with the text, not with its mark.
    fn begin_text(&mut self, mark: &str, text: &str, style: Style, indent: usize) {
        self.flow.begin(self.quotes, indent, indent + mark.chars().count());
        mark.chars().for_each(|c| self.flow.put_as_is(c, Style::new()));
        self.inline.begin(style);
        text.chars().for_each(|c| self.inline.push(c, &mut self.flow));
    }

    fn end_line(&mut self) {
        self.inline.finish(&mut self.flow);
        self.flow.end();
        self.skip_line();
    }

    /// Goes to the next line without showing anything.
    fn skip_line(&mut self) {
        (self.quotes, self.begun) = (0, Some(String::new()));
    }

    /// Buffers a line that may be part of a table.
    fn take_row(&mut self, row: &str) {
        if self.rows.len() == 1 && table::alignments(&self.rows[0], row).is_none() {
            // The line before has no table below it; this one may still have one.
            self.end_table();
        }
        self.rows.push(row.to_owned());
    }

    /// Shows the table that was held back, or the line that only looked like the first of one.
    fn end_table(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let alignments = match rows.as_slice() {
            [] => return,
            [head, below, ..] => table::alignments(head, below),
            [_] => None,
        };
        let Some(alignments) = alignments else { return rows.iter().for_each(|row| self.show_text(row)) };
        let table = Table::read(&rows, alignments);
        let Some(lines) = table.in_columns(self.flow.width()) else {
            return table.as_list().into_iter().for_each(|line| self.show(line, Flow::put));
        };
        lines.into_iter().for_each(|line| self.show(line, Flow::put_as_is));
    }

    /// Shows a whole line of text.
    fn show_text(&mut self, line: &str) {
        self.begin_text("", line.trim_start(), Style::new(), line::indent(line));
        self.inline.finish(&mut self.flow);
        self.flow.end();
    }

    /// Shows a whole line of glyphs.
    fn show(&mut self, line: Vec<Glyph>, put: fn(&mut Flow, char, Style)) {
        self.flow.begin(0, 0, CODE_INDENT.len());
        line.into_iter().for_each(|(c, style)| put(&mut self.flow, c, style));
        self.flow.end();
    }
}
