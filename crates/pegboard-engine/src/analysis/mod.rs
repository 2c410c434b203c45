//! Text analysis: from text to terms.
//!
//! Text is split at everything that is not a letter or a digit, so that snake, kebab, dotted and
//! path-like names are split too. A word with inner capitals (`createIssue`) or digits (`oauth2`)
//! yields itself as a whole and its parts. Scripts without spaces yield overlapping pairs of
//! characters. Every word is lower-cased, stripped of accents and stemmed.

mod requests;
mod stem;
mod stop;

pub use requests::{begins_request, begins_step, ends_clause, ends_sentence};
pub use stem::Stemmer;
pub use stop::is_stop_word;

use pegboard_core::naming::fold_char;

/// How a token was derived from the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A word without inner boundaries.
    Word,
    /// A word with inner boundaries, as a whole.
    Whole,
    /// A piece of the [`Whole`](TokenKind::Whole) that comes right after it.
    Part,
    /// Two neighbouring characters (or a lone one) of a script without spaces.
    Pair,
}

/// A folded token and its position in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Lower case, without accents, not stemmed.
    pub text: &'a str,
    /// How the token was derived.
    pub kind: TokenKind,
    /// Byte offset of its first character.
    pub start: usize,
    /// Byte offset after its last character.
    pub end: usize,
}

/// Splits texts into [`Token`]s; reuses its buffers.
#[derive(Debug, Default)]
pub struct Tokenizer {
    folded: String,
    boundaries: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Separator,
    Lower,
    Upper,
    Digit,
    Unspaced,
}

fn classify(c: char) -> Class {
    match c {
        'a'..='z' => Class::Lower,
        'A'..='Z' => Class::Upper,
        '0'..='9' => Class::Digit,
        _ if c.is_ascii() => Class::Separator,
        _ if is_unspaced(c) => Class::Unspaced,
        _ if c.is_uppercase() => Class::Upper,
        _ if c.is_numeric() => Class::Digit,
        _ if c.is_alphabetic() || unicode_mark(c) => Class::Lower,
        _ => Class::Separator,
    }
}

/// Returns whether a character is a combining mark, which belongs to the letter before it.
fn unicode_mark(c: char) -> bool {
    matches!(c, '\u{0300}'..='\u{036F}' | '\u{0483}'..='\u{0489}' | '\u{0591}'..='\u{05BD}' | '\u{064B}'..='\u{065F}' | '\u{093A}'..='\u{094F}')
}

/// Returns whether a character belongs to a script without spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3134F}'
        | '\u{3005}' | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{30FC}' | '\u{FF66}'..='\u{FF9F}'
        | '\u{AC00}'..='\u{D7AF}' | '\u{1100}'..='\u{11FF}'
        | '\u{0E01}'..='\u{0E4E}' | '\u{0E81}'..='\u{0ECD}' | '\u{1780}'..='\u{17D3}' | '\u{1000}'..='\u{109F}')
}

impl Tokenizer {
    /// Emits the tokens of `text` in order.
    pub fn tokenize(&mut self, text: &str, emit: &mut impl FnMut(Token<'_>)) {
        let mut run: Option<(usize, Class)> = None;
        for (at, c) in text.char_indices() {
            let class = classify(c);
            match run {
                Some((start, first)) if (first == Class::Unspaced) != (class == Class::Unspaced) => {
                    self.finish(text, start, at, first, emit);
                    run = (class != Class::Separator).then_some((at, class));
                }
                Some((start, first)) if class == Class::Separator => {
                    self.finish(text, start, at, first, emit);
                    run = None;
                }
                None if class != Class::Separator => run = Some((at, class)),
                _ => {}
            }
        }
        if let Some((start, first)) = run {
            self.finish(text, start, text.len(), first, emit);
        }
    }

    fn finish(&mut self, text: &str, start: usize, end: usize, first: Class, emit: &mut impl FnMut(Token<'_>)) {
        if first == Class::Unspaced {
            self.pairs(&text[start..end], start, emit);
        } else {
            self.word(&text[start..end], start, emit);
        }
    }

    fn word(&mut self, word: &str, offset: usize, emit: &mut impl FnMut(Token<'_>)) {
        self.find_boundaries(word);
        let parts = self.boundaries.len() + 1;
        if parts > 1 {
            let mut from = 0;
            for i in 0..parts {
                let to = self.boundaries.get(i).copied().unwrap_or(word.len());
                self.fold(&word[from..to]);
                // A single letter or digit has no meaning without its neighbours.
                if self.folded.len() > 1 {
                    emit(Token { text: &self.folded, kind: TokenKind::Part, start: offset + from, end: offset + to });
                }
                from = to;
            }
        }
        self.fold(word);
        if !self.folded.is_empty() {
            let kind = if parts > 1 { TokenKind::Whole } else { TokenKind::Word };
            emit(Token { text: &self.folded, kind, start: offset, end: offset + word.len() });
        }
    }

    /// Finds boundaries within a word: capitals (`aB`, `ABc`) and changes between letters and
    /// digits.
    fn find_boundaries(&mut self, word: &str) {
        self.boundaries.clear();
        let bytes = word.as_bytes();
        if bytes.iter().all(u8::is_ascii_lowercase) {
            return;
        }
        let mut previous = None;
        let mut chars = word.char_indices().map(|(at, c)| (at, classify(c))).peekable();
        while let Some((at, class)) = chars.next() {
            let next = chars.peek().map(|(_, class)| *class);
            let is_boundary = match (previous, class) {
                (None, _) => false,
                (Some(Class::Lower | Class::Digit), Class::Upper) => true,
                (Some(Class::Upper), Class::Upper) => {
                    // The plural in `URLs` is not a separate word.
                    next == Some(Class::Lower) && word.len() - at > 2
                }
                (Some(before), now) => (before == Class::Digit) != (now == Class::Digit),
            };
            if is_boundary {
                self.boundaries.push(at);
            }
            previous = Some(class);
        }
    }

    fn fold(&mut self, word: &str) {
        self.folded.clear();
        let folded = &mut self.folded;
        if word.is_ascii() {
            folded.push_str(word);
            folded.make_ascii_lowercase();
        } else {
            word.chars().for_each(|c| fold_char(c, &mut |c| folded.push(c)));
        }
    }

    fn pairs(&mut self, run: &str, offset: usize, emit: &mut impl FnMut(Token<'_>)) {
        let mut previous: Option<usize> = None;
        let mut lone = true;
        for (at, c) in run.char_indices() {
            if let Some(from) = previous {
                let to = at + c.len_utf8();
                self.fold(&run[from..to]);
                emit(Token { text: &self.folded, kind: TokenKind::Pair, start: offset + from, end: offset + to });
                lone = false;
            }
            previous = Some(at);
        }
        if lone {
            self.fold(run);
            emit(Token { text: &self.folded, kind: TokenKind::Pair, start: offset, end: offset + run.len() });
        }
    }
}

#[cfg(test)]
mod tests;
