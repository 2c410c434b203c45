//! The request to the provider in place of the client's.

use axum::http::{HeaderValue, header};
use pegboard_discovery::ToolDefinition;
use serde_json::Value;

use crate::{
    calls::{Calls, Delivery, HeldCall},
    catalog::{CALL, SEARCH, ToolSet},
    conversation::{Declared, History, is_constant},
    json::{Object, quoted},
    mode::{Mode, Modes},
    wires::{ToolChoice, Wire},
};

/// Maximum number of characters of a user message that are searched for.
const MAX_QUERY: usize = 2000;

/// The fields of a request.
#[derive(Debug)]
pub(crate) struct Template {
    fields: Vec<(String, Field)>,
    /// Tokens that the history or the tools make.
    bytes: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Field {
    /// As the client wrote it.
    Raw(Box<str>),
    History,
    /// The history of a request without one, if there is any.
    AddedHistory,
    Tools,
}

impl Template {
    /// Takes the fields of a request, except its history and tools.
    pub(crate) fn new(body: &Object<'_>, history_key: &str) -> Self {
        let field = |(key, value): (&str, &serde_json::value::RawValue)| {
            let field = match key {
                "tools" => Field::Tools,
                key if key == history_key => Field::History,
                _ => Field::Raw(value.get().into()),
            };
            (key.to_owned(), field)
        };
        let has_history = body.has(history_key);
        let is_kept = |(key, _): &(&str, &serde_json::value::RawValue)| has_history || *key != history_key;
        let mut fields: Vec<(String, Field)> = body.fields().filter(is_kept).map(field).collect();
        if !has_history {
            fields.push((history_key.to_owned(), Field::AddedHistory));
        }
        let bytes = fields.iter().map(|(key, field)| match field {
            Field::Raw(raw) => key.len() + raw.len() + 4,
            _ => key.len() + 8,
        });
        Self { bytes: bytes.sum::<usize>() + 16, fields }
    }

    /// Replaces the value of a field, if the request has it.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        if let Some((_, field)) = self.fields.iter_mut().find(|(known, _)| known == key) {
            self.bytes += value.len();
            *field = Field::Raw(value.into());
        }
    }

    /// Removes a field.
    pub(crate) fn remove(&mut self, key: &str) {
        self.fields.retain(|(known, _)| known != key);
    }

    /// Returns the value of a field as the client wrote it; `None` if it is missing or `null`.
    pub(crate) fn value(&self, key: &str) -> Option<Value> {
        let (_, field) = self.fields.iter().find(|(known, _)| known == key)?;
        let Field::Raw(raw) = field else { return None };
        serde_json::from_str(raw).ok().filter(|value: &Value| !value.is_null())
    }

    /// Returns the request with this history, further items at its end, and tools. `field` replaces another one.
    pub(crate) fn render(&self, history: &str, further: &[String], tools: &str, field: Option<(&str, &str)>) -> String {
        let more: usize = further.iter().map(|item| item.len() + 1).sum();
        let mut body = String::with_capacity(self.bytes + history.len() + more + tools.len() + 32);
        body.push('{');
        let mut is_replaced = false;
        for (key, value) in &self.fields {
            if *value == Field::AddedHistory && history.is_empty() && further.is_empty() {
                continue;
            }
            if body.len() > 1 {
                body.push(',');
            }
            body.push_str(&quoted(key));
            body.push(':');
            match value {
                Field::Raw(raw) => match field.filter(|(other, _)| other == key) {
                    Some((_, other)) => {
                        is_replaced = true;
                        body.push_str(other);
                    }
                    None => body.push_str(raw),
                },
                Field::Tools => body.push_str(tools),
                Field::History | Field::AddedHistory => write_items(history, further, &mut body),
            }
        }
        if let Some((key, value)) = field.filter(|_| !is_replaced) {
            body.push_str(&format!(",{}:{value}", quoted(key)));
        }
        body.push('}');
        body
    }
}

fn write_items(history: &str, further: &[String], body: &mut String) {
    body.push('[');
    body.push_str(history);
    for item in further {
        if !body.ends_with('[') {
            body.push(',');
        }
        body.push_str(item);
    }
    body.push(']');
}

/// Returns the reason not to defer the tools of a conversation's first request.
pub(crate) fn pass_reason(tools: &ToolSet, modes: &Modes) -> Option<&'static str> {
    if tools.len() < modes.max_tools && tools.tokens < modes.max_tokens {
        return Some("few-tools");
    }
    (tools.deferrable() == 0).then_some("no-deferrable-tools")
}

