//! The status of a gateway.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

use pegboard_core::vectors::VectorSourceStatus;
use pegboard_process::processes;
use pegboard_upstream::{CallCounts, PinReport, Report, Upstream, config::TransportConfig};
use serde::{Deserialize, Serialize};

use super::{Control, servers::actions_of};
use crate::{
    lookalikes::{Lookalike, LookalikeCounts},
    metrics::{Durations, Family, GaugeValues},
};

/// The version of the format of [`Status`]. It changes when a field is removed or changes its
/// meaning, not when one is added.
pub const FORMAT: u32 = 1;

/// Maximum number of listed clients; further ones are only counted.
const MAX_CLIENTS: usize = 50;

/// The status of a gateway at one moment. Times are in milliseconds, unless the name says
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Status {
    /// The version of the format, [`FORMAT`].
    pub format: u32,
    /// The gateway itself.
    pub gateway: About,
    /// The source of the settings; not for callers who may see only a part of the servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Configuration>,
    /// The servers that the caller may see, in the order of the configuration.
    pub servers: Vec<ServerStatus>,
    /// The number of tools of these servers that clients can use.
    pub tools: usize,
    /// Conversations: all of them, or the caller's own where it sees only a part.
    pub sessions: Sessions,
    /// The totals since the start; not for callers who may see only a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// The status of the embeddings endpoint, if there is one; not for callers who may see
    /// only a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<EmbeddingsStatus>,
    /// Tools that differ from the approved version; not for callers who may see only a part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinReport>,
    /// Tools of different servers with similar names, suspicious ones first, at most 200 of each
    /// class of `lookalike_counts`; not for callers who may see only a part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lookalikes: Vec<Lookalike>,
    /// The numbers of all pairs of similar names; not for callers who may see only a part.
    #[serde(skip_serializing_if = "LookalikeCounts::is_empty")]
    pub lookalike_counts: LookalikeCounts,
    /// The routes of the LLM API proxy on the gateway's listener, by name; not for callers who may see
    /// only a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_proxy: Option<BTreeMap<String, ProxyRouteStatus>>,
    /// The memory of the gateway and its child processes, if the system reports it; not for
    /// callers who may see only a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// The status of the external embedding model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct EmbeddingsStatus {
    /// The address of the endpoint.
    pub endpoint: String,
    /// The name of the model.
    pub model: String,
    /// The number of tools that have a vector.
    pub embedded: usize,
    /// The number of all tools.
    pub tools: usize,
    /// Tools that it refuses to embed.
    pub refused: usize,
    /// Queries, and requests within queries, whose vector it sent.
    pub fetched: u64,
    /// Those whose vector was known.
    pub known: u64,
    /// Those that went without a vector, because it failed, had failed just before, or there were
    /// too many.
    pub without: u64,
    /// Why the last request to it failed, unless one has succeeded since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl From<VectorSourceStatus> for EmbeddingsStatus {
    fn from(gauges: VectorSourceStatus) -> Self {
        let without = gauges.failed + gauges.skipped;
        let VectorSourceStatus { endpoint, model, embedded, tools, refused, fetched, known, problem, .. } = gauges;
        Self { endpoint, model, embedded, tools, refused, fetched, known, without, problem }
    }
}

/// The numbers of one route of the LLM API proxy since it was started.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxyRouteStatus {
    /// Requests that ask for an answer of a model or its tokens.
    pub requests: u64,
    /// Those that were passed through, by reason.
    pub bypassed: BTreeMap<String, u64>,
    /// Tools in requests.
    pub tools_in: u64,
    /// Tools that were sent to the provider, for every request to it.
    pub tools_sent: u64,
    /// Tokens (estimated) of definitions that were not sent.
    pub tokens_saved: u64,
    /// Rounds with the provider that clients do not see.
    pub hidden_rounds: u64,
    /// Answers that ended with an error in such a round.
    pub failed_rounds: u64,
    /// Requests whose hidden rounds were not known any more.
    pub misses: u64,
    /// Requests that were sent to the provider again in another form, because it had refused them.
    pub retries: u64,
    /// The time that the proxy has added to all requests.
    pub added_ms: f64,
    /// Tokens that the provider has read from its cache, as it reports them.
    pub cache_read_tokens: u64,
}

/// An LLM API proxy that runs without a gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LlmProxyStatus {
    /// Its process.
    pub pid: u32,
    /// The address for programs.
    pub endpoint: String,
    /// The numbers of each route, by its name.
    pub routes: BTreeMap<String, ProxyRouteStatus>,
}

/// The identity and uptime of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct About {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it began, from 1970 on.
    pub since: u64,
    /// For how long it runs.
    pub uptime_ms: u64,
    /// Where clients connect; nowhere when one has started it and speaks on its pipes.
    pub endpoint: Option<String>,
}

/// The source of a gateway's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Configuration {
    /// The file; none for the demo.
    pub file: Option<PathBuf>,
    /// Why what the file says now is not in use.
    pub refused: Option<String>,
}

