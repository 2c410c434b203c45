//! The trait that every wire implements.

use std::{collections::BTreeSet, fmt};

use pegboard_discovery::{Session, ToolDefinition, transcript::ToolResult};
use serde_json::Value;

use super::{CallResult, Delta, Request, Turn, WireError, body::Body, content_text, repair::RepairContext, text};
use crate::{
    delivery::Delivery,
    rules::RuleError,
    tool_list::{RequiredTools, ToolList},
};

/// One form of conversation: how an API writes requests, messages, tools and answers.
///
/// An implementation is a unit struct in a file or folder of its own under `wire/`, with one line
/// in [`providers`](super::providers). It has no state and reaches no network. Messages, tools and
/// answers are JSON in the API's own form, kept as they came: an implementation reads what it
/// needs and leaves fields that it does not know in place.
///
/// A turn of a conversation uses it in this order:
///
/// 1. [`user`](Self::user) writes what the user says into the history.
/// 2. [`repair`](Self::repair) makes a copy of the history that the API accepts.
/// 3. [`references`](Self::references) and [`undefined_calls`](Self::undefined_calls) say which
///    tools this copy needs; the tool list is made with [`tool`](Self::tool) and the methods
///    about deliveries.
/// 4. [`check_history`](Self::check_history) finds what the API would still refuse.
/// 5. [`body`](Self::body) is sent to [`path`](Self::path) with [`headers`](Self::headers).
/// 6. A streamed answer is put together by the [`collector`](Self::collector); either way
///    [`read`](Self::read) makes a [`Turn`] of it, whose `echo` goes into the history.
/// 7. [`results`](Self::results) writes the results of the calls into the history.
///
/// An error of the API is searched for [`delivery_terms`](Self::delivery_terms) and
/// [`thinking_terms`](Self::thinking_terms), to see whether a simpler request may be accepted.
///
/// Methods without a default are what every API needs. The defaults describe an API without tool
/// search, deferred tools, signed thinking and pauses, which is what most compatible APIs are.
pub(crate) trait WireFormat: fmt::Debug + Send + Sync {
    // Requests.

    /// Returns the path of a request behind the base URL, with its query.
    fn path(&self, model: &str, is_streamed: bool) -> String;

