//! OpenAI Responses.

mod splicer;

use std::borrow::Cow;

use pegboard_discovery::ToolDefinition;
use serde_json::{Value, json, value::RawValue};

use super::{
    ClientTool, HiddenAnswer, PassedHistory, Repaired, Said, Splicer, ThoughtPlace, ToolChoice, Wire, append_text,
    searchable,
};
use crate::{
    calls::HeldCall,
    json::{self, Object, quoted, text},
    route::WireName,
};

pub(crate) struct Responses;

/// Types of tools that are never deferred, up to their version: the provider executes them, or their input is no JSON.
const BUILT_IN: [&str; 11] = [
    "custom",
    "web_search",
    "file_search",
    "computer",
    "code_interpreter",
    "image_generation",
    "local_shell",
    "shell",
    "apply_patch",
    "mcp",
    "programmatic_tool_calling",
];

/// Types of items that the client writes.
const CLIENT_ITEMS: [&str; 8] = [
    "message",
    "function_call_output",
    "custom_tool_call_output",
    "computer_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
    "mcp_approval_response",
];

/// Types of items that the model writes.
const MODEL_ITEMS: [&str; 15] = [
    "reasoning",
    "function_call",
    "custom_tool_call",
    "web_search_call",
    "file_search_call",
    "computer_call",
    "code_interpreter_call",
    "image_generation_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "compaction",
];

impl Wire for Responses {
    fn name(&self) -> WireName {
        WireName::Responses
    }

