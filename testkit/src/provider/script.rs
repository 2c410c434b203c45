//! Scripts: the answers of the model and the faults of the server, independent of a provider.

mod read;

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;

use super::checks::Check;

pub use read::ScriptError;

/// The behavior of one server: its answers in order, and its checks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// One for each request that passes the checks, in the order of arrival.
    pub turns: Vec<ScriptedTurn>,
    /// Whether the turns start over once they are used up; otherwise further requests are refused.
    pub repeat: bool,
    /// How answers are sent unless their turn says otherwise.
    pub sending: Sending,
    /// Checks that are not made.
    pub off: BTreeSet<Check>,
    /// What some models refuse.
    pub models: Models,
    /// Tools whose schemas must not be seen too early.
    pub forbidden_schemas: Vec<Forbidden>,
    /// Whether a request that breaks the prefix of the one before it is a violation.
    pub stable_prefix: bool,
    /// The only accepted API key; `None` accepts any.
    pub api_key: Option<String>,
    /// How `/v1/embeddings` answers.
    pub embeddings: Embeddings,
}

impl Script {
    /// Creates a script of these turns with all checks.
    pub fn new(turns: impl IntoIterator<Item = ScriptedTurn>) -> Script {
        Script { turns: turns.into_iter().collect(), ..Script::default() }
    }

    /// Switches `check` off.
    #[must_use]
    pub fn without(mut self, check: Check) -> Script {
        self.off.insert(check);
        self
    }

    /// Sets how answers are sent, unless their turn overrides it.
    #[must_use]
    pub fn sending(self, sending: Sending) -> Script {
        Script { sending, ..self }
    }

    /// Calls it a violation when the schema of `tool` is in a request before the one that
    /// turn number `before_turn`, counted from zero, answers.
    #[must_use]
    pub fn forbid(mut self, tool: impl Into<String>, before_turn: usize) -> Script {
        self.forbidden_schemas.push(Forbidden { tool: tool.into(), before_turn, text: None });
        self
    }

    /// Holds every model's thinking blocks to the prefix they were made behind.
    #[must_use]
    pub fn bind_thinking(mut self) -> Script {
        self.models.bind_thinking = vec!["*".into()];
        self
    }

    /// Makes it a violation if a request does not continue the one before it.
    #[must_use]
    pub fn stable_prefix(self) -> Script {
        Script { stable_prefix: true, ..self }
    }
}

/// The answer to one request.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptedTurn {
    /// The model says something.
    Say(Output),
    /// The model calls tools, and searches for them first where it must. The turn is over when it has called them.
    Reach(Box<Goal>),
    /// The request fails.
    Fail(Fault),
}

impl ScriptedTurn {
    /// Creates a turn in which the model says `parts` and stops for the reason that follows from them.
    pub fn say(parts: impl IntoIterator<Item = Part>) -> ScriptedTurn {
        ScriptedTurn::Say(Output { parts: parts.into_iter().collect(), ..Output::default() })
    }

    /// Creates a turn in which the model calls tools that it may have to search for with `query`.
    pub fn reach(query: impl Into<String>, parts: impl IntoIterator<Item = Part>) -> ScriptedTurn {
        let output = Output { parts: parts.into_iter().collect(), ..Output::default() };
        ScriptedTurn::Reach(Box::new(Goal { query: query.into(), before_search: Vec::new(), output }))
    }

    /// Sets what the model says before a search, if it has to search in this turn.
    #[must_use]
    pub fn before_search(self, parts: impl IntoIterator<Item = Part>) -> ScriptedTurn {
        match self {
            ScriptedTurn::Reach(goal) => {
                ScriptedTurn::Reach(Box::new(Goal { before_search: parts.into_iter().collect(), ..*goal }))
            }
            other => other,
        }
    }

    /// Creates a turn with this HTTP status and an error in the provider's format.
    pub fn status(status: u16) -> ScriptedTurn {
        ScriptedTurn::Fail(Fault::Status(ScriptedError { status, ..ScriptedError::default() }))
    }

    /// Sets how this turn is sent, if the model says something in it.
    #[must_use]
    pub fn sending(self, sending: Sending) -> ScriptedTurn {
        match self {
            ScriptedTurn::Say(output) => ScriptedTurn::Say(Output { sending: Some(sending), ..output }),
            ScriptedTurn::Reach(mut goal) => {
                goal.output.sending = Some(sending);
                ScriptedTurn::Reach(goal)
            }
            fail @ ScriptedTurn::Fail(_) => fail,
        }
    }
}

/// The output of the model in one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// In order; several calls are parallel calls.
    pub parts: Vec<Part>,
    /// Why it stopped; without one, tool use where something was called and the end of the turn elsewhere.
    pub stop: Option<Stop>,
    /// What it cost; without one, estimates from lengths.
    pub usage: Option<Usage>,
    /// How it is sent, if not as the script says.
    pub sending: Option<Sending>,
}

