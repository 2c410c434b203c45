//! Requests at the gateway's door: who may come in, what headers say, and whether they agree
//! with the body.
//!
//! An input is a request as HTTP/1.1 writes it. `SESSION` in a header stands for the name of
//! a conversation that has begun.

#![no_main]

#[path = "headers/door.rs"]
mod door;
#[path = "headers/guards.rs"]
mod guards;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use libfuzzer_sys::fuzz_target;
use pegboard_fuzz::text;
use pegboard_mcp::{headers, trace::TraceContext};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let Some(request) = parse(bytes) else { return };
    for value in request.headers().values() {
        if let Ok(value) = value.to_str() {
            check_encoding(value);
        }
    }
    if let Some(body) = text(request.body()) {
        check_encoding(body);
        if let Ok(schema) = serde_json::from_str(body) {
            check_mirrored(&schema);
        }
    }
    check_trace(request.headers());
    guards::check(&request);
    door::check(request);
});

/// The request in `bytes`, if HTTP would take it for one.
fn parse(bytes: &[u8]) -> Option<Request<Vec<u8>>> {
    let end = bytes.windows(2).position(|two| two == b"\n\n").unwrap_or(bytes.len());
    let (head, body) = (&bytes[..end], bytes.get(end + 2..).unwrap_or_default());
    let mut lines = head.split(|byte| *byte == b'\n');
    let (method, path) = text(lines.next()?)?.split_once(' ')?;
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let mut request = Request::builder().method(method).uri(path.parse::<Uri>().ok()?);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (HeaderName::from_bytes(&line[..colon]).ok()?, line[colon + 1..].trim_ascii());
        let value = if value == b"SESSION" { door::session() } else { HeaderValue::from_bytes(value).ok()? };
        request = request.header(name, value);
    }
    request.body(body.to_vec()).ok()
}

/// What a header carries is what was meant, whatever that is.
fn check_encoding(value: &str) {
    let encoded = headers::encode(value);
    assert_eq!(headers::decode(&encoded).as_deref(), Some(value), "what is encoded can be decoded");
    let header = HeaderValue::try_from(encoded).expect("what is encoded is a header");
    assert_eq!(header.to_str().expect("text").trim_matches([' ', '\t']), header, "nothing is lost at its ends");
    if let Some(decoded) = headers::decode(value) {
        assert_eq!(headers::decode(&headers::encode(&decoded)), Some(decoded));
    }
}

/// What is passed on of a trace is well-formed: a reader takes all of it.
fn check_trace(headers: &HeaderMap) {
    let context = TraceContext::read(|key| headers.get(key)?.to_str().ok().map(str::to_owned));
    let texts: Vec<(&str, &str)> = context.iter().collect();
    for (_, text) in &texts {
        assert!(HeaderValue::try_from(*text).is_ok() && text.len() <= 8192, "a text of a trace is a header");
    }
    let find = |key: &str| texts.iter().find(|(name, _)| *name == key).map(|(_, text)| (*text).to_owned());
    assert_eq!(TraceContext::read(find), context, "what is passed on is taken over whole");
    assert!(context.trace_id().is_none_or(|id| id.len() == 32));
}

/// Parameters that headers repeat are such that headers can.
fn check_mirrored(schema: &Value) {
    let Ok(found) = headers::mirrored_parameters(schema) else { return };
    for (at, parameter) in found.iter().enumerate() {
        assert!(HeaderName::try_from(format!("mcp-param-{}", parameter.header)).is_ok());
        let is_same = |other: &headers::MirroredParameter| other.header.eq_ignore_ascii_case(&parameter.header);
        assert!(!found[..at].iter().any(is_same), "a header stands for one parameter");
        let leaf = Value::from("x");
        let arguments = parameter.path.iter().rev().fold(leaf, |inner, key| Value::from_iter([(key.as_str(), inner)]));
        assert_eq!(parameter.value(&arguments).as_deref(), Some("x"), "the path leads to the value");
        let _ = parameter.value(schema);
    }
}
