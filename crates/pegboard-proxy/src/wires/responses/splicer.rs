//! Answers of several rounds as one answer of Responses.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{PREVIOUS, call_of, kind_of, remove_reasoning};
use crate::{
    calls::{Callee, Calls, HeldCall, Resolved},
    catalog::ToolSet,
    json::{add_numbers, quoted, text},
    sse::{self, Frame},
    wires::{End, HiddenAnswer, HiddenCall, Round, Said, Splicer},
};

/// Stands for the tools of the client until a response is written. They may be large, and are never parsed again.
const TOOLS_PLACE: &str = "\u{0}tools";

/// An item of the current round.
#[derive(Debug)]
struct ItemState {
    /// Its place at the provider.
    index: u64,
    /// Its newest form; `null` as long as only events about it have arrived.
    item: Value,
    is_complete: bool,
    /// Whether the final response has it.
    is_listed: bool,
    callee: Callee,
    /// Its place at the client; `None` as long as it is held.
    public_index: Option<usize>,
    /// The call that the client got instead, or the answer that the model gets.
    outcome: Option<Result<HeldCall, HiddenAnswer>>,
}

#[derive(Debug, Default)]
struct CurrentRound {
    items: Vec<ItemState>,
    end: Option<End>,
    is_over: bool,
}

#[derive(Debug)]
pub(super) struct ResponsesSplicer {
    is_stored: bool,
    /// The response that the client's request goes on from, by the client's id.
    previous: Option<String>,
    /// The tools of the client. Responses repeat the request, and clients must see their own.
    tools: Option<Arc<ToolSet>>,
    /// The choice of tools in the first round; the last one may have another.
    choice: Value,
    said: Said,
    rounds: usize,
    /// The id for the client.
    id: String,
    /// The id of the newest round.
    last_id: String,
    sequence: u64,
    /// The items that the client has seen, in their newest form; `null` where there is none yet.
    output: Vec<Value>,
    /// Whether an item was held in any round.
    has_held: bool,
    usage: Value,
    round: CurrentRound,
    /// The final event of the newest round, and its bytes.
    last: Option<(Value, Vec<u8>)>,
    /// Whether no copies of the client's items are kept any more.
    is_stopped: bool,
}

impl Splicer for ResponsesSplicer {
    fn frame(&mut self, frame: &Frame, calls: &mut Calls, out: &mut Vec<u8>) {
        let event = frame.data.as_deref().and_then(|data| serde_json::from_str::<Value>(data).ok());
        let Some(mut event) = event else { return out.extend_from_slice(&frame.raw) };
        self.tools.get_or_insert_with(|| calls.shared_tools());
        match text(&event, "type").to_owned().as_str() {
            "response.created" | "response.queued" | "response.in_progress" => {
                self.note_head(&event["response"]);
                if self.rounds == 0 {
                    self.write(&mut event, &frame.raw, false, out);
                }
            }
            "response.completed" => self.end(End::Complete, event, &frame.raw),
            "response.incomplete" => self.end(End::Stopped, event, &frame.raw),
            "response.failed" => self.end(End::Failed, event, &frame.raw),
            "error" => {
                self.round.end = Some(End::Failed);
                // That of an earlier round is not the end of this one.
                self.last = None;
                self.write(&mut event, &frame.raw, false, out);
            }
            "response.output_item.added" => self.start_item(event, &frame.raw, calls, out),
            "response.output_item.done" => self.stop_item(event, &frame.raw, calls, out),
            _ => self.item_event(event, &frame.raw, calls, out),
        }
    }

    fn is_round_over(&self) -> bool {
        self.round.is_over
    }

    fn stop_keeping(&mut self) {
        (self.is_stopped, self.said) = (true, Said::default());
        self.output.iter_mut().for_each(|item| *item = Value::Null);
        for state in self.round.items.iter_mut().filter(|state| state.callee == Callee::Client) {
            state.item = reduced(&state.item);
        }
    }

    fn needs_copies(&self) -> bool {
        // The final event has all items again.
        self.has_held || self.rounds > 1
    }

