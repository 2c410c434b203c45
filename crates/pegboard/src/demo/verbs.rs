//! What most tools do: make, find, show, change and delete objects of a collection.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    arguments::Arguments,
    clock,
    filter::{self, has_all},
    plan::{Plan, Verb},
    world::{Outcome, Refusal, World, text_of},
};

/// A call that has passed its checks.
pub(super) struct Call<'a> {
    /// What the tool does.
    pub(super) plan: &'a Plan,
    /// What its arguments look like.
    pub(super) schema: &'a Value,
    /// Which of the server's arguments name objects, and of which collection.
    pub(super) refs: &'a BTreeMap<String, String>,
    /// What it is called with.
    pub(super) arguments: Arguments,
}

/// Does what the tool's name says.
pub(super) fn run(world: &mut World, call: &Call<'_>) -> Outcome {
    match call.plan.verb {
        Some(Verb::Create) => create(world, call),
        Some(Verb::List) => list(world, call),
        Some(Verb::Get) => get(world, call),
        Some(Verb::Change) => change(world, call),
        Some(Verb::Delete) => delete(world, call),
        None => Err("the demo cannot do this".into()),
    }
}

/// Makes sure that whatever the arguments refer to exists, and calls it by its identity.
pub(super) fn resolve(world: &World, call: &mut Call<'_>) -> Result<(), Refusal> {
    let names: Vec<String> = call.arguments.0.keys().filter(|name| call.refs.contains_key(*name)).cloned().collect();
    for name in names {
        let (collection, is_target) = (&call.refs[&name], call.refs[&name] == call.plan.on);
        let key = world.collection(collection)?.reference();
        if is_target && call.plan.verb == Some(Verb::Create) && field_name(call.plan, &name) == key {
            // The name of what is to be made.
            continue;
        }
        let one = |value: &Value| Ok(named(world, call, collection, value)?.swap_remove(0)[key].clone());
        let found = match call.arguments.value(&name) {
            Value::Array(values) => values.iter().map(one).collect::<Result<Vec<_>, Refusal>>()?.into(),
            value => one(value)?,
        };
        // A room may stand for all lamps in it, so what the tool is about stays as it is.
        if !is_target {
            call.arguments.set(&name, found);
        }
    }
    Ok(())
}

/// Makes an object of the arguments.
pub(super) fn create(world: &mut World, call: &Call<'_>) -> Outcome {
    let made = world.make(&call.plan.on, Value::Object(fields(call, &[])), call.plan.replace)?;
    let collection = world.collection(&call.plan.on)?;
    let (noun, key) = (&collection.noun, text_of(&made[&collection.key]));
    Ok(json!({"message": format!("{} {key} is there now", noun.replace('_', " ")), noun: made}))
}

/// Finds the objects that fit the arguments.
pub(super) fn list(world: &mut World, call: &Call<'_>) -> Outcome {
    let collection = world.collection(&call.plan.on)?;
    let mut objects: Vec<Value> =
        collection.objects().iter().filter(|o| is_in_scope(world, call, o)).cloned().collect();
    if collection.newest_first {
        objects.reverse();
    }
    let mut wanted = call.arguments.clone();
    wanted.0.retain(|name, _| !collection.scope.contains(name));
    let mapped = Arguments(renamed(call.plan, wanted.0));
    let time = if call.plan.time.is_empty() { &collection.time } else { &call.plan.time };
    let page = filter::select(objects, time, call.schema, &mapped)?;
    let plural = call.plan.on.rsplit('/').next().unwrap_or_default();
    let words = plural.replace('_', " ");
    let message = format!("{} of {} {words} that fit", page.objects.len(), page.total);
    let objects: Vec<Value> = page.objects.into_iter().map(brief).collect();
    let mut reply = json!({"message": message, "total": page.total, plural: objects});
    if let Some(next) = page.next {
        reply["next_cursor"] = next.to_string().into();
    }
    Ok(reply)
}

/// Shows one object.
fn get(world: &mut World, call: &Call<'_>) -> Outcome {
    let object = targets(world, call)?.swap_remove(0);
    let collection = world.collection(&call.plan.on)?;
    let noun = &collection.noun;
    Ok(json!({"message": format!("this is {noun} {}", text_of(&object[&collection.key])), noun: object}))
}

