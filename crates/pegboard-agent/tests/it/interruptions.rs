//! What is cancelled, cut off or gone in the middle.

use std::{sync::atomic::Ordering, time::Duration};

use pegboard_agent::{AgentEvent, RunError};
use pegboard_testkit::provider::{Fault, Part, Provider, Script, ScriptedError, ScriptedTurn, Sending};
use serde_json::json;

use crate::support::{MODELS, Weather, agent, agent_of, call, last_body, provider, say};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_in_mid_call_can_be_followed_by_another() {
    for model in MODELS {
        let provider = Provider::start(Script::new([
            ScriptedTurn::say([Part::call("slow", json!({})), Part::call("get_weather", json!({"location": "Rome"}))]),
            say("Never mind."),
        ]));
        let weather = Weather::default();
        let agent = agent_of(model, &provider).servers([weather.config()]).build().await.expect("an agent");
        let mut run = agent.stream("Ask the slow one");
        while let Some(event) = run.next().await {
            if matches!(&event, AgentEvent::CallStarted { name, .. } if name == "slow") {
                break;
            }
        }
        weather.began.notified().await;
        run.cancel();
        let error = run.answer().await.expect_err("cancelled");
        assert!(matches!(error, RunError::Cancelled), "{model}: {error}");
        let answer = agent.run("Then not").await.expect("an answer");
        assert_eq!(answer.text, "Never mind.", "{model}");
        // On another thread, when that gets to it.
        let given_up = async {
            while !weather.dropped.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(60), given_up).await.is_ok(), "the server's work goes on");
        // What had a result by then keeps it.
        let body = last_body(&provider);
        assert!(body.contains("cancelled before it returned"), "{model}: {body}");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn a_dropped_future_cancels_too() {
    let provider = provider([call("slow", json!({})), say("Back again.")]);
    let weather = Weather::default();
    let agent = agent(&provider).servers([weather.config()]).build().await.expect("an agent");
    tokio::select! {
        _ = agent.run("Ask the slow one") => panic!("it never answers"),
        () = weather.began.notified() => {}
    }
    assert_eq!(agent.run("Hello?").await.expect("an answer").text, "Back again.");
    provider.assert_clean();
}

#[tokio::test]
async fn a_provider_that_fails_loses_nothing() {
    let refusal = ScriptedError { status: 401, message: Some("no".into()), ..ScriptedError::default() };
    let provider = provider([
        ScriptedTurn::Fail(Fault::Status(refusal.clone())),
        say("Hello."),
        call("get_weather", json!({"location": "Rome"})),
        ScriptedTurn::Fail(Fault::Status(refusal)),
        say("Sunny."),
    ]);
    let agent = agent(&provider).servers([Weather::default().config()]).build().await.expect("an agent");
    assert!(matches!(agent.run("first").await, Err(RunError::Turn(_))));
    assert_eq!(agent.run("second").await.expect("an answer").text, "Hello.");
    assert!(!last_body(&provider).contains("first"), "a question without an answer is taken back");
    assert!(matches!(agent.run("weather").await, Err(RunError::Turn(_))));
    assert_eq!(agent.run("go on").await.expect("an answer").text, "Sunny.");
    assert!(last_body(&provider).contains("sunny in Rome"), "what was found out stays");
    provider.assert_clean();
}

#[tokio::test]
async fn an_answer_that_is_cut_is_no_answer() {
    let provider = provider([
        say("It is sunny. ").sending(Sending::cut_after(40)),
        say("It is sunny. ").sending(Sending::cut_after(40)),
        say("Hello."),
    ]);
    let agent = agent(&provider).build().await.expect("an agent");
    while agent.run("Hi").await.is_err() {
        assert!(provider.turns_taken() < 3);
    }
    assert_eq!(agent.history().await.len(), 2);
}

#[tokio::test]
async fn two_runs_at_once_wait_for_each_other() {
    let provider = Provider::start(Script { repeat: true, ..Script::new([say("Hello.")]) });
    let agent = agent(&provider).build().await.expect("an agent");
    let both = async { tokio::join!(agent.run("one"), agent.run("two")) };
    let (one, two) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("in time");
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(agent.history().await.len(), 4);
    provider.assert_clean();
}
