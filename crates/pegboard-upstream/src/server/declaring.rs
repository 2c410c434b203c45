//! What the connections that clients share declare, and what follows when a client can be asked for more.
//!
//! A modern server learns of it with the next request. A legacy server learns capabilities once for each connection: the
//! catalog connection is opened again if no client has used it yet. Otherwise it stays, since the server may keep the
//! state of clients there, and clients that can be asked for more than it declares get connections of their own until the
//! server's next start.

use std::{collections::BTreeSet, sync::Arc};

use pegboard_core::locks::lock;
use pegboard_mcp::era::Era;

use super::{CallClient, Upstream, client::ConnectionKey};
use crate::{
    capabilities::Capabilities, config::ConnectionMode, connection::Link, handshake::Hello, listing::ListKind,
};

/// The use of a catalog connection by clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No client has used it.
    #[default]
    Unused,
    /// A client has used it; the server may keep its state.
    Used,
    /// It is being opened again.
    Closing,
}

/// What the catalog connection declares, and whether clients have used it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CatalogUse {
    declared: Capabilities,
    stage: Stage,
}

/// What the shared connections of a server declare at most: a server can fail because of what is declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DeclaredLimit {
    /// Everything is declared.
    #[default]
    None,
    /// After a failed start, it is tried whether the server starts with these.
    Trying(Capabilities),
    /// The server has started with these, and not with more.
    Kept(Capabilities),
}

impl DeclaredLimit {
    /// Returns the limit after a failed start with `declared`, where the server was listed with `listed` before.
    fn after_failure(self, declared: Capabilities, listed: Option<Capabilities>) -> Self {
        let known = listed.unwrap_or_default().intersection(declared);
        let less = if known == declared { Capabilities::default() } else { known };
        match self {
            Self::None if less != declared => Self::Trying(less),
            // It fails with these, too.
            Self::None | Self::Trying(_) => Self::None,
            Self::Kept(kept) => Self::Kept(kept),
        }
    }
}

impl CatalogUse {
    /// Begins the use by a call; returns whether the call can use the connection. One that no client has used is opened
    /// again where it declares less than `wanted`.
    fn begin(&mut self, wanted: Capabilities) -> bool {
        match self.stage {
            Stage::Unused if self.declared.covers(wanted) => self.stage = Stage::Used,
            Stage::Used => {}
            Stage::Unused | Stage::Closing => return false,
        }
        true
    }

    /// Begins to close a connection that no client has used; returns whether it is one.
    fn close(&mut self) -> bool {
        let is_unused = self.stage == Stage::Unused;
        if is_unused {
            self.stage = Stage::Closing;
        }
        is_unused
    }
}

impl Upstream {
    /// Returns what the connections that clients share are to declare.
    pub(super) fn shared_capabilities(&self) -> Capabilities {
        let clients = match *lock(&self.declared_limit) {
            DeclaredLimit::None => self.context.clients.current(),
            DeclaredLimit::Trying(limit) | DeclaredLimit::Kept(limit) => {
                self.context.clients.current().intersection(limit)
            }
        };
        match self.config.connections.mode {
            // The answer would be an empty list for every client.
            ConnectionMode::Shared => clients.without_roots(),
            // Of one that asks, each client gets a connection of its own.
            ConnectionMode::Auto | ConnectionMode::Own => clients,
        }
    }

    /// Records a new catalog connection.
    pub(super) fn begin_catalog_use(&self, declared: Capabilities) {
        *lock(&self.catalog_use) = CatalogUse { declared, stage: Stage::Unused };
        let mut limit = lock(&self.declared_limit);
        if let DeclaredLimit::Trying(tried) = *limit {
            let accepted = tried.names().collect::<Vec<_>>().join(", ");
            tracing::warn!(server = self.name(), accepted, "client capabilities rejected by the server");
            *limit = DeclaredLimit::Kept(tried);
        }
    }

    /// Records that the catalog connection has ended.
    pub(super) fn end_catalog_use(&self) {
        *lock(&self.catalog_use) = CatalogUse::default();
    }

    /// Records a start that failed; returns whether it is to be tried with fewer capabilities at once.
    pub(super) fn limit_declared(&self, declared: Capabilities) -> bool {
        let listed = *lock(&self.listed_capabilities);
        let mut limit = lock(&self.declared_limit);
        *limit = limit.after_failure(declared, listed);
        matches!(*limit, DeclaredLimit::Trying(_))
    }