/// Changes the objects that the arguments name.
pub(super) fn change(world: &mut World, call: &Call<'_>) -> Outcome {
    let objects = targets(world, call)?;
    let collection = world.collection(&call.plan.on)?.clone();
    let mut skipped: Vec<&str> = collection.scope.iter().map(String::as_str).collect();
    skipped.extend(target_argument(call));
    let mut fields = fields(call, &skipped);
    fields.shift_remove(&collection.key);
    let mut changed = Vec::new();
    for mut object in objects {
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
    Ok(told(&collection.noun, &collection.key, "changed", changed))
}

/// Deletes the objects that the arguments name.
pub(super) fn delete(world: &mut World, call: &Call<'_>) -> Outcome {
    let objects = targets(world, call)?;
    let collection = world.collection(&call.plan.on)?.clone();
    for object in &objects {
        world.remove(&call.plan.on, &text_of(&object[&collection.key]))?;
    }
    let mut reply = told(&collection.noun, &collection.key, "deleted", objects);
    reply["asked"] = Value::Object(call.arguments.0.clone());
    Ok(reply)
}

/// The objects that the tool is about: those that are named, else all that it may see.
pub(super) fn targets(world: &World, call: &Call<'_>) -> Result<Vec<Value>, Refusal> {
    let Some(argument) = target_argument(call) else {
        let all = world.collection(&call.plan.on)?.objects();
        return Ok(all.iter().filter(|object| is_in_scope(world, call, object)).cloned().collect());
    };
    let mut found = Vec::new();
    let names = call.arguments.value(argument);
    for name in names.as_array().map_or(std::slice::from_ref(names), Vec::as_slice) {
        found.extend(named(world, call, &call.plan.on, name)?);
    }
    if found.is_empty() {
        return Err(format!("`{argument}` names nothing").into());
    }
    Ok(found)
}

/// Adds `value`, or the values in it, to the list `field` of `object`, each but once.
pub(super) fn extend(object: &mut Value, field: &str, value: &Value) {
    if !object[field].is_array() {
        object[field] = json!([]);
    }
    let Some(list) = object[field].as_array_mut() else { return };
    for value in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
        if !list.contains(value) {
            list.push(value.clone());
        }
    }
}

/// The value with long texts and lists cut short: a list tells what there is, not all of it.
pub(super) fn brief(value: Value) -> Value {
    const MOST: usize = 300;
    match value {
        Value::String(mut text) if text.len() > MOST => {
            text.truncate(text.floor_char_boundary(MOST));
            Value::String(text + "…")
        }
        Value::Array(items) => items.into_iter().take(20).map(brief).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, brief(value))).collect(),
        value => value,
    }
}

fn told(noun: &str, key: &str, what: &str, objects: Vec<Value>) -> Value {
    let keys: Vec<String> = objects.iter().map(|object| text_of(&object[key])).collect();
    let message = format!("{what} {} {noun}(s): {}", objects.len(), keys.join(", "));
    match <[Value; 1]>::try_from(objects) {
        Ok([object]) => json!({"message": message, noun: object}),
        Err(objects) => json!({"message": message, format!("{noun}s"): objects}),
    }
}

fn target_argument<'a>(call: &'a Call<'_>) -> Option<&'a str> {
    if !call.plan.by.is_empty() {
        return Some(call.plan.by.as_str()).filter(|by| call.arguments.has(by));
    }
    let is_target = |name: &&String| call.refs.get(*name) == Some(&call.plan.on);
    call.arguments.0.keys().find(is_target).map(String::as_str)
}

fn named(world: &World, call: &Call<'_>, collection: &str, name: &Value) -> Result<Vec<Value>, Refusal> {
    let scope = &world.collection(collection)?.scope;
    let is_tools_own = collection == call.plan.on && call.plan.verb != Some(Verb::Create);
    world.named(collection, &text_of(name), |object| {
        is_at(scope, call, object) && (!is_tools_own || has_all(object, &call.plan.with))
    })
}

fn is_in_scope(world: &World, call: &Call<'_>, object: &Value) -> bool {
    let scope = world.collection(&call.plan.on).map_or(&[][..], |collection| &collection.scope);
    is_at(scope, call, object) && has_all(object, &call.plan.with)
}

/// Whether `object` is in the repository, channel or calendar that the arguments name.
fn is_at(scope: &[String], call: &Call<'_>, object: &Value) -> bool {
    let is_at = |name: &String| !call.arguments.has(name) || object[name] == *call.arguments.value(name);
    scope.iter().all(is_at)
}

fn field_name<'a>(plan: &'a Plan, argument: &'a str) -> &'a str {
    plan.rename.get(argument).map_or(argument, String::as_str)
}

/// The fields that the arguments stand for, except those `skipped`.
fn fields(call: &Call<'_>, skipped: &[&str]) -> Map<String, Value> {
    let mut arguments = call.arguments.0.clone();
    arguments.retain(|name, _| !skipped.contains(&name.as_str()) && !call.plan.extend.contains_key(name));
    let mut fields = renamed(call.plan, arguments);
    fields.extend(call.plan.with.clone());
    fields
}

/// Arguments by the names of their fields; what merely wraps fields is unwrapped.
fn renamed(plan: &Plan, arguments: Map<String, Value>) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, value) in arguments {
        match (plan.map.get(&name).and_then(|map| map.get(&text_of(&value))), value) {
            (Some(mapped), _) => fields.extend(mapped.clone()),
            (None, Value::Object(inner)) if matches!(name.as_str(), "fields" | "changes") => fields.extend(inner),
            (None, value) => {
                fields.insert(field_name(plan, &name).to_owned(), value);
            }
        }
    }
    fields
}
