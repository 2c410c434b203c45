//! Four published rankings, reproduced exactly.

pub(crate) mod difflib;
pub mod hinted;
pub mod keyword;
mod re2;
pub(crate) mod regex;
pub mod sequence;

use std::sync::Arc;

use pegboard_core::{Catalog, Field, Hit, Query, QueryError, Ranker, Ranking, Reason, Selection, Tool, ranking::cut};
use rustc_hash::FxHashMap;

use crate::{Hybrid, Lexical};

/// Returns the ranker of this crate with this name, or `None` if it has no such ranker. `token_bonus` is that of
/// [`Sequence`](sequence::Sequence).
pub fn ranker_by_name(name: &str, token_bonus: f64) -> Option<Arc<dyn Ranker>> {
    Some(match name {
        "hybrid" => Arc::new(Hybrid::default()),
        "lexical" => Arc::new(Lexical::default()),
        "regex" => Arc::new(regex::RegexRanker::default()),
        "keyword" => Arc::new(keyword::Keyword::default()),
        "sequence" => Arc::new(sequence::Sequence::new(token_bonus)),
        "hinted" => Arc::new(hinted::Hinted::default()),
        _ => return None,
    })
}

/// Returns the visible tools in catalog order.
fn visible<'a>(catalog: &'a Catalog, selection: &'a Selection) -> impl Iterator<Item = &'a Arc<Tool>> {
    catalog.iter().filter(|tool| selection.allows(tool))
}

/// Maximum number of different words of one query; each is compared with every tool.
const MAX_KEYWORDS: usize = 512;

/// Ranks by the summed points of the words of `text`, ties by name in byte order.
///
/// `texts` are the texts of each tool of `catalog` that the rules match; `points` emits the points
/// of one word in one tool, field by field. A required word must have some.
fn rank_by_points<T>(
    text: &str,
    query: &Query<'_>,
    catalog: &Catalog,
    selection: &Selection,
    texts: &[T],
    points: impl Fn(&T, &str, &mut dyn FnMut(Field, u32)),
) -> Result<Ranking, QueryError> {
    let mut keywords = keywords(text);
    if keywords.len() > MAX_KEYWORDS {
        return Err(QueryError::TooManyTerms { count: keywords.len(), limit: MAX_KEYWORDS });
    }
    let mut hits = Vec::new();
    for (tool, texts) in catalog.iter().zip(texts).filter(|(tool, _)| selection.allows(tool)) {
        let mut total = 0;
        let mut lacks_required = false;
        let mut why = Vec::new();
        for keyword in &mut keywords {
            let before = total;
            points(texts, keyword.text, &mut |field, points| {
                total += points * keyword.count;
                if query.explain {
                    let weight = f64::from(points * keyword.count);
                    why.push(Reason { field, term: keyword.text.to_owned(), weight });
                }
            });
            keyword.is_matched |= total > before;
            lacks_required |= keyword.is_required && total == before;
        }
        if total > 0 && !lacks_required {
            why.sort_by(|a: &Reason, b: &Reason| b.weight.total_cmp(&a.weight));
            hits.push(Hit { tool: Arc::clone(tool), score: f64::from(total), why });
        }
    }
    hits.sort_by(|a, b| {
        let by_name = || (a.tool.name(), a.tool.id()).cmp(&(b.tool.name(), b.tool.id()));
        b.score.total_cmp(&a.score).then_with(by_name)
    });
    let total = hits.len();
    let passing = cut(&mut hits, query);
    let unmatched = keywords.iter().filter(|keyword| !keyword.is_matched);
    let unmatched = unmatched.map(|keyword| keyword.text.to_owned()).collect();
    Ok(Ranking { hits, total, passing, unmatched, ..Ranking::default() })
}

/// A word of a query in the two keyword systems.
#[derive(Debug)]
struct Keyword<'a> {
    text: &'a str,
    /// Whether it was given with a `+` in front, at least once.
    is_required: bool,
    /// How often it was given; each occurrence scores.
    count: u32,
    is_matched: bool,
}

/// Splits a query at white space into its different words. A single `+` is ignored; a second `+`
/// belongs to the word.
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
            keywords.push(Keyword { text, is_required: false, count: 0, is_matched: false });
        }
        keywords[place].is_required |= required.is_some();
        keywords[place].count += 1;
    }
    keywords
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rankers_are_found_by_their_names() {
        for name in ["hybrid", "lexical", "regex", "keyword", "sequence", "hinted"] {
            assert_eq!(ranker_by_name(name, 0.0).map(|ranker| ranker.name()), Some(name));
        }
        assert!(ranker_by_name("bm25", 0.0).is_none());
    }
}
