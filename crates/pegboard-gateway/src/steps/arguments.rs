//! Arguments for a server: byte for byte as written, and repeated in headers.

use axum::http::HeaderMap;
use pegboard_core::Tool;
use pegboard_discovery::{Target, arguments_key, is_beside_name};
use pegboard_mcp::{
    headers,
    json::{Fields, Raw, is_unambiguous, raw},
    rpc::RpcError,
};
use serde_json::{Value, value::RawValue};

use crate::catalog::directory::Directory;

/// Returns the parameters for the server of `target`, which a call with `arguments` resolved to.
/// Arguments are passed byte for byte, not re-serialized.
pub(crate) fn as_written(mut params: Fields, arguments: &Value, target: &Target) -> Fields {
    if target.is_wrapped {
        let inner = params.object("arguments").and_then(|given| inner_as_written(&given, arguments));
        params.set("arguments", inner.unwrap_or_else(|| raw(&target.arguments)));
    }
    params.set("name", raw(&target.name));
    params
}

/// Returns the arguments of the tool inside those of a meta-tool, wherever the model put them;
/// `None` if they are not an object, or one that another parser could read differently.
fn inner_as_written(given: &Fields, arguments: &Value) -> Option<Raw> {
    let Some(key) = arguments_key(arguments) else {
        let mut beside = Fields::new();
        given.iter().filter(|(key, _)| is_beside_name(key)).for_each(|(key, value)| beside.set(key, value.to_owned()));
        return Some(beside.to_raw()).filter(|inner| is_unambiguous(inner));
    };
    let inner = given.get(key)?;
    let inner = match given.text(key) {
        Some(text) => RawValue::from_string(text).ok().filter(|inner| is_unambiguous(inner))?,
        None => inner.to_owned(),
    };
    inner.get().starts_with('{').then_some(inner)
}

/// Returns the arguments that are repeated in headers for the server of `target`.
pub(crate) fn mirrored_headers(directory: &Directory, server: &str, target: &Target) -> Vec<(String, String)> {
    if !directory.has_mirrored_parameters() {
        return Vec::new();
    }
    let parameters = directory.mirrored_parameters(server, &target.name).iter();
    parameters.filter_map(|one| Some((one.header.clone(), one.value(&target.arguments)?))).collect()
}

/// Checks the headers that must repeat arguments of a tool, if the client sends headers.
///
/// # Errors
/// When one is missing or differs.
pub(crate) fn check_headers(
    directory: &Directory,
    tool: &Tool,
    arguments: &Value,
    given: Option<&HeaderMap>,
) -> Result<(), RpcError> {
    let Some(given) = given.filter(|_| directory.has_mirrored_parameters()) else { return Ok(()) };
    let server = tool.server_name().unwrap_or_default();
    for parameter in directory.mirrored_parameters(server, tool.upstream_name()) {
        let header = format!("mcp-param-{}", parameter.header.to_lowercase());
        match (parameter.argument(arguments), given.get(&header)) {
            (None, _) => {}
            (Some(_), None) => return Err(header_mismatch(format!("the header `{header}` is missing"))),
            (Some(argument), Some(value)) => {
                let value = value.to_str().ok().and_then(headers::decode);
                if !value.is_some_and(|value| header_matches(&value, argument)) {
                    return Err(header_mismatch(format!("the header `{header}` does not match the body")));
                }
            }
        }
    }
    Ok(())
}

/// Returns the error for a request whose headers and body differ.
pub(crate) fn header_mismatch(message: String) -> RpcError {
    RpcError::new(RpcError::HEADER_MISMATCH, message)
}

/// Returns whether a header equals an argument; numbers may be written differently.
fn header_matches(header: &str, argument: &Value) -> bool {
    /// From here on different integers are the same float.
    const EXACT: f64 = (1_u64 << 53) as f64;
    match argument {
        Value::String(text) => header == text,
        Value::Number(number) => {
            let is_same = |given: f64| number.as_f64().is_some_and(|number| number == given && number.abs() < EXACT);
            header == number.to_string() || header.parse().is_ok_and(is_same)
        }
        Value::Bool(flag) => header.parse() == Ok(*flag),
        argument => argument.to_string().as_str() == header,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_stay_as_they_were_written() {
        #[track_caller]
        fn check(given: &str, expected: &str) {
            let params: Fields = serde_json::from_str(&format!("{{\"arguments\":{given}}}")).expect("JSON");
            let arguments: Value = serde_json::from_str(given).expect("JSON");
            let target = Target {
                id: None,
                server: None,
                name: "t".to_owned(),
                arguments: pegboard_discovery::wrapped_arguments(&arguments).into_owned(),
                is_wrapped: true,
            };
            let sent = as_written(params, &arguments, &target);
            assert_eq!(sent.get("arguments").map(RawValue::get), Some(expected), "{given}");
        }
        let long = "{\"n\":123456789012345678901234567890.10}";
        for key in ["arguments", "args", "input"] {
            check(&format!("{{\"name\":\"x\",\"{key}\":{long}}}"), long);
            check(&format!("{{\"name\":\"x\",\"{key}\":{}}}", json!(long)), long);
        }
        check("{\"name\":\"x\",\"n\":123456789012345678901234567890.10}", long);
        check("{\"name\":\"x\",\"arguments\":{},\"n\":123456789012345678901234567890.10}", long);
        check("{\"name\":\"x\"}", "{}");
        check("{\"name\":\"x\",\"arguments\":\"no JSON\"}", "\"no JSON\"");
        check("{\"name\":\"x\",\"arguments\":[1]}", "[1]");
        // A text in which a key is there twice was checked with its last value.
        check("{\"name\":\"x\",\"arguments\":\"{\\\"a\\\":1,\\\"a\\\":2}\"}", "{\"a\":2}");
        check("{\"name\":\"x\",\"a\":1,\"a\":2}", "{\"a\":2}");
        check("{\"name\":\"x\",\"a\":{\"b\":1,\"b\":2}}", "{\"a\":{\"b\":2}}");
    }

    #[test]
    fn headers_and_arguments() {
        let check = |header: &str, argument: Value, expected: bool| {
            assert_eq!(header_matches(header, &argument), expected, "{header} {argument}");
        };
        check("eu", json!("eu"), true);
        check("EU", json!("eu"), false);
        check("3", json!(3), true);
        check("3.0", json!(3), true);
        check("-0", json!(0), true);
        check("4", json!(3), false);
        check("true", json!(true), true);
        check("1", json!(true), false);
        // Texts are repeated letter by letter, also those that look like numbers.
        check("1.0", json!("1"), false);
        check("nan", json!("NaN"), false);
        // Two numbers that are one as floats are two all the same.
        check("9007199254740993", json!(9_007_199_254_740_993_u64), true);
        check("9007199254740992", json!(9_007_199_254_740_993_u64), false);
        check("9007199254740993.0", json!(9_007_199_254_740_992_u64), false);
    }
}
