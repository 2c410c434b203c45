//! Each thing that may happen to a history, by itself.

use std::sync::Arc;

use pegboard_core::{Catalog, Selection};
use pegboard_discovery::{DialectName, Session, Settings};
use pegboard_engine::Keyword;
use pegboard_llm::{
    Conversation, Delivery, TurnError,
    wire::{self, ToolChoice, Wire},
};
use pegboard_testkit::provider::{self, Fault, Part, Script, ScriptedError, Stop};
use serde_json::{Value, json};

use crate::support::{BOUND, FREE, NAMES, ScriptedConversation, catalog, client, model, raw};

/// One of each wire, those of MiniMax included.
const MODELS: [&str; 7] = [
    FREE,
    BOUND,
    "openai/gpt-5.4",
    "openai-responses/gpt-5.4",
    "gemini/gemini-3-pro",
    "minimax/MiniMax-M3",
    "minimax-chat/MiniMax-M3",
];

const ANTHROPIC: [&str; 2] = [FREE, BOUND];

/// The definition of `name` in the last request says that it is deferred.
fn is_deferred(scripted: &ScriptedConversation, name: &str) -> bool {
    scripted.defined(name).unwrap_or_else(|| panic!("`{name}` is not in {}", scripted.last()))["defer_loading"] == true
}

fn thinks(scripted: &ScriptedConversation) -> bool {
    scripted.last()["messages"].to_string().contains("\"thinking\"")
}

async fn loaded(text: &str, dialect: DialectName) -> ScriptedConversation {
    let mut scripted = ScriptedConversation::new(text, dialect, None);
    scripted.conversation.say("What is the weather?");
    scripted.load("get_weather").await;
    scripted.end().await;
    assert!(is_deferred(&scripted, "get_weather"), "{text}");
    scripted.conversation.say("And?");
    scripted
}

#[tokio::test]
async fn references_to_tools_that_are_gone() {
    for text in ANTHROPIC {
        for dialect in [DialectName::Select, DialectName::Explicit] {
            let mut scripted = loaded(text, dialect).await;
            scripted.resume(text, dialect, catalog(&["read_file"]), None);
            scripted.end().await;
            let stub = scripted.defined("get_weather").expect("a stub");
            assert_eq!((&stub["defer_loading"], &stub["input_schema"]["type"]), (&json!(true), &json!("object")));
            assert!(!stub.to_string().contains("of_get_weather"), "{stub}");
            // It is back, and is what it was.
            scripted.conversation.session_mut().update(catalog(&NAMES));
            scripted.conversation.say("And now?");
            scripted.end().await;
            assert!(scripted.defined("get_weather").expect("a tool").to_string().contains("of_get_weather"));
        }
    }
}

#[tokio::test]
async fn references_to_tools_that_were_put_away() {
    for text in ANTHROPIC {
        let mut scripted = loaded(text, DialectName::Explicit).await;
        scripted.call(Part::call("remove_tool", json!({"tool_names": ["get_weather"]}))).await;
        scripted.resume(text, DialectName::Explicit, catalog(&NAMES), None);
        scripted.end().await;
        assert!(is_deferred(&scripted, "get_weather"), "there, and not in sight");
        // The session keeps two.
        for name in ["send_mail", "read_file", "get_weather"] {
            scripted.conversation.say("More.");
            scripted.load(name).await;
        }
        scripted.resume(text, DialectName::Select, catalog(&NAMES), None);
        scripted.end().await;
        scripted.compact();
        scripted.end().await;
    }
}