/// Chooses the tools to declare. Once chosen, they are only ever appended to. An error is the reason to pass the request
/// through.
pub(crate) fn declare(
    wire: &dyn Wire,
    tools: &ToolSet,
    delivery: Delivery,
    history: &History,
    choice: &ToolChoice,
    modes: &Modes,
) -> Result<Vec<Declared>, &'static str> {
    let forced = match choice {
        ToolChoice::Free => None,
        ToolChoice::Forced(name) => Some(name.as_str()),
        ToolChoice::Unknown => return Err("tool-choice"),
    };
    let is_declared =
        |declared: &[Declared], name: &str| declared.iter().any(|tool| tool.name.as_deref() == Some(name));
    let mut declared = match &history.declared {
        Some(declared) => present_tools(wire, tools, declared),
        None => first_tools(wire, tools, delivery, forced, modes)?,
    };
    if forced.is_some_and(|name| !is_declared(&declared, name)) {
        return Err("forced-tool");
    }
    let needed = if history.called.is_empty() { None } else { Some(tools.names()) };
    for name in needed.into_iter().flatten() {
        let is_needed = history.called.iter().any(|called| called == name);
        if is_needed && tools.is_deferrable(name) && !is_declared(&declared, name) {
            declared.extend(declared_tool(wire, tools, name));
        }
    }
    Ok(declared)
}

/// Returns the tools that were declared before, as far as the request still has them, and in its present words. Found ones
/// stay without the request's: hidden turns refer to them, and the provider rejects references to missing definitions. New
/// ones that are never deferred follow at the end.
fn present_tools(wire: &dyn Wire, tools: &ToolSet, declared: &[Declared]) -> Vec<Declared> {
    let present = |tool: &Declared| match tool.name.as_deref() {
        Some(SEARCH | CALL) => Some(tool.clone()),
        Some(name) => match tools.definition(name) {
            Some(definition) => {
                let definition = wire.renewed(&tool.definition, definition);
                Some(Declared { definition, ..tool.clone() })
            }
            None => wire.is_deferred(&tool.definition).then(|| tool.clone()),
        },
        None => {
            let mut of_provider = tools.never_deferred().filter(|(name, _)| name.is_none());
            of_provider.any(|(_, definition)| wire.kept(definition) == tool.definition).then(|| tool.clone())
        }
    };
    let mut current: Vec<Declared> = declared.iter().filter_map(present).collect();
    for (name, definition) in tools.never_deferred() {
        let tool = Declared { name: name.map(str::to_owned), definition: wire.kept(definition) };
        let is_known = current.iter().any(|known| match name {
            Some(_) => known.name == tool.name,
            None => *known == tool,
        });
        if !is_known {
            current.push(tool);
        }
    }
    current
}

/// Returns the list of declared tools, with the request's mark for the prompt cache at its last tool that may have one.
pub(crate) fn tool_list(wire: &dyn Wire, declared: &[Declared], mark: Option<&str>) -> String {
    let marked = mark.and_then(|mark| {
        let at = declared.iter().rposition(|tool| wire.with_mark(&tool.definition, mark).is_some())?;
        let mut marked = declared.to_vec();
        marked[at].definition = wire.with_mark(&declared[at].definition, mark)?;
        Some(marked)
    });
    wire.tool_list(marked.as_deref().unwrap_or(declared))
}

/// Returns the tools of a conversation's first request.
fn first_tools(
    wire: &dyn Wire,
    tools: &ToolSet,
    delivery: Delivery,
    forced: Option<&str>,
    modes: &Modes,
) -> Result<Vec<Declared>, &'static str> {
    let mut declared = own_tools(wire, tools, delivery).ok_or("no-search")?;
    declared.extend(
        tools
            .never_deferred()
            .map(|(name, definition)| Declared { name: name.map(str::to_owned), definition: wire.kept(definition) }),
    );
    for name in tools.names().filter(|name| tools.is_deferrable(name)) {
        if forced == Some(name) || modes.pinned.iter().any(|pinned| pinned == name) {
            declared.extend(declared_tool(wire, tools, name));
        }
    }
    Ok(declared)
}

/// Returns the tools of the proxy as they are declared.
fn own_tools(wire: &dyn Wire, tools: &ToolSet, delivery: Delivery) -> Option<Vec<Declared>> {
    let own = tools.own_tools(delivery == Delivery::Reference)?;
    let declare = |tool: &ToolDefinition| Declared { name: Some(tool.name.clone()), definition: wire.definition(tool) };
    Some(own.iter().map(declare).collect())
}

