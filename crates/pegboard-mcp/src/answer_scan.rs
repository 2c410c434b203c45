//! A scanner for the request that an oversized message answers.

/// Scans a JSON object byte by byte for the number of the request that it answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerScanner {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The first bytes of the last string on the top level.
    text: Vec<u8>,
    /// Whether the number of the request follows.
    is_id: bool,
    digits: Vec<u8>,
    is_request: bool,
}

/// Number of bytes of a key that are compared.
const KEY_BYTES: usize = 8;

/// Maximum number of digits of a number.
const MAX_DIGITS: usize = 20;

impl AnswerScanner {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                byte if self.depth == 1 && self.text.len() < KEY_BYTES => self.text.push(byte),
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.text.clear();
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 => {
                self.is_id = self.text == b"id";
                self.is_request |= self.text == b"method";
            }
            b',' if self.depth == 1 => self.is_id = false,
            b'0'..=b'9' if self.depth == 1 && self.is_id && self.digits.len() < MAX_DIGITS => self.digits.push(byte),
            _ => {}
        }
    }

    /// Returns the number of the request that the message answers.
    pub(crate) fn answered_request(&self) -> Option<u64> {
        std::str::from_utf8(&self.digits).ok().filter(|_| !self.is_request)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_answer_it_is() {
        let check = |text: &str, expected| {
            let mut scanner = AnswerScanner::default();
            text.as_bytes().chunks(3).for_each(|piece| scanner.push(piece));
            assert_eq!(scanner.answered_request(), expected, "{text}");
        };
        check(r#"{"jsonrpc":"2.0","id":17,"result":{"id":3,"a":"\"id\":4,"}}"#, Some(17));
        check(r#"{"result":{"content":[{"id":3}]}, "jsonrpc":"2.0", "id" : 18 }"#, Some(18));
        check(r#"{"result":{"text":"}\\"},"id":5}"#, Some(5));
        check(r#"{"method":"x","id":5,"params":{}}"#, None);
        check(r#"{"id":"text","result":{}}"#, None);
        check(r#"{"result":{"id":5}}"#, None);
        check(r#"[{"id":5,"result":{}}]"#, None);
        check("", None);
    }
}
