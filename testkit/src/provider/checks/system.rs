//! Where messages of the role `system` may stand.

use serde_json::Value;

use super::{Check, Checker};
use crate::provider::{
    prompt::blocks,
    route::{Vendor, Wire},
};

pub(super) fn check(checker: &mut Checker) {
    match (checker.ask.route.wire, checker.ask.route.vendor) {
        (Wire::Messages, Vendor::Anthropic) => amid_messages(checker),
        (Wire::Messages, _) if checker.ask.messages.iter().any(is_system) => {
            checker.fail(Check::SystemPlacement, "chat content has invalid message role: system");
        }
        (Wire::Chat, Vendor::MiniMax)
            if checker.ask.messages.iter().filter(|message| is_system(message)).count() > 1 =>
        {
            checker.fail(Check::SystemPlacement, "invalid chat setting");
        }
        _ => {}
    }
}

fn is_system(message: &Value) -> bool {
    message["role"] == "system"
}

/// Anthropic's come after a user's turn or a provider-side result, and before the assistant's.
fn amid_messages(checker: &mut Checker) {
    let messages = checker.ask.messages;
    for (index, _) in messages.iter().enumerate().filter(|(_, message)| is_system(message)) {
        let follows = index.checked_sub(1).is_some_and(|before| may_precede(&messages[before]));
        let leads = messages.get(index + 1).is_none_or(|next| next["role"] == "assistant");
        if !follows || !leads {
            let message = format!("messages.{index}: a message of the role 'system' may not stand here");
            checker.fail(Check::SystemPlacement, message);
        }
    }
}

fn may_precede(message: &Value) -> bool {
    let last = blocks(&message["content"]).pop().unwrap_or_default();
    let ends_in_result = last["type"].as_str().is_some_and(|kind| kind.ends_with("_tool_result"));
    message["role"] == "user" || (message["role"] == "assistant" && ends_in_result)
}
