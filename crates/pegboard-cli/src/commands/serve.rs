//! `pegboard serve`.

mod args;
pub(crate) mod descriptors;
mod file_versions;
pub(crate) mod presence;
mod record;
mod reload;
mod watched_model;

use std::{
    ffi::OsString,
    io::IsTerminal as _,
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use pegboard_core::Secret;
use pegboard_discovery::Learner;
use pegboard_gateway::{
    ENDPOINT, Gateway, HEALTH, READY,
    control::{self, ControlAccess},
    holders,
};
use pegboard_http::{Guard, ListenError, Listener, Principal};
use pegboard_proxy::Proxy;
use pegboard_upstream::{State, Upstream};
use tokio::sync::mpsc;

pub(crate) use self::args::ServeArgs;
use self::{
    file_versions::FileVersions, presence::Presence, record::Recording, reload::ConfigWatcher,
    watched_model::WatchedModel,
};
use crate::{
    Outcome,
    cli::options::LogFormat,
    config::{Config, ListenConfig, state},
    console::{self, ProxyNumbers, RankerSettings, Surroundings},
    embeddings,
    error::{CliError, say, warn},
    gateway_client::find,
    logging::{self, LogBuffer},
    nesting, output,
    platform::{self, memory},
    rankers::shared_rankers,
    running_gateways,
    source::{self, Source},
    telemetry::{Telemetry, TelemetryOff},
    usage::{self, UsageLearner},
};

/// The default listen address.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

/// How long answers may take to be written after running calls were cancelled.
const ANSWER_DEADLINE: Duration = Duration::from_secs(1);

/// Delay after which the summary is printed even if servers are still starting.
const SUMMARY_DELAY: Duration = Duration::from_secs(2);

/// How long servers wait for the client that has started the gateway.
const FIRST_CLIENT_WAIT: Duration = Duration::from_secs(1);

/// How long answers may take to be sent after a second signal.
const SECOND_SIGNAL: Duration = Duration::from_millis(200);

/// Minimum length of a credential that the user has chosen.
const MIN_SECRET: usize = 16;

/// Maximum number of worker threads; more bring nothing, since no request computes for long.
const MAX_WORKERS: usize = 4;

pub(crate) fn run(args: &ServeArgs) -> Result<Outcome, CliError> {
    nesting::check_depth()?;
    let source = args.config.source();
    if args.stdio {
        explain_pipe();
    } else {
        source.announce();
    }
    let content = source.load(args.state.as_deref())?;
    let (config, files) = match content {
        Some(content) => file_versions::read(source.path().unwrap_or(Path::new("")), || Ok(content)),
        None => (source::demo(), FileVersions::new()),
    };
    let mut config = config?;
    let state = config.state.resolve(args.state.as_deref());
    state::check_approvals(&config, state.as_deref())?;
    // The demo's servers are part of this program, and there at once.
    state::use_in(&mut config.gateway, state.as_deref().filter(|_| source.path().is_some()));
    let runtime = runtime()?;
    let telemetry = Telemetry::new(&config.telemetry, runtime.handle());
    let log = Arc::new(LogBuffer::default());
    logging::start_with(
        &args.log,
        &default_log_level(args.verbose, is_short(args), source.path().is_none()),
        telemetry.as_ref().ok(),
        Some(&log),
    )?;
    let telemetry = telemetry.inspect_err(TelemetryOff::log).ok();
    let learner = usage::keeper(config.usage, state.as_deref(), source.path());
    config.gateway.learner = learner.clone().map(|learner| learner as Arc<dyn Learner>);
    config.gateway.after_change = Some(memory::release_free_memory);
    if args.stdio {
        config.gateway.first_client_wait = FIRST_CLIENT_WAIT;
    }
    let context = ServeContext { source, state, files, learner, log };
    let served = runtime.block_on(serve(args, config, context, telemetry));
    // A read of standard input cannot be taken back; it must not keep us from ending.
    runtime.shutdown_background();
    served.map(|()| Outcome::Yes)
}

/// Returns a runtime for commands that communicate with servers.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.min(MAX_WORKERS))
        .enable_all()
        .build()
        .map_err(|error| CliError::new("cannot start the runtime").because(error))
}

/// Returns the command line of the supervisor, which ends a server's processes when Pegboard ends.
pub(crate) fn supervisor() -> Vec<OsString> {
    match std::env::current_exe() {
        Ok(program) => vec![program.into(), "supervise".into(), "--".into()],
        Err(error) => {
            tracing::warn!(%error, "servers run without a supervisor");
            Vec::new()
        }
    }
}

