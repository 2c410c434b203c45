//! Anthropic Messages.

mod splicer;

use pegboard_discovery::{DialectName, ToolDefinition};
use pegboard_llm::{Delivery, Model, delivery};
use serde_json::{Value, json, value::RawValue};

use super::{
    ClientTool, HiddenAnswer, PassedHistory, Repaired, Said, Splicer, ToolChoice, Wire, append_text, searchable,
};
use crate::{
    calls::HeldCall,
    json::{self, CACHE_MARK, Object, quoted, text, with_field},
    route::WireName,
};

pub(crate) struct Messages;

/// Types of tools that the provider or the client's own code executes, up to their version.
const BUILT_IN: [&str; 8] =
    ["web_search_", "web_fetch_", "code_execution_", "bash_", "text_editor_", "computer_", "memory_", "mcp_toolset"];

/// Blocks of thinking, which are valid only behind an unchanged history.
const THINKING: [&str; 2] = ["thinking", "redacted_thinking"];

/// The key of the management of the context.
const CONTEXT: &str = "context_management";

const DEFERRED: &str = "defer_loading";

/// The type of references to tools in results.
const REFERENCE: &str = "tool_reference";

impl Wire for Messages {
    fn name(&self) -> WireName {
        WireName::Messages
    }

    fn history_key(&self) -> &'static str {
        "messages"
    }

    fn tools<'a>(&self, list: &'a RawValue) -> Result<Vec<ClientTool<'a>>, &'static str> {
        json::list(list).ok_or("unreadable-tools")?.into_iter().map(client_tool).collect()
    }

    fn kept(&self, definition: &str) -> String {
        with_field(definition, CACHE_MARK, None)
    }

    fn deferred(&self, definition: &str) -> Option<String> {
        Some(with_field(&self.kept(definition), DEFERRED, Some("true")))
    }

    fn is_deferred(&self, declared: &str) -> bool {
        Object::parse(declared).is_some_and(|declared| declared.has(DEFERRED))
    }

    fn renewed(&self, declared: &str, definition: &str) -> String {
        let deferred = if self.is_deferred(declared) { self.deferred(definition) } else { None };
        deferred.unwrap_or_else(|| self.kept(definition))
    }

    fn without_references(&self, item: &str, definition: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let content = Object::parse(item).filter(|_| item.contains(REFERENCE))?.get("content")?;
        let mut is_changed = false;
        let block = |block: &RawValue| match result_without_references(block.get(), definition) {
            Some(changed) => {
                is_changed = true;
                changed
            }
            None => block.get().to_owned(),
        };
        let blocks: Vec<String> = json::list(content)?.into_iter().map(block).collect();
        is_changed.then(|| with_field(item, "content", Some(&format!("[{}]", blocks.join(",")))))
    }

    fn history_when_passed(&self) -> PassedHistory {
        PassedHistory::WithoutThinking
    }

    fn with_mark(&self, definition: &str, mark: &str) -> Option<String> {
        // A deferred tool with a mark is refused.
        let is_deferred = Object::parse(definition)?.has(DEFERRED);
        (!is_deferred).then(|| with_field(definition, CACHE_MARK, Some(mark)))
    }

    fn has_references(&self, model: &str) -> bool {
        let Ok(model) = Model::parse(&format!("anthropic/{model}")) else { return false };
        let choice = delivery::choose(&model, DialectName::Select, None);
        choice.is_ok_and(|choice| choice.delivery == Delivery::Reference && !choice.is_tentative())
    }

    fn definition(&self, tool: &ToolDefinition) -> String {
        json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}).to_string()
    }

    fn bypass(&self, _body: &Object<'_>) -> Option<&'static str> {
        None
    }

    fn choice(&self, body: &Object<'_>) -> ToolChoice {
        let Some(choice) = body.value("tool_choice") else { return ToolChoice::Free };
        match text(&choice, "type") {
            "auto" | "any" | "none" => ToolChoice::Free,
            "tool" => ToolChoice::Forced(text(&choice, "name").to_owned()),
            _ => ToolChoice::Unknown,
        }
    }

    fn no_calls(&self) -> (&'static str, &'static str) {
        ("tool_choice", r#"{"type":"none"}"#)
    }

    fn said(&self, item: &Value) -> Option<Said> {
        if item["role"] != "assistant" {
            return None;
        }
        let mut said = Said { text: super::chat::content_text(&item["content"]), ..Said::default() };
        for block in blocks(item).iter().filter(|block| block["type"] == "tool_use") {
            let arguments = block.get("input").map(Value::to_string).unwrap_or_default();
            said.calls.push(call_of(block, arguments));
        }
        Some(said)
    }

    fn item_bypass(&self, item: &Value) -> Option<&'static str> {
        let is_deferred = |block: &Value| {
            let kind = text(block, "type");
            let is_reference = |inner: &Value| inner["type"] == "tool_reference";
            let inner = block["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            ["tool_search_tool_result", "tool_addition", "tool_removal", "tool_reference"].contains(&kind)
                || (kind == "tool_result" && inner.iter().any(is_reference))
        };
        blocks(item).iter().any(is_deferred).then_some("already-deferred")
    }

    fn answer_part(&self, answer: &HiddenAnswer) -> String {
        let id = quoted(&answer.call.id);
        if !answer.references.is_empty() {
            let reference = |name: &String| json!({"type": "tool_reference", "tool_name": name});
            let mut content: Vec<Value> = answer.references.iter().map(reference).collect();
            if !answer.text.is_empty() {
                content.push(json!({"type": "text", "text": answer.text}));
            }
            return format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":{}}}"#, Value::from(content));
        }
        let error = if answer.is_error { r#","is_error":true"# } else { "" };
        format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":{}{error}}}"#, quoted(&answer.text))
    }

    fn answer_items(&self, parts: &[String]) -> Vec<String> {
        if parts.is_empty() {
            return Vec::new();
        }
        vec![format!(r#"{{"role":"user","content":[{}]}}"#, parts.join(","))]
    }

    fn join_answers(&self, _known: &[String], parts: &[String], next: &str) -> Vec<String> {
        let joined = Object::parse(next).filter(|object| object.text("role").as_deref() == Some("user"));
        let content = joined.and_then(|object| object.get("content"));
        let own = match content.map(RawValue::get) {
            Some(text) if text.starts_with('"') => format!(r#"{{"type":"text","text":{text}}}"#),
            Some(list) if list.starts_with('[') => list[1..list.len() - 1].trim().to_owned(),
            _ => {
                let mut items = self.answer_items(parts);
                items.push(next.to_owned());
                return items;
            }
        };
        let separator = if own.is_empty() || parts.is_empty() { "" } else { "," };
        let content = format!("[{}{separator}{own}]", parts.join(","));
        vec![with_field(next, "content", Some(&content))]
    }

    fn keep_marks(&self, known: &[String], sent: &[String]) -> Vec<String> {
        let mark = sent.iter().rev().find_map(|item| {
            let item: Value = serde_json::from_str(item).ok()?;
            blocks(&item).iter().rev().find_map(|block| block.get(CACHE_MARK).map(Value::to_string))
        });
        let mut items = known.to_vec();
        if let (Some(mark), Some(last)) = (mark, items.last_mut())
            && let Some(marked) = with_block_mark(last, &mark)
        {
            *last = marked;
        }
        items
    }

    fn without_thinking(&self, item: &str) -> String {
        let Some(content) = Object::parse(item).and_then(|object| object.get("content")) else {
            return item.to_owned();
        };
        let Some(list) = json::list(content) else { return item.to_owned() };
        let is_kept = |block: &&&RawValue| {
            let kind = Object::parse(block.get()).and_then(|block| block.text("type"));
            !kind.is_some_and(|kind| THINKING.contains(&kind.as_str()))
        };
        let kept: Vec<&str> = list.iter().filter(is_kept).map(|block| block.get()).collect();
        if kept.len() == list.len() || kept.is_empty() {
            return item.to_owned();
        }
        with_field(item, "content", Some(&format!("[{}]", kept.join(","))))
    }

    fn repaired(&self, history: &str, field: &dyn Fn(&str) -> Option<Value>, error: &Value) -> Option<Repaired> {
        // Some models accept thinking only behind the same history, and a turn without it only while they do not think.
        let message = text(&error["error"], "message").to_lowercase();
        // And not about the settings of the request.
        let is_about_history = message.contains("messages.") || message.contains("conversation");
        let whole = format!("[{history}]");
        let items: Option<Vec<&RawValue>> = serde_json::from_str(&whole).ok();
        let items = items.filter(|_| is_about_history && message.contains("thinking"))?;
        let changed: Vec<String> = items.iter().map(|item| self.without_thinking(item.get())).collect();
        let mut fields = Vec::new();
        if field("thinking").is_some_and(|thinking| thinking["type"] != "disabled") {
            fields.push(("thinking", Some(r#"{"type":"disabled"}"#.to_owned())));
            let context = field(CONTEXT).and_then(without_thinking_edits);
            fields.extend(context.map(|context| (CONTEXT, context)));
        }
        let is_same = fields.is_empty() && changed.iter().zip(&items).all(|(changed, item)| changed == item.get());
        (!is_same).then(|| Repaired { history: changed.join(","), fields })
    }

    fn needs_thinking_in_loops(&self) -> bool {
        true
    }

    fn finished_search(&self, _answer: &HiddenAnswer) -> Option<Vec<String>> {
        // A call without thinking before it is refused where thinking is on.
        None
    }

    fn user_text(&self, item: &Value) -> Option<String> {
        if item["role"] != "user" {
            return None;
        }
        let has_results = blocks(item).iter().any(|block| block["type"] == "tool_result");
        (!has_results).then(|| super::own_content_text(&item["content"]))
    }

    fn with_note(&self, item: &str, note: &str) -> Option<String> {
        let object = Object::parse(item)?;
        let mut content: Value = serde_json::from_str(object.get("content")?.get()).ok()?;
        append_text(&mut content, note)?;
        Some(with_field(item, "content", Some(&content.to_string())))
    }

    fn splicer(&self, _body: &Object<'_>) -> Box<dyn Splicer> {
        Box::<splicer::MessagesSplicer>::default()
    }
}

/// Returns the management of the context without edits of thinking, which are refused where thinking is disabled; `None`
/// if it has none. Inside it is the rest, if there is any.
fn without_thinking_edits(mut context: Value) -> Option<Option<String>> {
    let fields = context.as_object_mut()?;
    let edits = fields.get_mut("edits")?.as_array_mut()?;
    let count = edits.len();
    edits.retain(|edit| !text(edit, "type").starts_with("clear_thinking_"));
    if edits.len() == count {
        return None;
    }
    if edits.is_empty() {
        fields.shift_remove("edits");
    }
    Some((!fields.is_empty()).then(|| context.to_string()))
}

fn client_tool(raw: &RawValue) -> Result<ClientTool<'_>, &'static str> {
    let tool = Object::parse(raw.get()).ok_or("unreadable-tools")?;
    let kind = tool.text("type").unwrap_or_else(|| "custom".to_owned());
    if tool.get(DEFERRED).is_some() || kind.starts_with("tool_search_tool") {
        return Err("already-deferred");
    }
    let name = tool.text("name");
    let mark = tool.get(CACHE_MARK).filter(|_| tool.has(CACHE_MARK)).map(|mark| mark.get().to_owned());
    if kind != "custom" {
        let is_known = BUILT_IN.iter().any(|built_in| kind.starts_with(built_in));
        let is_deferred = tool.value("default_config").is_some_and(|config| config.get(DEFERRED).is_some());
        return match (is_known, is_deferred) {
            (true, false) => Ok(ClientTool { raw, name, searchable: None, mark }),
            (true, true) => Err("already-deferred"),
            _ => Err("unknown-tool-type"),
        };
    }
    let name = name.ok_or("unreadable-tools")?;
    // Programs of the model call it by its name, and must find it.
    let callers = tool.value("allowed_callers").and_then(|callers| callers.as_array().cloned());
    let is_direct = callers.is_none_or(|callers| callers.iter().all(|caller| caller == "direct"));
    let description = tool.text("description").unwrap_or_default();
    let searchable = is_direct.then(|| searchable(&name, &description, tool.get("input_schema")));
    Ok(ClientTool { raw, name: Some(name), searchable, mark })
}

/// Returns the blocks of a message.
fn blocks(item: &Value) -> &[Value] {
    item["content"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn call_of(block: &Value, arguments: String) -> HeldCall {
    HeldCall { id: text(block, "id").to_owned(), name: text(block, "name").to_owned(), arguments }
}

/// Returns the result of a search with the definitions of tools in place of references to them; `None` if it has none.
fn result_without_references(block: &str, definition: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let result: Value = serde_json::from_str(block).ok().filter(|block: &Value| block["type"] == "tool_result")?;
    let parts = result["content"].as_array()?;
    let is_reference = |part: &&Value| part["type"] == REFERENCE;
    parts.iter().find(is_reference)?;
    let mut lines = vec!["To be called with `call_tool`:".to_owned()];
    for name in parts.iter().filter(is_reference).map(|part| text(part, "tool_name")) {
        lines.push(definition(name).unwrap_or_else(|| format!("`{name}`, which is not available now")));
    }
    lines.extend(parts.iter().filter(|part| !is_reference(part)).map(|part| text(part, "text").to_owned()));
    Some(with_field(block, "content", Some(&quoted(&lines.join("\n")))))
}

/// Marks the last block of an item for the prompt cache; `None` if it cannot have a mark.
fn with_block_mark(item: &str, mark: &str) -> Option<String> {
    let content = Object::parse(item)?.get("content")?;
    let list = json::list(content)?;
    let (last, first) = list.split_last()?;
    let kind = Object::parse(last.get())?.text("type")?;
    if !["text", "tool_use", "tool_result"].contains(&kind.as_str()) {
        return None;
    }
    let mut blocks: Vec<String> = first.iter().map(|block| block.get().to_owned()).collect();
    blocks.push(with_field(last.get(), CACHE_MARK, Some(mark)));
    Some(with_field(item, "content", Some(&format!("[{}]", blocks.join(",")))))
}

#[cfg(test)]
mod tests;
