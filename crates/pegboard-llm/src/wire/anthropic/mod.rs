//! Anthropic Messages.

mod cache;
mod history;
mod models;

use std::collections::BTreeSet;

use pegboard_discovery::{Session, ToolDefinition, transcript::ToolResult};
use serde_json::{Value, json};

use super::{
    CallResult, Delta, Request, Stop, ToolCall, ToolChoice, Turn, Usage, Wire, WireError, append,
    body::Body,
    clear_truncated_arguments,
    format::{Collector, WireFormat},
    items, number,
    profile::{MAX_TOOLS, Profile, Variables},
    repair::{RepairContext, repair_each},
    result_text, text,
};
use crate::{
    delivery::Delivery,
    rules::RuleError,
    schemas::SchemaRule,
    tool_list::{RequiredTools, ToolList},
};

/// The API of Anthropic.
pub(super) static PROVIDER: Profile = Profile {
    name: "anthropic",
    vendor: "Anthropic",
    wire: Wire::Anthropic,
    base_url: "https://api.anthropic.com",
    variables: Variables { keys: &["ANTHROPIC_API_KEY"], base_urls: &["ANTHROPIC_BASE_URL"] },
    adapt_base_url: Profile::same_base_url,
    is_key_optional: false,
    max_tools: MAX_TOOLS,
    schema_rules: &[
        SchemaRule::IsObject,
        SchemaRule::HasObjectType,
        SchemaRule::NoTopLevelCombination,
        SchemaRule::PlainPropertyNames,
        SchemaRule::PartsAreSchemas,
        SchemaRule::OneItemsSchema,
        SchemaRule::KnownTypes,
        SchemaRule::RequiredIsList,
        SchemaRule::NumericBounds,
        SchemaRule::InnerReferences,
    ],
    capabilities: models::capabilities,
};

/// The name of Anthropic's own tool search, and its version.
const SEARCH: &str = "tool_search_tool_bm25";
const SEARCH_VERSION: &str = "20251119";

/// The wire wants a bound on every answer.
const MAX_TOKENS: u64 = 16_384;

/// As many as the first models take that are still served.
const OLD_MAX_TOKENS: u64 = 4096;

fn max_tokens(model: &str) -> u64 {
    let is_old = model.contains("claude-3-") && !model.contains("claude-3-7");
    if is_old { OLD_MAX_TOKENS } else { MAX_TOKENS }
}

/// The Messages API.
#[derive(Debug)]
pub(super) struct Anthropic;

impl WireFormat for Anthropic {
    fn path(&self, _model: &str, _is_streamed: bool) -> String {
        "/v1/messages".to_owned()
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let version = ("anthropic-version", "2023-06-01".to_owned());
        let key = key.map(|key| ("x-api-key", key.to_owned()));
        std::iter::once(version).chain(key).collect()
    }

