//! Carrying out what a model asks for.

use std::{
    collections::BTreeSet,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
    time::Duration,
};

use pegboard_core::{Catalog, Selection, Tool};
use pegboard_discovery::{HostTool, Target};
use pegboard_mcp::{
    headers,
    json::{Fields, Raw, raw},
};
use pegboard_upstream::{Call, CallError, Fleet, Hello, Upstream, with_causes};
use serde_json::{Value, json};
use tokio::sync::Mutex as AsyncMutex;
use tracing::Instrument as _;

use crate::{
    approval::{Approval, Grants, Human, Policy, Question, Request, Verdict},
    commands::Commands,
    custom::{Output, Registry},
    outputs::Outputs,
    server_results, trace,
};

/// What a call came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Done {
    /// What the model gets to read.
    pub(crate) text: String,
    /// The same as a value, where the tool says it so.
    pub(crate) value: Option<Value>,
    pub(crate) is_error: bool,
}

impl Done {
    pub(crate) fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), value: None, is_error: false }
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), value: None, is_error: true }
    }
}

/// Everything that can be called, whether the model sees it or not.
pub(crate) struct Hands {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) registry: Registry,
    pub(crate) catalog: RwLock<Catalog>,
    pub(crate) selection: Selection,
    pub(crate) outputs: Option<Arc<Outputs>>,
    /// Set once, in code execution mode.
    pub(crate) commands: OnceLock<Commands>,
    pub(crate) human: Option<Arc<dyn Human>>,
    pub(crate) approval: Approval,
    /// Calls that were consented to beforehand.
    pub(crate) grants: Grants,
    pub(crate) policy: Option<Arc<dyn Policy>>,
    /// What the person has allowed for good, by tool.
    allowed: Mutex<BTreeSet<String>>,
    /// One question at a time.
    asking: AsyncMutex<()>,
    pub(crate) tool_time: Duration,
    pub(crate) output_bytes: usize,
}

impl fmt::Debug for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hands").field("fleet", &self.fleet).field("registry", &self.registry).finish_non_exhaustive()
    }
}

impl Hands {
    pub(crate) fn new(fleet: Arc<Fleet>, registry: Registry, selection: Selection) -> Self {
        Self {
            fleet,
            registry,
            catalog: RwLock::new(Catalog::empty()),
            selection,
            outputs: None,
            commands: OnceLock::new(),
            human: None,
            approval: Approval::Never,
            grants: Grants::default(),
            policy: None,
            allowed: Mutex::default(),
            asking: AsyncMutex::new(()),
            tool_time: Duration::from_secs(300),
            output_bytes: 256 << 20,
        }
    }

    pub(crate) fn set_catalog(&self, catalog: Catalog) {
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
    }

