//! All configured servers.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use pegboard_core::{Secret, locks::lock};
use pegboard_mcp::json::Raw;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinHandle,
};

use crate::{
    auth::Logins,
    config::ServerConfig,
    connection::Notice,
    environment::ReservedVariables,
    manifest,
    pins::Pins,
    redact::{Redactor, SharedSecrets},
    server::{ClientOwner, Crew, Gate, Upstream},
};

/// Notifications that wait to be passed on.
const NOTICES: usize = 4096;

/// Maximum number of child processes that start at the same time, whatever is configured.
const MAX_STARTS: usize = 10_000;

/// How a fleet is run.
#[derive(Clone, Debug, Default)]
pub struct FleetOptions {
    /// The command line of a program that runs [`supervise::run`](pegboard_process::supervise::run) on
    /// what follows it; without one, a server's own children may outlive it.
    pub supervisor: Vec<OsString>,
    /// The folder in which it is kept what servers offer, so that it is known at the next
    /// start before they run. `None` keeps nothing.
    pub manifests: Option<PathBuf>,
    /// The folder in which it is kept which tools were approved; see
    /// [`Pinning`](crate::config::Pinning). `None` approves everything.
    pub pins: Option<PathBuf>,
    /// Where logins to remote servers are kept. `None` uses none.
    pub logins: Option<Logins>,
    /// Whether servers that have a manifest wait for [`Fleet::begin`] or for a call, for
    /// whoever has something to do first that a crowd of starting programs would slow down.
    pub is_held: bool,
    /// Maximum number of child processes that start at the same time; `None` is
    /// [`default_starts`]. A server that a call waits for does not wait.
    pub max_starts: Option<usize>,
}

/// Returns how many child processes start at the same time by default: two for each core.
pub fn default_starts() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// The configured servers, started in parallel and kept running.
#[derive(Debug)]
pub struct Fleet {
    servers: RwLock<Arc<[Arc<Upstream>]>>,
    /// Servers that are no longer configured and end what they are busy with.
    leaving: Mutex<Vec<Arc<Upstream>>>,
    crew: Arc<Crew>,
    manifests: Option<PathBuf>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// One change of the configuration at a time, and none after the end.
    changing: tokio::sync::Mutex<bool>,
}

/// What a change of the configuration did, by the names of the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// Those that are new.
    pub added: Vec<String>,
    /// Those that were started again, because something of them is different.
    pub changed: Vec<String>,
    /// Those that are gone.
    pub removed: Vec<String>,
}

impl Reconfigured {
    /// Whether all servers are as they were.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Fleet {
    /// Starts the servers and keeps nothing of them; see [`start_with`](Self::start_with).
    pub fn start(configs: Vec<ServerConfig>, supervisor: Vec<OsString>) -> (Self, mpsc::Receiver<(Arc<str>, Notice)>) {
        Self::start_with(configs, FleetOptions { supervisor, ..FleetOptions::default() })
    }

    /// Starts the servers.
    ///
    /// Also returned: what servers say of their own accord, with the server's name. Changes
    /// of lists are not among it; they are seen through [`changes`](Self::changes).
    pub fn start_with(configs: Vec<ServerConfig>, options: FleetOptions) -> (Self, mpsc::Receiver<(Arc<str>, Notice)>) {
        let (told, notices) = mpsc::channel(NOTICES);
        let gate = if options.manifests.is_some() { Gate::Reading } else { Gate::Open };
        let crew = Arc::new(Crew {
            supervisor: options.supervisor,
            reserved: Mutex::new(ReservedVariables::of_all(&configs)),
            logins: options.logins,
            changes: watch::Sender::new(0),
            told,
            gate: watch::Sender::new(gate),
            secrets: SharedSecrets::default(),
            pins: options.pins.map(|folder| Arc::new(Pins::at(folder))),
            starts: Arc::new(Semaphore::new(options.max_starts.unwrap_or_else(default_starts).clamp(1, MAX_STARTS))),
        });
        configs.iter().for_each(|config| crew.secrets.add_server(config));
        let servers: Vec<Arc<Upstream>> =
            configs.into_iter().map(|config| Upstream::new(config, Arc::clone(&crew))).collect();
        let mut tasks: Vec<JoinHandle<()>> =
            servers.iter().map(|server| tokio::spawn(Arc::clone(server).run())).collect();
        if let Some(folder) = options.manifests.clone() {
            let next = if options.is_held { Gate::Recalled } else { Gate::Open };
            let opening = Opening { crew: Arc::clone(&crew), next };
            tasks.push(tokio::spawn(recall(folder, servers.clone(), opening)));
        }
        let fleet = Self {
            servers: RwLock::new(servers.into()),
            leaving: Mutex::default(),
            crew,
            manifests: options.manifests,
            tasks: Mutex::new(tasks),
            changing: tokio::sync::Mutex::new(false),
        };
        (fleet, notices)
    }

