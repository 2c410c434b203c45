//! Runs the calls of a model.

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
    approval::{Approval, ApprovalDecision, CallPolicy, CallRequest, Grants, Human, Question},
    commands::Commands,
    custom::{Registry, ToolOutput},
    outputs::Outputs,
    server_results, trace,
};

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallOutcome {
    /// The text for the model.
    pub(crate) text: String,
    /// The result as a JSON value, if the tool returns one.
    pub(crate) value: Option<Value>,
    pub(crate) is_error: bool,
}

impl CallOutcome {
    pub(crate) fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), value: None, is_error: false }
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), value: None, is_error: true }
    }
}

/// Runs calls of all tools, whether or not the model sees them.
pub(crate) struct CallRunner {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) registry: Registry,
    pub(crate) catalog: RwLock<Catalog>,
    pub(crate) selection: Selection,
    pub(crate) outputs: Option<Arc<Outputs>>,
    /// Set once, in code execution mode.
    pub(crate) commands: OnceLock<Commands>,
    pub(crate) human: Option<Arc<dyn Human>>,
    pub(crate) approval: Approval,
    /// Calls that are allowed without asking the user.
    pub(crate) grants: Grants,
    pub(crate) policy: Option<Arc<dyn CallPolicy>>,
    /// The tools that the user has always allowed.
    allowed: Mutex<BTreeSet<String>>,
    /// Held while a question is open: the user gets one at a time.
    asking: AsyncMutex<()>,
    pub(crate) tool_time: Duration,
    pub(crate) output_bytes: usize,
}

impl fmt::Debug for CallRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hands").field("fleet", &self.fleet).field("registry", &self.registry).finish_non_exhaustive()
    }
}

impl CallRunner {
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

    fn find_tool(&self, id: &str) -> Option<Arc<Tool>> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).find(id).cloned()
    }

    /// Runs the target of a call. Errors are returned as text for the model.
    pub(crate) async fn run_call(&self, target: Target) -> CallOutcome {
        let span = trace::call_span(&target);
        let done = self.run_call_traced(target).instrument(span.clone()).await;
        trace::record_call(&span, &done);
        done
    }

    async fn run_call_traced(&self, target: Target) -> CallOutcome {
        let tool = target.id.as_deref().and_then(|id| self.find_tool(id));
        if target.id.is_some() && tool.is_none() {
            return CallOutcome::error(format!("`{}` is no longer available", target.name));
        }
        if let Some(rejection) = self.find_rejection(tool.as_deref(), &target).await {
            return CallOutcome::error(rejection);
        }
        let own = target.server.is_none().then(|| HostTool::from_name(&target.name)).flatten();
        let done = match (own, tool) {
            (Some(own), _) => self.call_host_tool(own, &target.arguments).await,
            // No timeout: the user may take any time to answer.
            (None, Some(tool)) if self.is_question(&tool) => self.ask_user(tool.name(), &target.arguments).await,
            (None, Some(tool)) => {
                let work = self.call_tool(&tool, target.arguments);
                match tokio::time::timeout(self.tool_time, work).await {
                    Ok(done) => done,
                    Err(_) => CallOutcome::error(format!("no response within {} s", self.tool_time.as_secs_f32())),
                }
            }
            (None, None) => CallOutcome::error(format!("no tool `{}`", target.name)),
        };
        if done.text.len() > self.output_bytes {
            let (size, most) = (done.text.len(), self.output_bytes);
            return CallOutcome::error(format!("the output is {size} bytes, over the limit of {most}"));
        }
        done
    }

    /// Returns whether a tool is a question to the user.
    fn is_question(&self, tool: &Tool) -> bool {
        let is_custom = tool.server_name().is_none();
        is_custom && self.registry.find(tool.upstream_name()).is_some_and(|custom| custom.handler.is_none())
    }

    /// Returns why a call is rejected, if it is; may ask the user.
    async fn find_rejection(&self, tool: Option<&Tool>, target: &Target) -> Option<String> {
        let request = CallRequest {
            server: target.server.clone(),
            tool: target.name.clone(),
            arguments: target.arguments.clone(),
        };
        if let Some(reason) = self.policy.as_ref().and_then(|policy| policy.reject_call(&request)) {
            return Some(reason);
        }
        let is_command = tool.is_none() && target.name == HostTool::ExecuteShellCommand.name();
        let is_needed = match tool {
            Some(tool) => self.approval.is_needed_for(tool),
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
            ApprovalDecision::Allow => None,
            ApprovalDecision::AllowAlways => {
                self.allowed.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
                None
            }
            ApprovalDecision::Deny(reason) => Some(format!("`{}` was not called: {reason}", target.name)),
        }
    }

    /// Returns the text for the model, and the file with the whole output if the text is not
    /// complete.
    pub(crate) async fn offload(&self, tool: &str, done: CallOutcome) -> (String, Option<PathBuf>) {
        let Some(outputs) = self.outputs.as_ref().filter(|outputs| outputs.is_large(&done.text)) else {
            return (done.text, None);
        };
        match outputs.store(tool, done.text).await {
            Ok(offloaded) => (offloaded.message, Some(offloaded.path)),
            Err(error) => {
                (format!("the output is too large to show and could not be saved: {}", with_causes(&error)), None)
            }
        }
    }

    fn is_allowed(&self, key: &str) -> bool {
        self.allowed.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    async fn call_tool(&self, tool: &Tool, arguments: Value) -> CallOutcome {
        if let Some(server) = tool.server_name() {
            return match self.fleet.find(server) {
                Some(upstream) => call_server(&upstream, tool, &arguments, self.tool_time).await,
                None => CallOutcome::error(format!("no server `{server}`")),
            };
        }
        let Some(custom) = self.registry.find(tool.upstream_name()) else {
            return CallOutcome::error(format!("`{}` is no longer available", tool.name()));
        };
        match custom.handler {
            Some(handler) => match handler.call(arguments).await {
                Ok(output) => {
                    let value = match &output {
                        ToolOutput::Json(value) => Some(value.clone()),
                        ToolOutput::Text(_) => None,
                    };
                    CallOutcome { text: output.into_text(), value, is_error: false }
                }
                Err(error) => CallOutcome::error(with_causes(&*error)),
            },
            None => CallOutcome::error("there is no user to ask"),
        }
    }

    async fn call_host_tool(&self, tool: HostTool, arguments: &Value) -> CallOutcome {
        match tool {
            HostTool::SearchLargeOutput | HostTool::ReadLargeOutput | HostTool::QueryLargeOutput => {
                let Some(outputs) = &self.outputs else { return CallOutcome::error("saved outputs are not enabled") };
                match outputs.call_tool(tool, arguments).await {
                    Ok(text) => CallOutcome::ok(text),
                    Err(error) => {
                        let hint = error.hint().map_or(String::new(), |hint| format!(" (hint: {hint})"));
                        CallOutcome::error(format!("Error: {}{hint}", with_causes(&error)))
                    }
                }
            }
            HostTool::ExecuteShellCommand => self.run_command(arguments).await,
            HostTool::GetPrompt => self.fetch_from_server("prompts/get", "name", arguments).await,
            HostTool::GetResource => self.fetch_from_server("resources/read", "uri", arguments).await,
            HostTool::AskHuman => self.ask_user(tool.name(), arguments).await,
            HostTool::GetApiSpec => CallOutcome::error("the tool API is not enabled"),
        }
    }

    async fn run_command(&self, arguments: &Value) -> CallOutcome {
        let Some(commands) = self.commands.get() else { return CallOutcome::error("shell commands are not enabled") };
        let command = arguments.get("command").and_then(Value::as_str).unwrap_or_default();
        let seconds = arguments.get("timeout_seconds").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
        let timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        commands.run(command, timeout).await
    }

    async fn ask_user(&self, tool: &str, arguments: &Value) -> CallOutcome {
        let Some(human) = &self.human else { return CallOutcome::error("there is no user to ask") };
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
            Some(answer) => CallOutcome::ok(answer),
            None => CallOutcome::error("the user did not answer"),
        }
    }

    /// Fetches a prompt or a resource from a server.
    async fn fetch_from_server(&self, method: &str, key: &str, arguments: &Value) -> CallOutcome {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (Some(server), Some(name)) = (text("server"), text(key)) else {
            return CallOutcome::error(format!("`server` and `{key}` are required"));
        };
        let found = self.fleet.find(server).filter(|_| self.selection.allows_server(server));
        let Some(upstream) = found else { return CallOutcome::error(format!("no server `{server}`")) };
        let mut params = Fields::new().with(key, name);
        if let Some(filled) = arguments.get("arguments").filter(|filled| filled.is_object()) {
            params = params.with("arguments", filled);
        }
        let make =
            |_: &Hello| Call { name: Some(name.to_owned()), ..Call::new(method, params.clone(), self.tool_time) };
        match upstream.call(make).await {
            Ok(result) => match method {
                "prompts/get" => server_results::read_prompt(&result),
                _ => server_results::read_resource(&result),
            },
            Err(error) => call_error(server, &error),
        }
    }
}

