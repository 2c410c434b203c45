//! The configured servers.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use pegboard_core::{Secret, locks::lock};
use pegboard_mcp::{era::Era, json::Raw};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinHandle,
};

use crate::{
    auth::Logins,
    capabilities::{Capabilities, ClientCapabilities},
    config::ServerConfig,
    connection::Notice,
    environment::ReservedVariables,
    manifest,
    pins::Pins,
    redact::{Redactor, SharedSecrets},
    server::{ClientOwner, ClientSubscriptions, FleetContext, StartPhase, Upstream},
};

/// Maximum number of notifications that wait to be read.
const NOTICES: usize = 4096;

/// How long requests can wait at most for servers that are listed again.
const MAX_DECLARING: Duration = Duration::from_secs(60);

/// Maximum number of child processes that start at the same time, whatever is configured.
const MAX_STARTS: usize = 10_000;

/// Options of a fleet.
#[derive(Clone, Debug, Default)]
pub struct FleetOptions {
    /// The command line of a program that runs [`supervise::run`](pegboard_process::supervise::run) on
    /// what follows it; without one, a server's own children may outlive it.
    pub supervisor: Vec<OsString>,
    /// Folder for cached lists, which are available at the next start before the servers run. `None`
    /// disables the cache.
    pub manifests: Option<PathBuf>,
    /// Folder for approvals of tools; see
    /// [`Pinning`](crate::config::Pinning). `None` approves everything.
    pub pins: Option<PathBuf>,
    /// Logins to remote servers. `None` disables them.
    pub logins: Option<Logins>,
    /// Whether servers with cached lists wait for [`Fleet::begin`] or for a call, so that starting
    /// programs do not slow down what the caller does first.
    pub is_held: bool,
    /// Folder that remembers what the clients of earlier runs could be asked for, so that servers learn of it when they
    /// start. `None` begins with nothing.
    pub clients: Option<PathBuf>,
    /// How long servers without cached lists wait for the first client, if none is known. Programs need not be started
    /// again then for what it can be asked for.
    pub first_client_wait: Duration,
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
    /// Servers that are no longer configured and finish their running calls.
    leaving: Mutex<Vec<Arc<Upstream>>>,
    context: Arc<FleetContext>,
    manifests: Option<PathBuf>,
    clients: Option<PathBuf>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Serializes changes of the configuration; `true` after the end.
    changing: tokio::sync::Mutex<bool>,
}

/// The effect of a change of the configuration, by names of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// New servers.
    pub added: Vec<String>,
    /// Servers that were restarted because their configuration changed.
    pub changed: Vec<String>,
    /// Removed servers.
    pub removed: Vec<String>,
}

impl Reconfigured {
    /// Returns whether no server changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Fleet {
    /// Starts the servers without files; see [`start_with`](Self::start_with).
    pub fn start(configs: Vec<ServerConfig>, supervisor: Vec<OsString>) -> (Self, mpsc::Receiver<(Arc<str>, Notice)>) {
        Self::start_with(configs, FleetOptions { supervisor, ..FleetOptions::default() })
    }

    /// Starts the servers.
    ///
    /// Also returns the notifications of servers that belong to no call, with the server's name.
    /// Changes of lists are not among them, see [`changes`](Self::changes), except for
    /// [tools of a client's own connection](Upstream::own_tools).
    pub fn start_with(configs: Vec<ServerConfig>, options: FleetOptions) -> (Self, mpsc::Receiver<(Arc<str>, Notice)>) {
        let (sender, notices) = mpsc::channel(NOTICES);
        let has_files = options.manifests.is_some() || options.clients.is_some();
        let phase = if has_files { StartPhase::Loading } else { StartPhase::Started };
        let context = Arc::new(FleetContext {
            supervisor: options.supervisor,
            reserved: Mutex::new(ReservedVariables::of_all(&configs)),
            logins: options.logins,
            changes: watch::Sender::new(0),
            notices: sender,
            phase: watch::Sender::new(phase),
            secrets: SharedSecrets::default(),
            pins: options.pins.map(|folder| Arc::new(Pins::at(folder))),
            starts: Arc::new(Semaphore::new(options.max_starts.unwrap_or_else(default_starts).clamp(1, MAX_STARTS))),
            subscriptions: ClientSubscriptions::default(),
            clients: ClientCapabilities::default(),
            first_client_wait: options.first_client_wait,
            declaring: watch::Sender::new(0),
        });
        configs.iter().for_each(|config| context.secrets.add_server(config));
        let servers: Vec<Arc<Upstream>> =
            configs.into_iter().map(|config| Upstream::new(config, Arc::clone(&context))).collect();
        let mut tasks: Vec<JoinHandle<()>> =
            servers.iter().map(|server| tokio::spawn(Arc::clone(server).run())).collect();
        if has_files {
            let next = if options.is_held { StartPhase::Loaded } else { StartPhase::Started };
            let opening = Opening { context: Arc::clone(&context), next };
            let folders = (options.clients.clone(), options.manifests.clone());
            tasks.push(tokio::spawn(load(folders, servers.clone(), opening)));
        }
        let fleet = Self {
            servers: RwLock::new(servers.into()),
            leaving: Mutex::default(),
            context,
            manifests: options.manifests,
            clients: options.clients,
            tasks: Mutex::new(tasks),
            changing: tokio::sync::Mutex::new(false),
        };
        (fleet, notices)
    }

