//! As much SQL as one table needs.

use serde_json::{Value, json};

use crate::demo::{
    filter::compare,
    world::{Refusal, shorten, text_of},
};

/// One statement about one table.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) table: String,
    pub(super) what: What,
    /// All of these must hold.
    pub(super) conditions: Vec<Condition>,
    pub(super) order: Option<(String, bool)>,
    pub(super) limit: Option<usize>,
}

#[derive(Debug)]
pub(super) enum What {
    /// Columns, or functions over columns.
    Select(Vec<(Option<String>, String)>),
    /// Columns and rows.
    Insert(Vec<String>, Vec<Vec<Value>>),
    /// Columns and their new values.
    Update(Vec<(String, Value)>),
    Delete,
}

#[derive(Debug)]
pub(super) struct Condition {
    pub(super) column: String,
    operator: String,
    value: Value,
}

impl Condition {
    fn holds(&self, row: &Value) -> bool {
        let has = &row[&self.column];
        let order = compare(has, &self.value);
        match self.operator.as_str() {
            "is" => has.is_null() == self.value.is_null(),
            "is not" => has.is_null() != self.value.is_null(),
            _ if has.is_null() || self.value.is_null() => false,
            "=" => order.is_eq(),
            "<" => order.is_lt(),
            ">" => order.is_gt(),
            "<=" => order.is_le(),
            ">=" => order.is_ge(),
            "like" => is_like(&text_of(has), &text_of(&self.value)),
            "ilike" => is_like(&text_of(has).to_lowercase(), &text_of(&self.value).to_lowercase()),
            _ => order.is_ne(),
        }
    }
}

/// Whether `text` fits a pattern in which `%` stands for anything.
fn is_like(text: &str, pattern: &str) -> bool {
    let parts: Vec<&str> = pattern.split('%').collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    if parts.len() == 1 {
        return rest.is_empty();
    }
    for part in &parts[1..parts.len() - 1] {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl Statement {
    /// Reads a statement; `params` are the values of `$1`, `$2` and so on.
    pub(super) fn parse(sql: &str, params: &[Value]) -> Result<Self, Refusal> {
        let mut reader = Reader { words: words(sql), at: 0, params };
        let statement = reader.statement()?;
        reader.skip(";");
        match reader.words.get(reader.at) {
            None => Ok(statement),
            Some(word) => Err(reader.stuck_at(&format!("`{}`", shorten(word)))),
        }
    }

    /// The places of the rows that it is about.
    pub(super) fn matching(&self, rows: &[Value]) -> Vec<usize> {
        let holds = |at: &usize| self.conditions.iter().all(|condition| condition.holds(&rows[*at]));
        let mut found: Vec<usize> = (0..rows.len()).filter(holds).collect();
        if let Some((column, is_down)) = &self.order {
            found.sort_by(|a, b| {
                let order = compare(&rows[*a][column], &rows[*b][column]);
                if *is_down { order.reverse() } else { order }
            });
        }
        found
    }

    /// Every column that it names.
    pub(super) fn columns(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = self.conditions.iter().map(|condition| condition.column.as_str()).collect();
        columns.extend(self.order.iter().map(|(column, _)| column.as_str()));
        match &self.what {
            What::Select(items) => columns.extend(items.iter().map(|(_, column)| column.as_str())),
            What::Insert(names, _) => columns.extend(names.iter().map(String::as_str)),
            What::Update(changes) => columns.extend(changes.iter().map(|(column, _)| column.as_str())),
            What::Delete => {}
        }
        columns.retain(|column| *column != "*");
        columns
    }
}

/// What a selection of `rows` gives: the rows themselves, or one row of aggregates.
pub(super) fn project(items: &[(Option<String>, String)], rows: Vec<&Value>) -> Vec<Value> {
    let is_aggregate = items.iter().any(|(function, _)| function.is_some());
    let column = |row: &Value, (_, name): &(Option<String>, String)| {
        if name == "*" { row.clone() } else { json!({name: row[name]}) }
    };
    let merge = |parts: Vec<Value>| {
        let fields = parts.into_iter().filter_map(|part| part.as_object().cloned()).flatten();
        fields.collect::<Value>()
    };
    if !is_aggregate {
        return rows.iter().map(|row| merge(items.iter().map(|item| column(row, item)).collect())).collect();
    }
    let aggregate = |(function, name): &(Option<String>, String)| {
        let values: Vec<&Value> =
            rows.iter().filter(|row| name == "*" || !row[name].is_null()).map(|row| &row[name]).collect();
        let sum: f64 = values.iter().filter_map(|value| value.as_f64()).sum();
        let result = match function.as_deref() {
            Some("count") => json!(values.len()),
            Some("sum") => json!(sum),
            Some("avg") => json!(sum / values.len().max(1) as f64),
            Some("min") => values.iter().min_by(|a, b| compare(a, b)).map_or(Value::Null, |value| (*value).clone()),
            Some(_) => values.iter().max_by(|a, b| compare(a, b)).map_or(Value::Null, |value| (*value).clone()),
            None => rows.first().map_or(Value::Null, |row| row[name].clone()),
        };
        json!({function.as_ref().unwrap_or(name): result})
    };
    vec![merge(items.iter().map(aggregate).collect())]
}

/// Names, numbers, quoted texts (with their first quote) and signs.
fn words(sql: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
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
        } else if c.is_alphanumeric() || matches!(c, '_' | '$' | '"' | '-') {
            while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '"')) {
                word.push(c);
            }
            word = word.replace('"', "");
        } else if matches!(c, '<' | '>' | '!') {
            word.extend(chars.next_if(|c| matches!(c, '=' | '>')));
        }
        if !c.is_whitespace() {
            words.push(word);
        }
    }
    words
}

