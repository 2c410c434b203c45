//! What model providers answer: streams of events and whole documents, on every wire, and the
//! conversation that goes on with them.
//!
//! The first byte says which wire, and whether the rest is a stream.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pegboard_core::{Catalog, RawTool, Selection};
use pegboard_discovery::{DialectName, Session, Settings};
use pegboard_engine::Keyword;
use pegboard_fuzz::choice;
use pegboard_llm::{Called, Conversation, Model, fuzzing::collect, wire::{CallResult, ToolCall, Turn, Wire}};
use pegboard_mcp::sse::SseReader;
use serde_json::Value;

/// A model of each wire.
const MODELS: [&str; 6] = [
    "anthropic/claude-opus-4-8",
    "openai/gpt-5.4",
    "openai-responses/gpt-5.4",
    "gemini/gemini-3-pro",
    "anthropic/claude-fable-5-1",
    "minimax-chat/MiniMax-M3",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = choice(bytes) else { return };
    let model = Model::parse(MODELS[usize::from(kind) % MODELS.len()]).expect("a model");
    let wire = model.provider.wire();
    // Like the client: an answer that is not JSON is none.
    let answer = if kind >= 128 { serde_json::from_slice(bytes).ok() } else { streamed(wire, bytes) };
    let Some(turn) = answer.and_then(|answer| wire.read_turn(&answer).ok()) else { return };
    check_conversation(model, &turn);
});

/// The answer that a stream makes, if it makes one.
fn streamed(wire: Wire, bytes: &[u8]) -> Option<Value> {
    let events = SseReader::new(1 << 20).push(bytes).ok()?;
    let events = events.into_iter().filter(|event| !event.data.is_empty() && event.data != "[DONE]");
    let event = |event: pegboard_mcp::sse::SseEvent| {
        let data: Value = serde_json::from_str(&event.data).ok()?;
        let kind = data.get("type").and_then(Value::as_str).unwrap_or(&event.kind).to_owned();
        Some((kind, data))
    };
    let events: Vec<(String, Value)> = events.map(event).collect::<Option<_>>()?;
    let answer = collect(wire, &events);
    assert_eq!(answer, collect(wire, &events), "the same events are the same answer");
    Some(answer.ok()?.0)
}

/// Whatever a model says, it can be answered and asked again.
fn check_conversation(model: Model, turn: &Turn) {
    let tool = |name: &str| RawTool { name: name.into(), server: Some("s".into()), ..RawTool::default() };
    let (catalog, _) = Catalog::from_tools(vec![tool("get_weather"), tool("send_mail")]);
    let ranker = Arc::new(Keyword::default());
    let session =
        Session::expecting(DialectName::Explicit, Settings::default(), catalog, Selection::everything(), ranker);
    let mut conversation = Conversation::expecting(model, session, None).expect("a conversation");
    conversation.say("What is the weather?");
    conversation.request(true).expect("a first request");
    conversation.record_turn(turn);
    let mut results = Vec::new();
    for call in &turn.calls {
        results.push(answered(&mut conversation, call));
    }
    conversation.add_results(&results);
    conversation.say("And tomorrow?");
    let wire = conversation.wire();
    let request = conversation.request(false).expect("a request after any turn");
    let body = wire.body(&request);
    assert_eq!(serde_json::from_str::<Value>(&body.to_string()).ok(), Some(body), "a body is JSON");
    let again = conversation.request(false).expect("the same request");
    assert_eq!(again.messages, request.messages, "asking once more changes nothing");
    let history = conversation.marked_history();
    conversation.resume(history);
    conversation.request(true).expect("a request after a history was taken up");
}

fn answered(conversation: &mut Conversation, call: &ToolCall) -> CallResult {
    let result = |text: &str, is_error| CallResult { is_error, ..CallResult::text(call.clone(), text) };
    if call.arguments.is_null() {
        return result("cut off; nothing was called", true);
    }
    match conversation.call(call) {
        Called::Answered(result) => result,
        Called::Invoke(_) => result("sunny", false),
    }
}
