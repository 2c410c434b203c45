//! How a model goes about calling a tool that it may not see: it searches with what the request
//! gives it to search with, and then calls the tool by its name or through `call_tool`. One script
//! so fits a request with all tools, one with a search for them, and one in between.

use serde_json::json;

use super::{
    ask::ModelRequest,
    prompt::{blocks, references},
    route::Wire,
    script::{Call, Goal, Output, Part, Search},
};

/// The function with which a client lets the model search.
const SEARCH: &str = "search_tools";

/// The function through which the model calls a tool that it has no definition of.
const CALL: &str = "call_tool";

/// Searches for one goal; a real model would go on for longer.
const MAX_SEARCHES: usize = 2;

/// The next step towards a goal.
pub(crate) enum Step {
    /// The model searches. The goal stays.
    Search(Output),
    /// The model calls what it wanted to call.
    Call(Output),
    /// It has no way to call one of the tools.
    GiveUp(String),
}

/// Returns the next step towards `goal`, for which the model has searched `searches` times.
pub(crate) fn step(ask: &ModelRequest, goal: &Goal, searches: usize) -> Step {
    let mut output = goal.output.clone();
    for part in &mut output.parts {
        let Part::Call(call) = part else { continue };
        if is_visible(ask, &call.name) {
            continue;
        }
        if is_named(ask, &call.name) && ask.tool(CALL).is_some() {
            *call = through(call);
            continue;
        }
        let name = &call.name;
        return match search(ask, &goal.query) {
            _ if searches >= MAX_SEARCHES => Step::GiveUp(format!("{searches} searches did not find `{name}`")),
            Some(search) => Step::Search(searching(goal, search)),
            None => Step::GiveUp(format!("the request has neither `{name}` nor a search for it")),
        };
    }
    Step::Call(output)
}

fn searching(goal: &Goal, search: Part) -> Output {
    let parts = goal.before_search.iter().cloned().chain([search]).collect();
    Output { parts, stop: None, usage: None, sending: goal.output.sending.clone() }
}

/// The same call through [`CALL`].
fn through(call: &Call) -> Call {
    let arguments = json!({"name": call.name, "arguments": call.arguments});
    Call { name: CALL.into(), arguments, id: call.id.clone(), namespace: None }
}

/// Returns whether the model has the definition of the tool before it.
fn is_visible(ask: &ModelRequest, name: &str) -> bool {
    let is_loaded = || match ask.route.wire {
        Wire::Messages => ask.messages.iter().any(|message| {
            let blocks = blocks(&message["content"]);
            blocks.iter().any(|block| references(block).any(|reference| reference == name))
        }),
        _ => ask.loaded.iter().any(|tool| tool.name == name),
    };
    match ask.tools.iter().find(|tool| tool.name == name) {
        Some(tool) if !tool.deferred => true,
        _ => is_loaded(),
    }
}

/// Returns whether the conversation names the tool, in the result of a search or in an earlier call.
fn is_named(ask: &ModelRequest, name: &str) -> bool {
    ask.messages.iter().any(|message| has_word(&message.to_string(), name))
}

fn has_word(text: &str, word: &str) -> bool {
    let is_inner = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + word.len()..].chars().next());
        // An escaped line break in front is no part of the word.
        let is_escaped = text[..at].ends_with("\\n");
        (is_escaped || !before.is_some_and(is_inner)) && !after.is_some_and(is_inner)
    })
}

/// The search that the request offers, if it offers one.
fn search(ask: &ModelRequest, query: &str) -> Option<Part> {
    if ask.search_tool().is_some_and(|tool| tool.definition["execution"] == "client") {
        let arguments = Some(json!({"query": query}));
        return Some(Part::Search(Search { query: Some(query.into()), client: true, arguments, ..Search::default() }));
    }
    ask.tools
        .iter()
        .any(|tool| tool.name == SEARCH && !tool.deferred)
        .then(|| Part::call(SEARCH, json!({"query": query})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole() {
        for (text, expected) in [
            ("x send_mail.", true),
            ("\"send_mail\"", true),
            ("a\\nsend_mail: …", true),
            ("resend_mail", false),
            ("send_mail_2", false),
            ("send_mail_2 send_mail", true),
        ] {
            assert_eq!(has_word(text, "send_mail"), expected, "{text}");
        }
    }
}
