//! Request bodies against the request types of the providers' own SDKs. `cargo xtask peers`
//! exports them; without them these tests say that they are skipped.

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use jsonschema::Validator;
use pegboard_core::{Catalog, RawTool, Selection};
use pegboard_discovery::{DialectName, Session, Settings};
use pegboard_engine::Keyword;
use pegboard_llm::{
    Called, Conversation, Delivery, Model,
    wire::{CallResult, Request, ToolChoice, Turn, Wire},
};
use serde_json::{Value, json};

/// The exported schemas by their names.
struct Schemas(HashMap<String, Validator>);

impl Schemas {
    /// The schemas, if they were exported.
    fn load() -> Option<Schemas> {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools");
        if !tools.join("python-sdks.stamp").exists() {
            skipped();
            return None;
        }
        let read = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.expect("an entry").path();
            let schema: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, jsonschema::validator_for(&schema).expect("a schema"))
        };
        Some(Schemas(fs::read_dir(tools.join("schemas")).expect("schemas").map(read).collect()))
    }

    /// What is wrong with a body.
    fn faults(&self, wire: Wire, is_streamed: bool, body: &Value) -> Vec<String> {
        let name = match (wire, is_streamed) {
            (Wire::Anthropic, false) => "anthropic",
            (Wire::Anthropic, true) => "anthropic-streamed",
            (Wire::Chat, false) => "chat",
            (Wire::Chat, true) => "chat-streamed",
            (Wire::Responses, false) => "responses",
            (Wire::Responses, true) => "responses-streamed",
            // The address says it, not the body.
            (Wire::Gemini, _) => "gemini",
        };
        self.0[name].iter_errors(body).map(|error| format!("{}: {error:.300}", error.instance_path())).collect()
    }

    #[track_caller]
    fn check(&self, about: &str, wire: Wire, request: &Request) {
        let body = wire.body(request);
        let faults = self.faults(wire, request.is_streamed, &body);
        assert!(faults.is_empty(), "{about}: {faults:#?}\n{body:#}");
        // Nothing in it goes unseen: whatever is added to a tool or message is told.
        for (key, list) in body.as_object().expect("an object") {
            let objects = list.as_array().into_iter().flatten().enumerate().filter(|(_, item)| item.is_object());
            for (at, _) in objects {
                let mut more = body.clone();
                more[key][at]["surplus"] = true.into();
                assert!(!self.faults(wire, request.is_streamed, &more).is_empty(), "{about}: {key}[{at}] is open");
            }
        }
    }
}

#[expect(clippy::print_stderr, reason = "the developer must see what was left out")]
fn skipped() {
    eprintln!("SKIPPED: no schemas of the SDKs here; `cargo xtask peers` exports them");
}

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
        tool("mail", "send_mail", "Send a mail"),
    ]);
    let ranker = Arc::new(Keyword::default());
    // So that the gateway has something to hide; the others do not look at it.
    let settings = Settings { max_tools_limit: 1, ..Settings::default() };
    Session::new(dialect, settings, catalog, Selection::everything(), ranker).expect("a session")
}

/// How a model is spoken to.
#[derive(Clone, Copy, Debug)]
struct Pairing {
    model: &'static str,
    dialect: DialectName,
    delivery: Delivery,
}

/// Every pairing that makes sense.
fn pairings() -> Vec<Pairing> {
    use Delivery::{ClientNative, Constant, Inject, Native, Reference};
    use DialectName::{Bridge, Explicit, Gateway, Schema, Select};
    const ANTHROPIC: &str = "anthropic/claude-opus-4-8";
    const RESPONSES: &str = "openai-responses/gpt-5.4";
    let mut pairings = Vec::new();
    for model in
        [ANTHROPIC, "openai/gpt-5.4", RESPONSES, "gemini/gemini-3-pro", "minimax/MiniMax-M3", "minimax-chat/MiniMax-M3"]
    {
        pairings.push(Pairing { model, dialect: Bridge, delivery: Constant });
        pairings.extend([Select, Schema, Explicit, Gateway].map(|dialect| Pairing {
            model,
            dialect,
            delivery: Inject,
        }));
    }
    for dialect in [Select, Schema] {
        let with = [(RESPONSES, ClientNative), (ANTHROPIC, Native), (RESPONSES, Native)];
        pairings.extend(with.map(|(model, delivery)| Pairing { model, dialect, delivery }));
    }
    let reference = |dialect| Pairing { model: ANTHROPIC, dialect, delivery: Reference };
    pairings.extend([Select, Schema, Explicit].map(reference));
    pairings
}

