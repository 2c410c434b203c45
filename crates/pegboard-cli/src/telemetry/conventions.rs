//! Names of spans and attributes in OpenTelemetry's conventions for MCP and generative AI, and
//! `pegboard.…` for those without a convention.

use std::borrow::Cow;

use opentelemetry::{
    KeyValue, Value,
    trace::{SpanKind, Status},
};
use opentelemetry_sdk::trace::SpanData;

/// Outcomes that are not failures.
const FINE: [&str; 4] = ["ok", "hit", "miss", "done"];

/// Converts a span to the conventions.
pub(super) fn to_conventions(mut span: SpanData) -> SpanData {
    let fields = std::mem::take(&mut span.attributes);
    let text = |key: &str| {
        let field = fields.iter().find(|field| field.key.as_str() == key);
        field.map(|field| field.value.as_str().into_owned())
    };
    let method = text("method");
    let target = text("tool").or_else(|| text("name"));
    span.span_kind = match span.name.as_ref() {
        "request" => SpanKind::Server,
        "upstream" | "chat" => SpanKind::Client,
        _ => SpanKind::Internal,
    };
    let operation = match (span.name.as_ref(), method.as_deref()) {
        ("call" | "search", _) | (_, Some("tools/call")) => Some("execute_tool"),
        ("run", _) => Some("invoke_agent"),
        ("chat", _) => Some("chat"),
        _ => None,
    };
    let verb = method.clone().or_else(|| operation.map(str::to_owned));
    if let Some(verb) = verb {
        let target = target.or_else(|| text("model"));
        span.name = target.map_or_else(|| verb.clone(), |target| format!("{verb} {target}")).into();
    }
    if let Some(operation) = operation {
        span.attributes.push(KeyValue::new("gen_ai.operation.name", operation));
    }
    if let Some(outcome) = text("outcome").filter(|outcome| !FINE.contains(&outcome.as_str())) {
        span.status = Status::error("");
        span.attributes.push(KeyValue::new("error.type", error_type(outcome, text("code"))));
    }
    span.attributes.extend(fields.into_iter().filter_map(|field| rename_attribute(field, method.as_deref())));
    span
}

/// Returns the `error.type` of a failure: its code, if it has one.
fn error_type(outcome: String, code: Option<String>) -> String {
    match (outcome.as_str(), code) {
        ("error", _) => "tool_error".to_owned(),
        (_, Some(code)) => code,
        _ => outcome,
    }
}

fn rename_attribute(field: KeyValue, method: Option<&str>) -> Option<KeyValue> {
    let key = match field.key.as_str() {
        "method" => "mcp.method.name",
        "protocol" => "mcp.protocol.version",
        "tool" => "gen_ai.tool.name",
        "name" if method == Some("prompts/get") => "gen_ai.prompt.name",
        "name" => "gen_ai.tool.name",
        "model" => "gen_ai.request.model",
        "provider" => "gen_ai.provider.name",
        "input_tokens" => "gen_ai.usage.input_tokens",
        "output_tokens" => "gen_ai.usage.output_tokens",
        "code" => return Some(KeyValue::new("rpc.response.status_code", text_of(&field.value))),
        "jsonrpc.request.id" => "jsonrpc.request.id",
        // It is the trace's own.
        "trace" => return None,
        "sent" => "pegboard.request.size",
        "bytes" => "pegboard.response.size",
        "request" => "pegboard.request",
        "session" => "pegboard.session",
        "server" => "pegboard.server",
        "client" => "pegboard.client",
        "era" => "pegboard.era",
        "outcome" => "pegboard.outcome",
        "hits" => "pegboard.search.hits",
        "tools" => "pegboard.search.tools",
        "turns" => "pegboard.turns",
        // Fields without a mapping are not sent.
        _ => return None,
    };
    Some(KeyValue::new(key, field.value))
}

fn text_of(value: &Value) -> String {
    Cow::into_owned(value.as_str())
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanContext, SpanId};

    use super::*;

    fn check(name: &'static str, fields: &[(&'static str, &'static str)], expected: &str) {
        let span = SpanData {
            span_context: SpanContext::empty_context(),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: std::time::UNIX_EPOCH,
            end_time: std::time::UNIX_EPOCH,
            attributes: fields.iter().map(|(key, value)| KeyValue::new(*key, *value)).collect(),
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: Status::Unset,
            instrumentation_scope: Default::default(),
        };
        let span = to_conventions(span);
        let attributes: Vec<String> = span.attributes.iter().map(|one| format!("{}={}", one.key, one.value)).collect();
        let status = if span.status == Status::Unset { "" } else { " failed" };
        let shown = format!("{:?} `{}`{status} {}", span.span_kind, span.name, attributes.join(" "));
        assert_eq!(shown, expected);
    }

    #[test]
    fn spans_as_collectors_know_them() {
        check(
            "request",
            &[("request", "7"), ("method", "tools/call"), ("tool", "echo"), ("trace", "x"), ("outcome", "ok")],
            "Server `tools/call echo` gen_ai.operation.name=execute_tool pegboard.request=7 \
             mcp.method.name=tools/call gen_ai.tool.name=echo pegboard.outcome=ok",
        );
        check(
            "upstream",
            &[("server", "gh"), ("method", "prompts/get"), ("name", "p"), ("outcome", "refused"), ("code", "-32602")],
            "Client `prompts/get p` failed error.type=-32602 pegboard.server=gh mcp.method.name=prompts/get \
             gen_ai.prompt.name=p pegboard.outcome=refused rpc.response.status_code=-32602",
        );
        check(
            "call",
            &[("tool", "echo"), ("outcome", "error"), ("secret", "x")],
            "Internal `execute_tool echo` failed gen_ai.operation.name=execute_tool error.type=tool_error \
             gen_ai.tool.name=echo pegboard.outcome=error",
        );
        check("start", &[("server", "gh")], "Internal `start` pegboard.server=gh");
        check(
            "upstream",
            &[("outcome", "timeout")],
            "Client `upstream` failed error.type=timeout pegboard.outcome=timeout",
        );
    }
}
