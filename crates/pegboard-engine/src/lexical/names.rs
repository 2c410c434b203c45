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
pub(crate) enum Certainty {
    /// The query is the name.
    Whole,
    /// The name stands in the query in a spelling that only names have, or quoted.
    Quoted,
    /// The words of the name follow each other in the query.
    Words,
}

/// A name in a query.
#[derive(Clone, Debug)]
pub(crate) struct Mention {
    /// The look-up key, for the vocabulary.
    pub(crate) key: String,
    pub(crate) certainty: Certainty,
    /// Where it stands in the query.
    pub(crate) place: Range<usize>,
    /// How many visible tools have it.
    pub(crate) count: usize,
}

/// Finds names in queries; keeps its buffers between queries.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    pieces: Vec<Range<usize>>,
    key: String,
    /// What the last query mentions, in query order.
    pub(crate) found: Vec<Mention>,
}

impl Mentions {
    /// Fills [`found`](Self::found) with all names of visible tools that `query` spells out.
    pub(crate) fn search(&mut self, query: &str, view: &View<'_>) {
        self.found.clear();
        self.cut(query);
        let pieces = std::mem::take(&mut self.pieces);
        if let (Some(first), Some(last)) = (pieces.first(), pieces.last()) {
            self.look_up(query, first.start..last.end, Certainty::Whole, view);
        }
        // A lone piece is the whole query.
        for (at, piece) in pieces.iter().enumerate().filter(|_| pieces.len() > 1) {
            if is_identifier(query, piece) && self.look_up(query, piece.clone(), Certainty::Quoted, view) {
                continue;
            }
            if pieces.len() > MAX_QUERY_WORDS {
                continue;
            }
            for length in (2..=MAX_NAME_WORDS).rev().filter(|length| *length < pieces.len()) {
                let Some(last) = pieces.get(at + length - 1) else { continue };
                if self.look_up(query, piece.start..last.end, Certainty::Words, view) {
                    break;
                }
            }
        }
        self.pieces = pieces;
    }

    /// Cuts `query` at white space, without the punctuation around the pieces.
    fn cut(&mut self, query: &str) {
        self.pieces.clear();
        for piece in query.split_whitespace() {
            let trimmed = piece.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
            if !trimmed.is_empty() {
                let start = trimmed.as_ptr() as usize - query.as_ptr() as usize;
                self.pieces.push(start..start + trimmed.len());
            }
        }
    }

    fn look_up(&mut self, query: &str, place: Range<usize>, certainty: Certainty, view: &View<'_>) -> bool {
        self.key.clear();
        self.key.push(NAME_KEY);
        naming::fold_into(&query[place.clone()], &mut self.key);
        let count = view.count(&self.key);
        if count > 0 {
            self.found.push(Mention { key: self.key.clone(), certainty, place, count });
        }
        count > 0
    }
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
