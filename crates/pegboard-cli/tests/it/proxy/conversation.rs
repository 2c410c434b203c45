//! Conversations on every wire, as a program holds them.

use pegboard_testkit::provider::{Part, ScriptedTurn, Wire};
use serde_json::{Value, json};

use super::client::{Answer, post};

/// The wires on which tools are deferred.
pub(super) const WIRES: [Wire; 4] = [Wire::Chat, Wire::Messages, Wire::Responses, Wire::Gemini];

const VERBS: [(&str, &str); 8] = [
    ("create", "Create"),
    ("delete", "Delete"),
    ("list", "List"),
    ("send", "Send"),
    ("archive", "Archive"),
    ("rename", "Rename"),
    ("share", "Share"),
    ("print", "Print"),
];

const NOUNS: [&str; 25] = [
    "invoice",
    "contract",
    "photo",
    "message",
    "meeting",
    "ticket",
    "branch",
    "release",
    "server",
    "domain",
    "payment",
    "refund",
    "customer",
    "supplier",
    "employee",
    "vacation",
    "report",
    "dashboard",
    "alert",
    "recipe",
    "playlist",
    "flight",
    "hotel",
    "parcel",
    "survey",
];

/// Returns name, verb and noun of a tool.
fn subject(number: usize) -> (String, &'static str, &'static str) {
    let ((verb, words), noun) = (VERBS[number % VERBS.len()], NOUNS[number / VERBS.len() % NOUNS.len()]);
    (format!("{verb}_{noun}"), words, noun)
}

/// Returns the name of one of the 200 tools.
pub(super) fn tool_name(number: usize) -> String {
    subject(number).0
}

/// Returns what the model searches for to find a tool.
pub(super) fn query(number: usize) -> String {
    let (_, verb, noun) = subject(number);
    format!("{} a {noun}", verb.to_lowercase())
}

/// Returns `count` tools in the form of a wire; at most 200.
pub(super) fn tools(wire: Wire, count: usize) -> Value {
    let tools: Vec<Value> = (0..count).map(|number| tool(wire, number)).collect();
    if wire == Wire::Gemini { json!([{"functionDeclarations": tools}]) } else { tools.into() }
}

/// Returns one tool in the form of a wire.
pub(super) fn tool(wire: Wire, number: usize) -> Value {
    let (name, verb, noun) = subject(number);
    let description = format!("{verb} a {noun} of the company, with everything that belongs to it.");
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": format!("The number of the {noun} in the books")},
            "note": {"type": "string", "description": "A note for the colleagues"},
        },
        "required": ["id"],
        "additionalProperties": false,
    });
    match wire {
        Wire::Messages => json!({"name": name, "description": description, "input_schema": schema}),
        Wire::Chat => {
            json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}})
        }
        Wire::Responses => {
            json!({"type": "function", "name": name, "description": description, "parameters": schema})
        }
        Wire::Gemini => json!({"name": name, "description": description, "parametersJsonSchema": schema}),
    }
}

/// The arguments of the call of a tool.
pub(super) fn arguments(number: usize) -> Value {
    json!({"id": format!("№ {number}")})
}

/// A turn in which the model wants to call this tool.
pub(super) fn reach(number: usize) -> ScriptedTurn {
    ScriptedTurn::reach(query(number), [Part::call(tool_name(number), arguments(number))])
}

/// The turns of the model for `questions` questions: it calls a tool, and then says something. Every third question is
/// about a tool that was called before.
pub(super) fn turns(wire: Wire, questions: usize) -> Vec<ScriptedTurn> {
    let thought = |text: &str| if wire == Wire::Chat { Vec::new() } else { vec![Part::thinking(text)] };
    let turn = |question: usize| {
        let number = if question % 3 == 2 { (question - 1) * 7 % 200 } else { question * 7 % 200 };
        let mut parts = thought("I have what I need.");
        parts.extend([Part::text("I do that now — où?"), Part::call(tool_name(number), arguments(number))]);
        let reach = ScriptedTurn::reach(query(number), parts).before_search(thought("I need a tool."));
        [reach, ScriptedTurn::say([Part::text(format!("Done with {question} ☀."))])]
    };
    (0..questions).flat_map(turn).collect()
}