/// What becomes visible without a search is seen.
#[tokio::test]
async fn tools_that_come_later_are_seen() {
    for text in MODELS {
        let mut scripted = ScriptedConversation::new(text, DialectName::Schema, None);
        scripted.conversation.say("hi");
        scripted.load("get_weather").await;
        scripted.end().await;
        let mut tools: Vec<_> = NAMES.iter().map(|name| raw(name, true)).collect();
        tools.push(raw("late", false));
        scripted.conversation.session_mut().update(Catalog::from_tools(tools).0);
        scripted.conversation.say("And now?");
        scripted.end().await;
        assert!(!is_deferred(&scripted, "late"), "{text}");
        // Nothing else was moved by it, nor by another process.
        let is_found =
            |scripted: &ScriptedConversation| scripted.defined("get_weather").map(|tool| tool["defer_loading"] == true);
        let before = is_found(&scripted);
        let catalog = scripted.conversation.session().catalog().clone();
        scripted.resume(text, DialectName::Schema, catalog, None);
        scripted.conversation.say("And then?");
        scripted.end().await;
        assert!(!is_deferred(&scripted, "late"), "{text}");
        assert_eq!(is_found(&scripted), before, "{text}");
    }
}

#[tokio::test]
async fn a_tool_that_nothing_refers_to_any_more_is_seen() {
    let mut scripted = ScriptedConversation::new(FREE, DialectName::Explicit, None);
    scripted.conversation.say("hi");
    scripted.end().await;
    let mark = scripted.conversation.messages().len();
    scripted.conversation.say("What is the weather?");
    scripted.load("get_weather").await;
    scripted.end().await;
    assert!(is_deferred(&scripted, "get_weather"));
    scripted.conversation.rewind(mark);
    scripted.conversation.say("What is the weather, again?");
    scripted.end().await;
    assert!(!is_deferred(&scripted, "get_weather"), "it is loaded, and the reference is gone");
}

/// Thoughts stay while they can, and go when they must.
#[tokio::test]
async fn bound_thoughts() {
    let mut scripted = loaded(BOUND, DialectName::Explicit).await;
    scripted.end().await;
    assert!(thinks(&scripted), "nothing has changed");
    for change in 0..5 {
        let mut scripted = loaded(BOUND, DialectName::Explicit).await;
        match change {
            0 => {
                let (more, _) = Catalog::from_tools(vec![raw("get_weather", true)]);
                scripted.resume(BOUND, DialectName::Explicit, more, None);
            }
            1 => drop(scripted.conversation.fall_back()),
            2 => drop(scripted.call(Part::call("send_mail", json!({"a": 1}))).await),
            3 => scripted.conversation.resume(scripted.conversation.messages()[1..].to_vec()),
            _ => {
                let mut tools: Vec<_> = NAMES.iter().map(|name| raw(name, true)).collect();
                tools.push(raw("search_tools", false));
                scripted.conversation.session_mut().update(Catalog::from_tools(tools).0);
                scripted.conversation.set_tool_choice(ToolChoice::None);
            }
        }
        scripted.end().await;
        scripted.conversation.set_tool_choice(ToolChoice::Auto);
        // What is thought from here on stays again.
        scripted.conversation.say("And?");
        scripted.end().await;
        assert!(thinks(&scripted), "change {change}");
    }
}

#[tokio::test]
async fn thoughts_that_the_provider_alone_knows_to_be_bound() {
    // The model is not known to bind, and the provider does.
    let mut scripted = ScriptedConversation::new(FREE, DialectName::Explicit, None);
    scripted.provider = provider::Provider::start(Script::default().bind_thinking());
    scripted.conversation.say("hi");
    scripted.end().await;
    scripted.resume(FREE, DialectName::Explicit, catalog(&NAMES), None);
    scripted.conversation.say("And?");
    let said = |text: &str| provider::ScriptedTurn::say([Part::thinking("hm"), Part::text(text)]);
    scripted.provider.go_on([said("Here."), said("There.")]);
    let client = client(scripted.conversation.model(), scripted.provider.url());
    let turn = client.next_turn(&mut scripted.conversation, None).await.expect("a turn");
    assert_eq!((turn.text.as_str(), thinks(&scripted)), ("Here.", false));
    scripted.conversation.say("And?");
    let turn = client.next_turn(&mut scripted.conversation, None).await.expect("a turn");
    assert_eq!((turn.text.as_str(), thinks(&scripted)), ("There.", true), "its own thoughts it takes");
    assert_eq!(scripted.provider.violations().len(), 1, "{:?}", scripted.provider.violations());
}

