//! A tool's definition in a form that can be compared.

use std::collections::BTreeSet;

use serde_json::{Map, Value, value::RawValue};

/// The parts of a definition that a model sees: a change of any of them is a change of the tool.
const PARTS: [&str; 6] = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

/// The keys in `_meta` that name what a host shows for a tool, in all versions of MCP Apps.
const UI_KEYS: [&str; 3] = ["ui", "ui/resourceUri", "openai/outputTemplate"];

/// Keywords of JSON Schema whose lists are sets: no order of them has another meaning.
const SETS: [&str; 7] = ["required", "type", "enum", "examples", "allOf", "anyOf", "oneOf"];

/// Keywords whose values are objects with names of the author's own.
const MAPS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependentRequired"];

/// Keywords whose values are data and not schemas.
const DATA: [&str; 4] = ["default", "const", "enum", "examples"];

/// A definition in a form in which two that say the same are equal: nothing but what counts,
/// keys in the order of the alphabet, and sets in one order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Definition(pub(super) Map<String, Value>);

impl Definition {
    pub(super) fn of(raw: &RawValue) -> Self {
        let mut fields: Map<String, Value> = serde_json::from_str(raw.get()).unwrap_or_default();
        // The parts of `_meta` that searches and hosts use; the rest may change with every start.
        let mut take = |key: &str| fields.get_mut("_meta").and_then(|meta| meta.get_mut(key)).map(Value::take);
        let hint = take("anthropic/searchHint");
        let ui: Vec<(String, Value)> = UI_KEYS.iter().filter_map(|key| Some(((*key).to_owned(), take(key)?))).collect();
        let mut parts: Vec<(String, Value)> =
            fields.into_iter().filter(|(key, _)| PARTS.contains(&key.as_str())).collect();
        parts.extend(hint.map(|hint| ("searchHint".to_owned(), hint)));
        parts.extend(ui);
        // `null` is the same as a missing value.
        parts.retain(|(_, value)| !value.is_null());
        parts.sort_by(|one, other| one.0.cmp(&other.0));
        let canonical = |(key, value): (String, Value)| match key.as_str() {
            "inputSchema" | "outputSchema" => (key, schema(value)),
            _ => (key, data(value)),
        };
        Self(parts.into_iter().map(canonical).collect())
    }
}

/// Returns a value with the keys of all its objects in order. The order of its lists counts.
fn data(value: Value) -> Value {
    match value {
        Value::Object(fields) => sorted(fields, |_, value| data(value)),
        Value::Array(items) => Value::Array(items.into_iter().map(data).collect()),
        value => value,
    }
}

/// Returns a schema with its keys in order, and with its sets in one order.
fn schema(value: Value) -> Value {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Array(items) => return Value::Array(items.into_iter().map(schema).collect()),
        value => return value,
    };
    // What describes the default value, without that value.
    let described = fields.contains_key("default").then(|| {
        let keys = ["uniqueItems", "prefixItems", "items", "properties"];
        let part = |key: &str| Some((key.to_owned(), fields.get(key)?.clone()));
        Value::Object(keys.into_iter().filter_map(part).collect())
    });
    sorted(fields, |key, value| match key {
        key if MAPS.contains(&key) => names(value, key == "dependentRequired"),
        "default" => default_value(value, described.as_ref()),
        key if DATA.contains(&key) => set(data(value), SETS.contains(&key)),
        key => set(schema(value), SETS.contains(&key)),
    })
}

/// Returns an object of schemas, or of sets of names.
fn names(value: Value, are_sets: bool) -> Value {
    match value {
        Value::Object(fields) => {
            sorted(fields, |_, value| if are_sets { set(data(value), true) } else { schema(value) })
        }
        value => data(value),
    }
}

/// Returns a default value with the keys of all its objects in order, and with its sets in one order:
/// lists that its schema says are sets, and at any depth lists of distinct scalars and texts that list
/// distinct names. The order of a tuple counts.
fn default_value(value: Value, schema: Option<&Value>) -> Value {
    let part = |key: &str| schema.and_then(|schema| schema.get(key));
    match value {
        Value::Object(fields) => {
            let properties = part("properties");
            sorted(fields, |key, value| default_value(value, properties.and_then(|schemas| schemas.get(key))))
        }
        Value::Array(items) => {
            // Schemas of single positions: `items` is a list in older versions of JSON Schema.
            let is_tuple = part("prefixItems").is_some() || part("items").is_some_and(Value::is_array);
            let is_unique = part("uniqueItems") == Some(&Value::Bool(true));
            let is_set = !is_tuple && (is_unique || has_distinct_scalars(&items));
            let each = part("items");
            set(Value::Array(items.into_iter().map(|item| default_value(item, each)).collect()), is_set)
        }
        Value::String(text) => Value::String(names_in_order(&text).unwrap_or(text)),
        value => value,
    }
}