    fn end_round(&mut self, calls: &mut Calls, out: &mut Vec<u8>) -> Round {
        let end = self.round.end.unwrap_or(End::Broken);
        if end != End::Broken {
            self.take_listed_items(end, calls, out);
        }
        let round = self.close_round(end);
        if end == End::Failed {
            self.write_last(false, out);
        }
        round
    }

    fn finish(&mut self, notice: Option<&str>, out: &mut Vec<u8>) {
        if let Some(notice) = notice {
            self.write_message(notice, out);
        }
        self.write_last(notice.is_some(), out);
    }

    fn answer(&mut self, answer: Value, calls: &mut Calls) -> Round {
        self.note_head(&answer);
        self.tools.get_or_insert_with(|| calls.shared_tools());
        let Some(items) = answer["output"].as_array() else { return self.close_round(End::Failed) };
        let end = match text(&answer, "status") {
            "incomplete" | "failed" | "cancelled" => End::Stopped,
            _ => End::Complete,
        };
        for (index, item) in items.iter().enumerate() {
            let at = self.add_item(index as u64, item, calls);
            if let Some(public) = self.complete_item(at, item, calls) {
                self.output.push(public);
            }
        }
        self.last = Some((json!({"response": answer}), Vec::new()));
        self.close_round(end)
    }

    fn finish_answer(&mut self, notice: Option<&str>) -> String {
        if let Some(notice) = notice {
            let item = self.message(notice);
            self.output.push(item);
        }
        let (mut event, _) = self.last.take().unwrap_or_default();
        self.complete(event.get_mut("response"));
        let mut response = event["response"].take();
        self.put_request(&mut response);
        self.with_tools(response.to_string())
    }

    fn repeats_request(&self) -> bool {
        self.last.as_ref().is_some_and(|(event, _)| event["response"].get("tools").is_some())
    }

    fn fail(&mut self, error: &Value, out: &mut Vec<u8>) {
        let error = &error["error"];
        let mut event = json!({
            "type": "error",
            "code": error["code"],
            "message": error["message"],
            "param": error["param"],
            "sequence_number": 0
        });
        self.write(&mut event, &[], true, out);
    }

    fn said(&self) -> &Said {
        &self.said
    }

    fn cache_read_tokens(&self) -> u64 {
        self.usage.pointer("/input_tokens_details/cached_tokens").and_then(Value::as_u64).unwrap_or_default()
    }

    fn response_ids(&self) -> Option<(String, String)> {
        (!self.id.is_empty() && !self.last_id.is_empty()).then(|| (self.id.clone(), self.last_id.clone()))
    }

    fn referable_items(&self, notice: Option<&str>) -> Vec<(String, String)> {
        if !self.is_stored {
            return Vec::new();
        }
        let notice = notice.map(|notice| self.message(notice));
        let items = self.output.iter().chain(&notice).filter(|item| !text(item, "id").is_empty());
        items.map(|item| (text(item, "id").to_owned(), referable(item).to_string())).collect()
    }
}

impl ResponsesSplicer {
    pub(super) fn new(is_stored: bool, previous: Option<String>) -> Self {
        Self {
            is_stored,
            previous,
            tools: None,
            choice: Value::Null,
            said: Said::default(),
            rounds: 0,
            id: String::new(),
            last_id: String::new(),
            sequence: 0,
            output: Vec::new(),
            has_held: false,
            usage: Value::Null,
            round: CurrentRound::default(),
            last: None,
            is_stopped: false,
        }
    }

    /// Appends an event with the next number of the client's stream.
    fn write(&mut self, event: &mut Value, raw: &[u8], is_changed: bool, out: &mut Vec<u8>) {
        let mut is_changed = is_changed | event.get_mut("response").is_some_and(|response| self.put_request(response));
        if let Some(number) = event.get_mut("sequence_number") {
            if number.as_u64() != Some(self.sequence) {
                *number = self.sequence.into();
                is_changed = true;
            }
            self.sequence += 1;
        }
        if is_changed {
            let kind = text(event, "type").to_owned();
            sse::write(Some(&kind), &self.with_tools(event.to_string()), out);
        } else {
            out.extend_from_slice(raw);
        }
    }

