//! Tool names that a query spells out.

use std::ops::Range;

use pegboard_core::naming;

use super::{index::View, vocabulary::NAME_KEY};

/// The longest name, in words, that is looked for in running text.
const MAX_NAME_WORDS: usize = 5;

/// Beyond this many words a query is a document, and names in it are looked for one by
/// one only.
const MAX_QUERY_WORDS: usize = 512;

/// How surely a query means a tool by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// The query is the name.
    Whole,
    /// The name stands in the query in a spelling that only names have, or quoted.
    Quoted,
    /// The words of the name follow each other in the query.
    Words,
}

/// A name in a query.
#[derive(Clone, Debug)]
pub(super) struct Mention {
    /// The look-up key, for the vocabulary.
    pub(super) key: String,
    pub(super) certainty: Certainty,
    /// Where it stands in the query.
    pub(super) place: Range<usize>,
    /// How many visible tools have it.
    pub(super) count: usize,
}

/// All names of visible tools that `query` spells out, in query order.
pub(super) fn mentions(query: &str, view: &View<'_>, found: &mut Vec<Mention>) {
    found.clear();
    let pieces: Vec<Range<usize>> = pieces(query);
    let mut look_up = |place: Range<usize>, certainty: Certainty| {
        let mut key = String::from(NAME_KEY);
        naming::fold_into(&query[place.clone()], &mut key);
        let count = view.count(&key);
        if count > 0 {
            found.push(Mention { key, certainty, place, count });
        }
        count > 0
    };
    if let (Some(first), Some(last)) = (pieces.first(), pieces.last()) {
        look_up(first.start..last.end, Certainty::Whole);
    }
    if pieces.len() == 1 {
        return;
    }
    for (at, piece) in pieces.iter().enumerate() {
        if is_identifier(query, piece) && look_up(piece.clone(), Certainty::Quoted) {
            continue;
        }
        if pieces.len() > MAX_QUERY_WORDS {
            continue;
        }
        for length in (2..=MAX_NAME_WORDS).rev() {
            // The whole query is looked up above.
            let Some(last) = pieces.get(at + length - 1).filter(|_| length < pieces.len()) else { continue };
            if look_up(piece.start..last.end, Certainty::Words) {
                break;
            }
        }
    }
}

/// The parts of `query` between spaces, without the punctuation around them.
fn pieces(query: &str) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    for piece in query.split_whitespace() {
        let trimmed = piece.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
        if !trimmed.is_empty() {
            let start = trimmed.as_ptr() as usize - query.as_ptr() as usize;
            pieces.push(start..start + trimmed.len());
        }
    }
    pieces
}

/// Whether a piece is spelled like a name rather than like a word, or stands in quotes.
fn is_identifier(query: &str, piece: &Range<usize>) -> bool {
    let text = &query[piece.clone()];
    let has_joint = text.contains(['_', '-', '.', '/', ':']);
    let has_hump = text.chars().zip(text.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    let before = query[..piece.start].chars().next_back();
    let after = query[piece.end..].chars().next();
    let is_quoted = matches!((before, after), (Some('`' | '"' | '\'' | '“' | '«'), Some('`' | '"' | '\'' | '”' | '»')));
    text.len() > 2 && (has_joint || has_hump || is_quoted)
}
