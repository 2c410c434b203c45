//! OpenAI Responses.

mod history;
mod tools;

use std::collections::BTreeSet;

use pegboard_discovery::{Session, ToolDefinition, transcript::ToolResult};
use serde_json::{Value, json};

use super::{
    CallResult, Delta, Request, Stop, ToolCall, ToolChoice, Turn, Usage, Wire, WireError, arguments,
    body::Body,
    clear_truncated_arguments,
    format::{Collector, WireFormat},
    items, number,
    profile::{Capabilities, MAX_TOOLS, Profile, Support, Variables},
    repair::{RepairContext, repair_each},
    result_text, text,
};
use crate::{
    delivery::Delivery,
    rules::RuleError,
    tool_list::{RequiredTools, ToolList},
};

/// The Responses API of OpenAI.
pub(super) static PROVIDER: Profile = Profile {
    name: "openai-responses",
    vendor: "OpenAI",
    wire: Wire::Responses,
    base_url: "https://api.openai.com/v1",
    variables: Variables { keys: &["OPENAI_API_KEY"], base_urls: &["OPENAI_BASE_URL"] },
    adapt_base_url: Profile::same_base_url,
    is_key_optional: true,
    max_tools: MAX_TOOLS,
    schema_rules: super::chat::SCHEMA_RULES,
    capabilities,
};

/// Returns what a model can do.
fn capabilities(name: &str) -> Capabilities {
    let is_newer = openai_version(name).is_some_and(|version| version >= (5, 4)) && !name.contains("nano");
    let client_search = if is_newer { Support::Documented } else { Support::Unknown };
    Capabilities { client_search, ..Capabilities::default() }
}

/// The version in a name such as `gpt-5.4-mini`.
fn openai_version(name: &str) -> Option<(u32, u32)> {
    let rest = &name[name.find("gpt-")? + 4..];
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u32>().ok();
    let major = digits(rest)?;
    let minor = rest.split_once('.').filter(|(head, _)| head.parse::<u32>().is_ok()).and_then(|(_, tail)| digits(tail));
    Some((major, minor.unwrap_or(0)))
}

/// The Responses API.
#[derive(Debug)]
pub(super) struct Responses;

impl WireFormat for Responses {
    fn path(&self, _model: &str, _is_streamed: bool) -> String {
        "/responses".to_owned()
    }

