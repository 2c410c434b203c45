//! Tables within the width of the terminal.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use super::{Glyph, inline};
use crate::output::FAINT;

const HEAD: Style = Style::new().bold();

/// The border between two columns.
const BORDER: &str = " │ ";
const BORDER_WIDTH: usize = 3;

/// Minimum width of a column; a table of narrower ones is shown as a list.
const MIN_COLUMN: usize = 6;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alignment {
    Left,
    Right,
    Centre,
}

/// A line of a cell.
type Line = Vec<Glyph>;

/// Returns the alignments of a table with this first and second line; `None` if they do not begin
/// one.
pub(super) fn alignments(head: &str, below: &str) -> Option<Vec<Alignment>> {
    let alignments: Option<Vec<Alignment>> = cells(below).iter().map(|cell| alignment(cell)).collect();
    alignments.filter(|alignments| alignments.len() == cells(head).len())
}

fn alignment(cell: &str) -> Option<Alignment> {
    let (left, right) = (cell.starts_with(':'), cell.len() > 1 && cell.ends_with(':'));
    let dashes = cell.trim_matches(':');
    let is_rule = !dashes.is_empty()
        && dashes.chars().all(|c| c == '-')
        && cell.len() - dashes.len() == usize::from(left) + usize::from(right);
    is_rule.then_some(match (left, right) {
        (true, true) => Alignment::Centre,
        (false, true) => Alignment::Right,
        (_, false) => Alignment::Left,
    })
}

/// Splits a row into cells.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let mut cells = vec![String::new()];
    let mut is_escaped = false;
    for c in row.chars() {
        let cell = cells.len() - 1;
        match c {
            '|' if is_escaped => {
                cells[cell].pop();
                cells[cell].push('|');
            }
            '|' => cells.push(String::new()),
            c => cells[cell].push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    // The border at the end is not the beginning of a cell.
    if cells.len() > 1 {
        cells.pop_if(|last| last.trim().is_empty());
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// A complete table.
#[derive(Debug)]
pub(super) struct Table {
    /// Lines of each cell of each row; the first row has the titles.
    rows: Vec<Vec<Vec<Line>>>,
    alignments: Vec<Alignment>,
}

impl Table {
    /// Parses the lines of a table, of which the second has the alignments.
    pub(super) fn read(lines: &[String], alignments: Vec<Alignment>) -> Self {
        let rows = lines.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, row)| cells(row));
        let rows: Vec<Vec<String>> = rows.collect();
        let count = rows.iter().map(Vec::len).max().unwrap_or_default();
        let row = |(at, row): (usize, &Vec<String>)| {
            let style = if at == 0 { HEAD } else { Style::new() };
            (0..count).map(|at| row.get(at).map_or_else(Vec::new, |text| lines_of(text, style))).collect()
        };
        Self { rows: rows.iter().enumerate().map(row).collect(), alignments }
    }

    /// Renders the table in at most `width` columns; `None` if that is too narrow for it.
    pub(super) fn in_columns(&self, width: usize) -> Option<Vec<Line>> {
        let count = self.rows.first()?.len();
        let widest = |at: usize| self.rows.iter().flat_map(|row| &row[at]).map(|line| width_of(line)).max();
        let widths = shrink((0..count).map(|at| widest(at).unwrap_or_default()).collect(), width)?;
        let mut shown = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<Line>> = row.iter().zip(&widths).map(|(cell, width)| wrap(cell, *width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or_default();
            shown.extend((0..height).map(|at| row_line(&cells, at, &widths, &self.alignments)));
            if at == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                shown.push(rule.join("─┼─").chars().map(|c| (c, FAINT)).collect());
            }
        }
        Some(shown)
    }

    /// Renders each row as lines of title and text, with an empty line between rows.
    pub(super) fn as_list(&self) -> Vec<Line> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut shown = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                shown.push(Line::new());
            }
            for (title, cell) in head.iter().zip(row).filter(|(_, cell)| cell.iter().any(|line| !line.is_empty())) {
                let mut line: Line = title.concat();
                if !line.is_empty() {
                    line.extend([(':', HEAD), (' ', Style::new())]);
                }
                line.extend(cell.join(&(' ', Style::new())));
                shown.push(line);
            }
        }
        shown
    }
}

/// Renders a text as lines of a cell.
fn lines_of(text: &str, style: Style) -> Vec<Line> {
    let text = text.replace("<br/>", "<br>").replace("<br />", "<br>");
    text.split("<br>").map(|line| inline::render(line.trim(), style)).collect()
}

/// Narrows the widest columns until all fit; `None` if they cannot.
fn shrink(mut widths: Vec<usize>, width: usize) -> Option<Vec<usize>> {
    let borders = BORDER_WIDTH * widths.len().saturating_sub(1);
    let room = width.checked_sub(borders)?;
    while widths.iter().sum::<usize>() > room {
        let widest = widths.iter_mut().max_by_key(|width| **width).filter(|width| **width > MIN_COLUMN)?;
        *widest -= 1;
    }
    Some(widths)
}

/// Renders one line of a row.
fn row_line(cells: &[Vec<Line>], at: usize, widths: &[usize], alignments: &[Alignment]) -> Line {
    let mut shown = Line::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if column > 0 {
            shown.extend(BORDER.chars().map(|c| (c, FAINT)));
        }
        let line = cell.get(at).map_or(&[][..], Vec::as_slice);
        let free = width.saturating_sub(width_of(line));
        let before = match alignments.get(column) {
            Some(Alignment::Right) => free,
            Some(Alignment::Centre) => free / 2,
            _ => 0,
        };
        let is_last = column + 1 == cells.len();
        let after = if is_last { 0 } else { free - before };
        shown.extend((0..before).map(|_| (' ', Style::new())));
        shown.extend_from_slice(line);
        shown.extend((0..after).map(|_| (' ', Style::new())));
    }
    while shown.pop_if(|(c, _)| *c == ' ').is_some() {}
    shown
}

/// Wraps the lines of a cell to so many columns: between words, and within words that are longer.
fn wrap(cell: &[Line], width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for line in cell {
        let mut current = Line::new();
        for word in line.split(|(c, _)| *c == ' ') {
            if !current.is_empty() && width_of(&current) + 1 + width_of(word) > width {
                lines.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                let style = word.first().map_or_else(Style::new, |(_, style)| *style);
                current.push((' ', style));
            }
            for glyph in word {
                current.push(*glyph);
                if width_of(&current) > width && current.len() > 1 {
                    current.pop();
                    lines.push(std::mem::replace(&mut current, vec![*glyph]));
                }
            }
        }
        lines.push(current);
    }
    lines
}

fn width_of(line: &[Glyph]) -> usize {
    line.iter().map(|(c, _)| *c).collect::<String>().width()
}
