//! Encodes scripted turns for the wire of a request.

mod chat;
mod gemini;
mod messages;
mod responses;

use serde_json::{Value, json};

use super::{
    ask::ModelRequest,
    cache::Charge,
    errors::{self, ErrorResponse},
    events::{StreamEvent, with_noise},
    ids::Ids,
    prompt::Prompt,
    route::{Action, Vendor, Wire},
    script::{Noise, Output, Part, Quirk, ScriptedError, Search, Sending, Stop, Usage},
};

/// The fixed time of all answers, so that every run is the same.
pub(crate) const NOW: u64 = 1_790_000_000;

/// An encoded answer.
pub(crate) struct Encoded {
    /// The blocks, items or parts that the client has to echo.
    pub(crate) said: Vec<Value>,
    /// The identifier of the answer.
    pub(crate) id: String,
    pub(crate) body: Body,
}

/// The body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Whole(Vec<u8>),
    /// One element per event.
    Events(Vec<Vec<u8>>),
}

/// Encodes one turn.
struct TurnEncoder<'a> {
    ask: &'a ModelRequest<'a>,
    output: &'a Output,
    sending: &'a Sending,
    ids: &'a mut Ids,
    usage: Usage,
    stop: Stop,
    id: String,
}

/// Encodes `output` for the wire of the request, or returns why that wire cannot express it.
pub(crate) fn encode(
    ask: &ModelRequest,
    output: &Output,
    sending: &Sending,
    ids: &mut Ids,
    prompt: &Prompt,
    charge: Charge,
) -> Result<Encoded, String> {
    let id = ids.next(match ask.route.wire {
        Wire::Messages => "msg_",
        Wire::Chat => "chatcmpl-",
        Wire::Responses => "resp_",
        Wire::Gemini => "response-",
    });
    let usage = output.usage.unwrap_or_else(|| estimate(output, prompt, charge));
    let stop = output.stop.clone().unwrap_or_else(|| natural_stop(ask, output));
    let mut speech = TurnEncoder { ask, output, sending, ids, usage, stop, id };
    let said = match ask.route.wire {
        Wire::Messages => messages::blocks(&mut speech)?,
        Wire::Chat => vec![chat::message(&mut speech)?],
        Wire::Responses => responses::items(&mut speech)?,
        Wire::Gemini => gemini::parts(&mut speech)?,
    };
    let body = if ask.streams() {
        Body::Events(speech.stream(speech.events(&said)))
    } else {
        Body::Whole(speech.whole(&said).to_string().into_bytes())
    };
    Ok(Encoded { said, id: speech.id, body })
}

/// Estimates the number of tokens: about four letters each.
pub(crate) fn tokens(bytes: usize) -> u64 {
    bytes as u64 / 4 + 1
}

fn estimate(output: &Output, prompt: &Prompt, charge: Charge) -> Usage {
    let length = |part: &Part| match part {
        Part::Text(text) | Part::Thinking { text, .. } => text.len(),
        Part::Call(call) => call.name.len() + call.arguments.to_string().len(),
        Part::Search(search) => search.matches.iter().map(String::len).sum(),
        Part::Raw(value) => value.to_string().len(),
    };
    let thoughts = output.parts.iter().filter(|part| matches!(part, Part::Thinking { .. })).map(length).sum::<usize>();
    Usage {
        input: tokens(prompt.bytes.len()),
        // Rounded together, so that their sum never exceeds the tokens that were read.
        cache_read: charge.read as u64 / 4,
        cache_write: (charge.read + charge.written) as u64 / 4 - charge.read as u64 / 4,
        output: tokens(output.parts.iter().map(length).sum()),
        reasoning: if thoughts > 0 { tokens(thoughts) } else { 0 },
    }
}

fn natural_stop(ask: &ModelRequest, output: &Output) -> Stop {
    let waits = |part: &Part| match part {
        Part::Call(_) => true,
        Part::Search(search) => ask.route.wire == Wire::Responses && is_for_client(ask, search),
        _ => false,
    };
    if output.parts.iter().any(waits) { Stop::ToolUse } else { Stop::EndTurn }
}

