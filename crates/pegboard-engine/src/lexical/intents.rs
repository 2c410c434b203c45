//! Several requests in one query.

use super::plan::{Plan, WordStatus};
use crate::{
    analysis::{begins_request, ends_clause},
    semantic::{request_at, request_starts},
};

/// Splits the query into requests for different things, as the request number of each word of the
/// plan. `None` if fewer than two of them have a word that is found.
pub(crate) fn split(query: &str, plan: &Plan, intents: &mut Vec<u32>) -> Option<u32> {
    intents.clear();
    if !may_hold_several(query, plan) {
        return None;
    }
    let starts = request_starts(query);
    intents.extend(plan.words.iter().map(|word| request_at(&starts, word.start)));
    let is_found =
        |(word, _): &(&super::plan::Word, &u32)| matches!(word.found, WordStatus::Exactly | WordStatus::Nearly);
    let mut found = plan.words.iter().zip(&*intents).filter(is_found).map(|(_, intent)| *intent);
    let first = found.next()?;
    found.any(|intent| intent != first).then_some(starts.len() as u32 + 1)
}

/// Returns whether a clause ends somewhere, or a word begins one; false for most queries.
fn may_hold_several(query: &str, plan: &Plan) -> bool {
    let mut last_end = 0;
    plan.words.iter().any(|word| {
        // Pairs of characters overlap; there is no gap between them.
        let gap = query.get(last_end..word.start).unwrap_or_default();
        last_end = word.end;
        ends_clause(gap) || query.get(word.start..word.end).is_some_and(begins_request)
    })
}
