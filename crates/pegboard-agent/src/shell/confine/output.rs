//! Keeps the start and the end of a stream of any length.

use std::collections::VecDeque;

/// The beginning and the end of a stream.
#[derive(Debug)]
pub(super) struct HeadAndTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Maximum size of each of both.
    half: usize,
    dropped: u64,
}

impl HeadAndTail {
    pub(super) fn new(limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: limit / 2, dropped: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (begin, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(begin);
        let skipped = rest.len().saturating_sub(self.half);
        self.tail.extend(&rest[skipped..]);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
        self.dropped += (skipped + over) as u64;
    }

    /// Returns the text: invalid UTF-8 is replaced, and control characters are removed.
    pub(super) fn into_text(self) -> String {
        let Self { mut head, mut tail, mut dropped, .. } = self;
        if dropped == 0 {
            head.extend(tail);
            return plain(&head);
        }
        // A character that was cut in two is left out.
        let whole = head.len() - cut_at_end(&head);
        dropped += (head.len() - whole) as u64;
        head.truncate(whole);
        let cut = tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
        tail.drain(..cut);
        dropped += cut as u64;
        format!("{}\n[… {dropped} bytes omitted …]\n{}", plain(&head), plain(tail.make_contiguous()))
    }
}

fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|character| !character.is_control() || matches!(character, '\n' | '\t')).collect()
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Returns how many bytes at the end begin an incomplete character.
fn cut_at_end(bytes: &[u8]) -> usize {
    let behind = bytes.iter().rev().take(3).take_while(|byte| is_continuation(**byte)).count();
    let first = bytes.iter().rev().nth(behind).copied().unwrap_or_default();
    let length = match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    if length > behind + 1 { behind + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(limit: usize, bytes: &[u8], expected: &str) {
        // However it arrives.
        for size in [1, 3, bytes.len().max(1)] {
            let mut kept = HeadAndTail::new(limit);
            bytes.chunks(size).for_each(|chunk| kept.push(chunk));
            assert_eq!(kept.into_text(), expected);
        }
    }

    #[test]
    fn keeps_the_ends_of_what_is_too_long() {
        check(8, b"", "");
        check(8, b"12345678", "12345678");
        check(8, b"123456789", "1234\n[… 1 bytes omitted …]\n6789");
        check(0, b"123", "\n[… 3 bytes omitted …]\n");
    }

    #[test]
    fn characters_are_not_cut_in_two() {
        check(8, "ab\u{20ac}cdefg\u{20ac}h".as_bytes(), "ab\n[… 8 bytes omitted …]\n\u{20ac}h");
        check(8, "abc\u{e9}".as_bytes(), "abc\u{e9}");
        check(8, "1234567\u{20ac}".as_bytes(), "1234\n[… 2 bytes omitted …]\n7\u{20ac}");
    }

    #[test]
    fn nothing_speaks_to_a_terminal() {
        check(99, b"a\x1b[31mred\x1b]0;title\x07\r\n\tb\x00\x7f\xc2\x9b5n", "a[31mred]0;title\n\tb5n");
        check(99, b"\xff\xfeok\xe2\x82", "\u{fffd}\u{fffd}ok\u{fffd}");
    }

    proptest! {
        #[test]
        fn bounded_and_plain(limit in 0_usize..64, chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
            let mut kept = HeadAndTail::new(limit);
            chunks.iter().for_each(|chunk| kept.push(chunk));
            let text = kept.into_text();
            prop_assert!(text.len() <= 3 * limit + 64);
            prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        }

        #[test]
        fn short_text_is_left_alone(text in "[a-z\u{e0}-\u{ff}\n\t]{0,30}") {
            let mut kept = HeadAndTail::new(2 * text.len() + 2);
            kept.push(text.as_bytes());
            prop_assert_eq!(kept.into_text(), text);
        }
    }
}