    /// The servers in the order of the configuration.
    pub fn servers(&self) -> Arc<[Arc<Upstream>]> {
        Arc::clone(&self.servers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server with this name.
    pub fn find(&self, name: &str) -> Option<Arc<Upstream>> {
        self.servers().iter().find(|server| server.name() == name).cloned()
    }

    /// Grows whenever a server's lists or state change, or the servers themselves.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.crew.changes.subscribe()
    }

    /// Hides these in everything that is told of servers, beside what is configured of them.
    pub fn hide<'a>(&self, secrets: impl IntoIterator<Item = &'a Secret>) {
        self.crew.secrets.add(secrets);
    }

    /// `text` without the secrets of any server, or of anybody else that were hidden.
    pub fn without_secrets(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for server in self.servers().iter() {
            text = server.redactor().blank_out(text);
        }
        Redactor::only_shared(self.crew.secrets.clone()).blank_out(text)
    }

    /// Goes over to another configuration. Servers of which nothing is different go on
    /// undisturbed; others are started, started again or ended, each by itself. One that
    /// leaves may finish the calls that it is busy with, for at most `grace`; its successor
    /// waits for that, and calls of the successor wait with it.
    ///
    /// Returns when the new servers are known, not when they have started.
    pub async fn reconfigure(&self, configs: Vec<ServerConfig>, grace: Duration) -> Reconfigured {
        let changing = self.changing.lock().await;
        if *changing {
            return Reconfigured::default();
        }
        // Before anything is started: servers that are as they were carry the old names.
        *lock(&self.crew.reserved) = ReservedVariables::of_all(&configs);
        let before = self.servers();
        let mut done = Reconfigured::default();
        let mut fresh: Vec<(Arc<Upstream>, Option<Arc<Upstream>>)> = Vec::new();
        let mut servers: Vec<Arc<Upstream>> = Vec::with_capacity(configs.len());
        for config in configs {
            self.crew.secrets.add_server(&config);
            let old = before.iter().find(|server| server.name() == config.name);
            if let Some(same) = old.filter(|old| *old.config() == config) {
                servers.push(Arc::clone(same));
                continue;
            }
            let list = if old.is_some() { &mut done.changed } else { &mut done.added };
            list.push(config.name.clone());
            let server = Upstream::new(config, Arc::clone(&self.crew));
            fresh.push((Arc::clone(&server), old.cloned()));
            servers.push(server);
        }
        let is_gone = |old: &&Arc<Upstream>| !servers.iter().any(|server| server.name() == old.name());
        let gone: Vec<Arc<Upstream>> = before.iter().filter(is_gone).cloned().collect();
        done.removed = gone.iter().map(|server| server.name().to_owned()).collect();
        self.recall_fresh(&fresh).await;
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = servers.into();
        self.crew.changed();
        let fresh = fresh.into_iter().map(|(server, old)| (old, Some(server)));
        fresh
            .chain(gone.into_iter().map(|old| (Some(old), None)))
            .for_each(|(old, new)| self.follow_up(old, new, grace));
        done
    }

    /// Starts one server again, with the configuration that it has. It may finish the calls
    /// that it is busy with, for at most `grace`; later ones wait for its successor. Whether
    /// there is such a server.
    pub async fn restart(&self, name: &str, grace: Duration) -> bool {
        let changing = self.changing.lock().await;
        let before = self.servers();
        let Some(at) = before.iter().position(|server| server.name() == name).filter(|_| !*changing) else {
            return false;
        };
        let old = Arc::clone(&before[at]);
        let new = Upstream::new(old.config().clone(), Arc::clone(&self.crew));
        self.recall_fresh(&[(Arc::clone(&new), Some(Arc::clone(&old)))]).await;
        let mut servers = before.to_vec();
        servers[at] = Arc::clone(&new);
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = servers.into();
        self.crew.changed();
        self.follow_up(Some(old), Some(new), grace);
        true
    }

    /// Tells new servers what is known of them: what was kept, or what their predecessors
    /// offered. Another token is no reason to take all tools away until the server has said
    /// the same again; another program is.
    async fn recall_fresh(&self, fresh: &[(Arc<Upstream>, Option<Arc<Upstream>>)]) {
        for (server, old) in fresh {
            if let Some(old) = old {
                server.continue_counting(old);
            }
            let is_same = |old: &&Arc<Upstream>| old.config().transport.is_same_location(&server.config().transport);
            if let Some(old) = old.as_ref().filter(is_same).filter(|_| server.config().is_enabled) {
                server.inherit(old);
            }
        }
        let servers: Vec<Arc<Upstream>> = fresh.iter().map(|(server, _)| Arc::clone(server)).collect();
        self.recall_kept(&servers).await;
        review(servers).await;
    }

