//! The arguments of a call through the tool API. Parsed JSON takes up to sixty times its size in
//! memory, so values are counted before parsing.

use axum::http::StatusCode;
use serde_json::{Map, Value};

/// Maximum nesting depth of arguments.
const MAX_DEPTH: usize = 64;

/// Why the body of a request is not valid arguments.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArgumentsError {
    #[error("the arguments have more than {0} values")]
    TooMany(usize),
    #[error("the arguments are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("the arguments must be a JSON object")]
    NotAnObject,
    #[error("the arguments are not JSON: {0}")]
    NotJson(#[source] serde_json::Error),
}

impl ArgumentsError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooDeep | Self::NotAnObject | Self::NotJson(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Parses the body of a request: an object with at most `max_values` values, or nothing.
pub(super) fn parse(body: &[u8], max_values: usize) -> Result<Value, ArgumentsError> {
    if body.trim_ascii().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let shape = JsonShape::of(body);
    if shape.values > max_values {
        return Err(ArgumentsError::TooMany(max_values));
    }
    if shape.depth > MAX_DEPTH {
        return Err(ArgumentsError::TooDeep);
    }
    match serde_json::from_slice(body) {
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        Ok(_) => Err(ArgumentsError::NotAnObject),
        Err(error) => Err(ArgumentsError::NotJson(error)),
    }
}

/// The number of values and the depth of a JSON text.
#[derive(Debug, PartialEq, Eq)]
struct JsonShape {
    /// An upper bound of the number of values: each is alone, after a comma, or first in a list or
    /// an object. Empty lists and objects count twice.
    values: usize,
    depth: usize,
}

impl JsonShape {
    /// Counts outside of strings. Invalid JSON is parsed up to its first error, and up to there the
    /// counts are right.
    fn of(text: &[u8]) -> Self {
        let (mut shape, mut depth) = (Self { values: 1, depth: 0 }, 0_usize);
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => skip_string(&mut bytes),
                b',' => shape.values += 1,
                b'[' | b'{' => {
                    shape.values += 1;
                    depth += 1;
                    shape.depth = shape.depth.max(depth);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        shape
    }
}

/// Skips the rest of a string, including its closing quote.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Result<Value, &str>) {
        let found = parse(body.as_bytes(), 10).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{body}");
    }

    #[test]
    fn bodies() {
        check("", Ok(json!({})));
        check(" \n", Ok(json!({})));
        check(r#"{"a": [1, {"b": null}]}"#, Ok(json!({"a": [1, {"b": null}]})));
        check("[]", Err("the arguments must be a JSON object"));
        check("{", Err("the arguments are not JSON: EOF while parsing an object at line 1 column 1"));
        let strings = format!(r#"{{"[[,,\"": "{}\\"}}"#, ",[{".repeat(20));
        check(&strings, Ok(serde_json::from_str(&strings).expect("JSON")));
    }

    #[test]
    fn too_much() {
        let numbers = |count: usize| format!(r#"{{"a": [{}]}}"#, vec!["0"; count].join(","));
        check(&numbers(8), Ok(json!({"a": [0, 0, 0, 0, 0, 0, 0, 0]})));
        check(&numbers(9), Err("the arguments have more than 10 values"));
        check(&format!(r#"{{"a": [{}]}}"#, [r#"{"":0}"#; 5].join(",")), Err("the arguments have more than 10 values"));
        // Refused without being read: this is no JSON.
        check(&"[".repeat(1 << 20), Err("the arguments have more than 10 values"));
        let nested = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(parse(nested(MAX_DEPTH).as_bytes(), 1000).is_ok());
        let error = parse(nested(MAX_DEPTH + 1).as_bytes(), 1000).expect_err("too deep");
        assert_eq!(
            (error.to_string().as_str(), error.status().as_u16()),
            ("the arguments are nested deeper than 64 levels", 400)
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            r#"[\[\]{},:"\\a-cä\n]{0,8}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 5, |inner| {
            let name = r#"[\[{,"\\a]{0,4}"#;
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((name, inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// How many values there are, how many of them are empty, and how deep they nest.
    fn counted(value: &Value) -> (usize, usize, usize) {
        let members: Vec<&Value> = match value {
            Value::Array(values) => values.iter().collect(),
            Value::Object(members) => members.values().collect(),
            _ => return (1, 0, 0),
        };
        members.iter().map(|member| counted(member)).fold((1, usize::from(members.is_empty()), 1), |all, one| {
            (all.0 + one.0, all.1 + one.1, all.2.max(one.2 + 1))
        })
    }

    proptest! {
        #[test]
        fn shapes_are_what_reading_gives(value in any_json(), pretty in any::<bool>()) {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            let (values, empty, depth) = counted(&value);
            prop_assert_eq!(JsonShape::of(text.as_bytes()), JsonShape { values: values + empty, depth });
        }

        #[test]
        fn anything_can_be_looked_at(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&text, 50);
        }
    }
}