/// Returns the error that the gateway cannot listen; it names another gateway on the same address.
fn cannot_listen(error: ListenError, state: Option<&Path>) -> CliError {
    let running = state.map(|state| running_gateways::list(&running_gateways::folder(state))).unwrap_or_default();
    let other = running.iter().find(|running| {
        let endpoint = running.endpoint.as_deref().unwrap_or_default();
        matches!(&error, ListenError::Bind { address, .. } if endpoint.starts_with(&format!("http://{address}/")))
    });
    let shown = match other {
        Some(other) => CliError::new(error.to_string()).hint(format!(
            "a Pegboard gateway already listens there (process {}); `pegboard status` shows it, `--listen` chooses \
             another address",
            other.pid
        )),
        None => CliError::new(error.to_string()).hint(error.hint()),
    };
    match error {
        ListenError::Bind { source, .. } => shown.because(source),
        _ => shown,
    }
}

/// The surroundings of a gateway, without its configuration.
struct ServeContext {
    source: Source,
    state: Option<PathBuf>,
    /// The versions of the configuration files when they were read.
    files: FileVersions,
    learner: Option<Arc<UsageLearner>>,
    log: Arc<LogBuffer>,
}

async fn serve(
    args: &ServeArgs,
    config: Config,
    context: ServeContext,
    telemetry: Option<Telemetry>,
) -> Result<(), CliError> {
    let ServeContext { source, state, files, learner, log } = context;
    let format = args.log.log_format;
    if config.servers.is_empty() {
        warn("the configuration has no servers; put them under `mcpServers`");
    }
    log_notices(&config);
    let listen = listener_settings(args, &config)?;
    let max_body_bytes = config.listen.max_body_bytes;
    // Before any server is started: a taken port must not cost a fleet.
    let listener = match listen {
        Some(settings) => Some(Listener::bind(settings).await.map_err(|error| cannot_listen(error, state.as_deref()))?),
        None => None,
    };
    let proxy = proxy_routes(&config, listener.as_ref(), state.as_deref())?;
    let recording = Recording::open(args)?;
    let embeddings = embeddings::configured_endpoint(&config);
    let embedder = embeddings::embedder(embeddings.clone(), state.as_deref());
    let model = WatchedModel::read(args.model.model.clone(), config.model)?;
    let bonus = config.gateway.discovery.token_bonus;
    let rankers = shared_rankers(config.ranker, model.model(), bonus, embedder.clone());
    let has_console = config.listen.has_console && !args.no_console;
    let settings = RankerSettings { model: model.model(), token_bonus: bonus };
    let gateway = Gateway::start(config.servers, config.gateway, Arc::clone(&rankers), supervisor());
    if let Some(telemetry) = &telemetry {
        telemetry.export_metrics(&gateway);
    }
    let recording = recording.map(|recording| recording.of(&gateway));
    let mut options = control_options(source.path(), listener.as_ref(), has_console, Arc::clone(&log))?;
    let surroundings = Surroundings {
        source: &source,
        state_flag: args.state.as_deref(),
        listen_flag: args.listen.as_deref(),
        state: state.as_deref().filter(|_| source.path().is_some()),
        proxies: state.as_deref(),
        endpoint: options.endpoint.as_deref(),
    };
    options.host = console::host(&gateway, &surroundings, rankers, settings);
    options.host.llm_proxy = proxy.clone().map(|proxy| Arc::new(ProxyNumbers(proxy)) as _);
    if let Some(path) = source.path().map(Path::to_owned) {
        let guard = listener.as_ref().map(Listener::guard_handle);
        let (ranker, listen, telemetry) = (config.ranker, config.listen.clone(), config.telemetry);
        let (reload, requests) = mpsc::channel(1);
        options.reload = Some(reload);
        let (gateway, state) = (Arc::clone(&gateway), state.clone());
        let watcher = ConfigWatcher {
            path,
            needs_trust: matches!(source, Source::Folder(_)).then(|| args.state.clone()),
            waits_for_trust: false,
            log: Arc::clone(&log),
            gateway,
            guard,
            ranker,
            token_bonus: bonus,
            model,
            embeddings,
            embedder,
            listen,
            has_console,
            telemetry,
            state,
            files,
            learner,
            requests,
        };
        tokio::spawn(watcher.watch_files());
    }
    let mut router = gateway.router(max_body_bytes).merge(gateway.control_router(options.clone()));
    if let Some(proxy) = proxy {
        router = router.merge(proxy.router());
    }
    let router = if has_console { pegboard_console::serve(router) } else { router };
    let presence = Presence::announce(state.as_deref(), &options, router.clone());
    let served = match listener {
        Some(listener) => {
            announce(format, &format!("listening on http://{}{ENDPOINT}", listener.address()));
            announce_console(format, &options, &gateway)?;
            tokio::spawn(announce_servers(
                Arc::clone(&gateway),
                format,
                format!("http://{}{ENDPOINT}", listener.address()),
            ));
            let stop = wait_for_stop(Arc::clone(&gateway), log, format, config.listen.shutdown_deadline);
            listener.serve(router, stop, || gateway.cut_calls()).await;
            Ok(())
        }
        None => serve_pipe(&gateway, config.listen.shutdown_deadline).await,
    };
    drop(presence);
    gateway.stop().await;
    gateway.finish_writing().await;
    if let Some(recording) = recording {
        recording.finish(&gateway).await;
    }
    if let Some(telemetry) = telemetry {
        telemetry.stop(Some(&gateway)).await;
    }
    served
}