/// The status of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The report of the server.
    #[serde(flatten)]
    pub report: Report,
    /// Results of its tools that say that they failed.
    pub tool_errors: u64,
    /// How long calls of its tools took.
    pub latency: Latency,
    /// `stdio`, `http` or `internal`.
    pub transport: String,
    /// Its program or URL, without secrets.
    pub target: Option<String>,
    /// The description of the server.
    pub description: String,
    /// The memory of its processes, if the system reports it.
    pub memory_bytes: Option<u64>,
    /// Its last output on standard error; not for callers who may see only a part.
    pub stderr: Vec<String>,
    /// Its credentials.
    pub auth: AuthStatus,
    /// What the caller can do with it now.
    pub actions: Vec<String>,
}

impl ServerStatus {
    /// Returns the status for a caller that sees only some of the server's tools: the figures count
    /// those of others too. `sees_entries` is whether it sees the prompts and resources.
    pub(super) fn without_figures(mut self, sees_entries: bool) -> Self {
        let report = &mut self.report;
        (report.pid, report.held, report.last_error) = (None, 0, None);
        report.calls = CallCounts::default();
        report.breaker.failures = 0;
        (report.connections.shared, report.connections.own) = (0, 0);
        if !sees_entries {
            (report.prompts, report.resources, report.templates) = (0, 0, 0);
        }
        Self { tool_errors: 0, latency: Latency::default(), memory_bytes: None, ..self }
    }
}

/// The credentials of a remote server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthStatus {
    /// `none`, `headers` or `oauth`.
    pub kind: String,
    /// Whether the server rejects calls until the user logs in.
    pub needs_login: bool,
    /// Whether there is a login.
    pub logged_in: bool,
}

/// The distribution of durations in microseconds, estimated from a histogram; absent if there are
/// too few.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Latency {
    /// Half of them at most.
    pub p50_us: Option<u64>,
    /// All but one in a hundred at most.
    pub p99_us: Option<u64>,
}

/// The number of sessions. Requests of protocol versions without sessions are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sessions {
    /// How many.
    pub count: usize,
    /// Whose, most first.
    pub clients: Vec<ClientStatus>,
}

/// The sessions of clients with the same name and the same view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientStatus {
    /// The name that they give themselves.
    pub client: String,
    /// What they are shown.
    pub profile: String,
    /// How many conversations.
    pub sessions: usize,
    /// For how long all of them are quiet.
    pub idle_ms: u64,
}

/// The totals since the start of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Totals {
    /// Searches that found something.
    pub hits: u64,
    /// Searches that did not.
    pub misses: u64,
    /// How long searches took.
    pub search_latency: Latency,
    /// Tool lists sent to clients.
    pub lists: u64,
    /// Tokens (estimated) of definitions that no client had to read.
    pub tokens_saved: u64,
    /// Calls that wait for a client's input.
    pub suspended_calls: usize,
}

/// Minimum number of durations for the 50th percentile.
const LEAST_FOR_P50: u64 = 10;
/// Minimum number of durations for the 99th percentile.
const LEAST_FOR_P99: u64 = 100;

impl Latency {
    fn of(times: &Durations) -> Self {
        let micros = |share, least| {
            let time = times.quantile(share).filter(|_| times.count() >= least);
            time.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
        };
        Self { p50_us: micros(0.5, LEAST_FOR_P50), p99_us: micros(0.99, LEAST_FOR_P99) }
    }
}

impl Control {
    /// Returns the status, as far as the caller may see it.
    pub(super) fn status(&self, asking: &super::ControlCaller, options: &super::Options) -> Status {
        let catalog = self.catalog.catalog();
        let tools = catalog.iter().filter(|tool| asking.has_full_access() || asking.selection().allows(tool));
        let mut by_server: HashMap<&str, usize> = HashMap::new();
        tools.for_each(|tool| *by_server.entry(tool.server_name().unwrap_or_default()).or_default() += 1);
        let all = self.servers();
        let servers = all.iter().filter(|server| asking.sees_server(&catalog, server.name())).map(|server| {
            let mut status = self.server_status(server);
            let is_whole = asking.sees_whole_server(&catalog, server.name());
            let actions = actions_of(server, options, is_whole, asking.has_full_access());
            status.actions = actions.into_iter().map(str::to_owned).collect();
            if asking.has_full_access() {
                status.stderr = server.output().stderr_lines;
            } else {
                status.target = None;
                status.report.tools = by_server.get(server.name()).copied().unwrap_or_default();
            }
            let sees_entries = asking.selection().allows_server(server.name());
            if is_whole { status } else { status.without_figures(sees_entries) }
        });
        Status {
            format: FORMAT,
            gateway: self.about(options),
            configuration: asking
                .has_full_access()
                .then(|| Configuration { file: options.configuration.clone(), refused: self.setups.rejection() }),
            servers: servers.collect(),
            tools: by_server.values().sum(),
            sessions: self.session_status(asking),
            totals: asking.has_full_access().then(|| self.totals()),
            embeddings: self.vector_status().filter(|_| asking.has_full_access()).map(Into::into),
            pins: if asking.has_full_access() { self.pins() } else { Vec::new() },
            lookalikes: if asking.has_full_access() { self.lookalikes.pairs().to_vec() } else { Vec::new() },
            lookalike_counts: if asking.has_full_access() { self.lookalikes.counts() } else { Default::default() },
            llm_proxy: options.host.llm_proxy.as_ref().filter(|_| asking.has_full_access()).map(|proxy| proxy.routes()),
            memory_bytes: None,
        }
    }

