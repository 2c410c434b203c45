//! Which models are known to take references to tools, by what their providers have answered.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::route::Route;

/// Maximum number of models that are remembered.
const MAX_MODELS: usize = 256;

/// Maximum length of the name of a model that is remembered.
const MAX_NAME: usize = 128;

/// What errors about references mention.
const TERMS: [&str; 3] = ["defer_loading", "tool_reference", "tool reference"];

/// What errors mention that any request can get: about its length, and about the account.
const UNRELATED: [&str; 5] = ["too long", "context limit", "context length", "context window", "credit balance"];

/// What an upstream has answered to references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Support {
    Accepted,
    Rejected,
}

/// The models whose upstreams have accepted or rejected references.
#[derive(Debug, Default)]
pub(crate) struct References(Mutex<HashMap<(Route, String), Support>>);

impl References {
    /// Returns whether the upstream of a route has rejected references for a model.
    pub(crate) fn are_rejected(&self, route: Route, model: &str) -> bool {
        self.lock().get(&(route, model.to_owned())) == Some(&Support::Rejected)
    }

    /// Remembers that the upstream has accepted references.
    pub(crate) fn accept(&self, route: Route, model: &str) {
        self.remember(route, model, Support::Accepted);
    }

    /// Remembers that the upstream has answered references with status 400, if the error counts as a rejection; returns
    /// whether it does. An error that mentions references counts. Any other one counts only until references were accepted
    /// once, and not if it is about the length of the prompt or about the account.
    pub(crate) fn reject(&self, route: Route, model: &str, error: &str) -> bool {
        let is_accepted = self.lock().get(&(route, model.to_owned())) == Some(&Support::Accepted);
        let is_rejected = are_named(error) || (!is_accepted && !has_any(error, &UNRELATED));
        if is_rejected {
            self.remember(route, model, Support::Rejected);
        }
        is_rejected
    }

    /// Forgets a rejection: the request was rejected without references too.
    pub(crate) fn forget(&self, route: Route, model: &str) {
        self.lock().remove(&(route, model.to_owned()));
    }

    fn remember(&self, route: Route, model: &str, support: Support) {
        if model.len() > MAX_NAME {
            return;
        }
        let mut known = self.lock();
        let key = (route, model.to_owned());
        if known.len() >= MAX_MODELS && !known.contains_key(&key) {
            // They are learned again.
            known.clear();
        }
        known.insert(key, support);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Route, String), Support>> {
        // Entries are only inserted and removed whole, so that poison does not matter.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether an error mentions references.
pub(crate) fn are_named(error: &str) -> bool {
    has_any(error, &TERMS)
}

fn has_any(error: &str, terms: &[&str]) -> bool {
    let error = error.to_lowercase();
    terms.iter().any(|term| error.contains(term))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_count() {
        let route = Route::Anthropic;
        let check = |accepted: bool, error: &str, expected: bool| {
            let references = References::default();
            if accepted {
                references.accept(route, "m");
            }
            assert_eq!(references.reject(route, "m", error), expected, "{accepted} {error}");
            assert_eq!(references.are_rejected(route, "m"), expected, "{accepted} {error}");
            assert!(!references.are_rejected(route, "n") && !references.are_rejected(Route::OpenAi, "m"));
        };
        for accepted in [false, true] {
            check(accepted, "prompt is too long: 200001 tokens > 200000 maximum", false);
            check(accepted, "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000", false);
            check(accepted, "Your credit balance is too low to access the Anthropic API.", false);
            check(accepted, "messages.3: 'tool_reference' is not supported; the prompt is too long", true);
        }
        check(false, "messages.3.content.0: Input should be a valid content block", true);
        check(true, "messages.3.content.0: Input should be a valid content block", false);
        check(true, "the request was deferred", false);
        check(true, "Input tag 'tool_reference' found using 'type' does not match", true);
        check(true, "tools.1.custom.Defer_Loading: Extra inputs are not permitted", true);
    }

    #[test]
    fn a_rejection_is_forgotten() {
        let (references, route) = (References::default(), Route::Anthropic);
        for model in ["m", "n"] {
            references.reject(route, model, "");
        }
        references.forget(route, "m");
        assert!(!references.are_rejected(route, "m") && references.are_rejected(route, "n"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let references = References::default();
        for at in 0..3 * MAX_MODELS {
            references.reject(Route::Anthropic, &format!("m{at}"), "");
            assert!(references.are_rejected(Route::Anthropic, &format!("m{at}")));
            assert!(references.lock().len() <= MAX_MODELS);
        }
        let long = "m".repeat(MAX_NAME + 1);
        references.reject(Route::Anthropic, &long, "");
        assert!(!references.are_rejected(Route::Anthropic, &long));
    }
}
