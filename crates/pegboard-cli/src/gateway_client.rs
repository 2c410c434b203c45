//! The gateway that a command asks: one that runs with the same configuration, else one that is
//! started for the command and stopped with it.

mod endpoint;
pub(crate) mod find;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    http::{Request, header},
};
use pegboard_core::{Catalog, Origin, RawTool, Server};
use pegboard_gateway::{
    ENDPOINT, Gateway,
    control::{self, ToolList},
};
use pegboard_http::Owner;
use pegboard_mcp::json::{Fields, Raw};
use pegboard_upstream::{Item, State, Upstream, config::ServerConfig};
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub(crate) use self::endpoint::{EndpointError, GatewayEndpoint};
use crate::{
    commands::serve::supervisor,
    config::{
        Config,
        state::{self, StateFolder},
    },
    error::{CliError, warn},
    nesting,
    platform::memory,
    progress::Progress,
    rankers::shared_rankers,
    running_gateways,
    source::Source,
    terminal_text, trust,
};

/// The protocol version for calls: a single request needs no session.
const VERSION: &str = "2026-07-28";

/// How long to wait for starting servers of a running gateway, and how often to poll.
const START_WAIT: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(100);

/// Maximum size of an answer of a gateway in this process.
const MAX_BYTES: usize = 256 << 20;

/// The servers to start when a gateway is started for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServersToStart {
    /// All servers.
    All,
    /// Servers whose tools are not cached, and each server that is called.
    Unknown,
    /// Only the server with this name.
    Only(String),
    /// No server; the cached tool lists are used.
    None,
}

impl ServersToStart {
    /// Marks the servers that are not started.
    fn prepare(&self, servers: &mut [ServerConfig]) {
        for server in servers {
            let is_left_out = match self {
                Self::All | Self::Unknown => false,
                Self::Only(name) => server.name != *name,
                Self::None => true,
            };
            if is_left_out && server.is_enabled {
                server.missing = Some(NOT_NEEDED.to_owned());
            }
            if *self != Self::All {
                server.lazy = Some(true);
            }
        }
    }
}

/// The reason of a server that is not started because a command does not need it.
const NOT_NEEDED: &str = "not needed for this command";

/// A gateway to send requests to.
pub(crate) enum GatewayClient {
    /// A running gateway.
    Running(GatewayEndpoint),
    /// A gateway in this process, started for this command.
    Own { gateway: Arc<Gateway>, router: Router },
}

/// The result of a tool call.
#[derive(Debug)]
pub(crate) struct ToolCallResult {
    /// The whole result.
    pub(crate) result: Value,
    /// Whether the tool reports an error.
    pub(crate) is_error: bool,
}

/// An error of a request to the gateway.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayClientError {
    /// The request failed.
    #[error(transparent)]
    Ask(#[from] EndpointError),
    /// The gateway answered with an error.
    #[error("{0}")]
    Refused(String),
}

impl GatewayClient {
    /// Connects to the gateway that runs with this configuration, else starts one.
    ///
    /// # Errors
    /// If the configuration is not trusted or has mistakes.
    pub(crate) async fn open(source: &Source, state: Option<&str>, start: ServersToStart) -> Result<Self, CliError> {
        match Self::running(source, state).await? {
            Some(running) => Ok(running),
            None => Self::start(source.read(state)?, source, state, &start).await,
        }
    }

    /// Connects to the gateway that runs with this configuration. One that does not accept
    /// connections does not run, even if its process exists.
    ///
    /// # Errors
    /// If the configuration has mistakes and no gateway runs with it.
    pub(crate) async fn running(source: &Source, state: Option<&str>) -> Result<Option<Self>, CliError> {
        let Some(endpoint) = running_endpoint(source, state)? else { return Ok(None) };
        match endpoint.status().await {
            Err(error) if error.is_not_running() => Ok(None),
            _ => Ok(Some(Self::Running(endpoint))),
        }
    }

