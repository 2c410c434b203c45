//! Printing of results: JSON, text and tables.

use std::io::{IsTerminal, Write, stdout};

use anstyle::{AnsiColor, Style};
use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width};
use serde::Serialize;

use crate::{
    cli::options::{Format, OutputArgs},
    error::CliError,
    terminal_text::{columns_of, cut},
};

/// Style for the important part of a line.
pub(crate) const STRONG: Style = AnsiColor::Green.on_default().bold();
/// Style for the secondary part of a line.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// Minimum width of a description.
const LEAST_DESCRIPTION: usize = 12;

/// Width of the gap between two cells of a table.
const GAP: usize = 2;

/// Table width if the terminal does not report one.
const WIDTH_WITHOUT_TERMINAL: u16 = 100;

impl OutputArgs {
    /// Returns the requested format, or the one that suits standard output.
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

/// Prints text unchanged; colours only if the terminal supports them.
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints bytes unchanged.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Returns the number of columns of the output.
pub(crate) fn width() -> usize {
    // Some terminals say that they have no columns at all.
    let columns = Table::new().width().filter(|width| stdout().is_terminal() && *width > 0);
    columns.unwrap_or(WIDTH_WITHOUT_TERMINAL).into()
}

/// Wraps `text` to lines of at most `width` columns, if its words allow it; the first is indented
/// by `first` spaces, the others by `rest`.
pub(crate) fn wrap(text: &str, first: usize, rest: usize, width: usize) -> String {
    let mut page = " ".repeat(first);
    let mut column = first;
    let mut is_begun = false;
    for word in text.split(' ') {
        let length = columns_of(&anstream::adapter::strip_str(word).to_string());
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

/// Renders a plain table: no rules, one row per line, cut to the terminal. If not even its numbers
/// fit, each row becomes a short list.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>, numbers: &[usize]) -> String {
    let width = u16::try_from(width()).unwrap_or(WIDTH_WITHOUT_TERMINAL);
    table_in(width, head, rows, numbers)
}

/// Renders a [`table`] of this width.
fn table_in(width: u16, head: &[&str], rows: Vec<Vec<String>>, numbers: &[usize]) -> String {
    let widest = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| columns_of(cell));
        cells.chain([columns_of(head[at])]).max().unwrap_or_default() + GAP
    };
    let is_name = |at: usize| head[at] == "TOOL" && head.len() <= 3;
    let is_fixed = |at: usize| at == 0 || numbers.contains(&at) || is_name(at);
    let fixed: usize = (0..head.len()).filter(|at| is_fixed(*at)).map(widest).sum();
    // Where names leave no room for descriptions, names are shown.
    let is_crowded = fixed + LEAST_DESCRIPTION > usize::from(width);
    if is_crowded && head.len() == 3 && is_name(1) && head[2] == "DESCRIPTION" && fixed <= usize::from(width) + GAP {
        let rows = rows.into_iter().map(|row| row.into_iter().take(2).collect()).collect();
        return table_in(width, &head[..2], rows, numbers);
    }
    if fixed > usize::from(width) + GAP {
        return rows.iter().map(|row| row_as_list(head, row)).collect();
    }
    // Where the other columns leave room, texts in the last one are cut behind a word.
    let last = head.len().saturating_sub(1);
    let room = usize::from(width).saturating_sub((0..last).map(widest).sum::<usize>() + GAP);
    let is_cut = !numbers.contains(&last) && room >= LEAST_DESCRIPTION;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width);
    table.set_header(head.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for mut row in rows {
        if let Some(text) = row.get_mut(last).filter(|_| is_cut) {
            *text = cut(text, room);
        }
        let cells = row.into_iter().zip(head).map(|(text, title)| style_cell(text, title));
        let mut row = comfy_table::Row::from(cells.collect::<Vec<Cell>>());
        row.max_height(1);
        table.add_row(row);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, GAP as u16));
        if numbers.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    // A name is there to be used, and so is not cut.
    let is_name = |at: usize| head.get(at) == Some(&"TOOL");
    if let Some(at) = [0, 1].into_iter().find(|at| is_name(*at) && (*at == 0 || head.len() <= 3))
        && let Some(column) = table.column_mut(at)
    {
        column.set_constraint(ColumnConstraint::ContentWidth);
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

/// Renders a row of a table that is too wide as a list, its first cell above the others.
fn row_as_list(head: &[&str], row: &[String]) -> String {
    let Some((first, rest)) = row.split_first() else { return String::new() };
    let titles = &head[1..];
    let width = titles.iter().map(|title| title.len()).max().unwrap_or_default();
    let lines = titles.iter().zip(rest).map(|(title, cell)| format!("  {title:<width$}  {cell}\n"));
    format!("{STRONG}{first}{STRONG:#}\n{}", lines.collect::<String>())
}

/// Returns a cell in the colour of its column; the table drops colours without a terminal.
fn style_cell(text: String, title: &str) -> Cell {
    let cell = Cell::new(text);
    match title {
        "TOOL" | "RANKER" | "ENGINE" => cell.fg(Color::Green).add_attribute(Attribute::Bold),
        "SERVER" => cell.fg(Color::Cyan),
        _ => cell,
    }
}

/// Formats a number with its digits in groups of three.
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

/// Formats a count with its noun: `1 tool`, `2 tools`.
pub(crate) fn pluralize(number: usize, what: &str) -> String {
    format!("{} {what}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

/// Returns a number for JSON without needless zeros: integers stay integers.
pub(crate) fn number(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { serde_json::json!(value as i64) } else { serde_json::json!(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_readable_from_60_columns_on() {
        let head = ["RANKER", "RECALL@1", "RECALL@5", "RECALL@10", "NDCG@10", "MRR", "P50 µs", "P99 µs"];
        let row = |name: &str| {
            let numbers = ["0.5770", "0.8462", "0.8974", "0.7412", "0.6990", "12345.6", "123456.7"];
            [name].into_iter().chain(numbers).map(str::to_owned).collect::<Vec<_>>()
        };
        let wide = || vec![row("sequence"), row("hybrid")];
        let text = ["SCORE", "TOOL", "SERVER", "DESCRIPTION"];
        let found = |name: &str| {
            let description = "Create a new issue in a repository. Use it to report a bug, or to ask for a feature.";
            vec!["0.8900".to_owned(), name.to_owned(), "github".to_owned(), description.to_owned()]
        };
        let hits = || vec![found("create_issue"), found("a_tool_whose_name_takes_more_than_its_share_of_columns")];
        for width in [60, 80, 120] {
            let shown = format!(
                "{}\n{}",
                table_in(width, &head, wide(), &[1, 2, 3, 4, 5, 6, 7]),
                table_in(width, &text, hits(), &[0])
            );
            let shown = anstream::adapter::strip_str(&shown).to_string();
            assert!(shown.lines().all(|line| columns_of(line) <= width.into()), "{shown}");
            insta::assert_snapshot!(format!("{width} columns"), shown);
        }
    }

    #[test]
    fn names_with_their_server_are_whole() {
        let check = |name: &str, has_description: bool| {
            let row = vec!["0.8900".to_owned(), name.to_owned(), "Reads a file from the disk.".to_owned()];
            let shown = table_in(60, &["SCORE", "TOOL", "DESCRIPTION"], vec![row], &[0]);
            let shown = anstream::adapter::strip_str(&shown).to_string();
            assert!(shown.contains(name) && shown.lines().all(|line| columns_of(line) <= 60), "{shown}");
            assert_eq!(shown.contains("DESCRIPTION"), has_description, "{shown}");
        };
        check("filesystem___read_text_file", true);
        check("filesystem___list_directory_with_all_of_its_sizes", false);
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 2, 4, 9), "  one two\n    three");
        assert_eq!(wrap("incomprehensible", 2, 4, 5), "  incomprehensible");
        assert_eq!(wrap("", 1, 1, 1), " ");
    }
}
