//! Replies in the format of a protocol version.

use std::fmt::Write as _;

use pegboard_mcp::{
    era::{Era, MODERN_VERSION, meta},
    json::{Fields, Raw, one_line, raw},
    rpc::{Id, Message, RpcError},
};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::legacy_tools;
use crate::{
    forward::calls::is_input_required,
    request::{Caching, Failure, Forwarded, Greeting, Outcome, Page, Reply, Text},
    tasks,
};

/// Returns the response to a request as one line.
pub(crate) fn reply_line(era: Era, id: &Id, outcome: Outcome) -> String {
    match outcome {
        Ok(reply) => {
            let mut line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.get());
            match era {
                Era::Modern => write_modern(&mut line, id, reply),
                Era::Legacy => write_legacy(&mut line, reply),
            }
            line.push('}');
            line
        }
        Err(failure) => Message::response(Some(id), Err(&to_rpc_error(era, failure))),
    }
}

/// Returns an error response as one line. If the `id` of the request could not be read, the
/// response has none: MCP allows only strings and numbers, and strict clients reject the `null` of
/// JSON-RPC.
pub(crate) fn error_line(id: Option<&Id>, error: &RpcError) -> String {
    match id {
        Some(id) => Message::response(Some(id), Err(error)),
        None => Fields::new().with("jsonrpc", "2.0").with("error", error).to_raw().get().to_owned(),
    }
}

/// Converts a failure into a JSON-RPC error.
pub(crate) fn to_rpc_error(era: Era, failure: Failure) -> RpcError {
    match failure {
        Failure::Rpc(error) => error,
        Failure::Resource { error, uri } => missing_resource_error(era, error, &uri),
        Failure::NoSession => RpcError::new(RpcError::INVALID_REQUEST, failure.to_string()),
        Failure::Unauthenticated | Failure::TooManyStreams | Failure::TooManyBytes | Failure::Cancelled => {
            RpcError::new(RpcError::INTERNAL, failure.to_string())
        }
    }
}

/// Returns the error for a missing resource, whose code differs by version.
fn missing_resource_error(era: Era, mut error: RpcError, uri: &str) -> RpcError {
    let names_a_uri = Fields::of_optional(error.data.as_deref()).has("uri");
    match era {
        Era::Modern if error.code == RpcError::RESOURCE_NOT_FOUND => {
            error.code = RpcError::INVALID_PARAMS;
            error.data.get_or_insert_with(|| raw(&json!({"uri": uri})));
        }
        Era::Legacy if error.code == RpcError::INVALID_PARAMS && names_a_uri => {
            error.code = RpcError::RESOURCE_NOT_FOUND;
        }
        _ => {}
    }
    error
}

fn server_info() -> Value {
    json!({"name": "pegboard", "title": "Pegboard", "version": env!("CARGO_PKG_VERSION")})
}

/// Returns the capabilities of the gateway. Servers come and go, so all are declared; only extensions
/// depend on the servers.
fn capabilities(extensions: &[&str]) -> Raw {
    let mut capabilities = json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "completions": {},
        "logging": {},
    });
    if !extensions.is_empty() {
        capabilities["extensions"] = extensions.iter().map(|extension| ((*extension).to_owned(), json!({}))).collect();
    }
    raw(&capabilities)
}

fn write_legacy(line: &mut String, reply: Reply) {
    match reply {
        Reply::Done | Reply::Listened => line.push_str("{}"),
        Reply::Begun(_, greeting) | Reply::Discovered(greeting, _) => {
            let version = greeting.version.as_deref().unwrap_or_default();
            let mut result = Fields::new().with("protocolVersion", version);
            // Tasks belong to 2026-07-28.
            let extensions: Vec<&str> =
                greeting.extensions.into_iter().filter(|extension| *extension != tasks::EXTENSION).collect();
            result.set("capabilities", capabilities(&extensions));
            result.set("serverInfo", raw(&server_info()));
            if let Some(instructions) = greeting.instructions {
                result.set("instructions", raw(&instructions));
            }
            push(line, &result.to_raw());
        }
        Reply::Page(mut page) => {
            let is_tools = page.kind == pegboard_upstream::ListKind::Tools;
            if is_tools {
                page.items = page.items.into_iter().map(legacy_tools::to_legacy_definition).collect();
            }
            line.push('{');
            push_items(line, &page);
            line.push('}');
        }
        Reply::Text(text) => {
            push_text(line, &text);
            line.push('}');
        }
        Reply::Forwarded(Forwarded { result, era: Era::Legacy, .. }) => push(line, &result),
        Reply::Forwarded(Forwarded { result, era: Era::Modern, .. }) => push(line, &to_legacy_result(result)),
    }
}

