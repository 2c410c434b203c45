//! The subset of SQL that a single table needs.

use serde_json::{Map, Value, json};

use crate::{
    filter::compare,
    world::{ToolError, shorten, text_of},
};

/// The action of a statement.
pub(super) enum SqlAction {
    /// Shows columns, or functions over them.
    Select(Vec<(Option<String>, String)>),
    /// Adds rows.
    Insert(Vec<Map<String, Value>>),
    /// Changes columns.
    Update(Map<String, Value>),
    /// Removes rows.
    Delete,
}

/// One statement about one table.
pub(super) struct Statement {
    pub(super) action: SqlAction,
    pub(super) table: String,
    /// Column, operator and value; all must hold.
    pub(super) conditions: Vec<(String, String, Value)>,
    pub(super) order: Option<(String, bool)>,
    pub(super) limit: usize,
}

impl Statement {
    /// Parses a statement; `params` are the values of `$1`, `$2` and so on.
    pub(super) fn parse(sql: &str, params: &[Value]) -> Result<Self, ToolError> {
        let words = words(sql);
        let mut reader = Reader { words: &words, params };
        let statement = reader.statement();
        reader.skip(";");
        match statement {
            Some(statement) if reader.words.is_empty() => Ok(statement),
            _ => {
                let place = reader.words.first().map_or("its end".to_owned(), |word| format!("`{}`", shorten(word)));
                Err(ToolError(format!(
                    "the demo cannot parse the SQL at {place}; it supports SELECT … FROM t WHERE c = 1 AND … ORDER \
                     BY c LIMIT n, \
                     INSERT INTO t (…) VALUES (…), UPDATE t SET c = 1 WHERE … and DELETE FROM t WHERE …"
                )))
            }
        }
    }

    /// Returns the positions of the matching rows, in the order of the statement.
    pub(super) fn matching(&self, rows: &[Value]) -> Vec<usize> {
        let holds = |row: &Value| self.conditions.iter().all(|(column, sign, value)| holds(&row[column], sign, value));
        let mut found: Vec<usize> = (0..rows.len()).filter(|at| holds(&rows[*at])).collect();
        if let Some((column, is_down)) = &self.order {
            found.sort_by(|a, b| {
                let order = compare(&rows[*a][column], &rows[*b][column]);
                if *is_down { order.reverse() } else { order }
            });
        }
        found
    }

    /// Returns every column that the statement names.
    pub(super) fn columns(&self) -> Vec<&String> {
        let mut columns: Vec<&String> = self.conditions.iter().map(|(column, ..)| column).collect();
        columns.extend(self.order.iter().map(|(column, _)| column));
        match &self.action {
            SqlAction::Select(items) => columns.extend(items.iter().map(|(_, column)| column)),
            SqlAction::Insert(rows) => columns.extend(rows.iter().flat_map(Map::keys)),
            SqlAction::Update(changes) => columns.extend(changes.keys()),
            SqlAction::Delete => {}
        }
        columns.retain(|column| *column != "*");
        columns
    }
}

/// Returns the result of a selection of `rows`: the rows themselves, or one row of aggregates.
pub(super) fn project(items: &[(Option<String>, String)], rows: &[&Value]) -> Vec<Value> {
    let field = |row: &Value, column: &String| {
        if column == "*" { row.as_object().cloned() } else { json!({column: row[column]}).as_object().cloned() }
    };
    if items.iter().all(|(function, _)| function.is_none()) {
        let show = |row: &&Value| items.iter().filter_map(|(_, column)| field(row, column)).flatten().collect();
        return rows.iter().map(show).collect();
    }
    let mut sums = json!({});
    for (function, column) in items {
        let values: Vec<&Value> = rows.iter().map(|row| &row[column]).filter(|value| !value.is_null()).collect();
        let sum: f64 = values.iter().filter_map(|value| value.as_f64()).sum();
        let function = function.as_deref().unwrap_or(column);
        sums[function] = match function {
            "count" if column == "*" => rows.len().into(),
            "count" => values.len().into(),
            "sum" => sum.into(),
            "avg" => (sum / values.len().max(1) as f64).into(),
            "min" => values.iter().min_by(|a, b| compare(a, b)).map_or(Value::Null, |value| (*value).clone()),
            _ => values.iter().max_by(|a, b| compare(a, b)).map_or(Value::Null, |value| (*value).clone()),
        };
    }
    vec![sums]
}

fn holds(has: &Value, sign: &str, wanted: &Value) -> bool {
    let order = compare(has, wanted);
    match sign {
        "is" => has.is_null(),
        _ if has.is_null() => false,
        "=" => order.is_eq(),
        "<" => order.is_lt(),
        ">" => order.is_gt(),
        "<=" => order.is_le(),
        ">=" => order.is_ge(),
        // The parts between the percent signs, wherever they are.
        "like" | "ilike" => {
            let text = text_of(has).to_lowercase();
            text_of(wanted).to_lowercase().split('%').all(|part| text.contains(part))
        }
        _ => order.is_ne(),
    }
}