    /// Puts what the client has asked into a response, which repeats what the provider was asked; returns whether that
    /// is something else.
    fn put_request(&self, response: &mut Value) -> bool {
        let mut is_changed = false;
        if self.tools.is_some() && response.get("tools").is_some_and(Value::is_array) {
            response["tools"] = TOOLS_PLACE.into();
            is_changed = true;
        }
        let is_other = |previous: &&String| response.get(PREVIOUS).is_some_and(|known| known != previous.as_str());
        if let Some(previous) = self.previous.as_ref().filter(is_other) {
            response[PREVIOUS] = previous.clone().into();
            is_changed = true;
        }
        if response.get("tool_choice").is_some_and(|choice| *choice != self.choice) && !self.choice.is_null() {
            response["tool_choice"] = self.choice.clone();
            is_changed = true;
        }
        is_changed
    }

    /// Writes the client's tools in their place, as the client wrote them.
    fn with_tools(&self, json: String) -> String {
        let place = format!("\"tools\":{}", quoted(TOOLS_PLACE));
        match &self.tools {
            Some(tools) if json.contains(&place) => json.replacen(&place, &format!("\"tools\":{}", tools.source()), 1),
            _ => json,
        }
    }

    fn end(&mut self, end: End, event: Value, raw: &[u8]) {
        self.round.is_over = true;
        self.round.end = Some(end);
        self.note_head(&event["response"]);
        self.last = Some((event, raw.to_owned()));
    }

    /// Takes in what all events of a round repeat. Some servers leave out the first ones.
    fn note_head(&mut self, response: &Value) {
        let id = text(response, "id");
        if !id.is_empty() {
            id.clone_into(&mut self.last_id);
        }
        if self.rounds == 0 {
            self.id.clone_from(&self.last_id);
            if self.choice.is_null() {
                self.choice = response["tool_choice"].clone();
            }
        }
    }

    fn start_item(&mut self, mut event: Value, raw: &[u8], calls: &Calls, out: &mut Vec<u8>) {
        let next = self.round.items.last().map_or(0, |last| last.index + 1);
        let index = event["output_index"].as_u64().unwrap_or(next);
        let at = match self.place_of(&event).filter(|at| self.round.items[*at].item.is_null()) {
            Some(at) => {
                self.identify_item(at, &event["item"], calls);
                at
            }
            None => self.add_item(index, &event["item"], calls),
        };
        self.write_item_event(at, &mut event, raw, out);
    }

    /// Adds an item, which takes the next place at the client unless it is held; returns its place in the round.
    fn add_item(&mut self, index: u64, item: &Value, calls: &Calls) -> usize {
        let callee = callee_of(item, calls);
        let mut public_index = None;
        if callee == Callee::Client {
            public_index = Some(self.output.len());
            self.output.push(if self.is_stopped { Value::Null } else { item.clone() });
        }
        self.has_held |= callee != Callee::Client;
        let is_reduced = self.is_stopped && callee == Callee::Client;
        let item = if is_reduced { reduced(item) } else { item.clone() };
        let (is_complete, is_listed) = (false, false);
        self.round.items.push(ItemState { index, item, is_complete, is_listed, callee, public_index, outcome: None });
        self.round.items.len() - 1
    }

    /// Takes in what an item is of which only events have arrived so far. One of the proxy's own calls is held from now on.
    fn identify_item(&mut self, at: usize, item: &Value, calls: &Calls) {
        let state = &mut self.round.items[at];
        state.callee = callee_of(item, calls);
        state.item = item.clone();
        if state.callee != Callee::Client {
            // Its place at the client stays empty.
            (state.public_index, self.has_held) = (None, true);
        } else if self.is_stopped {
            state.item = reduced(item);
        } else if let Some(public) = state.public_index {
            self.output[public] = item.clone();
        }
    }

    /// Returns the place in the round of the item that an event is about. Some servers give several items the same number.
    fn place_of(&self, event: &Value) -> Option<usize> {
        let id = [text(event, "item_id"), text(&event["item"], "id")].into_iter().find(|id| !id.is_empty());
        let place = |is_it: &dyn Fn(&ItemState) -> bool| self.round.items.iter().rposition(is_it);
        let by_id = id.and_then(|id| place(&|state| text(&state.item, "id") == id));
        let index = event["output_index"].as_u64();
        let kind = event_kind(event);
        let is_same_kind =
            |state: &ItemState| state.item.is_null() || kind.is_none_or(|kind| kind == kind_of(&state.item));
        let is_it = |state: &ItemState, index| state.index == index && !state.is_complete && is_same_kind(state);
        by_id.or_else(|| index.and_then(|index| place(&|state| is_it(state, index))))
    }

