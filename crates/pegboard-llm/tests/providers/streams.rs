//! Answers that are cut, empty, or none at all; calls without a name; plain endpoints.

use pegboard_testkit::provider::Check;

use super::*;

/// The turn that a model says after an answer that went wrong, and how often it was asked.
async fn after(first: provider::ScriptedTurn, model: &str) -> (Result<Turn, SendError>, usize) {
    let model = Model::parse(model).expect("a model");
    let provider = provider::Provider::start(Script::new([first, provider::ScriptedTurn::say([Part::text("Hello.")])]));
    let client = client(&model, provider.url());
    let mut conversation = Conversation::new(model, session(DialectName::Bridge), None).expect("a conversation");
    conversation.say("hi");
    let request = conversation.request(true).expect("a request");
    let turn = client.stream(&request, |_| {}).await;
    (turn, provider.turns_taken())
}

#[tokio::test]
async fn a_cut_before_anything_was_shown_is_tried_again() {
    let check = async |model: &str, parts: Vec<Part>, bytes: usize, asked: usize| {
        let cut = provider::ScriptedTurn::say(parts).sending(Sending::cut_after(bytes));
        let (turn, times) = after(cut, model).await;
        assert_eq!(times, asked, "{model} {bytes}: {turn:?}");
        assert_eq!(turn.is_ok(), asked == 2, "{model} {bytes}: {turn:?}");
    };
    for model in MODELS {
        let text = || vec![Part::text("It is sunny. ".repeat(500))];
        for bytes in [0, 1, 40] {
            check(model, text(), bytes, 2).await;
        }
        check(model, text(), 6000, 1).await;
        // A call that was begun was not carried out.
        let long = json!({"query": "weather ".repeat(500)});
        check(model, vec![Part::call("search_tools", long)], 3000, 2).await;
    }
    // Chat Completions begins with a piece that says nothing.
    check("openai/gpt-5.4", vec![Part::text("It is sunny. ".repeat(500))], 250, 2).await;
}

#[tokio::test]
async fn pages_and_empty_bodies_are_named() {
    let page = "<!doctype html><html><head><title>Sign in</title></head></html>";
    let check = async |status: u16, text: &str, expected: &str| {
        for model in MODELS {
            for is_streamed in [false, true] {
                let refusal = ScriptedError { status, text: Some(text.into()), ..ScriptedError::default() };
                let turns = [provider::ScriptedTurn::Fail(Fault::Status(refusal))];
                let script = Script { repeat: true, ..Script::new(turns) };
                let error = one_turn(script, model, is_streamed).await.expect_err("no turn");
                assert_eq!(error.to_string(), expected, "{model} streamed: {is_streamed}");
            }
        }
    };
    let expected = "the provider answered with an HTML page (`Sign in`), not with JSON; check the base URL";
    check(200, page, expected).await;
    check(200, "", "the provider answered with an empty body").await;
    check(404, page, "the provider answered with HTTP status 404: an HTML page (`Sign in`)").await;
    check(401, "", "the provider answered with HTTP status 401: (empty body)").await;
}

#[tokio::test]
async fn a_call_without_a_name_goes_back_to_the_model() {
    for model in MODELS.into_iter().chain(["minimax-chat/MiniMax-M3"]) {
        for is_streamed in [false, true] {
            let turns = [
                provider::ScriptedTurn::say([Part::call("", json!({"city": "Rome"}))]),
                provider::ScriptedTurn::say([Part::text("Sorry.")]),
            ];
            let provider = provider::Provider::start(Script::new(turns));
            let model = Model::parse(model).expect("a model");
            let client = client(&model, provider.url());
            let mut conversation =
                Conversation::new(model, session(DialectName::Bridge), None).expect("a conversation");
            conversation.say("hi");
            let (turn, _) = converse(&mut conversation, &client, is_streamed).await;
            assert_eq!(turn.text, "Sorry.", "{}", conversation.model());
            let last = provider.requests().pop().expect("a request").body.to_string();
            assert!(last.contains("the call has no tool name"), "{}: {last}", conversation.model());
            provider.assert_clean();
        }
    }
}

/// Ollama, vLLM, LM Studio: Chat Completions under another base URL, without a key, and with
/// models that nobody here has heard of.
#[tokio::test]
async fn plain_compatible_endpoints() {
    for (dialect, delivery) in [
        (DialectName::Bridge, Delivery::Constant),
        (DialectName::Select, Delivery::Inject),
        (DialectName::Gateway, Delivery::Inject),
    ] {
        for is_streamed in [false, true] {
            let model = Model::parse("openai/qwen3:8b").expect("a model");
            let provider = provider::Provider::start(script(dialect, delivery).without(Check::Auth));
            let client = Client::without_key(model.provider).expect("a client");
            let client = client.with_base_url(format!("{}/v1/", provider.url()));
            let client = client.with_header("x-team", Secret::new("search"));
            let mut conversation = Conversation::new(model, session(dialect), None).expect("a conversation");
            assert_eq!(conversation.choice().delivery, delivery);
            conversation.say("What is the weather in Rome?");
            let (turn, _) = converse(&mut conversation, &client, is_streamed).await;
            assert!(turn.text.contains("It is sunny in Rome"), "{turn:?}");
            for request in provider.requests() {
                assert_eq!((request.header("authorization"), request.header("x-team")), (None, Some("search")));
            }
            provider.assert_clean();
        }
    }
}
