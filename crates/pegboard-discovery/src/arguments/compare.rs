//! What JSON Schema takes for equal, for larger and for a whole number.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Whether both are the same value; 1 and 1.0 are.
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

/// Which number is larger.
pub(super) fn order(a: &Number, b: &Number) -> Option<Ordering> {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Whether a number is whole, however it is written.
pub(super) fn is_whole(number: &Number) -> bool {
    number.as_i128().is_some() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Whether a number is a multiple of another; `None` where that makes no sense. Decimal
/// fractions are not exact in memory, so nearly counts.
pub(super) fn is_multiple(number: &Number, of: &Number) -> Option<bool> {
    if let (Some(number), Some(of)) = (number.as_i128(), of.as_i128()) {
        return (of != 0).then(|| number % of == 0);
    }
    let times = number.as_f64()? / of.as_f64()?;
    times.is_finite().then(|| (times - times.round()).abs() <= 1e-9 * times.abs().max(1.0))
}

/// Whether a value is of a type; `None` for types that JSON Schema does not have.
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
