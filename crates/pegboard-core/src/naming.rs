//! Spellings of names, in one place so that every lookup by name agrees.

mod lookalike;
mod provider_names;
mod spelling;

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

pub use self::{
    lookalike::{Likeness, SimilarNames, lookalikes},
    provider_names::{Prefixes, ShownNames, Style, fnv1a, to_provider_name},
    spelling::Spelling,
};

/// Returns the form in which all spellings of one name are equal: `create_issue`, `create-issue`,
/// `createIssue` and `Create Issue` all give `createissue`.
///
/// ```
/// # use pegboard_core::naming::fold;
/// assert_eq!(fold("mcp__Slack__send-message"), "mcpslacksendmessage");
/// assert_eq!(fold("búsqueda.rápida"), "busquedarapida");
/// ```
pub fn fold(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    fold_into(name, &mut folded);
    folded
}

/// [`fold`] that appends to a buffer.
pub fn fold_into(name: &str, folded: &mut String) {
    if name.is_ascii() {
        folded.extend(name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()));
        return;
    }
    for c in composed(name).chars() {
        fold_char(c, &mut |c| {
            if c.is_alphanumeric() {
                folded.push(c);
            }
        });
    }
}

/// Returns `text` with its characters composed and in their usual width, so that one letter is one
/// character however it was typed.
pub fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfkc().collect())
}

/// Emits `c` lower-cased, width-folded and without accents.
///
/// Only the accents of European scripts are dropped: elsewhere marks are vowels, or make
/// different letters.
pub fn fold_char(c: char, emit: &mut impl FnMut(char)) {
    if c.is_ascii() {
        return emit(c.to_ascii_lowercase());
    }
    if matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}') {
        return emit(c);
    }
    // The short и is a letter of its own; the dots of ё are optional in writing.
    if matches!(c, 'Й' | 'й') {
        return emit('й');
    }
    for lower in c.to_lowercase() {
        unicode_normalization::char::decompose_compatible(lower, |part| {
            if !matches!(part, '\u{0300}'..='\u{036F}') {
                emit(part);
            }
        });
    }
}

/// Returns the name of the server inside a prefixed tool name: the text before the first `___`.
///
/// ```
/// # use pegboard_core::naming::server_prefix;
/// assert_eq!(server_prefix("github___create_issue"), Some("github"));
/// assert_eq!(server_prefix("create_issue"), None);
/// ```
pub fn server_prefix(name: &str) -> Option<&str> {
    name.split_once("___").map(|(server, _)| server).filter(|server| !server.is_empty())
}

/// Returns the `candidates` most similar to `wanted`, nearest first, at most `most`. Differences in
/// spelling do not count as distance.
///
/// ```
/// # use pegboard_core::naming::nearest;
/// assert_eq!(nearest("creat-isue", ["create_issue", "get_weather"], 3), ["create_issue"]);
/// ```
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let wanted = fold(wanted);
    let allowed = (wanted.chars().count() / 3).clamp(1, 4);
    let mut near: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|name| {
            let folded = fold(name);
            // Half a name is farther off than a slip of the finger, but still meant.
            let is_part = !wanted.is_empty() && (folded.ends_with(&wanted) || folded.starts_with(&wanted));
            let distance = edit_distance(&wanted, &folded, allowed).or(is_part.then_some(allowed + 1))?;
            Some((distance, name))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(most);
    near.into_iter().map(|(_, name)| name).collect()
}

/// Returns the optimal string alignment distance in characters (insert, delete, replace, swap of
/// neighbours), or `None` if it exceeds `most`.
pub fn edit_distance(a: &str, b: &str, most: usize) -> Option<usize> {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let width = b.len() + 1;
    // Three rows are enough: a swap reaches back two.
    let mut rows = vec![0; 3 * width];
    let row = |i: usize| (i % 3) * width;
    for (j, cell) in rows[..width].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        rows[row(i)] = i;
        let mut smallest = i;
        for j in 1..=b.len() {
            let replace = rows[row(i - 1) + j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[row(i - 1) + j] + 1).min(rows[row(i) + j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[row(i - 2) + j - 2] + 1);
            }
            rows[row(i) + j] = best;
            smallest = smallest.min(best);
        }
        if smallest > most {
            return None;
        }
    }
    Some(rows[row(a.len()) + b.len()]).filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let check = |a, b, expected| assert_eq!(edit_distance(a, b, 3), expected, "{a} {b}");
        check("weather", "weather", Some(0));
        check("wether", "weather", Some(1));
        check("waether", "weather", Some(1));
        check("isseu", "issue", Some(1));
        check("abc", "xyz", Some(3));
        check("abcd", "wxyz", None);
        check("", "abc", Some(3));
        check("", "abcd", None);
        check("über", "uber", Some(1));
    }

    #[test]
    fn nearest_prefers_the_closest_and_then_the_alphabet() {
        let names = ["list_files", "list_file", "read_file", "lost_files"];
        assert_eq!(nearest("listFiles", names, 3), ["list_files", "list_file", "lost_files"]);
        assert_eq!(nearest("zzzzzz", names, 3), Vec::<&str>::new());
    }
}