    fn history_key(&self) -> &'static str {
        "input"
    }

    fn items<'a>(&self, history: &'a RawValue) -> Option<Vec<Cow<'a, str>>> {
        if history.get().starts_with('"') {
            return Some(vec![Cow::Owned(format!(r#"{{"role":"user","content":{}}}"#, history.get()))]);
        }
        Some(json::list(history)?.into_iter().map(|item| Cow::Borrowed(item.get())).collect())
    }

    fn tools<'a>(&self, list: &'a RawValue) -> Result<Vec<ClientTool<'a>>, &'static str> {
        json::list(list).ok_or("unreadable-tools")?.into_iter().map(client_tool).collect()
    }

    fn definition(&self, tool: &ToolDefinition) -> String {
        let ToolDefinition { name, description, input_schema } = tool;
        json!({"type": "function", "name": name, "description": description, "parameters": input_schema, "strict": false})
            .to_string()
    }

    fn history_when_passed(&self) -> PassedHistory {
        // Reasoning without the call behind it, and a response with an open search, are refused.
        PassedHistory::Restored
    }

    fn bypass(&self, body: &Object<'_>) -> Option<&'static str> {
        if body.is_true("background") {
            return Some("background");
        }
        body.has("conversation").then_some("conversation")
    }

    fn choice(&self, body: &Object<'_>) -> ToolChoice {
        match body.value("tool_choice") {
            None => ToolChoice::Free,
            Some(Value::String(choice)) if ["auto", "none", "required"].contains(&choice.as_str()) => ToolChoice::Free,
            Some(choice) => match (text(&choice, "type"), text(&choice, "name")) {
                ("function" | "custom", name) if !name.is_empty() => ToolChoice::Forced(name.to_owned()),
                _ => ToolChoice::Unknown,
            },
        }
    }

    fn no_calls(&self) -> (&'static str, &'static str) {
        ("tool_choice", "\"none\"")
    }

    fn previous(&self, body: &Object<'_>) -> Option<String> {
        body.text(PREVIOUS)
    }

    fn previous_key(&self) -> &'static str {
        PREVIOUS
    }

    fn said(&self, item: &Value) -> Option<Said> {
        match (kind_of(item), text(item, "role")) {
            ("message", "assistant") => {
                Some(Said { text: super::chat::content_text(&item["content"]), calls: Vec::new() })
            }
            ("function_call", _) => Some(Said { text: String::new(), calls: vec![call_of(item)] }),
            ("custom_tool_call", _) => {
                let call = HeldCall { arguments: text(item, "input").to_owned(), ..call_of(item) };
                Some(Said { text: String::new(), calls: vec![call] })
            }
            (kind, _) if MODEL_ITEMS.contains(&kind) => Some(Said::default()),
            // Of an item that is not known, the id is all there is.
            _ => self.referred(item).map(|id| Said { text: id.to_owned(), calls: Vec::new() }),
        }
    }

    fn referred<'a>(&self, item: &'a Value) -> Option<&'a str> {
        // Their type is optional.
        let is_reference = ["item_reference", ""].contains(&kind_of(item));
        Some(text(item, "id")).filter(|id| is_reference && !id.is_empty())
    }

    fn item_bypass(&self, item: &Value) -> Option<&'static str> {
        match kind_of(item) {
            "tool_search_call" | "tool_search_output" | "additional_tools" => Some("already-deferred"),
            "function_call" if item.get("namespace").is_some_and(|namespace| !namespace.is_null()) => {
                Some("already-deferred")
            }
            kind if CLIENT_ITEMS.contains(&kind) || MODEL_ITEMS.contains(&kind) => None,
            _ if self.referred(item).is_some() => None,
            _ => Some("unknown-item"),
        }
    }

    fn answer_part(&self, answer: &HiddenAnswer) -> String {
        let (id, text) = (quoted(&answer.call.id), quoted(&answer.text));
        format!(r#"{{"type":"function_call_output","call_id":{id},"output":{text}}}"#)
    }

    fn answer_items(&self, parts: &[String]) -> Vec<String> {
        parts.to_vec()
    }

    fn turn_without_thinking(&self, items: &[String], place: &ThoughtPlace) -> Vec<String> {
        let resolved = |at: usize| place.resolved.get(at).and_then(Option::as_deref);
        let whole = items.iter().enumerate().map(|(at, item)| resolved(at).unwrap_or(item));
        let parsed: Result<Vec<Value>, _> = whole.map(serde_json::from_str).collect();
        let Ok(mut parsed) = parsed else { return items.to_vec() };
        let is_lost: Vec<bool> = (0..parsed.len()).map(|at| is_lost(&parsed, at)).collect();
        let first = if place.is_behind_removed { Some(0) } else { is_lost.iter().position(|is_lost| *is_lost) };
        let Some(first) = first else { return items.to_vec() };
        let kept = |at: usize| {
            let may_change = at >= first && !is_reasoning(&parsed[at]) && may_lose_id(&parsed[at]);
            if !may_change {
                return items[at].clone();
            }
            remove_id(&mut parsed[at]);
            parsed[at].to_string()
        };
        (0..items.len()).filter(|at| !is_lost[*at]).map(kept).collect()
    }

    fn repaired(&self, history: &str, _field: &dyn Fn(&str) -> Option<Value>, error: &Value) -> Option<Repaired> {
        let items: Vec<Value> = serde_json::from_str(&format!("[{history}]")).ok()?;
        // Without outputs of the client, its turn may have ended with another response than the one that it names.
        items.iter().find(|item| kind_of(item) == "function_call_output")?;
        let mut ids: Vec<&str> = Vec::new();
        for named in text(&error["error"], "message").split("No tool output found for function call ").skip(1) {
            let id = named.split_whitespace().next().unwrap_or_default().trim_end_matches(['.', ',', ';']);
            let is_known = ids.contains(&id) || items.iter().any(|item| text(item, "call_id") == id);
            ids.extend((!id.is_empty() && !is_known).then_some(id));
        }
        // It may be a lost search, or a call that the client has not answered.
        let lost = "The result of this call is not available.";
        let output = |id| json!({"type": "function_call_output", "call_id": id, "output": lost}).to_string();
        let outputs: Vec<String> = ids.into_iter().map(output).collect();
        let history = format!("{},{history}", outputs.join(","));
        (!outputs.is_empty()).then(|| Repaired { history, fields: Vec::new() })
    }

    fn finished_search(&self, answer: &HiddenAnswer) -> Option<Vec<String>> {
        let HeldCall { id, name, arguments } = &answer.call;
        let call = json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments});
        Some(vec![call.to_string(), self.answer_part(answer)])
    }

    fn user_text(&self, item: &Value) -> Option<String> {
        let is_user = kind_of(item) == "message" && item["role"] == "user";
        is_user.then(|| super::own_content_text(&item["content"]))
    }

    fn with_note(&self, item: &str, note: &str) -> Option<String> {
        let mut item: Value = serde_json::from_str(item).ok()?;
        match item.get_mut("content")? {
            Value::Array(parts) => parts.push(json!({"type": "input_text", "text": note})),
            content => append_text(content, note)?,
        }
        Some(item.to_string())
    }

    fn splicer(&self, body: &Object<'_>) -> Box<dyn Splicer> {
        // What the provider does not store, it accepts again only in encrypted form.
        let is_stored = body.get("store").is_none_or(|store| store.get() != "false");
        Box::new(splicer::ResponsesSplicer::new(is_stored, self.previous(body)))
    }
}

