//! Splits names and texts into words, and stems verbs.

use std::borrow::Cow;

/// Calls `visit` with the words of `text`, split at capitals and digits, until it returns `false`.
/// Characters other than ASCII separate words: the list of verbs is English.
pub(super) fn for_each_word(text: &str, mut visit: impl FnMut(&str) -> bool) {
    let bytes = text.as_bytes();
    let run = |from: usize, is_in: fn(&u8) -> bool| from + bytes[from..].iter().take_while(|byte| is_in(byte)).count();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b'0'..=b'9' => run(at, u8::is_ascii_digit),
            b'a'..=b'z' => run(at, u8::is_ascii_lowercase),
            b'A'..=b'Z' => {
                let upper = run(at, u8::is_ascii_uppercase);
                match bytes.get(upper).is_some_and(u8::is_ascii_lowercase) {
                    // The last of several capitals begins the next word.
                    true if upper - at > 1 => upper - 1,
                    true => run(upper, u8::is_ascii_lowercase),
                    false => upper,
                }
            }
            _ => {
                at += 1;
                continue;
            }
        };
        if !visit(&text[at..end]) {
            return;
        }
        at = end;
    }
}

/// Removes the ending of a verb in lower case; precise enough for the lookup in the list.
pub(super) fn stem(word: &str) -> Cow<'_, str> {
    if word.len() <= 3 || !word.is_ascii() {
        return Cow::Borrowed(word);
    }
    for ending in ["ying", "ies", "ied"] {
        if let Some(start) = word.strip_suffix(ending).filter(|start| start.len() >= 2) {
            return Cow::Owned(format!("{start}y"));
        }
    }
    let cut = |count: usize| &word[..word.len() - count];
    let mut stem = word;
    if word.ends_with("ing") && word.len() >= 6 {
        stem = cut(3);
    } else if (word.ends_with("ed") && word.len() >= 5)
        || ["sses", "ches", "shes", "xes"].iter().any(|ending| word.ends_with(ending))
    {
        stem = cut(2);
    } else if word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") {
        stem = cut(1);
    }
    if let [.., before, last] = stem.as_bytes()
        && stem.len() > 3
        && before == last
        && !matches!(last, b's' | b'l')
    {
        stem = &stem[..stem.len() - 1];
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem = &stem[..stem.len() - 1];
    }
    Cow::Borrowed(stem)
}
