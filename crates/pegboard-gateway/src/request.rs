//! Requests and replies between the doors, independent of the protocol version.

use std::sync::Arc;

use axum::http::HeaderMap;
use pegboard_http::PeerAddress;
use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw, SharedRaw},
    rpc::{Id, RpcError},
    trace::TraceContext,
};
use pegboard_upstream::ListKind;
use serde_json::{Map, Value};

use crate::{
    activity::EntryListener,
    bounds::{self, required},
    caller::Caller,
    exchange::{Outlet, log_level_rank},
    sessions::ClientSession,
    shares::{Claim, Party},
    tasks::{self, TaskMethod},
    text::shorten,
};

/// One request of a client.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Id,
    pub(crate) caller: Caller,
    pub(crate) session: SessionRef,
    pub(crate) operation: Operation,
    pub(crate) client: Client,
}

impl Request {
    /// Returns the party whose shares and limits the request counts against.
    pub(crate) fn party(&self) -> Party {
        Party::of(self.caller, self.client.address)
    }
}

/// The client of a request, as described by the request.
#[derive(Debug)]
pub(crate) struct Client {
    /// What it calls itself; a session knows.
    pub(crate) name: String,
    /// If the user makes the request in the console: what wants to know its entry in the activity.
    pub(crate) console: Option<EntryListener>,
    /// Where it comes from; a pipe has no address.
    pub(crate) address: Option<PeerAddress>,
    /// The number of its pipe, if it is on one.
    pub(crate) pipe: Option<u64>,
    /// What it can be asked for; a session knows.
    pub(crate) capabilities: Option<Raw>,
    /// From which level on it wants log messages about this request; a session knows.
    pub(crate) log_level: Option<String>,
    /// What it calls the progress of this request.
    pub(crate) progress: Option<Raw>,
    pub(crate) outlet: Outlet,
    /// Whose trace the request belongs to.
    pub(crate) trace: TraceContext,
}

/// The session that a request belongs to.
#[derive(Debug)]
pub(crate) enum SessionRef {
    /// None: the client keeps everything that a request depends on, and its list of tools does
    /// not change with what was searched for.
    Stateless,
    /// One that lasts for this request.
    Once,
    /// The one with this name.
    Named(String),
    /// This one.
    Open(Arc<ClientSession>),
}

/// The operation that a request asks for.
#[derive(Debug)]
pub(crate) enum Operation {
    Ping,
    Discover,
    Initialize(Initialize),
    ListTools(Cursor),
    List(ListKind, Cursor),
    CallTool(ToolCall),
    /// With the name that the client knows.
    GetPrompt(String, Fields),
    /// With the URI that the client knows.
    ReadResource(String, Fields),
    Complete(Reference, Fields),
    /// With the id that the client knows.
    Task(TaskMethod, String, Fields),
    SetLevel(String),
    Subscribe(String),
    Unsubscribe(String),
    Listen(Listen),
}

/// The position where a page of a list begins; `None` for the first page.
pub(crate) type Cursor = Option<usize>;

/// The parameters that begin a session.
#[derive(Debug)]
pub(crate) struct Initialize {
    pub(crate) version: String,
    pub(crate) capabilities: Option<Raw>,
    /// What the client calls itself.
    pub(crate) client: String,
}

/// A call of a tool.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    pub(crate) arguments: Value,
    /// Everything that was sent, the arguments as they were written among it.
    pub(crate) params: Fields,
    /// Headers that may repeat arguments.
    pub(crate) headers: Option<HeaderMap>,
}

/// The prompt or template that is to be completed.
#[derive(Debug)]
pub(crate) enum Reference {
    Prompt(String),
    Resource(String),
}

/// The changes that a client listens for.
#[derive(Debug)]
pub(crate) struct Listen {
    /// The lists, by the names of their flags.
    pub(crate) flags: Vec<&'static str>,
    pub(crate) uris: Option<Vec<String>>,
    /// Whether it wants to follow tasks, which is not supported.
    pub(crate) has_tasks: bool,
}

