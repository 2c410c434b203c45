//! Conversations with a scripted provider, for all tests of histories.

use std::{sync::Arc, time::Duration};

use pegboard_core::{Catalog, RawTool, Secret, Selection};
use pegboard_discovery::{DialectName, Session, Settings};
use pegboard_engine::Keyword;
use pegboard_llm::{
    Called, Client, Conversation, Delivery, Model, Provider, client,
    wire::{CallResult, ToolCall, Turn, Wire},
};
use pegboard_testkit::provider::{self, Output, Part, Script, Search, Stop};
use serde_json::{Value, json};

/// A model whose thoughts are bound to everything that was said before them.
pub(crate) const BOUND: &str = "anthropic/claude-fable-5-1";

/// One that knows references, and whose thoughts are free.
pub(crate) const FREE: &str = "anthropic/claude-opus-4-8";

pub(crate) fn raw(name: &str, is_deferred: bool) -> RawTool {
    let schema = json!({"type": "object", "properties": {(format!("of_{name}")): {"type": "string"}}});
    RawTool {
        name: name.into(),
        description: format!("What is needed for {}", name.replace('_', " ")),
        server: Some("world".into()),
        input_schema: serde_json::value::to_raw_value(&schema).ok(),
        deferred: Some(is_deferred),
        ..RawTool::default()
    }
}

/// The tools of these names, all of which have to be found.
pub(crate) fn catalog(names: &[&str]) -> Catalog {
    Catalog::from_tools(names.iter().map(|name| raw(name, true)).collect()).0
}

pub(crate) const NAMES: [&str; 3] = ["get_weather", "send_mail", "read_file"];

pub(crate) fn session(dialect: DialectName, catalog: Catalog) -> Session {
    // So that the gateway has something to hide; the others do not look at it.
    let settings = Settings { max_tools_limit: 1, max_loaded: 2, ..Settings::default() };
    Session::expecting(dialect, settings, catalog, Selection::everything(), Arc::new(Keyword::default()))
}

pub(crate) fn model(text: &str) -> Model {
    Model::parse(text).expect("a model")
}

pub(crate) fn client(model: &Model, url: &str) -> Client {
    let base = match model.provider {
        Provider::Anthropic => url.to_owned(),
        Provider::OpenAi | Provider::OpenAiResponses => format!("{url}/v1"),
        Provider::Gemini => format!("{url}/v1beta"),
        Provider::MiniMax => format!("{url}/minimax/anthropic"),
        Provider::MiniMaxChat => format!("{url}/minimax/v1"),
    };
    let settings = client::Settings { timeout: Duration::from_secs(60), max_retries: 0, ..client::Settings::default() };
    let client = Client::new(model.provider, Secret::new("a-key")).expect("a client");
    client.with_base_url(base).with_settings(settings)
}

/// A conversation and the provider at its other end.
pub(crate) struct ScriptedConversation {
    pub(crate) conversation: Conversation,
    pub(crate) provider: provider::Provider,
    pub(crate) is_streamed: bool,
}

impl ScriptedConversation {
    pub(crate) fn new(text: &str, dialect: DialectName, wish: Option<Delivery>) -> ScriptedConversation {
        let conversation = Conversation::expecting(model(text), session(dialect, catalog(&NAMES)), wish);
        let conversation = conversation.expect("a conversation").with_system("Be brief.");
        ScriptedConversation {
            conversation,
            provider: provider::Provider::start(Script::default()),
            is_streamed: false,
        }
    }

    pub(crate) fn wire(&self) -> Wire {
        self.conversation.wire()
    }

    /// The model says this, whatever it is asked.
    pub(crate) async fn hear(&mut self, parts: Vec<Part>, stop: Option<Stop>) -> Turn {
        self.provider.go_on([provider::ScriptedTurn::Say(Output { parts, stop, ..Output::default() })]);
        let client = client(self.conversation.model(), self.provider.url());
        let mut ignore = |_| {};
        let tell: Option<&mut (dyn FnMut(_) + Send)> = if self.is_streamed { Some(&mut ignore) } else { None };
        let turn = client.next_turn(&mut self.conversation, tell).await;
        let wrong = self.provider.violations();
        assert!(wrong.is_empty(), "{}: {wrong:#?}", self.conversation.model());
        turn.unwrap_or_else(|error| panic!("{}: {error}", self.conversation.model()))
    }

