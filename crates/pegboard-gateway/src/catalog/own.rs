//! Directories of clients whose own connections have tools that no other connection has.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use pegboard_core::Catalog;
use pegboard_mcp::json::Raw;
use pegboard_upstream::{ClientOwner, OwnTools};

use super::{directory::Directory, views::ToolView};
use crate::{
    caller::Viewer,
    exchange::{Exchange, declared_capabilities},
    lock,
    sessions::ClientSession,
    settings::Shape,
    setup::Setup,
};

/// Maximum number of clients whose directories are kept; they are built again after that.
const MAX_KEPT: usize = 1000;

/// A client, as far as its connections and its view matter.
#[derive(Debug)]
pub(crate) struct ClientRef<'a> {
    /// The owner of its connections, if it has connections of its own.
    owner: Option<ClientOwner>,
    capabilities: &'a Raw,
    pub(super) viewer: Viewer,
}

impl<'a> ClientRef<'a> {
    /// Returns the client of a request.
    pub(crate) fn of_exchange(exchange: &'a Exchange) -> Self {
        let Exchange { capabilities, viewer, .. } = exchange;
        Self { owner: exchange.client_owner(), capabilities, viewer: viewer.clone() }
    }

    /// Returns the client of a session, with the settings of `viewer`.
    pub(crate) fn of_session(session: &'a ClientSession, viewer: Viewer) -> Self {
        let owner = session.is_lasting.then_some(ClientOwner::Session(session.owner));
        Self { owner, capabilities: &session.capabilities, viewer }
    }

    /// Returns the tools that only the connections of this client have, by the position of their server.
    fn own_tools(&self, directory: &Directory) -> OwnLists {
        let Some(owner) = self.owner else { return Vec::new() };
        let declared = || declared_capabilities(self.capabilities);
        let servers = directory.servers.iter().enumerate();
        servers.filter_map(|(at, server)| Some((at, server.own_tools(owner, declared)?))).collect()
    }
}

type OwnLists = Vec<(usize, Arc<OwnTools>)>;

/// The directory of one client, and its views of it.
#[derive(Debug)]
struct OwnDirectory {
    base: Arc<Directory>,
    lists: OwnLists,
    setup: u64,
    directory: Arc<Directory>,
    /// By the number of the setup that the viewer was made with, which can be an older one.
    views: HashMap<(u64, Shape), Arc<ToolView>>,
}

impl OwnDirectory {
    fn new(base: &Arc<Directory>, lists: OwnLists, setup: &Setup) -> Self {
        let directory = Arc::new(base.with_own_tools(&lists, setup));
        Self { base: Arc::clone(base), lists, setup: setup.number, directory, views: HashMap::new() }
    }

    fn is_current(&self, base: &Arc<Directory>, lists: &OwnLists, setup: &Setup) -> bool {
        Arc::ptr_eq(&self.base, base)
            && self.setup == setup.number
            && self
                .lists
                .iter()
                .map(|(at, own)| (at, Arc::as_ptr(own)))
                .eq(lists.iter().map(|(at, own)| (at, Arc::as_ptr(own))))
    }
}

/// The directories of clients with tools of their own.
#[derive(Debug, Default)]
pub(super) struct OwnDirectories(Mutex<HashMap<ClientOwner, OwnDirectory>>);

impl OwnDirectories {
    /// Returns the directory of a client; `None` if it sees what all see.
    pub(super) fn directory(
        &self,
        base: &Arc<Directory>,
        setup: &Setup,
        client: &ClientRef<'_>,
    ) -> Option<Arc<Directory>> {
        self.with(base, setup, client, |own| Arc::clone(&own.directory))
    }

    /// Returns the view of a client; `None` if it sees what all see.
    pub(super) fn view(
        &self,
        base: &Arc<Directory>,
        setup: &Setup,
        client: &ClientRef<'_>,
        shape: Shape,
    ) -> Option<Arc<ToolView>> {
        self.with(base, setup, client, |own| {
            let catalog = || own.directory.catalog.clone().unwrap_or_else(Catalog::empty);
            let made = || Arc::new(ToolView::new(catalog(), setup, &client.viewer, shape));
            Arc::clone(own.views.entry((client.viewer.setup, shape)).or_insert_with(made))
        })
    }

    fn with<T>(
        &self,
        base: &Arc<Directory>,
        setup: &Setup,
        client: &ClientRef<'_>,
        work: impl FnOnce(&mut OwnDirectory) -> T,
    ) -> Option<T> {
        let (owner, lists) = (client.owner?, client.own_tools(base));
        if lists.is_empty() {
            return None;
        }
        let mut kept = lock(&self.0);
        if !kept.get(&owner).is_some_and(|own| own.is_current(base, &lists, setup)) {
            if kept.len() >= MAX_KEPT {
                kept.clear();
            }
            kept.insert(owner, OwnDirectory::new(base, lists, setup));
        }
        kept.get_mut(&owner).map(work)
    }

    /// Removes the directory of a client that has gone.
    pub(super) fn forget(&self, owner: ClientOwner) {
        lock(&self.0).remove(&owner);
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}
