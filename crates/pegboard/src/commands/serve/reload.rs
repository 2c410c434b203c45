//! Following the configuration file while the gateway runs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use pegboard_discovery::Learner;
use pegboard_engine::usage::HabitSettings;
use pegboard_gateway::{Change, Gateway, Rankers, control::Reload};
use pegboard_http::Doorkeeper;
use tokio::sync::mpsc;

use crate::{
    config::{self, Config, ListenConfig, telemetry::TelemetryConfig},
    embeddings::{self, Chosen},
    models,
    rankers::{RankerName, shared_rankers},
    usage::{self, Keeper},
};

/// How often the files are looked at. Asking the system to tell us would save these looks,
/// and misses what happens on network drives, behind links and to folders that are replaced.
const LOOK: Duration = Duration::from_millis(200);

/// The configuration that is in use, and where it comes from.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) path: PathBuf,
    pub(super) gateway: Arc<Gateway>,
    /// Who is let in, if anybody can come.
    pub(super) door: Option<Doorkeeper>,
    pub(super) ranker: Option<RankerName>,
    pub(super) embeddings: Option<Chosen>,
    pub(super) model: FollowedModel,
    pub(super) listen: ListenConfig,
    pub(super) telemetry: TelemetryConfig,
    /// Where things are kept; that stays.
    pub(super) state: Option<PathBuf>,
    /// Other files whose content counts.
    pub(super) files: Vec<PathBuf>,
    /// Whoever learns from use.
    pub(super) learner: Option<Arc<Keeper>>,
    /// Who wants the files to be read now.
    pub(super) requests: mpsc::Receiver<Reload>,
}

/// Where the model comes from, if it is not the one that is built in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FollowedModel {
    /// The file in use.
    path: Option<PathBuf>,
    /// What it looked like when it was read.
    mark: Option<Mark>,
    /// What the command line says, which goes before the configuration.
    flag: Option<PathBuf>,
}

impl FollowedModel {
    /// The file at `path`, which is to be read after this: what is written meanwhile is seen then.
    pub(super) fn new(path: Option<PathBuf>, flag: Option<PathBuf>) -> Self {
        Self { mark: path.as_deref().and_then(mark), path, flag }
    }
}

impl Followed {
    /// Takes over every change of the files, for ever. One with mistakes is refused whole, and
    /// everything stays as it was.
    pub(super) async fn follow(mut self) {
        let mut seen = self.look().await;
        let mut unsettled = None;
        loop {
            let asked = tokio::select! {
                () = tokio::time::sleep(LOOK) => None,
                Some(asked) = self.requests.recv() => Some(asked),
            };
            let now = self.look().await;
            if let Some(asked) = asked {
                (seen, unsettled) = (now, None);
                let _ = asked.send(self.reload().await);
                self.extend(&mut seen).await;
                continue;
            }
            if now == seen {
                unsettled = None;
                continue;
            }
            // Whoever writes may not have finished: it must look the same twice.
            if unsettled.as_ref() != Some(&now) {
                unsettled = Some(now);
                continue;
            }
            unsettled = None;
            seen = now;
            let _ = self.reload().await;
            self.extend(&mut seen).await;
        }
    }

    /// Files that were not looked at before count from now on.
    async fn extend(&self, seen: &mut BTreeMap<PathBuf, Option<Mark>>) {
        let others = self.look().await;
        seen.retain(|path, _| others.contains_key(path));
        others.into_iter().for_each(|(path, mark)| _ = seen.entry(path).or_insert(mark));
    }