    /// Returns the servers in the order of the configuration.
    pub fn servers(&self) -> Arc<[Arc<Upstream>]> {
        Arc::clone(&self.servers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the server with this name.
    pub fn find(&self, name: &str) -> Option<Arc<Upstream>> {
        self.servers().iter().find(|server| server.name() == name).cloned()
    }

    /// Returns a counter that grows when lists, states or the servers themselves change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.context.changes.subscribe()
    }

    /// Redacts these secrets for all servers, in addition to those in their configuration.
    pub fn hide<'a>(&self, secrets: impl IntoIterator<Item = &'a Secret>) {
        self.context.secrets.add(secrets);
    }

    /// Returns `text` with all known secrets redacted.
    pub fn without_secrets(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for server in self.servers().iter() {
            text = server.redactor().blank_out(text);
        }
        Redactor::only_shared(self.context.secrets.clone()).blank_out(text)
    }

    /// Switches to another configuration. Unchanged servers keep running; others are started,
    /// restarted or stopped independently. A server that is stopped may finish its running calls within
    /// `grace`; its successor starts after that, and calls of the successor wait.
    ///
    /// Returns when the new servers are known, not when they have started.
    pub async fn reconfigure(&self, configs: Vec<ServerConfig>, grace: Duration) -> Reconfigured {
        let changing = self.changing.lock().await;
        if *changing {
            return Reconfigured::default();
        }
        // Before anything is started: unchanged servers have the old names.
        *lock(&self.context.reserved) = ReservedVariables::of_all(&configs);
        let before = self.servers();
        let mut done = Reconfigured::default();
        let mut fresh: Vec<(Arc<Upstream>, Option<Arc<Upstream>>)> = Vec::new();
        let mut servers: Vec<Arc<Upstream>> = Vec::with_capacity(configs.len());
        for config in configs {
            self.context.secrets.add_server(&config);
            let old = before.iter().find(|server| server.name() == config.name);
            if let Some(same) = old.filter(|old| *old.config() == config) {
                servers.push(Arc::clone(same));
                continue;
            }
            let list = if old.is_some() { &mut done.changed } else { &mut done.added };
            list.push(config.name.clone());
            let server = Upstream::new(config, Arc::clone(&self.context));
            fresh.push((Arc::clone(&server), old.cloned()));
            servers.push(server);
        }
        let is_gone = |old: &&Arc<Upstream>| !servers.iter().any(|server| server.name() == old.name());
        let gone: Vec<Arc<Upstream>> = before.iter().filter(is_gone).cloned().collect();
        done.removed = gone.iter().map(|server| server.name().to_owned()).collect();
        self.load_known_lists(&fresh).await;
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = servers.into();
        self.context.changed();
        let fresh = fresh.into_iter().map(|(server, old)| (old, Some(server)));
        fresh
            .chain(gone.into_iter().map(|old| (Some(old), None)))
            .for_each(|(old, new)| self.replace_server(old, new, grace));
        done
    }

    /// Restarts one server with its current configuration. It may finish its running calls within
    /// `grace`; later calls wait for its successor. Returns whether the server exists.
    pub async fn restart(&self, name: &str, grace: Duration) -> bool {
        let changing = self.changing.lock().await;
        let before = self.servers();
        let Some(at) = before.iter().position(|server| server.name() == name).filter(|_| !*changing) else {
            return false;
        };
        let old = Arc::clone(&before[at]);
        let new = Upstream::new(old.config().clone(), Arc::clone(&self.context));
        self.load_known_lists(&[(Arc::clone(&new), Some(Arc::clone(&old)))]).await;
        let mut servers = before.to_vec();
        servers[at] = Arc::clone(&new);
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = servers.into();
        self.context.changed();
        self.replace_server(Some(old), Some(new), grace);
        true
    }