    /// Answers all calls of a turn: real tools with `text`, calls that were cut with a failure.
    pub(crate) fn answer(&mut self, turn: &Turn, text: &str) {
        let result = |call: &ToolCall, text: &str, is_error: bool| CallResult {
            call: call.clone(),
            text: text.to_owned(),
            is_error,
            references: Vec::new(),
            note: None,
            metadata: None,
        };
        let answer = |call: &ToolCall| match call.arguments.is_null() {
            true => result(call, "cut off; nothing was called", true),
            false => match self.conversation.call(call) {
                Called::Answered(result) => result,
                Called::Invoke(_) => result(call, text, false),
            },
        };
        let results: Vec<CallResult> = turn.calls.iter().map(answer).collect();
        self.conversation.add_results(&results);
    }

    /// The model calls something, and is answered.
    pub(crate) async fn call(&mut self, part: Part) -> Turn {
        let turn = self.hear(vec![Part::thinking("hm"), part], None).await;
        self.answer(&turn, "done");
        turn
    }

    pub(crate) async fn end(&mut self) {
        self.hear(vec![Part::thinking("so"), Part::text("Done.")], None).await;
    }

    /// What the model does to have `name` found and loaded.
    pub(crate) async fn load(&mut self, name: &str) {
        let query = json!({"query": name.replace('_', " ")});
        match (self.conversation.choice().delivery, self.conversation.session().dialect_name()) {
            (Delivery::Native, _) => {
                let body = self.wire().body(&self.conversation.request(false).expect("a request"));
                let is_there = body["tools"].to_string().contains(&format!("of_{name}"));
                let can_search = body["tools"].to_string().contains("tool_search");
                let parts = if can_search { Part::search(name, is_there.then_some(name)) } else { Part::text("no") };
                self.hear(vec![Part::thinking("hm"), parts, Part::text("Searched.")], None).await;
            }
            (Delivery::ClientNative, _) => {
                self.call(Part::Search(Search { client: true, arguments: Some(query), ..Search::default() })).await;
            }
            (_, DialectName::Explicit) => {
                self.call(Part::call("add_tool", json!({"tool_names": [name]}))).await;
            }
            (_, DialectName::Schema) => drop(self.call(Part::call("ToolSearch", query)).await),
            (_, DialectName::Select) => drop(self.call(Part::call("tool_search", query)).await),
            (_, DialectName::Gateway) => drop(self.call(Part::call("search_available_tools", query)).await),
            _ => drop(self.call(Part::call("search_tools", query)).await),
        }
    }

    /// The body of the last request.
    pub(crate) fn last(&self) -> Value {
        self.provider.requests().pop().expect("a request").body
    }

    /// The definition of `name` in the last request.
    pub(crate) fn defined(&self, name: &str) -> Option<Value> {
        let body = self.last();
        let lists = [&body["tools"], &body["tools"][0]["functionDeclarations"]];
        let tools = lists.into_iter().filter_map(Value::as_array).flatten();
        let own = |tool: &Value| if tool["function"].is_object() { tool["function"].clone() } else { tool.clone() };
        tools.map(own).find(|tool| tool["name"] == name)
    }

    /// The same history in another process, with another system text.
    pub(crate) fn resume(&mut self, text: &str, dialect: DialectName, catalog: Catalog, wish: Option<Delivery>) {
        let other = Conversation::expecting(model(text), session(dialect, catalog), wish).expect("a conversation");
        let old = std::mem::replace(&mut self.conversation, other.with_system("Be very brief."));
        self.conversation.resume_from(old.messages().to_vec(), old.model());
    }

    /// The history summed up.
    pub(crate) fn compact(&mut self) {
        let wire = self.wire();
        let marked = self.conversation.marked_history();
        let mut kept = pegboard_llm::transcript::marked_messages(wire, &marked);
        kept.push(wire.user("A summary."));
        self.conversation.resume(kept);
    }
}