    /// Passes an event about an item on, unless the item is held.
    fn item_event(&mut self, mut event: Value, raw: &[u8], calls: &Calls, out: &mut Vec<u8>) {
        let index = event["output_index"].as_u64();
        let at = match (self.place_of(&event), index) {
            (Some(at), _) => at,
            // Some servers do not announce items. Whose call this is, is known once it is complete.
            (None, _) if text(&event, "type").starts_with("response.function_call_arguments.") => return,
            (None, Some(index)) => self.add_item(index, &Value::Null, calls),
            (None, None) => return self.write(&mut event, raw, false, out),
        };
        self.write_item_event(at, &mut event, raw, out);
    }

    /// Appends an event about an item with the place of the item at the client, unless the item is held.
    fn write_item_event(&mut self, at: usize, event: &mut Value, raw: &[u8], out: &mut Vec<u8>) {
        let state = &self.round.items[at];
        if let Some(public) = state.public_index.filter(|_| state.callee == Callee::Client) {
            let is_moved = place(event, public);
            self.write(event, raw, is_moved, out);
        }
    }

    fn stop_item(&mut self, mut event: Value, raw: &[u8], calls: &mut Calls, out: &mut Vec<u8>) {
        let item = event["item"].clone();
        let at = match self.place_of(&event) {
            Some(at) => at,
            // Some servers leave out the beginning.
            None => self.add_item(event["output_index"].as_u64().unwrap_or_default(), &item, calls),
        };
        match self.complete_item(at, &item, calls) {
            Some(public) => self.write_call(&public, out),
            None => self.write_item_event(at, &mut event, raw, out),
        }
    }

    /// Takes in the complete form of an item; returns the call that the client gets in place of a held one.
    fn complete_item(&mut self, at: usize, item: &Value, calls: &mut Calls) -> Option<Value> {
        if self.round.items[at].item.is_null() {
            self.identify_item(at, item, calls);
        }
        let state = &mut self.round.items[at];
        state.is_complete = true;
        if state.callee == Callee::Client && self.is_stopped {
            state.item = reduced(item);
            return None;
        }
        state.item = item.clone();
        if state.callee == Callee::Client {
            if let Some(public) = state.public_index {
                self.output[public] = item.clone();
            }
            return None;
        }
        let call = resolve(state, calls)?;
        state.public_index = Some(self.output.len());
        Some(public_call(item, &call))
    }

    /// Takes in the items of the final response that have not arrived completely before: some servers send items only
    /// there, and those at which the model was stopped have no event of their own.
    fn take_listed_items(&mut self, end: End, calls: &mut Calls, out: &mut Vec<u8>) {
        let listed = self.last.as_ref().and_then(|(event, _)| event["response"]["output"].as_array()).cloned();
        let listed = listed.unwrap_or_default();
        for (index, item) in listed.iter().enumerate() {
            let at = match self.place_of_listed(index as u64, item) {
                Some(at) => at,
                None => self.add_item(index as u64, item, calls),
            };
            let state = &mut self.round.items[at];
            (state.index, state.is_listed) = (index as u64, true);
            let is_taken = !state.is_complete && (end != End::Failed || state.callee == Callee::Client);
            if is_taken && let Some(public) = self.complete_item(at, item, calls) {
                self.write_call(&public, out);
            }
        }
        // The provider must get them back in its own order.
        self.round.items.sort_by_key(|state| state.index);
    }

    /// Returns the place in the round of an item of the final response. Some servers give items other ids or places there.
    fn place_of_listed(&self, index: u64, item: &Value) -> Option<usize> {
        let place = |is_it: &dyn Fn(&ItemState) -> bool| {
            self.round.items.iter().position(|state| !state.is_listed && is_it(state))
        };
        let has_same = |state: &ItemState, key: &str| !text(item, key).is_empty() && state.item[key] == item[key];
        let is_same_kind = |state: &ItemState| state.item.is_null() || kind_of(&state.item) == kind_of(item);
        place(&|state| has_same(state, "id") || has_same(state, "call_id"))
            .or_else(|| place(&|state| state.index == index && is_same_kind(state)))
            .or_else(|| place(&|state| text(item, "call_id").is_empty() && is_same_kind(state)))
    }