#[tokio::test]
async fn calls_that_were_cut() {
    for text in MODELS {
        for is_streamed in [false, true] {
            for cut in [json!("{\"city\": \"Ro"), json!({}), Value::Null] {
                let about = format!("{text} {is_streamed} {cut}");
                let mut scripted = ScriptedConversation::new(text, DialectName::Bridge, None);
                scripted.is_streamed = is_streamed;
                scripted.conversation.say("hi");
                let parts = vec![Part::call("call_tool", json!({"name": "x"})), Part::call("search_tools", cut)];
                let turn = scripted.hear(parts, Some(Stop::MaxTokens)).await;
                assert_eq!(turn.stop, wire::Stop::Length, "{about}");
                assert_eq!(turn.calls[0].arguments, json!({"name": "x"}), "{about}: what stands before it is whole");
                assert_eq!(turn.calls[1].arguments, Value::Null, "{about}");
                scripted.answer(&turn, "done");
                scripted.end().await;
            }
        }
        // Without a limit in the way, nothing is what was meant.
        let mut scripted = ScriptedConversation::new(text, DialectName::Bridge, None);
        scripted.conversation.say("hi");
        let turn = scripted.hear(vec![Part::call("search_tools", json!({}))], None).await;
        assert_eq!((turn.stop, &turn.calls[0].arguments), (wire::Stop::Tools, &json!({})), "{text}");
    }
}

#[tokio::test]
async fn turns_and_results_without_a_word() {
    for text in MODELS {
        for is_streamed in [false, true] {
            let mut scripted = ScriptedConversation::new(text, DialectName::Bridge, None);
            scripted.is_streamed = is_streamed;
            scripted.conversation.say("hi");
            let before = scripted.conversation.messages().len();
            let turn = scripted.hear(Vec::new(), None).await;
            assert!(turn.echo.is_empty(), "{text}: {:?}", turn.echo);
            assert_eq!(scripted.conversation.messages().len(), before);
            scripted.conversation.say("hello?");
            let turn = scripted.hear(vec![Part::call("call_tool", json!({"name": "read_file"}))], None).await;
            scripted.answer(&turn, "");
            scripted.end().await;
            assert!(scripted.last().to_string().contains("(no output)"), "{text}");
            scripted.conversation.say("");
            scripted.end().await;
            scripted.conversation.say("and?");
            scripted.hear(vec![Part::thinking("hm")], Some(Stop::MaxTokens)).await;
            scripted.conversation.say("so?");
            scripted.end().await;
        }
    }
}

#[tokio::test]
async fn pauses_that_end_otherwise() {
    let begun = |id: &str| Part::Raw(json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}}));
    for text in [FREE, BOUND, "minimax/MiniMax-M3"] {
        for parts in
            [vec![begun("srvtoolu_1")], vec![Part::thinking("hm"), Part::text("Let me see."), begun("srvtoolu_1")]]
        {
            let mut scripted = ScriptedConversation::new(text, DialectName::Bridge, None);
            scripted.conversation.say("hi");
            let turn = scripted.hear(parts.clone(), Some(Stop::Pause)).await;
            assert_eq!(turn.stop, wire::Stop::Pause);
            // It may go on ...
            let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
            scripted.hear(vec![Part::Raw(found), Part::text("Found.")], None).await;
            // ... or be left, in this process or in another.
            scripted.conversation.say("more");
            scripted.hear(vec![Part::text("Let me see."), begun("srvtoolu_2")], Some(Stop::Pause)).await;
            scripted.conversation.say("never mind");
            let left = Value::from(scripted.conversation.messages()).to_string();
            assert!(!left.contains("srvtoolu_2") && left.contains("srvtoolu_1"), "{left}");
            scripted.hear(vec![begun("srvtoolu_3")], Some(Stop::Pause)).await;
            let mut messages = scripted.conversation.messages().to_vec();
            messages.push(Wire::Anthropic.user("go on"));
            scripted.conversation.resume(messages);
            scripted.end().await;
        }
    }
}

