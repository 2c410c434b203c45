//! All configured servers.

use std::{ffi::OsString, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use crate::{config::ServerConfig, connection::Notice, server::Upstream};

/// Notifications that wait to be passed on.
const NOTICES: usize = 4096;

/// The configured servers, started in parallel and kept running.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<Arc<Upstream>>,
    changes: watch::Receiver<u64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Fleet {
    /// Starts the servers. `supervisor` is the command line of a program that runs
    /// [`supervise::run`](crate::supervise::run) on what follows it; without one, a server's
    /// own children may outlive it.
    ///
    /// Also returned: what servers say of their own accord, with the server's name. Changes
    /// of lists are not among it; they are seen through [`changes`](Self::changes).
    pub fn start(configs: Vec<ServerConfig>, supervisor: Vec<OsString>) -> (Self, mpsc::Receiver<(Arc<str>, Notice)>) {
        let (told, notices) = mpsc::channel(NOTICES);
        let (changed, changes) = watch::channel(0);
        let (changed, supervisor): (_, Arc<[OsString]>) = (Arc::new(changed), supervisor.into());
        let new = |config| Upstream::new(config, Arc::clone(&supervisor), Arc::clone(&changed), told.clone());
        let servers: Vec<Arc<Upstream>> = configs.into_iter().map(new).collect();
        let tasks = servers.iter().map(|server| tokio::spawn(Arc::clone(server).run())).collect();
        (Self { servers, changes, tasks }, notices)
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
        self.changes.clone()
    }

    /// Waits until every server works or has failed, at most `limit`.
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
