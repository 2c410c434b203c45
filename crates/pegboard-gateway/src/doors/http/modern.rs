//! Modern requests: each stands alone, and its headers must agree with its body.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderMap, Response, StatusCode},
};
use pegboard_http::PeerAddress;
use pegboard_upstream::{
    era::{Era, MODERN_VERSION, meta},
    headers,
    json::{Fields, Raw},
    rpc::{Message, RpcError},
    trace::TraceContext,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::{
    OUTLET, VERSION,
    body::{self, AbortOnDrop, Answer},
    responses::{refuse, status, too_many_streams},
    sent::Arrival,
};
use crate::{
    bounds,
    exchange::{Exchange, Viewer, level},
    gateway::Gateway,
    trace::Opening,
};

pub(super) async fn post(
    gateway: &Arc<Gateway>,
    arrival: &Arrival,
    message: Message,
    opening: Opening,
) -> Response<Body> {
    let (id, method, params) = match message {
        Message::Request { id, method, params } => (id, method, params),
        // Nothing that is no request means anything here.
        Message::Notification { .. } | Message::Response { .. } => return status(StatusCode::ACCEPTED),
    };
    let (outlet, messages) = mpsc::channel(OUTLET);
    let checked = check(&method, params.as_deref())
        .and_then(|checked| check_headers(&arrival.headers, &method, &checked).map(|()| checked))
        .and_then(|checked| check_version(&checked).map(|()| checked));
    let checked = match checked {
        Ok(checked) => checked,
        Err(error) => return refuse(status_of(&error), Some(&id), &error),
    };
    let exchange = gateway.modern_exchange(arrival.viewer.clone(), arrival.address, &checked, opening.trace, outlet);
    if let Err(error) = gateway.check_mirrored(&exchange, &arrival.headers, &method, &checked.params).await {
        return refuse(status_of(&error), Some(&id), &error);
    }
    let slot = match method.as_str() {
        "subscriptions/listen" => match gateway.open_stream(arrival.party()) {
            Some(slot) => Some(slot),
            None => return too_many_streams(Some(&id)),
        },
        _ => None,
    };
    let (gateway, request) = (Arc::clone(gateway), id.clone());
    let work = async move {
        let _slot = slot;
        let outcome = gateway.answer(&exchange, &request, &method, params).await;
        let status = outcome.as_ref().map_or_else(|error| status_of(error).as_u16(), |_| 200);
        Answer { status, line: Message::response(Some(&request), outcome.as_deref()) }
    };
    let task = tokio::spawn(work.in_current_span());
    // A client that closes its stream has cancelled.
    let guard = AbortOnDrop(task.abort_handle());
    body::respond(messages, task, true, Some(guard)).await
}

/// The HTTP status that goes with a refusal.
fn status_of(error: &RpcError) -> StatusCode {
    match error.code {
        RpcError::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        RpcError::PARSE
        | RpcError::INVALID_REQUEST
        | RpcError::INVALID_PARAMS
        | RpcError::HEADER_MISMATCH
        | RpcError::MISSING_CAPABILITY
        | RpcError::UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// A request whose `_meta` is complete.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) version: String,
    pub(crate) capabilities: Raw,
    pub(crate) params: Fields,
    pub(crate) own: Fields,
}

/// Takes `_meta` apart.
///
/// # Errors
/// When it lacks what every modern request must say.
pub(crate) fn check(method: &str, params: Option<&serde_json::value::RawValue>) -> Result<Checked, RpcError> {
    let wrong = |what: &str| RpcError::new(RpcError::INVALID_PARAMS, format!("`{method}` needs `_meta` with `{what}`"));
    let params = Fields::of_optional(params);
    let own = params.object("_meta").ok_or_else(|| wrong(meta::PROTOCOL_VERSION))?;
    let version = own.text(meta::PROTOCOL_VERSION).ok_or_else(|| wrong(meta::PROTOCOL_VERSION))?;
    let capabilities = own.get(meta::CLIENT_CAPABILITIES).filter(|value| value.get().starts_with('{'));
    let capabilities = capabilities.ok_or_else(|| wrong(meta::CLIENT_CAPABILITIES))?.to_owned();
    bounds::check_capabilities(&capabilities)?;
    if own.has(meta::LOG_LEVEL) && own.text(meta::LOG_LEVEL).and_then(|name| level(&name)).is_none() {
        return Err(RpcError::new(RpcError::INVALID_PARAMS, format!("`{}` is no log level", meta::LOG_LEVEL)));
    }
    Ok(Checked { version, capabilities, params, own })
}

/// Refuses versions that are not served.
///
/// # Errors
/// When the request is of another version.
pub(crate) fn check_version(checked: &Checked) -> Result<(), RpcError> {
    if checked.version == MODERN_VERSION {
        return Ok(());
    }
    let data = json!({"supported": [MODERN_VERSION], "requested": checked.version});
    Err(RpcError::new(RpcError::UNSUPPORTED_VERSION, "unsupported protocol version").with_data(&data))
}

fn check_headers(headers: &HeaderMap, method: &str, checked: &Checked) -> Result<(), RpcError> {
    must_agree(headers, VERSION, &checked.version, false)?;
    must_agree(headers, "mcp-method", method, false)?;
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return Ok(()),
    };
    match checked.params.text(key) {
        Some(name) => must_agree(headers, "mcp-name", &name, true),
        // The method itself says what is missing.
        None => Ok(()),
    }
}

fn mismatch(message: String) -> RpcError {
    RpcError::new(RpcError::HEADER_MISMATCH, message)
}

fn must_agree(headers: &HeaderMap, name: &str, expected: &str, may_be_encoded: bool) -> Result<(), RpcError> {
    let value = headers.get(name).ok_or_else(|| mismatch(format!("the header `{name}` is missing")))?;
    let value = value.to_str().map(|value| value.trim_matches([' ', '\t'])).ok();
    let value = match may_be_encoded {
        true => value.and_then(headers::decode),
        false => value.map(str::to_owned),
    };
    let value = value.ok_or_else(|| mismatch(format!("the header `{name}` is malformed")))?;
    if value == expected {
        return Ok(());
    }
    Err(mismatch(format!("the header `{name}` does not agree with the body")))
}

/// Whether a header says the same as an argument; numbers may be written differently.
fn says(header: &str, argument: &Value) -> bool {
    /// From here on different whole numbers are the same float.
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

impl Gateway {
    /// What a modern request depends on.
    pub(crate) fn modern_exchange(
        &self,
        viewer: Viewer,
        address: Option<PeerAddress>,
        checked: &Checked,
        trace: TraceContext,
        outlet: mpsc::Sender<String>,
    ) -> Exchange {
        Exchange {
            era: Era::Modern,
            viewer,
            address,
            session: None,
            capabilities: checked.capabilities.clone(),
            log_level: checked.own.text(meta::LOG_LEVEL),
            progress: checked.own.get("progressToken").map(ToOwned::to_owned),
            outlet,
            owner: self.next_owner(),
            trace,
        }
    }

    /// Checks the headers that repeat a tool's parameters.
    async fn check_mirrored(
        &self,
        exchange: &Exchange,
        headers: &HeaderMap,
        method: &str,
        params: &Fields,
    ) -> Result<(), RpcError> {
        if method != "tools/call" {
            return Ok(());
        }
        let directory = self.directory();
        let (Some(name), true) = (params.text("name"), directory.mirrors_any()) else { return Ok(()) };
        let arguments: Value = params.read("arguments").unwrap_or_default();
        let target = self.with_tools(exchange, |tools| tools.find(&name));
        let Some(tool) = target else { return Ok(()) };
        let server = tool.server_name().unwrap_or_default();
        for parameter in directory.mirrored(server, tool.upstream_name()) {
            let header = format!("mcp-param-{}", parameter.header.to_lowercase());
            match (parameter.argument(&arguments), headers.get(&header)) {
                (None, _) => {}
                (Some(_), None) => return Err(mismatch(format!("the header `{header}` is missing"))),
                (Some(argument), Some(given)) => {
                    let given = given.to_str().ok().and_then(headers::decode);
                    if !given.is_some_and(|given| says(&given, argument)) {
                        return Err(mismatch(format!("the header `{header}` does not agree with the body")));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_arguments() {
        let check = |header: &str, argument: Value, expected: bool| {
            assert_eq!(says(header, &argument), expected, "{header} {argument}");
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