    /// Appends a whole call in the events in which calls are streamed.
    fn write_call(&mut self, item: &Value, out: &mut Vec<u8>) {
        let (index, id, arguments) = (self.output.len(), item["id"].clone(), item["arguments"].clone());
        let mut begun = item.clone();
        begun["arguments"] = "".into();
        begun["status"] = "in_progress".into();
        let added = json!({"type": "response.output_item.added", "output_index": index, "item": begun});
        let delta = json!({
            "type": "response.function_call_arguments.delta", "item_id": id, "output_index": index, "delta": arguments
        });
        let done = json!({
            "type": "response.function_call_arguments.done", "item_id": id, "output_index": index,
            "name": item["name"], "arguments": arguments
        });
        let ended = json!({"type": "response.output_item.done", "output_index": index, "item": item});
        self.output.push(item.clone());
        self.write_all([added, delta, done, ended], out);
    }

    /// Appends a message of the model in the events in which messages are streamed.
    fn write_message(&mut self, message: &str, out: &mut Vec<u8>) {
        let (index, item) = (self.output.len(), self.message(message));
        let id = item["id"].clone();
        let mut begun = item.clone();
        begun["content"] = json!([]);
        begun["status"] = "in_progress".into();
        let part = item["content"][0].clone();
        let mut empty = part.clone();
        empty["text"] = "".into();
        let at = json!({"item_id": id, "output_index": index, "content_index": 0});
        let event = |kind: &str, key: &str, value: Value| {
            let mut event = json!({"type": kind});
            at.as_object().into_iter().flatten().for_each(|(key, value)| event[key.as_str()] = value.clone());
            event[key] = value;
            event
        };
        let added = json!({"type": "response.output_item.added", "output_index": index, "item": begun});
        let ended = json!({"type": "response.output_item.done", "output_index": index, "item": item});
        let mut delta = event("response.output_text.delta", "delta", message.into());
        delta["logprobs"] = json!([]);
        let mut done = event("response.output_text.done", "text", message.into());
        done["logprobs"] = json!([]);
        let events = [
            added,
            event("response.content_part.added", "part", empty),
            delta,
            done,
            event("response.content_part.done", "part", part),
            ended,
        ];
        self.output.push(item);
        self.write_all(events, out);
    }

    fn write_all<const N: usize>(&mut self, events: [Value; N], out: &mut Vec<u8>) {
        for mut event in events {
            event["sequence_number"] = 0.into();
            self.write(&mut event, &[], true, out);
        }
    }

    /// Returns a message of the model.
    fn message(&self, message: &str) -> Value {
        let part = json!({"type": "output_text", "text": message, "annotations": [], "logprobs": []});
        let id = format!("msg_{}_{}", self.id.trim_start_matches("resp_"), self.output.len());
        json!({"id": id, "type": "message", "status": "completed", "role": "assistant", "content": [part]})
    }

    /// Appends the final event. One that tells nothing of held items stays as it is.
    fn write_last(&mut self, has_notice: bool, out: &mut Vec<u8>) {
        let Some((mut event, raw)) = self.last.take() else { return };
        let is_changed = has_notice || self.has_held || self.rounds > 1;
        if is_changed {
            self.complete(event.get_mut("response"));
        }
        self.write(&mut event, &raw, is_changed, out);
    }

    /// Makes a final response one of all rounds.
    fn complete(&self, response: Option<&mut Value>) {
        if let Some(response) = response {
            if !self.id.is_empty() {
                response["id"] = self.id.clone().into();
            }
            response["output"] = self.output.iter().filter(|item| !item.is_null()).cloned().collect();
            if !self.usage.is_null() {
                response["usage"] = self.usage.clone();
            }
        }
    }