/// Returns what is declared once the provider has rejected references: found tools are called through `call_tool`.
pub(crate) fn declare_without_references(
    wire: &dyn Wire,
    tools: &ToolSet,
    declared: &[Declared],
) -> Option<Vec<Declared>> {
    let mut constant = own_tools(wire, tools, Delivery::Constant)?;
    let is_kept = |tool: &&Declared| tool.name.as_deref() != Some(SEARCH) && !wire.is_deferred(&tool.definition);
    constant.extend(declared.iter().filter(is_kept).cloned());
    Some(constant)
}

/// Returns an item with the definitions of found tools in place of references to them; `None` if it has none.
pub(crate) fn item_without_references(wire: &dyn Wire, tools: &ToolSet, item: &str) -> Option<String> {
    wire.without_references(item, &|name| tools.definition(name).map(|definition| wire.kept(definition)))
}

/// Returns a tool of the client as it is declared.
fn declared_tool(wire: &dyn Wire, tools: &ToolSet, name: &str) -> Option<Declared> {
    let definition = wire.kept(tools.definition(name)?);
    Some(Declared { name: Some(name.to_owned()), definition })
}

/// What `prefetch` adds to a request.
#[derive(Debug, Default)]
pub(crate) struct Prefetched {
    /// Items after the history.
    pub(crate) items: Vec<String>,
    /// A text at the end of the user's message.
    pub(crate) note: Option<String>,
}

/// Searches for the tools that the newest message of the user is likely to need.
pub(crate) fn prefetch(wire: &dyn Wire, history: &History, calls: &mut Calls) -> Prefetched {
    let text = history.last.as_ref().and_then(|item| wire.user_text(item)).unwrap_or_default();
    let query: String = text.chars().take(MAX_QUERY).collect();
    if query.trim().is_empty() || calls.delivery() != Delivery::Constant {
        return Prefetched::default();
    }
    // The same conversation gives the same id, so that a retry is the same request.
    let id: String = history.link.iter().take(9).map(|byte| format!("{byte:02x}")).collect();
    let arguments = format!("{{\"query\":{}}}", quoted(&query));
    let answer = calls.search(&HeldCall { id: format!("call_{id}"), name: SEARCH.to_owned(), arguments });
    if answer.is_error {
        return Prefetched::default();
    }
    match wire.finished_search(&answer) {
        Some(items) => Prefetched { items, note: None },
        None => {
            let note = format!(
                "<found-tools>\nTools for this message, to be called with `call_tool`:\n{}\n</found-tools>",
                answer.text
            );
            Prefetched { items: Vec::new(), note: Some(note) }
        }
    }
}

/// Chooses how found tools reach the model. A conversation keeps to it, also with another model, until the provider rejects
/// references.
pub(crate) fn delivery(
    wire: &dyn Wire,
    declared: Option<&[Declared]>,
    model: &str,
    mode: Mode,
    are_references_rejected: bool,
) -> Delivery {
    let calls_directly = match declared {
        Some(declared) => !is_constant(declared),
        None => mode == Mode::Defer && wire.has_references(model),
    };
    if calls_directly && !are_references_rejected { Delivery::Reference } else { Delivery::Constant }
}