    /// Starts a gateway for this command.
    ///
    /// # Errors
    /// If too many gateways have started one another, or approvals cannot be saved.
    pub(crate) async fn start(
        mut config: Config,
        source: &Source,
        state: Option<&str>,
        start: &ServersToStart,
    ) -> Result<Self, CliError> {
        nesting::check_depth()?;
        start.prepare(&mut config.servers);
        let state = config.state.resolve(state);
        state::check_approvals(&config, state.as_deref())?;
        state::use_in(&mut config.gateway, state.as_deref().filter(|_| source.path().is_some()));
        // Only this process can reach it.
        config.gateway.tokens.clear();
        config.gateway.after_change = Some(memory::release_free_memory);
        let progress = Progress::new(config.servers.len(), "starting servers");
        let bonus = config.gateway.discovery.token_bonus;
        let rankers = shared_rankers(config.ranker, None, bonus, None);
        let gateway = Gateway::start(config.servers, config.gateway, rankers, supervisor());
        let has_started = |server: &&Arc<Upstream>| !matches!(server.state(), State::Starting);
        progress.follow(gateway.wait_until_ready(), || gateway.servers().iter().filter(has_started).count()).await;
        drop(progress);
        for server in gateway.servers().iter() {
            match server.state() {
                State::Failed { reason, .. } if reason != NOT_NEEDED => {
                    warn(&describe_failure(server.name(), &reason));
                }
                State::Starting if !server.is_from_manifest() => warn_of_slow(server.name()),
                _ => {}
            }
        }
        let router = gateway.router(config.listen.max_body_bytes);
        let router = router.merge(gateway.control_router(control::Options::default()));
        Ok(Self::Own { gateway, router })
    }

    /// Returns the tools of the gateway, under the names that models use.
    ///
    /// # Errors
    /// If the request fails.
    pub(crate) async fn catalog(&self) -> Result<Catalog, CliError> {
        if let Self::Running(endpoint) = self {
            wait_until_started(endpoint).await.map_err(|error| error.explain(endpoint))?;
        }
        let body = self.get(control::TOOLS).await.map_err(|error| self.explain(error))?;
        let list: ToolList = serde_json::from_slice(&body)
            .map_err(|error| CliError::new("cannot read the gateway's list of tools").because(error))?;
        let mut catalog = Catalog::empty();
        for server in list.servers {
            let tools: Vec<RawTool> = server
                .tools
                .into_iter()
                .filter_map(|tool| {
                    let bare = tool.renamed.as_deref().unwrap_or(&tool.tool);
                    let read = Item::read_tool(tool.definition.into(), &tool.name, bare, &tool.tool)?;
                    Some(RawTool { prompt_instructions: tool.prompt_instructions, deferred: tool.deferred, ..read })
                })
                .collect();
            let (name, description, summary) = (server.name, server.description, server.summary);
            let whose = Server { name, description, summary, origin: Origin::Mcp };
            catalog = catalog.with_server(whose, tools).0;
        }
        Ok(catalog)
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// If the request fails, or the gateway rejects it.
    pub(crate) async fn call(&self, name: &str, arguments: &Raw) -> Result<ToolCallResult, GatewayClientError> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "pegboard", "version": env!("CARGO_PKG_VERSION")},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        // As they were written: a number keeps its digits.
        let mut params = Fields::new().with("name", name).with("_meta", &meta);
        params.set("arguments", arguments.clone());
        let head = Fields::new().with("jsonrpc", "2.0").with("id", &1).with("method", "tools/call");
        let body = head.with("params", &params).to_raw().get().to_owned();
        let encoded = pegboard_mcp::headers::encode(name);
        let headers = [("mcp-protocol-version", VERSION), ("mcp-method", "tools/call"), ("mcp-name", &encoded)];
        let answer = match self {
            Self::Running(endpoint) => endpoint.post(ENDPOINT, &headers, body).await?,
            Self::Own { router, .. } => {
                let mut request = Request::post(ENDPOINT).header(header::CONTENT_TYPE, "application/json");
                request = request.header(header::ACCEPT, "application/json, text/event-stream");
                for (key, value) in headers {
                    request = request.header(key, value);
                }
                send(router, request.body(Body::from(body))).await?
            }
        };
        read_answer(&answer)
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>, GatewayClientError> {
        match self {
            Self::Running(endpoint) => Ok(endpoint.get(path).await?),
            Self::Own { router, .. } => send(router, Request::get(path).body(Body::empty())).await,
        }
    }

