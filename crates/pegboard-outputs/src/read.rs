//! Ranges of characters, out of files that are not held in memory, and ranges of lines.

use std::io::{self, Read};

use pegboard_discovery::host::outputs::{line_cut, lines_cut, read_cut};

use super::{budget, error::ReadError};

/// Number of bytes that are read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// The characters from `start` to `end`, both counted from one and included, as far as
/// they are at most `tokens` tokens; where they are more, it is said where to go on.
pub(crate) fn range(file: impl Read, start: u64, end: Option<u64>, tokens: usize) -> Result<String, ReadError> {
    let most = u64::try_from(budget::bytes_of_answer(tokens)).unwrap_or(u64::MAX);
    let asked = end.unwrap_or(u64::MAX);
    // One more than requested, to know whether anything is left.
    let (text, length) = characters(file, start, asked.min(start.saturating_add(most)))?;
    if text.is_empty() {
        return Err(ReadError::OutOfRange { start, length });
    }
    let shown = &text[..budget::fit(&text, tokens)];
    if shown.len() == text.len() {
        return Ok(text);
    }
    let count = u64::try_from(shown.chars().count()).unwrap_or(0);
    let last = usize::try_from(start + count - 1).unwrap_or(usize::MAX);
    Ok(format!("{shown}{}", read_cut(last)))
}

/// The lines from `first` to `last`, both counted from one and included, as far as they are at most
/// `tokens` tokens; where they are more, it is said where to go on.
pub(crate) fn lines(text: &str, first: u64, last: Option<u64>, tokens: usize) -> Result<String, ReadError> {
    let from = line_start(text, first).filter(|from| *from < text.len() || first == 1);
    let from = from.ok_or_else(|| ReadError::BeyondLines { first, lines: text.lines().count() })?;
    let lines = last.map(|last| last.saturating_sub(first).saturating_add(2));
    let to = lines.and_then(|lines| line_start(&text[from..], lines)).map_or(text.len(), |next| from + next - 1);
    let wanted = &text[from..to];
    let shown = &wanted[..budget::fit(wanted, tokens)];
    if shown.len() == wanted.len() {
        return Ok(wanted.to_owned());
    }
    // Whole lines, if there is one.
    if let Some(end) = shown.rfind('\n') {
        let count = u64::try_from(shown[..end].matches('\n').count()).unwrap_or(0);
        return Ok(format!("{}{}", &shown[..end], lines_cut(first.saturating_add(count))));
    }
    let next = text[..from + shown.len()].chars().count() + 1;
    Ok(format!("{shown}{}", line_cut(first, next)))
}

/// Where the `number`th line begins, counted from one.
fn line_start(text: &str, number: u64) -> Option<usize> {
    let Some(before) = number.checked_sub(2) else { return Some(0) };
    let before = usize::try_from(before).ok()?;
    text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').nth(before).map(|(at, _)| at + 1)
}

/// The characters from `start` to `end`, and how many were counted on the way there.
fn characters(mut file: impl Read, start: u64, end: u64) -> Result<(String, u64), ReadError> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = Vec::new();
    let mut count = 0_u64;
    loop {
        let length = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ReadError::Io(error)),
        };
        let chunk = &chunk[..length];
        let in_chunk = count_characters(chunk);
        // The remaining bytes of a character that began in the previous chunk belong here too.
        if count + in_chunk >= start {
            let from = if count >= start { 0 } else { nth_character(chunk, start - count) };
            let to = if count + in_chunk > end { nth_character(chunk, end - count + 1) } else { length };
            bytes.extend_from_slice(&chunk[from..to]);
        }
        count += in_chunk;
        if count > end {
            break;
        }
    }
    let text = String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Ok((text, count))
}

/// Counts the characters that begin in `chunk`. Counts bytes first, which is vectorized.
fn count_characters(chunk: &[u8]) -> u64 {
    let few = |bytes: &[u8]| bytes.iter().map(|byte| u8::from(begins_character(*byte))).sum::<u8>();
    chunk.chunks(usize::from(u8::MAX)).map(|bytes| u64::from(few(bytes))).sum()
}