    fn body<'a>(&self, request: &'a Request, is_streamed: bool) -> Body<'a> {
        let mut body = Body::new();
        let breakpoints = cache::breakpoints(request);
        body.insert("model", request.model.clone());
        body.insert("max_tokens", request.max_tokens.unwrap_or_else(|| max_tokens(&request.model)));
        if !request.tools.is_empty() {
            body.list_with("tools", &request.tools, breakpoints.tools);
            match &request.tool_choice {
                ToolChoice::Auto => {}
                ToolChoice::None => body.insert("tool_choice", json!({"type": "none"})),
                ToolChoice::Any => body.insert("tool_choice", json!({"type": "any"})),
                ToolChoice::Tool(name) => body.insert("tool_choice", json!({"type": "tool", "name": name})),
            }
        }
        if let Some(system) = &request.system {
            body.insert("system", breakpoints.system.unwrap_or_else(|| system.clone().into()));
        }
        body.list_with("messages", &request.messages, breakpoints.messages);
        if is_streamed {
            body.insert("stream", true);
        }
        body
    }

    fn tool(&self, definition: &ToolDefinition) -> Value {
        json!({
            "name": definition.name,
            "description": definition.description,
            "input_schema": definition.input_schema,
        })
    }

    fn user(&self, text: &str) -> Value {
        json!({"role": "user", "content": [{"type": "text", "text": text}]})
    }

    /// All results of a turn go into one message, or the wire refuses it.
    fn results(&self, results: &[CallResult]) -> Vec<Value> {
        let block = |result: &CallResult| {
            let text = |text: &str| json!({"type": "text", "text": text});
            let content: Vec<Value> = if result.references.is_empty() {
                vec![text(result_text(result))]
            } else {
                result.references.iter().cloned().chain(result.note.as_deref().map(text)).collect()
            };
            let mut block = json!({"type": "tool_result", "tool_use_id": result.call.id, "content": content});
            if result.is_error {
                block["is_error"] = true.into();
            }
            block
        };
        let blocks: Vec<Value> = results.iter().map(block).collect();
        if blocks.is_empty() { Vec::new() } else { vec![json!({"role": "user", "content": blocks})] }
    }

    fn read(&self, answer: &Value) -> Result<Turn, WireError> {
        let content = answer.get("content").filter(|content| content.is_array());
        let content = content.ok_or(WireError::Missing { field: "content" })?.clone();
        let of_kind = |kind: &'static str| items(answer, "content").filter(move |block| text(block, "type") == kind);
        let call = |block: &Value| ToolCall {
            id: text(block, "id").to_owned(),
            name: text(block, "name").to_owned(),
            arguments: block.get("input").cloned().unwrap_or_default(),
            is_search: false,
        };
        let stop = match text(answer, "stop_reason") {
            "end_turn" | "stop_sequence" => Stop::End,
            "tool_use" => Stop::Tools,
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Refusal,
            "pause_turn" => Stop::Pause,
            other => Stop::Other(other.to_owned()),
        };
        let mut calls: Vec<ToolCall> = of_kind("tool_use").map(call).collect();
        let ends_in_call = items(answer, "content").last().is_some_and(|block| text(block, "type") == "tool_use");
        if stop == Stop::Length && ends_in_call {
            clear_truncated_arguments(&mut calls, false);
        }
        Ok(Turn {
            text: of_kind("text").map(|block| text(block, "text")).collect(),
            calls,
            stop,
            usage: Usage {
                input: number(answer, "/usage/input_tokens")
                    .saturating_add(number(answer, "/usage/cache_read_input_tokens"))
                    .saturating_add(number(answer, "/usage/cache_creation_input_tokens")),
                cached: number(answer, "/usage/cache_read_input_tokens"),
                cache_written: number(answer, "/usage/cache_creation_input_tokens"),
                output: number(answer, "/usage/output_tokens"),
            },
            echo: vec![json!({"role": "assistant", "content": content})],
        })
    }

    fn tool_results(&self, messages: &[Value]) -> Vec<ToolResult> {
        history::tool_results(messages)
    }

    fn collector(&self) -> Box<dyn Collector> {
        Box::new(Streamed::default())
    }

    fn repair(&self, context: &RepairContext<'_>, messages: &[Value]) -> Vec<(usize, Value)> {
        let abandoned = history::abandoned_calls(messages);
        repair_each(self, context, messages, |_, message| history::repair_message(context, &abandoned, message))
    }

    fn for_other_model(&self, message: &Value, _signs_calls: bool) -> Option<Value> {
        let mut message = message.clone();
        history::remove_thinking(&mut message);
        Some(message)
    }

    fn thinking_blocks<'a>(&self, message: &'a Value) -> Vec<&'a Value> {
        history::thinking_blocks(message).collect()
    }

    fn remove_thinking(&self, message: &mut Value) -> bool {
        history::remove_thinking(message)
    }

    fn end_paused_turn(&self, messages: &mut Vec<Value>) {
        history::end_paused_turn(messages);
    }

    fn check_history(&self, request: &Request, tools: &[(&Value, Option<&str>)]) -> Result<(), RuleError> {
        let names = tools.iter().map(|(tool, _)| self.tool_name(tool)).filter(|name| !name.is_empty()).collect();
        history::check(&request.messages, &names)
    }

    fn has_cache_breakpoints(&self) -> bool {
        true
    }

    fn deliveries(&self) -> &'static [Delivery] {
        &[Delivery::Reference, Delivery::Native]
    }

    fn search_name(&self) -> &'static str {
        SEARCH
    }

    fn reference(&self, tool: &ToolDefinition) -> Value {
        json!({"type": "tool_reference", "tool_name": tool.name})
    }

    fn references<'a>(&self, message: &'a Value) -> Vec<&'a str> {
        items(message, "content").flat_map(history::referenced_tools).collect()
    }

    fn resolves_references(&self) -> bool {
        true
    }

    fn undefined_calls(&self, _delivery: Delivery, messages: &[&Value]) -> BTreeSet<String> {
        history::undefined_calls(messages)
    }

    fn add_native(&self, tool_list: &mut ToolList, session: &Session, required: &RequiredTools, is_first: bool) {
        if is_first && tool_list.claim_name(SEARCH) {
            tool_list.push(json!({"type": format!("{SEARCH}_{SEARCH_VERSION}"), "name": SEARCH}), false);
        }
        tool_list.add_searchable(&session.native(), required);
    }

    fn delivery_terms(&self) -> &'static [&'static str] {
        &["defer_loading", "deferred", "tool_reference", "tool reference", "tool_search", "tool search", "tool type"]
    }

    fn thinking_terms(&self) -> &'static [&'static str] {
        &["`signature`", "bound to a different conversation", "redacted_thinking", "blocks cannot be modified"]
    }
}