    /// Ends the round, and returns what became of it.
    fn close_round(&mut self, end: End) -> Round {
        let round = std::mem::take(&mut self.round);
        self.rounds += 1;
        if let Some(usage) = self.last.as_ref().map(|(event, _)| &event["response"]["usage"]) {
            add_numbers(&mut self.usage, usage);
        }
        let mut result = Round { end, ..Round::default() };
        let (mut items, mut public) = (Vec::new(), Vec::new());
        for state in round.items {
            let item = state.item;
            if !state.is_complete {
                result.is_rewritten |= state.callee != Callee::Client;
                continue;
            }
            match (state.callee, state.outcome) {
                (Callee::Client, _) => {
                    let said = crate::wires::Wire::said(&super::Responses, &item).unwrap_or_default();
                    public.push((state.public_index, said));
                }
                (_, Some(Ok(call))) => {
                    result.is_rewritten = true;
                    public.push((state.public_index, Said { text: String::new(), calls: vec![call] }));
                }
                (_, Some(Err(answer))) if end == End::Complete => result.hidden.push(HiddenCall::Rejected(answer)),
                (Callee::Search, None) if end == End::Complete => {
                    result.hidden.push(HiddenCall::Search(call_of(&item)));
                }
                // The model was stopped in the middle of it.
                _ => {
                    result.is_rewritten = true;
                    continue;
                }
            }
            items.push(item);
        }
        // In the order in which the client has got them.
        public.sort_by_key(|(index, _)| *index);
        for (_, said) in public {
            result.client_calls += said.calls.len();
            self.said.extend(&said);
        }
        if !self.is_stored {
            // It cannot be sent back.
            remove_reasoning(&mut items, |item| text(item, "encrypted_content").is_empty());
        }
        result.items = items.iter().map(Value::to_string).collect();
        result
    }
}

/// Returns what is kept of an item for requests that refer to it: what the model has said in it, or its type alone. Only
/// items that are valid without their ids are sent in place of a reference.
fn referable(item: &Value) -> Value {
    let said = crate::wires::Wire::said(&super::Responses, item).unwrap_or_default();
    if said == Said::default() && kind_of(item) != "message" {
        return json!({"type": item["type"]});
    }
    let mut kept = item.clone();
    if let Some(fields) = kept.as_object_mut() {
        fields.shift_remove("id");
    }
    kept
}

/// Returns what tells an item from others.
fn reduced(item: &Value) -> Value {
    let fields = item.as_object().into_iter().flatten();
    let kept = fields.filter(|(key, _)| ["type", "role", "id", "call_id"].contains(&key.as_str()));
    if item.is_null() { Value::Null } else { kept.map(|(key, value)| (key.clone(), value.clone())).collect() }
}

/// Returns the type of the item that an event is about; `None` if the event does not tell.
fn event_kind(event: &Value) -> Option<&str> {
    let kind = text(event, "type");
    match event.get("item") {
        Some(item) => Some(kind_of(item)),
        None if kind.starts_with("response.function_call_arguments.") => Some("function_call"),
        None if kind.starts_with("response.output_text.") => Some("message"),
        None => None,
    }
}

fn callee_of(item: &Value, calls: &Calls) -> Callee {
    if kind_of(item) == "function_call" { calls.callee(text(item, "name")) } else { Callee::Client }
}

/// Sets the place of an item, if the event has one; returns whether it was another one.
fn place(event: &mut Value, public: usize) -> bool {
    let Some(index) = event.get_mut("output_index") else { return false };
    let is_moved = index.as_u64() != Some(public as u64);
    *index = public.into();
    is_moved
}

/// Decides about a held call of `call_tool`; returns the call for the client.
fn resolve(state: &mut ItemState, calls: &mut Calls) -> Option<HeldCall> {
    if state.callee != Callee::Call {
        return None;
    }
    match calls.resolve(&call_of(&state.item)) {
        Resolved::Client(call) => {
            state.outcome = Some(Ok(call.clone()));
            Some(call)
        }
        Resolved::Rejected(answer) => {
            state.outcome = Some(Err(answer));
            None
        }
    }
}

/// Returns the item of a call as the client gets it.
fn public_call(item: &Value, call: &HeldCall) -> Value {
    let mut public = item.clone();
    public["name"] = call.name.clone().into();
    public["arguments"] = call.arguments.clone().into();
    public
}