    async fn reload(&mut self) -> Result<Change, String> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || config::read_watching(&path)).await;
        let (read, files) = read.map_err(|error| error.to_string())?;
        self.files = files;
        let taken = match read {
            Ok(config) => self.take(config).await,
            Err(error) => Err(error.in_one_line()),
        };
        match &taken {
            Ok(change) => tell(&self.path, change),
            Err(reason) => {
                let file = self.path.display();
                tracing::error!(%file, "the configuration is not taken over, and the old one stays: {reason}");
                self.gateway.refuse_configuration(reason.clone());
            }
        }
        taken
    }

    async fn take(&mut self, mut config: Config) -> Result<Change, String> {
        let has_tokens = !config.gateway.tokens.is_empty();
        if let Some(error) = self.door.as_ref().and_then(|door| door.check(has_tokens).err()) {
            return Err(format!("{error} ({})", error.hint()));
        }
        self.warn_of_the_fixed(&config.listen, &config.telemetry);
        config::state::use_in(&mut config.gateway, self.state.as_deref());
        let rankers = self.rankers(&config).await?;
        self.learn_as(config.usage).await;
        config.gateway.learner = self.learner.clone().map(|learner| learner as Arc<dyn Learner>);
        let change = self.gateway.reconfigure(config.servers, config.gateway, rankers).await;
        // After the gateway, which knows new holders of tokens and refuses old ones by now.
        if let Some(door) = &self.door
            && let Err(error) = door.replace(super::guard(&config.listen, self.gateway.tokens()))
        {
            return Err(error.to_string());
        }
        Ok(change)
    }

    /// Goes over to another way of learning, if it is another.
    async fn learn_as(&mut self, usage: Option<HabitSettings>) {
        if self.learner.as_ref().map(|learner| learner.settings()) == usage {
            return;
        }
        let (state, path) = (self.state.clone(), self.path.clone());
        let open = move || usage::keeper(usage, state.as_deref(), Some(&path));
        self.learner = tokio::task::spawn_blocking(open).await.ok().flatten();
    }

    /// Other rankers, if the configuration asks for them.
    async fn rankers(&mut self, config: &Config) -> Result<Option<Rankers>, String> {
        let flag = self.model.flag.clone();
        let path = flag.clone().or_else(|| config.model.clone());
        let found = tokio::task::spawn_blocking(move || FollowedModel::new(path, flag)).await;
        let found = found.map_err(|error| error.to_string())?;
        let chosen = embeddings::chosen(config);
        if config.ranker == self.ranker && found == self.model && chosen == self.embeddings {
            return Ok(None);
        }
        let wanted = found.path.clone();
        let read = tokio::task::spawn_blocking(move || models::read(wanted.as_deref())).await;
        let model = read.map_err(|error| error.to_string())?.map_err(|error| error.in_one_line())?;
        (self.ranker, self.model, self.embeddings) = (config.ranker, found, chosen.clone());
        let embedder = embeddings::embedder(chosen, self.state.as_deref());
        Ok(Some(shared_rankers(config.ranker, model, embedder)))
    }

    /// Some things take another start.
    fn warn_of_the_fixed(&mut self, listen: &ListenConfig, telemetry: &TelemetryConfig) {
        let fixed = |listen: &ListenConfig| {
            (listen.address.clone(), listen.allow_public, listen.max_body_bytes, listen.shutdown_deadline)
        };
        if fixed(listen) != fixed(&self.listen) {
            tracing::warn!("the address and the limits of the listener change with the next start");
            self.listen = listen.clone();
        }
        if *telemetry != self.telemetry {
            tracing::warn!("where telemetry goes changes with the next start");
            self.telemetry = telemetry.clone();
        }
    }

    /// What the files look like from outside.
    async fn look(&self) -> BTreeMap<PathBuf, Option<Mark>> {
        let files = [&self.path].into_iter().chain(&self.files).chain(&self.model.path);
        let paths: Vec<PathBuf> = files.cloned().collect();
        let look = || paths.into_iter().map(|path| (mark(&path), path)).map(|(mark, path)| (path, mark)).collect();
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }
}

/// By what it is seen that a file is another one.
type Mark = (Option<SystemTime>, u64, u64);

fn mark(path: &Path) -> Option<Mark> {
    let data = fs::metadata(path).ok()?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&data);
    #[cfg(not(unix))]
    let number = 0;
    Some((data.modified().ok(), data.len(), number))
}

fn tell(path: &Path, change: &Change) {
    let (file, servers) = (path.display(), &change.servers);
    if change.is_empty() {
        return tracing::info!(%file, "the configuration was read again, and nothing is different");
    }
    tracing::info!(
        %file,
        added = servers.added.join(", "),
        changed = servers.changed.join(", "),
        removed = servers.removed.join(", "),
        settings = change.has_settings,
        "the configuration was taken over"
    );
}
