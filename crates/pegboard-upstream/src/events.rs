//! Server-sent events, read piece by piece.
//!
//! Written here because the size of an event must be bounded while it arrives; the crates
//! for it collect an event whole first.

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its type; `message` if it does not say.
    pub kind: String,
    /// Its data lines, joined.
    pub data: String,
    /// Where to go on after it.
    pub id: Option<String>,
    /// How long to wait before asking again, in milliseconds.
    pub retry: Option<u64>,
}

/// Too much data without an end of event.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {limit} bytes")]
pub struct EventTooLarge {
    limit: usize,
}

/// Turns pieces of a stream into events.
#[derive(Debug)]
pub struct EventReader {
    buffer: Vec<u8>,
    /// How much of the buffer is known to hold no line break.
    searched: usize,
    event: Event,
    has_data: bool,
    limit: usize,
}

impl EventReader {
    /// A reader of events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), searched: 0, event: Event::default(), has_data: false, limit }
    }

    /// Takes in `bytes`; the events that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, EventTooLarge> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut start = 0;
        while let Some(length) = self.buffer[start + self.searched..].iter().position(|byte| *byte == b'\n') {
            let end = start + self.searched + length;
            let line = String::from_utf8_lossy(&self.buffer[start..end]).into_owned();
            self.line(line.trim_end_matches('\r'), &mut events);
            start = end + 1;
            self.searched = 0;
        }
        self.buffer.drain(..start);
        self.searched = self.buffer.len();
        if self.buffer.len() + self.event.data.len() > self.limit {
            return Err(EventTooLarge { limit: self.limit });
        }
        Ok(events)
    }

    fn line(&mut self, line: &str, events: &mut Vec<Event>) {
        if line.is_empty() {
            let mut event = std::mem::take(&mut self.event);
            // An event without data still says where to go on and how soon.
            if std::mem::take(&mut self.has_data) || event.id.is_some() || event.retry.is_some() {
                if event.kind.is_empty() {
                    event.kind.push_str("message");
                }
                events.push(event);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.event.kind),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry = value.parse().ok(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let events = EventReader::new(1000).push(text.as_bytes()).expect("small");
        events.into_iter().map(|event| (event.kind, event.data)).collect()
    }

    #[test]
    fn events_of_all_forms() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let expected: Vec<(String, String)> =
                expected.iter().map(|(kind, data)| (kind.to_string(), data.to_string())).collect();
            assert_eq!(read(text), expected, "{text}");
        };
        check("data: a\n\n", &[("message", "a")]);
        check("event: endpoint\r\ndata: /x\r\n\r\n", &[("endpoint", "/x")]);
        check("data: a\ndata: b\n\n: comment\n\n", &[("message", "a\nb")]);
        check("id: 7\nretry: 500\ndata:\n\n", &[("message", "")]);
        check("data: half\n", &[]);
    }

    #[test]
    fn endless_events_are_refused() {
        let mut reader = EventReader::new(10);
        assert_eq!(reader.push(&[b'x'; 11]), Err(EventTooLarge { limit: 10 }));
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_events(text in "(data: [a-z]{0,5}\n|event: e\n|\n|:c\n){0,12}", at in 0usize..60) {
            let at = at.min(text.len());
            let mut reader = EventReader::new(1000);
            let mut events = reader.push(&text.as_bytes()[..at]).expect("small");
            events.extend(reader.push(&text.as_bytes()[at..]).expect("small"));
            let whole = EventReader::new(1000).push(text.as_bytes()).expect("small");
            prop_assert_eq!(events, whole);
        }
    }
}
