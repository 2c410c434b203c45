//! Four published rankings, reproduced to the letter.

pub(crate) mod difflib;
pub mod hinted;
pub mod keyword;
pub(crate) mod regex;
pub mod sequence;

use std::sync::Arc;

use pegboard_core::{Catalog, Hit, Selection, Tool};

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

/// The words of a query in the two keyword systems: `+` in front makes one required.
#[derive(Debug, PartialEq, Eq)]
struct Keyword<'a> {
    text: &'a str,
    is_required: bool,
}

/// Splits at white space. A lone `+` is nothing; a second `+` belongs to the word.
fn keywords(query: &str) -> impl Iterator<Item = Keyword<'_>> {
    query.split_whitespace().filter_map(|word| match word.strip_prefix('+') {
        Some("") => None,
        Some(text) => Some(Keyword { text, is_required: true }),
        None => Some(Keyword { text: word, is_required: false }),
    })
}
