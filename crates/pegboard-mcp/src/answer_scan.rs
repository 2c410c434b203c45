//! Finding out whose answer a message is that is too large to be kept.

/// Reads a JSON object byte by byte, and of it only whether it answers a request, and which.
#[derive(Clone, Debug, Default)]
pub(crate) struct Skimmer {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The beginning of the last string on the first level.
    text: Vec<u8>,
    /// Whether what follows is the number of the request.
    is_id: bool,
    digits: Vec<u8>,
    is_request: bool,
}

/// Bytes of a key that tell it from others.
const KEY: usize = 8;

/// Digits of a number.
const DIGITS: usize = 20;

impl Skimmer {
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
                byte if self.depth == 1 && self.text.len() < KEY => self.text.push(byte),
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
            b'0'..=b'9' if self.depth == 1 && self.is_id && self.digits.len() < DIGITS => self.digits.push(byte),
            _ => {}
        }
    }

    /// The number of the request that is answered.
    pub(crate) fn answered(&self) -> Option<u64> {
        std::str::from_utf8(&self.digits).ok().filter(|_| !self.is_request)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_answer_it_is() {
        let check = |text: &str, expected| {
            let mut skimmer = Skimmer::default();
            text.as_bytes().chunks(3).for_each(|piece| skimmer.push(piece));
            assert_eq!(skimmer.answered(), expected, "{text}");
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
