//! Where results go and what they look like.

use std::io::{IsTerminal, Write, stdout};

use anstyle::{AnsiColor, Style};
use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width};
use serde::Serialize;

use crate::{
    cli::options::{Format, OutputArgs},
    error::CliError,
    plain::columns_of,
};

/// What matters in a line.
pub(crate) const STRONG: Style = AnsiColor::Green.on_default().bold();
/// What accompanies it.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// The table width when nobody says how wide the terminal is.
const WIDTH_WITHOUT_TERMINAL: u16 = 100;

impl OutputArgs {
    /// What was asked for, or what suits standard output.
    pub(crate) fn format(&self) -> Format {
        self.format.unwrap_or(if stdout().is_terminal() { Format::Text } else { Format::Json })
    }
}

/// Prints one JSON document and a line break.
pub(crate) fn json(value: &impl Serialize) -> Result<(), CliError> {
    let mut text =
        serde_json::to_string_pretty(value).map_err(|error| CliError::new("cannot write JSON").because(error))?;
    text.push('\n');
    raw(text.as_bytes())
}

/// Prints text as it is; colours only where the terminal takes them.
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints bytes as they are.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// How many columns a page of text may take.
pub(crate) fn width() -> usize {
    // Some terminals say that they have no columns at all.
    let columns = Table::new().width().filter(|width| stdout().is_terminal() && *width > 0);
    columns.unwrap_or(WIDTH_WITHOUT_TERMINAL).into()
}

/// `text` in lines of at most `width` columns where its words allow it; the first begins
/// behind `first` spaces, the others behind `rest`.
pub(crate) fn wrapped(text: &str, first: usize, rest: usize, width: usize) -> String {
    let mut page = " ".repeat(first);
    let mut column = first;
    let mut is_begun = false;
    for word in text.split(' ') {
        let length = columns_of(word);
        if is_begun && column + 1 + length > width {
            page.push('\n');
            page.push_str(&" ".repeat(rest));
            column = rest;
        } else if is_begun {
            page.push(' ');
            column += 1;
        }
        page.push_str(word);
        column += length;
        is_begun = true;
    }
    page
}

/// A plain table: no lines, one row a line, cut to the terminal.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>, numbers: &[usize]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    // Some terminals say that they have no columns at all.
    if !stdout().is_terminal() || table.width().is_none_or(|width| width == 0) {
        table.set_width(WIDTH_WITHOUT_TERMINAL);
    }
    table.set_header(head.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for row in rows {
        let cells = row.into_iter().zip(head).map(|(text, title)| styled(text, title));
        let mut row = comfy_table::Row::from(cells.collect::<Vec<Cell>>());
        row.max_height(1);
        table.add_row(row);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if numbers.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    if let Some(column) = table.column_mut(1)
        && head.len() > 3
    {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Percentage(40)));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// A cell in the colour of its column; the table drops colours where there is no terminal.
fn styled(text: String, title: &str) -> Cell {
    let cell = Cell::new(text);
    match title {
        "TOOL" | "RANKER" | "ENGINE" => cell.fg(Color::Green).add_attribute(Attribute::Bold),
        "SERVER" => cell.fg(Color::Cyan),
        _ => cell,
    }
}

/// A number, its digits in groups of three.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 tool`, `2 tools`.
pub(crate) fn counted(number: usize, what: &str) -> String {
    format!("{} {what}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

/// A number without needless zeros, for JSON: integers stay integers.
pub(crate) fn number(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { serde_json::json!(value as i64) } else { serde_json::json!(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two three", 2, 4, 9), "  one two\n    three");
        assert_eq!(wrapped("incomprehensible", 2, 4, 5), "  incomprehensible");
        assert_eq!(wrapped("", 1, 1, 1), " ");
    }
}