/// Returns whether a list has several scalars and none of them twice. Servers write such a list
/// from a set, in another order after each start, and mostly without `uniqueItems`.
fn has_distinct_scalars(items: &[Value]) -> bool {
    let is_scalar = |item: &Value| !item.is_object() && !item.is_array();
    let texts: BTreeSet<String> = items.iter().map(Value::to_string).collect();
    items.iter().all(is_scalar) && texts.len() == items.len()
}

/// Returns a text such as `summary,status` with its names in one order; `None` if it is anything else
/// than several distinct names between commas.
fn names_in_order(text: &str) -> Option<String> {
    let separator = if text.contains(", ") { ", " } else { "," };
    let names: BTreeSet<&str> = text.split(separator).collect();
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '*';
    let is_name = |name: &&str| {
        let rest = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
        name.starts_with(is_first) && name.chars().all(rest)
    };
    let is_list = names.len() > 1 && names.len() == text.split(separator).count() && names.iter().all(is_name);
    is_list.then(|| names.into_iter().collect::<Vec<_>>().join(separator))
}

/// Returns a list in one order if it is a set.
fn set(value: Value, is_set: bool) -> Value {
    match value {
        Value::Array(mut items) if is_set => {
            items.sort_by_cached_key(Value::to_string);
            Value::Array(items)
        }
        value => value,
    }
}

