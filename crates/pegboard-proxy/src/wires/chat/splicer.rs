//! Answers of several rounds as one answer of Chat Completions.

use serde_json::{Map, Value, json};

use super::held_call;
use crate::{
    calls::{Callee, Calls, HeldCall, Resolved},
    json::{add_numbers, text},
    sse::{self, Frame},
    wires::{End, HiddenAnswer, HiddenCall, Round, Said, Splicer, merge},
};

/// An event that is sent at the end of the stream.
#[derive(Debug)]
struct HeldChunk {
    chunk: Value,
    /// Its bytes, as long as it is not changed.
    raw: Option<Vec<u8>>,
}

/// A call of the current round.
#[derive(Debug)]
struct CallState {
    /// Its number at the provider.
    index: u64,
    /// All of it that has arrived.
    call: Value,
    /// Known once its name is.
    callee: Option<Callee>,
    /// Its number at the client, once it has been passed on.
    public_index: Option<usize>,
    /// The call that the client got instead, or the answer that the model gets.
    outcome: Option<Result<HeldCall, HiddenAnswer>>,
}

#[derive(Debug, Default)]
struct CurrentRound {
    /// The message so far, without its calls.
    message: Map<String, Value>,
    calls: Vec<CallState>,
    finish: Option<String>,
    /// The newest count, which includes the earlier ones of the round.
    usage: Option<Value>,
    /// Whether the round has received its final event.
    is_done: bool,
    is_failed: bool,
}

#[derive(Debug, Default)]
pub(super) struct ChatSplicer {
    said: Said,
    rounds: usize,
    /// The fields of the first event or answer that are the same for all.
    head: Map<String, Value>,
    public_calls: usize,
    usage: Value,
    round: CurrentRound,
    last: Option<HeldChunk>,
    usage_chunk: Option<HeldChunk>,
    /// Whether the newest round that has ended has received its final event.
    is_done: bool,
    /// The message for the client, where the answer is not streamed.
    message: Map<String, Value>,
    message_calls: Vec<Value>,
    /// Whether no copies of what the client gets are kept any more.
    is_stopped: bool,
}

