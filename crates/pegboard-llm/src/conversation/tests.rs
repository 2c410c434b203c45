//! Every provider with every delivery that it can be had with: search, load, call, answer.

use std::sync::Arc;

use pegboard_core::{Catalog, RawTool, Selection};
use pegboard_discovery::{DialectName, Settings};
use pegboard_engine::Keyword;
use serde_json::json;

use super::*;
use crate::wire::{Stop, Usage};

const SECRET_PARAMETER: &str = "an_undiscovered_parameter";

fn session(dialect: DialectName) -> Session {
    let tool = |server: &str, name: &str, description: &str| {
        let schema =
            json!({"type": "object", "properties": {(format!("{SECRET_PARAMETER}_of_{name}")): {"type": "string"}}});
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
        tool("mail", "send_mail", "Send a mail"),
        tool("files", "read_file", "Read a file"),
    ]);
    let ranker = Arc::new(Keyword::default());
    Session::new(dialect, Settings::default(), catalog, Selection::everything(), ranker).expect("a session")
}

fn conversation(model: &str, dialect: DialectName, requested: Option<Delivery>) -> Conversation {
    let model = Model::parse(model).expect("a model");
    Conversation::new(model, session(dialect), requested).expect("a conversation").with_system("Be brief.")
}

/// What a model of this wire says when it wants a tool called.
fn turn(wire: Wire, call: &ToolCall) -> Turn {
    let echo = match wire {
        Wire::Anthropic => {
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}]})
        }
        Wire::Chat => {
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments.to_string()}}]})
        }
        Wire::Responses if call.is_search => {
            json!({"type": "tool_search_call", "call_id": call.id, "execution": "client", "arguments": call.arguments})
        }
        Wire::Responses => {
            json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments.to_string(), "namespace": call.name})
        }
        Wire::Gemini => {
            json!({"role": "model", "parts": [{"functionCall": {"name": call.name, "args": call.arguments}}]})
        }
    };
    Turn {
        text: String::new(),
        calls: vec![call.clone()],
        stop: Stop::Tools,
        usage: Usage::default(),
        echo: vec![echo],
    }
}

/// What a provider caches first: the tools that are not deferred, in their order, the system
/// prompt, the messages.
fn prefix(request: &Request) -> Vec<String> {
    let tools = request.tools.iter().filter(|tool| tool.get("defer_loading").is_none()).map(Value::to_string);
    tools.chain(request.system.clone()).chain(request.messages.iter().map(Value::to_string)).collect()
}

fn search_arguments(dialect: DialectName) -> (&'static str, Value) {
    match dialect {
        DialectName::Select => ("tool_search", json!({"query": "weather"})),
        DialectName::Schema => ("ToolSearch", json!({"query": "weather"})),
        DialectName::Bridge => ("search_tools", json!({"query": "weather"})),
        _ => ("search_tools", json!({"query": "weather"})),
    }
}

fn check(model: &str, dialect: DialectName, requested: Option<Delivery>, expected: Delivery) {
    let about = format!("{model} {dialect:?} {requested:?}");
    let mut conversation = conversation(model, dialect, requested);
    assert_eq!(conversation.choice().delivery, expected, "{about}");
    let wire = conversation.wire();
    conversation.say("What is the weather in Rome?");
    let first = conversation.request(false).unwrap_or_else(|error| panic!("{about}: {error}"));
    let body = wire.body(&first).to_string();
    assert_eq!(body.contains(SECRET_PARAMETER), expected == Delivery::Native, "{about}: {body}");
    if expected == Delivery::Native {
        return;
    }
    let (name, arguments) = search_arguments(dialect);
    let is_search = expected == Delivery::ClientNative;
    let search = ToolCall { id: "call-1".into(), name: name.into(), arguments, is_search };
    conversation.record_turn(&turn(wire, &search));
    let Called::Answered(result) = conversation.call(&search) else { panic!("{about}: a search is answered") };
    assert!(!result.is_error, "{about}: {result:?}");
    conversation.add_results(&[result]);
    let second = conversation.request(false).unwrap_or_else(|error| panic!("{about}: {error}"));
    let body = wire.body(&second).to_string();
    let is_sent = |name: &str| body.contains(&format!("{SECRET_PARAMETER}_of_{name}"));
    assert!(is_sent("get_weather"), "{about}: {body}");
    assert!(!is_sent("send_mail") && !is_sent("read_file"), "{about}: {body}");
    if matches!(expected, Delivery::Constant | Delivery::Reference | Delivery::ClientNative) {
        let (before, after) = (prefix(&first), prefix(&second));
        assert_eq!(after[..before.len()], before, "{about}: what is cached must stay");
    }
    let call = match dialect {
        DialectName::Bridge => ToolCall {
            name: "call_tool".into(),
            arguments: json!({"name": "get_weather", "arguments": {}}),
            id: "call-2".into(),
            is_search: false,
        },
        _ => ToolCall { name: "get_weather".into(), arguments: json!({}), id: "call-2".into(), is_search: false },
    };
    conversation.record_turn(&turn(wire, &call));
    let Called::Invoke(target) = conversation.call(&call) else { panic!("{about}: a tool is to be called") };
    assert_eq!((target.server.as_deref(), target.name.as_str()), (Some("weather"), "get_weather"));
    let result = CallResult::text(call, "sunny");
    conversation.add_results(&[result]);
    let third = conversation.request(false).unwrap_or_else(|error| panic!("{about}: {error}"));
    let (before, after) = (prefix(&second), prefix(&third));
    assert_eq!(after[..before.len()], before, "{about}: nothing was loaded");
    // The same history in another conversation shows the model the same tools.
    let mut resumed = self::conversation(model, dialect, requested);
    resumed.resume(conversation.messages().to_vec());
    let again = resumed.request(false).unwrap_or_else(|error| panic!("{about}: {error}"));
    assert!(wire.body(&again).to_string().contains(&format!("{SECRET_PARAMETER}_of_get_weather")), "{about}");
}

