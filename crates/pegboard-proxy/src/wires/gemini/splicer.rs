//! Answers of several rounds as one answer of Gemini.

use serde_json::{Value, json};

use super::{call_of, said_in};
use crate::{
    calls::{Callee, Calls, HeldCall, Resolved},
    json::{add_numbers, text},
    sse::{self, Frame},
    wires::{End, HiddenCall, Round, Said, Splicer},
};

#[derive(Debug, Default)]
struct CurrentRound {
    /// What the model has said, in the form of the provider.
    parts: Vec<Value>,
    public_parts: Vec<Value>,
    hidden: Vec<HiddenCall>,
    /// The places of the hidden calls among all calls.
    hidden_places: Vec<usize>,
    is_rewritten: bool,
    finish: Option<String>,
    usage: Option<Value>,
    is_blocked: bool,
    is_failed: bool,
}

#[derive(Debug, Default)]
pub(super) struct GeminiSplicer {
    said: Said,
    rounds: usize,
    id: Value,
    usage: Value,
    round: CurrentRound,
    /// The final event of the newest round, and its bytes as long as it is not changed.
    last: Option<(Value, Option<Vec<u8>>)>,
    /// The parts for the client, where the answer is not streamed.
    parts: Vec<Value>,
    /// Whether no copies of the client's parts are kept any more.
    is_stopped: bool,
}

impl Splicer for GeminiSplicer {
    fn frame(&mut self, frame: &Frame, calls: &mut Calls, out: &mut Vec<u8>) {
        let event = frame.data.as_deref().and_then(|data| serde_json::from_str::<Value>(data).ok());
        let Some(mut event) = event else { return out.extend_from_slice(&frame.raw) };
        if self.rounds > 0 && self.round.finish.is_none() {
            // The client has the content of a hidden round already, and this one has an end of its own.
            self.last = None;
        }
        if event.get("error").is_some() {
            self.round.is_failed = true;
            return out.extend_from_slice(&frame.raw);
        }
        if self.rounds == 0 && self.id.is_null() {
            self.id = event["responseId"].clone();
        }
        if let Some(usage) = event.get("usageMetadata").filter(|usage| usage.is_object()) {
            self.round.usage = Some(usage.clone());
        }
        self.round.is_blocked |= event.get("promptFeedback").is_some();
        let Some(candidate) = event.pointer_mut("/candidates/0") else {
            return self.write_bare_event(event, &frame.raw, out);
        };
        let finish = Some(text(candidate, "finishReason")).filter(|reason| !reason.is_empty()).map(str::to_owned);
        let is_changed = self.take_parts(candidate, calls);
        let is_empty = super::parts(&candidate["content"]).is_empty();
        if let Some(finish) = finish {
            if self.round.finish.is_some() {
                // Some models name a reason in several events: the earlier one was not the final one.
                self.write_last_content(out);
            }
            self.round.finish = Some(finish);
            self.last = Some((event, (!is_changed).then(|| frame.raw.clone())));
            if !self.round.hidden.is_empty() {
                // The model goes on, and the client need not wait for it.
                self.write_last_content(out);
            }
            return;
        }
        if !is_changed && self.rounds == 0 {
            return out.extend_from_slice(&frame.raw);
        }
        if !is_empty {
            self.put_id(&mut event);
            sse::write(None, &event.to_string(), out);
        }
    }

    fn stop_keeping(&mut self) {
        (self.is_stopped, self.said) = (true, Said::default());
        (self.round.parts, self.round.public_parts) = (Vec::new(), Vec::new());
    }

    fn end_round(&mut self, _calls: &mut Calls, _out: &mut Vec<u8>) -> Round {
        let end = match self.round.finish.as_deref() {
            _ if self.round.is_failed => End::Failed,
            Some(reason) => end_of(reason),
            None if self.round.is_blocked => End::Stopped,
            None => End::Broken,
        };
        self.close_round(end)
    }

