//! JSON-RPC messages: one, many and large ones, and what we write of them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pegboard_fuzz::text;
use pegboard_mcp::{json::{Fields, Raw, is_unambiguous, one_line, range_in}, rpc::{Id, Message, RpcError}};
use serde_json::{Value, value::RawValue};

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    check_readers(text);
    if let Ok(value) = serde_json::from_str::<&RawValue>(text) {
        check_value(text, value);
    }
    for message in Message::parse_all(text).unwrap_or_default() {
        check_written(&message);
    }
});

/// However a text is read, it is the same message.
fn check_readers(text: &str) {
    let one = Message::parse(text);
    let large = Message::parse_large(text.to_owned());
    assert_eq!(format!("{one:?}"), format!("{large:?}"), "a large message is the same message");
    let Ok(one) = one else { return };
    let batch = Message::parse_all(&format!("[{text},{text}]")).expect("a batch of messages");
    assert_eq!(batch.len(), 2);
    for message in batch {
        assert_eq!(format!("{message:?}"), format!("{one:?}"), "a batch holds the same message");
    }
}

/// What is passed through keeps its bytes.
fn check_value(text: &str, value: &RawValue) {
    assert_eq!(&text[range_in(text, value)], value.get());
    let line = one_line(value);
    assert!(!line.contains(['\n', '\r']));
    let read: Option<Value> = serde_json::from_str(value.get()).ok();
    assert_eq!(serde_json::from_str::<Value>(&line).ok(), read, "on one line it is the same value");
    if is_unambiguous(value) {
        // Readers that take the first of two keys and readers that take the last read the same.
        let read = read.clone().expect("what is unambiguous can be read");
        let again: Value = serde_json::from_str(&read.to_string()).expect("what is written can be read");
        assert_eq!(without_numbers(again), without_numbers(read));
    }
    let Some(fields) = Fields::of(value) else { return };
    let again = Fields::of(&fields.to_raw()).expect("an object");
    let show = |fields: &Fields| -> Vec<(String, String)> {
        fields.iter().map(|(key, value)| (key.to_owned(), value.get().to_owned())).collect()
    };
    assert_eq!(show(&fields), show(&again), "fields keep their order and their bytes");
    let keys: Vec<String> = fields.iter().map(|(key, _)| key.to_owned()).collect();
    for key in &keys {
        let (mut changed, mut removed) = (fields.clone(), fields.clone());
        changed.set(key, pegboard_mcp::json::raw("other"));
        let taken = removed.remove(key).expect("a field that is there");
        assert!(!removed.has(key) && fields.get(key).map(RawValue::get) == Some(taken.get()));
        let rest = |fields: &Fields| -> Vec<_> { show(fields).into_iter().filter(|(name, _)| name != key).collect() };
        assert_eq!(rest(&changed), rest(&fields), "a change leaves the others alone");
        assert_eq!(show(&removed), rest(&fields));
    }
}

/// The last digit of a number that is no whole one may change when it is read and written; what is
/// passed through is not read.
fn without_numbers(value: Value) -> Value {
    match value {
        Value::Number(_) => Value::Null,
        Value::Array(items) => items.into_iter().map(without_numbers).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, without_numbers(value))).collect(),
        other => other,
    }
}

/// What we write is one line, and reads as what was meant.
fn check_written(message: &Message) {
    let line = match message {
        Message::Request { id, method, params } => Message::request(id, method, params.as_deref()),
        Message::Notification { method, params } => Message::notification(method, params.as_deref()),
        Message::Response { id, outcome } => Message::response(id.as_ref(), outcome.as_deref()),
    };
    assert!(!line.contains(['\n', '\r']), "a message is one line");
    let read = Message::parse(&line).expect("what is written can be read");
    assert_eq!(shown(&read), shown(message));
    let again = match &read {
        Message::Request { id, method, params } => Message::request(id, method, params.as_deref()),
        Message::Notification { method, params } => Message::notification(method, params.as_deref()),
        Message::Response { id, outcome } => Message::response(id.as_ref(), outcome.as_deref()),
    };
    assert_eq!(again, line, "the same message is the same bytes");
    if let Message::Request { id, .. } = message
        && let Some(number) = id.as_number()
    {
        assert_eq!(Id::from(number), *id, "one of our numbers has one spelling");
    }
    if let Message::Response { outcome: Ok(result), .. } = message {
        pegboard_agent::fuzzing::read_result(result.clone());
    }
}

/// A message up to space between tokens.
fn shown(message: &Message) -> String {
    let params = |params: &Option<Raw>| params.as_deref().map(|params| one_line(params).into_owned());
    let error = |error: &RpcError| {
        let data = error.data.as_deref().map(|data| one_line(data).into_owned());
        format!("{} {:?} {data:?}", error.code, error.message)
    };
    match message {
        Message::Request { id, method, params: given } => format!("{} {method:?} {:?}", id.get(), params(given)),
        Message::Notification { method, params: given } => format!("{method:?} {:?}", params(given)),
        Message::Response { id, outcome } => {
            let outcome = outcome.as_deref().map(|result| one_line(result).into_owned()).map_err(error);
            format!("{:?} {outcome:?}", id.as_ref().map(Id::get))
        }
    }
}