/// Calls that the model wants to make, whether it sees the tools or not.
///
/// A tool whose definition is before the model is called by its name. One that the conversation
/// only names is called through `call_tool`, if the request has that. For any other the model
/// searches, with `search_tools` or with a search that the client executes.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// What it searches for.
    pub query: String,
    /// What it says in front of a search.
    pub before_search: Vec<Part>,
    /// What it says once it can; the calls are by the tools' own names.
    pub output: Output,
}

/// A part of the output of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Words for the user.
    Text(String),
    /// Thoughts.
    Thinking {
        /// What it thought.
        text: String,
        /// Made up by the server when missing.
        signature: Option<String>,
    },
    /// A call of one of the client's tools.
    Call(Call),
    /// A search of deferred tools by means of the provider's own search tool.
    Search(Search),
    /// A block, item or part of the wire that asked, as it stands; on Chat Completions
    /// its keys become keys of the message.
    Raw(Value),
}

impl Part {
    /// Words for the user.
    pub fn text(text: impl Into<String>) -> Part {
        Part::Text(text.into())
    }

    /// Thoughts under a signature that the server makes up.
    pub fn thinking(text: impl Into<String>) -> Part {
        Part::Thinking { text: text.into(), signature: None }
    }

    /// A call whose identifier the server makes up.
    pub fn call(name: impl Into<String>, arguments: Value) -> Part {
        Part::Call(Call { name: name.into(), arguments, id: None, namespace: None })
    }

    /// A provider-side search by words that finds the tools named.
    pub fn search<'a>(query: impl Into<String>, matches: impl IntoIterator<Item = &'a str>) -> Part {
        let matches = matches.into_iter().map(String::from).collect();
        Part::Search(Search { query: Some(query.into()), matches, ..Search::default() })
    }
}

/// A call of one of the client's tools.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// What it is given. A text is the beginning of an object that was cut off: it goes on the
    /// wire as it stands where arguments are text, and is lost where they are an object.
    pub arguments: Value,
    /// Made up by the server when missing.
    pub id: Option<String>,
    /// On Responses; found from the request's tools when missing.
    pub namespace: Option<String>,
}

/// A search by means of the provider's own search tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    /// Words to look for (BM25 on Anthropic).
    pub query: Option<String>,
    /// A regular expression to look for (regex on Anthropic); wins over `query`.
    pub pattern: Option<String>,
    /// Names of the deferred tools, or on Responses namespaces, that it finds.
    pub matches: Vec<String>,
    /// The error code that Anthropic answers the search with instead.
    pub error: Option<String>,
    /// On Responses: left for the client to execute, even where the request does not say so.
    pub client: bool,
    /// The arguments as they stand, in place of those made from the query.
    pub arguments: Option<Value>,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It had said everything.
    EndTurn,
    /// It waits for the result of a tool.
    ToolUse,
    /// It reached the limit on its output.
    MaxTokens,
    /// It would not go on.
    Refusal,
    /// It wants to be asked to go on.
    Pause,
    /// The word that goes on the wire.
    Other(String),
}

/// What a turn cost, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read, what came from the cache included.
    pub input: u64,
    /// Written, thoughts included.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
    /// Written as thoughts.
    pub reasoning: u64,
}

/// How bytes reach the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Sending {
    /// Characters per delta of a stream.
    pub delta: usize,
    /// Bytes per HTTP chunk, wherever that cuts; one event at a time when missing.
    pub chunk: Option<usize>,
    /// How long to wait between chunks.
    pub pause: Duration,
    /// What a client has to step over.
    pub noise: BTreeSet<Noise>,
    /// Unusual forms of streams, as compatible servers send them.
    pub quirks: BTreeSet<Quirk>,
    /// Close the connection after so many bytes of the body, if it has as many.
    pub cut_after: Option<usize>,
    /// Fall silent for a while.
    pub stall: Option<Stall>,
    /// Break a stream off with an error event.
    pub error_after: Option<Box<StreamError>>,
}

impl Default for Sending {
    fn default() -> Sending {
        Sending {
            delta: 16,
            chunk: None,
            pause: Duration::ZERO,
            noise: BTreeSet::new(),
            quirks: BTreeSet::new(),
            cut_after: None,
            stall: None,
            error_after: None,
        }
    }
}

impl Sending {
    /// In chunks of `bytes`, wherever that cuts.
    pub fn chunks_of(bytes: usize) -> Sending {
        Sending { chunk: Some(bytes), ..Sending::default() }
    }

    /// Broken off after `bytes` of the body.
    pub fn cut_after(bytes: usize) -> Sending {
        Sending { cut_after: Some(bytes), ..Sending::default() }
    }

    /// Silent after `bytes` of the body, until the client goes away.
    pub fn stall_after(bytes: usize) -> Sending {
        Sending { stall: Some(Stall { after: bytes, time: None }), ..Sending::default() }
    }

    /// Broken off after `events` of a stream with an error event, as if for this HTTP status.
    pub fn error_after(events: usize, status: u16) -> Sending {
        let refusal = ScriptedError { status, ..ScriptedError::default() };
        Sending { error_after: Some(Box::new(StreamError { events, refusal })), ..Sending::default() }
    }

