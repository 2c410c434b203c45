//! Edits of TOML.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Document, DocumentMut, Item, Table, TableLike, TomlError};

use super::EditError;

/// Returns `text` with `value` under `keys` and `name`. Existing keys keep their comments.
pub(crate) fn set(text: &str, keys: &[&str], name: &str, value: &Value) -> Result<String, EditError> {
    let before = to_json(text)?;
    let path: Vec<&str> = keys.iter().copied().chain([name]).collect();
    if !value.is_object() {
        return set_plain(text, &path, value);
    }
    let mut expected = before.clone();
    insert_at(&mut expected, &path, value.clone()).map_err(EditError::NoObject)?;
    let there = path.iter().try_fold(&before, |value, key| value.get(key));
    if there == Some(value) {
        return Ok(text.to_owned());
    }
    let appended = || format!("{text}{}", section(text, &path, value));
    let edited = if there.is_some() { update_values(text, &path, value) } else { appended() };
    let is_right = |edited: &String| to_json(edited).is_ok_and(|after| after == expected);
    // Servers in an inline table cannot be in a section of their own.
    let edited = Some(edited).filter(is_right).or_else(|| Some(update_values(text, &path, value)).filter(is_right));
    edited.ok_or_else(|| EditError::Unsafe(path.join(".")))
}

/// Returns `text` with a value that is no table under `path`.
fn set_plain(text: &str, path: &[&str], value: &Value) -> Result<String, EditError> {
    let mut expected = to_json(text)?;
    insert_at(&mut expected, path, value.clone()).map_err(EditError::NoObject)?;
    let unsafe_edit = || EditError::Unsafe(path.join("."));
    let mut document: DocumentMut = text.parse().map_err(|error| syntax(text, &error))?;
    let (name, keys) = path.split_last().ok_or_else(unsafe_edit)?;
    let mut place: &mut dyn TableLike = document.as_table_mut();
    for key in keys {
        let item = place.entry(key).or_insert_with(|| Item::Table(Table::new()));
        place = item.as_table_like_mut().ok_or_else(|| EditError::NoObject((*key).to_owned()))?;
    }
    match place.get_mut(name).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value_from_json(value);
            *old.decor_mut() = decor;
        }
        None => drop(place.insert(name, value_from_json(value).into())),
    }
    let edited = document.to_string();
    let is_right = to_json(&edited).is_ok_and(|after| after == expected);
    if is_right { Ok(edited) } else { Err(unsafe_edit()) }
}

/// Returns `text` without the value under `keys` and `name`. Comments around it stay.
pub(crate) fn remove(text: &str, keys: &[&str], name: &str) -> Result<String, EditError> {
    let mut expected = to_json(text)?;
    let path: Vec<&str> = keys.iter().copied().chain([name]).collect();
    let parent = keys.iter().try_fold(&mut expected, |value, key| value.get_mut(key)).and_then(Value::as_object_mut);
    if parent.and_then(|parent| parent.shift_remove(name)).is_none() {
        return Ok(text.to_owned());
    }
    // The removed section may have been the only one in the sections around it.
    let is_right =
        |edited: &String| to_json(edited).is_ok_and(|after| prune_empty(after) == prune_empty(expected.clone()));
    let edited = remove_section(text, &path).filter(is_right).or_else(|| remove_key(text, &path).filter(is_right));
    edited.ok_or_else(|| EditError::Unsafe(path.join(".")))
}

/// Parses a text; dates become strings.
pub(crate) fn to_json(text: &str) -> Result<Value, EditError> {
    let document = Document::parse(text).map_err(|error| syntax(text, &error))?;
    Ok(table(document.as_table()))
}

fn syntax(text: &str, error: &TomlError) -> EditError {
    let position = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..position].iter().filter(|byte| **byte == b'\n').count() + 1;
    // The whole message would quote the line.
    let reason = error.message().lines().collect::<Vec<_>>().join(", ");
    EditError::Syntax { line, syntax: "TOML", reason }
}

fn table(table: &dyn TableLike) -> Value {
    table.iter().map(|(key, item)| (key.to_owned(), item_to_json(item))).collect::<serde_json::Map<_, _>>().into()
}

fn item_to_json(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Table(inner) => table(inner),
        Item::ArrayOfTables(tables) => tables.iter().map(|inner| table(inner)).collect(),
        Item::Value(value) => value_to_json(value),
    }
}