    fn tool(&self, id: &str) -> Option<Arc<Tool>> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).find(id).cloned()
    }

    /// Does what a call led to. Whatever goes wrong, the model gets to read it.
    pub(crate) async fn carry_out(&self, target: Target) -> Done {
        let span = trace::call_span(&target);
        let done = self.carry_out_traced(target).instrument(span.clone()).await;
        trace::called(&span, &done);
        done
    }

    async fn carry_out_traced(&self, target: Target) -> Done {
        let tool = target.id.as_deref().and_then(|id| self.tool(id));
        if target.id.is_some() && tool.is_none() {
            return Done::error(format!("`{}` is no longer available", target.name));
        }
        if let Some(refusal) = self.refusal(tool.as_deref(), &target).await {
            return Done::error(refusal);
        }
        let own = target.server.is_none().then(|| HostTool::from_name(&target.name)).flatten();
        let done = match (own, tool) {
            (Some(own), _) => self.host_tool(own, &target.arguments).await,
            // A person takes the time that a person takes.
            (None, Some(tool)) if self.is_question(&tool) => self.ask(tool.name(), &target.arguments).await,
            (None, Some(tool)) => {
                let work = self.call(&tool, target.arguments);
                match tokio::time::timeout(self.tool_time, work).await {
                    Ok(done) => done,
                    Err(_) => Done::error(format!("no response within {} s", self.tool_time.as_secs_f32())),
                }
            }
            (None, None) => Done::error(format!("no tool `{}`", target.name)),
        };
        if done.text.len() > self.output_bytes {
            let (size, most) = (done.text.len(), self.output_bytes);
            return Done::error(format!("the output is {size} bytes, over the limit of {most}"));
        }
        done
    }

    /// Whether a tool is a question to the person.
    fn is_question(&self, tool: &Tool) -> bool {
        let is_custom = tool.server_name().is_none();
        is_custom && self.registry.find(tool.upstream_name()).is_some_and(|custom| custom.handler.is_none())
    }

    /// Why a call may not be made, if it may not.
    async fn refusal(&self, tool: Option<&Tool>, target: &Target) -> Option<String> {
        let request =
            Request { server: target.server.clone(), tool: target.name.clone(), arguments: target.arguments.clone() };
        if let Some(reason) = self.policy.as_ref().and_then(|policy| policy.forbids(&request)) {
            return Some(reason);
        }
        let is_command = tool.is_none() && target.name == HostTool::ExecuteShellCommand.name();
        let is_needed = match tool {
            Some(tool) => self.approval.is_needed(tool),
            None => is_command && self.approval != Approval::Never,
        };
        let key = target.id.as_deref().unwrap_or(&target.name);
        let is_granted = self.grants.covers(target.server.as_deref(), &target.name);
        if !is_needed || is_granted || self.is_allowed(key) {
            return None;
        }
        let Some(human) = &self.human else {
            return Some(format!(
                "`{}` was not called: it needs the user's approval, and there is no user to ask",
                target.name
            ));
        };
        let _one_at_a_time = self.asking.lock().await;
        if self.is_allowed(key) {
            return None;
        }
        match human.approve(request).await {
            Verdict::Allow => None,
            Verdict::AllowAlways => {
                self.allowed.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
                None
            }
            Verdict::Deny(reason) => Some(format!("`{}` was not called: {reason}", target.name)),
        }
    }

    /// What the model gets to read of a result, and where the whole of it is if that is not
    /// all.
    pub(crate) async fn offload(&self, tool: &str, done: Done) -> (String, Option<PathBuf>) {
        let Some(outputs) = self.outputs.as_ref().filter(|outputs| outputs.is_large(&done.text)) else {
            return (done.text, None);
        };
        match outputs.put(tool, done.text).await {
            Ok(offloaded) => (offloaded.message, Some(offloaded.path)),
            Err(error) => {
                (format!("the output is too large to show and could not be saved: {}", with_causes(&error)), None)
            }
        }
    }

    fn is_allowed(&self, key: &str) -> bool {
        self.allowed.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    async fn call(&self, tool: &Tool, arguments: Value) -> Done {
        if let Some(server) = tool.server_name() {
            return match self.fleet.find(server) {
                Some(upstream) => call_server(&upstream, tool, &arguments, self.tool_time).await,
                None => Done::error(format!("no server `{server}`")),
            };
        }
        let Some(custom) = self.registry.find(tool.upstream_name()) else {
            return Done::error(format!("`{}` is no longer available", tool.name()));
        };
        match custom.handler {
            Some(handler) => match handler.call(arguments).await {
                Ok(output) => {
                    let value = match &output {
                        Output::Json(value) => Some(value.clone()),
                        Output::Text(_) => None,
                    };
                    Done { text: output.into_text(), value, is_error: false }
                }
                Err(error) => Done::error(with_causes(&*error)),
            },
            None => Done::error("there is no user to ask"),
        }
    }

    async fn host_tool(&self, tool: HostTool, arguments: &Value) -> Done {
        match tool {
            HostTool::SearchLargeOutput | HostTool::ReadLargeOutput | HostTool::QueryLargeOutput => {
                let Some(outputs) = &self.outputs else { return Done::error("saved outputs are not enabled") };
                match outputs.answer(tool, arguments).await {
                    Ok(text) => Done::ok(text),
                    Err(error) => {
                        let hint = error.hint().map_or(String::new(), |hint| format!(" (hint: {hint})"));
                        Done::error(format!("Error: {}{hint}", with_causes(&error)))
                    }
                }
            }
            HostTool::ExecuteShellCommand => self.run_command(arguments).await,
            HostTool::GetPrompt => self.fetch("prompts/get", "name", arguments).await,
            HostTool::GetResource => self.fetch("resources/read", "uri", arguments).await,
            HostTool::AskHuman => self.ask(tool.name(), arguments).await,
            HostTool::GetApiSpec => Done::error("the tool API is not enabled"),
        }
    }

    async fn run_command(&self, arguments: &Value) -> Done {
        let Some(commands) = self.commands.get() else { return Done::error("shell commands are not enabled") };
        let command = arguments.get("command").and_then(Value::as_str).unwrap_or_default();
        let seconds = arguments.get("timeout_seconds").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
        let timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        commands.run(command, timeout).await
    }

    async fn ask(&self, tool: &str, arguments: &Value) -> Done {
        let Some(human) = &self.human else { return Done::error("there is no user to ask") };
        let texts = ["question", "message", "prompt", "text"];
        let text = texts.iter().find_map(|key| arguments.get(*key)).and_then(Value::as_str);
        let options = arguments.get("options").and_then(Value::as_array).into_iter().flatten();
        let question = Question {
            tool: tool.to_owned(),
            text: text.map_or_else(|| arguments.to_string(), str::to_owned),
            options: options.filter_map(Value::as_str).map(str::to_owned).collect(),
        };
        let _one_at_a_time = self.asking.lock().await;
        match human.answer(question).await {
            Some(answer) => Done::ok(answer),
            None => Done::error("the user did not answer"),
        }
    }

    /// Fetches what a server keeps beside its tools.
    async fn fetch(&self, method: &str, key: &str, arguments: &Value) -> Done {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (Some(server), Some(name)) = (text("server"), text(key)) else {
            return Done::error(format!("`server` and `{key}` are required"));
        };
        let found = self.fleet.find(server).filter(|_| self.selection.allows_server(server));
        let Some(upstream) = found else { return Done::error(format!("no server `{server}`")) };
        let mut params = Fields::new().with(key, name);
        if let Some(filled) = arguments.get("arguments").filter(|filled| filled.is_object()) {
            params = params.with("arguments", filled);
        }
        let make =
            |_: &Hello| Call { name: Some(name.to_owned()), ..Call::new(method, params.clone(), self.tool_time) };
        match upstream.call(make).await {
            Ok(result) => match method {
                "prompts/get" => server_results::prompt(&result),
                _ => server_results::resource(&result),
            },
            Err(error) => lost(server, &error),
        }
    }
}