/// What a client sees of one answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    /// Names and arguments.
    pub(super) calls: Vec<(String, Value)>,
    pub(super) text: String,
    pub(super) stop: String,
}

/// A conversation that a client holds.
pub(super) struct Conversation {
    pub(super) wire: Wire,
    pub(super) base: String,
    pub(super) path: String,
    pub(super) is_streamed: bool,
    /// The next request. What it says is its last field.
    pub(super) body: Value,
    /// The identifiers and names of calls that wait for results.
    open: Vec<(String, String)>,
}

impl Conversation {
    /// Begins a conversation with `count` tools through the proxy at `url`.
    pub(super) fn new(wire: Wire, url: &str, count: usize, is_streamed: bool) -> Self {
        let verb = if is_streamed { "streamGenerateContent?alt=sse" } else { "generateContent" };
        let path = match wire {
            Wire::Messages => "/anthropic/v1/messages".to_owned(),
            Wire::Chat => "/openai/v1/chat/completions".to_owned(),
            Wire::Responses => "/openai/v1/responses".to_owned(),
            Wire::Gemini => format!("/gemini/v1beta/models/gemini-3-pro:{verb}"),
        };
        let tools = tools(wire, count);
        let mut body = match wire {
            Wire::Messages => {
                json!({"model": "claude-opus-4-8", "max_tokens": 4000, "tools": tools,
                       "thinking": {"type": "enabled", "budget_tokens": 2000}})
            }
            Wire::Chat => json!({"model": "gpt-5.4", "tools": tools}),
            Wire::Responses => {
                json!({"model": "gpt-5.4", "store": false, "include": ["reasoning.encrypted_content"], "tools": tools})
            }
            Wire::Gemini => json!({"tools": tools}),
        };
        if is_streamed && wire != Wire::Gemini {
            body["stream"] = true.into();
            if wire == Wire::Chat {
                body["stream_options"] = json!({"include_usage": true});
            }
        }
        body[history_key(wire)] = json!([]);
        Self { wire, base: url.to_owned(), path, is_streamed, body, open: Vec::new() }
    }

    /// The same conversation without a proxy.
    pub(super) fn direct(wire: Wire, url: &str, count: usize, is_streamed: bool) -> Self {
        let mut conversation = Self::new(wire, url, count, is_streamed);
        for prefix in ["/anthropic", "/openai", "/gemini"] {
            if let Some(path) = conversation.path.strip_prefix(prefix) {
                conversation.path = path.to_owned();
                break;
            }
        }
        conversation
    }

    pub(super) fn history(&mut self) -> &mut Vec<Value> {
        self.body[history_key(self.wire)].as_array_mut().expect("a list")
    }

    /// Adds a message of the user.
    pub(super) fn say(&mut self, text: &str) -> &mut Self {
        let message = match self.wire {
            Wire::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
            _ => json!({"role": "user", "content": text}),
        };
        self.history().push(message);
        self
    }

    /// Adds a result for every open call.
    pub(super) fn answer_calls(&mut self) -> &mut Self {
        let open = std::mem::take(&mut self.open);
        let results = open.iter().enumerate().map(|(number, (id, name))| {
            let text = format!("result {number}");
            match self.wire {
                Wire::Messages => json!({"type": "tool_result", "tool_use_id": id, "content": text}),
                Wire::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
                Wire::Responses => json!({"type": "function_call_output", "call_id": id, "output": text}),
                Wire::Gemini => {
                    json!({"functionResponse": {"id": id, "name": name, "response": {"output": text}}})
                }
            }
        });
        let results: Vec<Value> = results.collect();
        match self.wire {
            Wire::Messages => self.history().push(json!({"role": "user", "content": results})),
            Wire::Gemini => self.history().push(json!({"role": "user", "parts": results})),
            Wire::Chat | Wire::Responses => self.history().extend(results),
        }
        self
    }