fn sorted(fields: Map<String, Value>, mut canonical: impl FnMut(&str, Value) -> Value) -> Value {
    let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    let field = |(key, value): (String, Value)| {
        let value = canonical(&key, value);
        (key, value)
    };
    Value::Object(fields.into_iter().map(field).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Definition {
        Definition::of(&serde_json::from_str::<pegboard_mcp::json::Raw>(text).expect("JSON"))
    }

    fn schema_of(text: &str) -> Definition {
        of(&format!(r#"{{"name":"a","inputSchema":{text}}}"#))
    }

    #[test]
    fn what_searches_use_counts() {
        let hinted = |hint: &str| of(&format!(r#"{{"name":"a","_meta":{{"anthropic/searchHint":"{hint}","x":1}}}}"#));
        assert_eq!(hinted("one"), hinted("one"));
        assert_ne!(hinted("one"), hinted("two"));
        assert_ne!(hinted("one"), of(r#"{"name":"a"}"#));
        assert_eq!(of(r#"{"name":"a","_meta":{"x":1}}"#), of(r#"{"name":"a","_meta":{"x":2}}"#));
    }

    #[test]
    fn what_hosts_show_counts() {
        let shown = |meta: &str| of(&format!(r#"{{"name":"a","_meta":{{{meta}}}}}"#));
        for key in ["ui/resourceUri", "openai/outputTemplate"] {
            let uri = |uri: &str| shown(&format!(r#""{key}":"{uri}""#));
            assert_ne!(uri("ui://a"), uri("ui://b"), "{key}");
            assert_ne!(uri("ui://a"), shown(""), "{key}");
        }
        let same = [r#""ui":{"resourceUri":"ui://a","x":1}"#, r#""ui":{"x":1,"resourceUri":"ui://a"}"#].map(shown);
        assert_eq!(same[0], same[1]);
        assert_ne!(same[0], shown(r#""ui":{"resourceUri":"ui://b","x":1}"#));
    }

    #[test]
    fn order_of_keys_does_not_count() {
        let same = [r#"{"a":1,"b":[{"c":1,"d":2}]}"#, r#"{"b":[{"d":2,"c":1}],"a":1}"#].map(schema_of);
        assert_eq!(same[0], same[1]);
        let keys = serde_json::to_string(&same[1].0).expect("JSON");
        assert_eq!(keys, r#"{"inputSchema":{"a":1,"b":[{"c":1,"d":2}]},"name":"a"}"#);
        assert_eq!(of(r#"{"name":"a","title":null}"#), of(r#"{"name":"a"}"#));
        assert_ne!(of(r#"{"name":"a","title":"b"}"#), of(r#"{"name":"a"}"#));
    }

    #[test]
    fn order_counts_where_it_means_something() {
        let check = |one: &str, other: &str, is_same: bool| {
            assert_eq!(schema_of(one) == schema_of(other), is_same, "{one} {other}");
        };
        // Sets, wherever a schema stands.
        check(r#"{"required":["x","y"]}"#, r#"{"required":["y","x"]}"#, true);
        check(r#"{"type":["string","null"]}"#, r#"{"type":["null","string"]}"#, true);
        check(r#"{"enum":["x","y"]}"#, r#"{"enum":["y","x"]}"#, true);
        check(r#"{"examples":[1,2]}"#, r#"{"examples":[2,1]}"#, true);
        check(r#"{"anyOf":[{"type":"null"},{"enum":[1,2]}]}"#, r#"{"anyOf":[{"enum":[2,1]},{"type":"null"}]}"#, true);
        check(r#"{"dependentRequired":{"a":["x","y"]}}"#, r#"{"dependentRequired":{"a":["y","x"]}}"#, true);
        let inside = |place: &str| place.replace("S", r#"{"required":["x","y"]}"#);
        let other = |place: &str| place.replace("S", r#"{"required":["y","x"]}"#);
        for place in [r#"{"items":S}"#, r#"{"properties":{"required":S}}"#, r#"{"$defs":{"a":{"allOf":[S]}}}"#] {
            check(&inside(place), &other(place), true);
        }
        // A set that is a default.
        check(r#"{"default":["x","y"]}"#, r#"{"default":["y","x"]}"#, true);
        let of_lists = |default: &str| format!(r#"{{"uniqueItems":true,"default":{default}}}"#);
        check(&of_lists("[[1],[2]]"), &of_lists("[[2],[1]]"), true);
        // Sets at any depth of a default.
        let nested = |tags: &str| format!(r#"{{"default":{{"a":{{"tags":{tags}}},"b":[{{"tags":{tags}}},{tags}]}}}}"#);
        check(&nested(r#"["x","y"]"#), &nested(r#"["y","x"]"#), true);
        check(&nested(r#"["x","y"]"#), &nested(r#"["x","z"]"#), false);
        check(&nested(r#"["x","x","y"]"#), &nested(r#"["x","y","x"]"#), false);
        check(&nested(r#"[["x"],["y"]]"#), &nested(r#"[["y"],["x"]]"#), false);
        check(r#"{"default":{"a":[{"b":1},{"b":2}]}}"#, r#"{"default":{"a":[{"b":2},{"b":1}]}}"#, false);
        // Names between commas, which some servers write from a set.
        let text = |text: &str| format!(r#"{{"default":"{text}"}}"#);
        check(&text("summary,status,*all"), &text("*all,status,summary"), true);
        check(&text("a, b"), &text("b, a"), true);
        for (one, other) in [
            ("a,b", "a,c"),
            ("a,b", "b, a"),
            ("a,a,b", "a,b,a"),
            ("0,10", "10,0"),
            ("name,-date", "-date,name"),
            ("Not now, later", "later, Not now"),
        ] {
            check(&text(one), &text(other), false);
        }
        check(r#"{"description":"a,b"}"#, r#"{"description":"b,a"}"#, false);
        // The schema of the value says more.
        let described =
            |schema: &str, default: &str| format!(r#"{{"properties":{{"a":{schema}}},"default":{{"a":{default}}}}}"#);
        let same = |schema: &str, one: &str, other: &str, is_same: bool| {
            check(&described(schema, one), &described(schema, other), is_same);
        };
        same(r#"{"uniqueItems":true}"#, "[[1],[2]]", "[[2],[1]]", true);
        same(r#"{"items":{"type":"integer"}}"#, "[1,2]", "[2,1]", true);
        for tuple in [r#"{"prefixItems":[{},{}]}"#, r#"{"items":[{},{}]}"#] {
            same(tuple, "[1,2]", "[2,1]", false);
            let pair = |default: &str| tuple.replacen('{', &format!(r#"{{"default":{default},"#), 1);
            check(&pair("[1,2]"), &pair("[2,1]"), false);
        }
        check(&inside(r#"{"default":S}"#), &other(r#"{"default":S}"#), true);
        // Lists, and data that only looks like a schema.
        check(r#"{"default":[[1],[2]]}"#, r#"{"default":[[2],[1]]}"#, false);
        check(r#"{"default":["x","x","y"]}"#, r#"{"default":["x","y","x"]}"#, false);
        check(r#"{"prefixItems":[{"type":"null"},{}]}"#, r#"{"prefixItems":[{},{"type":"null"}]}"#, false);
        check(r#"{"const":["x","y"]}"#, r#"{"const":["y","x"]}"#, false);
        check(r#"{"enum":[["x","y"]]}"#, r#"{"enum":[["y","x"]]}"#, false);
        for data in [r#"{"const":S}"#, r#"{"examples":[S]}"#] {
            check(&inside(data), &other(data), false);
        }
        // Another member is another set.
        check(r#"{"required":["x","y"]}"#, r#"{"required":["x"]}"#, false);
        check(r#"{"enum":["x","y"]}"#, r#"{"enum":["x","z"]}"#, false);
    }
}
