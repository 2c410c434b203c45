//! A server inside the process.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw, raw},
    rpc::RpcError,
};
use pegboard_upstream::{
    AnswerFuture, LocalClient, LocalServer,
    config::{ServerConfig, TransportConfig},
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// Tools that are listed at once.
const PAGE: usize = 25;

/// Bytes of a large result.
pub(crate) const LARGE: usize = 300 << 10;

/// The result of the tool `vendor`: content of all kinds, an unknown field, and numbers that a JSON
/// library would write in another way.
pub(crate) const VENDOR: &str = concat!(
    r#"{"x-vendor":{"z":1.0,"a":[1e2,123456789012345678901234567890],"m":{"y":null,"x":0.10}},"#,
    r#""content":[{"type":"text","text":"\u00e9"},{"type":"image","data":"","mimeType":"image/png"},"#,
    r#"{"type":"audio","data":"","mimeType":"audio/wav"},"#,
    r#"{"type":"resource","resource":{"uri":"toy://other","text":"x"}}]}"#
);

/// The resource of the user interface of its tools, which is there if one of them names it. Its text
/// is the name of the first tool.
pub(crate) const UI_RESOURCE: &str = "ui://app/main";

/// The id of every task. Its result names a resource.
pub(crate) const TASK: &str = "task/1";

/// Notifications of the tool `noisy`, of 64 KiB each.
pub(crate) const NOISE: usize = 40;

/// A server that offers tools by name, a prompt and resources, and keeps what it is called with.
/// Its tools are listed in pages.
///
/// Some names mean something: `fail` fails, `refuse` is refused, `wait` waits for
/// [`release`](Server::release), `link` names a resource, `large` has a result of [`LARGE`] bytes
/// and a little more, `vendor` has the result [`VENDOR`], `meta` returns the `_meta` of its call, `return` returns its argument `result`, `task` becomes the task [`TASK`], `ask` and `sample` ask the client,
/// `progress` and `log` send three notifications each, `noisy` [`NOISE`] large ones before a large
/// result, and `exit` ends the server.
pub(crate) struct Server {
    era: Era,
    tools: Mutex<Vec<Value>>,
    prompts: Mutex<Vec<String>>,
    calls: Mutex<Vec<(String, String)>>,
    /// Calls that were given up.
    dropped: Arc<AtomicUsize>,
    /// How often it was started.
    starts: AtomicUsize,
    /// Calls of `wait` that may end.
    released: Semaphore,
    client: Mutex<Option<LocalClient>>,
    /// Resources whose updates are wanted.
    watched: Mutex<BTreeSet<String>>,
}

/// Counts itself when it is dropped early.
struct Counted(Option<Arc<AtomicUsize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(count) = &self.0 {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}

/// The definition of a tool that takes any arguments.
pub(crate) fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

impl Server {
    /// A server with tools of these names, which take any arguments.
    pub(crate) fn new(names: &[&str]) -> Arc<Self> {
        Self::of(Era::Modern, names)
    }

    /// [`new`](Self::new) with a server of this era.
    pub(crate) fn of(era: Era, names: &[&str]) -> Arc<Self> {
        Self::made(era, names.iter().map(|name| tool(name, &format!("Does what {name} says"))).collect())
    }

    /// A server with tools of these definitions.
    pub(crate) fn with(tools: Vec<Value>) -> Arc<Self> {
        Self::made(Era::Modern, tools)
    }

    /// A server of this era with tools of these definitions.
    pub(crate) fn made(era: Era, tools: Vec<Value>) -> Arc<Self> {
        Arc::new(Self {
            era,
            tools: Mutex::new(tools),
            prompts: Mutex::new(vec!["greet".to_owned()]),
            calls: Mutex::default(),
            dropped: Arc::default(),
            starts: AtomicUsize::new(0),
            released: Semaphore::new(0),
            client: Mutex::default(),
            watched: Mutex::default(),
        })
    }

    /// How many calls were given up.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    /// How often it was started.
    pub(crate) fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }

    /// The configuration of this server under a name.
    pub(crate) fn config(self: &Arc<Self>, name: &str) -> ServerConfig {
        ServerConfig::new(name, TransportConfig::Local(Arc::clone(self) as Arc<dyn LocalServer>))
    }

    /// The calls so far: the tool, and its arguments as they were written.
    pub(crate) fn calls(&self) -> Vec<(String, String)> {
        lock(&self.calls).clone()
    }

    /// The names of the tools that were called so far.
    pub(crate) fn called(&self) -> Vec<String> {
        self.calls().into_iter().map(|(name, _)| name).collect()
    }

    /// Lets so many calls of `wait` end.
    pub(crate) fn release(&self, calls: usize) {
        self.released.add_permits(calls);
    }

    /// Changes the tools, and notifies the client.
    pub(crate) fn set_tools(&self, tools: Vec<Value>) {
        *lock(&self.tools) = tools;
        self.notify("notifications/tools/list_changed", &json!({}));
    }

    /// Adds a tool, and notifies the client.
    pub(crate) fn add_tool(&self, name: &str) {
        let mut tools = lock(&self.tools).clone();
        tools.push(tool(name, &format!("Does what {name} says")));
        self.set_tools(tools);
    }

    /// Changes the prompts, and notifies the client.
    pub(crate) fn set_prompts(&self, names: &[&str]) {
        *lock(&self.prompts) = names.iter().map(|name| (*name).to_owned()).collect();
        self.notify("notifications/prompts/list_changed", &json!({}));
    }

    /// Notifies the client that a resource has changed; `false` if it is not watched.
    pub(crate) fn update(&self, uri: &str) -> bool {
        let is_watched = lock(&self.watched).contains(uri);
        if is_watched {
            self.notify("notifications/resources/updated", &json!({"uri": uri}));
        }
        is_watched
    }

    /// The resources whose updates are wanted.
    pub(crate) fn watched(&self) -> Vec<String> {
        lock(&self.watched).iter().cloned().collect()
    }

    /// Sends a notification to the client, if it is there.
    pub(crate) fn notify(&self, method: &str, params: &Value) {
        if let Some(client) = lock(&self.client).clone() {
            client.notify(method, Some(raw(params)));
        }
    }

    /// Whether one of its tools has a user interface.
    fn has_ui(&self) -> bool {
        lock(&self.tools).iter().any(|tool| tool["_meta"].to_string().contains(UI_RESOURCE))
    }

    fn client(&self) -> LocalClient {
        lock(&self.client).clone().expect("it is connected")
    }

    async fn call(&self, params: Fields) -> Result<Raw, RpcError> {
        let arguments = params.get("arguments").map(|arguments| arguments.get().to_owned());
        let name = params.text("name").unwrap_or_default();
        lock(&self.calls).push((name.clone(), arguments.unwrap_or_default()));
        match name.as_str() {
            "fail" => Ok(raw(&json!({"content": [{"type": "text", "text": "it failed"}], "isError": true}))),
            "refuse" => Err(RpcError::new(RpcError::INVALID_PARAMS, "no such thing")),
            "wait" => self.wait().await,
            "vendor" => Ok(serde_json::from_str(VENDOR).expect("JSON")),
            "large" => Ok(text(&"x".repeat(LARGE))),
            "link" => Ok(raw(&json!({"content": resource_contents()}))),
            "meta" => Ok(text(params.get("_meta").map(|meta| meta.get()).unwrap_or_default())),
            "task" => Ok(raw(&json!({"resultType": "task", "taskId": TASK, "status": "working", "ttlMs": null}))),
            "return" => {
                let result = params.object("arguments").and_then(|mut arguments| arguments.remove("result"));
                Ok(result.unwrap_or_else(|| text("")))
            }
            "ask" => self.ask("elicitation/create", &json!({"message": "who?"}), &params).await,
            "sample" => self.ask("sampling/createMessage", &json!({"messages": [], "maxTokens": 1}), &params).await,
            "progress" => {
                let token: Value = params.object("_meta").unwrap_or_default().read("progressToken").unwrap_or_default();
                for progress in 1..=3 {
                    self.notify("notifications/progress", &json!({"progressToken": token, "progress": progress}));
                }
                Ok(text("done"))
            }
            "noisy" => {
                let token: Value = params.object("_meta").unwrap_or_default().read("progressToken").unwrap_or_default();
                for progress in 1..=NOISE {
                    let message = "x".repeat(64 << 10);
                    let params = json!({"progressToken": token, "progress": progress, "message": message});
                    self.notify("notifications/progress", &params);
                }
                Ok(text(&"x".repeat(LARGE)))
            }
            "log" => {
                for level in ["debug", "info", "error"] {
                    self.notify("notifications/message", &json!({"level": level, "data": "working"}));
                }
                Ok(text("done"))
            }
            "exit" => {
                self.client().close("it has ended");
                std::future::pending().await
            }
            _ => Ok(text("done")),
        }
    }

    /// Answers a request about a task, and keeps it like a call.
    fn task(&self, method: &str, params: &Fields) -> Result<Raw, RpcError> {
        let id = params.text("taskId").unwrap_or_default();
        lock(&self.calls).push((method.to_owned(), id.clone()));
        if id != TASK {
            return Err(RpcError::new(RpcError::INVALID_PARAMS, "no such task"));
        }
        let link = json!({"content": [{"type": "resource_link", "uri": "toy://text", "name": "text"}]});
        Ok(raw(&match method {
            "tasks/get" => {
                json!({"resultType": "complete", "taskId": TASK, "status": "completed", "ttlMs": null, "result": link})
            }
            _ => json!({"resultType": "complete"}),
        }))
    }

    async fn wait(&self) -> Result<Raw, RpcError> {
        let mut counted = Counted(Some(Arc::clone(&self.dropped)));
        self.released.acquire().await.expect("it is never closed").forget();
        counted.0 = None;
        Ok(text("done"))
    }

    /// Asks the client in the way of the era; the result holds the answer.
    async fn ask(&self, method: &str, question: &Value, params: &Fields) -> Result<Raw, RpcError> {
        let answer = match (self.era, params.object("inputResponses")) {
            (Era::Legacy, _) => self.client().ask(method, Some(raw(question))).await?,
            (Era::Modern, Some(responses)) => {
                assert_eq!(params.text("requestState").as_deref(), Some("asked"));
                responses.get("question").map(ToOwned::to_owned).expect("an answer")
            }
            (Era::Modern, None) => {
                let requests = json!({"question": {"method": method, "params": question}});
                let result =
                    json!({"resultType": "input_required", "inputRequests": requests, "requestState": "asked"});
                return Ok(raw(&result));
            }
        };
        Ok(text(answer.get()))
    }

    /// What it says of itself in its era.
    fn greet(&self) -> Raw {
        self.starts.fetch_add(1, Ordering::SeqCst);
        let mut capabilities = json!({
            "tools": {"listChanged": true}, "prompts": {"listChanged": true}, "resources": {"subscribe": true}, "completions": {},
            "logging": {}
        });
        if lock(&self.tools).iter().any(|tool| tool["name"] == "task") {
            capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        }
        match self.era {
            Era::Modern => raw(&json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})),
            Era::Legacy => {
                let info = json!({"name": "server", "version": "1"});
                raw(&json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}))
            }
        }
    }

    /// The tools from a cursor on, in pages of [`PAGE`].
    fn page(&self, cursor: &str) -> Raw {
        let from = cursor.parse().unwrap_or(0);
        let tools = lock(&self.tools);
        let mut page = json!({"tools": tools.iter().skip(from).take(PAGE).collect::<Vec<_>>()});
        if from + PAGE < tools.len() {
            page["nextCursor"] = json!((from + PAGE).to_string());
        }
        raw(&page)
    }

    /// Agrees to everything that the client wants to know.
    async fn listen(&self, params: &Fields) -> Result<Raw, RpcError> {
        let wanted = params.object("notifications").unwrap_or_default();
        *lock(&self.watched) = wanted.read("resourceSubscriptions").unwrap_or_default();
        self.notify("notifications/subscriptions/acknowledged", &json!({"notifications": wanted}));
        std::future::pending().await
    }
}

