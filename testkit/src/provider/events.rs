//! Server-sent events, framed as each provider frames them.

use serde_json::{Value, json};

use super::{
    route::{Vendor, Wire},
    script::{Noise, Sending},
};

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamEvent {
    /// With a name.
    Named(String, Value),
    /// Data alone.
    Plain(Value),
    /// The end of a stream of Chat Completions.
    Done,
    /// A line that means nothing.
    Comment,
}

impl StreamEvent {
    /// An event that is named like the `type` in its data.
    pub(crate) fn typed(data: Value) -> StreamEvent {
        StreamEvent::Named(data["type"].as_str().unwrap_or_default().into(), data)
    }

    /// The bytes on the wire.
    pub(crate) fn frame(&self, vendor: Vendor) -> Vec<u8> {
        match self {
            StreamEvent::Named(name, data) => format!("event: {name}\ndata: {}\n\n", spaced(vendor, data)),
            StreamEvent::Plain(data) if vendor == Vendor::Google => format!("data: {data}\r\n\r\n"),
            StreamEvent::Plain(data) => format!("data: {data}\n\n"),
            StreamEvent::Done => "data: [DONE]\n\n".into(),
            StreamEvent::Comment => ": keep-alive\n\n".into(),
        }
        .into_bytes()
    }
}

/// Anthropic pads its JSON with spaces in front of the last brace, more or fewer each time.
fn spaced(vendor: Vendor, data: &Value) -> String {
    let mut text = data.to_string();
    if vendor == Vendor::Anthropic && text.pop().is_some() {
        text.extend(std::iter::repeat_n(' ', text.len() % 13));
        text.push('}');
    }
    text
}

/// Puts what a client must step over between the events, the first and last of which stay what they are.
pub(crate) fn with_noise(wire: Wire, sending: &Sending, events: Vec<StreamEvent>) -> Vec<StreamEvent> {
    let last = events.len().saturating_sub(1);
    let between = |noise: &Noise| match noise {
        Noise::Ping => ping(wire),
        Noise::Comment => Some(StreamEvent::Comment),
        Noise::Event => Some(unknown(wire)),
        Noise::Block => None,
    };
    let mut all = Vec::new();
    for (index, event) in events.into_iter().enumerate() {
        all.push(event);
        if index < last {
            all.extend(sending.noise.iter().filter_map(between));
        }
    }
    all
}

/// A sign of life, where the provider gives any.
pub(crate) fn ping(wire: Wire) -> Option<StreamEvent> {
    match wire {
        Wire::Messages => Some(StreamEvent::typed(json!({"type": "ping"}))),
        Wire::Responses => Some(StreamEvent::typed(json!({"type": "keepalive"}))),
        Wire::Chat => Some(StreamEvent::Comment),
        Wire::Gemini => None,
    }
}

fn unknown(wire: Wire) -> StreamEvent {
    match wire {
        Wire::Messages => StreamEvent::typed(json!({"type": "future_event", "index": 0, "delta": {"type": "future"}})),
        Wire::Responses => StreamEvent::typed(json!({"type": "response.future.delta", "delta": "?"})),
        Wire::Chat => StreamEvent::Plain(json!({"object": "chat.completion.future", "choices": [], "future": {}})),
        Wire::Gemini => StreamEvent::Plain(json!({"futureField": {"candidates": 1}})),
    }
}

/// `text` in pieces of `length` characters; an empty text has none.
pub(crate) fn pieces(text: &str, length: usize) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(length.max(1)).map(|piece| piece.iter().collect()).collect()
}