impl Splicer for ChatSplicer {
    fn frame(&mut self, frame: &Frame, calls: &mut Calls, out: &mut Vec<u8>) {
        let Some(data) = &frame.data else { return out.extend_from_slice(&frame.raw) };
        if data.trim() == "[DONE]" {
            self.round.is_done = true;
            return;
        }
        let Ok(chunk) = serde_json::from_str::<Value>(data) else { return out.extend_from_slice(&frame.raw) };
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            self.round.is_failed = true;
            return out.extend_from_slice(&frame.raw);
        }
        self.chunk(chunk, &frame.raw, calls, out);
    }

    fn is_round_over(&self) -> bool {
        self.round.is_done
    }

    fn stop_keeping(&mut self) {
        (self.is_stopped, self.said) = (true, Said::default());
        self.round.message.retain(|key, _| key == "role");
        for state in self.round.calls.iter_mut().filter(|state| state.callee == Some(Callee::Client)) {
            state.call["function"]["arguments"] = "".into();
        }
    }

    fn end_round(&mut self, calls: &mut Calls, out: &mut Vec<u8>) -> Round {
        let end = match self.round.finish.as_deref() {
            _ if self.round.is_failed => End::Failed,
            Some("length" | "content_filter") => End::Stopped,
            Some(_) => End::Complete,
            None if self.round.is_done => End::Complete,
            None => End::Broken,
        };
        let is_whole = matches!(end, End::Complete | End::Stopped);
        for at in 0..self.round.calls.len() {
            if is_whole {
                self.end_call(at, end, calls, out);
            }
        }
        self.close_round(end)
    }

    fn finish(&mut self, notice: Option<&str>, out: &mut Vec<u8>) {
        if let Some(notice) = notice {
            let chunk = self.chunk_of(&json!({"content": notice}));
            sse::write(None, &chunk.to_string(), out);
        }
        let (is_first, has_calls) = (self.rounds == 1, self.public_calls > 0);
        let held: Vec<HeldChunk> = self.last.take().into_iter().chain(self.usage_chunk.take()).collect();
        // Clients may add up the counts of all events.
        let counted = held.iter().rposition(|held| has_usage(&held.chunk));
        for (at, mut held) in held.into_iter().enumerate() {
            let choice = held.chunk.pointer_mut("/choices/0");
            if let Some(choice) = choice.filter(|choice| !has_calls && choice["finish_reason"] == "tool_calls") {
                choice["finish_reason"] = "stop".into();
                held.raw = None;
            }
            if !is_first {
                self.put_head(&mut held.chunk);
                if has_usage(&held.chunk) {
                    held.chunk["usage"] = if counted == Some(at) { self.usage.clone() } else { Value::Null };
                }
                held.raw = None;
            }
            match held.raw {
                Some(raw) => out.extend_from_slice(&raw),
                None => sse::write(None, &held.chunk.to_string(), out),
            }
        }
        if self.is_done {
            sse::write(None, "[DONE]", out);
        }
    }

    fn answer(&mut self, mut answer: Value, calls: &mut Calls) -> Round {
        self.round.usage = answer.get("usage").cloned().filter(|usage| !usage.is_null());
        if self.rounds == 0 {
            self.head = head_of(&answer);
        }
        let choice = answer.pointer_mut("/choices/0").map(Value::take).unwrap_or_default();
        self.round.finish = finish_of(&choice);
        let Some(message) = choice["message"].as_object() else {
            self.round.is_failed = true;
            return self.close_round(End::Failed);
        };
        for (key, value) in message.iter().filter(|(key, _)| *key != "tool_calls") {
            merge(&mut self.round.message, key, value);
            merge(&mut self.message, key, value);
        }
        self.said.text.push_str(&super::content_text(&choice["message"]["content"]));
        for (index, call) in choice["message"]["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let callee = Some(callee_of(call, calls).unwrap_or(Callee::Client));
            let (call, index) = (call.clone(), index as u64);
            self.round.calls.push(CallState { index, call, callee, public_index: None, outcome: None });
        }
        let end = match self.round.finish.as_deref() {
            Some("length" | "content_filter") => End::Stopped,
            _ => End::Complete,
        };
        for at in 0..self.round.calls.len() {
            if self.round.calls[at].callee == Some(Callee::Client) {
                self.message_calls.push(self.round.calls[at].call.clone());
                self.round.calls[at].public_index = Some(self.public_calls);
                self.public_calls += 1;
            } else if let Some(call) = self.resolve(at, calls, end) {
                let mut public = self.round.calls[at].call.clone();
                public["function"]["name"] = call.name.into();
                public["function"]["arguments"] = call.arguments.into();
                self.message_calls.push(public);
            }
        }
        answer["choices"][0] = choice;
        self.last = Some(HeldChunk { chunk: answer, raw: None });
        self.close_round(end)
    }

    fn finish_answer(&mut self, notice: Option<&str>) -> String {
        let mut answer = self.last.take().map(|last| last.chunk).unwrap_or_default();
        self.put_head(&mut answer);
        let mut message = std::mem::take(&mut self.message);
        if let Some(notice) = notice {
            merge(&mut message, "content", &notice.into());
        }
        message.entry("content").or_insert(Value::Null);
        if !self.message_calls.is_empty() {
            message.insert("tool_calls".to_owned(), std::mem::take(&mut self.message_calls).into());
        }
        if let Some(choice) = answer.pointer_mut("/choices/0") {
            choice["message"] = message.into();
            if self.public_calls == 0 && choice["finish_reason"] == "tool_calls" {
                choice["finish_reason"] = "stop".into();
            }
        }
        if answer.get("usage").is_some() {
            answer["usage"] = self.usage.clone();
        }
        answer.to_string()
    }

    fn fail(&mut self, error: &Value, out: &mut Vec<u8>) {
        sse::write(None, &error.to_string(), out);
    }

    fn said(&self) -> &Said {
        &self.said
    }

    fn cache_read_tokens(&self) -> u64 {
        self.usage.pointer("/prompt_tokens_details/cached_tokens").and_then(Value::as_u64).unwrap_or_default()
    }
}

