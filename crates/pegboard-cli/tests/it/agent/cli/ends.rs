//! Exit codes of `pegboard agent`.

use pegboard_testkit::provider::Stop;

use super::*;

#[test]
fn wrong_use_is_exit_two_with_the_reason() {
    let place = Place::new("wrong", []);
    place.file("broken.json", &json!({"mcpServers": []}));
    let show = |args: &[&str]| format!("$ pegboard agent {}\n{}", args.join(" "), show(&place.run(args)));
    insta::assert_snapshot!(
        [
            show(&["hello"]),
            show(&["hello", "--model", "gpt-5"]),
            show(&["hello", "--model", "openai/gpt-5"]),
            show(&["hello", "there", "--model", MODEL]),
            show(&["missing.json", "--model", MODEL]),
            show(&["broken.json", "hello", "--model", MODEL]),
            show(&["--model", MODEL]),
            show(&["hello", "--model", MODEL, "--dialect", "bridge", "--mode", "normal"]),
            show(&["hello", "--model", MODEL, "--delivery", "client-native"]),
            show(&["hello", "--model", MODEL, "--max-cost", "1"]),
            show(&["hello", "--model", MODEL, "--prices", "1"]),
            show(&["hello", "--model", MODEL, "--yes", "--approve", "always"]),
            show(&["hello", "--model", MODEL, "--log-level", "loud"]),
        ]
        .join("\n")
    );
    assert!(place.provider.requests().is_empty());
}

#[test]
fn a_provider_that_cannot_be_reached_is_exit_two() {
    let place = Place::new("unreachable", []);
    // Nothing listens on the discard port of the loopback.
    let mut command = place.command(&["--model", MODEL, "hello"]);
    let output = command.env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9").output().expect("the binary ends");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot reach the provider"), "{}", stderr(&output));
}

#[test]
fn a_provider_that_refuses_is_exit_two() {
    let place = Place::new("refused", [ScriptedTurn::status(401)]);
    insta::assert_snapshot!(show(&place.ask(&["hello"])));
}

#[test]
fn limits_are_exit_one() {
    let place = Place::new("turns", errand());
    insta::assert_snapshot!(show(&place.ask(&["Which issues are open?", "--max-turns", "2"])));
    let place = Place::new("cost", errand());
    let output = place.ask(&["Which issues are open?", "--max-cost", "0.001", "--prices", "1,5", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let last: Value = serde_json::from_str(text(&output.stdout).lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["event"], &last["kind"]), (&json!("error"), &json!("limit")));
    let place = Place::new("tokens", errand());
    assert_eq!(place.ask(&["Which issues are open?", "--max-tokens", "100"]).status.code(), Some(1));
}

#[test]
fn answers_that_are_none_are_exit_one() {
    for (name, stop) in [("refusal", Stop::Refusal), ("length", Stop::MaxTokens)] {
        let place = Place::new(name, [turn_ending([Part::text("I will not")], Some(stop))]);
        insta::assert_snapshot!(name, show(&place.ask(&["hello"])));
    }
}

#[cfg(unix)]
#[test]
fn who_is_stopped_keeps_the_conversation() {
    use pegboard_testkit::provider::Sending;

    for signal in ["INT", "TERM"] {
        let stalled = say("A long answer").sending(Sending::stall_after(200));
        let place = Place::new(&format!("stop-{signal}"), [errand()[0].clone(), stalled, say("Hello.")]);
        let child = place.start(&["hello", "--transcript", "talk.json"]);
        assert!(place.provider.wait_until(PATIENCE, |requests| requests.len() == 2), "there was no second turn");
        let killed = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
        assert!(killed.expect("`kill` runs").success());
        let output = child.wait_with_output().expect("it ends");
        insta::assert_snapshot!("stopped", show(&output));
        let output = place.ask(&["hello again", "--transcript", "talk.json"]);
        assert_eq!(text(&output.stdout), "Hello.\n", "{}", stderr(&output));
        place.provider.assert_clean();
    }
}
