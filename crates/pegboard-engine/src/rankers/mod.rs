//! Four published rankings, reproduced to the letter.

pub(crate) mod difflib;
pub mod hinted;
pub mod keyword;
pub(crate) mod regex;
pub mod sequence;

use std::sync::Arc;

use pegboard_core::{Catalog, Hit, Selection, Tool};
use rustc_hash::FxHashMap;

/// The visible tools in catalog order.
fn visible<'a>(catalog: &'a Catalog, selection: &'a Selection) -> impl Iterator<Item = &'a Arc<Tool>> {
    catalog.iter().filter(|tool| selection.allows(tool))
}

/// Highest score first, equal scores by name in byte order.
fn sort_by_score_and_name(hits: &mut [Hit]) {
    hits.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| a.tool.name().cmp(b.tool.name()))
            .then_with(|| a.tool.id().cmp(b.tool.id()))
    });
}

/// A word of a query in the two keyword systems.
#[derive(Debug)]
struct Keyword<'a> {
    text: &'a str,
    /// Whether a `+` stood in front of it, at least once.
    is_required: bool,
    /// How often it was given; it scores each time.
    count: u32,
}

/// The different words of a query, split at white space. A lone `+` is nothing; a second
/// `+` belongs to the word.
fn keywords(query: &str) -> Vec<Keyword<'_>> {
    let mut keywords: Vec<Keyword<'_>> = Vec::new();
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    for word in query.split_whitespace() {
        let required = word.strip_prefix('+');
        let text = required.unwrap_or(word);
        if text.is_empty() {
            continue;
        }
        let place = *places.entry(text).or_insert(keywords.len());
        if place == keywords.len() {
            keywords.push(Keyword { text, is_required: false, count: 0 });
        }
        keywords[place].is_required |= required.is_some();
        keywords[place].count += 1;
    }
    keywords
}