/// What a provider answers when its model thinks, says something and calls a tool. `search` is
/// what the model did with the provider's own search before.
fn answer(wire: Wire, search: &[Value], id: &str, name: &str, arguments: &Value) -> Value {
    let mut said = search.to_vec();
    match wire {
        Wire::Anthropic => {
            said.insert(0, json!({"type": "thinking", "thinking": "Where?", "signature": "c2ln"}));
            said.push(json!({"type": "text", "text": "I will see.", "citations": null}));
            let caller = json!({"type": "direct"});
            said.push(json!({"type": "tool_use", "id": id, "name": name, "input": arguments, "caller": caller}));
            json!({"content": said, "stop_reason": "tool_use"})
        }
        Wire::Chat => {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let calls = json!([{"id": id, "type": "function", "function": function}]);
            let message =
                json!({"role": "assistant", "content": null, "refusal": null, "annotations": [], "tool_calls": calls});
            json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
        }
        Wire::Responses => {
            let thought = json!({"type": "summary_text", "text": "Where?"});
            said.insert(
                0,
                json!({"type": "reasoning", "id": "rs_1", "summary": [thought], "encrypted_content": "c2ln"}),
            );
            let text = json!({"type": "output_text", "text": "I will see.", "annotations": [], "logprobs": []});
            said.push(
                json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}),
            );
            let call = json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments.to_string(), "status": "completed"});
            // A model's own search has called already.
            if name != CLIENT_SEARCH {
                said.push(call);
            }
            json!({"status": "completed", "output": said})
        }
        Wire::Gemini => {
            let parts = json!([
                {"text": "Where?", "thought": true},
                {"functionCall": {"id": id, "name": name, "args": arguments}, "thoughtSignature": "c2ln"},
            ]);
            json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
        }
    }
}

/// Stands for a search that is an item of its own.
const CLIENT_SEARCH: &str = "a search of the wire's own";

/// The search of a pairing.
fn search(pairing: Pairing, wire: Wire) -> Value {
    let arguments = json!({"query": "weather"});
    match pairing.dialect {
        _ if pairing.delivery == Delivery::ClientNative => {
            let call = json!({"type": "tool_search_call", "id": "tsc_1", "call_id": "call_1", "execution": "client", "status": "completed", "arguments": arguments});
            answer(wire, &[call], "call_1", CLIENT_SEARCH, &arguments)
        }
        DialectName::Select => answer(wire, &[], "call_1", "tool_search", &arguments),
        DialectName::Schema => answer(wire, &[], "call_1", "ToolSearch", &arguments),
        DialectName::Gateway => answer(wire, &[], "call_1", "search_available_tools", &json!({"query": "get_weather"})),
        _ => answer(wire, &[], "call_1", "search_tools", &arguments),
    }
}