    /// Returns the headers of a request beside its content type: those that carry `key`, and
    /// those that the API demands with or without one.
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect()
    }

    /// Returns the body of a request. `extra` fields are added by the caller.
    fn body<'a>(&self, request: &'a Request, is_streamed: bool) -> Body<'a>;

    // Tools.

    /// Returns the definition of a tool.
    fn tool(&self, definition: &ToolDefinition) -> Value;

    /// Returns the name in a definition of [`tool`](Self::tool).
    fn tool_name<'a>(&self, tool: &'a Value) -> &'a str {
        text(tool, "name")
    }

    /// Returns the tools that can be called, each with the group that it is in. Only an API that
    /// groups tools in the list overrides this.
    fn flatten<'a>(&self, tools: &'a [Value]) -> Vec<(&'a Value, Option<&'a str>)> {
        tools.iter().map(|tool| (tool, None)).collect()
    }

    // Messages.

    /// Returns a message of the user.
    fn user(&self, text: &str) -> Value;

    /// Returns the text of a message of the user that holds nothing but text: what
    /// [`user`](Self::user) wrote, or another program.
    fn user_text(&self, message: &Value) -> Option<String> {
        if text(message, "role") != "user" {
            return None;
        }
        let parts = message.get("content").or_else(|| message.get("parts"))?;
        let is_text = |part: &Value| part.get("text").is_some();
        let is_only_text = parts.is_string() || parts.as_array().is_some_and(|parts| parts.iter().all(is_text));
        is_only_text.then(|| content_text(Some(parts)))
    }

    /// Returns the messages with the results of all calls of one turn. An empty result is written
    /// as [`result_text`](super::result_text) gives it.
    fn results(&self, results: &[CallResult]) -> Vec<Value>;

    /// Returns the results of tools in a history, each with the call that it belongs to.
    fn tool_results(&self, messages: &[Value]) -> Vec<ToolResult>;

    // Answers.

    /// Reads a whole answer. `echo` holds the messages exactly as they came; the caller repairs
    /// them.
    fn read(&self, answer: &Value) -> Result<Turn, WireError>;

    /// Returns what puts a streamed answer together, in the form that [`read`](Self::read) takes.
    fn collector(&self) -> Box<dyn Collector>;

    // Histories.

    /// Returns a copy of the history that the API accepts, each message with its place in
    /// `messages`. Histories hold what the API itself would refuse: cut calls, empty turns, names
    /// that a model made up, searches of another delivery. Repairs must be stable (a repaired
    /// history is not repaired again) and depend on a message and those before it as far as
    /// possible, so that the prompt cache stays valid.
    /// [`repair_each`](super::repair::repair_each) does what is the same for every wire.
    fn repair(&self, context: &RepairContext<'_>, messages: &[Value]) -> Vec<(usize, Value)>;

    /// Returns a message as a model can read it that did not write it: without thinking,
    /// signatures and ids of its author; `None` if nothing is left. A model that
    /// `signs_calls` rejects calls without a signature.
    fn for_other_model(&self, message: &Value, signs_calls: bool) -> Option<Value>;

    /// Returns the blocks of thinking in a message, for models that accept them only behind an
    /// unchanged prefix.
    fn thinking_blocks<'a>(&self, _message: &'a Value) -> Vec<&'a Value> {
        Vec::new()
    }

    /// Removes the blocks of thinking from a message; `false` if nothing is left in it.
    fn remove_thinking(&self, _message: &mut Value) -> bool {
        true
    }

    /// Ends a turn that the model has paused, if the history ends in one: removes calls that the
    /// provider has begun itself and not answered.
    fn end_paused_turn(&self, _messages: &mut Vec<Value>) {}

    // Rules.

    /// Checks what the API refuses in the history of a request. `tools` is the tool list as
    /// [`flatten`](Self::flatten) returns it. Rules that hold for every API are in
    /// [`rules`](crate::rules).
    fn check_history(&self, _request: &Request, _tools: &[(&Value, Option<&str>)]) -> Result<(), RuleError> {
        Ok(())
    }

    /// Whether requests carry the breakpoints of [`PromptCache`](super::PromptCache), so that a
    /// refused request can be sent without them.
    fn has_cache_breakpoints(&self) -> bool {
        false
    }

    // Deliveries of found tools.

    /// The deliveries that the API can express beside `inject` and `constant`, which every API
    /// can.
    fn deliveries(&self) -> &'static [Delivery] {
        &[]
    }

    /// The name of the provider's own tool search, as the model calls it.
    fn search_name(&self) -> &'static str {
        "tool_search"
    }

    /// Returns what the result of a search holds for a tool that it found.
    fn reference(&self, tool: &ToolDefinition) -> Value {
        self.tool(tool)
    }

    /// Returns the tools that a message makes known in the API's own way.
    fn references<'a>(&self, _message: &'a Value) -> Vec<&'a str> {
        Vec::new()
    }

    /// Whether the API refuses references to tools that are not in the tool list.
    fn resolves_references(&self) -> bool {
        false
    }

    /// Returns the tools that a history calls and that must be in the tool list without being
    /// deferred, since nothing in the history has made them known before.
    fn undefined_calls(&self, _delivery: Delivery, _messages: &[&Value]) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Adds all tools of a session for [`Delivery::Native`]. `is_first` is false when the list
    /// was sent before and only new tools are to be added at its end.
    fn add_native(&self, tool_list: &mut ToolList, session: &Session, required: &RequiredTools, _is_first: bool) {
        tool_list.add_searchable(&session.native(), required);
    }

    /// Changes the list for [`Delivery::Native`] after tools were added or undeferred.
    fn adjust_native(&self, _shelf: &mut ToolList, _is_first: bool) {}

    /// Returns the definition of the provider's search that the client executes, in place of the
    /// `search` tool of the dialect.
    fn client_search(&self, _search: &ToolDefinition) -> Option<Value> {
        None
    }

    // Errors.

    /// Lower-case words of error messages about deferred tools and tool search. An error without
    /// any of them has another cause, and a simpler request would fail in the same way.
    fn delivery_terms(&self) -> &'static [&'static str];

    /// Lower-case words of error messages about thinking in the history that the API does not
    /// accept.
    fn thinking_terms(&self) -> &'static [&'static str];

    /// Whether an error of this kind inside a streamed answer passes when the request is retried.
    fn is_overload(&self, kind: &str) -> bool {
        kind == "overloaded_error"
    }
}

/// Puts a streamed answer together.
pub(crate) trait Collector: fmt::Debug + Send {
    /// Takes in one event.
    fn event(&mut self, kind: &str, data: &Value) -> Result<Vec<Delta>, WireError>;

    /// The whole answer, in the form of one that was not streamed.
    fn finish(self: Box<Self>) -> Result<Value, WireError>;
}
