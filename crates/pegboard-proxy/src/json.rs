//! JSON whose untouched parts keep their bytes.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Value, value::RawValue};

/// The fields of an object in their order, each value as it was written.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    fields: Vec<(String, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Parses an object; `None` if the text is not one, or has a key twice.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let object: Self = serde_json::from_str(text).ok()?;
        let mut keys: Vec<&str> = object.fields.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        (!keys.windows(2).any(|pair| pair[0] == pair[1])).then_some(object)
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.fields.iter().find(|(known, _)| known == key).map(|(_, value)| *value)
    }

    /// Returns the value of a key in parsed form; `None` if it is missing or `null`.
    pub(crate) fn value(&self, key: &str) -> Option<Value> {
        let value: Value = serde_json::from_str(self.get(key)?.get()).ok()?;
        (!value.is_null()).then_some(value)
    }

    /// Returns the text of a key.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// Returns whether a key is there and not `null`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.get() != "null")
    }

    /// Returns whether a flag is set.
    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.get() == "true")
    }

    /// Iterates over the fields in their order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.fields.iter().map(|(key, value)| (key.as_str(), *value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Fields).map(|fields| Self { fields })
    }
}

/// Parses a list whose items stay as they were written.
pub(crate) fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// Returns a text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns an object with another value of a field, or without the field. Everything else keeps its bytes.
pub(crate) fn with_field(object: &str, key: &str, value: Option<&str>) -> String {
    let Some(parsed) = Object::parse(object) else { return object.to_owned() };
    let mut fields: Vec<String> = Vec::new();
    let mut is_set = false;
    for (known, raw) in parsed.fields() {
        let raw = if known == key {
            is_set = true;
            let Some(value) = value else { continue };
            value
        } else {
            raw.get()
        };
        fields.push(format!("{}:{raw}", quoted(known)));
    }
    if let Some(value) = value.filter(|_| !is_set) {
        fields.push(format!("{}:{value}", quoted(key)));
    }
    format!("{{{}}}", fields.join(","))
}

/// Returns the text of a key; empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the arguments of a call as JSON; empty if there are none. Some providers write an object in place of its text.
pub(crate) fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The key of marks for the prompt cache. They move from request to request.
pub(crate) const CACHE_MARK: &str = "cache_control";

/// Appends the canonical form of a value: sorted keys, one notation of numbers, no marks for the prompt cache.
pub(crate) fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().filter(|(key, _)| *key != CACHE_MARK).collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (key, value) in fields {
                out.extend_from_slice(quoted(key).as_bytes());
                write_canonical(value, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for item in items {
                write_canonical(item, out);
                out.push(b',');
            }
            out.push(b']');
        }
        // JavaScript has one kind of number, so that clients write 1.0 as 1.
        Value::Number(number) => match number.as_f64() {
            Some(number) => out.extend_from_slice((number + 0.0).to_string().as_bytes()),
            None => out.extend_from_slice(number.to_string().as_bytes()),
        },
        other => out.extend_from_slice(other.to_string().as_bytes()),
    }
}

/// Adds the numbers in `more` to those in `sum`, field by field.
pub(crate) fn add_numbers(sum: &mut Value, more: &Value) {
    match (&mut *sum, more) {
        (Value::Object(fields), Value::Object(more)) => {
            for (key, value) in more {
                add_numbers(fields.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Number(number), Value::Number(more)) => {
            if let (Some(a), Some(b)) = (number.as_u64(), more.as_u64()) {
                *sum = a.saturating_add(b).into();
            } else if let (Some(a), Some(b)) = (number.as_f64(), more.as_f64()) {
                *sum = serde_json::Number::from_f64(a + b).map_or(Value::Null, Value::Number);
            }
        }
        (_, Value::Null) => {}
        (_, more) => *sum = more.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_keep_bytes_and_order() {
        let object = Object::parse(r#"{"b": {"x" : 1.0}, "a":null,"c":true}"#).expect("an object");
        let fields: Vec<(&str, &str)> = object.fields().map(|(key, value)| (key, value.get())).collect();
        assert_eq!(fields, [("b", r#"{"x" : 1.0}"#), ("a", "null"), ("c", "true")]);
        assert!(!object.has("a") && object.is_true("c") && object.value("a").is_none());
        for bad in ["[]", "{", r#"{"a":1,"a":2}"#, ""] {
            assert!(Object::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn fields_are_changed_in_place() {
        let check = |key: &str, value: Option<&str>, expected: &str| {
            assert_eq!(with_field(r#"{"a": 1.0,"b":{"x" : 2}}"#, key, value), expected);
        };
        check("a", None, r#"{"b":{"x" : 2}}"#);
        check("a", Some("3"), r#"{"a":3,"b":{"x" : 2}}"#);
        check("c", Some("true"), r#"{"a":1.0,"b":{"x" : 2},"c":true}"#);
        check("c", None, r#"{"a":1.0,"b":{"x" : 2}}"#);
    }

    #[test]
    fn canonical_forms() {
        let write = |value: &Value| {
            let mut out = Vec::new();
            write_canonical(value, &mut out);
            String::from_utf8(out).expect("text")
        };
        let marked = json!({"b": [1, {"cache_control": {}, "c": "x"}], "a": null});
        assert_eq!(write(&marked), write(&json!({"a": null, "b": [1, {"c": "x"}]})));
        assert_ne!(write(&json!([1, 2])), write(&json!([12])));
        assert_ne!(write(&json!({"a": "b"})), write(&json!({"ab": ""})));
    }

    #[test]
    fn numbers_are_added() {
        let check = |a: Value, b: Value, expected: Value| {
            let mut sum = a.clone();
            add_numbers(&mut sum, &b);
            assert_eq!(sum, expected, "{a} {b}");
        };
        check(
            json!({"a": 1, "d": {"c": 2}}),
            json!({"a": 2, "d": {"c": 3}, "e": 4}),
            json!({"a": 3, "d": {"c": 5}, "e": 4}),
        );
        check(json!({"a": 1}), json!({"a": null}), json!({"a": 1}));
        check(json!({"tier": "x"}), json!({"tier": "y"}), json!({"tier": "y"}));
        check(json!(null), json!({"a": 1}), json!({"a": 1}));
    }
}
