//! Answers of several rounds as one answer of Messages.

use serde_json::{Map, Value, json};

use super::call_of;
use crate::{
    calls::{Callee, Calls, HeldCall, Resolved},
    json::{add_numbers, quoted, text},
    sse::{self, Frame},
    wires::{End, HiddenAnswer, HiddenCall, Round, Said, Splicer, merge},
};

/// Counts of the final event that are sums over all rounds.
const SUMMED: [&str; 5] =
    ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "server_tool_use"];

/// The key of arguments that are not an object, in the place of their input.
const INVALID_INPUT: &str = "INVALID_JSON";

/// A block of the current round.
#[derive(Debug)]
struct BlockState {
    /// Its number at the provider.
    index: u64,
    block: Map<String, Value>,
    /// The arguments of a call as they were written.
    arguments: String,
    /// Whether these came with the block, and not in pieces.
    is_given: bool,
    callee: Callee,
    /// Its number at the client; `None` if it is held.
    public_index: Option<u64>,
    is_complete: bool,
    /// The call that the client got instead, or the answer that the model gets.
    outcome: Option<Result<HeldCall, HiddenAnswer>>,
}

impl BlockState {
    fn is_call(&self) -> bool {
        self.block.get("type").is_some_and(|kind| kind == "tool_use")
    }

    fn call(&self) -> HeldCall {
        call_of(&Value::Object(self.block.clone()), self.arguments.clone())
    }