/// Returns the LLM API proxy, if its routes are on the gateway's listener.
fn proxy_routes(config: &Config, listener: Option<&Listener>, state: Option<&Path>) -> Result<Option<Proxy>, CliError> {
    let Some(listener) = listener.filter(|_| config.proxy.on_gateway) else { return Ok(None) };
    let is_loopback = listener.address().ip().to_canonical().is_loopback();
    super::proxy::open(config.proxy.clone(), is_loopback, state).map(Some)
}

/// Serves the client on standard input and output until it disconnects or a signal comes. Running
/// calls may then finish within the deadline; the others are cancelled with an error.
async fn serve_pipe(gateway: &Arc<Gateway>, deadline: Duration) -> Result<(), CliError> {
    platform::make_streams_blocking();
    let pipe = gateway.serve_pipe(tokio::io::stdin(), tokio::io::stdout());
    tokio::pin!(pipe);
    let served = tokio::select! {
        served = &mut pipe => Some(served),
        () = stop_signal() => None,
    };
    let served = match served {
        Some(served) => served,
        None => {
            gateway.close_streams();
            match tokio::time::timeout(deadline, &mut pipe).await {
                Ok(served) => served,
                Err(_) => {
                    gateway.cut_calls();
                    tokio::time::timeout(ANSWER_DEADLINE, pipe).await.unwrap_or(Ok(()))
                }
            }
        }
    };
    served.map_err(|error| CliError::new("the pipe to the client failed").because(error))
}

/// Logs the settings that are not applied as they are written.
fn log_notices(config: &Config) {
    for notice in &config.notices {
        let hint = notice.hint.as_deref().unwrap_or_default();
        let reason = notice.message.as_str();
        tracing::warn!(setting = notice.path, line = notice.line, reason, hint, "setting not applied");
    }
}

/// Returns the options of the control API.
///
/// # Errors
/// If there can be no credential for requests over TCP.
fn control_options(
    path: Option<&Path>,
    listener: Option<&Listener>,
    has_console: bool,
    log: Arc<LogBuffer>,
) -> Result<control::Options, CliError> {
    let endpoint = listener.map(|listener| format!("http://{}{ENDPOINT}", listener.address()));
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let address = listener.filter(|_| has_console).map(Listener::address);
    let console = address.map(|address| format!("http://{address}{}", pegboard_console::PREFIX));
    let unsafe_access = |error| CliError::new("cannot protect the control API").because(error);
    let access = listener.map(|_| ControlAccess::new()).transpose().map_err(unsafe_access)?;
    Ok(control::Options {
        endpoint,
        console,
        configuration: path.map(whole),
        logs: Some(log),
        access: access.map(|access| Arc::new(access.accepting(chosen_secret()))),
        ..control::Options::default()
    })
}

/// Returns the credential that the user has chosen for the control API while no tokens are configured:
/// that of commands.
fn chosen_secret() -> Option<Secret> {
    let token = find::token_of_environment()?;
    if token.len() < MIN_SECRET {
        tracing::warn!("`PEGBOARD_TOKEN` is shorter than {MIN_SECRET} characters, not accepted for the control API");
        return None;
    }
    Some(Secret::new(token))
}

