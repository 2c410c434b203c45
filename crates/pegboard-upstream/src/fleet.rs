//! All configured servers.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use crate::{
    auth::Logins,
    config::ServerConfig,
    connection::Notice,
    manifest,
    server::{Crew, Gate, Upstream},
};

/// Notifications that wait to be passed on.
const NOTICES: usize = 4096;

/// How a fleet is run.
#[derive(Clone, Debug, Default)]
pub struct FleetOptions {
    /// The command line of a program that runs [`supervise::run`](crate::supervise::run) on
    /// what follows it; without one, a server's own children may outlive it.
    pub supervisor: Vec<OsString>,
    /// The folder in which it is kept what servers offer, so that it is known at the next
    /// start before they run. `None` keeps nothing.
    pub manifests: Option<PathBuf>,
    /// Where logins to remote servers are kept. `None` uses none.
    pub logins: Option<Logins>,
    /// Whether servers that have a manifest wait for [`Fleet::begin`] or for a call, for
    /// whoever has something to do first that a crowd of starting programs would slow down.
    pub is_held: bool,
}

/// The configured servers, started in parallel and kept running.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<Arc<Upstream>>,
    crew: Arc<Crew>,
    tasks: Vec<JoinHandle<()>>,
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
            logins: options.logins,
            changes: watch::Sender::new(0),
            told,
            gate: watch::Sender::new(gate),
        });
        let servers: Vec<Arc<Upstream>> =
            configs.into_iter().map(|config| Upstream::new(config, Arc::clone(&crew))).collect();
        let mut tasks: Vec<JoinHandle<()>> =
            servers.iter().map(|server| tokio::spawn(Arc::clone(server).run())).collect();
        if let Some(folder) = options.manifests {
            let next = if options.is_held { Gate::Recalled } else { Gate::Open };
            let opening = Opening { crew: Arc::clone(&crew), next };
            tasks.push(tokio::spawn(recall(folder, servers.clone(), opening)));
        }
        (Self { servers, crew, tasks }, notices)
    }

    /// The servers in the order of the configuration.
    pub fn servers(&self) -> &[Arc<Upstream>] {
        &self.servers
    }

    /// The server with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.servers.iter().find(|server| server.name() == name)
    }

    /// Grows whenever a server's lists or state change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.crew.changes.subscribe()
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
    /// most `limit`. What was kept of earlier runs counts.
    pub async fn listed(&self, limit: Duration) {
        let all = async {
            for server in &self.servers {
                server.listed().await;
            }
        };
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Waits until every server works, rests or has failed, at most `limit`.
    pub async fn settled(&self, limit: Duration) {
        let all = async {
            for server in &self.servers {
                server.settled().await;
            }
        };
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Ends all servers, and waits until their processes are gone.
    pub async fn stop(&self) {
        self.servers.iter().for_each(|server| server.stop());
        for server in &self.servers {
            server.stopped().await;
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
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

/// Reads what was kept of the servers, and then looks for what nobody needs any more.
async fn recall(folder: PathBuf, servers: Vec<Arc<Upstream>>, opening: Opening) {
    let configs: Vec<ServerConfig> = servers.iter().map(|server| server.config().clone()).collect();
    let read = tokio::task::spawn_blocking(move || manifest::recall(&folder, &configs)).await;
    let Ok(Some((manifests, recalled))) = read else { return };
    let manifests = Arc::new(manifests);
    let used: Vec<manifest::Fingerprint> = recalled.iter().filter_map(|one| one.fingerprint).collect();
    for (server, recalled) in servers.iter().zip(recalled) {
        server.recall(&manifests, recalled);
    }
    // All at once: whoever follows the changes takes in all of them with one look.
    opening.crew.changed();
    drop(opening);
    let _ = tokio::task::spawn_blocking(move || manifests.sweep(&used)).await;
}
