//! Tables in memory.

use serde_json::{Value, json};

use super::{
    Tools, cents,
    drive::{self, FILES},
    sheets::csv,
    sql::{SqlAction, Statement, project},
};
use crate::{
    verbs::{self, Call},
    world::{MAX_OBJECTS, Outcome, ToolError, World, known_as, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("query", query),
    ("execute", execute),
    ("create_table", create_table),
    ("describe_table", describe),
    ("create_record", insert),
    ("bulk_load", load),
    ("explain_query", explain),
    ("backup_database", back_up),
    ("restore_backup", restore),
    ("manage_role", manage_role),
];

const TABLES: &str = "postgres/tables";
/// The simulated time of reading a row, in milliseconds.
const MS_PER_ROW: f64 = 0.05;

fn rows(table: &Value) -> Vec<Value> {
    table["rows"].as_array().cloned().unwrap_or_default()
}

/// Rejects columns that the table does not have.
fn check<'a>(table: &Value, mut columns: impl Iterator<Item = &'a String>) -> Result<(), ToolError> {
    let known = table["columns"].as_array().into_iter().flatten();
    let known: Vec<String> = known.map(|column| text_of(&column["name"]).to_lowercase()).collect();
    match columns.find(|column| !known.contains(&column.to_lowercase())) {
        Some(column) => Err(format!("there is no column `{column}`; {}", known_as(&known)).into()),
        None => Ok(()),
    }
}

fn store(world: &mut World, mut table: Value, rows: Vec<Value>) -> Result<(), ToolError> {
    if rows.len() > MAX_OBJECTS {
        return Err(format!("a table has at most {MAX_OBJECTS} rows").into());
    }
    table["rows"] = rows.into();
    world.put(TABLES, table)
}

/// Adds a row with all columns in order; identities are generated, and checked.
fn push(table: &Value, rows: &mut Vec<Value>, values: &Value) -> Result<(), ToolError> {
    check(table, values.as_object().into_iter().flatten().map(|(name, _)| name))?;
    let mut row = json!({});
    for column in table["columns"].as_array().into_iter().flatten() {
        let (name, is_key) = (text_of(&column["name"]), column["primary_key"] == true);
        row[&name] = match &values[&name] {
            Value::Null if is_key => {
                let last = rows.iter().filter_map(|row| row[&name].as_i64()).max();
                last.unwrap_or(0).saturating_add(1).into()
            }
            Value::Null if column["nullable"] == false => return Err(format!("`{name}` must not be null").into()),
            Value::Null => column["default"].clone(),
            value => value.clone(),
        };
        if is_key && rows.iter().any(|other| other[&name] == row[&name]) {
            return Err(format!("a row with `{name}` = {} already exists", row[&name]).into());
        }
    }
    rows.push(row);
    Ok(())
}

/// Parses the statement of a call, and finds its table.
fn parse(world: &World, call: &Call<'_>) -> Result<(Statement, Value), ToolError> {
    let statement = Statement::parse(call.arguments.text("sql"), call.arguments.list("params"))?;
    let table = world.find(TABLES, &statement.table)?;
    check(&table, statement.columns().into_iter())?;
    Ok((statement, table))
}

fn query(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (statement, table) = parse(world, call)?;
    let SqlAction::Select(items) = &statement.action else {
        return Err("only SELECT is read-only; use `execute`".into());
    };
    let all = rows(&table);
    let found: Vec<&Value> = statement.matching(&all).into_iter().map(|at| &all[at]).collect();
    let mut found = project(items, &found);
    let most = usize::try_from(call.arguments.int("row_limit").unwrap_or(1_000)).unwrap_or(0);
    found.truncate(statement.limit.min(most));
    // Databases keep count of what they are asked.
    let sql = call.arguments.text("sql");
    let calls = world.find("postgres/statements", sql).map_or(0, |known| known["calls"].as_i64().unwrap_or(0));
    let ms = cents(all.len() as f64 * MS_PER_ROW);
    world.note("postgres/statements", json!({"sql": sql, "calls": calls + 1, "ms": ms}))?;
    Ok(json!({"message": format!("{} row(s) in {ms} ms", found.len()), "rows": found}))
}

fn execute(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (statement, table) = parse(world, call)?;
    let mut all = rows(&table);
    let found = statement.matching(&all);
    let count = match &statement.action {
        SqlAction::Select(_) => return query(world, call),
        SqlAction::Insert(rows) => {
            for row in rows {
                push(&table, &mut all, &Value::Object(row.clone()))?;
            }
            rows.len()
        }
        SqlAction::Update(changes) => {
            found.iter().for_each(|at| changes.iter().for_each(|(column, value)| all[*at][column] = value.clone()));
            found.len()
        }
        SqlAction::Delete => {
            let mut at = 0..;
            all.retain(|_| at.next().is_none_or(|at| !found.contains(&at)));
            found.len()
        }
    };
    store(world, table, all)?;
    Ok(json!({"message": format!("{count} row(s) of {} changed", statement.table), "rows_affected": count}))
}