/// Prints the URL of the console. Without tokens it has a code that signs in once.
fn announce_console(format: LogFormat, options: &control::Options, gateway: &Gateway) -> Result<(), CliError> {
    let Some(page) = &options.console else { return Ok(()) };
    // A log is read by others, also later.
    let is_private = format == LogFormat::Text && std::io::stderr().is_terminal();
    let access = options.access.as_ref().filter(|_| gateway.tokens().is_empty() && is_private);
    match access.map(|access| access.new_code()).transpose() {
        Ok(Some(code)) => announce(format, &format!("console: {page}#code={code}")),
        Ok(None) if is_private => announce(format, &format!("console: {page}")),
        Ok(None) => announce(format, &format!("console: {page} (`pegboard console` prints a URL that signs in)")),
        Err(error) => return Err(CliError::new("cannot make a code for the console").because(error)),
    }
    Ok(())
}

/// Returns the default log level: `info` if the log goes to a file or a journal, and warnings on a
/// terminal, which gets a summary, or in a client. Similar names of the demo's tools are not worth
/// a warning, because the user cannot change them.
fn default_log_level(verbose: u8, is_short: bool, is_demo: bool) -> String {
    let level = match verbose {
        0 if is_short => "warn",
        0 | 1 => "info",
        _ => return "debug".to_owned(),
    };
    if is_demo { format!("{level},pegboard_gateway::lookalikes=error") } else { level.to_owned() }
}

/// Returns whether the log is read on a terminal or in a client.
fn is_short(args: &ServeArgs) -> bool {
    args.stdio || std::io::stderr().is_terminal()
}

/// Explains `--stdio` to a user who started on a terminal what a client starts.
fn explain_pipe() {
    if std::io::stdin().is_terminal() {
        say("waiting for an MCP client on standard input and output; Ctrl-D ends it. MCP clients start this command \
             themselves: `pegboard connect` configures one. Without `--stdio`, `pegboard serve` listens on an address.");
    }
}

/// Waits for a stop signal, and announces running calls.
async fn wait_for_stop(gateway: Arc<Gateway>, log: Arc<LogBuffer>, format: LogFormat, deadline: Duration) {
    stop_signal().await;
    // Before the line is printed: the user may answer it with another signal.
    let again = stop_signal();
    let text = match gateway.running_calls() {
        0 => "stopping".to_owned(),
        calls => format!("stopping; waiting up to {} s for running calls ({calls})", deadline.as_secs_f32()),
    };
    announce(format, &text);
    gateway.close_streams();
    log.end_followers();
    tokio::spawn(async move {
        // A second signal means that the user does not want to wait. Supervisors end the servers.
        again.await;
        gateway.cut_calls();
        tokio::time::sleep(SECOND_SIGNAL).await;
        std::process::exit(130);
    });
}

/// Prints a message on standard error; in the log, if that is JSON.
fn announce(format: LogFormat, text: &str) {
    match format {
        LogFormat::Text => say(text),
        LogFormat::Json => tracing::info!("{text}"),
    }
}

/// Announces the servers and tools when the servers are ready or have failed, and earlier if some
/// take long.
async fn announce_servers(gateway: Arc<Gateway>, format: LogFormat, url: String) {
    gateway.wait_until_ready().await;
    // Cached tool lists answer at once; what became of the servers is known later.
    let servers = gateway.servers();
    let limit = servers.iter().map(|server| server.config().timeouts.connect).max().unwrap_or_default();
    let settled = async {
        for server in servers.iter() {
            server.settled().await;
        }
    };
    tokio::pin!(settled);
    let mut last = String::new();
    if tokio::time::timeout(SUMMARY_DELAY, &mut settled).await.is_err() {
        last = summary(&servers, gateway.catalog().len());
        announce(format, &last);
        let _ = tokio::time::timeout(limit, settled).await;
    }
    let now = summary(&gateway.servers(), gateway.catalog().len());
    if now != last {
        announce(format, &now);
    }
    if std::io::stderr().is_terminal() {
        announce(format, &format!("connect a client: `pegboard connect CLIENT --http {url} --write`"));
    }
}

