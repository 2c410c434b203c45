//! Equality, order and integers as JSON Schema defines them.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::Verdict::{self, Maybe, Yes};

/// Returns whether both are the same value; 1 and 1.0 are equal.
pub(super) fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Compares two numbers.
pub(super) fn order(a: &Number, b: &Number) -> Option<Ordering> {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Returns whether a number is an integer, however it is written.
pub(super) fn is_whole(number: &Number) -> bool {
    number.as_i128().is_some() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Returns whether a number is a multiple of another; `None` if that is undefined. Decimal
/// fractions are not exact in memory, so a small deviation is allowed.
pub(super) fn is_multiple(number: &Number, of: &Number) -> Option<bool> {
    if let (Some(number), Some(of)) = (number.as_i128(), of.as_i128()) {
        return (of != 0).then(|| number % of == 0);
    }
    let times = number.as_f64()? / of.as_f64()?;
    times.is_finite().then(|| (times - times.round()).abs() <= 1e-9 * times.abs().max(1.0))
}

/// Returns whether a value is of a type; `None` for types that JSON Schema does not have.
pub(super) fn is_type(value: &Value, kind: &str) -> Option<bool> {
    Some(match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => matches!(value, Value::Number(number) if is_whole(number)),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => return None,
    })
}

/// Checks a number against a keyword.
pub(super) fn number_keyword(key: &str, rule: &Value, rules: &Map<String, Value>, number: &Number) -> Verdict {
    // In draft 4 a flag beside the bound, which then is not itself allowed.
    let is_strict = |flag: &str| rules.get(flag) == Some(&Value::Bool(true));
    let Value::Number(bound) = rule else {
        return match (key, rule) {
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) => Yes,
            _ => of_another_kind(key),
        };
    };
    let Some(order) = order(number, bound) else { return Maybe };
    match key {
        "minimum" => (order.is_gt() || order.is_eq() && !is_strict("exclusiveMinimum")).into(),
        "maximum" => (order.is_lt() || order.is_eq() && !is_strict("exclusiveMaximum")).into(),
        "exclusiveMinimum" => order.is_gt().into(),
        "exclusiveMaximum" => order.is_lt().into(),
        "multipleOf" => is_multiple(number, bound).into(),
        _ => of_another_kind(key),
    }
}

/// Checks a length against a bound, which may be written as `3.0`.
pub(super) fn within(is_least: bool, bound: &Value, length: usize) -> Verdict {
    let Value::Number(bound) = bound else { return Maybe };
    match order(&Number::from(length), bound) {
        Some(order) if is_least => order.is_ge().into(),
        Some(order) => order.is_le().into(),
        None => Maybe,
    }
}

/// Returns the verdict of a keyword that does not apply to the type of the value; undecided if the
/// keyword is unknown.
pub(super) fn of_another_kind(key: &str) -> Verdict {
    match key {
        "minimum"
        | "maximum"
        | "exclusiveMinimum"
        | "exclusiveMaximum"
        | "multipleOf"
        | "minLength"
        | "maxLength"
        | "pattern"
        | "items"
        | "prefixItems"
        | "additionalItems"
        | "contains"
        | "minItems"
        | "maxItems"
        | "uniqueItems"
        | "properties"
        | "patternProperties"
        | "additionalProperties"
        | "propertyNames"
        | "required"
        | "minProperties"
        | "maxProperties" => Yes,
        _ => Maybe,
    }
}
