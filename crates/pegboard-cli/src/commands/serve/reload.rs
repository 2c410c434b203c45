//! Reloads the configuration file when it changes while the gateway runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use pegboard_discovery::Learner;
use pegboard_engine::usage::HabitSettings;
use pegboard_gateway::{Change, Gateway, Rankers, control::Reload};
use pegboard_http::GuardHandle;
use pegboard_llm::embeddings::Embedder;
use tokio::sync::mpsc;

use super::{
    FurtherDoors,
    file_versions::{self, FileVersions},
    watched_model::WatchedModel,
};
use crate::{
    config::{self, Config, Content, ListenConfig, telemetry::TelemetryConfig},
    embeddings::{self, EndpointChoice},
    error::CliError,
    logging::LogBuffer,
    platform::memory,
    rankers::{RankerName, shared_rankers},
    trust,
    usage::{self, UsageLearner},
};

/// Poll interval of the files. File system notifications would save the polling, but miss changes
/// on network drives, behind links and in folders that are replaced.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The configuration in use, and where it comes from.
#[derive(Debug)]
pub(super) struct ConfigWatcher {
    pub(super) path: PathBuf,
    /// The flag for the state folder, if the file was found in a folder and must be trusted.
    pub(super) needs_trust: Option<Option<String>>,
    /// Whether the present file was rejected because it is not trusted.
    pub(super) waits_for_trust: bool,
    pub(super) gateway: Arc<Gateway>,
    /// The guard of the listener, if there is one.
    pub(super) guard: Option<GuardHandle>,
    pub(super) ranker: Option<RankerName>,
    /// The bonus of each literal hit, for rankers that have it.
    pub(super) token_bonus: f64,
    pub(super) embeddings: Option<EndpointChoice>,
    /// The embedder in use. It continues under other rankers, with its vectors.
    pub(super) embedder: Option<Arc<Embedder>>,
    pub(super) model: WatchedModel,
    pub(super) listen: ListenConfig,
    /// Whether the listener serves the console.
    pub(super) has_console: bool,
    pub(super) telemetry: TelemetryConfig,
    /// The state folder, which cannot change.
    pub(super) state: Option<PathBuf>,
    /// The versions of the configuration files when they were read.
    pub(super) files: FileVersions,
    /// The learner of usage, if it is enabled.
    pub(super) learner: Option<Arc<UsageLearner>>,
    /// The log in memory.
    pub(super) log: Arc<LogBuffer>,
    /// Requests to reload the files now.
    pub(super) requests: mpsc::Receiver<Reload>,
}