async fn call_server(upstream: &Arc<Upstream>, tool: &Tool, arguments: &Value, timeout: Duration) -> Done {
    let name = tool.upstream_name();
    let params = Fields::new().with("name", name).with("arguments", arguments);
    let mirrored = mirrored(tool, arguments);
    let make = |_: &Hello| Call {
        name: Some(name.to_owned()),
        mirrored: mirrored.clone(),
        capabilities: Some(raw(&json!({}))),
        ..Call::new("tools/call", params.clone(), timeout.min(upstream.config().timeouts.call))
    };
    match upstream.call(make).await {
        Ok(result) => read(result).await,
        Err(error) => lost(upstream.name(), &error),
    }
}

/// Reads a result; a large one not on a thread that others wait for.
async fn read(result: Raw) -> Done {
    const LARGE: usize = 1 << 20;
    if result.get().len() < LARGE {
        return server_results::tool(result);
    }
    let reading = tokio::task::spawn_blocking(move || server_results::tool(result));
    reading.await.unwrap_or_else(|_| Done::error("cannot parse the result"))
}

/// Parameters that headers repeat.
fn mirrored(tool: &Tool, arguments: &Value) -> Vec<(String, String)> {
    let schema = tool.input_schema().filter(|schema| schema.contains("x-mcp-header"));
    let schema = schema.and_then(|schema| serde_json::from_str(schema).ok());
    let parameters = schema.as_ref().and_then(|schema| headers::mirrored(schema).ok()).unwrap_or_default();
    let value = |parameter: &headers::MirroredParameter| Some((parameter.header.clone(), parameter.value(arguments)?));
    parameters.iter().filter_map(value).collect()
}

fn lost(server: &str, error: &CallError) -> Done {
    Done::error(match error {
        CallError::Rpc(error) => error.message.clone(),
        error => format!("server `{server}`: {}", with_causes(error)),
    })
}