    fn finish(&mut self, notice: Option<&str>, out: &mut Vec<u8>) {
        let Some((mut event, raw)) = self.last.take() else { return };
        if let Some(notice) = notice {
            let mut message = event.clone();
            message["candidates"][0]["content"] = json!({"role": "model", "parts": [{"text": notice}]});
            remove_end(&mut message);
            self.put_id(&mut message);
            sse::write(None, &message.to_string(), out);
        }
        match raw.filter(|_| self.rounds == 1) {
            Some(raw) => out.extend_from_slice(&raw),
            None => {
                self.put_id(&mut event);
                if event.get("usageMetadata").is_some() {
                    event["usageMetadata"] = self.usage.clone();
                }
                sse::write(None, &event.to_string(), out);
            }
        }
    }

    fn answer(&mut self, mut answer: Value, calls: &mut Calls) -> Round {
        if self.rounds == 0 {
            self.id = answer["responseId"].clone();
        }
        self.round.usage = answer.get("usageMetadata").filter(|usage| usage.is_object()).cloned();
        let Some(candidate) = answer.pointer_mut("/candidates/0") else {
            let is_blocked = answer.get("promptFeedback").is_some();
            self.last = Some((answer, None));
            return self.close_round(if is_blocked { End::Stopped } else { End::Failed });
        };
        let end = end_of(candidate["finishReason"].as_str().unwrap_or("STOP"));
        self.take_parts(candidate, calls);
        self.parts.extend(self.round.public_parts.iter().cloned());
        self.last = Some((answer, None));
        self.close_round(end)
    }

    fn finish_answer(&mut self, notice: Option<&str>) -> String {
        let (mut answer, _) = self.last.take().unwrap_or_default();
        self.parts.extend(notice.map(|notice| json!({"text": notice})));
        self.put_id(&mut answer);
        if let Some(candidate) = answer.pointer_mut("/candidates/0") {
            candidate["content"] = json!({"role": "model", "parts": std::mem::take(&mut self.parts)});
        }
        if answer.get("usageMetadata").is_some() {
            answer["usageMetadata"] = self.usage.clone();
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
        self.usage.get("cachedContentTokenCount").and_then(Value::as_u64).unwrap_or_default()
    }
}

impl GeminiSplicer {
    /// Writes an event without candidates, with the counts of all rounds.
    fn write_bare_event(&self, mut event: Value, raw: &[u8], out: &mut Vec<u8>) {
        if self.rounds == 0 {
            return out.extend_from_slice(raw);
        }
        self.put_id(&mut event);
        if let Some(usage) = event.get_mut("usageMetadata") {
            let mut sum = self.usage.clone();
            add_numbers(&mut sum, usage);
            *usage = sum;
        }
        sse::write(None, &event.to_string(), out);
    }

    /// Writes the content of the final event so far, which others follow, and leaves its end.
    fn write_last_content(&mut self, out: &mut Vec<u8>) {
        let Some((mut last, _)) = self.last.take() else { return };
        let mut event = last.clone();
        if super::parts(&event["candidates"][0]["content"]).is_empty() {
            self.last = Some((last, None));
            return;
        }
        last["candidates"][0]["content"]["parts"] = json!([]);
        self.last = Some((last, None));
        remove_end(&mut event);
        self.put_id(&mut event);
        sse::write(None, &event.to_string(), out);
    }

    /// Takes in the parts of a candidate, and leaves in it those for the client; returns whether that are others.
    fn take_parts(&mut self, candidate: &mut Value, calls: &mut Calls) -> bool {
        let Some(Value::Array(parts)) = candidate.pointer_mut("/content/parts") else { return false };
        let mut public = Vec::with_capacity(parts.len());
        let mut is_changed = false;
        for part in std::mem::take(parts) {
            let (place, hidden) = (super::calls_in(&self.round.parts).count(), self.round.hidden.len());
            let held = part.get("functionCall").map(|call| (calls.callee(text(call, "name")), call_of(call)));
            match held {
                None | Some((Callee::Client, _)) => public.push(part.clone()),
                Some((Callee::Search, call)) => {
                    is_changed = true;
                    self.round.hidden.push(HiddenCall::Search(call));
                }
                Some((Callee::Call, call)) => {
                    is_changed = true;
                    match calls.resolve(&call) {
                        Resolved::Client(call) => {
                            self.round.is_rewritten = true;
                            public.push(public_call(&part, &call));
                        }
                        Resolved::Rejected(answer) => self.round.hidden.push(HiddenCall::Rejected(answer)),
                    }
                }
            }
            self.round.hidden_places.extend((self.round.hidden.len() > hidden).then_some(place));
            if !self.is_stopped {
                push_part(&mut self.round.parts, part);
            }
        }
        if !self.is_stopped {
            self.round.public_parts.extend(public.iter().cloned());
        }
        *parts = public;
        is_changed
    }

