//! Conversations with a scripted provider that refuses what the real ones refuse.

mod cache;
mod deliveries;
mod streams;

use std::{sync::Arc, time::Duration};

use pegboard_core::{Catalog, RawTool, Secret, Selection};
use pegboard_discovery::{DialectName, Session, Settings};
use pegboard_engine::Keyword;
use pegboard_llm::{
    Called, Client, Conversation, Delivery, Model, Provider, SendError, client,
    embeddings::{Embeddings, EndpointSettings},
    wire::{CallResult, Delta, Stop, ToolCall, Turn, Usage, Wire, WireError},
};
use pegboard_testkit::provider::{self, Fault, Part, Script, ScriptedError, Search, Sending};
use serde_json::{Value, json};

fn session(dialect: DialectName) -> Session {
    let tool = |server: &str, name: &str, description: &str| {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        RawTool {
            name: name.into(),
            description: description.into(),
            server: Some(server.into()),
            input_schema: serde_json::value::to_raw_value(&schema).ok(),
            deferred: Some(true),
            ..RawTool::default()
        }
    };
    let (catalog, _) = Catalog::from_tools(vec![
        tool("weather", "get_weather", "The weather of a city"),
        tool("weather", "get_air_quality", "How clean the air is"),
        tool("mail", "send_mail", "Send a mail"),
    ]);
    let ranker = Arc::new(Keyword::default());
    // So that the gateway has something to hide; the others do not look at it.
    let settings = Settings { max_tools_limit: 1, ..Settings::default() };
    Session::new(dialect, settings, catalog, Selection::everything(), ranker).expect("a session")
}

fn client(model: &Model, url: &str) -> Client {
    let base = match model.provider {
        Provider::Anthropic => url.to_owned(),
        Provider::OpenAi | Provider::OpenAiResponses => format!("{url}/v1"),
        Provider::Gemini => format!("{url}/v1beta"),
        Provider::MiniMax => format!("{url}/minimax/anthropic"),
        Provider::MiniMaxChat => format!("{url}/minimax/v1"),
    };
    let settings = client::Settings {
        timeout: Duration::from_secs(60),
        initial_backoff: Duration::from_millis(1),
        ..client::Settings::default()
    };
    let client = Client::new(model.provider, Secret::new("a-key")).expect("a client");
    client.with_base_url(base).with_settings(settings)
}

/// What the model does: search, call what was found, answer.
fn script(dialect: DialectName, delivery: Delivery) -> Script {
    let search = match (dialect, delivery) {
        (_, Delivery::ClientNative) => {
            Part::Search(Search { client: true, arguments: Some(json!({"query": "weather"})), ..Search::default() })
        }
        (DialectName::Select, _) => Part::call("tool_search", json!({"query": "weather"})),
        (DialectName::Schema, _) => Part::call("ToolSearch", json!({"query": "weather"})),
        (DialectName::Gateway, _) => Part::call("search_available_tools", json!({"query": "get_weather"})),
        _ => Part::call("search_tools", json!({"query": "weather"})),
    };
    let call = match dialect {
        DialectName::Bridge => Part::call("call_tool", json!({"name": "get_weather", "arguments": {"city": "Rome"}})),
        _ => Part::call("get_weather", json!({"city": "Rome"})),
    };
    let mut turns = vec![
        provider::ScriptedTurn::say([Part::thinking("I must look for it — où?"), search]),
        provider::ScriptedTurn::say([Part::text("Found it."), call]),
        provider::ScriptedTurn::say([Part::text("It is sunny in Rome ☀.")]),
    ];
    if dialect == DialectName::Explicit {
        let add = Part::call("add_tool", json!({"tool_names": ["get_weather"]}));
        turns.insert(1, provider::ScriptedTurn::say([add]));
    }
    let known_from = turns.len() - 2;
    // The gateway shows its first tool from the start.
    let hidden = if dialect == DialectName::Gateway { "send_mail" } else { "get_weather" };
    Script::new(turns).forbid("send_mail", 9).forbid(hidden, known_from)
}

