//! `hinted`: name, search hint and description points, stacked per term.

use pegboard_core::{
    Catalog, Field, Origin, Query, QueryError, Ranker, Ranking, Selection, SnapshotCache, Tool,
    ranking::MAX_QUERY_BYTES,
};

use super::{keywords, rank_by_points};

const HINT_CONTAINS: u32 = 4;
const DESCRIPTION_CONTAINS: u32 = 2;

/// Orders by the summed points of the terms, ties by name. `+word` must match somewhere.
#[derive(Debug, Default)]
pub struct Hinted {
    texts: SnapshotCache<Vec<Texts>>,
}

/// The texts of a tool that the rules match, in lower case.
#[derive(Debug)]
struct Texts {
    parts: Vec<String>,
    part_equals: u32,
    part_contains: u32,
    hint: String,
    description: String,
}

impl Texts {
    fn new(tool: &Tool) -> Self {
        let is_mcp = tool.name().starts_with(MCP_PREFIX) || tool.origin() == Origin::Mcp;
        let (part_equals, part_contains) = if is_mcp { (12, 6) } else { (10, 5) };
        Self {
            parts: split_name(tool.name()),
            part_equals,
            part_contains,
            hint: tool.search_hint().unwrap_or_default().to_ascii_lowercase(),
            description: tool.description().to_ascii_lowercase(),
        }
    }

    /// Returns the points of `term` in each field that contains it.
    fn points(&self, term: &str) -> impl Iterator<Item = (Field, u32)> {
        let name = if self.parts.iter().any(|part| part == term) {
            Some((Field::Name, self.part_equals))
        } else if self.parts.iter().any(|part| part.contains(term)) {
            Some((Field::Name, self.part_contains))
        } else {
            None
        };
        let hint = self.hint.contains(term).then_some((Field::SearchHint, HINT_CONTAINS));
        let description = self.description.contains(term).then_some((Field::Description, DESCRIPTION_CONTAINS));
        name.into_iter().chain(hint).chain(description)
    }
}

const MCP_PREFIX: &str = "mcp__";

/// Splits a name into lower-case parts (ASCII only, like the reference): `mcp__` names at `_` only,
/// others at `_`, `.` and before a capital that does not follow a capital.
///
/// ```
/// # use pegboard_engine::hinted::split_name;
/// assert_eq!(split_name("mcp__slack__send_message"), ["slack", "send", "message"]);
/// assert_eq!(split_name("whatsapp.sendAll"), ["whatsapp", "send", "all"]);
/// assert_eq!(split_name("HTTPServer"), ["httpserver"]);
/// ```
pub fn split_name(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (rest, cuts_humps) = match name.strip_prefix(MCP_PREFIX) {
        Some(rest) => (rest, false),
        None => (name, true),
    };
    let mut after_capital = true;
    for c in rest.chars() {
        if c == '_' || (c == '.' && cuts_humps) {
            parts.push(String::new());
            after_capital = true;
            continue;
        }
        let is_capital = c.is_ascii_uppercase();
        if cuts_humps && is_capital && !after_capital {
            parts.push(String::new());
        }
        after_capital = is_capital;
        if let Some(part) = parts.last_mut() {
            part.push(c.to_ascii_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

impl Ranker for Hinted {
    fn name(&self) -> &'static str {
        "hinted"
    }

    fn reads_required_words(&self) -> bool {
        true
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let text = query.checked(MAX_QUERY_BYTES)?.to_ascii_lowercase();
        if keywords(&text).is_empty() {
            return Err(QueryError::NoTerms);
        }
        let texts = self.texts.get(catalog, |_| catalog.iter().map(|tool| Texts::new(tool)).collect());
        rank_by_points(&text, query, catalog, selection, &texts, |texts, term, emit| {
            texts.points(term).for_each(|(field, points)| emit(field, points));
        })
    }
}
