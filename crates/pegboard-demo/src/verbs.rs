//! The standard verbs of tools: create, list, get, change and delete objects of a collection.

use std::{collections::BTreeMap, slice};

use pegboard_core::text::bounded;
use serde_json::{Map, Value, json};

use super::{
    arguments::Arguments,
    clock,
    filter::{self, has_all},
    plan::{Plan, Verb},
    world::{Outcome, ToolError, World, fill, hash, text_of},
};

/// A call that has passed its checks.
pub(super) struct Call<'a> {
    /// The plan of the tool.
    pub(super) plan: &'a Plan,
    /// The schema of the arguments.
    pub(super) schema: &'a Value,
    /// The checked arguments.
    pub(super) arguments: Arguments,
    /// The objects that arguments refer to.
    pub(super) found: BTreeMap<String, Value>,
}

/// Runs the verb in the name of a tool.
pub(super) fn run(world: &mut World, call: &Call<'_>) -> Outcome {
    let mut reply = match call.plan.verb {
        Some(Verb::Create) => create(world, call)?,
        Some(Verb::List) => list(world, call)?,
        Some(Verb::Get) => get(world, call)?,
        Some(Verb::Change) => change(world, call)?,
        Some(Verb::Delete) => delete(world, call)?,
        Some(Verb::Tell) => message_reply(world, call),
        None => return Err("the demo cannot do this".into()),
    };
    if !call.plan.message.is_empty() {
        reply["message"] = fill(&call.plan.message, &|name| resolve_placeholder(world, call, name));
    }
    Ok(reply)
}

/// Checks that all objects that the arguments refer to exist, and replaces their names by
/// identities.
pub(super) fn resolve(world: &World, call: &mut Call<'_>) -> Result<(), ToolError> {
    for (name, collection) in &call.plan.look {
        let current = world.all(collection).iter().find(|object| object["current"] == true);
        let current = current.ok_or_else(|| format!("no {name} is open"))?;
        call.found.insert(name.clone(), current.clone());
    }
    let names: Vec<String> =
        call.arguments.0.keys().filter(|name| call.plan.refs.contains_key(*name)).cloned().collect();
    for name in names {
        let (collection, is_target) = (&call.plan.refs[&name], call.plan.refs[&name] == call.plan.on);
        let key = world.collection(collection)?.reference();
        if is_target && call.plan.verb == Some(Verb::Create) && field_name(call.plan, &name) == key {
            // The name of what is to be made.
            continue;
        }
        let one = |value: &Value| Ok(named(world, call, collection, value)?.swap_remove(0));
        let (value, found) = match call.arguments.value(&name) {
            Value::Array(values) => {
                let found = values.iter().map(one).collect::<Result<Vec<Value>, ToolError>>()?;
                (found.iter().map(|object| object[key].clone()).collect(), Value::from(found))
            }
            value => one(value).map(|object| (object[key].clone(), object))?,
        };
        call.found.insert(name.clone(), found);
        // A room may stand for all lamps in it, so the subject of the tool stays unchanged.
        if !is_target || call.plan.verb == Some(Verb::Create) {
            call.arguments.set(&name, value);
        }
    }
    Ok(())
}

/// Creates an object from the arguments.
pub(super) fn create(world: &mut World, call: &Call<'_>) -> Outcome {
    let made = world.make(&call.plan.on, Value::Object(fields(world, call, &[])), call.plan.replace)?;
    let collection = world.collection(&call.plan.on)?;
    let (noun, key) = (&collection.noun, text_of(&made[&collection.key]));
    Ok(json!({"message": format!("{} {key} saved", noun.replace('_', " ")), noun: made}))
}

/// Returns the objects that match the arguments.
pub(super) fn list(world: &mut World, call: &Call<'_>) -> Outcome {
    let collection = world.collection(&call.plan.on)?;
    let mut objects = targets(world, call, None)?;
    if collection.newest_first {
        objects.reverse();
    }
    let mut wanted = call.arguments.clone();
    wanted.0.retain(|name, _| !collection.scope.contains(name));
    let wanted = Arguments(renamed(call.plan, wanted.0, &Value::clone));
    let time = if call.plan.time.is_empty() { &collection.time } else { &call.plan.time };
    let page = filter::select(objects, time, call.schema, &wanted, world.now())?;
    let plural = call.plan.on.rsplit('/').next().unwrap_or_default();
    let message = format!("{} of {} matching {}", page.objects.len(), page.total, plural.replace('_', " "));
    let objects: Vec<Value> = page.objects.into_iter().map(brief).collect();
    let mut reply = json!({"message": message, "total": page.total, plural: objects});
    if let Some(next) = page.next {
        reply["next_cursor"] = next.to_string().into();
    }
    Ok(reply)
}

