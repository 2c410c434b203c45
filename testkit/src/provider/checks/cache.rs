//! Cache markers.

use super::{Check, Checker};
use crate::provider::{
    ask::items,
    prompt::{blocks, is_marked, marks},
};

/// As many blocks as may carry a marker.
const MAX_MARKS: usize = 4;

pub(super) fn check(checker: &mut Checker) {
    let body = checker.ask.body;
    let system = blocks(&body["system"]);
    let said = checker.ask.messages.iter().flat_map(|message| items(&message["content"]));
    let tools = items(&body["tools"]).iter();
    let found: usize = tools.chain(&system).chain(said).map(marks).sum::<usize>() + usize::from(is_marked(body));
    if found > MAX_MARKS {
        let message = format!("A maximum of 4 blocks with cache_control may be provided. Found {found}.");
        checker.fail(Check::CacheControl, message);
    }
    for (index, message) in checker.ask.messages.iter().enumerate() {
        for (inner, block) in items(&message["content"]).iter().enumerate().filter(|(_, block)| is_marked(block)) {
            let at = format!("messages.{index}.content.{inner}");
            let is_thought = matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"));
            let is_empty = block["type"] == "text" && block["text"] == "";
            if is_thought || is_empty {
                let kind = if is_thought { "thinking blocks" } else { "empty text blocks" };
                checker.fail_at(
                    Check::CacheControl,
                    at.as_str(),
                    format!("{at}: cache_control cannot be set for {kind}"),
                );
            }
        }
    }
}
