//! Server-sent events that can be passed on byte for byte.

/// One event as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// All of its bytes, with the blank line at its end.
    pub(crate) raw: Vec<u8>,
    /// The name of the event; empty if it has none.
    pub(crate) kind: String,
    /// The data lines, joined by line breaks; `None` for a comment.
    pub(crate) data: Option<String>,
}

impl Frame {
    fn new(raw: Vec<u8>) -> Self {
        let (mut kind, mut data) = (String::new(), None::<String>);
        let text = String::from_utf8_lossy(&raw);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        for line in text.split(['\n', '\r']).filter(|line| !line.is_empty()) {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match (field, &mut data) {
                ("event", _) => value.clone_into(&mut kind),
                ("data", Some(data)) => {
                    data.push('\n');
                    data.push_str(value);
                }
                ("data", data) => *data = Some(value.to_owned()),
                _ => {}
            }
        }
        Self { kind, data, raw }
    }
}

/// Appends an event.
pub(crate) fn write(kind: Option<&str>, data: &str, out: &mut Vec<u8>) {
    if let Some(kind) = kind {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data.as_bytes());
    out.extend_from_slice(b"\n\n");
}

/// An event is larger than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameTooLarge;

/// Splits a stream into events.
#[derive(Debug)]
pub(crate) struct FrameReader {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were searched already.
    searched: usize,
    /// Whether the byte before the searched ones ended a line.
    is_line_start: bool,
    /// Whether that byte was a carriage return, which a line feed may follow.
    is_returned: bool,
    limit: usize,
}

impl FrameReader {
    /// Creates a reader of events of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), searched: 0, is_line_start: true, is_returned: false, limit }
    }

    /// Adds bytes and returns the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, FrameTooLarge> {
        self.buffer.extend_from_slice(bytes);
        let mut frames = Vec::new();
        let mut start = 0;
        while self.searched < self.buffer.len() {
            let byte = self.buffer[self.searched];
            self.searched += 1;
            match byte {
                // The second half of a line end.
                b'\n' if std::mem::take(&mut self.is_returned) => {
                    if self.searched - 1 == start {
                        // It belongs to the event before, which is complete already.
                        start = self.searched;
                    }
                }
                b'\n' | b'\r' => {
                    self.is_returned = byte == b'\r';
                    if std::mem::replace(&mut self.is_line_start, true) {
                        let mut raw = self.buffer[start..self.searched].to_vec();
                        if raw.ends_with(b"\r\n\r") {
                            // The event does not wait for the second half of its last line end.
                            raw.push(b'\n');
                        }
                        start = self.searched;
                        frames.push(Frame::new(raw));
                    }
                }
                _ => (self.is_line_start, self.is_returned) = (false, false),
            }
        }
        self.buffer.drain(..start);
        self.searched -= start;
        if self.buffer.len() > self.limit {
            return Err(FrameTooLarge);
        }
        if self.buffer.is_empty() && self.buffer.capacity() > 16 << 10 {
            self.buffer = Vec::new();
        }
        // Blank lines alone are not worth an event.
        frames.retain(|frame| frame.raw.iter().any(|byte| !matches!(byte, b'\n' | b'\r')));
        Ok(frames)
    }

    /// Returns what has arrived after the last complete event.
    pub(crate) fn rest(&mut self) -> Option<Frame> {
        let rest = std::mem::take(&mut self.buffer);
        self.searched = 0;
        rest.iter().any(|byte| !byte.is_ascii_whitespace()).then(|| Frame::new(rest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(chunks: &[&[u8]]) -> Vec<(String, Option<String>)> {
        let mut reader = FrameReader::new(1000);
        let mut frames: Vec<Frame> = chunks.iter().flat_map(|chunk| reader.push(chunk).expect("small")).collect();
        frames.extend(reader.rest());
        frames.into_iter().map(|frame| (frame.kind, frame.data)).collect()
    }

    #[test]
    fn events_of_all_forms() {
        let check = |text: &str, expected: &[(&str, Option<&str>)]| {
            let expected: Vec<(String, Option<String>)> =
                expected.iter().map(|(kind, data)| (kind.to_string(), data.map(str::to_owned))).collect();
            assert_eq!(read(&[text.as_bytes()]), expected, "{text:?}");
        };
        check("data: a\n\n", &[("", Some("a"))]);
        check("event: ping\r\ndata:{}\r\n\r\ndata: b\r\n\r\n", &[("ping", Some("{}")), ("", Some("b"))]);
        check("data: a\r\rdata: b\r\r", &[("", Some("a")), ("", Some("b"))]);
        check(": comment\n\ndata: a\ndata: b\n\n", &[("", None), ("", Some("a\nb"))]);
        check("\n\n\ndata: a\n\n\n", &[("", Some("a"))]);
        check("data: half", &[("", Some("half"))]);
    }

    #[test]
    fn events_keep_their_bytes() {
        let check = |text: &str| {
            let frames = FrameReader::new(1000).push(text.as_bytes()).expect("small");
            let raw: Vec<u8> = frames.into_iter().flat_map(|frame| frame.raw).collect();
            assert_eq!(String::from_utf8(raw).expect("text"), text);
        };
        check("event: a\ndata: 1\n\ndata: 2\n\n");
        check("data: 1\r\n\r\ndata: 2\r\n\r\n");
        check("data: 1\r\rdata: 2\r\r");
        check(": comment\n\ndata: 1\n\n");
    }

    #[test]
    fn events_are_bounded() {
        let mut reader = FrameReader::new(8);
        assert_eq!(reader.push(b"data: 123456789"), Err(FrameTooLarge));
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(text in "(data: [a-z]{0,3}|event: [a-z]|: c|\r\n|\n|\r|\r\n\r\n|\n\n){0,20}", cuts in prop::collection::vec(0_usize..200, 0..8)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut start = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                chunks.push(&bytes[start..cut]);
                start = cut;
            }
            prop_assert_eq!(read(&chunks), read(&[bytes]));
        }
    }
}