/// Returns one object.
fn get(world: &mut World, call: &Call<'_>) -> Outcome {
    let object = targets(world, call, target_argument(call))?.into_iter().next().ok_or("not found")?;
    let collection = world.collection(&call.plan.on)?;
    let noun = &collection.noun;
    Ok(json!({"message": format!("{noun} {}", text_of(&object[&collection.key])), noun: object}))
}

/// Changes the objects that the arguments name.
pub(super) fn change(world: &mut World, call: &Call<'_>) -> Outcome {
    let collection = world.collection(&call.plan.on)?.clone();
    let mut skipped: Vec<&str> = collection.scope.iter().map(String::as_str).collect();
    skipped.extend(target_argument(call));
    let mut fields = fields(world, call, &skipped);
    fields.shift_remove(&collection.key);
    let mut changed = Vec::new();
    for mut object in targets(world, call, target_argument(call))? {
        if call.plan.append.is_empty() {
            fields.iter().for_each(|(name, value)| object[name] = value.clone());
        } else {
            let mut entry = Value::Object(fields.clone());
            entry["at"] = clock::show(world.now()).into();
            extend(&mut object, &call.plan.append, &entry);
        }
        for (argument, field) in call.plan.extend.iter().filter(|(argument, _)| call.arguments.has(argument)) {
            extend(&mut object, field, call.arguments.value(argument));
        }
        object["updated_at"] = clock::show(world.now()).into();
        world.put(&call.plan.on, object.clone())?;
        changed.push(object);
    }
    Ok(change_reply(&collection.noun, &collection.key, "changed", changed))
}

/// Deletes the objects that the arguments name.
pub(super) fn delete(world: &mut World, call: &Call<'_>) -> Outcome {
    let objects = targets(world, call, target_argument(call))?;
    let collection = world.collection(&call.plan.on)?.clone();
    for object in &objects {
        world.remove(&call.plan.on, &text_of(&object[&collection.key]))?;
    }
    let mut reply = change_reply(&collection.noun, &collection.key, "deleted", objects);
    reply["asked"] = Value::Object(call.arguments.0.clone());
    Ok(reply)
}

/// Returns the message of the plan.
fn message_reply(world: &World, call: &Call<'_>) -> Value {
    let mut reply = json!({"message": ""});
    for (name, template) in &call.plan.set {
        reply[name] = filled(world, call, template);
    }
    reply["asked"] = Value::Object(call.arguments.0.clone());
    reply
}

/// Returns the objects that the tool works on: those that `argument` names, else all that it may
/// see.
fn targets(world: &World, call: &Call<'_>, argument: Option<&str>) -> Result<Vec<Value>, ToolError> {
    let Some(argument) = argument else {
        let collection = world.collection(&call.plan.on)?;
        let is_seen = |object: &&Value| is_at(&collection.scope, call, object) && has_all(object, &call.plan.with);
        return Ok(collection.objects().iter().filter(is_seen).cloned().collect());
    };
    let mut found = Vec::new();
    let names = call.arguments.value(argument);
    for name in names.as_array().map_or(slice::from_ref(names), Vec::as_slice) {
        found.extend(named(world, call, &call.plan.on, name)?);
    }
    Ok(found)
}

/// Adds `value`, or the values in it, to the list `field` of `object`, each but once.
pub(super) fn extend(object: &mut Value, field: &str, value: &Value) {
    if !object[field].is_array() {
        object[field] = json!([]);
    }
    let Some(list) = object[field].as_array_mut() else { return };
    for value in value.as_array().map_or(slice::from_ref(value), Vec::as_slice) {
        if !list.contains(value) {
            list.push(value.clone());
        }
    }
}

/// Returns the value with long texts and lists shortened.
pub(super) fn brief(value: Value) -> Value {
    const MOST: usize = 300;
    match value {
        Value::String(text) => Value::String(bounded(&text, MOST).into_owned()),
        Value::Array(items) => items.into_iter().take(20).map(brief).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, brief(value))).collect(),
        value => value,
    }
}