/// Answers a call; the weather is always the same.
fn carry_out(conversation: &mut Conversation, call: &ToolCall) -> CallResult {
    match conversation.call(call) {
        Called::Answered(result) => result,
        Called::Invoke(target) => {
            let city = target.arguments["city"].as_str().unwrap_or("nowhere");
            CallResult::text(call.clone(), format!("sunny in {city}"))
        }
    }
}

/// Runs a conversation to its end; what was answered, and what was told on the way.
async fn converse(conversation: &mut Conversation, client: &Client, is_streamed: bool) -> (Turn, String) {
    let mut told = String::new();
    loop {
        let request = conversation.request(is_streamed).expect("a request");
        let turn = if is_streamed {
            let tell = |delta| {
                if let Delta::Text(text) = delta {
                    told.push_str(&text);
                }
            };
            client.stream(&request, tell).await
        } else {
            client.send(&request).await
        };
        let turn = turn.unwrap_or_else(|error| panic!("{}: {error}", conversation.model()));
        conversation.record_turn(&turn);
        if turn.stop != Stop::Tools {
            return (turn, told);
        }
        let results: Vec<CallResult> = turn.calls.iter().map(|call| carry_out(conversation, call)).collect();
        conversation.add_results(&results);
    }
}

async fn check(model: &str, dialect: DialectName, delivery: Delivery, sending: Sending, is_streamed: bool) {
    let about = format!("{model} {dialect:?} {delivery} {sending:?} streamed: {is_streamed}");
    let model = Model::parse(model).expect("a model");
    let mut script = script(dialect, delivery).sending(sending);
    if matches!(delivery, Delivery::Constant | Delivery::Reference | Delivery::ClientNative) {
        script = script.stable_prefix();
    }
    let provider = provider::Provider::start(script);
    let client = client(&model, provider.url());
    let conversation = Conversation::new(model, session(dialect), Some(delivery)).expect("a conversation");
    let mut conversation = conversation.with_system("Be brief.").with_max_tokens(1000);
    conversation.say("What is the weather in Rome?");
    let (turn, told) = converse(&mut conversation, &client, is_streamed).await;
    assert!(turn.text.contains("It is sunny in Rome ☀."), "{about}: {turn:?}");
    if is_streamed {
        assert!(told.ends_with(&turn.text), "{about}: {told}");
    }
    let wrong = provider.violations();
    assert!(wrong.is_empty(), "{about}: {wrong:?}");
    assert_eq!(provider.turns_taken(), if dialect == DialectName::Explicit { 4 } else { 3 }, "{about}");
}

/// Every pairing that makes sense.
fn pairings() -> Vec<(&'static str, DialectName, Delivery)> {
    use Delivery::{ClientNative, Constant, Inject, Reference};
    use DialectName::{Bridge, Explicit, Gateway, Schema, Select};
    let mut pairings = Vec::new();
    for model in [
        "anthropic/claude-opus-4-8",
        "openai/gpt-5.4",
        "openai-responses/gpt-5.4",
        "gemini/gemini-3-pro",
        "minimax/MiniMax-M3",
        "minimax-chat/MiniMax-M3",
    ] {
        pairings.push((model, Bridge, Constant));
        pairings.extend([Select, Schema, Explicit, Gateway].map(|dialect| (model, dialect, Inject)));
    }
    for dialect in [Select, Schema] {
        pairings.push(("openai-responses/gpt-5.4", dialect, ClientNative));
    }
    // The second one's thoughts are bound to everything that was said before them.
    for model in ["anthropic/claude-opus-4-8", "anthropic/claude-fable-5-1"] {
        pairings.push((model, Bridge, Constant));
        pairings.extend([Select, Schema, Explicit].map(|dialect| (model, dialect, Reference)));
    }
    pairings
}

#[tokio::test]
async fn search_load_call_answer() {
    for (model, dialect, delivery) in pairings() {
        check(model, dialect, delivery, Sending::default(), false).await;
        check(model, dialect, delivery, Sending::default(), true).await;
    }
}