    /// Stops one server until it is [restarted](Self::restart) or its configuration changes. It may
    /// finish its running calls within `grace`; its tools are gone at once. Returns whether the server
    /// exists and ran.
    pub async fn pause(&self, name: &str, grace: Duration) -> bool {
        let changing = self.changing.lock().await;
        let before = self.servers();
        let is_it = |server: &Arc<Upstream>| server.name() == name && !server.has_ended();
        let Some(at) = before.iter().position(is_it).filter(|_| !*changing) else { return false };
        let old = Arc::clone(&before[at]);
        let new = Upstream::paused(old.config().clone(), Arc::clone(&self.context));
        new.continue_counting(&old);
        let mut servers = before.to_vec();
        servers[at] = new;
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = servers.into();
        self.context.changed();
        self.replace_server(Some(old), None, grace);
        true
    }

    /// Gives new servers their cached lists, or those of their predecessors. A change of the token does
    /// not invalidate the lists; a change of the program does.
    async fn load_known_lists(&self, fresh: &[(Arc<Upstream>, Option<Arc<Upstream>>)]) {
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
        self.load_cached_lists(&servers).await;
        review(servers).await;
    }

    async fn load_cached_lists(&self, fresh: &[Arc<Upstream>]) {
        let Some(folder) = self.manifests.clone() else { return };
        let configs: Vec<ServerConfig> = fresh.iter().map(|server| server.config().clone()).collect();
        let read = tokio::task::spawn_blocking(move || manifest::load_manifests(&folder, &configs)).await;
        let Ok(Some((manifests, recalled))) = read else { return };
        let manifests = Arc::new(manifests);
        for (server, recalled) in fresh.iter().zip(recalled) {
            server.recall(&manifests, recalled);
        }
    }

    /// Stops one server and starts its successor.
    fn replace_server(&self, old: Option<Arc<Upstream>>, new: Option<Arc<Upstream>>, grace: Duration) {
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

    /// Waits until cached lists are read, at most `limit`.
    pub async fn recalled(&self, limit: Duration) {
        let mut phase = self.context.phase.subscribe();
        let _ = tokio::time::timeout(limit, phase.wait_for(|phase| *phase >= StartPhase::Loaded)).await;
    }

    /// Starts the servers that were [held](FleetOptions::is_held).
    pub fn begin(&self) {
        self.context.advance(StartPhase::Started);
    }

    /// Waits until every server is listed or has failed, at most `limit`. Cached lists count, and a
    /// server that was waited for in vain is not waited for again at the next start.
    pub async fn wait_until_listed(&self, limit: Duration) {
        let servers = self.servers();
        let all = async {
            for server in servers.iter() {
                server.wait_until_listed().await;
            }
        };
        if tokio::time::timeout(limit, all).await.is_err() {
            for server in servers.iter() {
                server.note_late().await;
            }
        }
    }

    /// Waits until every server is ready, rests or has failed, at most `limit`.
    pub async fn settled(&self, limit: Duration) {
        let all = async {
            for server in self.servers().iter() {
                server.settled().await;
            }
        };
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Records what a client can be asked for, as JSON: connections that clients share declare it from now on. Must be
    /// called inside a runtime.
    pub fn note_client(&self, capabilities: &Raw) {
        let clients = &self.context.clients;
        if clients.is_recorded(capabilities) {
            return;
        }
        // Others have not been listed at all, and are waited for elsewhere.
        let is_listed = |server: &&Arc<Upstream>| server.state().is_settled();
        let listed: Vec<Arc<Upstream>> = match clients.is_new(Capabilities::of(capabilities)) {
            true => self.servers().iter().filter(is_listed).cloned().collect(),
            false => Vec::new(),
        };
        let declaring = (!listed.is_empty()).then(|| Declaring::new(&self.context));
        if clients.record(capabilities) {
            self.save_clients();
        }
        if let Some(declaring) = declaring {
            tokio::spawn(async move {
                let all = async {
                    for server in &listed {
                        server.wait_until_declared().await;
                    }
                };
                let _ = tokio::time::timeout(MAX_DECLARING, all).await;
                drop(declaring);
            });
        }
    }

    /// Returns whether servers are being listed for what a client can be asked for.
    pub fn is_declaring(&self) -> bool {
        *self.context.declaring.borrow() > 0
    }

    /// Waits until servers have been listed for what their clients can be asked for.
    pub async fn wait_until_declared(&self) {
        let _ = self.context.declaring.subscribe().wait_for(|count| *count == 0).await;
    }

    fn save_clients(&self) {
        let Some(folder) = self.clients.clone() else { return };
        let context = Arc::clone(&self.context);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = context.clients.save(&folder) {
                tracing::debug!(folder = %folder.display(), %error, "cannot save the capabilities of clients");
            }
        });
    }