    /// Returns an error that names the gateway, with a hint.
    pub(crate) fn explain(&self, error: GatewayClientError) -> CliError {
        match (self, error) {
            (Self::Running(endpoint), GatewayClientError::Ask(error)) => error.explain(endpoint),
            (_, error) => CliError::new(error.to_string()),
        }
    }

    /// Returns the servers that do not run.
    ///
    /// # Errors
    /// If the request fails.
    pub(crate) async fn failed_servers(&self) -> Result<Vec<String>, CliError> {
        match self {
            Self::Running(endpoint) => {
                let status = endpoint.status().await.map_err(|error| error.explain(endpoint))?;
                let failed = status.servers.into_iter().filter(|server| server.report.state == "failed");
                Ok(failed.map(|server| server.report.name).collect())
            }
            Self::Own { gateway, .. } => {
                let servers = gateway.servers();
                let failed = servers.iter().filter(|server| matches!(server.state(), State::Failed { .. }));
                Ok(failed.map(|server| server.name().to_owned()).collect())
            }
        }
    }

    /// Returns whether a server was started and has failed.
    pub(crate) fn has_failed(&self, name: &str) -> bool {
        let Self::Own { gateway, .. } = self else { return false };
        let servers = gateway.servers();
        servers.iter().any(|server| server.name() == name && matches!(server.state(), State::Failed { .. }))
    }

    /// Stops a gateway that was started for this command.
    pub(crate) async fn close(self) {
        if let Self::Own { gateway, .. } = self {
            gateway.stop().await;
        }
    }
}

/// Waits until no server of a gateway is starting, or until a timeout.
async fn wait_until_started(endpoint: &GatewayEndpoint) -> Result<(), EndpointError> {
    let mut progress: Option<Progress> = None;
    let began = Instant::now();
    let slow = loop {
        let status = endpoint.status().await?;
        let all = status.servers.len();
        // The tools of the others are known from an earlier run.
        let reports = status.servers.into_iter().map(|server| server.report);
        let starting = reports.filter(|report| report.state == "starting" && !report.is_from_manifest);
        let starting: Vec<String> = starting.map(|report| report.name).collect();
        if starting.is_empty() || began.elapsed() >= START_WAIT {
            break starting;
        }
        let progress = progress.get_or_insert_with(|| Progress::new(all, "servers are starting"));
        progress.at(all.saturating_sub(starting.len()));
        tokio::time::sleep(START_POLL).await;
    };
    drop(progress);
    slow.iter().for_each(|name| warn_of_slow(name));
    Ok(())
}

/// Maximum length of the reason why a server does not run; `pegboard doctor` prints all of it.
const MAX_REASON: usize = 200;

/// Returns on one line why a server does not run.
pub(crate) fn describe_failure(name: &str, reason: &str) -> String {
    let shown = terminal_text::one_line(reason, MAX_REASON);
    let hint = if shown.ends_with('…') { "; `pegboard doctor` prints the whole reason" } else { "" };
    format!("server `{}`: {shown}{hint}", terminal_text::clean(name))
}

fn warn_of_slow(name: &str) {
    let name = terminal_text::clean(name);
    warn(&format!("server `{name}` is still starting, so its tools are missing; `pegboard doctor` examines it"));
}

/// Returns the endpoint of the gateway that runs with this configuration. A file that is not
/// trusted cannot choose where to look, and no secret of the user is sent because of it. A gateway
/// keeps its previous configuration while the file has mistakes, so it can still be asked.
///
/// # Errors
/// If a trusted file has mistakes and no gateway runs with it.
pub(crate) fn running_endpoint(source: &Source, state: Option<&str>) -> Result<Option<GatewayEndpoint>, CliError> {
    match trusted_config(source, state) {
        Ok(config) => registered_endpoint(source, &config.state, state),
        Err(error) => match registered_endpoint(source, &StateFolder::Usual, state)? {
            Some(endpoint) => {
                let error = error.in_one_line();
                warn(&format!(
                    "the running gateway still has its previous configuration: {}",
                    terminal_text::clean(&error)
                ));
                Ok(Some(endpoint))
            }
            None => Err(error),
        },
    }
}

