//! `pegboard doctor`.

mod conflicts;
mod embeddings;
mod entries;
mod file;
mod finding;
mod machine;
mod mask;
mod overrides;
mod remote;
mod show;
mod start;
mod tools;
mod usage;

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use pegboard_config::document::Problems;
use pegboard_gateway::control::host::HealthFinding;
use pegboard_upstream::{State, Upstream, config::ServerConfig, default_starts};

pub(crate) use self::{finding::reference, mask::Mask};
use self::{
    finding::{Finding, Severity},
    start::{CheckedServer, StartResult},
};
use super::serve::runtime;
use crate::{
    Outcome,
    cli::options::{Format, LogArgs, OutputArgs},
    clients::{read, server::Server},
    config::{Config, Content, state},
    error::CliError,
    logging, output,
    progress::Progress,
    source::Source,
};

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Configuration file [default: `pegboard.json` in this folder or above, else your user configuration]
    #[arg(value_name = "CONFIG")]
    argument: Option<PathBuf>,

    /// Configuration file, as a flag
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    config: Option<PathBuf>,

    /// Do not start or connect to servers
    #[arg(long, visible_alias = "no-start")]
    offline: bool,

    /// Check only these servers
    #[arg(long, value_name = "SERVER", value_delimiter = ',')]
    server: Vec<String>,

    /// Maximum time to wait for each server [default: its `connectTimeout`]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: Option<u64>,

    /// Listen address of `pegboard serve` [default: the configured address, or 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", env = "PEGBOARD_LISTEN")]
    listen: Option<String>,

    /// State folder of `pegboard serve`; `none` saves nothing
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    state: Option<String>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    log: LogArgs,
}

/// The configuration that is checked.
struct CheckedConfig {
    path: PathBuf,
    config: Config,
    problems: Problems,
    /// The servers as they are written, before variables are expanded.
    written: Vec<(String, Server)>,
}

impl CheckedConfig {
    fn read(content: &Content, only: &[String]) -> Result<Self, CliError> {
        let path = content.path().to_owned();
        let (mut config, problems) = content.examine()?;
        // A file that cannot be parsed was reported already.
        let mut written = read::read_own(&path).ok().flatten().unwrap_or_default();
        for name in only {
            let is_there = config.servers.iter().any(|server| server.name == *name);
            if !is_there && !written.iter().any(|(other, _)| other == name) {
                return Err(CliError::new(format!("no server `{name}` in `{}`", path.display())));
            }
        }
        if !only.is_empty() {
            config.servers.retain(|server| only.contains(&server.name));
            written.retain(|(name, _)| only.contains(name));
        }
        Ok(Self { path, config, problems, written })
    }

    /// Returns whether the file cannot be parsed at all.
    fn is_unreadable(&self) -> bool {
        let is_whole = |path: &str| path.is_empty();
        self.problems.iter().any(|problem| is_whole(&problem.path) && !problem.is_missing())
    }
}

/// The result of all checks.
struct Report {
    config: PathBuf,
    findings: Vec<Finding>,
    checked_servers: Vec<CheckedServer>,
}