impl ChatSplicer {
    /// Takes in an event with choices.
    fn chunk(&mut self, mut chunk: Value, raw: &[u8], calls: &mut Calls, out: &mut Vec<u8>) {
        self.note_head(&chunk);
        let (is_later, has_usage) = (self.rounds > 0, has_usage(&chunk));
        if has_usage {
            self.round.usage = Some(chunk["usage"].clone());
        }
        let Some(choice) = chunk.pointer_mut("/choices/0") else {
            if has_usage {
                self.usage_chunk = Some(HeldChunk { chunk, raw: Some(raw.to_owned()) });
            } else if !is_later {
                out.extend_from_slice(raw);
            }
            return;
        };
        let finish = finish_of(choice);
        let mut delta = choice.get_mut("delta").map(Value::take).unwrap_or_default();
        // Some providers repeat the role in every event, also in those behind the end.
        let has_role = self.round.message.contains_key("role") || self.round.finish.is_some();
        let is_changed = self.delta(&mut delta, calls, out);
        let is_nothing = |(key, value): (&String, &Value)| is_nothing(value) || (has_role && key == "role");
        let is_empty = delta.as_object().is_none_or(|delta| delta.iter().all(is_nothing));
        if has_usage && is_empty && finish.is_none() && self.round.finish.is_some() {
            // Some providers send the final count in a choice that says nothing. Before the end, the event may be one of
            // many that count.
            choice["delta"] = json!({});
            self.usage_chunk = Some(HeldChunk { chunk, raw: Some(raw.to_owned()) });
            return;
        }
        if let Some(finish) = finish {
            self.round.finish = Some(finish);
            if !is_empty {
                let chunk = self.chunk_of(&delta);
                sse::write(None, &chunk.to_string(), out);
            }
            choice["delta"] = json!({});
            let raw = (is_empty && !is_changed).then(|| raw.to_owned());
            self.last = Some(HeldChunk { chunk, raw });
            return;
        }
        if !is_changed && !is_later {
            return out.extend_from_slice(raw);
        }
        if !is_empty {
            choice["delta"] = delta;
            self.put_head(&mut chunk);
            if is_later && has_usage {
                // Some providers count in every event. The earlier rounds are part of the count.
                let mut sum = self.usage.clone();
                add_numbers(&mut sum, &chunk["usage"]);
                chunk["usage"] = sum;
            }
            sse::write(None, &chunk.to_string(), out);
        }
    }

    /// Takes in the fields that all events share.
    fn note_head(&mut self, chunk: &Value) {
        // Some providers begin with an event about the request, whose id is empty.
        let has_id = !self.head.get("id").and_then(Value::as_str).unwrap_or_default().is_empty();
        if self.head.is_empty() || (self.rounds == 0 && !has_id && !text(chunk, "id").is_empty()) {
            self.head = head_of(chunk);
        }
    }

    /// Takes in a delta, and leaves in it what the client gets; returns whether that is less or different.
    fn delta(&mut self, delta: &mut Value, calls: &mut Calls, out: &mut Vec<u8>) -> bool {
        let Some(fields) = delta.as_object_mut() else { return false };
        let mut is_changed = false;
        for (key, value) in fields.iter().filter(|(key, _)| *key != "tool_calls" && !self.is_stopped) {
            merge(&mut self.round.message, key, value);
        }
        if !self.is_stopped {
            self.said.text.push_str(&super::content_text(fields.get("content").unwrap_or(&Value::Null)));
        }
        if self.rounds > 0 {
            is_changed |= fields.shift_remove("role").is_some();
        }
        let Some(Value::Array(entries)) = fields.get_mut("tool_calls") else { return is_changed };
        let before = entries.len();
        let mut public = Vec::with_capacity(before);
        for entry in std::mem::take(entries) {
            if let Some((entry, is_moved)) = self.call_delta(entry, calls, out) {
                is_changed |= is_moved;
                public.push(entry);
            }
        }
        is_changed |= public.len() != before;
        if public.is_empty() {
            fields.shift_remove("tool_calls");
        } else {
            *entries = public;
        }
        is_changed
    }