#[tokio::test]
async fn streams_in_pieces_of_any_size_and_with_noise() {
    for (model, dialect, delivery) in pairings() {
        for size in [1, 3, 7, 64] {
            check(model, dialect, delivery, Sending::chunks_of(size), true).await;
        }
        check(model, dialect, delivery, Sending::noisy(), true).await;
    }
}

async fn one_turn(script: Script, model: &str, is_streamed: bool) -> Result<Turn, SendError> {
    let model = Model::parse(model).expect("a model");
    let provider = provider::Provider::start(script);
    let client = client(&model, provider.url());
    let mut conversation = Conversation::new(model, session(DialectName::Bridge), None).expect("a conversation");
    conversation.say("hi");
    let request = conversation.request(is_streamed).expect("a request");
    if is_streamed { client.stream(&request, |_| {}).await } else { client.send(&request).await }
}

const MODELS: [&str; 4] =
    ["anthropic/claude-opus-4-8", "openai/gpt-5.4", "openai-responses/gpt-5.4", "gemini/gemini-3-pro"];

#[tokio::test]
async fn busy_providers_are_asked_again() {
    for model in MODELS {
        for status in [429, 500, 503, 529] {
            let refusal = ScriptedError { status, retry_after: Some("0".into()), ..ScriptedError::default() };
            let turns = [
                provider::ScriptedTurn::Fail(Fault::Status(refusal)),
                provider::ScriptedTurn::Fail(Fault::Drop),
                provider::ScriptedTurn::say([Part::text("Hello.")]),
            ];
            for is_streamed in [false, true] {
                let turn = one_turn(Script::new(turns.clone()), model, is_streamed).await.expect("a turn");
                assert_eq!(turn.text, "Hello.", "{model} {status}");
            }
        }
    }
}

#[tokio::test]
async fn refusals_are_told_and_not_repeated() {
    for model in MODELS {
        let refusal = ScriptedError { status: 400, message: Some("no such thing".into()), ..ScriptedError::default() };
        let script = Script::new([
            provider::ScriptedTurn::Fail(Fault::Status(refusal)),
            provider::ScriptedTurn::say([Part::text("?")]),
        ]);
        let error = one_turn(script, model, false).await.expect_err("a refusal");
        assert!(error.is_refusal() && error.to_string().contains("no such thing"), "{model}: {error}");
        assert!(!format!("{error:?}").contains("a-key"), "a key in an error");
    }
}

#[tokio::test]
async fn streams_that_are_cut_are_no_turns() {
    for model in MODELS {
        for bytes in [0, 1, 40, 200] {
            // Long enough that no cut leaves it whole.
            let said = provider::ScriptedTurn::say([Part::text("It is sunny. ".repeat(50))])
                .sending(Sending::cut_after(bytes));
            let script = Script { repeat: true, ..Script::new([said]) };
            let error = one_turn(script, model, true).await.expect_err("a cut stream");
            let is_cut = matches!(
                &error,
                SendError::Wire(WireError::Incomplete) | SendError::Unreachable { .. } | SendError::Invalid(_)
            );
            assert!(is_cut, "{model} {bytes}: {error}");
        }
    }
}