/// A link to its resource, and the resource itself.
fn resource_contents() -> [Value; 2] {
    let embedded = json!({"uri": "toy://text", "text": "hello"});
    [
        json!({"type": "resource_link", "uri": "toy://text", "name": "text"}),
        json!({"type": "resource", "resource": embedded}),
    ]
}

impl LocalServer for Server {
    fn connected(&self, client: LocalClient) {
        *lock(&self.client) = Some(client);
    }

    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a> {
        Box::pin(async move {
            let fields = Fields::of_optional(params.as_deref());
            let template = json!({"uriTemplate": "toy://numbers/{number}", "name": "number"});
            let uri = || fields.text("uri").unwrap_or_default();
            match (method, self.era) {
                ("server/discover", Era::Modern) | ("initialize", Era::Legacy) => Ok(self.greet()),
                ("tools/list", _) => Ok(self.page(&fields.text("cursor").unwrap_or_default())),
                ("tools/call", _) => self.call(fields).await,
                ("prompts/list", _) => {
                    let prompts: Vec<Value> = lock(&self.prompts).iter().map(|name| json!({"name": name})).collect();
                    Ok(raw(&json!({"prompts": prompts})))
                }
                ("prompts/get", _) => {
                    let [link, embedded] = resource_contents();
                    Ok(raw(&json!({"messages": [params, {"content": link}, {"content": embedded}]})))
                }
                ("resources/list", _) => {
                    let mut resources = vec![json!({"uri": "toy://text", "name": "text"})];
                    resources.extend(self.has_ui().then(|| json!({"uri": UI_RESOURCE, "name": "app"})));
                    Ok(raw(&json!({"resources": resources})))
                }
                ("resources/templates/list", _) => Ok(raw(&json!({"resourceTemplates": [template]}))),
                ("resources/read", _) => match uri().as_str() {
                    "toy://text" | "toy://numbers/5" => {
                        Ok(raw(&json!({"contents": [{"uri": uri(), "text": "hello"}]})))
                    }
                    UI_RESOURCE if self.has_ui() => {
                        let name = lock(&self.tools)[0]["name"].clone();
                        Ok(raw(&json!({"contents": [{"uri": UI_RESOURCE, "text": name}]})))
                    }
                    _ => Err(RpcError::new(RpcError::INVALID_PARAMS, "none").with_data(&json!({"uri": uri()}))),
                },
                ("tasks/get" | "tasks/update" | "tasks/cancel", Era::Modern) => self.task(method, &fields),
                ("completion/complete", _) => Ok(raw(&json!({"completion": {"values": [params]}}))),
                ("subscriptions/listen", Era::Modern) => self.listen(&fields).await,
                ("resources/subscribe", Era::Legacy) => {
                    lock(&self.watched).insert(uri());
                    Ok(raw(&json!({})))
                }
                ("resources/unsubscribe", Era::Legacy) => {
                    lock(&self.watched).remove(&uri());
                    Ok(raw(&json!({})))
                }
                ("logging/setLevel", Era::Legacy) => Ok(raw(&json!({}))),
                _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such thing")),
            }
        })
    }
}

fn text(text: &str) -> Raw {
    raw(&json!({"content": [{"type": "text", "text": text}]}))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
