//! Gemini, in both versions of its API.

mod splicer;

use pegboard_discovery::ToolDefinition;
use serde_json::{Value, json, value::RawValue};

use super::{ClientTool, HiddenAnswer, Said, Splicer, ToolChoice, Wire, searchable};
use crate::{
    calls::HeldCall,
    catalog::CALL,
    conversation::Declared,
    json::{self, Object, quoted, text},
    route::WireName,
};

pub(crate) struct Gemini;

/// The key of a list of functions in a tool.
const FUNCTIONS: &str = "functionDeclarations";

/// The key of the place of a call in a kept answer. It is not sent.
const PLACE: &str = "pegboardPlace";

impl Wire for Gemini {
    fn name(&self) -> WireName {
        WireName::Gemini
    }

    fn history_key(&self) -> &'static str {
        "contents"
    }

    fn tools<'a>(&self, list: &'a RawValue) -> Result<Vec<ClientTool<'a>>, &'static str> {
        let mut tools = Vec::new();
        for raw in json::list(list).ok_or("unreadable-tools")? {
            let tool = Object::parse(raw.get()).ok_or("unreadable-tools")?;
            let mut keys = tool.fields().map(|(key, _)| key);
            let Some(functions) = tool.get(FUNCTIONS) else {
                let is_function = tool.has("function_declarations");
                if is_function {
                    return Err("unknown-tool-type");
                }
                // A tool of the provider, such as its search.
                tools.push(ClientTool { raw, name: None, searchable: None, mark: None });
                continue;
            };
            if keys.any(|key| key != FUNCTIONS) {
                return Err("unknown-tool-type");
            }
            for function in json::list(functions).ok_or("unreadable-tools")? {
                tools.push(client_function(function).ok_or("unreadable-tools")?);
            }
        }
        Ok(tools)
    }

    fn tool_list(&self, declared: &[Declared]) -> String {
        let (functions, others): (Vec<&Declared>, Vec<&Declared>) =
            declared.iter().partition(|tool| tool.name.is_some());
        let functions: Vec<&str> = functions.iter().map(|tool| tool.definition.as_str()).collect();
        let mut list = format!("[{{\"{FUNCTIONS}\":[{}]}}", functions.join(","));
        for tool in others {
            list.push(',');
            list.push_str(&tool.definition);
        }
        list.push(']');
        list
    }

    fn definition(&self, tool: &ToolDefinition) -> String {
        json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.input_schema})
            .to_string()
    }

    fn bypass(&self, body: &Object<'_>) -> Option<&'static str> {
        if body.has("tool_config") || body.has("generation_config") {
            return Some("snake-case");
        }
        let settings = body.value("generationConfig").unwrap_or_default();
        let candidates = settings["candidateCount"].as_u64().unwrap_or(1);
        (candidates > 1).then_some("several-choices")
    }

    fn choice(&self, body: &Object<'_>) -> ToolChoice {
        let config = body.value("toolConfig").unwrap_or_default();
        if config["functionCallingConfig"]["streamFunctionCallArguments"] == true {
            // Pieces of arguments have a form of their own.
            return ToolChoice::Unknown;
        }
        match config["functionCallingConfig"]["allowedFunctionNames"].as_array().map(Vec::as_slice) {
            None | Some([]) => ToolChoice::Free,
            Some([Value::String(name)]) => ToolChoice::Forced(name.clone()),
            Some(_) => ToolChoice::Unknown,
        }
    }

    fn no_calls(&self) -> (&'static str, &'static str) {
        ("toolConfig", r#"{"functionCallingConfig":{"mode":"NONE"}}"#)
    }

    fn said(&self, item: &Value) -> Option<Said> {
        (item["role"] == "model").then(|| said_in(parts(item)))
    }

    fn has_optional_ids(&self) -> bool {
        true
    }

    fn answer_part(&self, answer: &HiddenAnswer) -> String {
        let key = if answer.is_error { "error" } else { "output" };
        let id = if answer.call.id.is_empty() { String::new() } else { format!("\"id\":{},", quoted(&answer.call.id)) };
        let (name, text) = (quoted(&answer.call.name), quoted(&answer.text));
        format!(r#"{{"functionResponse":{{{id}"name":{name},"response":{{"{key}":{text}}}}}}}"#)
    }

    fn parked_part(&self, part: String, place: Option<usize>) -> String {
        match place {
            Some(place) => json::with_field(&part, PLACE, Some(&place.to_string())),
            None => part,
        }
    }

    fn answer_items(&self, parts: &[String]) -> Vec<String> {
        if parts.is_empty() {
            return Vec::new();
        }
        let parts: Vec<String> = parts.iter().map(|part| take_place(part).0).collect();
        vec![format!(r#"{{"role":"user","parts":[{}]}}"#, parts.join(","))]
    }

    fn join_answers(&self, known: &[String], parts: &[String], next: &str) -> Vec<String> {
        let calls = last_calls(known);
        let Some(list) = Object::parse(next).and_then(|object| object.get("parts")).and_then(json::list) else {
            let mut items = self.answer_items(parts);
            items.push(next.to_owned());
            return items;
        };
        let mut is_answered = vec![false; calls.len()];
        // Those whose calls are known, because the client may have answered another call of the same tool. Then the
        // client's: only they may name the call in another way.
        let (mut all, mut others) = (Vec::new(), Vec::new());
        for part in parts {
            match take_place(part) {
                (part, Some(place)) if is_answered.get(place) == Some(&false) => {
                    is_answered[place] = true;
                    all.push((part, Some(place)));
                }
                (part, _) => others.push(part),
            }
        }
        let own: Vec<&str> = list.iter().map(|part| part.get()).collect();
        let own = answer_calls(&own, &calls, &mut is_answered);
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        all.extend(answer_calls(&others, &calls, &mut is_answered));
        all.extend(own);
        // Answers without an id belong to the call at the same place.
        all.sort_by_key(|(_, call)| call.unwrap_or(usize::MAX));
        let all: Vec<String> = all.into_iter().map(|(part, _)| part).collect();
        vec![json::with_field(next, "parts", Some(&format!("[{}]", all.join(","))))]
    }

    fn answered(&self, known: &[String], next: &str) -> String {
        let calls = last_calls(known);
        let Some(list) = Object::parse(next).and_then(|object| object.get("parts")).and_then(json::list) else {
            return next.to_owned();
        };
        let parts: Vec<&str> = list.iter().map(|part| part.get()).collect();
        let answered = answer_calls(&parts, &calls, &mut vec![false; calls.len()]);
        if answered.iter().zip(&parts).all(|((part, _), before)| part == before) {
            return next.to_owned();
        }
        let parts: Vec<String> = answered.into_iter().map(|(part, _)| part).collect();
        json::with_field(next, "parts", Some(&format!("[{}]", parts.join(","))))
    }

    fn finished_search(&self, _answer: &HiddenAnswer) -> Option<Vec<String>> {
        // A call without a signature is refused.
        None
    }

    fn user_text(&self, item: &Value) -> Option<String> {
        let parts = parts(item);
        let is_text = item["role"] != "model" && !parts.iter().any(|part| part.get("functionResponse").is_some());
        is_text.then(|| super::own_text(parts.iter().map(|part| text(part, "text"))).unwrap_or_default().to_owned())
    }

    fn with_note(&self, item: &str, note: &str) -> Option<String> {
        let parts = Object::parse(item)?.get("parts")?;
        let mut list: Vec<String> = json::list(parts)?.iter().map(|part| part.get().to_owned()).collect();
        list.push(format!(r#"{{"text":{}}}"#, quoted(note)));
        Some(json::with_field(item, "parts", Some(&format!("[{}]", list.join(",")))))
    }

    fn splicer(&self, _body: &Object<'_>) -> Box<dyn Splicer> {
        Box::<splicer::GeminiSplicer>::default()
    }
}

/// Returns a kept answer as it is sent, and the place of its call.
fn take_place(part: &str) -> (String, Option<usize>) {
    let place = Object::parse(part).and_then(|fields| fields.get(PLACE)?.get().parse().ok());
    (if place.is_some() { json::with_field(part, PLACE, None) } else { part.to_owned() }, place)
}

/// An answer of the client to a call.
struct Answered {
    name: String,
    /// Empty if the client left it out.
    id: String,
}

impl Answered {
    /// Reads a part; `None` if it is not an answer.
    fn read(part: &str) -> Option<Self> {
        let fields = Object::parse(part)?.get("functionResponse").map(RawValue::get).and_then(Object::parse)?;
        Some(Self { name: fields.text("name")?, id: fields.text("id").unwrap_or_default() })
    }

    /// Returns the part with the name and the id of the call as the model has made it, because the provider matches
    /// answers with calls by both; `None` if it has them.
    fn of_call(&self, part: &str, call: &HeldCall) -> Option<String> {
        if call.name == self.name && call.id == self.id {
            return None;
        }
        let response = Object::parse(part)?.get("functionResponse")?;
        let mut changed = json::with_field(response.get(), "name", Some(&quoted(&call.name)));
        if call.id != self.id {
            changed = json::with_field(&changed, "id", Some(&quoted(&call.id)));
        }
        Some(json::with_field(part, "functionResponse", Some(&changed)))
    }
}

/// Returns the calls of the model's last item in a turn.
fn last_calls(known: &[String]) -> Vec<HeldCall> {
    let last = known.iter().rev().find_map(|item| {
        let item: Value = serde_json::from_str(item).ok()?;
        (item["role"] == "model").then_some(item)
    });
    last.map(|item| said_in(parts(&item)).calls).unwrap_or_default()
}

/// Returns parts so that they answer the calls as the model has made them, with the place of the call that each answers.
fn answer_calls(parts: &[&str], calls: &[HeldCall], is_answered: &mut [bool]) -> Vec<(String, Option<usize>)> {
    let answers: Vec<Option<Answered>> = parts.iter().map(|part| Answered::read(part)).collect();
    let matched = match_calls(&answers, calls, is_answered);
    let change = |((part, answer), call): ((&&str, &Option<Answered>), Option<usize>)| {
        let changed = answer.as_ref().zip(call).and_then(|(answer, call)| answer.of_call(part, &calls[call]));
        (changed.unwrap_or_else(|| (*part).to_owned()), call)
    };
    parts.iter().zip(&answers).zip(matched).map(change).collect()
}

/// Returns the place of the call that each answer belongs to: by its id, by its name, and else in their order, because the
/// model may have written a name in another way.
fn match_calls(answers: &[Option<Answered>], calls: &[HeldCall], is_answered: &mut [bool]) -> Vec<Option<usize>> {
    let is_inner = |call: &HeldCall, name: &str| {
        let given = serde_json::from_str::<Value>(&call.arguments).unwrap_or_default();
        call.name == CALL && text(&given, "name") == name
    };
    let mut found: Vec<Option<usize>> = answers.iter().map(|_| None).collect();
    let mut match_by = |is_meant: &dyn Fn(&HeldCall, &Answered) -> bool| {
        for (answer, found) in answers.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            let Some(answer) = answer else { continue };
            *found = (0..calls.len()).find(|at| !is_answered[*at] && is_meant(&calls[*at], answer));
            if let Some(at) = *found {
                is_answered[at] = true;
            }
        }
    };
    match_by(&|call, answer| !answer.id.is_empty() && call.id == answer.id);
    match_by(&|call, answer| answer.id.is_empty() && (call.name == answer.name || is_inner(call, &answer.name)));
    match_by(&|call, answer| answer.id.is_empty() && call.name == CALL);
    found
}

fn client_function(raw: &RawValue) -> Option<ClientTool<'_>> {
    let function = Object::parse(raw.get())?;
    let name = function.text("name")?;
    let description = function.text("description").unwrap_or_default();
    let schema = match function.get("parametersJsonSchema").filter(|_| function.has("parametersJsonSchema")) {
        Some(schema) => Some(schema.to_owned()),
        None => function.value("parameters").and_then(|mut schema| {
            lower_types(&mut schema, 0);
            RawValue::from_string(schema.to_string()).ok()
        }),
    };
    let searchable = searchable(&name, &description, schema.as_deref());
    Some(ClientTool { raw, name: Some(name), searchable: Some(searchable), mark: None })
}

/// Maximum depth of schemas that are adapted.
const MAX_DEPTH: usize = 64;

/// Writes the types of a schema of Gemini (`STRING`) like those of JSON Schema (`string`).
fn lower_types(schema: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Object(fields) => {
            if fields.get("nullable") == Some(&Value::Bool(true)) {
                fields.remove("type");
            }
            for (key, value) in fields {
                match value {
                    Value::String(kind) if key == "type" => *kind = kind.to_lowercase(),
                    value => lower_types(value, depth + 1),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| lower_types(item, depth + 1)),
        _ => {}
    }
}

/// Returns the parts of a content.
fn parts(item: &Value) -> &[Value] {
    item["parts"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns what the model has said in parts. Clients do not send its thoughts back.
fn said_in(parts: &[Value]) -> Said {
    let mut said = Said::default();
    for part in parts.iter().filter(|part| part["thought"] != true) {
        said.text.push_str(text(part, "text"));
    }
    said.calls.extend(calls_in(parts).map(call_of));
    said
}

/// Returns the calls in parts.
fn calls_in(parts: &[Value]) -> impl Iterator<Item = &Value> {
    parts.iter().filter(|part| part["thought"] != true).filter_map(|part| part.get("functionCall"))
}

fn call_of(call: &Value) -> HeldCall {
    let (id, name) = (text(call, "id").to_owned(), text(call, "name").to_owned());
    HeldCall { id, name, arguments: json::arguments(call.get("args")) }
}

#[cfg(test)]
mod tests;
