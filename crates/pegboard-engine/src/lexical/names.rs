//! Tool names that a query spells out.

use std::ops::Range;

use pegboard_core::naming;

use super::{index::IndexView, vocabulary::NAME_KEY};

/// Maximum length of a name in running text, in words.
const MAX_NAME_WORDS: usize = 5;

/// Maximum number of words of a query in which multi-word names are searched; longer queries are
/// documents.
const MAX_QUERY_WORDS: usize = 512;

/// How certainly a query means a tool by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// The query is the name.
    Whole,
    /// The query contains the name quoted, or in a spelling that only names have.
    Quoted,
    /// The query contains the words of the name in sequence.
    Words,
}

/// A name in a query.
#[derive(Clone, Debug)]
pub(crate) struct Mention {
    /// The key in the vocabulary.
    pub(crate) key: String,
    pub(crate) certainty: Certainty,
    /// The position in the query.
    pub(crate) place: Range<usize>,
    /// Number of visible tools with this name.
    pub(crate) count: usize,
}

/// Finds names in queries; reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    pieces: Vec<Range<usize>>,
    key: String,
    /// The names in the last query, in query order.
    pub(crate) found: Vec<Mention>,
}

impl Mentions {
    /// Fills [`found`](Self::found) with all names of visible tools that `query` contains.
    pub(crate) fn search(&mut self, query: &str, view: &IndexView<'_>) {
        self.found.clear();
        self.cut(query);
        let pieces = std::mem::take(&mut self.pieces);
        if let (Some(first), Some(last)) = (pieces.first(), pieces.last()) {
            self.look_up(query, first.start..last.end, Certainty::Whole, view);
        }
        // A single piece is the whole query.
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

    /// Splits `query` at white space, and strips punctuation around the pieces.
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

    fn look_up(&mut self, query: &str, place: Range<usize>, certainty: Certainty, view: &IndexView<'_>) -> bool {
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

/// Returns whether a piece is spelled like a name rather than like a word, or is quoted.
fn is_identifier(query: &str, piece: &Range<usize>) -> bool {
    let text = &query[piece.clone()];
    let has_joint = text.contains(['_', '-', '.', '/', ':']);
    let has_hump = text.chars().zip(text.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    let before = query[..piece.start].chars().next_back();
    let after = query[piece.end..].chars().next();
    let is_quoted = matches!((before, after), (Some('`' | '"' | '\'' | '“' | '«'), Some('`' | '"' | '\'' | '”' | '»')));
    text.len() > 2 && (has_joint || has_hump || is_quoted)
}