fn value_to_json(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Integer(number) => Value::from(*number.value()),
        toml_edit::Value::Float(number) => Value::from(*number.value()),
        toml_edit::Value::Boolean(flag) => Value::from(*flag.value()),
        toml_edit::Value::Datetime(date) => Value::from(date.value().to_string()),
        toml_edit::Value::Array(items) => items.iter().map(value_to_json).collect(),
        toml_edit::Value::InlineTable(inner) => table(inner),
    }
}

fn value_from_json(value: &Value) -> toml_edit::Value {
    match value {
        Value::Null => toml_edit::Value::from(""),
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(value_from_json).collect::<toml_edit::Array>().into(),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| (key.as_str(), value_from_json(value)));
            pairs.collect::<toml_edit::InlineTable>().into()
        }
    }
}

/// Inserts `value` into `root` under `path`; the error names the key that is in the way.
fn insert_at(root: &mut Value, path: &[&str], value: Value) -> Result<(), String> {
    let mut place = root;
    for (depth, key) in path.iter().enumerate() {
        let map = place.as_object_mut().ok_or_else(|| path[..depth].join("."))?;
        let empty = || Value::Object(serde_json::Map::new());
        place = map.entry(*key).or_insert_with(empty);
    }
    *place = value;
    Ok(())
}

/// Renders a section for the end of the file.
pub(crate) fn section(text: &str, path: &[&str], value: &Value) -> String {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let header: Vec<String> = path.iter().map(|key| toml_edit::Key::new(*key).to_string()).collect();
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => newline,
        _ => &newline.repeat(2),
    };
    let mut section = format!("{gap}[{}]{newline}", header.join("."));
    for (key, value) in value.as_object().into_iter().flatten() {
        let line = format!("{} = {}{newline}", toml_edit::Key::new(key), value_from_json(value));
        section.push_str(&line);
    }
    section
}

/// Returns the text with its values changed where they differ.
fn update_values(text: &str, path: &[&str], value: &Value) -> String {
    let Ok(mut document) = text.parse::<DocumentMut>() else { return text.to_owned() };
    let mut place: &mut dyn TableLike = document.as_table_mut();
    for key in path {
        let item = place.entry(key).or_insert_with(|| value_from_json(&Value::Object(Default::default())).into());
        let Some(inner) = item.as_table_like_mut() else { return text.to_owned() };
        place = inner;
    }
    let old: Vec<String> = place.iter().map(|(key, _)| key.to_owned()).collect();
    for key in old.iter().filter(|key| value.get(key.as_str()).is_none()) {
        place.remove(key);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        match place.get_mut(key) {
            Some(item) if item_to_json(item) == *value => {}
            Some(item) => {
                let decor = item.as_value().map(|old| old.decor().clone());
                let mut new = value_from_json(value);
                decor.into_iter().for_each(|decor| *new.decor_mut() = decor);
                *item = new.into();
            }
            None => _ = place.insert(key, value_from_json(value).into()),
        }
    }
    with_line_ends_of(text, &document)
}

/// Renders the document with the line ends of `text`, which the parser forgets.
fn with_line_ends_of(text: &str, document: &DocumentMut) -> String {
    let is_windows = text.contains('\n') && text.matches("\r\n").count() == text.matches('\n').count();
    let plain = document.to_string();
    if is_windows { plain.replace("\r\n", "\n").replace('\n', "\r\n") } else { plain }
}

/// Returns the text without the lines of a section and of the sections below it.
fn remove_section(text: &str, path: &[&str]) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let (name, parents) = path.split_last()?;
    let parent = parents.iter().try_fold(document.as_table(), |table, key| table.get(key)?.as_table())?;
    let mut cuts = Vec::new();
    lines_of(text, parent.get(name)?.as_table()?, &mut cuts)?;
    cuts.sort_by_key(|cut| cut.start);
    let mut left = String::new();
    let mut from = 0;
    for cut in cuts {
        left.push_str(text.get(from..cut.start)?);
        from = cut.end;
    }
    left.push_str(text.get(from..)?);
    Some(left)
}

