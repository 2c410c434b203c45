//! Token budgets of texts, computed without reading more of a text than necessary.

use pegboard_discovery::estimate_tokens;

/// Upper bound of the bytes of a token in any tokenizer, even in a long run of spaces.
const MAX_BYTES_OF_TOKEN: usize = 128;

/// Maximum number of bytes per token in a text that is read at once; more is cut.
const MAX_BYTES_READ_FOR_TOKEN: usize = 16;

/// Number of bytes of a long text whose tokens are counted; the rest is extrapolated.
const SAMPLE_BYTES: usize = 1 << 20;

/// Returns whether `text` is more than `tokens` tokens (estimated). Reads no more of it than is needed to say so.
pub fn exceeds(text: &str, tokens: usize) -> bool {
    if text.len() <= tokens {
        return false;
    }
    if text.len() > tokens.saturating_mul(MAX_BYTES_OF_TOKEN) {
        return true;
    }
    // An estimate never decreases as a text grows, so a prefix is enough to return true.
    let mut length = tokens.saturating_mul(4).max(64);
    loop {
        let end = text.floor_char_boundary(length);
        if estimate_tokens(&text[..end]) > tokens {
            return true;
        }
        if end == text.len() {
            return false;
        }
        length = length.saturating_mul(2);
    }
}

/// Returns about how many tokens `text` is.
pub fn estimate(text: &str) -> usize {
    let sample = text.floor_char_boundary(SAMPLE_BYTES);
    let tokens = estimate_tokens(&text[..sample]);
    if sample == text.len() {
        return tokens;
    }
    (tokens as f64 * (text.len() as f64 / sample as f64)).round() as usize
}

/// Returns how many tokens an answer may have where outputs of more than `threshold` tokens are kept aside: less than
/// that, with room for a note.
pub fn answer_tokens(threshold: usize) -> usize {
    threshold - threshold / 10
}

/// How many bytes are worth collecting for an answer of so many tokens.
pub(crate) fn bytes_of_answer(tokens: usize) -> usize {
    tokens.saturating_mul(MAX_BYTES_READ_FOR_TOKEN).max(MAX_BYTES_READ_FOR_TOKEN)
}

/// Returns how many bytes of the beginning of `text` are at most `tokens` tokens: at least one
/// character, so that reading on from there ends.
pub(crate) fn fit(text: &str, tokens: usize) -> usize {
    let text = &text[..text.floor_char_boundary(bytes_of_answer(tokens))];
    if estimate_tokens(text) <= tokens {
        return text.len();
    }
    let (mut fits, mut exceeds) = (0, text.len());
    while exceeds - fits > 1 {
        let middle = fits + (exceeds - fits) / 2;
        if estimate_tokens(&text[..text.floor_char_boundary(middle)]) <= tokens {
            fits = middle;
        } else {
            exceeds = middle;
        }
    }
    let first = text.chars().next().map_or(0, char::len_utf8);
    text.floor_char_boundary(fits).max(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_strictly_more_is_large() {
        let words = |count: usize| vec!["word"; count].join(" ");
        assert_eq!(estimate_tokens(&words(1000)), 1000);
        assert!(!exceeds(&words(1000), 1000));
        assert!(exceeds(&words(1001), 1000));
        assert!(!exceeds(&words(100_000), 100_000));
    }

    #[test]
    fn a_huge_run_of_spaces_is_large_whatever_the_estimate_says() {
        let spaces = " ".repeat(128_001);
        assert_eq!(estimate_tokens(&spaces), 1);
        assert!(exceeds(&spaces, 1000));
        assert!(!exceeds(&spaces[1..], 1000));
    }

    #[test]
    fn a_sample_stands_for_the_rest() {
        let line = "2026-01-02 GET /items/17 took 12 ms\n";
        let text = line.repeat(3 * SAMPLE_BYTES / line.len());
        let (sampled, whole) = (estimate(&text), estimate_tokens(&text));
        assert!(sampled.abs_diff(whole) * 1000 < whole, "{sampled} instead of {whole}");
    }

    proptest! {
        #[test]
        fn a_beginning_decides_like_the_whole(text in "[a-c ä1{\"]{0,400}", tokens in 0_usize..200) {
            let by_estimate = estimate_tokens(&text) > tokens;
            let by_bytes = text.len() > tokens * MAX_BYTES_OF_TOKEN;
            prop_assert_eq!(exceeds(&text, tokens), by_estimate || by_bytes);
        }

        #[test]
        fn what_fits_is_the_longest_that_does(text in "[a-c ä1{\"]{1,300}", tokens in 1_usize..100) {
            let length = fit(&text, tokens);
            prop_assert!(length > 0 && estimate_tokens(&text[..length]) <= tokens);
            let longer = text[length..].chars().next().map(|c| length + c.len_utf8());
            if let Some(longer) = longer.filter(|longer| *longer <= bytes_of_answer(tokens)) {
                prop_assert!(estimate_tokens(&text[..longer]) > tokens);
            }
        }
    }
}