#[test]
fn every_provider_and_delivery() {
    use Delivery::{ClientNative, Constant, Inject, Native, Reference};
    use DialectName::{Bridge, Schema, Select};
    for model in [
        "anthropic/claude-opus-4-8",
        "anthropic/claude-opus-4-1",
        "openai/gpt-5.4",
        "openai-responses/gpt-5.4",
        "gemini/gemini-3-pro",
        "minimax/MiniMax-M3",
        "minimax-chat/MiniMax-M3",
    ] {
        check(model, Bridge, None, Constant);
        check(model, Select, Some(Inject), Inject);
        check(model, Schema, Some(Inject), Inject);
    }
    for dialect in [Select, Schema] {
        check("anthropic/claude-opus-4-8", dialect, None, Reference);
        check("openai-responses/gpt-5.4", dialect, None, ClientNative);
        check("anthropic/claude-opus-4-8", dialect, Some(Native), Native);
        check("openai-responses/gpt-5.4", dialect, Some(Native), Native);
    }
}

#[test]
fn a_refused_delivery_is_replaced_and_said() {
    let mut conversation = conversation("anthropic/claude-opus-4-8", DialectName::Select, None);
    conversation.say("hi");
    conversation.request(false).expect("a request");
    assert!(conversation.fall_back());
    assert_eq!(conversation.choice().reason, "anthropic rejected delivery `reference`");
    let request = conversation.request(false).expect("a request");
    assert!(!Wire::Anthropic.body(&request).to_string().contains("defer_loading"));
    assert!(!conversation.fall_back(), "there is nothing simpler");
}

#[test]
fn what_was_sent_stays_until_a_compaction() {
    let mut conversation = conversation("openai/gpt-5.4", DialectName::Select, None);
    conversation.say("hi");
    let search = ToolCall {
        id: "1".into(),
        name: "tool_search".into(),
        arguments: json!({"query": "weather"}),
        is_search: false,
    };
    conversation.record_turn(&turn(Wire::Chat, &search));
    let Called::Answered(result) = conversation.call(&search) else { panic!("answered") };
    conversation.add_results(&[result]);
    let tools = conversation.request(false).expect("a request").tools;
    assert_eq!(tools.len(), 2);
    let (empty, _) = Catalog::from_tools(Vec::new());
    conversation.session_mut().update(empty);
    assert_eq!(conversation.request(false).expect("a request").tools, tools, "a definition that was sent stays");
    conversation.resume(vec![Wire::Chat.user("hi again")]);
    assert!(conversation.request(false).expect("a request").tools.len() < tools.len());
}

#[test]
fn compacted_conversations_keep_what_is_loaded() {
    for model in ["anthropic/claude-opus-4-1", "openai/gpt-5.4", "openai-responses/gpt-5", "gemini/gemini-3-pro"] {
        let mut conversation = conversation(model, DialectName::Select, Some(Delivery::Inject));
        let wire = conversation.wire();
        conversation.say("hi");
        conversation.request(false).expect("a request");
        let search = ToolCall {
            id: "1".into(),
            name: "tool_search".into(),
            arguments: json!({"query": "weather"}),
            is_search: false,
        };
        conversation.record_turn(&turn(wire, &search));
        let Called::Answered(result) = conversation.call(&search) else { panic!("answered") };
        conversation.add_results(&[result]);
        let mut kept = crate::transcript::marked_messages(wire, &conversation.marked_history());
        assert_eq!(kept.len(), 2, "{model}: the reminder and what is loaded");
        kept.push(wire.user("a summary of what was said"));
        let mut other = self::conversation(model, DialectName::Select, Some(Delivery::Inject));
        other.resume(kept);
        let request = other.request(false).expect("a request");
        assert!(wire.body(&request).to_string().contains("of_get_weather"), "{model}");
    }
}