    /// Closes the connections that belong to a client which has gone.
    pub fn release(&self, owner: ClientOwner) {
        self.context.subscriptions.forget(owner);
        self.servers().iter().chain(lock(&self.leaving).iter()).for_each(|server| server.release(owner));
    }

    /// Counts a subscription of a client to a resource of a server, for the connections beside the
    /// catalog connection: those that are opened later have it, and
    /// [`apply_subscriptions`](Upstream::apply_subscriptions) makes it on open ones.
    pub fn add_subscription(&self, server: &str, owner: Option<ClientOwner>, era: Era, uri: &str) {
        self.context.subscriptions.add(server, owner, era, uri);
    }

    /// Removes a subscription that was [counted](Self::add_subscription).
    pub fn remove_subscription(&self, server: &str, owner: Option<ClientOwner>, era: Era, uri: &str) {
        self.context.subscriptions.remove(server, owner, era, uri);
    }

    /// Sends a notification of a client to the servers that it has connections of its own to, without
    /// waiting. Must be called inside a runtime.
    pub fn notify_for(&self, owner: ClientOwner, method: &'static str, params: Option<&Raw>) {
        self.servers().iter().for_each(|server| server.notify_for(owner, method, params));
    }

    /// Stops all servers, and waits until their processes are gone.
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

/// Counts a change of what servers are told of their clients, until they were listed again.
struct Declaring(Arc<FleetContext>);

impl Declaring {
    fn new(context: &Arc<FleetContext>) -> Self {
        context.declaring.send_modify(|count| *count += 1);
        Self(Arc::clone(context))
    }
}

impl Drop for Declaring {
    fn drop(&mut self) {
        self.0.declaring.send_modify(|count| *count -= 1);
    }
}

/// Advances the start when it is dropped, so that servers start even if the cache cannot be read.
struct Opening {
    context: Arc<FleetContext>,
    next: StartPhase,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.context.advance(self.next);
    }
}

/// Holds back known tools that are not approved.
async fn review(servers: Vec<Arc<Upstream>>) {
    let _ = tokio::task::spawn_blocking(move || servers.iter().for_each(|server| server.review_known())).await;
}

/// Reads what clients could be asked for in earlier runs, and then the cached lists.
async fn load((clients, manifests): (Option<PathBuf>, Option<PathBuf>), servers: Vec<Arc<Upstream>>, opening: Opening) {
    if let Some(folder) = clients {
        let context = Arc::clone(&opening.context);
        let _ = tokio::task::spawn_blocking(move || context.clients.load(&folder)).await;
    }
    if let Some(folder) = manifests {
        recall(folder, servers, opening).await;
    }
}

/// Reads the cached lists of the servers, and then removes unused files.
async fn recall(folder: PathBuf, servers: Vec<Arc<Upstream>>, opening: Opening) {
    let configs: Vec<ServerConfig> = servers.iter().map(|server| server.config().clone()).collect();
    let read = tokio::task::spawn_blocking(move || manifest::load_manifests(&folder, &configs)).await;
    let Ok(Some((manifests, recalled))) = read else { return };
    let manifests = Arc::new(manifests);
    let used: Vec<manifest::Fingerprint> = recalled.iter().filter_map(|one| one.fingerprint).collect();
    for (server, recalled) in servers.iter().zip(recalled) {
        server.recall(&manifests, recalled);
    }
    // Where tools are held, they are reviewed before the first request; others are only reported.
    let (held, reported) = servers.into_iter().partition(|server| server.holds_unseen());
    review(held).await;
    // One change for all servers, so that observers read them once.
    opening.context.changed();
    drop(opening);
    review(reported).await;
    let _ = tokio::task::spawn_blocking(move || manifests.remove_unused(&used)).await;
}
