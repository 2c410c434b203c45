//! `keyword`: per keyword the best of four matching rules, summed.

use pegboard_core::{
    Catalog, Field, Query, QueryError, Ranker, Ranking, Selection, SnapshotCache, Tool, ranking::MAX_QUERY_BYTES,
};

use super::rank_by_points;

const PART_EQUALS: u32 = 10;
const PART_CONTAINS: u32 = 5;
const NAME_CONTAINS: u32 = 3;
const DESCRIPTION_CONTAINS: u32 = 2;

/// Orders by the summed scores of the keywords, ties by name. `+word` must match.
#[derive(Debug, Default)]
pub struct Keyword {
    texts: SnapshotCache<Vec<Texts>>,
}

/// The texts of a tool that the rules match, in lower case.
#[derive(Debug)]
struct Texts {
    parts: Vec<String>,
    name: String,
    description: String,
}

impl Texts {
    fn new(tool: &Tool) -> Self {
        Self {
            parts: split_name(tool.name()).iter().map(|part| lower_case(part)).collect(),
            name: lower_case(tool.name()),
            description: lower_case(tool.description()),
        }
    }

    /// Returns the best rule for `keyword` and its field.
    fn score(&self, keyword: &str) -> Option<(Field, u32)> {
        if self.parts.iter().any(|part| part == keyword) {
            Some((Field::Name, PART_EQUALS))
        } else if self.parts.iter().any(|part| part.contains(keyword)) {
            Some((Field::Name, PART_CONTAINS))
        } else if self.name.contains(keyword) {
            Some((Field::Name, NAME_CONTAINS))
        } else if self.description.contains(keyword) {
            Some((Field::Description, DESCRIPTION_CONTAINS))
        } else {
            None
        }
    }
}

/// Lower-cases character by character, like the reference.
fn lower_case(text: &str) -> String {
    text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect()
}

/// Splits a name into parts: at `_` and at inner capitals; `-` and `.` are letters here.
///
/// ```
/// # use pegboard_engine::keyword::split_name;
/// assert_eq!(split_name("mcp__slack__send_message"), ["mcp", "slack", "send", "message"]);
/// assert_eq!(split_name("parseJSONToXML"), ["parse", "JSON", "To", "XML"]);
/// ```
pub fn split_name(name: &str) -> Vec<&str> {
    name.split('_').flat_map(split_humps).filter(|part| !part.is_empty()).collect()
}

fn split_humps(word: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for (i, (at, c)) in chars.iter().enumerate().skip(1) {
        let after_lower = chars[i - 1].1.is_lowercase();
        let before_lower = chars.get(i + 1).is_some_and(|(_, next)| next.is_lowercase());
        if c.is_uppercase() && (after_lower || before_lower) {
            parts.push(&word[start..*at]);
            start = *at;
        }
    }
    parts.push(&word[start..]);
    parts
}

impl Ranker for Keyword {
    fn name(&self) -> &'static str {
        "keyword"
    }

    fn reads_required_words(&self) -> bool {
        true
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let text = lower_case(query.checked(MAX_QUERY_BYTES)?);
        let texts = self.texts.get(catalog, |_| catalog.iter().map(|tool| Texts::new(tool)).collect());
        rank_by_points(&text, query, catalog, selection, &texts, |texts, keyword, emit| {
            if let Some((field, points)) = texts.score(keyword) {
                emit(field, points);
            }
        })
    }
}