#[test]
fn conversations_that_cannot_begin() {
    let model = || Model::parse("openai/gpt-5.4").expect("a model");
    let ranker = Arc::new(Keyword::default());
    let empty =
        Session::expecting(DialectName::Bridge, Settings::default(), Catalog::empty(), Selection::everything(), ranker);
    assert_eq!(Conversation::new(model(), empty, None).err(), Some(ConversationError::NoTools));
    let requested = Conversation::new(model(), session(DialectName::Select), Some(Delivery::Reference));
    assert!(matches!(requested, Err(ConversationError::Delivery(_))));
}

#[test]
fn a_forced_tool_is_sent_at_once() {
    for (model, delivery) in [
        ("anthropic/claude-opus-4-8", Delivery::Reference),
        ("openai-responses/gpt-5.4", Delivery::ClientNative),
        ("openai/gpt-5.4", Delivery::Inject),
        ("anthropic/claude-opus-4-8", Delivery::Native),
    ] {
        let mut conversation = conversation(model, DialectName::Select, Some(delivery));
        conversation.say("hi");
        conversation.set_tool_choice(ToolChoice::Tool("send_mail".into()));
        let request = conversation.request(false).expect("a request");
        let is_it = |tool: &&Value| tool.to_string().contains("of_send_mail");
        let forced: Vec<&Value> = request.tools.iter().filter(is_it).collect();
        assert_eq!(forced.len(), 1, "{model} {delivery}");
        assert!(forced[0].get("defer_loading").is_none(), "{model} {delivery}");
    }
}

/// The system prompt names a search that is in the request, and no other.
#[test]
fn the_prompt_describes_what_the_request_holds() {
    use Delivery::{ClientNative, Inject, Native, Reference};
    use DialectName::{Bridge, Explicit, Schema, Select};
    const SEARCHES: [&str; 5] = ["tool_search_tool_bm25", "ToolSearch", "search_tools", "add_tool", "call_tool"];
    let check = |model: &str, dialect: DialectName, delivery: Delivery, named: &[&str]| {
        let about = format!("{model} {dialect:?} {delivery}");
        let mut conversation = conversation(model, dialect, Some(delivery));
        conversation.say("hi");
        let system = conversation.request(false).expect("a request").system.expect("a system prompt");
        let found: Vec<&str> = SEARCHES.into_iter().filter(|name| system.contains(name)).collect();
        let others: Vec<&str> = named.iter().copied().filter(|name| SEARCHES.contains(name)).collect();
        assert_eq!(found, others, "{about}: {system}");
        assert!(named.iter().all(|name| system.contains(name)), "{about}: {system}");
        assert!(system.starts_with("Be brief.\n\n"), "{about}");
        if delivery == Native {
            assert!(conversation.fall_back());
            let system = conversation.request(false).expect("a request").system.expect("a system prompt");
            assert!(system.contains(conversation.session().search_name().expect("a search")), "{about}: {system}");
        }
    };
    for dialect in [Select, Schema, Bridge, Explicit] {
        check("anthropic/claude-opus-4-8", dialect, Native, &["tool_search_tool_bm25"]);
        check("openai-responses/gpt-5.4", dialect, Native, &["tool_search"]);
    }
    check("openai-responses/gpt-5.4", Schema, ClientNative, &["tool_search(select:"]);
    check("openai-responses/gpt-5.4", Select, ClientNative, &["tool_search"]);
    check("anthropic/claude-opus-4-8", Schema, Reference, &["ToolSearch"]);
    check("openai-responses/gpt-5.4", Schema, Inject, &["ToolSearch"]);
}

/// A question that looks like the reminder is asked all the same, and can be taken back.
#[test]
fn a_question_that_looks_like_the_reminder_is_kept() {
    const QUESTION: &str = "<available-deferred-tools>\nwhat is this?\n</available-deferred-tools>";
    for model in ["anthropic/claude-opus-4-8", "openai/gpt-5.4", "openai-responses/gpt-5.4", "gemini/gemini-3-pro"] {
        let mut conversation = conversation(model, DialectName::Select, None);
        conversation.say(QUESTION);
        conversation.say("Please.");
        let wire = conversation.wire();
        let said = [wire.user(QUESTION), wire.user("Please.")];
        let sent = conversation.request(false).expect("a request").messages;
        assert_eq!(sent.len(), 3, "{model}: the reminder and the question");
        assert_eq!(sent[1..], said, "{model}");
        conversation.remove_unanswered();
        conversation.remove_unanswered();
        assert_eq!(conversation.messages().len(), 1, "{model}: the reminder stays");
        conversation.remove_unanswered();
        assert_eq!(conversation.messages(), &sent[..1], "{model}");
        let mut fresh = self::conversation(model, DialectName::Select, None);
        fresh.say(QUESTION);
        fresh.remove_unanswered();
        assert_eq!(fresh.messages().len(), 0, "{model}");
    }
}
