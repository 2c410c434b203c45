//! The wire formats: one file each.

mod chat;
mod gemini;
mod messages;
mod responses;

use std::borrow::Cow;

use pegboard_core::RawTool;
use pegboard_discovery::ToolDefinition;
use serde_json::{Map, Value, json, value::RawValue};

pub(crate) use self::{chat::Chat, gemini::Gemini, messages::Messages, responses::Responses};
use crate::{
    calls::{Calls, HeldCall},
    conversation::Declared,
    json::{self, Object},
    route::WireName,
    sse::Frame,
};

/// A tool in the list of a client.
pub(crate) struct ClientTool<'a> {
    /// As the client wrote it.
    pub(crate) raw: &'a RawValue,
    /// The name by which the model calls it.
    pub(crate) name: Option<String>,
    /// The tool as search sees it; `None` if it is never deferred.
    pub(crate) searchable: Option<RawTool>,
    /// Its mark for the prompt cache.
    pub(crate) mark: Option<String>,
}

/// The history of a request that passes through although earlier turns were hidden from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassedHistory {
    /// As the client has seen it.
    Unchanged,
    /// As the client has seen it, without the thinking that is valid only behind the hidden turns.
    WithoutThinking,
    /// As the provider has seen it.
    Restored,
}

/// What a request says about the tools to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    /// The model decides, or may use none, or must use any.
    Free,
    /// The model must use this tool.
    Forced(String),
    /// Anything else.
    Unknown,
}

/// What the model has said and called in one turn, in a form that does not depend on how a client writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// All of its text.
    pub(crate) text: String,
    /// All of its calls, in order.
    pub(crate) calls: Vec<HeldCall>,
}

impl Said {
    /// Adds what followed.
    pub(crate) fn extend(&mut self, more: &Self) {
        self.text.push_str(&more.text);
        self.calls.extend(more.calls.iter().cloned());
    }

    /// Returns the same without the ids of the calls; `None` if they have none.
    pub(crate) fn without_ids(&self) -> Option<Self> {
        let has_ids = self.calls.iter().any(|call| !call.id.is_empty());
        let calls = self.calls.iter().map(|call| HeldCall { id: String::new(), ..call.clone() });
        has_ids.then(|| Self { text: self.text.clone(), calls: calls.collect() })
    }

    /// Appends the canonical form. White space and the notation of arguments do not matter: clients trim texts and
    /// write arguments anew.
    pub(crate) fn write_canonical(&self, out: &mut Vec<u8>) {
        out.extend(self.text.bytes().filter(|byte| !byte.is_ascii_whitespace()));
        for call in &self.calls {
            for part in [&call.id, &call.name] {
                out.push(0);
                out.extend_from_slice(part.as_bytes());
            }
            out.push(0);
            match serde_json::from_str::<Value>(&call.arguments) {
                Ok(arguments) => json::write_canonical(&arguments, out),
                Err(_) if call.arguments.trim().is_empty() => out.extend_from_slice(b"{}"),
                Err(_) => out.extend_from_slice(call.arguments.as_bytes()),
            }
        }
    }
}

/// The answer to a call that the client does not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HiddenAnswer {
    pub(crate) call: HeldCall,
    /// The whole answer, or what the references do not tell.
    pub(crate) text: String,
    pub(crate) is_error: bool,
    /// The names of found tools, where the answer refers to their definitions.
    pub(crate) references: Vec<String>,
}

/// A call that the client does not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HiddenCall {
    /// A search, which is to be answered.
    Search(HeldCall),
    /// A call that was not passed on, with the answer for the model.
    Rejected(HiddenAnswer),
}

/// How an answer of the provider ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// The model has finished its turn.
    #[default]
    Complete,
    /// The model was stopped: by a limit, a filter or a refusal. Its calls may be incomplete.
    Stopped,
    /// The provider has reported an error, which was passed on.
    Failed,
    /// The answer ended without its end.
    Broken,
}

/// One answer of the provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// What the model has said, as items of the history in the form of the provider.
    pub(crate) items: Vec<String>,
    /// The calls that the client does not see, in the order of the model.
    pub(crate) hidden: Vec<HiddenCall>,
    /// The places of the hidden calls among all calls of the round, where answers are matched with calls by them.
    pub(crate) hidden_places: Vec<usize>,
    /// The number of calls that were passed on to the client.
    pub(crate) client_calls: usize,
    /// Whether a call was changed on its way to the client.
    pub(crate) is_rewritten: bool,
    pub(crate) end: End,
}

impl Round {
    /// Returns whether the model waits for answers that the client does not give.
    pub(crate) fn has_hidden_calls(&self) -> bool {
        !self.hidden.is_empty()
    }
}