/// The call of a found tool. In `native` the provider has found it in the same turn.
fn call(pairing: Pairing, wire: Wire, tools: &[Value]) -> Value {
    let arguments = json!({"city": "Rome"});
    let mut found = Vec::new();
    if pairing.delivery == Delivery::Native && wire == Wire::Anthropic {
        let name = tools[0]["name"].clone();
        let references = json!([{"type": "tool_reference", "tool_name": "get_weather"}]);
        found = vec![
            json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": {"query": "weather"}, "caller": {"type": "direct"}}),
            json!({"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "tool_search_tool_search_result", "tool_references": references}}),
        ];
    } else if pairing.delivery == Delivery::Native {
        let space = tools.iter().find(|tool| tool["name"] == "weather").expect("a namespace");
        found = vec![
            json!({"type": "tool_search_call", "id": "tsc_1", "call_id": null, "execution": "server", "status": "completed", "arguments": {"paths": ["weather"]}}),
            json!({"type": "tool_search_output", "id": "tso_1", "call_id": null, "execution": "server", "status": "completed", "tools": [space]}),
        ];
    }
    let bridged = json!({"name": "get_weather", "arguments": arguments});
    let mut answer = match pairing.dialect {
        DialectName::Bridge => answer(wire, &found, "call_2", "call_tool", &bridged),
        _ => answer(wire, &found, "call_2", "get_weather", &arguments),
    };
    // A tool that the provider's search has found is called with the place it was found in.
    let last = answer["output"].as_array_mut().and_then(|output| output.last_mut());
    if let Some(item) = last.filter(|_| matches!(pairing.delivery, Delivery::Native | Delivery::ClientNative)) {
        let is_native = pairing.delivery == Delivery::Native;
        item["namespace"] = if is_native { "weather".into() } else { "get_weather".into() };
    }
    answer
}

/// Takes in a turn and answers its one call.
fn take_in(about: &str, conversation: &mut Conversation, answer: &Value) {
    let turn: Turn = conversation.wire().read_turn(answer).expect("a turn");
    conversation.record_turn(&turn);
    let [call] = &turn.calls[..] else { panic!("{about}: not one call in {turn:?}") };
    let result = match conversation.call(call) {
        Called::Answered(result) => result,
        Called::Invoke(target) => {
            assert_eq!(target.name, "get_weather", "{about}");
            CallResult::text(call.clone(), "sunny")
        }
    };
    assert!(!result.is_error, "{about}: {result:?}");
    conversation.add_results(&[result]);
}

fn converse(schemas: &Schemas, pairing: Pairing, is_streamed: bool) {
    let about = format!("{pairing:?} streamed: {is_streamed}");
    let model = Model::parse(pairing.model).expect("a model");
    let conversation = Conversation::new(model, session(pairing.dialect), Some(pairing.delivery));
    let mut conversation = conversation.expect("a conversation").with_system("Be brief.").with_max_tokens(1000);
    let wire = conversation.wire();
    let ask = |conversation: &mut Conversation, turn: &str| {
        let request = conversation.request(is_streamed).unwrap_or_else(|error| panic!("{about}, {turn}: {error}"));
        schemas.check(&format!("{about}, {turn}"), wire, &request);
        request
    };
    conversation.say("What is the weather in Rome?");
    let first = ask(&mut conversation, "first");
    if pairing.delivery != Delivery::Native {
        take_in(&about, &mut conversation, &search(pairing, wire));
        ask(&mut conversation, "after the search");
    }
    if pairing.dialect == DialectName::Explicit {
        let add = answer(wire, &[], "call_add", "add_tool", &json!({"tool_names": ["get_weather"]}));
        take_in(&about, &mut conversation, &add);
        ask(&mut conversation, "after the choice");
    }
    take_in(&about, &mut conversation, &call(pairing, wire, &first.tools));
    ask(&mut conversation, "after the call");
    conversation.say("And tomorrow?");
    ask(&mut conversation, "after a question");
    for choice in [ToolChoice::None, ToolChoice::Any, ToolChoice::Tool("get_weather".into())] {
        let request = Request { tool_choice: choice.clone(), ..first.clone() };
        schemas.check(&format!("{about}, {choice:?}"), wire, &request);
    }
}

#[test]
fn bodies_are_what_the_sdks_would_send() {
    let Some(schemas) = Schemas::load() else { return };
    for pairing in pairings() {
        for is_streamed in [false, true] {
            converse(&schemas, pairing, is_streamed);
        }
    }
}

/// Bodies with one thing wrong, each of which is right without it.
#[test]
fn wrong_bodies_are_told() {
    let Some(schemas) = Schemas::load() else { return };
    let tools = json!([{"type": "tool_search_tool_bm25_20251119", "name": "tool_search"}]);
    let search = json!([{"type": "tool_search", "execution": "elsewhere"}]);
    let reference = json!([{"type": "tool_reference", "name": "get_weather"}]);
    let result = json!({"type": "tool_result", "tool_use_id": "call_1", "content": reference});
    let declaration = json!([{"functionDeclarations": [{"name": "get_weather", "input_schema": {}}]}]);
    let wrong = [
        (Wire::Anthropic, "tools", tools),
        (Wire::Anthropic, "messages", json!([{"role": "user", "content": [result]}])),
        (Wire::Anthropic, "max_completion_tokens", 1.into()),
        (Wire::Chat, "tools", json!([{"type": "function", "name": "get_weather"}])),
        (Wire::Chat, "messages", json!([{"role": "tool", "content": "sunny"}])),
        (Wire::Responses, "tools", search),
        (Wire::Responses, "input", json!([{"type": "function_call_output", "call_id": "call_1"}])),
        (Wire::Responses, "messages", json!([])),
        (Wire::Gemini, "tools", declaration),
        (Wire::Gemini, "contents", json!([{"role": "user", "parts": [{"type": "text", "text": "hi"}]}])),
        (Wire::Gemini, "system_instruction", "Be brief.".into()),
    ];
    for (wire, key, value) in wrong {
        let mut request = Request { model: "a-model".into(), messages: vec![wire.user("hi")], ..Request::default() };
        for is_streamed in [false, true] {
            request.is_streamed = is_streamed;
            schemas.check("a plain body", wire, &request);
            let mut body = wire.body(&request);
            body[key] = value.clone();
            assert!(!schemas.faults(wire, is_streamed, &body).is_empty(), "{wire:?} takes {body:#}");
        }
    }
}