/// Prepares the headers of a request whose answer is read by the proxy.
pub(crate) fn prepare_headers(headers: &mut axum::http::HeaderMap) {
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        catalog::ToolSets,
        wires::{Chat, Gemini, Messages, Responses},
    };

    #[test]
    fn what_the_user_has_written() {
        let check = |wire: &dyn Wire, item: Value, expected: Option<&str>| {
            assert_eq!(wire.user_text(&item).as_deref(), expected, "{item}");
        };
        let texts =
            ["<session_context>\nfiles\n</session_context>", "print the date", "<system-reminder>x</system-reminder>"];
        let parts = texts.map(|text| json!({"type": "text", "text": text}));
        for wire in [&Messages as &dyn Wire, &Chat, &Responses] {
            check(wire, json!({"role": "user", "content": parts}), Some("print the date"));
            check(wire, json!({"role": "user", "content": "print the date"}), Some("print the date"));
            check(wire, json!({"role": "user", "content": texts[0]}), Some(""));
            check(wire, json!({"role": "assistant", "content": "hi"}), None);
        }
        check(
            &Gemini,
            json!({"role": "user", "parts": texts.map(|text| json!({"text": text}))}),
            Some("print the date"),
        );
        check(&Gemini, json!({"role": "user", "parts": [{"functionResponse": {}}, {"text": "x"}]}), None);
        check(&Messages, json!({"role": "user", "content": [{"type": "tool_result"}, parts[1]]}), None);
    }

    #[test]
    fn deferral_begins_at_the_limits() {
        let tools = |count: usize| {
            let tool = |at: usize| json!({"name": format!("tool_{at}"), "input_schema": {"type": "object"}});
            let list: Vec<Value> = (0..count).map(tool).collect();
            ToolSets::default().get(&json!(list).to_string(), &Messages).0
        };
        let check = |count: usize, max_tools: usize, max_tokens: usize, expected: Option<&str>| {
            let modes = Modes { max_tools, max_tokens, ..Modes::default() };
            assert_eq!(pass_reason(&tools(count), &modes), expected, "{count} {max_tools} {max_tokens}");
        };
        check(29, 30, 10_000, Some("few-tools"));
        check(30, 30, 10_000, None);
        check(1, 1, 10_000, None);
        let tokens = tools(2).tokens;
        check(2, 30, tokens + 1, Some("few-tools"));
        check(2, 30, tokens, None);
        check(0, 0, 0, Some("no-deferrable-tools"));
    }

    #[test]
    fn a_conversation_keeps_its_delivery() {
        let declared = |names: &[&str]| -> Vec<Declared> {
            let declare = |name: &&str| Declared { name: Some((*name).to_owned()), definition: "{}".to_owned() };
            names.iter().map(declare).collect()
        };
        let check = |known: Option<&[&str]>, model: &str, mode: Mode, expected: Delivery| {
            let known = known.map(declared);
            let of = |are_rejected| delivery(&Messages, known.as_deref(), model, mode, are_rejected);
            assert_eq!(of(false), expected, "{known:?} {model} {mode:?}");
            assert_eq!(of(true), Delivery::Constant, "{known:?} {model} {mode:?}");
        };
        check(None, "claude-opus-4-8", Mode::Defer, Delivery::Reference);
        check(None, "claude-opus-4-8", Mode::Prefetch, Delivery::Constant);
        check(None, "MiniMax-M3", Mode::Defer, Delivery::Constant);
        check(Some(&[SEARCH, CALL]), "claude-opus-4-8", Mode::Defer, Delivery::Constant);
        check(Some(&[SEARCH]), "MiniMax-M3", Mode::Prefetch, Delivery::Reference);
    }

    #[test]
    fn requests_keep_their_fields() {
        let check = |body: &str, further: &[&str], field: Option<(&str, &str)>, expected: &str| {
            let object = Object::parse(body).expect("an object");
            let further: Vec<String> = further.iter().map(|item| (*item).to_owned()).collect();
            let template = Template::new(&object, "messages");
            let rendered = template.render("{\"a\" : 1}", &further, "[9]", field);
            assert_eq!(rendered, expected);
            let bound = template.bytes + 32 + 9 + further.iter().map(|item| item.len() + 1).sum::<usize>() + 3;
            assert!(rendered.len() <= bound, "{} {bound}", rendered.len());
        };
        let body = r#"{"temperature": 1.0,"messages":[],"tools":[1,2],"x":{"b":1,"a":2}}"#;
        check(body, &[], None, r#"{"temperature":1.0,"messages":[{"a" : 1}],"tools":[9],"x":{"b":1,"a":2}}"#);
        check(
            body,
            &["3", "4"],
            Some(("tool_choice", "\"none\"")),
            r#"{"temperature":1.0,"messages":[{"a" : 1},3,4],"tools":[9],"x":{"b":1,"a":2},"tool_choice":"none"}"#,
        );
        let body = r#"{"tool_choice":"auto","messages":[],"tools":[]}"#;
        let replaced = r#"{"tool_choice":"none","messages":[{"a" : 1}],"tools":[9]}"#;
        check(body, &[], Some(("tool_choice", "\"none\"")), replaced);
        for body in [r#"{"tools":[]}"#, r#"{"messages":null,"tools":[]}"#] {
            check(body, &["3"], None, r#"{"tools":[9],"messages":[{"a" : 1},3]}"#);
            let template = Template::new(&Object::parse(body).expect("an object"), "messages");
            assert_eq!(template.render("", &[], "[9]", None), r#"{"tools":[9]}"#);
        }
    }
}
