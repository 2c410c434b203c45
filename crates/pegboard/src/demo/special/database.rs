//! Tables in memory.

use serde_json::{Value, json};

use super::{
    Tools, cents,
    drive::{self, FILES},
    sql::{Statement, What, project},
};
use crate::demo::{
    verbs::{self, Call},
    world::{Outcome, Refusal, World, known_as, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("query", query),
    ("execute", execute),
    ("list_tables", list_tables),
    ("describe_table", describe),
    ("create_table", create_table),
    ("create_record", insert),
    ("bulk_load", load),
    ("explain_query", explain),
    ("create_index", index),
    ("backup_database", back_up),
    ("restore_backup", restore),
    ("manage_role", manage_role),
];

const TABLES: &str = "postgres/tables";
/// What the demo pretends that reading a row takes.
const MS_PER_ROW: f64 = 0.05;

fn columns(table: &Value) -> Vec<String> {
    table["columns"].as_array().into_iter().flatten().map(|column| text_of(&column["name"])).collect()
}

fn rows(table: &Value) -> Vec<Value> {
    table["rows"].as_array().cloned().unwrap_or_default()
}

/// The table of a statement that names only columns which this has.
fn table_of(world: &World, statement: &Statement) -> Outcome {
    let table = world.find(TABLES, &statement.table)?;
    let known = columns(&table);
    match statement.columns().into_iter().find(|column| !known.iter().any(|name| name == column)) {
        Some(column) => Err(format!("`{}` has no column `{column}`; {}", statement.table, known_as(&known)).into()),
        None => Ok(table),
    }
}

/// Runs a selection and keeps count of it, as databases do.
fn select(world: &mut World, call: &Call<'_>, statement: &Statement) -> Outcome {
    let What::Select(items) = &statement.what else { return Err("only SELECT is read-only; use execute".into()) };
    let table = table_of(world, statement)?;
    let all = rows(&table);
    let found = statement.matching(&all).into_iter().map(|at| &all[at]).collect();
    let mut found = project(items, found);
    let most = usize::try_from(call.arguments.int("row_limit").unwrap_or(1_000)).unwrap_or(0);
    found.truncate(statement.limit.unwrap_or(usize::MAX).min(most));
    let sql = call.arguments.text("sql");
    let known = world.find("postgres/statements", sql).unwrap_or_default();
    let (calls, mean) = (known["calls"].as_f64().unwrap_or(0.0), known["mean_ms"].as_f64().unwrap_or(0.0));
    let mean = cents((mean * calls + all.len() as f64 * MS_PER_ROW) / (calls + 1.0));
    world.note("postgres/statements", json!({"sql": sql, "calls": calls as i64 + 1, "mean_ms": mean, "ms": mean}))?;
    Ok(json!({"message": format!("{} row(s)", found.len()), "rows": found}))
}

fn query(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let statement = Statement::parse(call.arguments.text("sql"), call.arguments.list("params"))?;
    select(world, call, &statement)
}

fn execute(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let statement = Statement::parse(call.arguments.text("sql"), call.arguments.list("params"))?;
    if matches!(statement.what, What::Select(_)) {
        return select(world, call, &statement);
    }
    let mut table = table_of(world, &statement)?;
    let mut all = rows(&table);
    let found = statement.matching(&all);
    let count = match &statement.what {
        What::Insert(names, values) => {
            for values in values {
                if names.len() != values.len() {
                    return Err(format!("{} columns, but {} values", names.len(), values.len()).into());
                }
                all.push(row(&table, &all, names.iter().cloned().zip(values.iter().cloned()).collect())?);
            }
            values.len()
        }
        What::Update(changes) => {
            found.iter().for_each(|at| changes.iter().for_each(|(column, value)| all[*at][column] = value.clone()));
            found.len()
        }
        _ => {
            found.iter().rev().for_each(|at| {
                all.remove(*at);
            });
            found.len()
        }
    };
    store(world, &mut table, all)?;
    Ok(json!({"message": format!("{count} row(s) of {} are changed", statement.table), "rows_affected": count}))
}

fn store(world: &mut World, table: &mut Value, rows: Vec<Value>) -> Result<(), Refusal> {
    if rows.len() > crate::demo::world::MAX_OBJECTS {
        return Err("the table is full".into());
    }
    table["rows"] = rows.into();
    world.put(TABLES, table.clone())
}

/// A new row with all columns in order; identities are counted on, and checked.
fn row(table: &Value, others: &[Value], values: Value) -> Outcome {
    let mut row = json!({});
    for column in table["columns"].as_array().into_iter().flatten() {
        let name = text_of(&column["name"]);
        let mut value = values[&name].clone();
        if value.is_null() && column["primary_key"] == true {
            value = (others.iter().filter_map(|row| row[&name].as_i64()).max().unwrap_or(0) + 1).into();
        } else if value.is_null() {
            value = column["default"].clone();
        }
        if value.is_null() && (column["nullable"] == false) {
            return Err(format!("column `{name}` must not be null").into());
        }
        if column["primary_key"] == true && others.iter().any(|row| row[&name] == value) {
            return Err(format!("there is a row with `{name}` = {value} already").into());
        }
        row[name] = value;
    }
    Ok(row)
}

fn list_tables(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut reply = verbs::list(world, call)?;
    for table in reply["tables"].as_array_mut().into_iter().flatten() {
        let name = text_of(&table["name"]);
        *table =
            json!({"name": name, "schema": table["schema"], "estimated_rows": rows(&world.find(TABLES, &name)?).len()});
    }
    Ok(reply)
}

fn describe(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut table = world.find(TABLES, call.arguments.text("table"))?;
    let count = rows(&table).len();
    table.as_object_mut().map(|fields| fields.shift_remove("rows"));
    Ok(json!({"message": format!("{} has {count} row(s)", text_of(&table["name"])), "table": table}))
}

fn create_table(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let name = call.arguments.text("table").to_lowercase();
    let name = name.strip_prefix("public.").unwrap_or(&name).to_owned();
    if call.arguments.take("if_not_exists") == true && world.find(TABLES, &name).is_ok() {
        return Ok(json!({"message": format!("{name} was there already"), "created": false}));
    }
    let mut columns = call.arguments.list("columns").to_vec();
    columns.iter_mut().for_each(|column| column["name"] = text_of(&column["name"]).to_lowercase().into());
    call.arguments.set("columns", columns);
    call.arguments.set("table", name);
    verbs::create(world, call)
}

fn insert(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut table = world.find(TABLES, call.arguments.text("table"))?;
    let (values, known) = (call.arguments.value("values").clone(), columns(&table));
    if let Some(name) =
        values.as_object().into_iter().flatten().map(|(name, _)| name).find(|name| !known.contains(name))
    {
        return Err(format!("there is no column `{name}`; {}", known_as(&known)).into());
    }
    let mut all = rows(&table);
    let row = row(&table, &all, values)?;
    all.push(row.clone());
    store(world, &mut table, all)?;
    Ok(json!({"message": format!("one row more in {}", text_of(&table["name"])), "row": row}))
}

fn load(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut table = world.find(TABLES, call.arguments.text("table"))?;
    let file = world.find(FILES, call.arguments.text("csv_path"))?;
    let mut lines = drive::csv(&text_of(&file["content"]), call.arguments.text("delimiter")).into_iter();
    let names = if call.arguments.is("header") { lines.next().unwrap_or_default() } else { columns(&table) };
    let mut all = rows(&table);
    let before = all.len();
    for line in lines {
        let values = names.iter().cloned().zip(line.iter().map(|text| drive::cell(text))).collect();
        all.push(row(&table, &all, values)?);
    }
    let count = all.len() - before;
    store(world, &mut table, all)?;
    Ok(
        json!({"message": format!("{count} row(s) of {} are in {}", text_of(&file["path"]), text_of(&table["name"])), "rows": count}),
    )
}

fn explain(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let statement = Statement::parse(call.arguments.text("sql"), &[])?;
    let table = table_of(world, &statement)?;
    let all = rows(&table);
    let columns: Vec<&str> = statement.conditions.iter().map(|condition| condition.column.as_str()).collect();
    let is_indexed = |column: &&&str| {
        table["indexes"].as_array().into_iter().flatten().any(|index| index["columns"][0] == ***column)
    };
    let found = statement.matching(&all).len();
    let (step, read) = match columns.iter().find(is_indexed) {
        Some(column) => (format!("Index Scan on {} using {column}", statement.table), found),
        None => (format!("Seq Scan on {}", statement.table), all.len()),
    };
    let mut plan = vec![format!("{step}  (rows={read})")];
    plan.extend((!columns.is_empty()).then(|| format!("  Filter: {}  (rows={found})", columns.join(", "))));
    plan.extend(statement.order.as_ref().map(|(column, _)| format!("Sort by {column}")));
    let mut reply = json!({"message": format!("{step} reads {read} of {} row(s)", all.len()), "plan": plan});
    if call.arguments.is("analyze") {
        reply["execution_ms"] = cents(read as f64 * MS_PER_ROW).into();
    }
    Ok(reply)
}

fn index(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut table = world.find(TABLES, call.arguments.text("table"))?;
    let (wanted, known) = (call.arguments.texts("columns"), columns(&table));
    if let Some(column) = wanted.iter().find(|column| !known.iter().any(|name| name == *column)) {
        return Err(format!("there is no column `{column}`; {}", known_as(&known)).into());
    }
    let index =
        json!({"columns": wanted, "unique": call.arguments.value("unique"), "method": call.arguments.value("method")});
    verbs::extend(&mut table, "indexes", &index);
    world.put(TABLES, table.clone())?;
    Ok(
        json!({"message": format!("{} has an index on {}", text_of(&table["name"]), wanted.join(", ")), "indexes": table["indexes"]}),
    )
}

fn back_up(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let wanted = call.arguments.texts("tables");
    let is_wanted = |table: &&Value| wanted.is_empty() || wanted.contains(&text_of(&table["name"]).as_str());
    let tables: Vec<Value> = world.all(TABLES).iter().filter(is_wanted).cloned().collect();
    let file = json!({"content": Value::from(tables.clone()).to_string(), "type": "document", "format": call.arguments.value("format")});
    let file = drive::save(world, call.arguments.text("target"), file)?;
    Ok(
        json!({"message": format!("{} table(s) are saved to {}", tables.len(), text_of(&file["path"])), "file": drive::entry(&file)}),
    )
}

fn restore(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let file = world.find(FILES, call.arguments.text("source"))?;
    let tables: Vec<Value> = serde_json::from_str(&text_of(&file["content"])).unwrap_or_default();
    let is_table = |table: &Value| table["name"].is_string() && table["columns"].is_array();
    if tables.is_empty() || !tables.iter().all(is_table) {
        return Err(format!("{} is no backup of this database", text_of(&file["path"])).into());
    }
    if call.arguments.is("clean") {
        for table in world.all(TABLES).to_vec() {
            world.remove(TABLES, &text_of(&table["name"]))?;
        }
    }
    let names: Vec<String> = tables.iter().map(|table| text_of(&table["name"])).collect();
    for table in tables {
        world.put(TABLES, table)?;
    }
    Ok(
        json!({"message": format!("{} is as in {} again", call.arguments.text("database"), text_of(&file["path"])), "tables": names}),
    )
}

fn manage_role(world: &mut World, call: &mut Call<'_>) -> Outcome {
    const ROLES: &str = "postgres/roles";
    let (name, op) = (call.arguments.text("role"), call.arguments.text("op"));
    let grant = json!({"privileges": call.arguments.value("privileges"), "on": call.arguments.value("on")});
    let role = match op {
        "create" => world.make(ROLES, json!({"role": name}), false)?,
        "drop" => {
            let role = world.find(ROLES, name)?;
            world.remove(ROLES, &text_of(&role["role"]))?
        }
        _ => {
            let mut role = world.find(ROLES, name)?;
            if op == "grant" {
                verbs::extend(&mut role, "grants", &grant);
            } else if let Some(grants) = role["grants"].as_array_mut() {
                grants.retain(|had| had["on"] != grant["on"]);
            }
            world.put(ROLES, role.clone())?;
            role
        }
    };
    Ok(json!({"message": format!("did `{op}` for role {name}"), "role": role}))
}