struct Reader<'a> {
    words: Vec<String>,
    at: usize,
    params: &'a [Value],
}

impl Reader<'_> {
    fn stuck_at(&self, place: &str) -> Refusal {
        Refusal(format!(
            "the demo's SQL stops at {place}; it reads SELECT … FROM one table WHERE … AND … ORDER BY … LIMIT …, \
             INSERT INTO … (…) VALUES (…), UPDATE … SET … WHERE … and DELETE FROM … WHERE …"
        ))
    }

    fn next(&mut self) -> Result<String, Refusal> {
        let word = self.words.get(self.at).cloned().ok_or_else(|| self.stuck_at("the end"))?;
        self.at += 1;
        Ok(word)
    }

    /// Goes past `word` if it is next.
    fn skip(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.at).is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, word: &str) -> Result<(), Refusal> {
        if self.skip(word) {
            return Ok(());
        }
        let found = self.words.get(self.at).map_or("the end".to_owned(), |word| format!("`{}`", shorten(word)));
        Err(self.stuck_at(&format!("{found}, where `{word}` should be")))
    }

    fn name(&mut self) -> Result<String, Refusal> {
        let name = self.next()?;
        let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if is_name { Ok(name.to_lowercase()) } else { Err(self.stuck_at(&format!("`{}`", shorten(&name)))) }
    }

    fn literal(&mut self) -> Result<Value, Refusal> {
        let word = self.next()?;
        if let Some(text) = word.strip_prefix('\'') {
            return Ok(text.into());
        }
        if let Some(number) = word.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()) {
            let param = number.checked_sub(1).and_then(|at| self.params.get(at)).cloned();
            return param.ok_or_else(|| format!("there is no value for `{word}` in `params`").into());
        }
        match serde_json::from_str(&word.to_lowercase()) {
            Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => Ok(value),
            _ => Err(self.stuck_at(&format!("`{}`, which is no value", shorten(&word)))),
        }
    }

    /// `one` after the other, with commas between.
    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T, Refusal>) -> Result<Vec<T>, Refusal> {
        let mut list = vec![one(self)?];
        while self.skip(",") {
            list.push(one(self)?);
        }
        Ok(list)
    }

    fn in_brackets<T>(&mut self, one: impl FnMut(&mut Self) -> Result<T, Refusal>) -> Result<Vec<T>, Refusal> {
        self.expect("(")?;
        let list = self.list(one)?;
        self.expect(")")?;
        Ok(list)
    }

    fn statement(&mut self) -> Result<Statement, Refusal> {
        let verb = self.next()?.to_lowercase();
        let (table, what) = match verb.as_str() {
            "select" => {
                let items = self.list(Self::item)?;
                self.expect("from")?;
                (self.table()?, What::Select(items))
            }
            "insert" => {
                self.expect("into")?;
                let table = self.table()?;
                let columns = self.in_brackets(Self::name)?;
                self.expect("values")?;
                let rows = self.list(|reader| reader.in_brackets(Self::literal))?;
                (table, What::Insert(columns, rows))
            }
            "update" => {
                let table = self.table()?;
                self.expect("set")?;
                (table, What::Update(self.list(Self::assignment)?))
            }
            "delete" => {
                self.expect("from")?;
                (self.table()?, What::Delete)
            }
            verb => return Err(self.stuck_at(&format!("`{}`", shorten(verb)))),
        };
        let mut statement = Statement { table, what, conditions: Vec::new(), order: None, limit: None };
        self.rest(&mut statement)?;
        Ok(statement)
    }

    fn rest(&mut self, statement: &mut Statement) -> Result<(), Refusal> {
        if self.skip("where") {
            statement.conditions.push(self.condition()?);
            while self.skip("and") {
                statement.conditions.push(self.condition()?);
            }
        }
        if self.skip("order") {
            self.expect("by")?;
            let column = self.name()?;
            let is_down = self.skip("desc");
            self.skip("asc");
            statement.order = Some((column, is_down));
        }
        if self.skip("limit") {
            let limit = self.literal()?;
            statement.limit = Some(limit.as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    fn table(&mut self) -> Result<String, Refusal> {
        let name = self.name()?;
        Ok(name.strip_prefix("public.").map_or_else(|| name.clone(), str::to_owned))
    }

    /// `*`, a column, or a function over one.
    fn item(&mut self) -> Result<(Option<String>, String), Refusal> {
        if self.skip("*") {
            return Ok((None, "*".to_owned()));
        }
        let name = self.name()?;
        if !matches!(name.as_str(), "count" | "sum" | "avg" | "min" | "max") || !self.skip("(") {
            return Ok((None, name));
        }
        let column = if self.skip("*") { "*".to_owned() } else { self.name()? };
        self.expect(")")?;
        Ok((Some(name), column))
    }

    fn assignment(&mut self) -> Result<(String, Value), Refusal> {
        let column = self.name()?;
        self.expect("=")?;
        Ok((column, self.literal()?))
    }

    fn condition(&mut self) -> Result<Condition, Refusal> {
        let column = self.name()?;
        let mut operator = self.next()?.to_lowercase();
        if operator == "is" && self.skip("not") {
            operator.push_str(" not");
        }
        if !matches!(
            operator.as_str(),
            "=" | "<" | ">" | "<=" | ">=" | "<>" | "!=" | "like" | "ilike" | "is" | "is not"
        ) {
            return Err(self.stuck_at(&format!("`{}`", shorten(&operator))));
        }
        Ok(Condition { column, operator, value: self.literal()? })
    }
}
