//! Several requests in one query.

use super::plan::{Found, Plan};
use crate::analysis::{begins_request, ends_clause};

/// More intents than this are taken as one text.
const MAX_INTENTS: usize = 16;

/// Cuts the query into the parts that ask for different things; for each word of the plan
/// the number of its part. `None` when it asks for one thing.
pub(super) fn split(query: &str, plan: &Plan, intents: &mut Vec<u32>) -> Option<u32> {
    intents.clear();
    let mut current = 0;
    let mut has_word = false;
    let mut last_end = 0;
    for word in &plan.words {
        let text = &query[word.start..word.end];
        // Pairs of characters overlap; nothing lies between them.
        let gap = query.get(last_end..word.start).unwrap_or_default();
        if has_word && (ends_clause(gap) || begins_request(text)) {
            current += 1;
            has_word = false;
        }
        has_word |= matches!(word.found, Found::Exactly | Found::Nearly);
        intents.push(current);
        last_end = word.end;
    }
    let count = if has_word { current + 1 } else { current };
    // Words after the last intent that found something belong to it.
    intents.iter_mut().for_each(|intent| *intent = (*intent).min(count.saturating_sub(1)));
    (2..=MAX_INTENTS as u32).contains(&count).then_some(count)
}