/// The key of the response that a request goes on from.
const PREVIOUS: &str = "previous_response_id";

fn kind_of(item: &Value) -> &str {
    match text(item, "type") {
        "" if item.get("role").is_some() => "message",
        kind => kind,
    }
}

/// Returns whether an item is valid without its id. Calls of the provider's own tools are not, and neither are references.
fn may_lose_id(item: &Value) -> bool {
    ["reasoning", "message", "function_call", "custom_tool_call"].contains(&kind_of(item))
}

/// Removes reasoning from a turn, and the optional ids behind it: by its id, the provider knows that an item had reasoning
/// before it, and refuses it alone.
fn remove_reasoning(items: &mut Vec<Value>, is_lost: impl Fn(&Value) -> bool) {
    let is_lost = |item: &Value| kind_of(item) == "reasoning" && is_lost(item);
    let Some(first) = items.iter().position(is_lost) else { return };
    items[first..].iter_mut().filter(|item| !is_reasoning(item) && may_lose_id(item)).for_each(remove_id);
    items.retain(|item| !is_lost(item));
}

fn remove_id(item: &mut Value) {
    if let Some(fields) = item.as_object_mut() {
        fields.shift_remove("id");
    }
}

/// Returns whether an item is reasoning, also by the id of an item that is not known.
fn is_reasoning(item: &Value) -> bool {
    kind_of(item) == "reasoning" || Responses.referred(item).is_some_and(|id| id.starts_with("rs_"))
}

/// Returns whether reasoning must be removed from a turn that may have had hidden items: whether what it led to is hidden
/// for sure, or is there and is valid without it. The provider knows all other items, and those that a reference names,
/// with the reasoning before them.
fn is_lost(turn: &[Value], at: usize) -> bool {
    is_reasoning(&turn[at]) && turn.get(at + 1).is_none_or(|next| is_reasoning(next) || may_lose_id(next))
}

/// Returns a call as it is in items.
fn call_of(item: &Value) -> HeldCall {
    HeldCall {
        id: text(item, "call_id").to_owned(),
        name: text(item, "name").to_owned(),
        arguments: json::arguments(item.get("arguments")),
    }
}

fn client_tool(raw: &RawValue) -> Result<ClientTool<'_>, &'static str> {
    let tool = Object::parse(raw.get()).ok_or("unreadable-tools")?;
    let kind = tool.text("type").ok_or("unreadable-tools")?;
    if tool.get("defer_loading").is_some() || ["namespace", "tool_search"].contains(&kind.as_str()) {
        return Err("already-deferred");
    }
    let name = tool.text("name");
    if kind != "function" {
        let is_known = BUILT_IN.iter().any(|built_in| kind.starts_with(built_in));
        return if is_known {
            Ok(ClientTool { raw, name, searchable: None, mark: None })
        } else {
            Err("unknown-tool-type")
        };
    }
    let name = name.ok_or("unreadable-tools")?;
    let schema = tool.get("parameters").filter(|_| tool.has("parameters"));
    let searchable = searchable(&name, &tool.text("description").unwrap_or_default(), schema);
    Ok(ClientTool { raw, name: Some(name), searchable: Some(searchable), mark: None })
}
