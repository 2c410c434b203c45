//! Output of a run for programs: one JSON object per line for each event.

use pegboard_agent::{AgentEvent, RunAnswer, RunError, Usage};
use pegboard_llm::wire::Stop;
use serde_json::{Value, json};

use super::{
    amounts::RunCost,
    display::{RunDisplay, RunStart},
    questions::UserQuestion,
};
use crate::{
    error::CliError,
    output,
    terminal_text::{clean, json_line},
};

/// Prints each event as it occurs.
#[derive(Debug, Default)]
pub(super) struct JsonLines;

impl RunDisplay for JsonLines {
    fn start(&mut self, start: &RunStart) -> Result<(), CliError> {
        let failed = |(server, reason): &(String, String)| json!({"server": server, "reason": reason});
        print(&json!({
            "event": "start",
            "model": start.model,
            "mode": start.mode.as_str(),
            "dialect": start.dialect,
            "reason": start.reason,
            "tools": start.tools,
            "server_tools": start.server_tools,
            "servers": start.servers,
            "failed": start.failed.iter().map(failed).collect::<Vec<_>>(),
            "sandbox": start.sandbox.as_ref().map(|(text, _)| text),
            "resumed_messages": start.resumed.as_ref().map_or(0, |resumed| resumed.messages),
            "visible": start.visible,
        }))
    }

    fn event(&mut self, event: AgentEvent) -> Result<(), CliError> {
        match to_json(event) {
            Some(value) => print(&value),
            None => Ok(()),
        }
    }

    fn question(&mut self, ask: &UserQuestion) -> Result<(), CliError> {
        use std::io::Write as _;
        let mut out = anstream::stderr();
        write!(out, "{}", ask.text())?;
        Ok(out.flush()?)
    }

    fn show_refused(&mut self, tool: &str) -> Result<(), CliError> {
        print(&json!({"event": "refused", "tool": tool, "reason": "it needs approval, and there is no terminal to ask \
                     on"}))
    }

    fn end(&mut self, ended: Option<Result<&RunAnswer, &RunError>>, spent: &RunCost) -> Result<(), CliError> {
        let mut last = match ended {
            Some(Ok(answer)) => json!({"event": "answer", "text": answer.text, "stop": stop(&answer.stop)}),
            Some(Err(error)) => {
                let kind = if matches!(error, RunError::Limit(_)) { "limit" } else { "failed" };
                json!({"event": "error", "kind": kind, "message": with_causes(error)})
            }
            None => json!({"event": "error", "kind": "cancelled", "message": RunError::Cancelled.to_string()}),
        };
        last["turns"] = spent.turns.into();
        last["usage"] = usage(spent.usage);
        last["cost"] = spent.cost.into();
        last["took_ms"] = millis(spent.took);
        print(&last)
    }
}

fn print(value: &Value) -> Result<(), CliError> {
    output::raw(format!("{}\n", json_line(value)).as_bytes())
}

/// Converts an event; `None` for one that this build does not know.
fn to_json(event: AgentEvent) -> Option<Value> {
    Some(match event {
        AgentEvent::Text(text) => json!({"event": "text", "text": text}),
        AgentEvent::Thinking(text) => json!({"event": "thinking", "text": text}),
        AgentEvent::CallStarted { id, name, target, server, arguments } => json!({
            "event": "call", "id": id, "name": name, "target": target, "server": server, "arguments": arguments,
        }),
        AgentEvent::CallFinished { id, name, text, is_error, offloaded, metadata, took } => json!({
            "event": "result", "id": id, "name": name, "text": text, "is_error": is_error,
            "offloaded": offloaded, "metadata": metadata, "took_ms": millis(took),
        }),
        AgentEvent::Delivery { delivery, reason } => {
            json!({"event": "delivery", "delivery": delivery.as_str(), "reason": reason})
        }
        AgentEvent::ToolsChanged { visible } => json!({"event": "tools", "visible": visible}),
        AgentEvent::Turn { usage: of } => json!({"event": "turn", "usage": usage(of)}),
        AgentEvent::Compacted => json!({"event": "compacted"}),
        AgentEvent::Warning(text) => json!({"event": "warning", "text": text}),
        _ => return None,
    })
}

fn usage(usage: Usage) -> Value {
    json!({"input": usage.input, "cached": usage.cached, "output": usage.output})
}

fn millis(took: std::time::Duration) -> Value {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX).into()
}

fn stop(stop: &Stop) -> &str {
    match stop {
        Stop::End => "end",
        Stop::Tools => "tools",
        Stop::Length => "length",
        Stop::Refusal => "refusal",
        Stop::Pause => "pause",
        Stop::Other(other) => other,
    }
}

/// Returns an error and its causes, on one line and safe for a terminal.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    clean(&pegboard_upstream::with_causes(error))
}