/// Turns the answers of several rounds into one answer for the client.
pub(crate) trait Splicer: Send + Sync {
    /// Takes in an event of a stream, and appends what the client gets.
    fn frame(&mut self, frame: &Frame, calls: &mut Calls, out: &mut Vec<u8>);

    /// Returns whether the current round of a stream has received its final event, so that nothing of it follows.
    fn is_round_over(&self) -> bool {
        false
    }

    /// Drops the copies of what the client has got of a stream, and keeps none from now on. The turn cannot be restored then,
    /// and the model cannot go on.
    fn stop_keeping(&mut self);

    /// Returns whether the end of a stream is made of copies.
    fn needs_copies(&self) -> bool {
        false
    }

    /// Ends a round of a stream.
    fn end_round(&mut self, calls: &mut Calls, out: &mut Vec<u8>) -> Round;

    /// Appends the end of the stream. `notice` is text for the end of the answer.
    fn finish(&mut self, notice: Option<&str>, out: &mut Vec<u8>);

    /// Takes in an answer that is not streamed.
    fn answer(&mut self, answer: Value, calls: &mut Calls) -> Round;

    /// Returns the body for the client after the last answer that is not streamed.
    fn finish_answer(&mut self, notice: Option<&str>) -> String;

    /// Appends an error that ends the stream.
    fn fail(&mut self, error: &Value, out: &mut Vec<u8>);

    /// Returns what the client has seen in all rounds.
    fn said(&self) -> &Said;

    /// Returns the tokens that the provider has read from its cache, in all rounds.
    fn cache_read_tokens(&self) -> u64;

    /// Returns whether the answer repeats the request, so that it must be changed in any case.
    fn repeats_request(&self) -> bool {
        false
    }

    /// Returns the id of the answer for the client, and the one that the provider knows all rounds by.
    fn response_ids(&self) -> Option<(String, String)> {
        None
    }

    /// Returns the items of the answer that later requests may refer to, with their ids. `notice` is text for the end of
    /// the answer.
    fn referable_items(&self, notice: Option<&str>) -> Vec<(String, String)> {
        let _ = notice;
        Vec::new()
    }
}

/// Passes the events of a stream on until its round is over. Returns the size of those of which the client gets nothing, or
/// nothing yet.
pub(crate) fn splice_frames(
    splicer: &mut dyn Splicer,
    frames: &[Frame],
    calls: &mut Calls,
    out: &mut Vec<u8>,
) -> usize {
    let mut held = 0;
    for frame in frames {
        let before = out.len();
        splicer.frame(frame, calls, out);
        // Some events have something for the client beside what is held.
        held += frame.raw.len().saturating_sub(out.len() - before);
        if splicer.is_round_over() {
            break;
        }
    }
    held
}

/// Returns the answers to the calls at these places in the form in which they are kept.
pub(crate) fn park(wire: &dyn Wire, parts: Vec<String>, places: &[usize]) -> Vec<String> {
    parts.into_iter().enumerate().map(|(at, part)| wire.parked_part(part, places.get(at).copied())).collect()
}

/// What decides which thinking of a turn is valid, apart from its items.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThoughtPlace {
    /// The items of the turn that the client only refers to.
    pub(crate) resolved: Vec<Option<String>>,
    /// Whether thinking was removed since the user's last message.
    pub(crate) is_behind_removed: bool,
}

/// A change of a request with lost turns that the provider has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repaired {
    /// The history.
    pub(crate) history: String,
    /// Other fields of the request: keys and values; `None` removes a field.
    pub(crate) fields: Vec<(&'static str, Option<String>)>,
}

/// One wire format.
pub(crate) trait Wire: Send + Sync {
    /// Returns which one it is.
    fn name(&self) -> WireName;

    /// Returns the key of the history in a request.
    fn history_key(&self) -> &'static str;