fn begins_character(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

/// Returns where the `number`th character of `chunk` begins, counted from one.
fn nth_character(chunk: &[u8], number: u64) -> usize {
    let skip = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    let mut begins = chunk.iter().enumerate().filter(|(_, byte)| begins_character(**byte));
    begins.nth(skip).map_or(chunk.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives a few bytes at a time, so that characters lie across chunks.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len()).min(buffer.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn a_range_beyond_the_end_says_how_long_the_file_is() {
        let check = |text: &str, start: u64, expected: &str| {
            let result = range(text.as_bytes(), start, None, 100).map_err(|error| error.to_string());
            assert_eq!(result, Err(expected.to_owned()));
        };
        check("äöü", 4, "start 4 exceeds file length 3");
        check("", 1, "start 1 exceeds file length 0");
        check("a", u64::MAX, "start 18446744073709551615 exceeds file length 1");
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_where_to_go_on() {
        let text = "word ".repeat(1000);
        let answer = range(text.as_bytes(), 11, Some(4000), 10).expect("an answer");
        assert_eq!(
            answer,
            "word word word word word word word word word word \n\n\
             [Truncated after character 60. Continue with start=61.]"
        );
        assert_eq!(range(text.as_bytes(), 11, Some(14), 10).expect("an answer"), "word");
        assert_eq!(range(text.as_bytes(), 4996, Some(9999), 10).expect("an answer"), "word ");
        // Cut where the text just ends: nothing is left, and nothing is said.
        assert_eq!(range(text.as_bytes(), 4951, None, 10).expect("an answer").len(), 50);
    }

    #[test]
    fn lines_are_counted_from_one() {
        let check = |first: u64, last: Option<u64>, expected: Result<&str, &str>| {
            let found = lines("one\n\nthree\nfour\n", first, last, 100).map_err(|error| error.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{first} {last:?}");
        };
        check(1, Some(1), Ok("one"));
        check(1, Some(3), Ok("one\n\nthree"));
        check(2, Some(2), Ok(""));
        check(3, Some(99), Ok("three\nfour\n"));
        check(4, None, Ok("four\n"));
        check(5, None, Err("first_line 5 exceeds the number of lines 4"));
        check(u64::MAX, Some(u64::MAX), Err("first_line 18446744073709551615 exceeds the number of lines 4"));
        assert_eq!(lines("", 1, Some(3), 100).expect("an answer"), "");
    }

    #[test]
    fn lines_that_are_too_long_say_where_to_go_on() {
        let text = "word word\n".repeat(100);
        let found = lines(&text, 3, None, 5).expect("an answer");
        assert_eq!(found, "word word\n\n[Truncated after line 3. Continue with first_line=4.]");
        let text = format!("first\n{}", "word ".repeat(100));
        let found = lines(&text, 2, None, 2).expect("an answer");
        assert_eq!(found, "word word \n\n[Truncated within line 2. Continue with start=17.]");
        assert_eq!(range(text.as_bytes(), 17, Some(20), 100).expect("an answer"), "word");
    }

    proptest! {
        #[test]
        fn ranges_are_those_of_the_characters(
            text in "\\PC{0,60}", start in 1_u64..70, length in 0_u64..70, step in 1_usize..7,
        ) {
            let end = start + length;
            let result = range(Slowly(text.as_bytes(), step), start, Some(end), 10_000);
            let expected: String =
                text.chars().skip(start as usize - 1).take(length as usize + 1).collect();
            match result {
                Ok(answer) => prop_assert_eq!(answer, expected),
                Err(error) => {
                    prop_assert!(expected.is_empty());
                    let count = text.chars().count();
                    prop_assert_eq!(error.to_string(), format!("start {start} exceeds file length {count}"));
                }
            }
        }

        #[test]
        fn reading_on_gives_the_whole(text in "[a-dä𝄞 \n]{1,200}", tokens in 1_usize..12) {
            let mut whole = String::new();
            let mut start = 1;
            loop {
                let answer = range(text.as_bytes(), start, None, tokens).expect("an answer");
                let Some((shown, note)) = answer.split_once("\n\n[Truncated after character ") else {
                    whole.push_str(&answer);
                    break;
                };
                whole.push_str(shown);
                let next: u64 = note.split('.').next().and_then(|last| last.parse().ok()).expect("a number");
                prop_assert!(next >= start);
                start = next + 1;
            }
            prop_assert_eq!(whole, text);
        }
    }
}