    /// Sends the request and leaves the conversation as it is.
    pub(super) fn send(&self) -> Answer {
        post(&self.base, &self.path, &self.body)
    }

    /// Sends the request, adds the answer to the history, and returns what it amounts to.
    #[track_caller]
    pub(super) fn ask(&mut self) -> Seen {
        let answer = self.send();
        self.take(&answer)
    }

    /// Adds an answer to the history, and returns what it amounts to.
    #[track_caller]
    pub(super) fn take(&mut self, answer: &Answer) -> Seen {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.is_whole, "{}", answer.text());
        let whole = self.assemble(answer);
        let (items, seen, open) = read(self.wire, &whole);
        self.history().extend(items);
        self.open = open;
        seen
    }

    /// Returns the answer as it is when it is not streamed.
    pub(super) fn assemble(&self, answer: &Answer) -> Value {
        if !self.is_streamed {
            return answer.json();
        }
        match self.wire {
            Wire::Messages => assemble_message(&answer.events()),
            Wire::Chat => assemble_completion(&answer.events()),
            Wire::Responses => answer
                .events()
                .iter()
                .find(|event| matches!(event["type"].as_str(), Some("response.completed" | "response.incomplete")))
                .map(|event| event["response"].clone())
                .unwrap_or_else(|| panic!("no last event in {}", answer.text())),
            Wire::Gemini => assemble_contents(&answer.events()),
        }
    }
}

/// Plays `questions` questions, and returns what the client sees of each answer.
#[track_caller]
pub(super) fn play(conversation: &mut Conversation, questions: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    for question in 0..questions {
        conversation.say(&format!("Question {question}"));
        seen.push(conversation.ask());
        while !conversation.open.is_empty() {
            seen.push(conversation.answer_calls().ask());
        }
    }
    seen
}

/// The key of the messages in a request.
pub(super) fn history_key(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages | Wire::Chat => "messages",
        Wire::Responses => "input",
        Wire::Gemini => "contents",
    }
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Identifier, name and arguments of a call.
type ReadCall = (String, String, Value);

/// Reads an answer: what a client adds to its history, what it sees, and its open calls.
fn read(wire: Wire, whole: &Value) -> (Vec<Value>, Seen, Vec<(String, String)>) {
    let parsed = |text: &Value| serde_json::from_str(text.as_str().unwrap_or_default()).expect("arguments");
    let (items, calls, text, stop): (Vec<Value>, Vec<ReadCall>, String, String) = match wire {
        Wire::Messages => {
            let blocks = list(whole, "/content");
            let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
            let calls = calls.map(|call| (text_of(&call["id"]), text_of(&call["name"]), call["input"].clone()));
            let text = blocks.iter().map(|block| text_of(&block["text"])).collect();
            let message = json!({"role": "assistant", "content": blocks});
            (vec![message], calls.collect(), text, text_of(&whole["stop_reason"]))
        }
        Wire::Chat => {
            let message = &whole["choices"][0]["message"];
            let calls = list(message, "/tool_calls").iter().map(|call| {
                let function = &call["function"];
                (text_of(&call["id"]), text_of(&function["name"]), parsed(&function["arguments"]))
            });
            let stop = text_of(&whole["choices"][0]["finish_reason"]);
            (vec![message.clone()], calls.collect(), text_of(&message["content"]), stop)
        }
        Wire::Responses => {
            let items = list(whole, "/output");
            let calls = items.iter().filter(|item| item["type"] == "function_call");
            let calls =
                calls.map(|call| (text_of(&call["call_id"]), text_of(&call["name"]), parsed(&call["arguments"])));
            let parts = items.iter().flat_map(|item| list(item, "/content"));
            (
                items.to_vec(),
                calls.collect(),
                parts.map(|part| text_of(&part["text"])).collect(),
                text_of(&whole["status"]),
            )
        }
        Wire::Gemini => {
            let content = &whole["candidates"][0]["content"];
            let parts = list(content, "/parts");
            let calls = parts.iter().map(|part| &part["functionCall"]).filter(|call| call.is_object());
            let calls = calls.map(|call| (text_of(&call["id"]), text_of(&call["name"]), call["args"].clone()));
            let words = parts.iter().filter(|part| part["thought"] != true);
            let stop = text_of(&whole["candidates"][0]["finishReason"]);
            (vec![content.clone()], calls.collect(), words.map(|part| text_of(&part["text"])).collect(), stop)
        }
    };
    let open = calls.iter().map(|(id, name, _)| (id.clone(), name.clone())).collect();
    let calls = calls.into_iter().map(|(_, name, arguments)| (name, arguments)).collect();
    (items, Seen { calls, text, stop }, open)
}