    /// Returns the items of a history.
    fn items<'a>(&self, history: &'a RawValue) -> Option<Vec<Cow<'a, str>>> {
        Some(json::list(history)?.into_iter().map(|item| Cow::Borrowed(item.get())).collect())
    }

    /// Returns the id of the response that a request goes on from.
    fn previous(&self, body: &Object<'_>) -> Option<String> {
        let _ = body;
        None
    }

    /// Returns the key of that id.
    fn previous_key(&self) -> &'static str {
        ""
    }

    /// Reads the list of tools. An error is the reason to pass the request through.
    fn tools<'a>(&self, list: &'a RawValue) -> Result<Vec<ClientTool<'a>>, &'static str>;

    /// Returns the list of declared tools.
    fn tool_list(&self, declared: &[Declared]) -> String {
        let definitions: Vec<&str> = declared.iter().map(|tool| tool.definition.as_str()).collect();
        format!("[{}]", definitions.join(","))
    }

    /// Returns the definition of a tool that is declared from the first request on.
    fn kept(&self, definition: &str) -> String {
        definition.to_owned()
    }

    /// Returns the definition of a tool that a search has found; `None` if the wire has no references to tools.
    fn deferred(&self, definition: &str) -> Option<String> {
        let _ = definition;
        None
    }

    /// Returns whether a declared tool is one that a search has found.
    fn is_deferred(&self, declared: &str) -> bool {
        let _ = declared;
        false
    }

    /// Returns an item with the definitions of tools in place of references to them; `None` if it has no references.
    fn without_references(&self, item: &str, definition: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let _ = (item, definition);
        None
    }

    /// Returns what to change in a request that the provider has refused with this error, if a lost turn may be the reason.
    /// `field` returns the other fields of the request.
    fn repaired(&self, history: &str, field: &dyn Fn(&str) -> Option<Value>, error: &Value) -> Option<Repaired> {
        let _ = (history, field, error);
        None
    }

    /// Returns the present definition of a tool in the form in which `declared` was sent.
    fn renewed(&self, declared: &str, definition: &str) -> String {
        let _ = declared;
        self.kept(definition)
    }

    /// Returns the form of the history in requests that pass through in the middle of a conversation with hidden turns.
    fn history_when_passed(&self) -> PassedHistory {
        PassedHistory::Unchanged
    }

    /// Returns a definition with a mark for the prompt cache; `None` if it can have none.
    fn with_mark(&self, definition: &str, mark: &str) -> Option<String> {
        let _ = (definition, mark);
        None
    }

    /// Returns whether a model understands references to tools.
    fn has_references(&self, model: &str) -> bool {
        let _ = model;
        false
    }

    /// Returns a tool of the proxy as an entry of the list.
    fn definition(&self, tool: &ToolDefinition) -> String;

    /// Returns the reason to pass a request through, apart from its tools.
    fn bypass(&self, body: &Object<'_>) -> Option<&'static str>;

    /// Returns what a request says about the tools to use.
    fn choice(&self, body: &Object<'_>) -> ToolChoice;

    /// Returns the field that forbids all calls, as key and value.
    fn no_calls(&self) -> (&'static str, &'static str);

    /// Returns what the model has said in an item of the history; `None` if it is another one's.
    fn said(&self, item: &Value) -> Option<Said>;

    /// Returns whether clients may leave out the ids of calls when they send a turn of the model back.
    fn has_optional_ids(&self) -> bool {
        false
    }

    /// Returns the id of the item that an item of the history refers to, where the provider keeps it.
    fn referred<'a>(&self, item: &'a Value) -> Option<&'a str> {
        let _ = item;
        None
    }

    /// Returns the reason to pass a request through because of an item of its history.
    fn item_bypass(&self, item: &Value) -> Option<&'static str> {
        let _ = item;
        None
    }

    /// Returns an answer in the form in which it is part of an item.
    fn answer_part(&self, answer: &HiddenAnswer) -> String;

    /// Returns an answer in the form in which it is kept until the client has given its own: with the place of its call, if
    /// answers are matched with calls by it.
    fn parked_part(&self, part: String, place: Option<usize>) -> String {
        let _ = place;
        part
    }

    /// Returns the items of the history with these answers alone.
    fn answer_items(&self, parts: &[String]) -> Vec<String>;

    /// Returns the items that hold these answers and `next`, the client's item after the turn `known`, so that they answer
    /// the calls as the model has made them.
    fn join_answers(&self, known: &[String], parts: &[String], next: &str) -> Vec<String> {
        let mut items = self.answer_items(parts);
        items.push(self.answered(known, next));
        items
    }

    /// Returns the client's item after a turn, so that it answers the calls as the model has made them.
    fn answered(&self, known: &[String], next: &str) -> String {
        let _ = known;
        next.to_owned()
    }

    /// Returns the items of a turn as they were, with the marks for the prompt cache of what the client has sent for it.
    fn keep_marks(&self, known: &[String], sent: &[String]) -> Vec<String> {
        let _ = sent;
        known.to_vec()
    }

    /// Returns an item of the model without thinking, which is valid only behind an unchanged history.
    fn without_thinking(&self, item: &str) -> String {
        item.to_owned()
    }

    /// Returns the items of a turn of the model without thinking.
    fn turn_without_thinking(&self, items: &[String], place: &ThoughtPlace) -> Vec<String> {
        let _ = place;
        items.iter().map(|item| self.without_thinking(item)).collect()
    }

    /// Returns whether the provider refuses a turn without its thinking while its calls are being answered.
    fn needs_thinking_in_loops(&self) -> bool {
        false
    }

    /// Returns a finished search of the model for the end of a history; `None` if the wire refuses calls that the
    /// model has not made.
    fn finished_search(&self, answer: &HiddenAnswer) -> Option<Vec<String>>;

    /// Returns the text of the user in an item; `None` if it holds anything else.
    fn user_text(&self, item: &Value) -> Option<String>;

    /// Adds a text at the end of the user's item.
    fn with_note(&self, item: &str, note: &str) -> Option<String>;

    /// Starts an answer for a client.
    fn splicer(&self, body: &Object<'_>) -> Box<dyn Splicer>;
}