/// Returns the arguments of a call as text; a string is a truncated text.
fn arguments_text(arguments: &Value) -> String {
    arguments.as_str().map_or_else(|| arguments.to_string(), String::from)
}

/// Returns the arguments of a call as an object; truncated ones are empty.
fn arguments_object(arguments: &Value) -> Value {
    if arguments.is_string() { json!({}) } else { arguments.clone() }
}

/// Returns whether the client has to execute a search on Responses.
fn is_for_client(ask: &ModelRequest, search: &Search) -> bool {
    search.client || ask.search_tool().is_some_and(|tool| tool.definition["execution"] == "client")
}

impl TurnEncoder<'_> {
    /// Returns whether the answer has something that no client can know.
    fn has_unknown(&self) -> bool {
        self.sending.noise.contains(&Noise::Block)
    }

    /// Returns whether the stream has an unusual form.
    fn has(&self, quirk: Quirk) -> bool {
        self.sending.quirks.contains(&quirk)
    }

    fn whole(&self, said: &[Value]) -> Value {
        match self.ask.route.wire {
            Wire::Messages => messages::whole(self, said),
            Wire::Chat => chat::whole(self, &said[0]),
            Wire::Responses => responses::whole(self, said),
            Wire::Gemini => gemini::whole(self, said),
        }
    }

    fn events(&self, said: &[Value]) -> Vec<StreamEvent> {
        match self.ask.route.wire {
            Wire::Messages => messages::events(self, said),
            Wire::Chat => chat::events(self, &said[0]),
            Wire::Responses => responses::events(self, said),
            Wire::Gemini => gemini::events(self, said),
        }
    }

    fn stream(&self, events: Vec<StreamEvent>) -> Vec<Vec<u8>> {
        let (wire, vendor) = (self.ask.route.wire, self.ask.route.vendor);
        let mut events = with_noise(wire, self.sending, events);
        if let Some(breakdown) = &self.sending.error_after {
            // At the latest in place of the last event: clients stop reading after it.
            events.truncate(breakdown.events.min(events.len().saturating_sub(1)));
            events.push(self.breakdown(&breakdown.refusal));
        }
        if wire == Wire::Responses {
            number(&mut events);
        }
        if self.ask.route.action == Action::Array { array(&events) } else { frames(vendor, &events) }
    }

    fn breakdown(&self, refusal: &ScriptedError) -> StreamEvent {
        let message = refusal.message.as_deref().unwrap_or("the script says so");
        let complaint = ErrorResponse { status: refusal.status, message, ..ErrorResponse::default() };
        match errors::event(self.ask.route.vendor, self.ask.route.wire, &complaint) {
            (Some(name), data) => StreamEvent::Named(name.into(), refusal.body.clone().unwrap_or(data)),
            (None, data) => StreamEvent::Plain(refusal.body.clone().unwrap_or(data)),
        }
    }
}

/// Numbers the events of Responses.
fn number(events: &mut [StreamEvent]) {
    let data =
        events.iter_mut().filter_map(|event| if let StreamEvent::Named(_, data) = event { Some(data) } else { None });
    data.enumerate().for_each(|(index, data)| data["sequence_number"] = index.into());
}

fn frames(vendor: Vendor, events: &[StreamEvent]) -> Vec<Vec<u8>> {
    events.iter().map(|event| event.frame(vendor)).collect()
}

/// The chunks of Gemini as one JSON array that grows.
fn array(events: &[StreamEvent]) -> Vec<Vec<u8>> {
    let data = events.iter().filter_map(|event| if let StreamEvent::Plain(data) = event { Some(data) } else { None });
    let opened = data.enumerate().map(|(index, data)| format!("{}{data}", if index == 0 { "[" } else { ",\r\n" }));
    opened.chain(["]".into()]).map(String::into_bytes).collect()
}
