//! Causes of refusals after which a simpler request may be accepted.

use crate::model::Provider;

fn has_any(message: &str, words: &[&str]) -> bool {
    let message = message.to_lowercase();
    words.iter().any(|word| message.contains(word))
}

/// Whether a refusal is about deferred tools or tool search.
pub(crate) fn is_about_delivery(provider: Provider, message: &str) -> bool {
    has_any(message, provider.wire().format().delivery_terms())
}

/// Whether a refusal is about the breakpoints of the prompt cache, which a compatible endpoint
/// may not support.
pub(crate) fn is_about_cache(_: Provider, message: &str) -> bool {
    has_any(message, &["cache_control"])
}

/// Whether a refusal is about thinking in the history.
pub(crate) fn is_about_thinking(provider: Provider, message: &str) -> bool {
    has_any(message, provider.wire().format().thinking_terms())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_refusals_speak_of() {
        let check = |provider: Provider, message: &str, delivery: bool, thinking: bool| {
            assert_eq!(is_about_delivery(provider, message), delivery, "{message}");
            assert_eq!(is_about_thinking(provider, message), thinking, "{message}");
        };
        check(Provider::Anthropic, "Your credit balance is too low", false, false);
        check(Provider::Anthropic, "max_tokens: 99999 > 8192", false, false);
        check(Provider::Anthropic, "tools.1.defer_loading: Extra inputs are not permitted", true, false);
        check(Provider::Anthropic, "Tool reference 'x' not found in available tools", true, false);
        check(Provider::Anthropic, "messages.1.content.0: Invalid `signature` in `thinking` block", false, true);
        check(Provider::OpenAiResponses, "Unknown parameter: 'tools[0].defer_loading'.", true, false);
        check(Provider::OpenAiResponses, "Invalid value: 'tool_search'.", true, false);
        check(Provider::OpenAiResponses, "The encrypted content could not be verified.", false, true);
        check(Provider::Gemini, "API key not valid", false, false);
    }
}