#[tokio::test]
async fn another_model_of_the_same_wire() {
    for (from, to) in [
        (FREE, "anthropic/claude-opus-4-1"),
        (BOUND, FREE),
        (BOUND, "minimax/MiniMax-M3"),
        ("openai-responses/gpt-5.4", "openai-responses/gpt-5.3-codex"),
        ("minimax-chat/MiniMax-M3", "openai/gpt-5.4"),
        ("gemini/gemini-2.5-pro", "gemini/gemini-3-pro"),
        ("gemini/gemini-3-pro", "gemini/gemini-2.5-pro"),
    ] {
        let mut scripted = ScriptedConversation::new(from, DialectName::Select, None);
        scripted.conversation.say("What is the weather?");
        scripted.load("get_weather").await;
        scripted.call(Part::call("get_weather", json!({"a": 1}))).await;
        scripted.resume(to, DialectName::Select, catalog(&NAMES), None);
        scripted.end().await;
        let body = scripted.last().to_string();
        assert!(body.contains("of_get_weather"), "{from} {to}: what was found is still there");
        for kind in ["\"thinking\"", "\"reasoning\"", "reasoning_content", "encrypted_content\":"] {
            assert!(!body.contains(kind), "{from} {to}: {kind} in {body}");
        }
        // And back again.
        scripted.resume(from, DialectName::Select, catalog(&NAMES), None);
        scripted.conversation.say("And?");
        scripted.end().await;
        assert!(scripted.last().to_string().contains("of_get_weather"), "{from} {to}");
    }
}

#[tokio::test]
async fn a_delivery_that_was_given_up_leaves_no_trace() {
    for (text, wish) in [
        (FREE, Delivery::Reference),
        (BOUND, Delivery::Reference),
        (FREE, Delivery::Native),
        ("openai-responses/gpt-5.4", Delivery::ClientNative),
        ("openai-responses/gpt-5.4", Delivery::Native),
    ] {
        let mut scripted = ScriptedConversation::new(text, DialectName::Select, Some(wish));
        scripted.conversation.say("What is the weather?");
        scripted.load("get_weather").await;
        scripted.end().await;
        assert!(scripted.conversation.fall_back());
        scripted.conversation.say("And?");
        scripted.end().await;
        let body = scripted.last();
        for trace in ["tool_reference", "defer_loading", "tool_search_tool", "tool_search_output", "namespace"] {
            assert!(!body.to_string().contains(trace), "{text} {wish}: {trace} in {body:#}");
        }
    }
}

/// A provider that answers with `refusals`, then speaks; what it was asked is left in it.
async fn refused(refusals: &[&str]) -> (ScriptedConversation, Result<wire::Turn, TurnError>) {
    let mut scripted = loaded(FREE, DialectName::Select).await;
    let refusal =
        |text: &&str| ScriptedError { status: 400, message: Some((*text).to_owned()), ..ScriptedError::default() };
    let failures = refusals.iter().map(|text| provider::ScriptedTurn::Fail(Fault::Status(refusal(text))));
    scripted.provider.go_on(failures.chain([provider::ScriptedTurn::say([Part::text("Done.")])]));
    let client = client(&model(FREE), scripted.provider.url());
    let turn = client.next_turn(&mut scripted.conversation, None).await;
    (scripted, turn)
}