/// Returns the servers by state, and the number of their tools.
fn summary(servers: &[Arc<Upstream>], tools: usize) -> String {
    let enabled: Vec<&Arc<Upstream>> = servers.iter().filter(|server| server.config().is_enabled).collect();
    let count = |is_it: fn(&State) -> bool| enabled.iter().filter(|server| is_it(&server.state())).count();
    let ready = count(|state| *state == State::Ready);
    let failed = count(|state| matches!(state, State::Failed { .. }));
    let resting = count(State::is_resting);
    let known = enabled.iter().filter(|server| server.is_from_manifest()).count();
    let mut parts = vec![match (ready, enabled.len()) {
        (1, 1) => "1 server ready".to_owned(),
        (ready, all) => format!("{ready} of {all} servers ready"),
    }];
    let starting = enabled.len() - ready - failed - resting;
    for (number, what) in [(starting, "starting"), (resting, "started by the next call"), (failed, "failed")] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    let advice = if failed > 0 { "; `pegboard doctor` shows why servers fail" } else { "" };
    let origin = match known {
        0 => String::new(),
        known => format!(" (cached lists of {})", output::pluralize(known, "server")),
    };
    format!("{}; {}{origin}{advice}", parts.join(", "), output::pluralize(tools, "tool"))
}

/// Returns the settings of the listener; `None` with `--stdio`.
fn listener_settings(args: &ServeArgs, config: &Config) -> Result<Option<pegboard_http::Settings>, CliError> {
    if args.stdio {
        return Ok(None);
    }
    let address = args.listen.as_deref().or(config.listen.address.as_deref()).unwrap_or(DEFAULT_ADDRESS);
    let mut settings = pegboard_http::Settings::new(resolve(address)?);
    settings.allow_public = args.allow_public || config.listen.allow_public;
    settings.shutdown_deadline = config.listen.shutdown_deadline;
    settings.connections = descriptors::fit_to_descriptors(config.listen.connections);
    settings.priority_paths = vec![HEALTH.to_owned(), READY.to_owned(), control::PREFIX.to_owned()];
    // Consoles and `pegboard logs -f` keep them open, and must not take the places of commands.
    settings.ordinary_paths = [control::EVENTS, control::LOGS, control::CALL].map(str::to_owned).to_vec();
    let doors =
        FurtherDoors { console: config.listen.has_console && !args.no_console, llm_proxy: config.proxy.on_gateway };
    settings.guard = guard(&config.listen, doors, holders(&config.gateway.tokens));
    Ok(Some(settings))
}

/// What the listener serves beside the MCP endpoint, with rules of its own about who may use it.
#[derive(Clone, Copy)]
struct FurtherDoors {
    console: bool,
    llm_proxy: bool,
}

/// Returns the guard, which authenticates requests.
fn guard(listen: &ListenConfig, doors: FurtherDoors, tokens: Vec<(Principal, String)>) -> Guard {
    let mut open_paths = vec![HEALTH.to_owned(), READY.to_owned()];
    if doors.console {
        // The files of the page contain nothing of this gateway.
        open_paths.extend(["/", "/console", pegboard_console::PREFIX].map(str::to_owned));
        open_paths.extend(control::OPEN_PATHS.map(str::to_owned));
    }
    Guard {
        allowed_hosts: listen.allowed_hosts.clone(),
        allowed_origins: listen.allowed_origins.clone(),
        tokens,
        open_paths,
        self_guarded_paths: if doors.llm_proxy { Proxy::own_paths() } else { Vec::new() },
        trusted_proxies: listen.trusted_proxies.clone(),
        is_public: false,
    }
}

/// Resolves `host:port`, or a port on the loopback interface.
pub(crate) fn resolve(address: &str) -> Result<SocketAddr, CliError> {
    let full = if address.bytes().all(|byte| byte.is_ascii_digit()) && !address.is_empty() {
        format!("127.0.0.1:{address}")
    } else {
        address.to_owned()
    };
    let found = full.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        CliError::new(format!("`{address}` is not an address to listen on")).hint("for example `127.0.0.1:8080`")
    })
}

/// Returns a future that waits for a stop signal, from the moment of the call on.
pub(crate) fn stop_signal() -> impl Future<Output = ()> {
    let mut signals = platform::StopSignals::new();
    async move {
        let _ = signals.next().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_is_not_warned_about() {
        let check = |verbose, is_short, is_demo, expected| {
            assert_eq!(default_log_level(verbose, is_short, is_demo), expected);
        };
        check(0, true, false, "warn");
        check(0, true, true, "warn,pegboard_gateway::lookalikes=error");
        check(0, false, true, "info,pegboard_gateway::lookalikes=error");
        check(1, true, false, "info");
        check(2, true, true, "debug");
    }

    #[test]
    fn addresses() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(resolve(text).ok().map(|address| address.to_string()).as_deref(), expected, "{text}");
        };
        check("127.0.0.1:99", Some("127.0.0.1:99"));
        check("8081", Some("127.0.0.1:8081"));
        check("[::1]:1", Some("[::1]:1"));
        check("nonsense", None);
        check("", None);
    }
}
