//! An incremental parser of server-sent events (SSE).
//!
//! Written here because the size of an event must be bounded while it arrives; existing crates
//! first collect the whole event.

/// A server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The type of the event; `message` by default.
    pub kind: String,
    /// The data lines, joined by line breaks.
    pub data: String,
    /// The id for resuming the stream after this event.
    pub id: Option<String>,
    /// The delay before reconnecting, in milliseconds.
    pub retry: Option<u64>,
}

/// The error of an event that exceeds the size limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event exceeds the limit of {limit} bytes")]
pub struct SseEventTooLarge {
    limit: usize,
}

/// Parses the chunks of a stream into events.
#[derive(Debug)]
pub struct SseReader {
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that are known to have no line break.
    searched: usize,
    /// Whether the last line ended with a carriage return, which a line feed may follow.
    is_returned: bool,
    has_begun: bool,
    event: SseEvent,
    has_data: bool,
    limit: usize,
}

impl SseReader {
    /// Creates a reader of events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            searched: 0,
            is_returned: false,
            has_begun: false,
            event: SseEvent::default(),
            has_data: false,
            limit,
        }
    }

    /// Adds `bytes` and returns the events that they complete.
    ///
    /// # Errors
    /// When an event is too large. The reader cannot be used after that.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, SseEventTooLarge> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut start = 0;
        loop {
            if start < buffer.len() && std::mem::take(&mut self.is_returned) && buffer[start] == b'\n' {
                start += 1;
            }
            let rest = &buffer[start..];
            let Some(length) = rest[self.searched..].iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                break;
            };
            let (line, end) = rest.split_at(self.searched + length);
            self.check_size(line)?;
            self.is_returned = end.starts_with(b"\r");
            start += line.len() + 1;
            self.searched = 0;
            self.line(&String::from_utf8_lossy(line), &mut events);
        }
        buffer.drain(..start);
        self.check_size(&buffer)?;
        self.searched = buffer.len();
        self.buffer = buffer;
        Ok(events)
    }

    fn check_size(&self, line: &[u8]) -> Result<(), SseEventTooLarge> {
        let is_too_large = line.len() + self.event.data.len() > self.limit;
        if is_too_large { Err(SseEventTooLarge { limit: self.limit }) } else { Ok(()) }
    }

    fn line(&mut self, line: &str, events: &mut Vec<SseEvent>) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let line = line.strip_prefix('\u{feff}').filter(|_| is_first).unwrap_or(line);
        if line.is_empty() {
            let mut event = std::mem::take(&mut self.event);
            // An event without data can still have an id and a delay.
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
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.event.retry = value.parse().ok().or(self.event.retry);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let events = SseReader::new(1000).push(text.as_bytes()).expect("small");
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
        check("data: a\rdata: b\r\r\ndata: c\n\r", &[("message", "a\nb"), ("message", "c")]);
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[("message", "a")]);
    }

    #[test]
    fn pauses_are_numbers() {
        let read = |text: &str| SseReader::new(1000).push(text.as_bytes()).expect("small").pop();
        let retry = |text: &str| read(text).and_then(|event| event.retry);
        assert_eq!(retry("retry: 500\n\n"), Some(500));
        assert_eq!(retry("retry: 500\nretry: soon\nretry:\nretry: 99999999999999999999\n\n"), Some(500));
        assert_eq!(retry("retry: +5\ndata: x\n\n"), None);
    }

    #[test]
    fn endless_events_are_refused() {
        let mut reader = SseReader::new(10);
        assert_eq!(reader.push(&[b'x'; 11]), Err(SseEventTooLarge { limit: 10 }));
    }

    #[test]
    fn large_events_are_refused_in_any_pieces() {
        let text = "data: 123\ndata: 456\ndata: 789\n\n";
        let whole = |limit| SseReader::new(limit).push(text.as_bytes()).is_ok();
        let torn = |limit| {
            let mut reader = SseReader::new(limit);
            text.bytes().all(|byte| reader.push(&[byte]).is_ok())
        };
        let fitting: Vec<usize> = (0..40).filter(|limit| whole(*limit)).collect();
        assert_eq!(fitting.first(), Some(&16), "a line beside the data before it");
        assert_eq!(fitting, (0..40).filter(|limit| torn(*limit)).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_events(text in "(data: [a-z]{0,5}|event: e|:c|\n|\r|\r\n){0,24}", at in 0usize..60) {
            let at = at.min(text.len());
            let mut reader = SseReader::new(1000);
            let mut events = reader.push(&text.as_bytes()[..at]).expect("small");
            events.extend(reader.push(&text.as_bytes()[at..]).expect("small"));
            let whole = SseReader::new(1000).push(text.as_bytes()).expect("small");
            prop_assert_eq!(events, whole);
        }
    }
}