/// The lists that a client can listen to, by the name of their flag.
pub(crate) const FLAGS: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
];

/// The set of methods of a client: those of sessions, or those of independent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Methods {
    OfSessions,
    OfRequests,
}

impl Operation {
    /// Parses the operation of a method with these parameters.
    ///
    /// # Errors
    /// When there is no such method, or its parameters do not fit.
    pub(crate) fn parse(methods: Methods, method: &str, params: Fields) -> Result<Self, RpcError> {
        use Methods::{OfRequests, OfSessions};
        Ok(match (method, methods) {
            ("tools/list", _) => Self::ListTools(cursor(&params)?),
            ("tools/call", _) => Self::CallTool(ToolCall::parse(params)?),
            ("prompts/list", _) => Self::List(ListKind::Prompts, cursor(&params)?),
            ("prompts/get", _) => Self::GetPrompt(required(&params, "name")?, params),
            ("resources/list", _) => Self::List(ListKind::Resources, cursor(&params)?),
            ("resources/templates/list", _) => Self::List(ListKind::Templates, cursor(&params)?),
            ("resources/read", _) => Self::ReadResource(required(&params, "uri")?, params),
            ("completion/complete", _) => Self::Complete(Reference::parse(&params)?, params),
            ("server/discover", OfRequests) => Self::Discover,
            ("subscriptions/listen", OfRequests) => Self::Listen(Listen::parse(&params)?),
            (method, OfRequests) if let Some(task) = TaskMethod::named(method) => {
                Self::Task(task, required(&params, "taskId")?, params)
            }
            ("ping", OfSessions) => Self::Ping,
            ("initialize", OfSessions) => Self::Initialize(Initialize::parse(&params)?),
            ("logging/setLevel", OfSessions) => Self::SetLevel(log_level(&params)?),
            ("resources/subscribe", OfSessions) => Self::Subscribe(required(&params, "uri")?),
            ("resources/unsubscribe", OfSessions) => Self::Unsubscribe(required(&params, "uri")?),
            _ => {
                return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, format!("unknown method `{}`", shorten(method))));
            }
        })
    }
}

fn invalid(message: impl Into<String>) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, message)
}

fn cursor(params: &Fields) -> Result<Cursor, RpcError> {
    if params.get("cursor").is_none_or(|cursor| cursor.get() == "null") {
        return Ok(None);
    }
    let start = params.text("cursor").and_then(|cursor| cursor.parse().ok()).filter(|start| *start > 0);
    start.map(Some).ok_or_else(unknown_cursor)
}

pub(crate) fn unknown_cursor() -> RpcError {
    invalid("unknown `cursor`: use the `nextCursor` of an earlier page")
}

fn log_level(params: &Fields) -> Result<String, RpcError> {
    let wanted = required(params, "level")?;
    match log_level_rank(&wanted) {
        Some(_) => Ok(wanted),
        None => Err(invalid(format!("unknown log level `{}`", shorten(&wanted)))),
    }
}

impl Initialize {
    fn parse(params: &Fields) -> Result<Self, RpcError> {
        let version = required(params, "protocolVersion")?;
        let capabilities = params.get("capabilities").map(ToOwned::to_owned);
        if let Some(capabilities) = &capabilities {
            bounds::check_capabilities(capabilities)?;
        }
        let capabilities = capabilities.map(tasks::without_tasks);
        let client = params.object("clientInfo").and_then(|info| info.text("name")).unwrap_or_default();
        Ok(Self { version, capabilities, client })
    }
}

impl ToolCall {
    fn parse(params: Fields) -> Result<Self, RpcError> {
        let name = required(&params, "name")?;
        let arguments = match params.get("arguments").filter(|arguments| arguments.get() != "null") {
            None => Value::Object(Map::new()),
            Some(arguments) => {
                serde_json::from_str(arguments.get()).map_err(|_| invalid("`arguments` must be JSON"))?
            }
        };
        if !arguments.is_object() {
            return Err(invalid("`arguments` must be an object"));
        }
        Ok(Self { name, arguments, params, headers: None })
    }