/// Collects the lines of a section: its head, and everything down to its last value.
fn lines_of(text: &str, table: &Table, cuts: &mut Vec<Range<usize>>) -> Option<()> {
    if !table.is_implicit() {
        let start = table.span()?.start;
        let values = table.iter().filter_map(|(_, item)| item.as_value()?.span());
        let last = values.map(|span| span.end).max().unwrap_or(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[last..].find('\n').map_or(text.len(), |at| last + at + 1);
        cuts.push(line_start..line_end);
    }
    for (_, item) in table.iter() {
        match item {
            Item::Table(inner) => lines_of(text, inner, cuts)?,
            Item::Value(_) => {}
            _ => return None,
        }
    }
    Some(())
}

/// Returns the text without a key, in any notation.
fn remove_key(text: &str, path: &[&str]) -> Option<String> {
    let mut document = text.parse::<DocumentMut>().ok()?;
    let (name, parents) = path.split_last()?;
    let mut place: &mut dyn TableLike = document.as_table_mut();
    for key in parents {
        place = place.get_mut(key)?.as_table_like_mut()?;
    }
    place.remove(name)?;
    Some(with_line_ends_of(text, &document))
}

/// Returns the value without empty objects.
fn prune_empty(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let pairs = map.into_iter().map(|(key, value)| (key, prune_empty(value)));
            let is_something = |value: &Value| value.as_object().is_none_or(|map| !map.is_empty());
            pairs.filter(|(_, value)| is_something(value)).collect::<serde_json::Map<_, _>>().into()
        }
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pegboard() -> Value {
        json!({"command": "/bin/pegboard", "args": ["serve", "--stdio", "x \"y\".json"]})
    }

    const LINES: &str =
        "[mcp_servers.pegboard]\ncommand = \"/bin/pegboard\"\nargs = [\"serve\", \"--stdio\", 'x \"y\".json']\n";

    #[track_caller]
    fn check_set(text: &str, expected: &str) {
        let edited = set(text, &["mcp_servers"], "pegboard", &pegboard()).expect("an edit");
        assert_eq!(edited, expected);
        assert_eq!(set(&edited, &["mcp_servers"], "pegboard", &pegboard()).as_ref(), Ok(&edited), "twice is once");
    }

    #[test]
    fn new_sections_go_to_the_end() {
        check_set("", LINES);
        check_set("# mine\nmodel = \"x\"", &format!("# mine\nmodel = \"x\"\n\n{LINES}"));
        let others =
            "a = 1 # one\n\n[mcp_servers.x] # two\ncommand = 'y'\n\n# three\n[mcp_servers.x.env]\nA = \"b\"\n[z]\n";
        check_set(others, &format!("{others}\n{LINES}"));
        check_set("a = 1\r\n", &format!("a = 1\r\n\r\n{}", LINES.replace('\n', "\r\n")));
    }

    #[test]
    fn inline_tables_get_one_more() {
        check_set(
            "mcp_servers = { x = { command = \"y\" } } # all\n",
            "mcp_servers = { x = { command = \"y\" } , pegboard = { command = \"/bin/pegboard\", args = [\"serve\", \
             \"--stdio\", 'x \"y\".json'] } } # all\n",
        );
    }

    #[test]
    fn what_is_there_is_changed_in_place() {
        check_set(
            "# a\n[mcp_servers.pegboard] # b\n# c\ncommand = \"old\" # d\nurl = \"https://x\"\n# e\n[other]\nf = 1\n",
            "# a\n[mcp_servers.pegboard] # b\n# c\ncommand = \"/bin/pegboard\" # d\nargs = [\"serve\", \"--stdio\", \
             'x \"y\".json']\n# e\n[other]\nf = 1\n",
        );
    }

    #[test]
    fn sections_are_removed_with_those_below_them() {
        let check = |text: &str, expected: &str| {
            assert_eq!(remove(text, &["mcp_servers"], "x").expect("an edit"), expected);
        };
        check(
            "# head\n\n# about x\n[mcp_servers.x] # x\ncommand = 'y' # z\nargs = [\n  'a', # b\n]\n\n[mcp_servers.x.env]\nA = 'b'\n# tail\n[o]\n",
            "# head\n\n# about x\n\n# tail\n[o]\n",
        );
        check("[mcp_servers.x]\n[mcp_servers.y]\ncommand = 'z'\n", "[mcp_servers.y]\ncommand = 'z'\n");
        check("mcp_servers = {x = {command = 'y'}, z = {}}\n", "mcp_servers = { z = {}}\n");
        check("mcp_servers.x.command = 'y'\na = 1\n", "a = 1\n");
        check("a = 1\n", "a = 1\n");
        check("mcp_servers.x.command = 'y'\r\na = 1\r\n", "a = 1\r\n");
    }

    #[test]
    fn what_is_in_the_way_is_told() {
        let wrong = set("mcp_servers = 3\n", &["mcp_servers"], "pegboard", &pegboard());
        assert_eq!(wrong, Err(EditError::NoObject("mcp_servers".to_owned())));
        let broken = set("a = \"s3cret\n", &["mcp_servers"], "pegboard", &pegboard()).expect_err("no TOML");
        assert!(broken.to_string().starts_with("line 1: the file is not TOML") && !broken.to_string().contains("s3"));
    }
}