/// Returns the endpoint of the gateway that is registered in the state folder with this
/// configuration.
fn registered_endpoint(
    source: &Source,
    folder: &StateFolder,
    state: Option<&str>,
) -> Result<Option<GatewayEndpoint>, CliError> {
    let is_trusted = is_trusted(source, state);
    let Some(folder) = folder.resolve(state) else { return Ok(None) };
    let path = source.path().map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    let running = running_gateways::list(&running_gateways::folder(&folder))
        .into_iter()
        .find(|running| running.configuration == path);
    running.map_or(Ok(None), |running| find::endpoint_of(running, None, is_trusted))
}

/// Returns the configuration without its secrets; an empty one in place of a file that is not
/// trusted.
///
/// # Errors
/// If a trusted file has mistakes.
pub(crate) fn trusted_config(source: &Source, state: Option<&str>) -> Result<Config, CliError> {
    match source.path().filter(|_| is_trusted(source, state)) {
        Some(path) => crate::config::read_offline(path),
        None => Ok(Config::default()),
    }
}

fn is_trusted(source: &Source, state: Option<&str>) -> bool {
    match source {
        Source::Folder(path) => trust::is_file_trusted(path, state),
        Source::Named(_) | Source::Own(_) | Source::Demo | Source::ChosenDemo => true,
    }
}

async fn send(
    router: &Router,
    request: Result<Request<Body>, axum::http::Error>,
) -> Result<Vec<u8>, GatewayClientError> {
    let mut request = request.map_err(|error| GatewayClientError::Refused(error.to_string()))?;
    request.extensions_mut().insert(Owner);
    let response = match router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let body = axum::body::to_bytes(response.into_body(), MAX_BYTES).await;
    body.map(|body| body.to_vec()).map_err(|error| GatewayClientError::Refused(error.to_string()))
}

/// Parses the answer in a document, or at the end of an event stream.
fn read_answer(body: &[u8]) -> Result<ToolCallResult, GatewayClientError> {
    let text = String::from_utf8_lossy(body);
    let documents = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).chain([text.trim()]);
    let mut answers = documents.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let answer = answers.find(|answer| answer.get("id").is_some() && answer.get("method").is_none());
    let Some(mut answer) = answer else {
        return Err(GatewayClientError::Refused("the gateway did not answer the call".to_owned()));
    };
    if let Some(error) = answer.get("error") {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("the gateway rejected the call");
        return Err(GatewayClientError::Refused(message.to_owned()));
    }
    let result = answer["result"].take();
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    Ok(ToolCallResult { result, is_error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_alone_or_at_the_end_of_a_stream() {
        let check = |body: &str, expected: Result<(&str, bool), &str>| {
            let found = read_answer(body.as_bytes());
            let found = found.map(|answer| (answer.result["x"].to_string(), answer.is_error));
            let expected = expected.map(|(x, is_error)| (x.to_owned(), is_error)).map_err(str::to_owned);
            assert_eq!(found.map_err(|error| error.to_string()), expected, "{body}");
        };
        check(r#"{"jsonrpc":"2.0","id":1,"result":{"x":1}}"#, Ok(("1", false)));
        check(r#"{"jsonrpc":"2.0","id":1,"result":{"x":1,"isError":true}}"#, Ok(("1", true)));
        let stream = "event: message\ndata: {\"method\":\"notifications/progress\"}\n\n\
                      data: {\"id\":1,\"result\":{\"x\":2}}\n\n";
        check(stream, Ok(("2", false)));
        check(r#"{"id":1,"error":{"code":-32602,"message":"no"}}"#, Err("no"));
        check("<html>", Err("the gateway did not answer the call"));
    }
}