    /// Takes in a piece of a call; returns it with the number at the client, and whether it is another one.
    fn call_delta(&mut self, mut entry: Value, calls: &mut Calls, out: &mut Vec<u8>) -> Option<(Value, bool)> {
        let at = match self.place_of(&entry) {
            Some(at) => at,
            None => self.start_call(&entry, calls, out),
        };
        let state = &mut self.round.calls[at];
        let is_first = state.call.as_object().is_none_or(Map::is_empty);
        let is_kept = !self.is_stopped || state.callee != Some(Callee::Client);
        if let (Some(call), Some(fields), true) = (state.call.as_object_mut(), entry.as_object(), is_kept) {
            for (key, value) in fields.iter().filter(|(key, _)| *key != "index") {
                merge(call, key, value);
            }
        }
        let mut is_changed = false;
        if state.callee.is_none() {
            state.callee = Some(callee_of(&state.call, calls)?);
            if state.callee == Some(Callee::Client) {
                state.public_index = Some(self.public_calls);
                self.public_calls += 1;
            }
            if !is_first {
                // The pieces before its name were held.
                (entry, is_changed) = (state.call.clone(), true);
                entry["index"] = state.index.into();
            }
        }
        let public = state.public_index.filter(|_| state.callee == Some(Callee::Client))?;
        if public as u64 != state.index {
            entry["index"] = public.into();
            is_changed = true;
        }
        Some((entry, is_changed))
    }

    /// Returns the place of the call that a piece belongs to; `None` if it begins one.
    fn place_of(&self, entry: &Value) -> Option<usize> {
        let id = text(entry, "id");
        let is_start = !text(&entry["function"], "name").is_empty();
        let place = |is_it: &dyn Fn(&CallState) -> bool| self.round.calls.iter().rposition(is_it);
        let is_same = |call: &CallState| !id.is_empty() && text(&call.call, "id") == id;
        if let Some(index) = entry["index"].as_u64() {
            let at = place(&|call| call.index == index)?;
            // Some providers give all calls the same number.
            let known = text(&self.round.calls[at].call, "id");
            let is_other = is_start && !id.is_empty() && !known.is_empty() && known != id;
            return (!is_other).then_some(at);
        }
        // Some providers do not number calls.
        place(&is_same).or_else(|| self.round.calls.len().checked_sub(1).filter(|_| !is_start))
    }

    /// Adds a call; returns its place.
    fn start_call(&mut self, entry: &Value, calls: &mut Calls, out: &mut Vec<u8>) -> usize {
        for earlier in 0..self.round.calls.len() {
            if is_complete(&self.round.calls[earlier]) {
                self.end_call(earlier, End::Complete, calls, out);
            }
        }
        let next = self.round.calls.last().map_or(0, |last| last.index + 1);
        let (index, call) = (entry["index"].as_u64().unwrap_or(next), Value::Object(Map::new()));
        self.round.calls.push(CallState { index, call, callee: None, public_index: None, outcome: None });
        self.round.calls.len() - 1
    }

    /// Appends what the client gets of a held call.
    fn end_call(&mut self, at: usize, end: End, calls: &mut Calls, out: &mut Vec<u8>) {
        let state = &mut self.round.calls[at];
        if state.callee.is_none() {
            // A call without a name is not one of the proxy's tools.
            (state.callee, state.public_index) = (Some(Callee::Client), Some(self.public_calls));
            let mut entry = state.call.clone();
            entry["index"] = self.public_calls.into();
            self.public_calls += 1;
            let chunk = self.chunk_of(&json!({"tool_calls": [entry]}));
            return sse::write(None, &chunk.to_string(), out);
        }
        if let Some(call) = self.resolve(at, calls, end) {
            self.write_call(&call, self.public_calls - 1, out);
        }
    }

    /// Decides about a held call of `call_tool`; returns the call for the client, which counts from now on.
    fn resolve(&mut self, at: usize, calls: &mut Calls, end: End) -> Option<HeldCall> {
        let state = &mut self.round.calls[at];
        let may_be_cut = end != End::Complete && !is_complete(state);
        if state.callee != Some(Callee::Call) || state.outcome.is_some() || may_be_cut {
            return None;
        }
        match calls.resolve(&held_call(&state.call)) {
            Resolved::Client(call) => {
                state.public_index = Some(self.public_calls);
                self.public_calls += 1;
                state.outcome = Some(Ok(call.clone()));
                Some(call)
            }
            Resolved::Rejected(answer) => {
                state.outcome = Some(Err(answer));
                None
            }
        }
    }

    /// Appends a whole call, in the two pieces in which calls are streamed.
    fn write_call(&self, call: &HeldCall, index: usize, out: &mut Vec<u8>) {
        let start = json!({"name": call.name, "arguments": ""});
        let start = json!({"index": index, "id": call.id, "type": "function", "function": start});
        let arguments = json!({"index": index, "function": {"arguments": call.arguments}});
        for piece in [start, arguments] {
            let chunk = self.chunk_of(&json!({"tool_calls": [piece]}));
            sse::write(None, &chunk.to_string(), out);
        }
    }