    /// Returns the block as JSON, with the arguments as they were written where they are an object.
    fn to_json(&self) -> String {
        let fields = self.block.iter().map(|(key, value)| match key.as_str() {
            "input" if self.is_call() || !self.arguments.trim().is_empty() => format!("\"input\":{}", self.input()),
            "input" if !value.is_object() => "\"input\":{}".to_owned(),
            key => format!("{}:{value}", quoted(key)),
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }

    /// Returns the arguments as JSON. The provider accepts only objects: anything else would break the history for good.
    fn input(&self) -> String {
        match serde_json::from_str::<Value>(&self.arguments) {
            Ok(Value::Object(_)) => self.arguments.clone(),
            // Some providers write calls without arguments in this way, but do not accept them.
            Ok(Value::Null) => "{}".to_owned(),
            _ if ["", "\"\""].contains(&self.arguments.trim()) => "{}".to_owned(),
            _ => json!({(INVALID_INPUT): self.arguments}).to_string(),
        }
    }

    /// Drops everything but the names.
    fn reduce(&mut self) {
        self.arguments = String::new();
        self.block.retain(|key, _| ["type", "id", "name"].contains(&key.as_str()));
    }

    /// Returns whether the provider accepts the block in a history.
    fn is_valid(&self) -> bool {
        !(self.block.get("type").is_some_and(|kind| kind == "text")
            && self.block.get("text").is_some_and(|text| text == ""))
    }
}

#[derive(Debug, Default)]
struct CurrentRound {
    blocks: Vec<BlockState>,
    stop_reason: Option<String>,
    usage: Value,
    /// Whether a part of the final event has arrived.
    has_delta: bool,
    is_over: bool,
    is_failed: bool,
}

#[derive(Debug, Default)]
pub(super) struct MessagesSplicer {
    said: Said,
    rounds: usize,
    /// The id of the first round.
    id: Value,
    public_blocks: u64,
    public_calls: usize,
    usage: Value,
    round: CurrentRound,
    /// The final event of the newest round, and its bytes. Some providers send it in several parts.
    last: Option<(Value, Vec<u8>)>,
    stop: Option<Vec<u8>>,
    /// The blocks for the client, where the answer is not streamed.
    content: Vec<Value>,
    /// Whether no copies of the client's blocks are kept any more.
    is_stopped: bool,
}

impl Splicer for MessagesSplicer {
    fn frame(&mut self, frame: &Frame, calls: &mut Calls, out: &mut Vec<u8>) {
        let event = frame.data.as_deref().and_then(|data| serde_json::from_str::<Value>(data).ok());
        let Some(event) = event else { return out.extend_from_slice(&frame.raw) };
        match text(&event, "type") {
            "message_start" => self.start(&event, &frame.raw, out),
            "content_block_start" => self.start_block(event, &frame.raw, calls, out),
            "content_block_delta" => self.block_delta(event, &frame.raw, out),
            "content_block_stop" => self.stop_block(event, &frame.raw, calls, out),
            "message_delta" => self.message_delta(event, &frame.raw),
            "message_stop" => {
                self.round.is_over = true;
                self.stop = Some(frame.raw.clone());
            }
            "error" => {
                self.round.is_failed = true;
                out.extend_from_slice(&frame.raw);
            }
            _ => out.extend_from_slice(&frame.raw),
        }
    }

    fn is_round_over(&self) -> bool {
        self.round.is_over
    }

    fn stop_keeping(&mut self) {
        (self.is_stopped, self.said) = (true, Said::default());
        for state in self.round.blocks.iter_mut().filter(|state| state.public_index.is_some()) {
            state.reduce();
        }
    }

    fn end_round(&mut self, calls: &mut Calls, out: &mut Vec<u8>) -> Round {
        let end = match &self.round.stop_reason {
            _ if self.round.is_failed => End::Failed,
            Some(reason) => end_of(reason),
            None => End::Broken,
        };
        let is_open = |block: &BlockState| block.is_call() && !block.is_complete;
        if end == End::Complete && self.round.blocks.last().is_some_and(is_open) {
            // Some providers leave out the end of the last block.
            self.complete_block(self.round.blocks.len() - 1, calls, out);
        }
        self.close_round(end)
    }

    fn finish(&mut self, notice: Option<&str>, out: &mut Vec<u8>) {
        if let Some(notice) = notice {
            self.write_block(&json!({"type": "text", "text": ""}), &json!({"type": "text_delta", "text": notice}), out);
        }
        if let Some((mut event, raw)) = self.last.take() {
            let is_unanswered = event["delta"]["stop_reason"] == "tool_use" && self.public_calls == 0;
            if is_unanswered {
                event["delta"]["stop_reason"] = "end_turn".into();
            }
            if self.rounds > 1 {
                replace_fields(&mut event["usage"], &Value::Null);
                for key in SUMMED {
                    if let Some(sum) = self.usage.get(key) {
                        event["usage"][key] = sum.clone();
                    }
                }
            }
            match self.rounds > 1 || is_unanswered {
                true => sse::write(Some("message_delta"), &event.to_string(), out),
                false => out.extend_from_slice(&raw),
            }
        }
        out.extend(self.stop.take().into_iter().flatten());
    }

    fn answer(&mut self, mut answer: Value, calls: &mut Calls) -> Round {
        if self.rounds == 0 {
            self.id = answer["id"].clone();
        }
        let Some(Value::Array(blocks)) = answer.get_mut("content").map(Value::take) else {
            self.round.is_failed = true;
            return self.close_round(End::Failed);
        };
        self.round.usage = answer["usage"].clone();
        let reason = text(&answer, "stop_reason").to_owned();
        let end = end_of(&reason);
        for (index, block) in blocks.into_iter().enumerate() {
            self.said.text.push_str(if block["type"] == "text" { text(&block, "text") } else { "" });
            let callee = callee_of(&block, calls);
            let arguments = block.get("input").map(Value::to_string).unwrap_or_default();
            let mut state = BlockState {
                index: index as u64,
                block: block.as_object().cloned().unwrap_or_default(),
                arguments,
                is_given: true,
                callee,
                public_index: None,
                is_complete: true,
                outcome: None,
            };
            match callee {
                Callee::Client => {
                    self.public_calls += usize::from(state.is_call());
                    state.public_index = Some(0);
                    self.content.push(block);
                }
                Callee::Call => {
                    if let Some(call) = self.resolve(&mut state, calls) {
                        let mut public = block;
                        public["name"] = call.name.into();
                        public["input"] = serde_json::from_str(&call.arguments).unwrap_or_default();
                        self.content.push(public);
                    }
                }
                Callee::Search => {}
            }
            self.round.blocks.push(state);
        }
        self.last = Some((answer, Vec::new()));
        self.close_round(end)
    }

    fn finish_answer(&mut self, notice: Option<&str>) -> String {
        let (mut answer, _) = self.last.take().unwrap_or_default();
        if let Some(notice) = notice {
            self.content.push(json!({"type": "text", "text": notice}));
        }
        answer["id"] = self.id.clone();
        answer["content"] = std::mem::take(&mut self.content).into();
        if answer["stop_reason"] == "tool_use" && self.public_calls == 0 {
            answer["stop_reason"] = "end_turn".into();
        }
        answer["usage"] = self.usage.clone();
        answer.to_string()
    }

    fn fail(&mut self, error: &Value, out: &mut Vec<u8>) {
        sse::write(Some("error"), &error.to_string(), out);
    }

    fn said(&self) -> &Said {
        &self.said
    }

    fn cache_read_tokens(&self) -> u64 {
        self.usage.get("cache_read_input_tokens").and_then(Value::as_u64).unwrap_or_default()
    }
}

impl MessagesSplicer {
    fn start(&mut self, event: &Value, raw: &[u8], out: &mut Vec<u8>) {
        self.round.usage = event["message"]["usage"].clone();
        if self.rounds == 0 {
            self.id = event["message"]["id"].clone();
            out.extend_from_slice(raw);
        }
    }

    fn start_block(&mut self, mut event: Value, raw: &[u8], calls: &Calls, out: &mut Vec<u8>) {
        let index = event["index"].as_u64().unwrap_or_default();
        let block = event["content_block"].clone();
        let callee = callee_of(&block, calls);
        let mut public_index = None;
        if callee == Callee::Client {
            public_index = Some(self.public_blocks);
            self.public_calls += usize::from(block["type"] == "tool_use");
            write_indexed("content_block_start", &mut event, self.public_blocks, raw, out);
            self.public_blocks += 1;
            let is_kept = block["type"] == "text" && !self.is_stopped;
            self.said.text.push_str(if is_kept { text(&block, "text") } else { "" });
        }
        // Some providers send the whole input at once.
        let arguments = block.get("input").filter(|input| input.as_object().is_some_and(|input| !input.is_empty()));
        let (is_given, arguments) = (arguments.is_some(), arguments.map(Value::to_string).unwrap_or_default());
        let (block, is_complete) = (block.as_object().cloned().unwrap_or_default(), false);
        let mut state =
            BlockState { index, block, arguments, is_given, callee, public_index, is_complete, outcome: None };
        if self.is_stopped && public_index.is_some() {
            state.reduce();
        }
        self.round.blocks.push(state);
    }

    fn block_delta(&mut self, mut event: Value, raw: &[u8], out: &mut Vec<u8>) {
        let index = event["index"].as_u64().unwrap_or_default();
        let Some(state) = self.round.blocks.iter_mut().rev().find(|block| block.index == index) else {
            return;
        };
        let delta = &event["delta"];
        match text(delta, "type") {
            _ if self.is_stopped && state.public_index.is_some() => {}
            "input_json_delta" => {
                let piece = text(delta, "partial_json");
                if !piece.is_empty() && std::mem::take(&mut state.is_given) {
                    // Clients, too, let the pieces replace what came with the block.
                    state.arguments.clear();
                }
                state.arguments.push_str(piece);
            }
            "citations_delta" => {
                let citations = state.block.entry("citations").or_insert(Value::Null);
                if !citations.is_array() {
                    *citations = json!([]);
                }
                citations.as_array_mut().into_iter().for_each(|list| list.push(delta["citation"].clone()));
            }
            kind => {
                if kind == "text_delta" {
                    self.said.text.push_str(text(delta, "text"));
                }
                for (key, value) in delta.as_object().into_iter().flatten().filter(|(key, _)| *key != "type") {
                    merge(&mut state.block, key, value);
                }
            }
        }
        if let Some(public) = state.public_index {
            write_indexed("content_block_delta", &mut event, public, raw, out);
        }
    }

    fn stop_block(&mut self, mut event: Value, raw: &[u8], calls: &mut Calls, out: &mut Vec<u8>) {
        let index = event["index"].as_u64().unwrap_or_default();
        let Some(at) = self.round.blocks.iter().rposition(|block| block.index == index) else { return };
        if let Some(public) = self.round.blocks[at].public_index {
            write_indexed("content_block_stop", &mut event, public, raw, out);
        }
        self.complete_block(at, calls, out);
    }

    /// Takes in the end of a block, and appends what the client gets of a held one.
    fn complete_block(&mut self, at: usize, calls: &mut Calls, out: &mut Vec<u8>) {
        let mut state = self.round.blocks.remove(at);
        state.is_complete = true;
        if state.callee == Callee::Call
            && let Some(call) = self.resolve(&mut state, calls)
        {
            let mut start = Value::Object(state.block.clone());
            start["name"] = call.name.into();
            start["input"] = json!({});
            self.write_block(&start, &json!({"type": "input_json_delta", "partial_json": call.arguments}), out);
        }
        self.round.blocks.insert(at, state);
    }

    /// Takes in the final event of a round, or a part of it.
    fn message_delta(&mut self, event: Value, raw: &[u8]) {
        if let Some(reason) = event["delta"]["stop_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.round.stop_reason = Some(reason.to_owned());
        }
        replace_fields(&mut self.round.usage, &event["usage"]);
        match &mut self.last {
            Some((last, bytes)) if self.round.has_delta => {
                replace_fields(&mut last["delta"], &event["delta"]);
                replace_fields(&mut last["usage"], &event["usage"]);
                bytes.extend_from_slice(raw);
            }
            last => *last = Some((event, raw.to_owned())),
        }
        self.round.has_delta = true;
        // That of an earlier round is not the end of this one.
        self.stop = None;
    }

    /// Decides about a held call of `call_tool`; returns the call for the client.
    fn resolve(&mut self, state: &mut BlockState, calls: &mut Calls) -> Option<HeldCall> {
        match calls.resolve(&state.call()) {
            Resolved::Client(call) => {
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

    /// Appends a whole block.
    fn write_block(&mut self, start: &Value, delta: &Value, out: &mut Vec<u8>) {
        let index = self.public_blocks;
        self.public_blocks += 1;
        let start = json!({"type": "content_block_start", "index": index, "content_block": start});
        let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
        let stop = json!({"type": "content_block_stop", "index": index});
        for event in [start, delta, stop] {
            sse::write(Some(text(&event, "type")), &event.to_string(), out);
        }
    }

    /// Ends the round, and returns what became of it.
    fn close_round(&mut self, end: End) -> Round {
        let round = std::mem::take(&mut self.round);
        self.rounds += 1;
        add_numbers(&mut self.usage, &round.usage);
        let mut result = Round { end, ..Round::default() };
        let mut kept = Vec::new();
        for state in &round.blocks {
            let call = state.call();
            match (state.callee, &state.outcome) {
                (Callee::Client, _) if state.is_call() => {
                    result.client_calls += 1;
                    self.said.calls.push(call);
                }
                (Callee::Client, _) => {}
                (_, Some(Ok(public))) => {
                    (result.client_calls, result.is_rewritten) = (result.client_calls + 1, true);
                    self.said.calls.push(public.clone());
                }
                (_, Some(Err(answer))) if end == End::Complete => {
                    result.hidden.push(HiddenCall::Rejected(answer.clone()));
                }
                (Callee::Search, None) if end == End::Complete && state.is_complete => {
                    result.hidden.push(HiddenCall::Search(call));
                }
                // The model was stopped in the middle of it.
                _ => {
                    result.is_rewritten = true;
                    continue;
                }
            }
            if state.is_valid() {
                kept.push(state.to_json());
            }
        }
        if !kept.is_empty() {
            result.items.push(format!(r#"{{"role":"assistant","content":[{}]}}"#, kept.join(",")));
        }
        result
    }
}

fn end_of(stop_reason: &str) -> End {
    match stop_reason {
        "max_tokens" | "model_context_window_exceeded" | "refusal" => End::Stopped,
        _ => End::Complete,
    }
}

fn callee_of(block: &Value, calls: &Calls) -> Callee {
    if block["type"] == "tool_use" { calls.callee(text(block, "name")) } else { Callee::Client }
}

/// Replaces the fields that are there and not `null`: the counts of the final event are totals.
fn replace_fields(usage: &mut Value, newer: &Value) {
    if !usage.is_object() {
        *usage = json!({});
    }
    for (key, value) in newer.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        usage[key.as_str()] = value.clone();
    }
}

/// Appends an event with the number of its block at the client.
fn write_indexed(kind: &str, event: &mut Value, public: u64, raw: &[u8], out: &mut Vec<u8>) {
    if event["index"].as_u64() == Some(public) {
        return out.extend_from_slice(raw);
    }
    event["index"] = public.into();
    sse::write(Some(kind), &event.to_string(), out);
}
