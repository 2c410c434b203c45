//! What the tests talk to.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use pegboard_agent::{Agent, AgentBuilder, AgentEvent, DialectName, Model, ToolSearch};
use pegboard_core::Secret;
use pegboard_llm::{Client, Provider as Vendor, client};
use pegboard_mcp::{
    json::{Raw, raw},
    rpc::RpcError,
};
use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn};
use pegboard_upstream::{
    AnswerFuture, LocalServer,
    config::{ServerConfig, TransportConfig},
};
use serde_json::{Value, json};

/// One model of each wire, and both of MiniMax.
pub(crate) const MODELS: [&str; 6] = [
    "anthropic/claude-opus-4-8",
    "openai/gpt-5.4",
    "openai-responses/gpt-5.4",
    "gemini/gemini-3-pro",
    "minimax/MiniMax-M3",
    "minimax-chat/MiniMax-M3",
];

pub(crate) const MODEL: &str = "anthropic/claude-opus-4-8";

pub(crate) fn model(text: &str) -> Model {
    Model::parse(text).expect("a model")
}

pub(crate) fn client(model: &Model, url: &str) -> Client {
    let base = match model.provider {
        Vendor::Anthropic => url.to_owned(),
        Vendor::OpenAi | Vendor::OpenAiResponses => format!("{url}/v1"),
        Vendor::Gemini => format!("{url}/v1beta"),
        Vendor::MiniMax => format!("{url}/minimax/anthropic"),
        Vendor::MiniMaxChat => format!("{url}/minimax/v1"),
    };
    let settings = client::Settings {
        timeout: Duration::from_secs(60),
        initial_backoff: Duration::from_millis(1),
        max_retries: 1,
        ..client::Settings::default()
    };
    let client = Client::new(model.provider, Secret::new("a-key")).expect("a client");
    client.with_base_url(base).with_settings(settings)
}

/// An agent of this model that talks to this provider, in the document's dialect.
pub(crate) fn agent_of(text: &str, provider: &Provider) -> AgentBuilder {
    let model = model(text);
    let client = client(&model, provider.url());
    Agent::builder(model).client(client).tool_search(ToolSearch::with_dialect(DialectName::Explicit))
}

pub(crate) fn agent(provider: &Provider) -> AgentBuilder {
    agent_of(MODEL, provider)
}

/// A provider whose model says this, turn by turn.
pub(crate) fn provider(turns: impl IntoIterator<Item = ScriptedTurn>) -> Provider {
    Provider::start(Script::new(turns))
}

pub(crate) fn say(text: &str) -> ScriptedTurn {
    ScriptedTurn::say([Part::text(text)])
}

pub(crate) fn call(name: &str, arguments: Value) -> ScriptedTurn {
    ScriptedTurn::say([Part::call(name, arguments)])
}

/// A server in this process: `get_weather`, `weather_forecast`, `fail`, `slow`, `large`, and
/// `vanishing` until it vanishes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) calls: Arc<AtomicUsize>,
    /// Calls of `slow` that were not waited for.
    pub(crate) dropped: Arc<AtomicBool>,
    pub(crate) began: Arc<tokio::sync::Notify>,
}

impl Weather {
    pub(crate) fn config(&self) -> ServerConfig {
        self.named("weather")
    }

    pub(crate) fn named(&self, name: &str) -> ServerConfig {
        ServerConfig::new(name, TransportConfig::Local(Arc::new(self.clone())))
    }

    async fn handle(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let mut result = match method {
            "server/discover" => json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "instructions": "Weather for cities",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "weather", "version": "1"}}
            }),
            "tools/list" => json!({"tools": tools()}),
            "prompts/list" => json!({"prompts": [{"name": "briefing", "description": "A morning briefing"}]}),
            "prompts/get" => json!({"messages": [
                {"role": "user", "content": {"type": "text", "text": format!("Brief {}", params["arguments"]["who"].as_str().unwrap_or("me"))}}
            ]}),
            "resources/list" => json!({"resources": [{"uri": "weather://stations", "name": "stations"}]}),
            "resources/read" => json!({"contents": [{"uri": "weather://stations", "text": "Rome, Tokyo"}]}),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            "tools/call" => self.call(&params).await?,
            _ => return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "no such method")),
        };
        result["resultType"] = "complete".into();
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
        Ok(result)
    }

    async fn call(&self, params: &Value) -> Result<Value, RpcError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let text = match params["name"].as_str().unwrap_or_default() {
            "get_weather" => {
                format!("sunny in {}", params["arguments"]["location"].as_str().unwrap_or("nowhere"))
            }
            "weather_forecast" => "rain for 7 days".to_owned(),
            "fail" => {
                return Ok(json!({"content": [{"type": "text", "text": "the station is down"}], "isError": true}));
            }
            "refuse" => return Err(RpcError::new(RpcError::INVALID_PARAMS, "`city` is not a city")),
            "slow" => {
                let _noted = Noted(Arc::clone(&self.dropped));
                self.began.notify_one();
                std::future::pending::<()>().await;
                String::new()
            }
            "large" => {
                let bytes = params["arguments"]["bytes"].as_u64().unwrap_or(100_000);
                let line = "station 17 measured 21.5 degrees; ";
                line.repeat(usize::try_from(bytes).expect("a size") / line.len() + 1)
            }
            name => return Err(RpcError::new(RpcError::INVALID_PARAMS, format!("unknown tool: {name}"))),
        };
        Ok(json!({"content": [{"type": "text", "text": text}]}))
    }
}

/// Says so when it is dropped.
struct Noted(Arc<AtomicBool>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn tools() -> Value {
    let place = json!({"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]});
    let nothing = json!({"type": "object", "properties": {}});
    json!([
        {"name": "get_weather", "description": "Get current weather for a location", "inputSchema": place, "annotations": {"readOnlyHint": true}},
        {"name": "weather_forecast", "description": "Get weather forecast for the next 7 days", "inputSchema": place, "annotations": {"readOnlyHint": true}},
        {"name": "fail", "description": "Ask a station that is down", "inputSchema": nothing},
        {"name": "refuse", "description": "Ask for a place that is none", "inputSchema": nothing},
        {"name": "slow", "description": "Ask a station that never answers", "inputSchema": nothing},
        {"name": "large", "description": "Ask for all measurements", "inputSchema": {"type": "object", "properties": {"bytes": {"type": "integer"}}}}
    ])
}

impl LocalServer for Weather {
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a> {
        let params = params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        Box::pin(async move { self.handle(method, params).await.map(|result| raw(&result)) })
    }
}

/// Runs a prompt to its end; what happened, and the answer.
pub(crate) async fn run(agent: &Agent, prompt: &str) -> (Vec<AgentEvent>, pegboard_agent::RunAnswer) {
    let mut run = agent.stream(prompt);
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        events.push(event);
    }
    let answer = run.answer().await.expect("an answer");
    (events, answer)
}

/// What the calls of a run answered, in the order of their ends: name, text, failure.
pub(crate) fn results(events: &[AgentEvent]) -> Vec<(String, String, bool)> {
    let finished = events.iter().filter_map(|event| match event {
        AgentEvent::CallFinished { name, text, is_error, .. } => Some((name.clone(), text.clone(), *is_error)),
        _ => None,
    });
    finished.collect()
}

/// The last results that the provider was sent.
pub(crate) fn last_body(provider: &Provider) -> String {
    provider.requests().last().expect("a request").body.to_string()
}

/// A folder of its own for each test, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        // Left over from a run that was killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