    /// Returns an event of this answer with a delta.
    fn chunk_of(&self, delta: &Value) -> Value {
        let mut chunk = self.head.clone();
        chunk.insert("choices".to_owned(), json!([{"index": 0, "delta": delta, "finish_reason": null}]));
        Value::Object(chunk)
    }

    /// Makes an event or answer one of the first round.
    fn put_head(&self, chunk: &mut Value) {
        for (key, value) in &self.head {
            chunk[key.as_str()] = value.clone();
        }
    }

    /// Ends the round, and returns what became of it.
    fn close_round(&mut self, end: End) -> Round {
        let round = std::mem::take(&mut self.round);
        self.rounds += 1;
        self.is_done = round.is_done;
        if let Some(usage) = &round.usage {
            add_numbers(&mut self.usage, usage);
        }
        let mut result = Round { end, ..Round::default() };
        let (mut kept, mut public) = (Vec::new(), Vec::new());
        for state in round.calls {
            let call = held_call(&state.call);
            match (state.callee, state.outcome) {
                (Some(Callee::Client), _) => public.push((state.public_index, call)),
                (_, Some(Ok(call))) => {
                    result.is_rewritten = true;
                    public.push((state.public_index, call));
                }
                (_, Some(Err(answer))) if end == End::Complete => result.hidden.push(HiddenCall::Rejected(answer)),
                (Some(Callee::Search), None) if end == End::Complete => result.hidden.push(HiddenCall::Search(call)),
                // The model was stopped in the middle of it.
                _ => {
                    result.is_rewritten = true;
                    continue;
                }
            }
            kept.push(state.call);
        }
        // In the order in which the client has got them.
        public.sort_by_key(|(index, _)| *index);
        result.client_calls = public.len();
        self.said.calls.extend(public.into_iter().map(|(_, call)| call));
        let has_content = round.message.iter().any(|(key, value)| key != "role" && !is_nothing(value));
        if has_content || !kept.is_empty() {
            result.items.push(message_item(round.message, kept));
        }
        result
    }
}

/// Returns a message of the model as an item of the history.
fn message_item(message: Map<String, Value>, calls: Vec<Value>) -> String {
    let mut item = Map::new();
    item.insert("role".to_owned(), "assistant".into());
    item.insert("content".to_owned(), message.get("content").cloned().unwrap_or_default());
    // Sent by providers, and not accepted by all of them.
    let is_sent_back = |key: &str| !["role", "content", "annotations", "audio", "function_call"].contains(&key);
    for (key, value) in message.into_iter().filter(|(key, value)| is_sent_back(key) && !is_nothing(value)) {
        item.insert(key, value);
    }
    if !calls.is_empty() {
        item.insert("tool_calls".to_owned(), calls.into());
    }
    Value::Object(item).to_string()
}

/// Returns the fields that all events of an answer share.
fn head_of(chunk: &Value) -> Map<String, Value> {
    let fields = chunk.as_object().into_iter().flatten();
    let shared = ["id", "object", "created", "model", "system_fingerprint", "service_tier", "provider"];
    fields.filter(|(key, _)| shared.contains(&key.as_str())).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn has_usage(chunk: &Value) -> bool {
    chunk.get("usage").is_some_and(|usage| !usage.is_null())
}

/// Returns why the model has stopped. Some providers write an empty reason as long as it goes on.
fn finish_of(choice: &Value) -> Option<String> {
    Some(text(choice, "finish_reason")).filter(|reason| !reason.is_empty()).map(str::to_owned)
}

/// Returns whose call it is; `None` as long as it has no name.
fn callee_of(call: &Value, calls: &Calls) -> Option<Callee> {
    if !["", "function"].contains(&text(call, "type")) {
        return Some(Callee::Client);
    }
    Some(text(&call["function"], "name")).filter(|name| !name.is_empty()).map(|name| calls.callee(name))
}

/// Returns whether all arguments of a call have arrived.
fn is_complete(state: &CallState) -> bool {
    serde_json::from_str::<Value>(&held_call(&state.call).arguments).is_ok_and(|arguments| arguments.is_object())
}
