//! The client on whose behalf a call is made, and the connection that its calls use.

use pegboard_mcp::{era::Era, json::Raw};
use tokio::sync::watch;

use crate::{capabilities::Capabilities, connection::CallEvent, queue};

/// The owner of connections, as the program that accepts clients knows it. It must come from what
/// was authenticated, never from what a client says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientOwner {
    /// A session, or a client on a pipe, by a number that no other has.
    Session(u64),
    /// The holder of a token, by the token's number.
    Caller(u64),
}

/// What changes while a client is there.
#[derive(Clone, Debug, Default)]
pub struct ClientLife {
    /// The log level that it has set.
    pub log_level: Option<String>,
    /// How often its roots have changed.
    pub roots_changes: u64,
    /// Whether it has gone, with its connections.
    pub has_ended: bool,
}

/// The client on whose behalf a call is made.
#[derive(Clone, Debug)]
pub struct CallClient {
    /// The era that the client speaks; a connection speaks it too where the server can.
    pub era: Era,
    /// The owner of the client's connections. An anonymous client has none, and gets a connection
    /// for one call where it needs one of its own.
    pub owner: Option<ClientOwner>,
    /// The party whose share of the connections it uses; `None` if parties are not told apart.
    pub party: Option<u64>,
    /// The capabilities that the client has declared, as JSON.
    pub capabilities: Raw,
    /// The log level that the client has set.
    pub log_level: Option<String>,
    /// What changes while the client is there, if that is known: its connections follow it.
    pub life: Option<watch::Receiver<ClientLife>>,
    /// Events of this call, for what the server asks while the connection is opened.
    pub events: Option<queue::Sender<CallEvent>>,
    /// Events of the client between calls, where it can be reached then.
    pub inbox: Option<queue::Sender<CallEvent>>,
}

impl CallClient {
    /// Returns the key of a connection that belongs to this client alone.
    pub(super) fn own_key(&self) -> ConnectionKey {
        let client = |owner| ConnectionKey::Client(ClientId::new(owner, &self.capabilities));
        self.owner.map_or(ConnectionKey::Lease, client)
    }

    /// Returns whether a server can ask the client by the result of a call.
    pub(super) fn is_asked_by_result(&self) -> bool {
        self.era == Era::Modern && Capabilities::of(&self.capabilities).questions() != Capabilities::default()
    }
}

/// The connection that updates of resources come on. A client gets those of one: what its calls
/// change can be known to the connection of its calls alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UpdateSource {
    /// The connection that the server's lists come from.
    #[default]
    Catalog,
    /// The connection that clients of this era share, where the catalog connection speaks the other.
    Shared(Era),
    /// A client's own connection.
    Client(ClientOwner),
}

/// A client with what it has declared: a server learns capabilities once per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientId {
    pub(super) owner: ClientOwner,
    capabilities: [u8; 32],
}

impl ClientId {
    pub(super) fn new(owner: ClientOwner, capabilities: &Raw) -> Self {
        Self { owner, capabilities: pegboard_state::digest(capabilities.get().as_bytes()) }
    }
}

/// A connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ConnectionKey {
    /// The connection that the server's lists come from.
    Catalog,
    /// The connection that clients of this era share, where the catalog connection speaks the other.
    Shared(Era),
    /// The connection of one client.
    Client(ClientId),
    /// A connection for one call.
    Lease,
}

impl ConnectionKey {
    /// Returns whether only one client uses the connection.
    pub(super) fn is_own(self) -> bool {
        matches!(self, Self::Client(_) | Self::Lease)
    }

    /// Returns whether the connection belongs to this owner.
    pub(super) fn belongs_to(self, owner: ClientOwner) -> bool {
        self.source() == Some(UpdateSource::Client(owner))
    }

    /// Returns what the connection is as a source of updates; a lease is none.
    pub(super) fn source(self) -> Option<UpdateSource> {
        match self {
            Self::Catalog => Some(UpdateSource::Catalog),
            Self::Shared(era) => Some(UpdateSource::Shared(era)),
            Self::Client(id) => Some(UpdateSource::Client(id.owner)),
            Self::Lease => None,
        }
    }

    /// Returns the kind of the connection, for logs.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Shared(_) => "shared",
            Self::Client(_) => "own",
            Self::Lease => "lease",
        }
    }
}
