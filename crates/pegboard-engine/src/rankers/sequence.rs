//! `sequence`: text similarity plus a bonus for every query word found literally.

use pegboard_core::{
    Catalog, Field, Hit, Query, QueryError, Ranker, Ranking, Reason, Selection, SnapshotCache, Tool, ranking::cut,
};

use super::difflib::{Matcher, Scratch};

/// Maximum length of a query in bytes: the cost of a comparison is the product of both lengths.
pub const MAX_QUERY_BYTES: usize = 2 * 1024;

/// Maximum score that counts as noise.
pub const NOISE: f64 = 0.05;

/// The default bonus of one literal hit of a query word.
pub const TOKEN_BONUS: f64 = 0.12;

/// Orders by `ratio + bonus × hits`, ties in catalog order.
#[derive(Debug)]
pub struct Sequence {
    token_bonus: f64,
    texts: SnapshotCache<Vec<(String, Matcher)>>,
}

impl Default for Sequence {
    fn default() -> Self {
        Self::new(TOKEN_BONUS)
    }
}

impl Sequence {
    /// Creates a ranker in which every literal hit adds `token_bonus`.
    pub fn new(token_bonus: f64) -> Self {
        Self { token_bonus, texts: SnapshotCache::default() }
    }
}

/// Returns the text that a query is compared with.
pub fn haystack(tool: &Tool) -> String {
    let instructions = tool.prompt_instructions().unwrap_or_default();
    format!("{} {} {instructions}", tool.name(), tool.description()).to_lowercase()
}

/// Rounds to four decimals from the exact value, like Python's `round`.
fn rounded(score: f64) -> f64 {
    format!("{score:.4}").parse().unwrap_or(score)
}

impl Ranker for Sequence {
    fn name(&self) -> &'static str {
        "sequence"
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let text = query.checked(MAX_QUERY_BYTES)?.trim().to_lowercase();
        let letters: Vec<char> = text.chars().collect();
        let tokens: Vec<&str> = text.split_whitespace().collect();
        let mut token_found = vec![false; tokens.len()];
        let texts = self.texts.get(catalog, |_| {
            catalog.iter().map(|tool| haystack(tool)).map(|text| (text.clone(), Matcher::new(&text))).collect()
        });
        let mut scratch = Scratch::default();
        let mut hits = Vec::new();
        for (tool, (haystack, matcher)) in catalog.iter().zip(texts.iter()).filter(|(tool, _)| selection.allows(tool)) {
            let ratio = matcher.ratio(&letters, &mut scratch);
            let mut found = 0;
            for (token, token_found) in tokens.iter().zip(&mut token_found) {
                if haystack.contains(token) {
                    *token_found = true;
                    found += 1;
                }
            }
            let score = rounded(ratio + self.token_bonus * f64::from(found));
            if score > NOISE {
                let why = if query.explain { self.reasons(ratio, &text, &tokens, haystack) } else { Vec::new() };
                hits.push(Hit { tool: tool.clone(), score, why });
            }
        }
        // Stable: equal scores stay in catalog order.
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        let total = hits.len();
        let passing = cut(&mut hits, query);
        let mut unmatched: Vec<String> = Vec::new();
        for (token, found) in tokens.iter().zip(token_found) {
            if !found && !unmatched.iter().any(|known| known == token) {
                unmatched.push((*token).to_owned());
            }
        }
        Ok(Ranking { hits, total, passing, unmatched, ..Ranking::default() })
    }
}

impl Sequence {
    fn reasons(&self, ratio: f64, text: &str, tokens: &[&str], haystack: &str) -> Vec<Reason> {
        let found = tokens.iter().filter(|token| haystack.contains(**token));
        let bonus = |token: &&str| Reason { field: Field::Text, term: (*token).to_owned(), weight: self.token_bonus };
        let mut reasons: Vec<Reason> = found.map(bonus).collect();
        if ratio > 0.0 {
            reasons.push(Reason { field: Field::Text, term: text.to_owned(), weight: rounded(ratio) });
        }
        reasons.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_pythons() {
        // Computed with CPython 3.11; the third text passes 200 characters.
        let long = "the quick brown fox jumps over the lazy dog ".repeat(5);
        let cases = [
            ("wether", "get_weather", 0.7058823529411765),
            ("private Thread currentThread;", "private volatile Thread currentThread;", 0.8656716417910447),
            ("quick lazy fox", long.as_str(), 0.0),
            ("", "", 1.0),
            ("", "a", 0.0),
            ("ÜBER", "über", 0.0),
        ];
        for (a, b, expected) in cases {
            let letters: Vec<char> = a.chars().collect();
            assert_eq!(Matcher::new(b).ratio(&letters, &mut Scratch::default()), expected, "{a:?} {b:?}");
        }
    }
}
