//! Spreadsheets: ranges in A1 notation, sums, sorting and pivot tables.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Tools, cents, drive::FILES};
use crate::{
    filter::compare,
    verbs::Call,
    world::{Outcome, ToolError, World, known_as, shorten, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("createSpreadsheet", create),
    ("readRange", read),
    ("updateCells", update),
    ("appendRow", append),
    ("sortRange", sort),
    ("search", search),
    ("createPivotTable", pivot),
    ("importCsv", import),
    ("exportSheet", export),
];

const SHEETS: &str = "sheets/spreadsheets";
const MAX_ROWS: usize = 10_000;
const MAX_COLUMNS: usize = 200;

type Rows = Vec<Vec<Value>>;

/// Returns the rows of a text with separated values; quotes keep separators and line breaks.
pub(super) fn csv(text: &str, delimiter: &str) -> Rows {
    let delimiter = delimiter.chars().next().unwrap_or(',');
    let (mut rows, mut row, mut cell, mut is_quoted) = (Rows::new(), Vec::new(), String::new(), false);
    let value = |text: &str| serde_json::from_str(text).ok().filter(Value::is_number).unwrap_or_else(|| text.into());
    for c in text.trim_end().chars().chain(['\n']) {
        match c {
            '"' => is_quoted = !is_quoted,
            c if !is_quoted && (c == delimiter || c == '\n') => {
                row.push(value(std::mem::take(&mut cell).trim()));
                if c == '\n' {
                    rows.push(std::mem::take(&mut row));
                }
            }
            c => cell.push(c),
        }
    }
    rows
}

/// Returns the requested sheet, or the first one, and its rows.
fn rows(spreadsheet: &Value, tab: &str) -> Result<(String, Rows), ToolError> {
    let tabs = spreadsheet["tabs"].as_object().cloned().unwrap_or_default();
    let tab = if tab.is_empty() { tabs.keys().next().cloned().unwrap_or_default() } else { tab.to_owned() };
    let rows = tabs.get(&tab).and_then(|rows| serde_json::from_value(rows.clone()).ok());
    let known: Vec<String> = tabs.keys().cloned().collect();
    let unknown = || ToolError(format!("there is no sheet `{}`; {}", shorten(&tab), known_as(&known)));
    rows.ok_or_else(unknown).map(|rows| (tab, rows))
}

fn save(world: &mut World, call: &Call<'_>, tab: &str, rows: &Rows) -> Result<(), ToolError> {
    if rows.len() > MAX_ROWS || rows.iter().any(|row| row.len() > MAX_COLUMNS) {
        return Err(format!("a sheet has at most {MAX_ROWS} rows of {MAX_COLUMNS} cells").into());
    }
    let mut spreadsheet = call.found["spreadsheetId"].clone();
    spreadsheet["tabs"][tab] = json!(rows);
    world.put(SHEETS, spreadsheet)
}

/// Returns the column and row of a cell such as `B12`, both counted from 0.
fn cell(text: &str) -> Option<(usize, usize)> {
    let text = text.to_uppercase();
    let letters = text.bytes().take_while(u8::is_ascii_uppercase).count().min(3);
    let column = text.bytes().take(letters).fold(0, |sum, letter| sum * 26 + usize::from(letter - b'A' + 1));
    let row: usize = text[letters..].parse().ok()?;
    let is_cell = (1..=MAX_COLUMNS).contains(&column) && (1..=MAX_ROWS).contains(&row);
    is_cell.then(|| (column - 1, row - 1))
}

/// A rectangle of cells: the first and the last.
type Area = ((usize, usize), (usize, usize));

fn area(cells: &str) -> Option<Area> {
    let (from, to) = cells.split_once(':').unwrap_or((cells, cells));
    let (from, to) = (cell(from)?, cell(to)?);
    (from.0 <= to.0 && from.1 <= to.1).then_some((from, to))
}

/// Parses `Sheet1!A1:D20`, `A1:D20` or `A1`; returns the cells, and all rows of the sheet.
fn range(call: &Call<'_>, name: &str) -> Result<(Area, String, Rows), ToolError> {
    let text = call.arguments.text(name);
    let (tab, cells) = text.split_once('!').unwrap_or(("", text));
    let area = area(cells).ok_or_else(|| format!("`{}` is not a range like Sheet1!A1:D20", shorten(text)))?;
    let (tab, rows) = rows(&call.found["spreadsheetId"], tab.trim_matches('\''))?;
    Ok((area, tab, rows))
}

/// Returns the existing cells of an area.
fn cut(rows: &Rows, (from, to): Area) -> Rows {
    let found = rows.iter().skip(from.1).take(to.1 - from.1 + 1);
    found.map(|row| row.iter().skip(from.0).take(to.0 - from.0 + 1).cloned().collect()).collect()
}

/// Returns the value of a cell: itself, or the result of its formula over a range.
fn shown(rows: &Rows, cell: &Value) -> Value {
    let Some(formula) = cell.as_str().and_then(|text| text.strip_prefix('=')) else { return cell.clone() };
    let (function, rest) = formula.split_once('(').unwrap_or((formula, ""));
    let numbers = area(rest.trim_end_matches(')')).map(|area| cut(rows, area).concat());
    numbers.and_then(|cells| fold(&function.to_lowercase(), &cells)).unwrap_or_else(|| "#NAME?".into())
}

/// Aggregates many cells into one number.
fn fold(how: &str, cells: &[Value]) -> Option<Value> {
    let numbers: Vec<f64> = cells.iter().filter_map(Value::as_f64).collect();
    let sum: f64 = numbers.iter().sum();
    let folded = match how {
        "sum" => sum,
        "count" => cells.iter().filter(|cell| !cell.is_null()).count() as f64,
        "avg" | "average" => sum / numbers.len().max(1) as f64,
        "min" => numbers.into_iter().reduce(f64::min)?,
        "max" => numbers.into_iter().reduce(f64::max)?,
        _ => return None,
    };
    let rounded = cents(folded);
    Some(if rounded.fract() == 0.0 { (rounded as i64).into() } else { rounded.into() })
}

fn create(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut names = call.arguments.texts("tabs");
    if names.is_empty() {
        names = vec!["Sheet1"];
    }
    let tabs: Value = names.into_iter().map(|name| (name.to_owned(), json!([]))).collect();
    call.arguments.set("tabs", tabs);
    crate::verbs::create(world, call)
}

fn read(_: &mut World, call: &mut Call<'_>) -> Outcome {
    let (area, tab, rows) = range(call, "range")?;
    let mut values = cut(&rows, area);
    if call.arguments.text("render") != "formula" {
        values.iter_mut().flatten().for_each(|cell| *cell = shown(&rows, cell));
    }
    Ok(json!({"message": format!("{} row(s) of {tab}", values.len()), "values": values}))
}

fn update(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let ((from, _), tab, mut rows) = range(call, "range")?;
    for (down, values) in call.arguments.list("values").iter().enumerate().take(MAX_ROWS) {
        for (right, value) in values.as_array().into_iter().flatten().enumerate().take(MAX_COLUMNS) {
            let (row, column) = (from.1 + down, from.0 + right);
            rows.resize(rows.len().max(row + 1), Vec::new());
            let width = rows[row].len().max(column + 1);
            rows[row].resize(width, Value::Null);
            let is_formula = value.as_str().is_some_and(|text| text.starts_with('='));
            let is_text = is_formula && !call.arguments.is("parseFormulas");
            rows[row][column] = if is_text { format!("'{}", text_of(value)).into() } else { value.clone() };
        }
    }
    save(world, call, &tab, &rows)?;
    let message = format!("{tab} has new values in {}", call.arguments.text("range"));
    Ok(json!({"message": message, "values": call.arguments.list("values")}))
}

fn append(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (tab, mut rows) = rows(&call.found["spreadsheetId"], call.arguments.text("sheet"))?;
    rows.push(call.arguments.list("values").to_vec());
    save(world, call, &tab, &rows)?;
    Ok(json!({"message": format!("row {} added to {tab}", rows.len()), "values": call.arguments.list("values")}))
}

fn sort(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (area, tab, mut rows) = range(call, "range")?;
    let all = rows.clone();
    let end = rows.len().min(area.1.1 + 1);
    // The last key first: the sort is stable.
    for key in call.arguments.list("keys").iter().rev() {
        let name = text_of(&key["column"]);
        let (column, _) = cell(&format!("{name}1")).ok_or_else(|| format!("`{name}` is not a column like B"))?;
        let value = |row: &[Value]| row.get(column).map_or(Value::Null, |cell| shown(&all, cell));
        rows[area.0.1.min(end)..end].sort_by(|a, b| {
            let order = compare(&value(a), &value(b));
            if key["order"] == "desc" { order.reverse() } else { order }
        });
    }
    save(world, call, &tab, &rows)?;
    Ok(json!({"message": format!("{} sorted", call.arguments.text("range")), "values": cut(&rows, area)}))
}

fn search(world: &mut World, call: &mut Call<'_>) -> Outcome {
    if call.arguments.is("regex") || call.arguments.text("find").is_empty() {
        return Err("the demo searches for plain text only, which must not be empty".into());
    }
    let folded = |text: &str| if call.arguments.is("matchCase") { text.to_owned() } else { text.to_lowercase() };
    let (find, with) = (folded(call.arguments.text("find")), call.arguments.value("replaceWith").as_str());
    let (mut spreadsheet, mut found) = (call.found["spreadsheetId"].clone(), Vec::new());
    for (tab, rows) in spreadsheet["tabs"].as_object_mut().into_iter().flatten() {
        let rows = rows.as_array_mut().into_iter().flatten().enumerate();
        for (row, cell) in
            rows.flat_map(|(at, row)| row.as_array_mut().into_iter().flatten().map(move |cell| (at, cell)))
        {
            let text = folded(&text_of(cell));
            if text.contains(&find) {
                found.push(json!({"sheet": tab, "row": row + 1, "was": *cell}));
                if let Some(with) = with {
                    *cell = text.replace(&find, with).into();
                }
            }
        }
    }
    if with.is_some() {
        world.put(SHEETS, spreadsheet)?;
    }
    let what = if with.is_some() { "replaced" } else { "found" };
    Ok(json!({"message": format!("{what} in {} cell(s)", found.len()), "cells": found}))
}

fn pivot(_: &mut World, call: &mut Call<'_>) -> Outcome {
    let (area, _, rows) = range(call, "source")?;
    let mut data = cut(&rows, area).into_iter();
    let header: Vec<String> = data.next().unwrap_or_default().iter().map(text_of).collect();
    let column = |name: &str| {
        let found = header.iter().position(|field| field == name);
        found.ok_or_else(|| ToolError(format!("the table has no column `{}`; {}", shorten(name), known_as(&header))))
    };
    let by = [call.arguments.texts("rows"), call.arguments.texts("columns")].concat();
    let by: Vec<usize> = by.into_iter().map(column).collect::<Result<_, _>>()?;
    let mut groups: BTreeMap<Vec<String>, Rows> = BTreeMap::new();
    for row in data {
        let row: Vec<Value> = row.iter().map(|cell| shown(&rows, cell)).collect();
        groups
            .entry(by.iter().map(|at| row.get(*at).map_or_else(String::new, text_of)).collect())
            .or_default()
            .push(row);
    }
    let mut table = Vec::new();
    for (key, rows) in groups {
        let mut entry: Value = by.iter().map(|at| header[*at].clone()).zip(key).collect();
        for wanted in call.arguments.list("values") {
            let (field, how) = (text_of(&wanted["field"]), wanted["fn"].as_str().unwrap_or("sum"));
            let at = column(&field)?;
            let cells: Vec<Value> = rows.iter().filter_map(|row| row.get(at).cloned()).collect();
            entry[format!("{how} of {field}")] = fold(how, &cells).into();
        }
        table.push(entry);
    }
    Ok(json!({"message": format!("{} group(s)", table.len()), "pivot": table}))
}

fn import(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let file = world.find(FILES, call.arguments.text("path"))?;
    let tab = if call.arguments.has("sheet") { call.arguments.text("sheet") } else { "Sheet1" };
    let rows = csv(&text_of(&file["content"]), call.arguments.text("delimiter"));
    save(world, call, tab, &rows)?;
    Ok(json!({"message": format!("{} row(s) of {} written to {tab}", rows.len(), text_of(&file["path"]))}))
}

fn export(_: &mut World, call: &mut Call<'_>) -> Outcome {
    let (tab, rows) = rows(&call.found["spreadsheetId"], call.arguments.text("sheet"))?;
    let cell = |cell: &Value| if cell.is_null() { String::new() } else { text_of(&shown(&rows, cell)) };
    let line = |row: &Vec<Value>| row.iter().map(cell).collect::<Vec<_>>().join(",");
    let content: Vec<String> = rows.iter().map(line).collect();
    let message = format!("{tab} for a file of type {}, as text", call.arguments.text("format"));
    Ok(json!({"message": message, "content": content.join("\n")}))
}