    /// With everything in between that a client has to step over.
    pub fn noisy() -> Sending {
        Sending { noise: Noise::ALL.into_iter().map(|(noise, _)| noise).collect(), ..Sending::default() }
    }
}

/// A pause in the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Bytes of the body that come before it.
    pub after: usize,
    /// How long it lasts; without an end, until the client goes away.
    pub time: Option<Duration>,
}

/// An error in the middle of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamError {
    /// Events that come before it.
    pub events: usize,
    /// The error.
    pub refusal: ScriptedError,
}

/// Additional events and blocks that a client has to ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noise {
    /// Signs of life between all events, as the provider gives them.
    Ping,
    /// Lines that are comments to a reader of server-sent events. Google sends none, and its own client chokes on them.
    Comment,
    /// Events that no client can know.
    Event,
    /// A block, item, part or field that no client can know, also where nothing is streamed.
    Block,
}

impl Noise {
    pub(crate) const ALL: [(Noise, &str); 4] =
        [(Noise::Ping, "ping"), (Noise::Comment, "comment"), (Noise::Event, "event"), (Noise::Block, "block")];
}

/// An unusual form of a stream. Each concerns one wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quirk {
    /// On Chat Completions, further pieces of a call have an empty id and an empty name (Qwen, GLM).
    EmptyNames,
    /// On Chat Completions, the final count is in a choice with an empty delta (OpenRouter).
    UsageInChoice,
    /// On Chat Completions, the reason to finish is an empty text until there is one.
    EmptyReason,
    /// On Responses, items have no events of their own; calls are in the final response only.
    BareItems,
    /// On Messages, the final count and the reason to stop are two events.
    SplitEnd,
    /// On Gemini, all parts are in one event.
    OneEvent,
}

impl Quirk {
    pub(crate) const ALL: [(Quirk, &str); 6] = [
        (Quirk::EmptyNames, "empty_names"),
        (Quirk::UsageInChoice, "usage_in_choice"),
        (Quirk::EmptyReason, "empty_reason"),
        (Quirk::BareItems, "bare_items"),
        (Quirk::SplitEnd, "split_end"),
        (Quirk::OneEvent, "one_event"),
    ];
}

/// A fault in place of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// An HTTP status with an error in the provider's own shape.
    Status(ScriptedError),
    /// The connection closes before the first byte.
    Drop,
    /// Nothing comes for so long, or until the client goes away; then the connection closes.
    Stall(Option<Duration>),
}

/// A scripted error response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptedError {
    /// The HTTP status.
    pub status: u16,
    /// The text in the error.
    pub message: Option<String>,
    /// The `retry-after` header, as it stands.
    pub retry_after: Option<String>,
    /// Further headers: names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The whole body, in place of the provider's shape.
    pub body: Option<Value>,
    /// The whole body as it stands, which need not be JSON; wins over `body`.
    pub text: Option<String>,
}

/// Restrictions of some models. An entry is a name, or a prefix before a `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Models {
    /// Models that refuse a forced `tool_choice`.
    pub refuse_forced_choice: Vec<String>,
    /// Models whose thinking blocks are valid only behind the prefix they were made for.
    pub bind_thinking: Vec<String>,
    /// Models that know neither deferred tools nor a search for them.
    pub no_tool_search: Vec<String>,
}

impl Default for Models {
    fn default() -> Models {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Models {
            refuse_forced_choice: list(&[
                "claude-fable-5-1*",
                "claude-mythos-5-1*",
                "claude-opus-5-5*",
                "claude-sonnet-5-5*",
            ]),
            bind_thinking: list(&["claude-fable-5-1*", "claude-opus-5-5*"]),
            no_tool_search: list(&[
                "claude-3*",
                "claude-opus-4-0*",
                "claude-opus-4-1*",
                "claude-opus-4-2*",
                "claude-sonnet-4-0*",
                "claude-sonnet-4-2*",
                "gpt-3*",
                "gpt-4*",
                "gpt-5",
                "gpt-5-*",
                "gpt-5.1*",
                "gpt-5.2*",
                "gpt-5.3*",
                "gpt-5.4-nano*",
                "o1*",
                "o3*",
                "o4*",
            ]),
        }
    }
}

impl Models {
    /// Returns whether `list` contains `model`.
    pub(crate) fn named(list: &[String], model: &str) -> bool {
        list.iter().any(|entry| match entry.strip_suffix('*') {
            Some(beginning) => model.starts_with(beginning),
            None => entry == model,
        })
    }
}

/// A tool whose schema must not be sent before a certain turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// Its name on the wire.
    pub tool: String,
    /// The first turn, counted from zero, whose request may hold its schema.
    pub before_turn: usize,
    /// Words of the definition that must not stand anywhere in the body either.
    pub text: Option<String>,
}

/// How `/v1/embeddings` answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// The length of a vector where the request does not say.
    pub dimensions: usize,
    /// What the first requests meet, one each.
    pub faults: Vec<Fault>,
}

impl Default for Embeddings {
    fn default() -> Embeddings {
        Embeddings { dimensions: 64, faults: Vec::new() }
    }
}
