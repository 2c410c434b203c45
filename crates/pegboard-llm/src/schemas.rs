//! Rules of providers for the input schemas of tools.
//!
//! Schemas are passed on unchanged; the rules only report. One schema that a provider rejects
//! fails the whole request.

use serde_json::{Map, Value};

use crate::model::Provider;

/// A part of a schema that providers reject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaRefusal {
    /// The providers that reject it.
    pub providers: Vec<Provider>,
    /// The place in the schema, such as `properties.tags`; empty for the schema itself.
    pub place: String,
    /// The reason, as a sentence whose subject is the place.
    pub reason: String,
}

/// A rule for the input schema of a tool. Which of them a provider enforces is in its
/// [`Profile`](crate::wire::profile::Profile).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaRule {
    /// The schema is a JSON object.
    IsObject,
    /// The schema has the type `object`.
    HasObjectType,
    /// The top level has no `oneOf`, `anyOf` or `allOf`.
    NoTopLevelCombination,
    /// The top level has no `enum` or `not`.
    NoTopLevelRestriction,
    /// Names of properties are short and plain.
    PlainPropertyNames,
    /// Every part is a schema.
    PartsAreSchemas,
    /// `items` is one schema.
    OneItemsSchema,
    /// Every `type` is one of JSON Schema.
    KnownTypes,
    /// Every array has `items`.
    ArraysHaveItems,
    /// An `enum` holds strings.
    StringEnums,
    /// Required properties are defined.
    RequiredAreDefined,
    /// `required` is a list.
    RequiredIsList,
    /// `exclusiveMinimum` and `exclusiveMaximum` are numbers.
    NumericBounds,
    /// Every `$ref` leads to a part of the schema.
    InnerReferences,
}

/// How many refusals of one schema are reported.
const MOST: usize = 8;

/// The depth to which a schema is read.
const DEEPEST: usize = 64;

/// The number of parts of a schema that are read.
const MOST_PARTS: usize = 20_000;

/// The types that JSON Schema has.
const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

/// The longest name of a property.
const LONGEST_NAME: usize = 64;

/// Returns what providers reject in the input schema of a tool, as far as their rules are known.
///
/// ```
/// use pegboard_llm::schemas::refusals;
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"tags": {"type": "array"}}});
/// let refused = &refusals(&schema)[0];
/// assert_eq!(refused.place, "properties.tags");
/// assert_eq!(refused.reason, "is an array without `items`");
/// ```
pub fn refusals(schema: &Value) -> Vec<SchemaRefusal> {
    let mut reader = Reader { root: schema, found: Vec::new(), parts: 0 };
    reader.root();
    reader.part(schema, "", 0);
    reader.found
}

struct Reader<'a> {
    root: &'a Value,
    found: Vec<SchemaRefusal>,
    parts: usize,
}