impl Report {
    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

pub(crate) fn run(args: &DoctorArgs) -> Result<Outcome, CliError> {
    let source = Source::find(args.argument.as_deref().or(args.config.as_deref()), false);
    let path = source.file()?.to_owned();
    source.announce();
    // Nothing is started or connected to `--offline`.
    let content = match args.offline {
        true => Content::load(&path)?,
        false => source.load(args.state.as_deref())?.map_or_else(|| Content::load(&path), Ok)?,
    };
    logging::start(&args.log, "off", None)?;
    let checked_config = CheckedConfig::read(&content, &args.server)?;
    let mask = Mask::of(&checked_config);
    let mut findings = check_files(&checked_config, args.listen.as_deref(), args.state.as_deref());
    if !args.server.is_empty() {
        findings.retain(|finding| finding.server.as_ref().is_none_or(|server| args.server.contains(server)));
    }
    if let Some(settings) = checked_config.config.embeddings.as_ref().filter(|_| !args.offline) {
        findings.extend(runtime()?.block_on(embeddings::check_endpoint(settings)));
    }
    let checked_servers = examine_servers(&checked_config, args, &mut findings)?;
    findings.extend(conflicts::find_tool_conflicts(&checked_servers, &checked_config, &findings));
    findings.iter_mut().for_each(|finding| mask.clean(finding));
    let report =
        Report { config: checked_config.path, findings: sort_findings(findings, &checked_servers), checked_servers };
    match args.output.format() {
        Format::Json => output::json(&show::json(&report))?,
        Format::Text => output::text(&show::text(&report))?,
    }
    Ok(if report.count(Severity::Error) == 0 { Outcome::Yes } else { Outcome::No })
}

/// Checks everything that can be checked without starting or connecting to anything.
fn check_files(checked_config: &CheckedConfig, listen: Option<&str>, state: Option<&str>) -> Vec<Finding> {
    let config = &checked_config.config;
    let mut findings = file::problems(&checked_config.problems);
    findings.extend(file::unused_settings(&config.notices));
    findings.extend(file::check_references(checked_config));
    if !checked_config.is_unreadable() {
        let own = machine::serving_processes(config, state, &checked_config.path);
        findings.extend(machine::check_listen_address(config, listen, &own));
        findings.extend(machine::check_state_folder(config, state));
        findings.extend(machine::find_held_tools(config, state));
        findings.extend(usage::check_learning(config));
    }
    for server in config.servers.iter().filter(|server| server.is_enabled) {
        let found = entries::check_entry(server, &checked_config.path);
        findings.extend(found.into_iter().map(|finding| finding.of(&server.name)));
    }
    findings.extend(conflicts::find_duplicate_entries(&checked_config.written));
    findings
}

/// Returns the findings of a configuration that is in use and of its running servers, for the console.
pub(crate) fn examine_running(
    path: &std::path::Path,
    listen: Option<&str>,
    state: Option<&str>,
    servers: &[Arc<Upstream>],
) -> Result<Vec<HealthFinding>, CliError> {
    let content = Content::load(path)?;
    let checked_config = CheckedConfig::read(&content, &[])?;
    let mask = Mask::of(&checked_config);
    let mut findings = check_files(&checked_config, listen, state);
    let mut checked_servers = Vec::new();
    // The gateway itself reports those that do not run.
    for server in servers.iter().filter(|server| server.state() == State::Ready) {
        let (checked_server, found) = start::check_running(server);
        findings.extend(found.into_iter().map(|finding| finding.of(server.name())));
        findings.extend(tools::check_tools(&checked_server, &checked_config.config.gateway));
        checked_servers.push(checked_server);
    }
    findings.extend(conflicts::find_tool_conflicts(&checked_servers, &checked_config, &findings));
    findings.iter_mut().for_each(|finding| mask.clean(finding));
    findings.sort_by_key(|finding| (finding.severity, finding.server.clone()));
    let shown = findings.into_iter().map(|finding| HealthFinding {
        check: finding.check.name(),
        severity: finding.severity.as_str().to_owned(),
        server: finding.server,
        message: finding.message,
        details: finding.details,
        hint: finding.hint,
        fix: None,
    });
    Ok(shown.collect())
}

/// Returns a configuration file as text without secrets, and the problems in it.
pub(crate) fn masked_file(path: &std::path::Path) -> Result<MaskedFile, CliError> {
    let content = Content::load(path)?;
    let checked_config = CheckedConfig::read(&content, &[])?;
    let mask = Mask::of(&checked_config);
    Ok(MaskedFile {
        text: String::from_utf8_lossy(content.bytes()).into_owned(),
        problems: checked_config.problems,
        mask,
    })
}

/// A configuration file, and what must not be shown of it.
pub(crate) struct MaskedFile {
    pub(crate) text: String,
    pub(crate) problems: Problems,
    pub(crate) mask: Mask,
}

/// Starts the servers that can be started, and checks their tools.
fn examine_servers(
    checked_config: &CheckedConfig,
    args: &DoctorArgs,
    findings: &mut Vec<Finding>,
) -> Result<Vec<CheckedServer>, CliError> {
    let has_error =
        |name: &str| findings.iter().any(|finding| finding.is_error() && finding.server.as_deref() == Some(name));
    let mut checked_servers = Vec::new();
    let mut startable: Vec<ServerConfig> = Vec::new();
    for server in &checked_config.config.servers {
        let result = match server.is_enabled {
            false => StartResult::Disabled,
            true if args.offline => StartResult::NotStarted,
            true if has_error(&server.name) => StartResult::NotStarted,
            true => StartResult::Failed,
        };
        if result == StartResult::Failed {
            let mut server = server.clone();
            // One whose tools are known would wait for a call.
            server.lazy = Some(false);
            let limit = args.timeout.map(Duration::from_secs);
            server.timeouts.connect = limit.map_or(server.timeouts.connect, |limit| limit.min(server.timeouts.connect));
            startable.push(server);
        }
        checked_servers.push(CheckedServer::new(&server.name, result));
    }
    if startable.is_empty() {
        return Ok(checked_servers);
    }
    let at_once = checked_config.config.gateway.max_starts.unwrap_or_else(default_starts);
    let progress = Arc::new(Progress::new(startable.len(), "starting servers"));
    let state = checked_config.config.state.resolve(args.state.as_deref());
    let manifests = state.map(|state| state::manifests(&state));
    let started = runtime()?.block_on(start::all(startable, manifests.as_deref(), at_once, &progress));
    drop(progress);
    for (started, found) in started {
        findings.extend(found);
        findings.extend(tools::check_tools(&started, &checked_config.config.gateway));
        if let Some(checked_server) =
            checked_servers.iter_mut().find(|checked_server| checked_server.name == started.name)
        {
            *checked_server = started;
        }
    }
    Ok(checked_servers)
}

/// Sorts findings: general ones first, then by server in the order of the configuration, the most
/// severe first.
fn sort_findings(mut findings: Vec<Finding>, checked_servers: &[CheckedServer]) -> Vec<Finding> {
    let place = |finding: &Finding| {
        let server = finding.server.as_ref();
        server.map_or(0, |name| {
            1 + checked_servers.iter().position(|one| one.name == *name).unwrap_or(checked_servers.len())
        })
    };
    findings.sort_by_key(|finding| (place(finding), finding.severity));
    findings
}