/// Returns names, numbers, quoted texts (with their first quote) and symbols.
fn words(sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut chars = sql.chars().peekable();
    while let Some(c) = chars.next() {
        let mut word = c.to_string();
        if c == '\'' {
            while let Some(c) = chars.next() {
                // Two quotes are one in the text.
                if c == '\'' && chars.next_if_eq(&'\'').is_none() {
                    break;
                }
                word.push(c);
            }
        } else if c.is_alphanumeric() || matches!(c, '_' | '$' | '-') {
            word.extend(std::iter::from_fn(|| chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))));
        } else if matches!(c, '<' | '>' | '!') {
            word.extend(chars.next_if(|c| matches!(c, '=' | '>')));
        }
        if !c.is_whitespace() {
            words.push(word);
        }
    }
    words
}

/// The words that are still to be parsed. `None` from any method means a syntax error.
struct Reader<'a> {
    words: &'a [String],
    params: &'a [Value],
}

impl Reader<'_> {
    /// Skips `word` if it is next.
    fn skip(&mut self, word: &str) -> bool {
        let is_next = self.words.first().is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.words = &self.words[usize::from(is_next)..];
        is_next
    }

    fn expect(&mut self, word: &str) -> Option<()> {
        self.skip(word).then_some(())
    }

    fn name(&mut self) -> Option<String> {
        let (word, rest) = self.words.split_first()?;
        let is_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        self.words = if is_name { rest } else { self.words };
        is_name.then(|| word.trim_start_matches("public.").to_lowercase())
    }

    fn value(&mut self) -> Option<Value> {
        let (word, rest) = self.words.split_first()?;
        let number = word.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let value = match (word.strip_prefix('\''), number) {
            (Some(text), _) => text.into(),
            (None, Some(number)) => self.params.get(number.checked_sub(1)?)?.clone(),
            _ => serde_json::from_str(&word.to_lowercase()).ok()?,
        };
        self.words = rest;
        Some(value)
    }

    /// Parses a list of `one`, separated by `between`.
    fn list<T>(&mut self, between: &str, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut list = vec![one(self)?];
        while self.skip(between) {
            list.push(one(self)?);
        }
        Some(list)
    }

    fn in_brackets<T>(&mut self, one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.expect("(")?;
        let list = self.list(",", one)?;
        self.expect(")").map(|()| list)
    }

    fn statement(&mut self) -> Option<Statement> {
        let mut table = None;
        let action = if self.skip("select") {
            let items = self.list(",", Self::item)?;
            self.expect("from")?;
            SqlAction::Select(items)
        } else if self.skip("insert") {
            self.expect("into")?;
            table = Some(self.name()?);
            let columns = self.in_brackets(Self::name)?;
            self.expect("values")?;
            let row = |values: Vec<Value>| columns.iter().cloned().zip(values).collect();
            SqlAction::Insert(self.list(",", |reader| reader.in_brackets(Self::value).map(row))?)
        } else if self.skip("update") {
            table = Some(self.name()?);
            self.expect("set")?;
            let set = |reader: &mut Self| Some((reader.name()?, reader.expect("=").and_then(|()| reader.value())?));
            SqlAction::Update(self.list(",", set)?.into_iter().collect())
        } else {
            self.expect("delete")?;
            self.expect("from")?;
            SqlAction::Delete
        };
        let table = table.map_or_else(|| self.name(), Some)?;
        let conditions = if self.skip("where") { self.list("and", Self::condition)? } else { Vec::new() };
        let order = if self.skip("order") { Some(self.order()?) } else { None };
        let limit = if self.skip("limit") { self.value()?.as_u64()? } else { u64::MAX };
        Some(Statement { action, table, conditions, order, limit: usize::try_from(limit).unwrap_or(usize::MAX) })
    }

    /// Parses `*`, a column, or a function over one.
    fn item(&mut self) -> Option<(Option<String>, String)> {
        if self.skip("*") {
            return Some((None, "*".to_owned()));
        }
        let name = self.name()?;
        if !self.skip("(") {
            return Some((None, name));
        }
        let column = if self.skip("*") { "*".to_owned() } else { self.name()? };
        self.expect(")")?;
        matches!(name.as_str(), "count" | "sum" | "avg" | "min" | "max").then_some((Some(name), column))
    }

    fn order(&mut self) -> Option<(String, bool)> {
        self.expect("by")?;
        let column = self.name()?;
        let is_down = self.skip("desc");
        self.skip("asc");
        Some((column, is_down))
    }

    fn condition(&mut self) -> Option<(String, String, Value)> {
        let column = self.name()?;
        let (sign, rest) = self.words.split_first()?;
        let signs = ["=", "<", ">", "<=", ">=", "<>", "!=", "like", "ilike", "is"];
        let sign = sign.to_lowercase();
        self.words = if signs.contains(&sign.as_str()) { rest } else { return None };
        let sign = if self.skip("not") { "is not".to_owned() } else { sign };
        Some((column, sign, self.value()?))
    }
}