impl WireName {
    /// Returns the wire format.
    pub(crate) fn wire(self) -> &'static dyn Wire {
        match self {
            Self::Chat => &Chat,
            Self::Messages => &Messages,
            Self::Responses => &Responses,
            Self::Gemini => &Gemini,
        }
    }
}

/// Returns what the user has written: the last text of a message that is not a remark of the program, which programs put
/// in tags beside it.
pub(crate) fn own_text<'a>(texts: impl DoubleEndedIterator<Item = &'a str>) -> Option<&'a str> {
    let is_remark = |text: &str| text.starts_with('<') && text.ends_with('>');
    texts.rev().map(str::trim).find(|text| !text.is_empty() && !is_remark(text))
}

/// Returns the own text of a content, which is a text or a list of parts.
pub(crate) fn own_content_text(content: &Value) -> String {
    match content {
        Value::String(text) => own_text([text.as_str()].into_iter()).unwrap_or_default().to_owned(),
        Value::Array(parts) => {
            own_text(parts.iter().map(|part| json::text(part, "text"))).unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}

/// Returns a tool for search.
pub(crate) fn searchable(name: &str, description: &str, schema: Option<&RawValue>) -> RawTool {
    RawTool {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: schema.map(ToOwned::to_owned),
        server: server_of(name).map(str::to_owned),
        ..RawTool::default()
    }
}

/// Returns the server in a name of the form `mcp__SERVER__TOOL`.
fn server_of(name: &str) -> Option<&str> {
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    (!server.is_empty() && !tool.is_empty()).then_some(server)
}

/// Adds a piece of a streamed value: texts and lists grow, objects are merged, everything else is replaced.
pub(crate) fn merge(fields: &mut Map<String, Value>, key: &str, piece: &Value) {
    let Some(known) = fields.get_mut(key) else {
        fields.insert(key.to_owned(), piece.clone());
        return;
    };
    match (known, piece) {
        (_, Value::Null) => {}
        // These name something. Some providers repeat them in every piece, others leave them empty there.
        (Value::String(known), Value::String(piece)) if ["id", "type", "role", "name"].contains(&key) => {
            if !piece.is_empty() {
                piece.clone_into(known);
            }
        }
        (Value::String(known), Value::String(piece)) => known.push_str(piece),
        (Value::Object(known), Value::Object(piece)) => {
            for (key, value) in piece {
                merge(known, key, value);
            }
        }
        (Value::Array(known), Value::Array(piece)) => known.extend(piece.iter().cloned()),
        // Some models stream their thoughts as lists of parts and their words as texts.
        (Value::Array(known), Value::String(piece)) => push_text(known, piece),
        (known @ Value::String(_), Value::Array(piece)) => {
            let mut parts = Vec::with_capacity(piece.len() + 1);
            push_text(&mut parts, known.as_str().unwrap_or_default());
            parts.extend(piece.iter().cloned());
            *known = parts.into();
        }
        (known, piece) => *known = piece.clone(),
    }
}

/// Adds a text at the end of a list of parts, to the last one if that is a text as well.
fn push_text(parts: &mut Vec<Value>, text: &str) {
    if text.is_empty() {
        return;
    }
    // In place: there are as many pieces as the text has words.
    let last = parts.last_mut().filter(|last| last["type"] == "text").and_then(|last| last.get_mut("text"));
    match last {
        Some(Value::String(known)) => known.push_str(text),
        _ => parts.push(json!({"type": "text", "text": text})),
    }
}

/// Adds a text at the end of a content, which is a text or a list of blocks.
pub(crate) fn append_text(content: &mut Value, note: &str) -> Option<()> {
    match content {
        Value::String(text) => {
            text.push_str("\n\n");
            text.push_str(note);
        }
        Value::Array(blocks) => blocks.push(json!({"type": "text", "text": note})),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests;