impl Reader<'_> {
    fn refuse(&mut self, rule: SchemaRule, place: &str, reason: impl Into<String>) {
        let enforces = |provider: &Provider| provider.profile().schema_rules.contains(&rule);
        let providers: Vec<Provider> = Provider::ALL.into_iter().filter(enforces).collect();
        if self.found.len() < MOST && !providers.is_empty() {
            self.found.push(SchemaRefusal { providers, place: place.to_owned(), reason: reason.into() });
        }
    }

    /// Checks the top level.
    fn root(&mut self) {
        let Some(schema) = self.root.as_object() else {
            return self.refuse(SchemaRule::IsObject, "", "is not an object");
        };
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            self.refuse(SchemaRule::HasObjectType, "", "is not of the type `object`");
        }
        for key in ["oneOf", "anyOf", "allOf"].into_iter().filter(|key| schema.contains_key(*key)) {
            self.refuse(SchemaRule::NoTopLevelCombination, "", format!("has `{key}` at its top level"));
        }
        for key in ["enum", "not"].into_iter().filter(|key| schema.contains_key(*key)) {
            self.refuse(SchemaRule::NoTopLevelRestriction, "", format!("has `{key}` at its top level"));
        }
        let names = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let is_fine = |name: &str| (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_letter);
        let odd: Vec<&String> = names.filter(|name| !is_fine(name)).collect();
        for name in odd {
            let reason = "has a name that is not 1 to 64 letters, digits, `_`, `.` or `-`";
            self.refuse(SchemaRule::PlainPropertyNames, &under("properties", name), reason);
        }
    }

    /// Checks a part and the parts within it.
    fn part(&mut self, part: &Value, place: &str, depth: usize) {
        self.parts += 1;
        let Some(schema) = part.as_object() else {
            if !part.is_boolean() {
                self.refuse(SchemaRule::PartsAreSchemas, place, "is not a schema");
            }
            return;
        };
        if depth > DEEPEST || self.parts > MOST_PARTS || self.found.len() >= MOST {
            return;
        }
        self.types(schema, place);
        self.keywords(schema, place);
        self.reference(schema, place);
        for (key, inner) in schema {
            match (key.as_str(), inner) {
                (
                    "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                    Value::Object(map),
                ) => {
                    let place = under(place, key);
                    map.iter().for_each(|(name, inner)| self.part(inner, &under(&place, name), depth + 1));
                }
                ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(list)) => {
                    let place = under(place, key);
                    let each = list.iter().enumerate();
                    each.for_each(|(at, inner)| self.part(inner, &format!("{place}[{at}]"), depth + 1));
                }
                ("items", Value::Array(_)) => {
                    self.refuse(SchemaRule::OneItemsSchema, place, "has a list as its `items`");
                }
                (
                    "items" | "additionalProperties" | "not" | "if" | "then" | "else" | "contains" | "propertyNames",
                    _,
                ) => {
                    self.part(inner, &under(place, key), depth + 1);
                }
                _ => {}
            }
        }
    }

    fn types(&mut self, schema: &Map<String, Value>, place: &str) {
        let types: Vec<Option<&str>> = match schema.get("type") {
            Some(Value::Array(list)) => list.iter().map(Value::as_str).collect(),
            Some(one) => vec![one.as_str()],
            None => Vec::new(),
        };
        if types.iter().any(|name| !name.is_some_and(|name| TYPES.contains(&name))) {
            self.refuse(SchemaRule::KnownTypes, place, "has a `type` that JSON Schema does not define");
        }
        if types.contains(&Some("array")) && !schema.contains_key("items") {
            self.refuse(SchemaRule::ArraysHaveItems, place, "is an array without `items`");
        }
        let has_others = |list: &Vec<Value>| list.iter().any(|value| !value.is_string() && !value.is_null());
        if schema.get("enum").and_then(Value::as_array).is_some_and(has_others) {
            self.refuse(SchemaRule::StringEnums, place, "has an `enum` with values that are not strings");
        }
    }

    /// Checks keywords that older drafts write differently.
    fn keywords(&mut self, schema: &Map<String, Value>, place: &str) {
        match schema.get("required") {
            Some(Value::Array(names)) => {
                // A part that defines none may only say which of the whole's are needed.
                let known = schema.get("properties").and_then(Value::as_object);
                let lacks = |known: &Map<String, Value>, name: &Value| {
                    name.as_str().is_none_or(|name| !known.contains_key(name))
                };
                if known.is_some_and(|known| names.iter().any(|name| lacks(known, name))) {
                    self.refuse(SchemaRule::RequiredAreDefined, place, "requires a property that it does not define");
                }
            }
            Some(_) => self.refuse(SchemaRule::RequiredIsList, place, "has a `required` that is not a list"),
            None => {}
        }
        for key in ["exclusiveMinimum", "exclusiveMaximum"] {
            if schema.get(key).is_some_and(Value::is_boolean) {
                self.refuse(SchemaRule::NumericBounds, place, format!("has an `{key}` that is not a number"));
            }
        }
    }

    fn reference(&mut self, schema: &Map<String, Value>, place: &str) {
        let Some(target) = schema.get("$ref").and_then(Value::as_str) else { return };
        let is_found = match target.strip_prefix('#') {
            Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => self.root.pointer(pointer).is_some(),
            // An anchor; its target is not searched.
            Some(_) => true,
            None => false,
        };
        if !is_found {
            self.refuse(SchemaRule::InnerReferences, place, "has a `$ref` to a schema that it does not contain");
        }
    }
}

