//! Spreadsheets: ranges in A1 notation, a few formulas, sorting and pivot tables.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Tools, cents, drive};
use crate::demo::{
    filter::compare,
    verbs::Call,
    world::{Outcome, Refusal, World, known_as, text_of},
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
/// Rows and columns of one sheet.
const MAX_ROWS: usize = 10_000;
const MAX_COLUMNS: usize = 200;

type Rows = Vec<Vec<Value>>;

/// A rectangle of cells: the sheet it is in, and its first and last row and column.
struct Area {
    tab: String,
    rows: (usize, usize),
    columns: (usize, usize),
}

fn sheet(world: &World, call: &Call<'_>) -> Outcome {
    world.find(SHEETS, call.arguments.text("spreadsheetId"))
}

fn first_tab(sheet: &Value) -> String {
    sheet["tabs"].as_object().and_then(|tabs| tabs.keys().next().cloned()).unwrap_or_default()
}

fn rows(sheet: &Value, tab: &str) -> Result<Rows, Refusal> {
    let tabs = sheet["tabs"].as_object().cloned().unwrap_or_default();
    let Some(rows) = tabs.get(tab).and_then(Value::as_array) else {
        let known: Vec<String> = tabs.keys().cloned().collect();
        return Err(format!("there is no sheet `{tab}`; {}", known_as(&known)).into());
    };
    Ok(rows.iter().map(|row| row.as_array().cloned().unwrap_or_default()).collect())
}

/// Column and row of a cell such as `B12`, both counted from 0.
fn cell(text: &str) -> Option<(usize, usize)> {
    let text = text.replace('$', "").to_uppercase();
    let letters: String = text.chars().take_while(char::is_ascii_uppercase).take(4).collect();
    let column = letters.bytes().fold(0, |sum, letter| sum * 26 + usize::from(letter - b'A' + 1));
    let row: usize = text[letters.len()..].parse().ok()?;
    let is_cell = (1..=MAX_COLUMNS).contains(&column) && (1..=MAX_ROWS).contains(&row);
    is_cell.then(|| (column - 1, row - 1))
}

/// Reads `Sheet1!A1:D20`, `A1:D20` or `A1`.
fn area(sheet: &Value, range: &str) -> Result<Area, Refusal> {
    let wrong = || Refusal(format!("`{range}` is no range like Sheet1!A1:D20 of at most {MAX_ROWS} rows"));
    let (tab, cells) = match range.split_once('!') {
        Some((tab, cells)) => (tab.trim_matches('\'').to_owned(), cells),
        None => (first_tab(sheet), range),
    };
    let (from, to) = cells.split_once(':').unwrap_or((cells, cells));
    let (from, to) = (cell(from).ok_or_else(wrong)?, cell(to).ok_or_else(wrong)?);
    if from.0 > to.0 || from.1 > to.1 {
        return Err(wrong());
    }
    rows(sheet, &tab)?;
    Ok(Area { tab, rows: (from.1, to.1), columns: (from.0, to.0) })
}

/// The cells of an area as far as there are any.
fn cut(rows: &Rows, area: &Area) -> Rows {
    let width = area.columns.1 - area.columns.0 + 1;
    let found = rows.iter().skip(area.rows.0).take(area.rows.1 - area.rows.0 + 1);
    found.map(|row| row.iter().skip(area.columns.0).take(width).cloned().collect()).collect()
}

fn save(world: &mut World, mut sheet: Value, tab: &str, rows: Rows) -> Result<(), Refusal> {
    if rows.len() > MAX_ROWS || rows.iter().any(|row| row.len() > MAX_COLUMNS) {
        return Err(format!("a sheet has at most {MAX_ROWS} rows of {MAX_COLUMNS} cells").into());
    }
    sheet["tabs"][tab] = json!(rows);
    world.put(SHEETS, sheet)
}

/// What a cell shows: itself, or what its formula comes to.
fn value(rows: &Rows, cell: &Value) -> Value {
    let Some(formula) = cell.as_str().and_then(|text| text.strip_prefix('=')) else { return cell.clone() };
    evaluate(rows, formula).map_or_else(|| "#NAME?".into(), |number| cents(number).into())
}

/// `SUM(A1:B2)` and its like, or two cells or numbers with `+ - * /` between them. What a
/// formula refers to is taken as it stands, so that formulas cannot go in circles.
fn evaluate(rows: &Rows, formula: &str) -> Option<f64> {
    let at = |(column, row): (usize, usize)| rows.get(row)?.get(column)?.as_f64();
    let operand = |text: &str| text.trim().parse().ok().or_else(|| at(cell(text.trim())?));
    if let Some((name, range)) = formula.strip_suffix(')').and_then(|formula| formula.split_once('(')) {
        let (from, to) = range.split_once(':').unwrap_or((range, range));
        let (from, to) = (cell(from)?, cell(to)?);
        let area = Area { tab: String::new(), rows: (from.1, to.1.max(from.1)), columns: (from.0, to.0.max(from.0)) };
        let numbers: Vec<f64> = cut(rows, &area).iter().flatten().filter_map(Value::as_f64).collect();
        return fold(&name.to_lowercase(), &numbers);
    }
    let index = formula.find(['+', '-', '*', '/'])?;
    let (left, right) = (operand(&formula[..index])?, operand(&formula[index + 1..])?);
    Some(match &formula[index..=index] {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        _ => left / right,
    })
}

/// Many numbers as one.
fn fold(how: &str, numbers: &[f64]) -> Option<f64> {
    let sum: f64 = numbers.iter().sum();
    match how {
        "sum" => Some(sum),
        "count" => Some(numbers.len() as f64),
        "avg" | "average" => Some(sum / numbers.len().max(1) as f64),
        "min" => numbers.iter().copied().reduce(f64::min),
        "max" => numbers.iter().copied().reduce(f64::max),
        _ => None,
    }
}

fn create(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut names = call.arguments.texts("tabs");
    if names.is_empty() {
        names = vec!["Sheet1"];
    }
    let tabs: Value = names.into_iter().map(|name| (name.to_owned(), json!([]))).collect();
    let sheet = json!({"title": call.arguments.value("title"), "locale": call.arguments.value("locale"), "tabs": tabs});
    let sheet = world.make(SHEETS, sheet, false)?;
    Ok(json!({"message": format!("spreadsheet {} is there now", text_of(&sheet["id"])), "spreadsheet": sheet}))
}

fn read(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (sheet, range) = (sheet(world, call)?, call.arguments.text("range"));
    let area = area(&sheet, range)?;
    let rows = rows(&sheet, &area.tab)?;
    let mut values = cut(&rows, &area);
    for cell in values.iter_mut().flatten() {
        match call.arguments.text("render") {
            "formula" => {}
            "raw" => *cell = value(&rows, cell),
            _ => *cell = text_of(&value(&rows, cell)).into(),
        }
    }
    Ok(json!({"message": format!("{} row(s) of {range}", values.len()), "values": values}))
}

fn update(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (sheet, range) = (sheet(world, call)?, call.arguments.text("range"));
    let area = area(&sheet, range)?;
    let mut rows = rows(&sheet, &area.tab)?;
    let mut count = 0;
    for (down, values) in call.arguments.list("values").iter().enumerate() {
        for (right, new) in values.as_array().into_iter().flatten().enumerate() {
            let (row, column) = (area.rows.0 + down, area.columns.0 + right);
            if row >= MAX_ROWS || column >= MAX_COLUMNS {
                return Err("the values reach beyond the sheet".into());
            }
            rows.resize(rows.len().max(row + 1), Vec::new());
            let width = rows[row].len().max(column + 1);
            rows[row].resize(width, Value::Null);
            let is_text = !call.arguments.is("parseFormulas") && new.as_str().is_some_and(|text| text.starts_with('='));
            rows[row][column] = if is_text { format!("'{}", text_of(new)).into() } else { new.clone() };
            count += 1;
        }
    }
    save(world, sheet, &area.tab, rows)?;
    Ok(json!({"message": format!("{count} cell(s) from {range} on are written"), "range": range, "cells": count}))
}

fn append(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (sheet, tab) = (sheet(world, call)?, call.arguments.text("sheet"));
    let mut rows = rows(&sheet, tab)?;
    rows.push(call.arguments.list("values").to_vec());
    let row = rows.len();
    save(world, sheet, tab, rows)?;
    Ok(json!({"message": format!("row {row} of {tab} is new"), "row": row, "values": call.arguments.list("values")}))
}

fn sort(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (sheet, range) = (sheet(world, call)?, call.arguments.text("range"));
    let area = area(&sheet, range)?;
    let mut rows = rows(&sheet, &area.tab)?;
    let mut keys = Vec::new();
    for key in call.arguments.list("keys") {
        let name = text_of(&key["column"]);
        let (column, _) = cell(&format!("{name}1")).ok_or_else(|| format!("`{name}` is no column like B"))?;
        keys.push((column, key["order"] == "desc"));
    }
    let end = rows.len().min(area.rows.1 + 1);
    let all = rows.clone();
    let shown = |row: &[Value], column: usize| row.get(column).map_or(Value::Null, |cell| value(&all, cell));
    rows[area.rows.0.min(end)..end].sort_by(|a, b| {
        let orders = keys.iter().map(|(column, is_down)| {
            let order = compare(&shown(a, *column), &shown(b, *column));
            if *is_down { order.reverse() } else { order }
        });
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    let sorted = cut(&rows, &area);
    save(world, sheet, &area.tab, rows)?;
    Ok(json!({"message": format!("{range} is sorted"), "values": sorted}))
}

fn search(world: &mut World, call: &mut Call<'_>) -> Outcome {
    if call.arguments.is("regex") {
        return Err("the demo looks for plain text only; leave `regex` out".into());
    }
    let (mut sheet, find) = (sheet(world, call)?, call.arguments.text("find"));
    let fold = |text: &str| if call.arguments.is("matchCase") { text.to_owned() } else { text.to_lowercase() };
    let (find, with) = (fold(find), call.arguments.has("replaceWith").then(|| call.arguments.text("replaceWith")));
    let mut found = Vec::new();
    for (tab, rows) in sheet["tabs"].as_object_mut().into_iter().flatten() {
        for (row, cells) in rows.as_array_mut().into_iter().flatten().enumerate() {
            for (column, cell) in cells.as_array_mut().into_iter().flatten().enumerate() {
                let text = text_of(cell);
                if find.is_empty() || !fold(&text).contains(&find) {
                    continue;
                }
                if let Some(with) = with {
                    *cell = drive::cell(&fold(&text).replace(&find, with));
                }
                found.push(json!({"sheet": tab, "row": row + 1, "column": column + 1, "was": text, "is": cell}));
            }
        }
    }
    if with.is_some() && !found.is_empty() {
        world.put(SHEETS, sheet)?;
    }
    let what = if with.is_some() { "replaced" } else { "found" };
    Ok(json!({"message": format!("{what} in {} cell(s)", found.len()), "cells": found}))
}

fn pivot(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let sheet = sheet(world, call)?;
    let area = area(&sheet, call.arguments.text("source"))?;
    let all = rows(&sheet, &area.tab)?;
    let mut data = cut(&all, &area).into_iter();
    let header: Vec<String> = data.next().unwrap_or_default().iter().map(text_of).collect();
    let column = |name: &str| {
        let found = header.iter().position(|field| field == name);
        found.ok_or_else(|| Refusal(format!("the table has no column `{name}`; {}", known_as(&header))))
    };
    let by: Vec<&str> = [call.arguments.texts("rows"), call.arguments.texts("columns")].concat();
    let by: Vec<usize> = by.into_iter().map(column).collect::<Result<_, _>>()?;
    let mut groups: BTreeMap<Vec<String>, Rows> = BTreeMap::new();
    for row in data {
        let shown: Vec<Value> = row.iter().map(|cell| value(&all, cell)).collect();
        let key = by.iter().map(|at| shown.get(*at).map_or_else(String::new, text_of)).collect();
        groups.entry(key).or_default().push(shown);
    }
    let mut table = Vec::new();
    for (key, rows) in groups {
        let mut entry: Value = by.iter().map(|at| header[*at].clone()).zip(key).collect();
        for wanted in call.arguments.list("values") {
            let (field, how) = (text_of(&wanted["field"]), wanted["fn"].as_str().unwrap_or("sum"));
            let at = column(&field)?;
            let numbers: Vec<f64> = rows.iter().filter_map(|row| row.get(at)?.as_f64()).collect();
            let count = rows.iter().filter(|row| row.get(at).is_some_and(|cell| !cell.is_null())).count();
            let result = if how == "count" { Some(count as f64) } else { fold(how, &numbers) };
            entry[format!("{how} of {field}")] = result.map(cents).into();
        }
        table.push(entry);
    }
    Ok(json!({"message": format!("{} group(s)", table.len()), "pivot": table}))
}

fn import(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (mut sheet, file) = (sheet(world, call)?, world.find(drive::FILES, call.arguments.text("path"))?);
    let tab = if call.arguments.has("sheet") { call.arguments.text("sheet").to_owned() } else { first_tab(&sheet) };
    let rows = drive::csv(&text_of(&file["content"]), call.arguments.text("delimiter"));
    let rows: Rows = rows.iter().map(|row| row.iter().map(|text| drive::cell(text)).collect()).collect();
    sheet["tabs"][&tab] = json!([]);
    let count = rows.len();
    save(world, sheet, &tab, rows)?;
    Ok(
        json!({"message": format!("{count} row(s) of {} are in {tab}", text_of(&file["path"])), "sheet": tab, "rows": count}),
    )
}

fn export(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let sheet = sheet(world, call)?;
    let tab = if call.arguments.has("sheet") { call.arguments.text("sheet").to_owned() } else { first_tab(&sheet) };
    let rows = rows(&sheet, &tab)?;
    let quoted = |text: String| {
        if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    let shown = |cell: &Value| if cell.is_null() { String::new() } else { quoted(text_of(&value(&rows, cell))) };
    let line = |row: &Vec<Value>| row.iter().map(shown).collect::<Vec<_>>().join(",");
    let content: Vec<String> = rows.iter().map(line).collect();
    let format = call.arguments.text("format");
    Ok(
        json!({"message": format!("{tab} of {} for a file of type {format}, as text", text_of(&sheet["title"])), "format": format, "content": content.join("\n")}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_their_names() {
        for (text, expected) in [("A1", Some((0, 0))), ("$b$12", Some((1, 11))), ("AA3", Some((26, 2)))] {
            assert_eq!(cell(text), expected, "{text}");
        }
        for text in ["", "A", "1", "A0", "é1", "ZZZZZZZZZZ1", "A99999999999999999999"] {
            assert_eq!(cell(text), None, "{text}");
        }
    }
}
