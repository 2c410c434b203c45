//! OpenAI Chat Completions.

mod splicer;

use pegboard_discovery::ToolDefinition;
use serde_json::{Value, json, value::RawValue};

use super::{ClientTool, HiddenAnswer, Said, Splicer, ToolChoice, Wire, searchable};
use crate::{
    calls::HeldCall,
    json::{self, Object, quoted, text},
    route::WireName,
};

pub(crate) struct Chat;

impl Wire for Chat {
    fn name(&self) -> WireName {
        WireName::Chat
    }

    fn history_key(&self) -> &'static str {
        "messages"
    }

    fn tools<'a>(&self, list: &'a RawValue) -> Result<Vec<ClientTool<'a>>, &'static str> {
        let mut tools = Vec::new();
        for raw in json::list(list).ok_or("unreadable-tools")? {
            let tool = Object::parse(raw.get()).ok_or("unreadable-tools")?;
            if tool.has("defer_loading") {
                return Err("already-deferred");
            }
            match tool.text("type").as_deref() {
                Some("function") => {}
                // Its input is no JSON, so that it cannot be called through another tool.
                Some("custom") => {
                    let name = tool.value("custom").map(|custom| text(&custom, "name").to_owned());
                    tools.push(ClientTool { raw, name, searchable: None, mark: None });
                    continue;
                }
                _ => return Err("unknown-tool-type"),
            }
            let function = tool.get("function").and_then(|raw| Object::parse(raw.get())).ok_or("unreadable-tools")?;
            let name = function.text("name").ok_or("unreadable-tools")?;
            if function.has("defer_loading") {
                return Err("already-deferred");
            }
            let description = function.text("description").unwrap_or_default();
            let schema = function.get("parameters").filter(|_| function.has("parameters"));
            let searchable = Some(searchable(&name, &description, schema));
            tools.push(ClientTool { raw, name: Some(name), searchable, mark: None });
        }
        Ok(tools)
    }

    fn definition(&self, tool: &ToolDefinition) -> String {
        let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.input_schema});
        json!({"type": "function", "function": function}).to_string()
    }

    fn bypass(&self, body: &Object<'_>) -> Option<&'static str> {
        let has_choices = body.value("n").is_some_and(|n| n != 1);
        if has_choices {
            return Some("several-choices");
        }
        (body.has("functions") || body.has("function_call")).then_some("legacy-functions")
    }

    fn choice(&self, body: &Object<'_>) -> ToolChoice {
        match body.value("tool_choice") {
            None => ToolChoice::Free,
            Some(Value::String(choice)) if ["auto", "none", "required"].contains(&choice.as_str()) => ToolChoice::Free,
            Some(choice) if choice["type"] == "function" => match choice["function"]["name"].as_str() {
                Some(name) => ToolChoice::Forced(name.to_owned()),
                None => ToolChoice::Unknown,
            },
            Some(_) => ToolChoice::Unknown,
        }
    }

    fn no_calls(&self) -> (&'static str, &'static str) {
        ("tool_choice", "\"none\"")
    }

    fn said(&self, item: &Value) -> Option<Said> {
        (item["role"] == "assistant").then(|| Said { text: content_text(&item["content"]), calls: calls_of(item) })
    }

    fn answer_part(&self, answer: &HiddenAnswer) -> String {
        let (id, text) = (quoted(&answer.call.id), quoted(&answer.text));
        format!(r#"{{"role":"tool","tool_call_id":{id},"content":{text}}}"#)
    }

    fn answer_items(&self, parts: &[String]) -> Vec<String> {
        parts.to_vec()
    }

    fn finished_search(&self, answer: &HiddenAnswer) -> Option<Vec<String>> {
        let HeldCall { id, name, arguments } = &answer.call;
        let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let turn = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        Some(vec![turn.to_string(), self.answer_part(answer)])
    }

    fn user_text(&self, item: &Value) -> Option<String> {
        (item["role"] == "user").then(|| super::own_content_text(&item["content"]))
    }

    fn with_note(&self, item: &str, note: &str) -> Option<String> {
        let mut item: Value = serde_json::from_str(item).ok()?;
        super::append_text(item.get_mut("content")?, note)?;
        Some(item.to_string())
    }

    fn splicer(&self, _body: &Object<'_>) -> Box<dyn Splicer> {
        Box::<splicer::ChatSplicer>::default()
    }
}

/// Returns the text of a content, which is a text or a list of parts.
pub(super) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| text(part, "text")).collect(),
        _ => String::new(),
    }
}

/// Returns the calls of a message.
fn calls_of(message: &Value) -> Vec<HeldCall> {
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    calls.iter().map(held_call).collect()
}

/// Returns a call of a message.
fn held_call(call: &Value) -> HeldCall {
    let function = &call["function"];
    HeldCall {
        id: text(call, "id").to_owned(),
        name: text(function, "name").to_owned(),
        arguments: json::arguments(function.get("arguments")),
    }
}