fn create_table(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let name = call.arguments.text("table").to_lowercase();
    let name = name.trim_start_matches("public.").to_owned();
    if call.arguments.take("if_not_exists") == true && world.find(TABLES, &name).is_ok() {
        return Ok(json!({"message": format!("{name} already exists and was not changed")}));
    }
    // Names in SQL are read in lower case.
    let mut columns = call.arguments.list("columns").to_vec();
    columns.iter_mut().for_each(|column| column["name"] = text_of(&column["name"]).to_lowercase().into());
    call.arguments.set("columns", columns);
    call.arguments.set("table", name);
    verbs::create(world, call)
}

fn describe(_: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut table = call.found["table"].clone();
    table["rows"] = rows(&table).len().into();
    Ok(json!({"message": format!("{} has {} row(s)", text_of(&table["name"]), table["rows"]), "table": table}))
}

fn insert(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let table = call.found["table"].clone();
    let mut all = rows(&table);
    push(&table, &mut all, call.arguments.value("values"))?;
    let row = all.last().cloned();
    store(world, table, all)?;
    Ok(json!({"message": format!("1 row added to {}", call.arguments.text("table")), "row": row}))
}

fn load(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let table = call.found["table"].clone();
    let content = text_of(&call.found["csv_path"]["content"]);
    let mut lines = csv(&content, call.arguments.text("delimiter")).into_iter();
    let columns = table["columns"].as_array().into_iter().flatten().map(|column| text_of(&column["name"]));
    let header: Option<Vec<Value>> = if call.arguments.is("header") { lines.next() } else { None };
    let names: Vec<String> = header.map_or_else(|| columns.collect(), |cells| cells.iter().map(text_of).collect());
    let mut all = rows(&table);
    let before = all.len();
    for line in lines {
        push(&table, &mut all, &names.iter().cloned().zip(line).collect())?;
    }
    let count = all.len() - before;
    store(world, table, all)?;
    Ok(json!({"message": format!("{count} row(s) added to {}", call.arguments.text("table")), "rows": count}))
}

fn explain(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (statement, table) = parse(world, call)?;
    let (all, found) = (rows(&table).len(), statement.matching(&rows(&table)).len());
    let indexes = table["indexes"].as_array().map_or(&[][..], Vec::as_slice);
    let is_indexed = |column: &&String| indexes.iter().any(|index| index["columns"][0] == **column);
    let (step, read) = match statement.conditions.iter().map(|(column, ..)| column).find(is_indexed) {
        Some(column) => (format!("Index Scan on {} by {column}", statement.table), found),
        None => (format!("Seq Scan on {}", statement.table), all),
    };
    let sort = statement.order.as_ref().map(|(column, _)| format!("Sort by {column}"));
    let ms = call.arguments.is("analyze").then(|| cents(read as f64 * MS_PER_ROW));
    let message = format!("{step} reads {read} of {all} row(s) and keeps {found}");
    Ok(json!({"message": message, "plan": [step, sort], "execution_ms": ms}))
}

fn back_up(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let wanted = call.arguments.list("tables");
    let is_wanted = |table: &&Value| wanted.is_empty() || wanted.contains(&table["name"]);
    let tables: Vec<&Value> = world.all(TABLES).iter().filter(is_wanted).collect();
    let (count, content) = (tables.len(), json!(tables).to_string());
    let file = drive::save(world, call.arguments.text("target"), &content)?;
    let message = format!("{count} table(s) saved, format {}", call.arguments.text("format"));
    Ok(json!({"message": message, "path": file["path"]}))
}

fn restore(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let file = world.find(FILES, call.arguments.text("source"))?;
    let tables: Vec<Value> = serde_json::from_str(&text_of(&file["content"])).unwrap_or_default();
    let is_table = |table: &Value| {
        table["name"].is_string() && table["columns"].is_array() && rows(table).iter().all(Value::is_object)
    };
    if tables.is_empty() || !tables.iter().all(is_table) {
        return Err(format!("{} is not a backup of this database", text_of(&file["path"])).into());
    }
    for old in world.all(TABLES).to_vec().iter().filter(|_| call.arguments.is("clean")) {
        world.remove(TABLES, &text_of(&old["name"]))?;
    }
    let names: Vec<Value> = tables.iter().map(|table| table["name"].clone()).collect();
    for table in tables {
        world.put(TABLES, table)?;
    }
    Ok(json!({"message": format!("{} restored", call.arguments.text("database")), "tables": names}))
}

fn manage_role(world: &mut World, call: &mut Call<'_>) -> Outcome {
    const ROLES: &str = "postgres/roles";
    let (name, op) = (call.arguments.text("role"), call.arguments.text("op"));
    if op == "create" {
        world.make(ROLES, json!({"role": name}), false)?;
    }
    let mut role = world.find(ROLES, name)?;
    let grant = json!({"privileges": call.arguments.value("privileges"), "on": call.arguments.value("on")});
    match op {
        "drop" => role = world.remove(ROLES, &text_of(&role["role"]))?,
        "grant" => verbs::extend(&mut role, "grants", &grant),
        _ => {
            let grants = role["grants"].as_array_mut();
            grants.into_iter().for_each(|grants| grants.retain(|had| had["on"] != grant["on"]));
        }
    }
    if op != "drop" {
        world.put(ROLES, role.clone())?;
    }
    Ok(json!({"message": format!("{op} done for role {name}"), "role": role}))
}