#[tokio::test]
async fn only_a_refusal_of_the_delivery_changes_it() {
    let (scripted, turn) = refused(&["Your credit balance is too low"]).await;
    assert!(turn.expect_err("a refusal").to_string().contains("credit balance"));
    assert_eq!(scripted.conversation.choice().delivery, Delivery::Reference);

    let (scripted, turn) = refused(&["tools.3.defer_loading: Extra inputs are not permitted"]).await;
    assert_eq!(turn.expect("a turn").text, "Done.");
    assert_eq!(scripted.conversation.choice().delivery, Delivery::Inject);

    let (mut scripted, turn) = refused(&["defer_loading: not for you", "and neither is this"]).await;
    assert!(turn.expect_err("a refusal").to_string().contains("not for you"), "the first one is told");
    assert_eq!(scripted.conversation.choice().delivery, Delivery::Reference);
    scripted.conversation.remove_unanswered();
    scripted.conversation.say("Once more.");
    scripted.end().await;
    assert!(is_deferred(&scripted, "get_weather"), "all is as it was");
    assert!(thinks(&scripted));
}

#[tokio::test]
async fn names_that_only_the_model_knows() {
    for text in MODELS {
        let mut scripted = ScriptedConversation::new(text, DialectName::Select, None);
        scripted.conversation.say("hi");
        for name in ["world/get_weather", "functions.send_mail", "world get_weather", "GetWeather"] {
            scripted.call(Part::call(name, json!({"a": 1}))).await;
        }
        scripted.end().await;
    }
}

#[tokio::test]
async fn a_list_that_has_become_too_long_is_cleared() {
    let names: Vec<String> = (0..900).map(|at| format!("tool_{at}")).collect();
    let (catalog, _) = Catalog::from_tools(names.iter().map(|name| raw(name, true)).collect());
    let ranker = Arc::new(Keyword::default());
    let settings = Settings { max_loaded: 20, ..Settings::default() };
    let session = Session::expecting(DialectName::Explicit, settings, catalog, Selection::everything(), ranker);
    let mut scripted = ScriptedConversation::new("gemini/gemini-3-pro", DialectName::Explicit, None);
    scripted.conversation = Conversation::new(model("gemini/gemini-3-pro"), session, None).expect("a conversation");
    scripted.conversation.say("All of them.");
    for names in names.chunks(20) {
        scripted.call(Part::call("add_tool", json!({"tool_names": names}))).await;
    }
    scripted.end().await;
    assert!(scripted.defined("tool_899").is_some() && scripted.defined("tool_0").is_none());
}

#[tokio::test]
async fn what_can_be_taken_back() {
    for text in MODELS {
        let mut scripted = ScriptedConversation::new(text, DialectName::Select, None);
        let length = |scripted: &ScriptedConversation| scripted.conversation.messages().len();
        scripted.conversation.say("hi");
        scripted.end().await;
        let before = length(&scripted);
        scripted.conversation.remove_unanswered();
        assert_eq!(length(&scripted), before, "{text}: an answer is not taken back");
        scripted.conversation.say("and?");
        scripted.conversation.remove_unanswered();
        scripted.conversation.remove_unanswered();
        assert_eq!(length(&scripted), before, "{text}: only what was said");
        scripted.conversation.say("and?");
        scripted.load("get_weather").await;
        scripted.conversation.remove_unanswered();
        assert!(length(&scripted) > before + 1, "{text}: a result is not taken back");
        scripted.conversation.rewind(before);
        assert_eq!(length(&scripted), before);
        assert!(scripted.conversation.session().visible_names().contains(&"get_weather".to_owned()), "{text}");
        scripted.conversation.say("and?");
        scripted.end().await;
        assert!(scripted.last().to_string().contains("of_get_weather"), "{text}: what is loaded is shown");
        scripted.conversation.say("and?");
        scripted.hear(Vec::new(), None).await;
        let before = length(&scripted);
        scripted.conversation.remove_unanswered();
        assert_eq!(length(&scripted), before, "{text}: it was heard, if without a word");
        scripted.conversation.rewind(0);
        assert_eq!(length(&scripted), 0);
        scripted.conversation.say("from the start");
        scripted.end().await;
        assert!(scripted.last().to_string().contains("available-deferred-tools"), "{text}: the reminder is back");
    }
}