fn assemble_message(events: &[Value]) -> Value {
    let mut message = Value::Null;
    let mut partial = String::new();
    let append = |value: &mut Value, more: &Value| *value = (text_of(value) + &text_of(more)).into();
    for event in events {
        let index = event["index"].as_u64().unwrap_or_default() as usize;
        let delta = &event["delta"];
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                let content = message["content"].as_array_mut().expect("content");
                assert_eq!(content.len(), index, "blocks are numbered one by one");
                content.push(event["content_block"].clone());
                partial.clear();
            }
            "content_block_delta" => {
                let block = &mut message["content"][index];
                match delta["type"].as_str().unwrap_or_default() {
                    "text_delta" => append(&mut block["text"], &delta["text"]),
                    "thinking_delta" => append(&mut block["thinking"], &delta["thinking"]),
                    "signature_delta" => block["signature"] = delta["signature"].clone(),
                    _ => partial.push_str(delta["partial_json"].as_str().unwrap_or_default()),
                }
            }
            "content_block_stop" if message["content"][index]["type"] == "tool_use" => {
                message["content"][index]["input"] = serde_json::from_str(&partial).expect("arguments");
            }
            "message_delta" => {
                message["stop_reason"] = delta["stop_reason"].clone();
                for (key, value) in event["usage"].as_object().into_iter().flatten() {
                    message["usage"][key] = value.clone();
                }
            }
            _ => {}
        }
    }
    message
}

fn assemble_completion(events: &[Value]) -> Value {
    let mut calls: Vec<Value> = Vec::new();
    let (mut content, mut stop, mut usage) = (None, Value::Null, Value::Null);
    for event in events {
        if event["usage"].is_object() {
            usage = event["usage"].clone();
        }
        let choice = &event["choices"][0];
        if choice["finish_reason"].is_string() {
            stop = choice["finish_reason"].clone();
        }
        if let Some(piece) = choice["delta"]["content"].as_str() {
            content.get_or_insert_with(String::new).push_str(piece);
        }
        for piece in list(&choice["delta"], "/tool_calls") {
            if let Some(call) = calls.get_mut(piece["index"].as_u64().expect("an index") as usize) {
                let more = text_of(&piece["function"]["arguments"]);
                call["function"]["arguments"] = (text_of(&call["function"]["arguments"]) + &more).into();
                continue;
            }
            let mut call = piece.clone();
            assert_eq!(call["index"].as_u64(), Some(calls.len() as u64), "calls are numbered one by one");
            call.as_object_mut().expect("a call").shift_remove("index");
            calls.push(call);
        }
    }
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({"choices": [{"message": message, "finish_reason": stop}], "usage": usage})
}

fn assemble_contents(events: &[Value]) -> Value {
    let parts: Vec<Value> =
        events.iter().flat_map(|event| list(event, "/candidates/0/content/parts").to_vec()).collect();
    let mut whole = events.last().cloned().unwrap_or_default();
    whole["candidates"][0]["content"] = json!({"role": "model", "parts": parts});
    whole
}