/// A message that arrives block by block.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    message: Value,
    blocks: Vec<Value>,
    /// The text of each block's input, until it is whole.
    inputs: Vec<String>,
    is_complete: bool,
}

impl Streamed {
    fn delta(&mut self, at: usize, delta: &Value) -> Option<Delta> {
        let block = self.blocks.get_mut(at)?;
        match text(delta, "type") {
            "text_delta" => {
                append(block, "text", text(delta, "text"));
                Some(Delta::Text(text(delta, "text").to_owned()))
            }
            "thinking_delta" => {
                append(block, "thinking", text(delta, "thinking"));
                Some(Delta::Thinking(text(delta, "thinking").to_owned()))
            }
            "signature_delta" => {
                append(block, "signature", text(delta, "signature"));
                None
            }
            "input_json_delta" => {
                self.inputs[at].push_str(text(delta, "partial_json"));
                None
            }
            "citations_delta" => {
                let citation = delta.get("citation").cloned().unwrap_or_default();
                match block.get_mut("citations").and_then(Value::as_array_mut) {
                    Some(citations) => citations.push(citation),
                    None => block["citations"] = json!([citation]),
                }
                None
            }
            _ => None,
        }
    }
}

/// The object under `key` of an event, without which it says nothing.
fn object(data: &Value, key: &'static str) -> Result<Value, WireError> {
    let found = data.get(key).filter(|value| value.is_object());
    found.cloned().ok_or(WireError::Missing { field: key })
}

impl Collector for Streamed {
    fn event(&mut self, kind: &str, data: &Value) -> Result<Vec<Delta>, WireError> {
        let at = usize::try_from(number(data, "/index")).unwrap_or(usize::MAX);
        let delta = match kind {
            "message_start" => {
                self.message = object(data, "message")?;
                None
            }
            "content_block_start" => {
                // Blocks come in order; a gap would put later ones in the wrong place.
                if at != self.blocks.len() {
                    return Err(WireError::Incomplete);
                }
                let block = object(data, "content_block")?;
                let is_call = text(&block, "type") == "tool_use";
                let name = text(&block, "name").to_owned();
                self.blocks.push(block);
                self.inputs.push(String::new());
                is_call.then_some(Delta::Call(name))
            }
            "content_block_delta" => self.delta(at, data.get("delta").unwrap_or(&Value::Null)),
            "content_block_stop" => {
                let input = self.inputs.get(at).filter(|input| !input.is_empty());
                if let (Some(input), Some(block)) = (input, self.blocks.get_mut(at)) {
                    block["input"] = super::arguments(input);
                }
                None
            }
            "message_delta" => {
                for (key, value) in data.get("delta").and_then(Value::as_object).into_iter().flatten() {
                    self.message[key.as_str()] = value.clone();
                }
                // The last count is the one that holds: searches add to it on the way.
                let usage = data.get("usage").and_then(Value::as_object).filter(|usage| !usage.is_empty());
                if let Some(usage) = usage {
                    let mut counts = self.message["usage"].as_object().cloned().unwrap_or_default();
                    let counted = usage.iter().filter(|(_, value)| !value.is_null());
                    counts.extend(counted.map(|(key, value)| (key.clone(), value.clone())));
                    self.message["usage"] = counts.into();
                }
                None
            }
            "message_stop" => {
                self.is_complete = true;
                None
            }
            "error" => {
                let error = data.get("error").unwrap_or(data);
                let (kind, message) = (text(error, "type").to_owned(), text(error, "message").to_owned());
                return Err(WireError::Reported { kind, message });
            }
            _ => None,
        };
        Ok(delta.into_iter().collect())
    }

    fn finish(mut self: Box<Self>) -> Result<Value, WireError> {
        if !self.is_complete || !self.message.is_object() {
            return Err(WireError::Incomplete);
        }
        self.message["content"] = self.blocks.into();
        Ok(self.message)
    }
}
