//! What conversations leave in the caches of their providers.

use pegboard_llm::wire::PromptCache;

use super::*;

/// Runs the usual conversation and returns its usage, turn by turn, as the provider counted it.
async fn usages(model: &str, dialect: DialectName, delivery: Delivery, cache: PromptCache) -> Vec<Usage> {
    let model = Model::parse(model).expect("a model");
    let provider = provider::Provider::start(script(dialect, delivery));
    let client = client(&model, provider.url());
    let conversation = Conversation::new(model, session(dialect), Some(delivery)).expect("a conversation");
    let mut conversation = conversation.with_system("Be brief.").with_cache(cache);
    conversation.say("What is the weather in Rome?");
    let mut usages = Vec::new();
    loop {
        let turn = client.next_turn(&mut conversation, None).await.expect("a turn");
        usages.push(turn.usage);
        if turn.calls.is_empty() {
            provider.assert_clean();
            return usages;
        }
        let results: Vec<CallResult> = turn.calls.iter().map(|call| carry_out(&mut conversation, call)).collect();
        conversation.add_results(&results);
    }
}

/// Every request reads what the one before it held, and leaves nothing uncached.
#[tokio::test]
async fn the_stable_prefix_is_read_from_the_cache() {
    let check = async |model: &str, dialect: DialectName, delivery: Delivery| {
        let usages = usages(model, dialect, delivery, PromptCache::Breakpoints).await;
        let about = format!("{model} {dialect:?} {delivery}: {usages:?}");
        assert_eq!(usages[0].cached, 0, "{about}");
        for (before, after) in usages.iter().zip(&usages[1..]) {
            // Both are rounded.
            assert!(after.cached + 1 >= before.cached + before.cache_written, "{about}");
            assert!(after.cached > 0 && after.cache_written > 0, "{about}");
        }
        assert!(usages.iter().all(|usage| usage.input - usage.cached - usage.cache_written <= 1), "{about}");
    };
    for model in ["anthropic/claude-opus-4-8", "minimax/MiniMax-M3"] {
        check(model, DialectName::Bridge, Delivery::Constant).await;
    }
    check("anthropic/claude-opus-4-8", DialectName::Select, Delivery::Reference).await;
    check("anthropic/claude-fable-5-1", DialectName::Schema, Delivery::Reference).await;
}

#[tokio::test]
async fn nothing_is_marked_where_the_cache_is_off() {
    let usages = usages("anthropic/claude-opus-4-8", DialectName::Bridge, Delivery::Constant, PromptCache::Off).await;
    assert!(usages.iter().all(|usage| usage.cached + usage.cache_written == 0), "{usages:?}");
}

#[tokio::test]
async fn extra_fields_are_in_every_request() {
    for model in MODELS {
        let model = Model::parse(model).expect("a model");
        let turns =
            [provider::ScriptedTurn::say([Part::text("Hello.")]), provider::ScriptedTurn::say([Part::text("Again.")])];
        let provider = provider::Provider::start(Script::new(turns));
        let client = client(&model, provider.url());
        let extra = json!({"metadata": {"user_id": "u"}}).as_object().cloned().expect("an object");
        let conversation = Conversation::new(model, session(DialectName::Bridge), None).expect("a conversation");
        let mut conversation = conversation.with_extra(extra);
        for _ in 0..2 {
            conversation.say("hi");
            client.next_turn(&mut conversation, None).await.expect("a turn");
        }
        let requests = provider.requests();
        assert_eq!(requests.len(), 2);
        assert!(requests.iter().all(|request| request.body["metadata"]["user_id"] == "u"), "{}", conversation.model());
    }
}

/// A compatible endpoint that does not know breakpoints is asked without them.
#[tokio::test]
async fn refused_breakpoints_are_left_out() {
    let message = Some("system.0.cache_control: Extra inputs are not permitted".to_owned());
    let refused =
        provider::ScriptedTurn::Fail(Fault::Status(ScriptedError { status: 400, message, ..ScriptedError::default() }));
    let turns = [
        refused,
        provider::ScriptedTurn::say([Part::text("Hello.")]),
        provider::ScriptedTurn::say([Part::text("Again.")]),
    ];
    let provider = provider::Provider::start(Script::new(turns));
    let model = Model::parse("minimax/MiniMax-M3").expect("a model");
    let client = client(&model, provider.url());
    let mut conversation = Conversation::new(model, session(DialectName::Bridge), None).expect("a conversation");
    for _ in 0..2 {
        conversation.say("hi");
        client.next_turn(&mut conversation, None).await.expect("a turn");
    }
    let is_marked: Vec<bool> =
        provider.requests().iter().map(|request| request.body.to_string().contains("cache_control")).collect();
    assert_eq!(is_marked, [true, false, false]);
}
