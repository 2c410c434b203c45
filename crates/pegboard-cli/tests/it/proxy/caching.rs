//! The provider's prompt cache, by the rules of the scripted provider. `rules.rs` has the marks of Messages, without which
//! that provider caches nothing.

use pegboard_testkit::provider::{Provider, Script, Wire};
use serde_json::Value;

use super::{
    RunningProxy,
    client::send,
    conversation::{Conversation, turns},
};

/// As many questions as make twenty turns of the model.
const QUESTIONS: usize = 10;

/// Returns how many tokens the provider reports as read, and how many of them came from its cache.
fn tokens(wire: Wire, whole: &Value) -> (u64, u64) {
    let (read, cached) = match wire {
        Wire::Chat => ("/usage/prompt_tokens", "/usage/prompt_tokens_details/cached_tokens"),
        Wire::Gemini => ("/usageMetadata/promptTokenCount", "/usageMetadata/cachedContentTokenCount"),
        _ => ("/usage/input_tokens", "/usage/input_tokens_details/cached_tokens"),
    };
    let number = |pointer: &str| whole.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    (number(read), number(cached))
}

#[test]
fn whatever_was_sent_before_is_read_from_the_cache() {
    for (wire, route) in [(Wire::Chat, "openai"), (Wire::Responses, "openai"), (Wire::Gemini, "gemini")] {
        for is_streamed in [false, true] {
            let about = format!("{wire:?} {is_streamed}");
            let provider = Provider::start(Script::new(turns(wire, QUESTIONS)));
            let proxy = RunningProxy::start("caching", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, is_streamed);
            let (mut read, mut cached, mut last) = (0, 0, 0);
            for question in 0..QUESTIONS {
                conversation.say(&format!("Question {question}"));
                loop {
                    let answer = conversation.send();
                    let (of_all, of_cache) = tokens(wire, &conversation.assemble(&answer));
                    assert!(read == 0 || of_cache > 0, "{about}: {}", answer.text());
                    (read, cached, last) = (read + of_all, cached + of_cache, of_all);
                    if conversation.take(&answer).calls.is_empty() {
                        break;
                    }
                    conversation.answer_calls();
                }
            }
            provider.assert_clean();
            let requests = provider.requests().len();
            assert!(requests > 2 * QUESTIONS, "{about}: there were no hidden rounds");
            // Of every request, hidden ones too, only what is new in it. The counts of each are rounded.
            let fresh = read - cached;
            assert!(
                fresh <= last + 2 * requests as u64,
                "{about}: {fresh} of {read} were not cached, {last} at the end"
            );

            let mut numbers = send(&proxy.url, "GET", "/proxy/status", &[], b"");
            numbers.finish();
            let counted = numbers.json()[route]["cacheReadTokens"].as_u64();
            assert_eq!(counted, Some(cached), "{about}: as the provider reports it");
        }
    }
}