    fn body<'a>(&self, request: &'a Request, is_streamed: bool) -> Body<'a> {
        let mut body = Body::new();
        body.insert("model", request.model.clone());
        if !request.tools.is_empty() {
            body.list("tools", &request.tools);
            match &request.tool_choice {
                ToolChoice::Auto => {}
                ToolChoice::None => body.insert("tool_choice", "none"),
                ToolChoice::Any => body.insert("tool_choice", "required"),
                ToolChoice::Tool(name) => {
                    body.insert("tool_choice", json!({"type": "function", "name": name}));
                }
            }
        }
        if let Some(system) = &request.system {
            body.insert("instructions", system.clone());
        }
        body.list("input", &request.messages);
        // Every request carries the whole conversation, so the provider stores nothing.
        body.insert("store", false);
        body.insert("include", json!(["reasoning.encrypted_content"]));
        if let Some(most) = request.max_tokens {
            body.insert("max_output_tokens", most);
        }
        if is_streamed {
            body.insert("stream", true);
        }
        body
    }

    fn tool(&self, definition: &ToolDefinition) -> Value {
        json!({
            "type": "function",
            "name": definition.name,
            "description": definition.description,
            "parameters": definition.input_schema,
            "strict": false,
        })
    }

    fn user(&self, text: &str) -> Value {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    }

    /// The outputs of all calls, then a message for each search that has more to say: the output
    /// of a search holds definitions only.
    fn results(&self, results: &[CallResult]) -> Vec<Value> {
        let item = |result: &CallResult| {
            if result.call.is_search {
                return json!({
                    "type": "tool_search_output",
                    "call_id": result.call.id,
                    "execution": "client",
                    "status": "completed",
                    "tools": result.references,
                });
            }
            json!({"type": "function_call_output", "call_id": result.call.id, "output": result_text(result)})
        };
        let note = |result: &CallResult| {
            let text = if result.references.is_empty() { Some(result_text(result)) } else { None };
            let text = result.note.as_deref().or(text).filter(|_| result.call.is_search)?;
            let text = format!("Result of the tool search `{}`: {text}", result.call.id);
            Some(json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}))
        };
        results.iter().map(item).chain(results.iter().filter_map(note)).collect()
    }

    fn read(&self, answer: &Value) -> Result<Turn, WireError> {
        if let Some(error) = answer.get("error").filter(|error| error.is_object()) {
            let (kind, message) = (text(error, "code").to_owned(), text(error, "message").to_owned());
            return Err(WireError::Reported { kind, message });
        }
        let output = answer.get("output").and_then(Value::as_array).ok_or(WireError::Missing { field: "output" })?;
        let mut calls: Vec<ToolCall> = output.iter().filter_map(call).collect();
        let messages = output.iter().filter(|item| text(item, "type") == "message");
        let parts: Vec<&Value> = messages.flat_map(|item| items(item, "content")).collect();
        let is_refused = parts.iter().any(|part| text(part, "type") == "refusal");
        let stop = match (text(answer, "status"), answer.pointer("/incomplete_details/reason").and_then(Value::as_str))
        {
            (_, Some("max_output_tokens")) => Stop::Length,
            _ if !calls.is_empty() => Stop::Tools,
            _ if is_refused => Stop::Refusal,
            (_, Some("content_filter")) => Stop::Refusal,
            ("completed", _) => Stop::End,
            (other, _) => Stop::Other(other.to_owned()),
        };
        if stop == Stop::Length && output.last().is_some_and(|item| call(item).is_some()) {
            clear_truncated_arguments(&mut calls, true);
        }
        Ok(Turn {
            text: parts
                .iter()
                .filter(|part| text(part, "type") == "output_text")
                .map(|part| text(part, "text"))
                .collect(),
            calls,
            stop,
            usage: Usage {
                input: number(answer, "/usage/input_tokens"),
                cached: number(answer, "/usage/input_tokens_details/cached_tokens"),
                cache_written: number(answer, "/usage/input_tokens_details/cache_write_tokens"),
                output: number(answer, "/usage/output_tokens"),
            },
            // Items are sent back as they came, with namespaces and encrypted reasoning.
            echo: output.clone(),
        })
    }

    fn tool_results(&self, messages: &[Value]) -> Vec<ToolResult> {
        history::tool_results(messages)
    }

    fn flatten<'a>(&self, tools: &'a [Value]) -> Vec<(&'a Value, Option<&'a str>)> {
        let mut flat = Vec::with_capacity(tools.len());
        for tool in tools {
            match tool.get("tools").and_then(Value::as_array).filter(|_| text(tool, "type") == "namespace") {
                Some(inner) => flat.extend(inner.iter().map(|inner| (inner, Some(text(tool, "name"))))),
                None => flat.push((tool, None)),
            }
        }
        flat
    }

    fn collector(&self) -> Box<dyn Collector> {
        Box::new(Streamed::default())
    }

    fn repair(&self, context: &RepairContext<'_>, messages: &[Value]) -> Vec<(usize, Value)> {
        let groups = history::groups_of_found_tools(messages);
        let is_behind_search = history::behind_lost_searches(context, messages);
        repair_each(self, context, messages, |at, item| {
            let rest = &messages[at + 1..];
            let is_reasoning = text(item, "type") == "reasoning";
            if is_behind_search[at] && is_reasoning && history::leads_to_search(rest) {
                return None;
            }
            let mut repaired = history::repair_item(context, &groups, item, rest)?;
            if is_behind_search[at] && !is_reasoning {
                history::remove_id(&mut repaired);
            }
            Some(repaired)
        })
    }

    fn for_other_model(&self, message: &Value, _signs_calls: bool) -> Option<Value> {
        if text(message, "type") == "reasoning" {
            return None;
        }
        let mut message = message.clone();
        history::remove_id(&mut message);
        Some(message)
    }

    fn check_history(&self, request: &Request, tools: &[(&Value, Option<&str>)]) -> Result<(), RuleError> {
        history::check(&request.messages, tools)
    }

    fn deliveries(&self) -> &'static [Delivery] {
        &[Delivery::ClientNative, Delivery::Native]
    }

    fn references<'a>(&self, message: &'a Value) -> Vec<&'a str> {
        history::found_tools(message)
    }

    fn undefined_calls(&self, delivery: Delivery, messages: &[&Value]) -> BTreeSet<String> {
        history::undefined_calls(delivery, messages)
    }

    fn add_native(&self, tool_list: &mut ToolList, session: &Session, required: &RequiredTools, is_first: bool) {
        let mut native = session.native();
        if is_first {
            let deferred = std::mem::take(&mut native.deferred);
            tool_list.add_searchable(&native, required);
            tools::add_namespaces(tool_list, session, &deferred, required);
        } else {
            tool_list.add_searchable(&native, required);
        }
    }

    fn adjust_native(&self, tool_list: &mut ToolList, is_first: bool) {
        tools::adjust_search_tool(tool_list.tools_mut(), is_first);
    }

    fn client_search(&self, search: &ToolDefinition) -> Option<Value> {
        Some(json!({
            "type": "tool_search",
            "execution": "client",
            "description": search.description,
            "parameters": search.input_schema,
        }))
    }

    fn delivery_terms(&self) -> &'static [&'static str] {
        super::chat::DELIVERY_TERMS
    }

    fn thinking_terms(&self) -> &'static [&'static str] {
        &["encrypted", "'reasoning' item", "of type 'reasoning'"]
    }
}