/// Converts the result of a modern server for a legacy client.
fn to_legacy_result(result: Raw) -> Raw {
    let Some(mut fields) = Fields::of(&result) else { return result };
    for key in ["resultType", "ttlMs", "cacheScope"] {
        fields.remove(key);
    }
    // A legacy client knows the gateway as its server, from the handshake.
    if let Some(mut own) = fields.object("_meta")
        && own.remove(meta::SERVER_INFO).is_some()
    {
        if own.is_empty() {
            fields.remove("_meta");
        } else {
            fields.set("_meta", own.to_raw());
        }
    }
    // Before 2026-07-28 structured content is an object; the text says the rest.
    let is_object = |value: &RawValue| value.get().starts_with('{');
    if fields.get("structuredContent").is_some_and(|content| !is_object(content)) {
        fields.remove("structuredContent");
    }
    fields.to_raw()
}

fn write_modern(line: &mut String, id: &Id, reply: Reply) {
    match reply {
        Reply::Done | Reply::Begun(..) => line.push_str("{\"resultType\":\"complete\"}"),
        Reply::Listened => {
            let own = Fields::new().with(meta::SUBSCRIPTION, &id.to_raw());
            push(line, &Fields::new().with("resultType", "complete").with("_meta", &own).to_raw());
        }
        Reply::Discovered(Greeting { instructions, extensions, .. }, caching) => {
            let mut result = Fields::new().with("resultType", "complete").with("supportedVersions", &[MODERN_VERSION]);
            result.set("capabilities", capabilities(&extensions));
            if let Some(instructions) = instructions {
                result.set("instructions", raw(&instructions));
            }
            let text = result.to_raw();
            line.push_str(text.get().strip_suffix('}').unwrap_or_default());
            push_hints(line, caching);
        }
        Reply::Page(page) => {
            line.push_str("{\"resultType\":\"complete\",");
            push_items(line, &page);
            push_hints(line, page.caching);
        }
        Reply::Text(text) => {
            push_text(line, &text);
            line.push_str(",\"resultType\":\"complete\"}");
        }
        Reply::Forwarded(forwarded) => push(line, &to_modern_result(forwarded)),
    }
}

/// Converts the result of any server for a modern client.
fn to_modern_result(Forwarded { result, is_resource, .. }: Forwarded) -> Raw {
    // Most results need nothing; looking is cheaper than taking apart.
    let Some(mut fields) = Fields::of(&result) else { return result };
    let mut is_changed = false;
    if !fields.has("resultType") {
        fields.set("resultType", raw("complete"));
        is_changed = true;
    }
    if is_resource && !is_input_required(&result) && !fields.has("ttlMs") {
        fields.set("ttlMs", raw(&0));
        fields.set("cacheScope", raw("private"));
        is_changed = true;
    }
    if is_changed { fields.to_raw() } else { result }
}

fn push(line: &mut String, value: &RawValue) {
    line.push_str(&one_line(value));
}

fn push_json(line: &mut String, value: &(impl Serialize + ?Sized)) {
    line.push_str(&serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()));
}

/// Writes the items of a page and the next cursor, without braces.
fn push_items(line: &mut String, page: &Page) {
    line.reserve(page.items.iter().map(|item| item.get().len() + 1).sum());
    let _ = write!(line, "\"{}\":[", page.kind.field());
    for (at, item) in page.items.iter().enumerate() {
        if at > 0 {
            line.push(',');
        }
        push(line, item);
    }
    line.push(']');
    if let Some(next) = page.next {
        let _ = write!(line, ",\"nextCursor\":\"{next}\"");
    }
}

/// Writes the caching hints and the server info, up to the closing brace.
fn push_hints(line: &mut String, Caching { ttl_ms, is_private }: Caching) {
    let scope = if is_private { "private" } else { "public" };
    let _ = write!(line, ",\"ttlMs\":{ttl_ms},\"cacheScope\":\"{scope}\",\"_meta\":{{");
    let _ = write!(line, "\"io.modelcontextprotocol/serverInfo\":{}}}}}", server_info());
}

/// Writes the result of a tool that is only text, without the closing brace.
fn push_text(line: &mut String, Text { text, is_error, metadata }: &Text) {
    line.push_str("{\"content\":[{\"type\":\"text\",\"text\":");
    push_json(line, text);
    line.push_str("}]");
    if *is_error {
        line.push_str(",\"isError\":true");
    }
    if let Some(metadata) = metadata {
        line.push_str(",\"_meta\":{\"pegboard/metadata\":");
        push_json(line, metadata);
        line.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_modern_servers_for_legacy_clients() {
        let check = |given: &str, expected: &str| {
            assert_eq!(to_legacy_result(serde_json::from_str(given).expect("JSON")).get(), expected, "{given}");
        };
        check(r#"{"resultType":"complete","content":[],"ttlMs":1,"cacheScope":"private"}"#, r#"{"content":[]}"#);
        check(r#"{"content":[],"structuredContent":[1]}"#, r#"{"content":[]}"#);
        let info = r#""io.modelcontextprotocol/serverInfo":{"name":"x","version":"1"}"#;
        check(&format!(r#"{{"content":[],"_meta":{{{info}}}}}"#), r#"{"content":[]}"#);
        check(&format!(r#"{{"content":[],"_meta":{{"a":1.0,{info}}}}}"#), r#"{"content":[],"_meta":{"a":1.0}}"#);
        check(r#"{"content":[],"_meta":{}}"#, r#"{"content":[],"_meta":{}}"#);
    }
}
