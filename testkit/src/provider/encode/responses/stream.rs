//! The events of a response. Searches have none of their own: their items come whole.

use serde_json::{Value, json};

use crate::provider::{
    encode::TurnEncoder,
    events::{StreamEvent, pieces},
    script::Quirk,
};

/// All events, still without their numbers.
pub(in crate::provider::encode) fn events(speech: &TurnEncoder, output: &[Value]) -> Vec<StreamEvent> {
    let whole = super::whole(speech, output);
    let mut begun = whole.clone();
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    begun["incomplete_details"] = Value::Null;
    let mut events = vec![
        StreamEvent::typed(json!({"type": "response.created", "response": begun})),
        StreamEvent::typed(json!({"type": "response.in_progress", "response": begun})),
    ];
    for (index, item) in output.iter().enumerate() {
        let at =
            |kind: &str, item: &Value| StreamEvent::typed(json!({"type": kind, "output_index": index, "item": item}));
        events.push(at("response.output_item.added", &opened(item)));
        let place = Place { item, index, length: speech.sending.delta };
        if speech.has(Quirk::BareItems) {
            place.text_deltas(&mut events);
            continue;
        }
        match item["type"].as_str() {
            Some("message") => place.message(&mut events),
            Some("reasoning") => place.reasoning(&mut events),
            Some("function_call") => place.function_call(&mut events),
            _ => {}
        }
        events.push(at("response.output_item.done", item));
    }
    let status = whole["status"].as_str().unwrap_or_default();
    events.push(StreamEvent::typed(json!({"type": format!("response.{status}"), "response": whole})));
    events
}

/// An item as it begins.
fn opened(item: &Value) -> Value {
    let mut item = item.clone();
    match item["type"].as_str() {
        Some("message") => item["content"] = json!([]),
        Some("reasoning") => item["summary"] = json!([]),
        Some("function_call") => item["arguments"] = "".into(),
        Some("tool_search_call") => item["arguments"] = json!({}),
        Some("tool_search_output") => item["tools"] = json!([]),
        _ => {}
    }
    if item.get("status").is_some() {
        item["status"] = "in_progress".into();
    }
    item
}

/// An item among the others.
struct Place<'a> {
    item: &'a Value,
    index: usize,
    length: usize,
}

impl Place<'_> {
    /// An event of this item with the keys of `rest`.
    fn event(&self, kind: &str, rest: Value) -> StreamEvent {
        let mut data = json!({"type": kind, "item_id": self.item["id"], "output_index": self.index});
        if let (Some(data), Value::Object(rest)) = (data.as_object_mut(), rest) {
            data.extend(rest);
        }
        StreamEvent::typed(data)
    }

    fn message(&self, events: &mut Vec<StreamEvent>) {
        let part = &self.item["content"][0];
        let text = part["text"].as_str().unwrap_or_default();
        let mut empty = part.clone();
        empty["text"] = "".into();
        events.push(self.event("response.content_part.added", json!({"content_index": 0, "part": empty})));
        self.text_deltas(events);
        let done = json!({"content_index": 0, "text": text, "logprobs": []});
        events.push(self.event("response.output_text.done", done));
        events.push(self.event("response.content_part.done", json!({"content_index": 0, "part": part})));
    }

    /// The words of a message in pieces; other items have none.
    fn text_deltas(&self, events: &mut Vec<StreamEvent>) {
        for piece in pieces(self.item["content"][0]["text"].as_str().unwrap_or_default(), self.length) {
            let delta = json!({"content_index": 0, "delta": piece, "logprobs": []});
            events.push(self.event("response.output_text.delta", delta));
        }
    }

    fn reasoning(&self, events: &mut Vec<StreamEvent>) {
        let part = &self.item["summary"][0];
        let text = part["text"].as_str().unwrap_or_default();
        let empty = json!({"type": "summary_text", "text": ""});
        events.push(self.event("response.reasoning_summary_part.added", json!({"summary_index": 0, "part": empty})));
        for piece in pieces(text, self.length) {
            let delta = json!({"summary_index": 0, "delta": piece});
            events.push(self.event("response.reasoning_summary_text.delta", delta));
        }
        events.push(self.event("response.reasoning_summary_text.done", json!({"summary_index": 0, "text": text})));
        events.push(self.event("response.reasoning_summary_part.done", json!({"summary_index": 0, "part": part})));
    }

    fn function_call(&self, events: &mut Vec<StreamEvent>) {
        let arguments = self.item["arguments"].as_str().unwrap_or_default();
        for piece in pieces(arguments, self.length) {
            events.push(self.event("response.function_call_arguments.delta", json!({"delta": piece})));
        }
        let done = json!({"arguments": arguments, "name": self.item["name"]});
        events.push(self.event("response.function_call_arguments.done", done));
    }
}