    fn about(&self, options: &super::Options) -> About {
        let uptime = self.began.elapsed();
        let since = SystemTime::now().checked_sub(uptime).unwrap_or(SystemTime::UNIX_EPOCH);
        About {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            since: millis(since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()),
            uptime_ms: millis(uptime),
            endpoint: options.endpoint.clone(),
        }
    }

    pub(super) fn server_status(&self, server: &Upstream) -> ServerStatus {
        let calls = self.metrics.server_calls(server.name());
        let tool_errors = calls.errors.load(Ordering::Relaxed);
        let (transport, kind) = match &server.config().transport {
            TransportConfig::Stdio { .. } => ("stdio", "none"),
            TransportConfig::Http { .. } if server.has_login().is_some() => ("http", "oauth"),
            TransportConfig::Http { headers, .. } => ("http", if headers.is_empty() { "none" } else { "headers" }),
            TransportConfig::Local(_) => ("internal", "none"),
        };
        let logged_in = server.has_login().unwrap_or_default();
        ServerStatus {
            report: server.report(),
            tool_errors,
            latency: Latency::of(&calls.times),
            transport: transport.to_owned(),
            target: Some(server.source()).filter(|source| !source.is_empty()),
            description: server.description(),
            auth: AuthStatus { kind: kind.to_owned(), needs_login: server.needs_credentials(), logged_in },
            ..ServerStatus::default()
        }
    }

    /// Adds the memory of processes to a status. Blocks.
    pub(super) fn add_memory(status: &mut Status) {
        let pids: Vec<u32> = status.servers.iter().filter_map(|server| server.report.pid).collect();
        let is_whole = status.configuration.is_some();
        let roots: Vec<u32> = pids.iter().copied().chain(is_whole.then(std::process::id)).collect();
        let mut found = processes::memory_of(&roots).into_iter();
        for server in status.servers.iter_mut().filter(|server| server.report.pid.is_some()) {
            server.memory_bytes = found.next().flatten();
        }
        status.memory_bytes = found.next().flatten();
    }

    fn session_status(&self, asking: &super::ControlCaller) -> Sessions {
        let mut sessions = self.sessions.all();
        sessions.retain(|session| asking.has_full_access() || session.caller() == asking.caller());
        let mut groups: BTreeMap<(String, &'static str), (usize, Duration)> = BTreeMap::new();
        for session in &sessions {
            let client = session.client.clone();
            let (count, idle) = groups.entry((client, session.profile.as_str())).or_insert((0, Duration::MAX));
            (*count, *idle) = (*count + 1, session.idle_time().min(*idle));
        }
        let mut clients: Vec<ClientStatus> = groups
            .into_iter()
            .map(|((client, profile), (sessions, idle))| ClientStatus {
                client,
                profile: profile.to_owned(),
                sessions,
                idle_ms: millis(idle),
            })
            .collect();
        clients.sort_by_key(|client| std::cmp::Reverse(client.sessions));
        clients.truncate(MAX_CLIENTS);
        Sessions { count: sessions.len(), clients }
    }

    /// Returns all metrics: those of [`METRICS`](crate::METRICS).
    pub(crate) fn metric_families(&self) -> Vec<Family> {
        self.metrics.families(&self.read_gauges())
    }

    /// Returns the current values of the gauges.
    fn read_gauges(&self) -> GaugeValues {
        let (mut servers, mut connections) = (BTreeMap::new(), BTreeMap::new());
        for server in self.servers().iter() {
            *servers.entry(server.state().as_str()).or_default() += 1;
            connections.insert(server.name().to_owned(), server.connection_counts());
        }
        let (sessions, tools) = (self.sessions.count(), self.tool_count());
        GaugeValues {
            sessions,
            tools,
            servers,
            connections,
            uptime: self.began.elapsed(),
            vectors: self.vector_status(),
        }
    }

    /// Returns the status of the embeddings endpoint, if there is one.
    fn vector_status(&self) -> Option<VectorSourceStatus> {
        let setup = self.setups.current();
        let shapes = [setup.profile.shape(), setup.profile.constant_shape()];
        let source = shapes.into_iter().find_map(|shape| (setup.rankers)(shape.dialect).vector_source());
        source.map(|source| source.status())
    }

    fn totals(&self) -> Totals {
        let metrics = &self.metrics;
        Totals {
            hits: metrics.hits.load(Ordering::Relaxed),
            misses: metrics.misses.load(Ordering::Relaxed),
            search_latency: Latency::of(&metrics.searches),
            lists: metrics.lists.load(Ordering::Relaxed),
            tokens_saved: metrics.tokens_saved.load(Ordering::Relaxed),
            suspended_calls: self.forwarder.suspended().count(),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
