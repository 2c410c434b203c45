//! Splits text into words for a model. Not the words of the lexical index: a model needs the
//! splitting that it was trained with, while that of the index may change.

use pegboard_core::naming::fold_char;

/// The class of a character for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Separator,
    Lower,
    Upper,
    Digit,
    /// A Latin letter beyond ASCII that is not upper case, or a mark.
    Other,
    /// A letter of another script, which no model of this format knows.
    Foreign,
}

fn kind(c: char) -> Kind {
    match c {
        'a'..='z' => Kind::Lower,
        'A'..='Z' => Kind::Upper,
        '0'..='9' => Kind::Digit,
        '\0'..'\u{AA}' | '\u{D7}' | '\u{F7}' | '\u{2000}'..='\u{206F}' | '\u{20A0}'..='\u{20CF}' => Kind::Separator,
        '\u{2190}'..='\u{2BFF}' | '\u{3000}'..='\u{3004}' | '\u{3008}'..='\u{303F}' => Kind::Separator,
        '\u{E000}'..='\u{F8FF}' | '\u{FE00}'..='\u{FE6F}' | '\u{FF00}'..='\u{FF0F}' => Kind::Separator,
        '\u{FF1A}'..='\u{FF20}' | '\u{1F000}'..='\u{1FFFF}' | '\u{E0000}'.. => Kind::Separator,
        '\u{1E00}'..='\u{1EFF}' | '\u{FB00}'..='\u{FB06}' | '\u{FF21}'..='\u{FF5A}' => latin_kind(c),
        '\u{370}'.. => Kind::Foreign,
        _ => latin_kind(c),
    }
}

/// Classifies a letter: upper case if its lower case differs.
fn latin_kind(c: char) -> Kind {
    if c.to_lowercase().eq(std::iter::once(c)) { Kind::Other } else { Kind::Upper }
}

/// A run of letters and digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    /// Byte offset of its first character.
    pub(super) start: usize,
    pub(super) chars: usize,
    pub(super) is_foreign: bool,
    /// Whether it consists of digits only.
    pub(super) is_number: bool,
}

impl Word<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Writes the folded word to `folded`.
    pub(super) fn fold_into(&self, folded: &mut String) {
        fold(self.text, folded);
    }
}

/// Calls `visit` with the words of `text` until it returns `false`.
pub(super) fn for_each_word<'a>(text: &'a str, mut visit: impl FnMut(Word<'a>) -> bool) {
    let mut open: Option<Word<'a>> = None;
    let close = |word: Word<'a>, end: usize| Word { text: &text[word.start..end], ..word };
    for (at, c) in text.char_indices() {
        let kind = kind(c);
        let is_foreign = kind == Kind::Foreign;
        if let Some(word) = open
            && (kind == Kind::Separator || is_foreign != word.is_foreign)
        {
            open = None;
            if !visit(close(word, at)) {
                return;
            }
        }
        if kind != Kind::Separator {
            let word = open.get_or_insert(Word { text: "", start: at, chars: 0, is_foreign, is_number: true });
            word.chars += 1;
            word.is_number &= kind == Kind::Digit;
        }
    }
    if let Some(word) = open {
        visit(close(word, text.len()));
    }
}

/// Calls `visit` with the parts of `createIssue` and `HTMLParser`; a word without inner capitals is
/// its only part.
pub(super) fn for_each_hump<'a>(word: &'a str, mut visit: impl FnMut(&'a str)) {
    let mut start = 0;
    let mut before = None;
    let mut letters = word.char_indices().map(|(at, c)| (at, kind(c))).peekable();
    while let Some((at, here)) = letters.next() {
        let after = letters.peek().map(|(_, kind)| *kind);
        let begins = here == Kind::Upper
            && before.is_some_and(|before| before != Kind::Upper || matches!(after, Some(Kind::Lower | Kind::Other)));
        if begins {
            visit(&word[start..at]);
            start = at;
        }
        before = Some(here);
    }
    visit(&word[start..]);
}

/// Writes `text` to `folded`, in lower case and without accents.
pub(super) fn fold(text: &str, folded: &mut String) {
    folded.clear();
    if text.is_ascii() {
        folded.push_str(text);
        folded.make_ascii_lowercase();
        return;
    }
    for c in text.chars() {
        match c {
            // A separate letter for the index, an accented и for models.
            'Й' | 'й' => folded.push('и'),
            _ => fold_char(c, &mut |c| folded.push(c)),
        }
    }
}