async fn call_server(upstream: &Arc<Upstream>, tool: &Tool, arguments: &Value, timeout: Duration) -> CallOutcome {
    let name = tool.upstream_name();
    let params = Fields::new().with("name", name).with("arguments", arguments);
    let mirrored = mirrored_arguments(tool, arguments);
    let make = |_: &Hello| Call {
        name: Some(name.to_owned()),
        mirrored: mirrored.clone(),
        capabilities: Some(raw(&json!({}))),
        ..Call::new("tools/call", params.clone(), timeout.min(upstream.config().timeouts.call))
    };
    match upstream.call(make).await {
        Ok(result) => parse_result(result).await,
        Err(error) => call_error(upstream.name(), &error),
    }
}

/// Parses a result; a large one on a blocking thread.
async fn parse_result(result: Raw) -> CallOutcome {
    const LARGE: usize = 1 << 20;
    if result.get().len() < LARGE {
        return server_results::read_tool_result(result);
    }
    let reading = tokio::task::spawn_blocking(move || server_results::read_tool_result(result));
    reading.await.unwrap_or_else(|_| CallOutcome::error("cannot parse the result"))
}

/// Returns the arguments that are repeated in headers.
fn mirrored_arguments(tool: &Tool, arguments: &Value) -> Vec<(String, String)> {
    let schema = tool.input_schema().filter(|schema| schema.contains("x-mcp-header"));
    let schema = schema.and_then(|schema| serde_json::from_str(schema).ok());
    let parameters = schema.as_ref().and_then(|schema| headers::mirrored_parameters(schema).ok()).unwrap_or_default();
    let value = |parameter: &headers::MirroredParameter| Some((parameter.header.clone(), parameter.value(arguments)?));
    parameters.iter().filter_map(value).collect()
}

fn call_error(server: &str, error: &CallError) -> CallOutcome {
    CallOutcome::error(match error {
        CallError::Rpc(error) => error.message.clone(),
        error => format!("server `{server}`: {}", with_causes(error)),
    })
}
