//! Server-sent events, whatever the pieces in which they arrive.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pegboard_fuzz::{choice, pieces};
use pegboard_mcp::{sse::{SseEvent, SseReader}, rpc::Message};

fuzz_target!(|bytes: &[u8]| {
    let Some((limit, bytes)) = choice(bytes) else { return };
    let Some((seed, bytes)) = choice(bytes) else { return };
    let limit = usize::from(limit) * usize::from(limit);
    let whole = read(limit, &[bytes]);
    let torn = read(limit, &pieces(seed, bytes));
    let single = read(limit, &pieces(1, bytes));
    assert_eq!(whole.is_some(), torn.is_some(), "what is too large is so in any pieces");
    assert_eq!(whole, torn, "events do not depend on the pieces");
    assert_eq!(whole, single, "events do not depend on the pieces");
    let Some(events) = whole else { return };
    for event in &events {
        let largest = event.data.len().max(event.kind.len()).max(event.id.as_ref().map_or(0, String::len));
        // A byte that is no text becomes a character of three.
        assert!(largest <= 3 * limit.max("message".len()), "an event is within its bounds");
        let _ = Message::parse_all(&event.data);
    }
    assert_eq!(events, expected(bytes), "events are what the standard says");
});

fn read(limit: usize, pieces: &[&[u8]]) -> Option<Vec<SseEvent>> {
    let mut reader = SseReader::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(reader.push(piece).ok()?);
    }
    Some(events)
}

/// The events of a stream as the HTML standard reads them, in the plainest way. An event
/// without data counts if it says where to go on, or how soon.
fn expected(bytes: &[u8]) -> Vec<SseEvent> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    // What comes behind the last line break is not there yet.
    let lines: Vec<&str> = text.split('\n').collect();
    let mut events = Vec::new();
    let (mut event, mut data): (SseEvent, Vec<&str>) = (SseEvent::default(), Vec::new());
    for line in &lines[..lines.len() - 1] {
        if line.is_empty() {
            let is_one = !data.is_empty() || event.id.is_some() || event.retry.is_some();
            event.data = std::mem::take(&mut data).join("\n");
            if event.kind.is_empty() {
                event.kind = "message".to_owned();
            }
            events.extend(is_one.then(|| std::mem::take(&mut event)));
            event = SseEvent::default();
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => data.push(value),
            "event" => event.kind = value.to_owned(),
            "id" if !value.contains('\0') => event.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                event.retry = value.parse().ok().or(event.retry);
            }
            _ => {}
        }
    }
    events
}
