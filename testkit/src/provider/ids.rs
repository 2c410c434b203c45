//! Names for things, the same in every run.

/// Counts what the server has named.
#[derive(Debug, Default)]
pub(crate) struct Ids(u64);

impl Ids {
    /// A name of the kind that `prefix` tells.
    pub(crate) fn next(&mut self, prefix: &str) -> String {
        self.0 += 1;
        format!("{prefix}{:06}", self.0)
    }

    /// A signature: opaque, and the Base64 that providers write them in.
    pub(crate) fn signature(&mut self) -> String {
        base64(self.next("signature-").as_bytes())
    }
}

/// Standard Base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        for (bytes, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(bytes.as_bytes()), expected);
        }
    }
}
