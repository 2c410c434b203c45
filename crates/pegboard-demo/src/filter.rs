//! Filtering, sorting and paging for the arguments of a list or a search.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::{
    arguments::Arguments,
    clock,
    world::{ToolError, text_of},
};

const TEXT: &[&str] = &["query", "q", "texto"];
const LIMIT: &[&str] = &["limit", "count", "per_page", "maxResults", "limite", "top", "row_limit"];
const PAGING: &[&str] = &["page", "cursor", "sort", "sort_by", "order"];
const EARLIEST: &[&str] = &["since", "from", "after", "oldest", "timeMin", "issuedAfter", "modified_after"];
const LATEST: &[&str] = &["until", "to", "before", "timeMax", "closing_before", "sin_compras_desde"];
/// The age in days of each freshness.
const FRESH: &[(&str, i64)] = &[("day", 1), ("week", 7), ("month", 31), ("year", 366)];
/// Values that select everything.
const ANY: &[&str] = &["any", "all", "todas"];
/// Results per page if the tool has no limit.
const PAGE: usize = 50;

/// One page of results.
pub(super) struct Page {
    pub(super) objects: Vec<Value>,
    /// The number of results on all pages.
    pub(super) total: usize,
    /// Where the next page begins, if there is one.
    pub(super) next: Option<usize>,
}

/// Returns the `objects` that match the arguments, in the requested order and page. `schema`
/// distinguishes dates from other texts, and enumerations from search words.
pub(super) fn select(
    objects: Vec<Value>,
    time: &str,
    schema: &Value,
    arguments: &Arguments,
    now: i64,
) -> Result<Page, ToolError> {
    let mut found = objects;
    for (name, wanted) in &arguments.0 {
        let property = &schema["properties"][name];
        if TEXT.contains(&name.as_str()) {
            found = search(found, &text_of(wanted));
        } else if property["format"].as_str().is_some_and(|format| format.starts_with("date")) {
            let bound = clock::parse(&text_of(wanted)).ok_or_else(|| format!("`{name}` is not a date or time"))?;
            found.retain(|object| is_within(object, time, name, bound));
        } else if name == "prefix" {
            found.retain(|object| text_of(&object["key"]).starts_with(&text_of(wanted)));
        } else if name == "freshness" {
            let days = FRESH.iter().find_map(|(word, days)| (wanted == word).then_some(*days)).unwrap_or(100_000);
            found.retain(|object| is_within(object, time, "since", now - days * clock::DAY));
        } else if !LIMIT.contains(&name.as_str()) && !PAGING.contains(&name.as_str()) {
            found.retain(|object| fits(object, name, wanted, property["enum"].is_array()));
        }
    }
    sort(&mut found, arguments);
    let limit = LIMIT.iter().find_map(|name| arguments.int(name)).map_or(PAGE, whole).max(1);
    let cursor = arguments.text("cursor").parse().unwrap_or(0);
    let start = arguments.int("page").map_or(cursor, |page| whole(page.saturating_sub(1)).saturating_mul(limit));
    let total = found.len();
    let objects: Vec<Value> = found.into_iter().skip(start).take(limit).collect();
    let end = start.saturating_add(limit);
    Ok(Page { objects, total, next: (end < total).then_some(end) })
}

/// Returns the objects that have most of the words: all of them if any object does. `key:value`
/// must match in any case.
pub(super) fn search(objects: Vec<Value>, query: &str) -> Vec<Value> {
    let query = query.to_lowercase();
    let (qualifiers, words): (Vec<&str>, Vec<&str>) = query.split_whitespace().partition(|word| is_qualifier(word));
    let mut scored: Vec<(usize, Value)> = Vec::new();
    for object in objects {
        let text = texts(&object).to_lowercase();
        if qualifiers.iter().all(|qualifier| is_qualified(&object, qualifier)) {
            let score = words.iter().filter(|word| text.contains(word.trim_matches(['"', ',', '?']))).count();
            scored.push((score, object));
        }
    }
    let best = scored.iter().map(|(score, _)| *score).max().unwrap_or(0);
    let is_match = |score: usize| words.is_empty() || (score == best && score > 0);
    scored.into_iter().filter(|(score, _)| is_match(*score)).map(|(_, object)| object).collect()
}

/// Returns whether `object` has all of `fields`; a list means any of its values.
pub(super) fn has_all(object: &Value, fields: &Map<String, Value>) -> bool {
    let has = |has: &Value, wanted: &Value| has == wanted || wanted.as_array().is_some_and(|any| any.contains(has));
    fields.iter().all(|(name, wanted)| has(&object[name], wanted))
}

/// Returns all texts and numbers in a value, for text search.
pub(super) fn texts(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(texts).collect::<Vec<_>>().join(" "),
        Value::Object(fields) => fields.values().map(texts).collect::<Vec<_>>().join(" "),
        Value::Bool(_) | Value::Null => String::new(),
        value => text_of(value),
    }
}