fn call(item: &Value) -> Option<ToolCall> {
    match text(item, "type") {
        "function_call" => Some(ToolCall {
            id: text(item, "call_id").to_owned(),
            name: text(item, "name").to_owned(),
            arguments: arguments(text(item, "arguments")),
            is_search: false,
        }),
        "tool_search_call" if text(item, "execution") == "client" => Some(ToolCall {
            id: text(item, "call_id").to_owned(),
            name: "tool_search".to_owned(),
            arguments: item.get("arguments").cloned().unwrap_or_default(),
            is_search: true,
        }),
        _ => None,
    }
}

/// A response that arrives item by item.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    response: Value,
    output: Vec<Value>,
}

impl Collector for Streamed {
    fn event(&mut self, kind: &str, data: &Value) -> Result<Vec<Delta>, WireError> {
        let delta = match kind {
            "response.output_text.delta" => Some(Delta::Text(text(data, "delta").to_owned())),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                Some(Delta::Thinking(text(data, "delta").to_owned()))
            }
            "response.output_item.added" => {
                let item = data.get("item").unwrap_or(&Value::Null);
                (text(item, "type") == "function_call").then(|| Delta::Call(text(item, "name").to_owned()))
            }
            "response.output_item.done" => {
                self.output.extend(data.get("item").cloned());
                None
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.response = data.get("response").cloned().unwrap_or_default();
                None
            }
            "error" => {
                let error = data.get("error").filter(|error| error.is_object()).unwrap_or(data);
                let (kind, message) = (text(error, "code").to_owned(), text(error, "message").to_owned());
                return Err(WireError::Reported { kind, message });
            }
            _ => None,
        };
        Ok(delta.into_iter().collect())
    }

    fn finish(mut self: Box<Self>) -> Result<Value, WireError> {
        if !self.response.is_object() {
            return Err(WireError::Incomplete);
        }
        // The last event repeats the items; where it does not, the items themselves count.
        if items(&self.response, "output").next().is_none() {
            self.response["output"] = self.output.into();
        }
        Ok(self.response)
    }
}