#[tokio::test]
async fn parallel_calls_are_answered_together() {
    for model in MODELS {
        let search = |query: &str| Part::call("search_tools", json!({"query": query}));
        let turns = [
            provider::ScriptedTurn::say([search("weather"), search("mail")]),
            provider::ScriptedTurn::say([Part::text("Both found.")]),
        ];
        let provider = provider::Provider::start(Script::new(turns));
        let model = Model::parse(model).expect("a model");
        let client = client(&model, provider.url());
        let mut conversation = Conversation::new(model, session(DialectName::Bridge), None).expect("a conversation");
        conversation.say("hi");
        let (turn, _) = converse(&mut conversation, &client, true).await;
        assert_eq!(turn.text, "Both found.");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn a_refused_delivery_gives_way_to_a_simpler_one() {
    let refusal =
        ScriptedError { status: 400, message: Some("defer_loading: unknown field".into()), ..ScriptedError::default() };
    let mut turns = vec![provider::ScriptedTurn::Fail(Fault::Status(refusal))];
    turns.extend(script(DialectName::Select, Delivery::Inject).turns);
    let provider = provider::Provider::start(Script::new(turns));
    let model = Model::parse("anthropic/claude-opus-4-8").expect("a model");
    let client = client(&model, provider.url());
    let mut conversation = Conversation::new(model, session(DialectName::Select), None).expect("a conversation");
    assert_eq!(conversation.choice().delivery, Delivery::Reference);
    conversation.say("What is the weather in Rome?");
    let first = client.next_turn(&mut conversation, None).await.expect("a turn");
    assert_eq!(conversation.choice().delivery, Delivery::Inject);
    assert_eq!(conversation.choice().reason, "anthropic rejected delivery `reference`");
    let answers: Vec<CallResult> = first
        .calls
        .iter()
        .filter_map(|call| match conversation.call(call) {
            Called::Answered(result) => Some(result),
            Called::Invoke(_) => None,
        })
        .collect();
    conversation.add_results(&answers);
    let (turn, _) = converse(&mut conversation, &client, false).await;
    assert!(turn.text.contains("sunny"), "{turn:?}");
    provider.assert_clean();
}

#[tokio::test]
async fn native_search_is_left_to_the_provider() {
    for (model, namespace) in [("anthropic/claude-opus-4-8", None), ("openai-responses/gpt-5.4", Some("weather"))] {
        let found = namespace.unwrap_or("get_weather");
        let turns = [
            provider::ScriptedTurn::say([
                Part::search("weather", [found]),
                Part::call("get_weather", json!({"city": "Rome"})),
            ]),
            provider::ScriptedTurn::say([Part::text("It is sunny.")]),
        ];
        let provider = provider::Provider::start(Script::new(turns));
        let model = Model::parse(model).expect("a model");
        let client = client(&model, provider.url());
        let session = session(DialectName::Select);
        let mut conversation = Conversation::new(model, session, Some(Delivery::Native)).expect("a conversation");
        conversation.say("What is the weather in Rome?");
        let (turn, _) = converse(&mut conversation, &client, true).await;
        assert_eq!(turn.text, "It is sunny.");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn vectors_come_in_the_order_of_their_texts() {
    let provider = provider::Provider::start(Script::default());
    let settings = EndpointSettings::new(format!("{}/v1", provider.url()), "text-embedding-3-small");
    let embeddings = Embeddings::new(EndpointSettings { key: Some(Secret::new("k")), ..settings });
    let texts: Vec<String> = (0..600).map(|at| format!("text {at}")).collect();
    let vectors = embeddings.expect("a client").embed(&texts).await.expect("vectors");
    assert_eq!(vectors.len(), 600);
    assert_eq!(provider.requests().len(), 19, "in batches");
    let again: Vec<Value> = provider.requests().iter().map(|request| request.body["input"].clone()).collect();
    assert_eq!(again[0][0], "text 0");
}

// The provider is waited for without giving way; the connection must be closed meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_and_dropping_cancels() {
    for model in MODELS {
        let stalled =
            provider::ScriptedTurn::say([Part::text("It is sunny. ".repeat(50))]).sending(Sending::stall_after(60));
        let provider = provider::Provider::start(Script { repeat: true, ..Script::new([stalled]) });
        let model = Model::parse(model).expect("a model");
        let settings = client::Settings { timeout: Duration::from_secs(2), ..client::Settings::default() };
        let client = client(&model, provider.url()).with_settings(settings);
        let mut conversation = Conversation::new(model, session(DialectName::Bridge), None).expect("a conversation");
        conversation.say("hi");
        let request = conversation.request(true).expect("a request");
        let error = client.stream(&request, |_| {}).await.expect_err("silence");
        assert!(matches!(error, SendError::TimedOut(_)), "{error}");
        let is_gone = |requests: &[provider::Recorded]| requests.iter().all(|one| one.ending == provider::Ending::Gone);
        assert!(provider.wait_until(Duration::from_secs(60), is_gone), "the provider was not left");
    }
}