impl ConfigWatcher {
    /// Applies every change of the files, for ever. A file with mistakes is rejected as a whole,
    /// and everything stays as it was.
    pub(super) async fn watch_files(mut self) {
        let mut unsettled = None;
        loop {
            let asked = tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => None,
                Some(asked) = self.requests.recv() => Some(asked),
            };
            if let Some(asked) = asked {
                unsettled = None;
                let _ = asked.send(self.reload().await);
                continue;
            }
            if self.waits_for_trust && self.is_trusted() {
                unsettled = None;
                let _ = self.reload().await;
                continue;
            }
            let seen = self.last_versions();
            let now = file_versions::file_versions(seen.keys().cloned()).await;
            if now == seen {
                unsettled = None;
                continue;
            }
            // A write may still be going on: the file must look the same twice.
            if unsettled.as_ref() != Some(&now) {
                unsettled = Some(now);
                continue;
            }
            unsettled = None;
            let _ = self.reload().await;
        }
    }

    /// Returns the versions of the files at the last attempt to read them.
    fn last_versions(&self) -> FileVersions {
        self.files.clone().into_iter().chain(self.model.last_seen()).collect()
    }

    async fn reload(&mut self) -> Result<Change, String> {
        self.model.refresh_version().await;
        let (path, needs_trust) = (self.path.clone(), self.needs_trust.clone());
        let load = move || load(&path, needs_trust.as_ref().map(Option::as_deref));
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || file_versions::read(&path, load)).await;
        let (read, files) = read.map_err(|error| error.to_string())?;
        self.files = files;
        self.waits_for_trust = read.is_err() && self.needs_trust.is_some() && !self.is_trusted();
        let taken = match read {
            Ok(config) => self.apply(config).await,
            Err(error) => Err(error.in_one_line()),
        };
        match &taken {
            Ok(change) => log_change(&self.path, change),
            Err(reason) => {
                let file = self.path.display();
                tracing::error!(%file, "configuration rejected, previous one kept: {reason}");
                self.gateway.refuse_configuration(reason.clone());
            }
        }
        taken
    }

    /// Returns whether the present file may start programs.
    fn is_trusted(&self) -> bool {
        let state = self.needs_trust.as_ref().map(Option::as_deref);
        state.is_none_or(|state| trust::is_file_trusted(&self.path, state))
    }

    async fn apply(&mut self, mut config: Config) -> Result<Change, String> {
        let has_tokens = !config.gateway.tokens.is_empty();
        if let Some(error) = self.guard.as_ref().and_then(|guard| guard.check(has_tokens).err()) {
            return Err(format!("{error} ({})", error.hint()));
        }
        if let Some(missing) = self.find_missing(&config) {
            return Err(missing);
        }
        config::state::check_approvals(&config, self.state.as_deref()).map_err(|error| error.in_one_line())?;
        super::log_notices(&config);
        self.warn_about_fixed_settings(&config.listen, &config.telemetry);
        config::state::use_in(&mut config.gateway, self.state.as_deref());
        let rankers = self.changed_rankers(&config).await?;
        self.switch_learning(config.usage).await;
        config.gateway.learner = self.learner.clone().map(|learner| learner as Arc<dyn Learner>);
        config.gateway.after_change = Some(memory::release_free_memory);
        let tokens = self.gateway.tokens();
        let change = self.gateway.reconfigure(config.servers, config.gateway, rankers).await;
        if self.gateway.tokens() != tokens {
            self.log.end_followers();
        }
        // After the gateway, which knows new holders of tokens and refuses old ones by now.
        if let Some(guard) = &self.guard
            && let Err(error) = guard.replace(super::guard(
                &config.listen,
                FurtherDoors { console: self.has_console, llm_proxy: config.proxy.on_gateway },
                self.gateway.tokens(),
            ))
        {
            return Err(error.to_string());
        }
        Ok(change)
    }

    /// Returns what a running server would lack with another configuration; it is better off with
    /// the old one.
    fn find_missing(&self, config: &Config) -> Option<String> {
        let servers = self.gateway.servers();
        let runs = |name: &str| {
            let server = servers.iter().find(|server| server.name() == name);
            server.is_some_and(|server| server.config().is_enabled && server.config().missing.is_none())
        };
        config.servers.iter().filter(|server| runs(&server.name)).find_map(|server| server.missing.clone())
    }

    /// Switches usage learning to other settings, if they changed.
    async fn switch_learning(&mut self, usage: Option<HabitSettings>) {
        if self.learner.as_ref().map(|learner| learner.settings()) == usage {
            return;
        }
        let (state, path) = (self.state.clone(), self.path.clone());
        let open = move || usage::keeper(usage, state.as_deref(), Some(&path));
        self.learner = tokio::task::spawn_blocking(open).await.ok().flatten();
    }

    /// Returns other rankers, if the configuration asks for them.
    async fn changed_rankers(&mut self, config: &Config) -> Result<Option<Rankers>, String> {
        let is_other_model = self.model.update(config.model.as_deref()).await?;
        let chosen = embeddings::configured_endpoint(config);
        let bonus = config.gateway.discovery.token_bonus;
        let is_same_ranker = config.ranker == self.ranker && bonus == self.token_bonus;
        if is_same_ranker && !is_other_model && chosen == self.embeddings {
            return Ok(None);
        }
        if chosen != self.embeddings {
            self.embedder = embeddings::embedder(chosen.clone(), self.state.as_deref());
        }
        (self.ranker, self.token_bonus, self.embeddings) = (config.ranker, bonus, chosen);
        Ok(Some(shared_rankers(config.ranker, self.model.model(), bonus, self.embedder.clone())))
    }

    /// Warns about changes that need a restart.
    fn warn_about_fixed_settings(&mut self, listen: &ListenConfig, telemetry: &TelemetryConfig) {
        let fixed = |listen: &ListenConfig| {
            (
                listen.address.clone(),
                listen.allow_public,
                listen.has_console,
                listen.max_body_bytes,
                listen.shutdown_deadline,
                listen.connections,
            )
        };
        if fixed(listen) != fixed(&self.listen) {
            tracing::warn!("listener settings changed, restart to apply");
            self.listen = listen.clone();
        }
        if *telemetry != self.telemetry {
            tracing::warn!("telemetry settings changed, restart to apply");
            self.telemetry = telemetry.clone();
        }
    }
}

/// Loads the file; if it `needs_trust`, only with a trusted content. The value is the flag for the
/// state folder.
fn load(path: &Path, needs_trust: Option<Option<&str>>) -> Result<Content, CliError> {
    // A pipe in its place would keep us waiting.
    if needs_trust.is_some() && !path.is_file() {
        return Err(CliError::new(format!("`{}` is not a file", path.display())));
    }
    let content = Content::load(path)?;
    match needs_trust {
        Some(state) if !trust::is_content_trusted(&content, state) => {
            Err(CliError::new("its new content is not trusted").hint("run `pegboard trust`"))
        }
        _ => Ok(content),
    }
}

fn log_change(path: &Path, change: &Change) {
    let (file, servers) = (path.display(), &change.servers);
    if change.is_empty() {
        return tracing::info!(%file, "configuration reloaded without changes");
    }
    tracing::info!(
        %file,
        added = servers.added.join(", "),
        changed = servers.changed.join(", "),
        removed = servers.removed.join(", "),
        settings = change.has_settings,
        "configuration reloaded"
    );
}
