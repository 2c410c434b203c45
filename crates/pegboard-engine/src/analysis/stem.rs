//! Word stems.

use std::{borrow::Cow, fmt};

use frostem::Algorithm;

/// Snowball stemming, chosen by script: English for Latin letters, Russian for Cyrillic.
pub struct Stemmer {
    english: frostem::Stemmer,
    russian: frostem::Stemmer,
}

impl fmt::Debug for Stemmer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stemmer")
    }
}

impl Default for Stemmer {
    fn default() -> Self {
        Self { english: frostem::Stemmer::new(Algorithm::English), russian: frostem::Stemmer::new(Algorithm::Russian) }
    }
}

impl Stemmer {
    /// Returns the stem of a folded token. Short tokens and tokens with digits are returned
    /// unchanged.
    pub fn stem<'a>(&self, token: &'a str) -> Cow<'a, str> {
        let bytes = token.as_bytes();
        if bytes.iter().all(u8::is_ascii_lowercase) {
            return if bytes.len() < 3 { Cow::Borrowed(token) } else { self.english.stem(token) };
        }
        match token.chars().next() {
            Some('\u{0400}'..='\u{04FF}') => self.russian.stem(token),
            _ => Cow::Borrowed(token),
        }
    }
}