    fn put_id(&self, event: &mut Value) {
        if !self.id.is_null() {
            event["responseId"] = self.id.clone();
        }
    }

    /// Ends the round, and returns what became of it.
    fn close_round(&mut self, end: End) -> Round {
        let mut round = std::mem::take(&mut self.round);
        self.rounds += 1;
        if let Some(usage) = &round.usage {
            add_numbers(&mut self.usage, usage);
        }
        let said = said_in(&round.public_parts);
        let mut result = Round { end, is_rewritten: round.is_rewritten, ..Round::default() };
        result.client_calls = said.calls.len();
        self.said.extend(&said);
        if end == End::Complete {
            (result.hidden, result.hidden_places) = (round.hidden, round.hidden_places);
        } else if !round.hidden.is_empty() {
            // These calls get no answer.
            let call_of_hidden = |hidden| match hidden {
                HiddenCall::Search(call) => call,
                HiddenCall::Rejected(answer) => answer.call,
            };
            let unanswered: Vec<HeldCall> = round.hidden.into_iter().map(call_of_hidden).collect();
            round
                .parts
                .retain(|part| !part.get("functionCall").is_some_and(|call| unanswered.contains(&call_of(call))));
            result.is_rewritten = true;
        }
        if !round.parts.is_empty() {
            result.items.push(json!({"role": "model", "parts": round.parts}).to_string());
        }
        result
    }
}

fn end_of(reason: &str) -> End {
    if reason == "STOP" { End::Complete } else { End::Stopped }
}

/// Removes what only the final event has: the reason to finish, and the sum of the counts.
fn remove_end(event: &mut Value) {
    event.as_object_mut().and_then(|fields| fields.shift_remove("usageMetadata"));
    if let Some(candidate) = event.pointer_mut("/candidates/0").and_then(Value::as_object_mut) {
        candidate.shift_remove("finishReason");
    }
}

/// Adds a part. Pieces of one text become one part; thoughts without a signature are not sent back.
fn push_part(parts: &mut Vec<Value>, part: Value) {
    let is_plain =
        |part: &Value| part.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key("text"));
    if part["thought"] == true && part.get("thoughtSignature").is_none() {
        return;
    }
    let last = parts.last_mut().filter(|last| is_plain(last) && is_plain(&part)).and_then(|last| last.get_mut("text"));
    match last {
        // In place: there are as many pieces as the text has words.
        Some(Value::String(known)) => known.push_str(text(&part, "text")),
        _ => parts.push(part),
    }
}

/// Returns the part of a call as the client gets it.
fn public_call(part: &Value, call: &HeldCall) -> Value {
    let mut public = part.clone();
    public["functionCall"]["name"] = call.name.clone().into();
    public["functionCall"]["args"] = serde_json::from_str(&call.arguments).unwrap_or_default();
    public
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_text_grow_in_place() {
        let mut parts = Vec::new();
        push_part(&mut parts, json!({"text": "a"}));
        push_part(&mut parts, json!({"text": "b", "thought": true}));
        push_part(&mut parts, json!({"text": "b"}));
        push_part(&mut parts, json!({"text": "c", "thoughtSignature": "s"}));
        push_part(&mut parts, json!({"text": 1}));
        assert_eq!(parts, [json!({"text": "ab"}), json!({"text": "c", "thoughtSignature": "s"}), json!({"text": 1})]);
        let mut parts = vec![json!({"text": ""})];
        parts[0]["text"] = String::with_capacity(1 << 20).into();
        let address = |parts: &[Value]| parts[0]["text"].as_str().map(str::as_ptr);
        let before = address(&parts);
        (0..1000).for_each(|_| push_part(&mut parts, json!({"text": "x"})));
        assert_eq!((address(&parts), text(&parts[0], "text").len()), (before, 1000), "nothing was copied");
    }
}
