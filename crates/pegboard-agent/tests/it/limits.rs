//! How far a run may go.

use pegboard_agent::{BuildError, LimitReached, Prices, RunError, RunLimits};
use pegboard_testkit::provider::{Provider, Script};
use serde_json::json;

use crate::support::{Weather, agent, call, provider, results, run, say};

fn endless() -> Provider {
    let search = call("search_tools", json!({"query": "weather"}));
    Provider::start(Script { repeat: true, ..Script::new([search]) })
}

#[tokio::test]
async fn turns() {
    let provider = endless();
    let limits = RunLimits { turns: 3, ..RunLimits::default() };
    let builder = agent(&provider).servers([Weather::default().config()]).limits(limits);
    let agent = builder.build().await.expect("an agent");
    for round in 1..=2 {
        let error = agent.run("Search").await.expect_err("a limit");
        assert!(matches!(error, RunError::Limit(LimitReached::Turns(3))), "{error}");
        assert!(error.hint().is_some());
        assert_eq!(provider.turns_taken(), 3 * round, "it can go on");
    }
    provider.assert_clean();
}

#[tokio::test]
async fn tokens_and_cost() {
    let prices = Prices { input: 1e6, cached: 1e6, output: 1e6 };
    for (limits, is_cost) in [
        (RunLimits { tokens: Some(1), ..RunLimits::default() }, false),
        (RunLimits { cost: Some(0.5), ..RunLimits::default() }, true),
    ] {
        let provider = endless();
        let builder = agent(&provider).servers([Weather::default().config()]).limits(limits).prices(prices);
        let agent = builder.build().await.expect("an agent");
        for _ in 0..2 {
            let error = agent.run("Search").await.expect_err("a limit");
            let is_it = match &error {
                RunError::Limit(LimitReached::Cost { spent, .. }) => is_cost && *spent > 0.5,
                RunError::Limit(LimitReached::Tokens { spent, .. }) => !is_cost && *spent > 1,
                _ => false,
            };
            assert!(is_it, "{error}");
        }
        assert_eq!(provider.turns_taken(), 1, "and not a turn more");
    }
    let provider = provider([say("?")]);
    let limits = RunLimits { cost: Some(1.0), ..RunLimits::default() };
    let error = agent(&provider).limits(limits).build().await.expect_err("no prices");
    assert!(matches!(error, BuildError::NoPrices));
}

#[tokio::test]
async fn prices() {
    let prices = Prices { input: 3.0, cached: 0.3, output: 15.0 };
    let usage = pegboard_agent::Usage { input: 1_000_000, cached: 500_000, output: 100_000, ..Default::default() };
    assert!((prices.cost(usage) - (1.5 + 0.15 + 1.5)).abs() < 1e-9);
}

#[tokio::test]
async fn time_of_a_tool() {
    let provider = provider([call("slow", json!({})), say("It took too long.")]);
    let limits = RunLimits { tool_time: std::time::Duration::from_millis(30), ..RunLimits::default() };
    let weather = Weather::default();
    let agent = agent(&provider).servers([weather.config()]).limits(limits).build().await.expect("an agent");
    let (events, _) = run(&agent, "Ask").await;
    let (_, text, is_error) = &results(&events)[0];
    assert!(*is_error && text.contains("no response within"), "{text}");
    provider.assert_clean();
}

#[tokio::test]
async fn bytes_of_an_output() {
    let provider = provider([call("large", json!({"bytes": 5000})), say("Too much.")]);
    let limits = RunLimits { output_bytes: 4000, ..RunLimits::default() };
    let builder = agent(&provider).servers([Weather::default().config()]).limits(limits);
    let agent = builder.build().await.expect("an agent");
    let (events, _) = run(&agent, "All of it").await;
    let (_, text, is_error) = &results(&events)[0];
    assert!(*is_error && text.contains("over the limit of 4000"), "{text}");
    provider.assert_clean();
}