    /// Returns the name of the called tool as the client wrote it: the inner one if a meta-tool calls it.
    pub(crate) fn called_tool(&self, is_wrapped: bool) -> String {
        let inner = self.arguments.get("name").and_then(Value::as_str).filter(|_| is_wrapped);
        shorten(inner.unwrap_or(&self.name))
    }
}

impl Reference {
    fn parse(params: &Fields) -> Result<Self, RpcError> {
        let reference = params.object("ref").ok_or_else(|| invalid("`ref` is required"))?;
        match reference.text("type").as_deref() {
            Some("ref/prompt") => Ok(Self::Prompt(required(&reference, "name")?)),
            Some("ref/resource") => Ok(Self::Resource(required(&reference, "uri")?)),
            _ => Err(invalid("`ref.type` must be `ref/prompt` or `ref/resource`")),
        }
    }
}

impl Listen {
    fn parse(params: &Fields) -> Result<Self, RpcError> {
        let wanted = params.object("notifications").ok_or_else(|| invalid("`notifications` is required"))?;
        let flags = FLAGS.iter().map(|(flag, _)| *flag);
        let flags = flags.filter(|flag| wanted.read::<bool>(flag) == Some(true)).collect();
        let uris = wanted.has("resourceSubscriptions");
        let uris = uris.then(|| wanted.read("resourceSubscriptions").unwrap_or_default());
        Ok(Self { flags, uris, has_tasks: wanted.has("taskIds") })
    }
}

/// The reply to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// What was asked for is done.
    Done,
    /// A session has begun.
    Begun(Arc<ClientSession>, Greeting),
    /// What there is here.
    Discovered(Greeting, Caching),
    /// A page of a list.
    Page(Page),
    /// What Pegboard itself has to say to a model.
    Text(Text),
    /// What a server answered.
    Forwarded(Forwarded),
    /// A stream has ended.
    Listened,
}

impl Reply {
    /// Takes the claim on its caller's share of memory.
    pub(crate) fn take_room(&mut self) -> Option<Claim> {
        match self {
            Self::Forwarded(forwarded) => forwarded.room.take(),
            _ => None,
        }
    }
}

/// The answer to a client that connects.
#[derive(Debug)]
pub(crate) struct Greeting {
    /// The protocol version that the client asked for.
    pub(crate) version: Option<String>,
    pub(crate) instructions: Option<String>,
    /// The extensions that visible servers have.
    pub(crate) extensions: Vec<&'static str>,
}

/// How long and by whom an answer may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caching {
    pub(crate) ttl_ms: u64,
    /// Whether it depends on who asks.
    pub(crate) is_private: bool,
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) kind: ListKind,
    pub(crate) items: Vec<SharedRaw>,
    /// Where the next one begins.
    pub(crate) next: Cursor,
    pub(crate) caching: Caching,
}

/// A text of Pegboard itself for a model.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    /// What user interfaces get beside it.
    pub(crate) metadata: Option<Value>,
}

impl Text {
    pub(crate) fn error(text: String) -> Self {
        Self { text, is_error: true, metadata: None }
    }
}

/// The answer of a server.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) result: Raw,
    /// The rules that the server follows.
    pub(crate) era: Era,
    /// Whether it is the content of a resource.
    pub(crate) is_resource: bool,
    /// Its room in its caller's share of memory.
    pub(crate) room: Option<Claim>,
}

/// The outcome of a request.
pub(crate) type Outcome = Result<Reply, Failure>;

/// The reason why a request is rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// A request about a resource, which may be missing.
    #[error("{error}")]
    Resource { error: RpcError, uri: String },
    #[error("no such session; send `initialize` again")]
    NoSession,
    #[error("this token is no longer valid")]
    Unauthenticated,
    #[error("too many event streams are open with this token (`connections.streamsPerToken`)")]
    TooManyStreams,
    #[error("too many large requests in progress with this token (`maxBodyBytes`)")]
    TooManyBytes,
    /// By the client, who does not wait for an answer.
    #[error("the request was cancelled")]
    Cancelled,
}