    async fn recall_kept(&self, fresh: &[Arc<Upstream>]) {
        let Some(folder) = self.manifests.clone() else { return };
        let configs: Vec<ServerConfig> = fresh.iter().map(|server| server.config().clone()).collect();
        let read = tokio::task::spawn_blocking(move || manifest::load_manifests(&folder, &configs)).await;
        let Ok(Some((manifests, recalled))) = read else { return };
        let manifests = Arc::new(manifests);
        for (server, recalled) in fresh.iter().zip(recalled) {
            server.recall(&manifests, recalled);
        }
    }

    /// Lets one server follow another.
    fn follow_up(&self, old: Option<Arc<Upstream>>, new: Option<Arc<Upstream>>, grace: Duration) {
        lock(&self.leaving).retain(|server| !server.has_ended());
        lock(&self.leaving).extend(old.clone());
        let task = tokio::spawn(async move {
            if let Some(old) = old {
                old.retire(grace).await;
            }
            if let Some(new) = new {
                new.run().await;
            }
        });
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Waits until it is read what was kept of servers, at most `limit`.
    pub async fn recalled(&self, limit: Duration) {
        let mut gate = self.crew.gate.subscribe();
        let _ = tokio::time::timeout(limit, gate.wait_for(|gate| *gate >= Gate::Recalled)).await;
    }

    /// Lets the servers start that were [held](FleetOptions::is_held).
    pub fn begin(&self) {
        self.crew.advance(Gate::Open);
    }

    /// Waits until it is known of every server what it offers or that it does not work, at
    /// most `limit`. What was kept of earlier runs counts, and a server that was waited for in vain
    /// is not waited for again at the next start.
    pub async fn listed(&self, limit: Duration) {
        let servers = self.servers();
        let all = async {
            for server in servers.iter() {
                server.listed().await;
            }
        };
        if tokio::time::timeout(limit, all).await.is_err() {
            for server in servers.iter() {
                server.note_late().await;
            }
        }
    }

    /// Waits until every server works, rests or has failed, at most `limit`.
    pub async fn settled(&self, limit: Duration) {
        let all = async {
            for server in self.servers().iter() {
                server.settled().await;
            }
        };
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Closes the connections that belong to a client which has gone.
    pub fn release(&self, owner: ClientOwner) {
        self.servers().iter().chain(lock(&self.leaving).iter()).for_each(|server| server.release(owner));
    }

    /// Sends a notification of a client to the servers that it has connections of its own to, without
    /// waiting. Must be called inside a runtime.
    pub fn notify_for(&self, owner: ClientOwner, method: &'static str, params: Option<&Raw>) {
        self.servers().iter().for_each(|server| server.notify_for(owner, method, params));
    }

    /// Ends all servers, and waits until their processes are gone.
    pub async fn stop(&self) {
        *self.changing.lock().await = true;
        let leaving = lock(&self.leaving).clone();
        let all: Vec<Arc<Upstream>> = self.servers().iter().cloned().chain(leaving).collect();
        all.iter().for_each(|server| server.stop());
        for server in all {
            server.stopped().await;
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // The connections of clients end by themselves.
        self.servers().iter().for_each(|server| server.stop());
        lock(&self.tasks).iter().for_each(JoinHandle::abort);
    }
}

/// Lets the start go on when it is dropped: whatever happens to the manifests, servers start.
struct Opening {
    crew: Arc<Crew>,
    next: Gate,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.crew.advance(self.next);
    }
}

/// Holds back what is known of servers and was not approved.
async fn review(servers: Vec<Arc<Upstream>>) {
    let _ = tokio::task::spawn_blocking(move || servers.iter().for_each(|server| server.review_known())).await;
}

/// Reads what was kept of the servers, and then looks for what nobody needs any more.
async fn recall(folder: PathBuf, servers: Vec<Arc<Upstream>>, opening: Opening) {
    let configs: Vec<ServerConfig> = servers.iter().map(|server| server.config().clone()).collect();
    let read = tokio::task::spawn_blocking(move || manifest::load_manifests(&folder, &configs)).await;
    let Ok(Some((manifests, recalled))) = read else { return };
    let manifests = Arc::new(manifests);
    let used: Vec<manifest::Fingerprint> = recalled.iter().filter_map(|one| one.fingerprint).collect();
    for (server, recalled) in servers.iter().zip(recalled) {
        server.recall(&manifests, recalled);
    }
    // What must not be used unseen is looked at before anybody asks; the rest is only reported.
    let (held, reported) = servers.into_iter().partition(|server| server.holds_unseen());
    review(held).await;
    // All at once: whoever follows the changes takes in all of them with one look.
    opening.crew.changed();
    drop(opening);
    review(reported).await;
    let _ = tokio::task::spawn_blocking(move || manifests.remove_unused(&used)).await;
}