/// `place` with `name` behind it.
fn under(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The refusals of an object's schema with `more` in it.
    #[track_caller]
    fn check(more: Value, expected: &[&str]) {
        let mut schema = json!({"type": "object", "properties": {"a": {}}});
        let Value::Object(more) = more else { panic!("no object: {more}") };
        more.into_iter().for_each(|(key, value)| schema[key] = value);
        let shown = |refusal: SchemaRefusal| {
            let providers: Vec<&str> = refusal.providers.iter().map(|provider| provider.as_str()).collect();
            format!("{}: `{}` {}", providers.join(" "), refusal.place, refusal.reason)
        };
        assert_eq!(refusals(&schema).into_iter().map(shown).collect::<Vec<_>>(), expected, "{schema}");
    }

    #[test]
    fn what_everybody_takes() {
        check(json!({}), &[]);
        check(json!({"required": ["a"], "additionalProperties": false, "$schema": "x"}), &[]);
        check(
            json!({
                "properties": {"a": {"anyOf": [{"type": ["string", "null"]}, {"$ref": "#/$defs/b"}]}},
                "$defs": {"b": {"type": "array", "items": {"$ref": "#"}}}
            }),
            &[],
        );
    }

    #[test]
    fn what_the_top_level_must_not_be() {
        check(json!({"type": "string"}), &["anthropic openai openai-responses: `` is not of the type `object`"]);
        check(json!({"anyOf": []}), &["anthropic openai openai-responses: `` has `anyOf` at its top level"]);
        check(json!({"not": {}}), &["openai openai-responses: `` has `not` at its top level"]);
        check(
            json!({"properties": {"a b": {}}}),
            &["anthropic: `properties.a b` has a name that is not 1 to 64 letters, digits, `_`, `.` or `-`"],
        );
        assert_eq!(refusals(&json!([])).len(), 2);
    }

    #[test]
    fn what_no_part_may_be() {
        let part = |part: Value, expected: &[&str]| check(json!({"properties": {"a": part}}), expected);
        part(
            json!({"items": {"type": "array"}, "type": "array"}),
            &["openai openai-responses gemini: `properties.a.items` is an array without `items`"],
        );
        part(
            json!({"type": "float"}),
            &["anthropic openai openai-responses gemini: `properties.a` has a `type` that JSON Schema does not define"],
        );
        part(json!({"enum": [1, 2]}), &["gemini: `properties.a` has an `enum` with values that are not strings"]);
        part(
            json!({"required": true}),
            &["anthropic openai openai-responses: `properties.a` has a `required` that is not a list"],
        );
        part(json!({"required": ["b"]}), &[]);
        part(
            json!({"properties": {"c": {}}, "required": ["b"]}),
            &["gemini: `properties.a` requires a property that it does not define"],
        );
        part(
            json!({"exclusiveMinimum": true}),
            &["anthropic openai openai-responses: `properties.a` has an `exclusiveMinimum` that is not a number"],
        );
        part(json!({"items": [{}]}), &["anthropic openai openai-responses: `properties.a` has a list as its `items`"]);
        for target in ["#/$defs/none", "https://example.com/schema"] {
            part(
                json!({"$ref": target}),
                &["anthropic openai openai-responses gemini: `properties.a` has a `$ref` to a schema that it does \
                     not contain"],
            );
        }
        part(json!("text"), &["anthropic openai openai-responses: `properties.a` is not a schema"]);
    }

    proptest! {
        #[test]
        fn any_schema_is_looked_at(text in r#"(\{|\}|\[|\]|,|:|"(type|items|required|\$ref|anyOf|properties|enum|#/a)"|true|null|1){0,40}"#) {
            if let Ok(schema) = serde_json::from_str(&text) {
                prop_assert!(refusals(&schema).len() <= MOST);
            }
        }
    }
}