fn change_reply(noun: &str, key: &str, what: &str, objects: Vec<Value>) -> Value {
    let keys: Vec<String> = objects.iter().map(|object| text_of(&object[key])).collect();
    let message = format!("{what} {}: {}", noun.replace('_', " "), keys.join(", "));
    let objects: Vec<Value> = objects.into_iter().map(brief).collect();
    match <[Value; 1]>::try_from(objects) {
        Ok([object]) => json!({"message": message, noun: object}),
        Err(objects) => json!({"message": message, format!("{noun}s"): objects}),
    }
}

fn target_argument<'a>(call: &'a Call<'_>) -> Option<&'a str> {
    let is_target = |name: &&String| call.plan.refs.get(*name) == Some(&call.plan.on);
    call.arguments.0.keys().find(is_target).map(String::as_str)
}

fn named(world: &World, call: &Call<'_>, collection: &str, name: &Value) -> Result<Vec<Value>, ToolError> {
    let scope = &world.collection(collection)?.scope;
    let is_tools_own = collection == call.plan.on && call.plan.verb != Some(Verb::Create);
    world.named(collection, &text_of(name), |object| {
        is_at(scope, call, object) && (!is_tools_own || has_all(object, &call.plan.with))
    })
}

/// Returns whether `object` is in the repository, channel or calendar that the arguments name.
fn is_at(scope: &[String], call: &Call<'_>, object: &Value) -> bool {
    let is_at = |name: &String| !call.arguments.has(name) || object[name] == *call.arguments.value(name);
    scope.iter().all(is_at)
}

fn field_name<'a>(plan: &'a Plan, argument: &'a str) -> &'a str {
    plan.rename.get(argument).map_or(argument, String::as_str)
}

/// Returns the fields that the arguments set, except those `skipped`, and the fields that the plan
/// adds.
fn fields(world: &World, call: &Call<'_>, skipped: &[&str]) -> Map<String, Value> {
    let mut arguments = call.arguments.0.clone();
    arguments.retain(|name, _| !skipped.contains(&name.as_str()) && !call.plan.extend.contains_key(name));
    let mut fields = renamed(call.plan, arguments, &|value| filled(world, call, value));
    for (name, value) in &call.plan.set {
        fields.entry(name).or_insert_with(|| filled(world, call, value));
    }
    if call.plan.verb == Some(Verb::Create) {
        fields.extend(call.plan.with.clone());
    }
    fields
}

/// Returns arguments by the names of their fields; objects that only wrap fields are unwrapped.
fn renamed(plan: &Plan, arguments: Map<String, Value>, fill: &dyn Fn(&Value) -> Value) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, value) in arguments {
        match (plan.map.get(&name).and_then(|map| map.get(&text_of(&value))), value) {
            (Some(mapped), _) => fields.extend(mapped.iter().map(|(name, value)| (name.clone(), fill(value)))),
            (None, Value::Object(inner)) if matches!(name.as_str(), "fields" | "changes") => fields.extend(inner),
            (None, value) => {
                fields.insert(field_name(plan, &name).to_owned(), value);
            }
        }
    }
    fields
}

/// Returns a template with all placeholders in braces replaced.
fn filled(world: &World, call: &Call<'_>, template: &Value) -> Value {
    match template {
        Value::String(text) => fill(text, &|name| resolve_placeholder(world, call, name)),
        Value::Array(items) => items.iter().map(|item| filled(world, call, item)).collect(),
        value => value.clone(),
    }
}

/// Returns the value of a placeholder.
fn resolve_placeholder(world: &World, call: &Call<'_>, name: &str) -> Value {
    match name.split_once('.') {
        // The path of a file without its ending.
        Some((argument, "stem")) => {
            let path = text_of(&call.found.get(argument).unwrap_or(&Value::Null)["path"]);
            path.rsplit_once('.').map_or(path.as_str(), |(stem, _)| stem).into()
        }
        Some((argument, field)) => call.found.get(argument).map_or(Value::Null, |object| object[field].clone()),
        None if name == "now" => clock::show(world.now()).into(),
        None if name == "hash" => format!("{:012x}", hash(&json!(call.arguments.0).to_string()) >> 16).into(),
        None => call.arguments.value(name).clone(),
    }
}