    /// Records which capabilities of clients the known lists take into account.
    pub(super) fn set_listed_capabilities(&self, declared: Option<Capabilities>) {
        *lock(&self.listed_capabilities) = declared;
        self.applied_capabilities.send_replace(declared);
    }

    /// Records that a call uses the catalog connection; returns `false` if the connection is opened again first.
    pub(super) fn use_catalog(&self, hello: &Hello) -> bool {
        let wanted = match hello.era {
            Era::Legacy => self.shared_capabilities(),
            // Each request declares its own.
            Era::Modern => Capabilities::default(),
        };
        lock(&self.catalog_use).begin(wanted)
    }

    /// Returns whether a client that uses a shared legacy connection can be asked for more than that declares, or has got
    /// a connection of its own for that reason.
    pub(super) fn is_underdeclared_for(&self, client: &CallClient, catalog: Era) -> bool {
        let own = client.own_key();
        if own != ConnectionKey::Lease && self.pool.counts().1 > 0 && !self.pool.open(|key| key == own).is_empty() {
            return true;
        }
        let declared = match catalog {
            Era::Legacy => {
                let CatalogUse { declared, stage } = *lock(&self.catalog_use);
                (stage == Stage::Used).then_some(declared)
            }
            Era::Modern => self.pool.declared_on(ConnectionKey::Shared(Era::Legacy)),
        };
        // One that is to be opened will declare everything.
        let Some(declared) = declared else { return false };
        let is_less = |capabilities: Capabilities| !declared.covers(capabilities.questions());
        is_less(self.shared_capabilities()) && is_less(Capabilities::of(&client.capabilities))
    }

    /// Follows what clients can be asked for, and returns when the catalog connection must be opened again for that.
    pub(super) async fn wait_until_outgrown(&self, link: &Arc<Link>, hello: &Hello) {
        let mut known = self.context.clients.subscribe();
        loop {
            known.mark_unchanged();
            let wanted = self.shared_capabilities();
            let is_covered = lock(&self.catalog_use).declared.covers(wanted);
            match hello.era {
                _ if is_covered => {}
                Era::Modern => self.declare_more(link, hello, wanted).await,
                Era::Legacy if lock(&self.catalog_use).close() => return,
                Era::Legacy => {
                    let capabilities = wanted.names().collect::<Vec<_>>().join(", ");
                    tracing::debug!(
                        server = self.name(),
                        capabilities,
                        "client capabilities not declared before the next start"
                    );
                }
            }
            self.applied_capabilities.send_replace(Some(wanted));
            if known.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Declares more to a modern server, and lists it again.
    async fn declare_more(&self, link: &Arc<Link>, hello: &Hello, wanted: Capabilities) {
        link.set_capabilities(wanted.to_raw());
        lock(&self.catalog_use).declared = wanted;
        let kinds = ListKind::ALL.into_iter().filter(|kind| hello.capabilities.has(kind.capability()));
        if self.fetch_lists(link, kinds.collect::<BTreeSet<_>>()).await {
            *lock(&self.listed_capabilities) = Some(wanted);
        }
        self.mark_lists_changed();
        self.context.changed();
    }

    /// Waits until clients can be asked for more than when the known lists were made.
    pub(super) async fn wait_until_lists_outgrown(&self) {
        let mut known = self.context.clients.subscribe();
        loop {
            known.mark_unchanged();
            let applied = *self.applied_capabilities.borrow();
            if applied.is_none_or(|applied| !applied.covers(self.shared_capabilities())) {
                return;
            }
            if known.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Records that the lists stay as they are, whatever clients can be asked for.
    pub(super) fn give_up_on_capabilities(&self) {
        self.applied_capabilities.send_replace(Some(self.shared_capabilities()));
    }

    /// Waits until the lists are those for what clients can be asked for, or are not expected to be.
    pub(crate) async fn wait_until_declared(&self) {
        let (mut applied, mut state) = (self.applied_capabilities.subscribe(), self.state.subscribe());
        loop {
            let is_applied = applied.borrow_and_update().is_some_and(|done| done.covers(self.shared_capabilities()));
            if is_applied || state.borrow_and_update().is_out_of_order() {
                return;
            }
            tokio::select! {
                _ = applied.changed() => {}
                _ = state.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