/// Orders numbers as numbers, and everything else after them as text.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a_number, b_number) => a_number.is_none().cmp(&b_number.is_none()).then_with(|| text_of(a).cmp(&text_of(b))),
    }
}

fn whole(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn is_qualifier(word: &str) -> bool {
    word.split_once(':').is_some_and(|(key, value)| !key.is_empty() && !value.is_empty() && !value.starts_with('/'))
}

fn is_qualified(object: &Value, qualifier: &str) -> bool {
    let (key, value) = qualifier.split_once(':').unwrap_or((qualifier, ""));
    let value = value.trim_matches(['@', '#', '"']);
    match key {
        "is" => object.as_object().is_some_and(|fields| fields.values().any(|field| *field == *value)),
        "in" => fits(object, "channel", &value.into(), false),
        "from" => fits(object, "from", &value.into(), false) || fits(object, "user", &value.into(), false),
        key => fits(object, key, &value.rsplit('/').next().into(), false),
    }
}

/// Returns whether the time of `object` is on the right side of the bound called `name`.
fn is_within(object: &Value, time: &str, name: &str, bound: i64) -> bool {
    let Some(at) = object[time].as_str().and_then(clock::parse) else { return false };
    // An event that is still going on counts as well.
    let end = object["end"].as_str().and_then(clock::parse).unwrap_or(at);
    (!EARLIEST.contains(&name) || end >= bound) && (!LATEST.contains(&name) || at <= bound)
}

/// Returns whether `object` matches the argument `name`.
fn fits(object: &Value, name: &str, wanted: &Value, is_choice: bool) -> bool {
    if let Some(field) = name.strip_prefix("min_") {
        return object[field].as_f64() >= wanted.as_f64();
    }
    if let Some(what) = name.strip_prefix("include_") {
        let what = what.strip_suffix('s').unwrap_or(what);
        return wanted == true || !(object[what] == true || object[format!("is_{what}")] == true);
    }
    if let Some(what) = name.strip_prefix("has_") {
        let has = object[format!("{what}s")].as_array().is_some_and(|items| !items.is_empty());
        return has == (wanted == true);
    }
    if name == "filters" {
        return wanted.as_array().into_iter().flatten().all(|condition| holds(object, condition));
    }
    if wanted.as_str().is_some_and(|wanted| ANY.contains(&wanted)) {
        return true;
    }
    // A list of labels is asked for one label, and a type for one of several types.
    let singular = name.strip_suffix('s').unwrap_or(name);
    let fields = [name, singular, &format!("{name}s")].map(|name| &object[name]);
    let field = fields.into_iter().find(|field| !field.is_null()).unwrap_or(&Value::Null);
    match (field, wanted) {
        (Value::Array(has), Value::Array(wanted)) => {
            wanted.iter().all(|wanted| has.iter().any(|has| is_like(has, wanted, true)))
        }
        (Value::Array(has), wanted) if wanted == "none" => has.is_empty(),
        (Value::Array(has), wanted) => has.iter().any(|has| is_like(has, wanted, is_choice)),
        (has, Value::Array(wanted)) => wanted.iter().any(|wanted| is_like(has, wanted, true)),
        (has, Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| is_like(&has[key], wanted, true)),
        (has, wanted) => is_like(has, wanted, is_choice),
    }
}

/// Returns whether `{field, op, value}` holds.
fn holds(object: &Value, condition: &Value) -> bool {
    let (has, wanted) = (&object[condition["field"].as_str().unwrap_or_default()], &condition["value"]);
    match condition["op"].as_str() {
        Some("gt") => !has.is_null() && compare(has, wanted).is_gt(),
        Some("lt") => !has.is_null() && compare(has, wanted).is_lt(),
        Some("ne") => !is_like(has, wanted, true),
        Some("contains") => is_like(has, wanted, false),
        _ => is_like(has, wanted, true),
    }
}

fn is_like(has: &Value, wanted: &Value, is_whole: bool) -> bool {
    match (has.as_str(), wanted.as_str()) {
        (Some(has), Some(wanted)) if is_whole => has.eq_ignore_ascii_case(wanted),
        (Some(has), Some(wanted)) => has.to_lowercase().contains(&wanted.to_lowercase()),
        // Attendees and the like: the text is somewhere inside.
        (None, Some(wanted)) if has.is_object() => texts(has).to_lowercase().contains(&wanted.to_lowercase()),
        _ => has == wanted,
    }
}

fn sort(objects: &mut [Value], arguments: &Arguments) {
    let by = [arguments.text("sort"), arguments.text("sort_by")].concat();
    // `created` is `created_at`; a field that no object has leaves the order unchanged.
    let field_of = |object: &Value| object.as_object()?.keys().find(|key| key.starts_with(&by)).cloned();
    let Some(field) = objects.first().filter(|_| !by.is_empty()).and_then(field_of) else { return };
    let value = |object: &Value| object[&field].as_array().map_or(object[&field].clone(), |items| items.len().into());
    objects.sort_by(|a, b| compare(&value(a), &value(b)));
    if arguments.text("order") == "desc" {
        objects.reverse();
    }
}
