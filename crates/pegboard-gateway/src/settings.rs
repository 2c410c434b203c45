//! The settings of a gateway.

use std::{path::PathBuf, sync::Arc, time::Duration};

use pegboard_core::{
    Ranker, Secret, Selection,
    naming::{Prefixes, Style},
};
use pegboard_discovery::{DialectName, Exposure, Learner, Validation, policy::Policies};
use pegboard_upstream::auth::Logins;

use crate::{activity::ConsoleSettings, limits::CallLimits, offload::OffloadSettings};

/// Creates the ranker of a dialect; the same one for the same dialect, so that its index is shared.
pub type Rankers = Arc<dyn Fn(DialectName) -> Arc<dyn Ranker> + Send + Sync>;

/// The view on the tools for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A family of meta-tools.
    Dialect(DialectName),
    /// Everything, for clients that search by themselves.
    Passthrough,
}

impl Profile {
    /// Returns the name for users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dialect(dialect) => dialect.as_str(),
            Self::Passthrough => "passthrough",
        }
    }

    /// Returns the dialect of clients whose list of tools may change: those with sessions.
    pub fn dialect(self) -> DialectName {
        self.shape().dialect
    }

    /// Returns the dialect of clients whose list of tools must not depend on searches.
    pub fn constant_dialect(self) -> DialectName {
        self.constant_shape().dialect
    }

    /// Returns the shape for clients whose list of tools may change.
    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::Passthrough => Shape::new(DialectName::Bridge, Listing::Everything),
            Self::Dialect(dialect) => Shape::new(dialect, Listing::AsExposed),
        }
    }

    /// Returns the shape for clients whose list of tools must not depend on searches.
    pub(crate) fn constant_shape(self) -> Shape {
        let Shape { dialect, listing, .. } = self.shape();
        let dialect = if dialect.dialect().has_constant_form() { dialect } else { DialectName::Bridge };
        Shape { dialect, listing, is_constant: true }
    }

    /// Returns the profile with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let dialects = DialectName::ALL.iter().map(|dialect| Self::Dialect(*dialect));
        dialects.chain([Self::Passthrough]).find(|profile| profile.as_str() == name)
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::Dialect(DialectName::Bridge)
    }
}

/// The kind of list that a client gets, and its meta-tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) dialect: DialectName,
    pub(crate) listing: Listing,
    /// Whether the list must not change with what was searched for.
    pub(crate) is_constant: bool,
}

impl Shape {
    /// Creates a shape whose list may change.
    pub(crate) fn new(dialect: DialectName, listing: Listing) -> Self {
        Self { dialect, listing, is_constant: false }
    }
}

/// The list of tools for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Listing {
    /// What the exposure says: a few tools and a search, or everything.
    AsExposed,
    /// Everything.
    Everything,
    /// As exposed, and the search answers also where everything is listed.
    Searchable,
}

/// The profile for clients with a certain name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientProfile {
    /// The name that the client gives itself; `*` stands for any text.
    pub client: String,
    /// What it gets.
    pub profile: Profile,
}

/// A token that may use the gateway.
#[derive(Clone, Debug)]
pub struct Token {
    /// What logs call them.
    pub name: String,
    /// What they send as `Authorization: Bearer …`.
    pub secret: Secret,
    /// What of the selection they may see.
    pub selection: Selection,
    /// What they may ask for, if that is not what everybody may.
    pub limits: Option<CallLimits>,
}

/// The settings of a gateway.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// When tools are hidden behind a search.
    pub exposure: Exposure,
    /// What clients get unless their own entry says otherwise.
    pub profile: Profile,
    /// Clients that get something else; the first entry that fits counts.
    pub clients: Vec<ClientProfile>,
    /// The options of the dialects.
    pub discovery: pegboard_discovery::Settings,
    /// Whether every search logs its query, the sizes and the time.
    pub is_search_logged: bool,
    /// Tools that are visible from the start.
    pub pre_discovered: Vec<String>,
    /// What the prompt says there is, instead of what the servers tell.
    pub prompt_categories: Vec<String>,
    /// What may be seen at all.
    pub selection: Selection,
    /// Who may come in; empty lets everybody in.
    pub tokens: Vec<Token>,
    /// What each caller may ask of servers.
    pub limits: CallLimits,
    /// Event streams that each caller may have open at a time.
    pub streams_per_caller: usize,
    /// Bytes of answers that each caller may leave unread.
    pub unread_bytes_per_caller: usize,
    /// How names are made.
    pub names: Style,
    /// When they are prefixed.
    pub prefixes: Prefixes,
    /// What happens to lists and calls on their way through.
    pub policies: Policies,
    /// The folder in which it is kept what servers offer, so that clients can be answered
    /// before they run. `None` keeps nothing.
    pub manifests: Option<PathBuf>,
    /// The folder in which it is kept which tools were approved. `None` approves everything.
    pub pins: Option<PathBuf>,
    /// Where logins to remote servers are kept. `None` uses none.
    pub logins: Option<Logins>,
    /// The folder in which conversations are kept, so that clients find theirs again after a
    /// restart. `None` keeps them in memory alone.
    pub sessions: Option<PathBuf>,
    /// When long results are replaced by references. `None` passes on every result.
    pub offload: Option<OffloadSettings>,
    /// Who learns from what is called after a search. `None` learns nothing.
    pub learner: Option<Arc<dyn Learner>>,
    /// What is done each time that a change of the tools or of the settings has reached every
    /// conversation, on a thread that may wait.
    pub after_change: Option<fn()>,
    /// How long the first list waits for servers that are starting.
    pub startup_wait: Duration,
    /// Maximum number of child processes that start at the same time; `None` is two for each core.
    pub max_starts: Option<usize>,
    /// How long servers without cached lists wait for the first client, if none is known: a client that starts the gateway
    /// says at once what it can be asked for.
    pub first_client_wait: Duration,
    /// Sessions at a time; the one that was used longest ago makes room.
    pub max_sessions: usize,
    /// How long an unused session is kept in memory.
    pub session_idle: Duration,
    /// How long an unused session is kept in its folder.
    pub session_keep: Duration,
    /// Items of a list that are sent at once; 0 sends everything.
    pub page_size: usize,
    /// What the console shows, and for how long it is kept.
    pub console: ConsoleSettings,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            exposure: Exposure::default(),
            profile: Profile::default(),
            clients: Vec::new(),
            discovery: pegboard_discovery::Settings {
                validation: Validation::on(),
                ..pegboard_discovery::Settings::default()
            },
            is_search_logged: false,
            pre_discovered: Vec::new(),
            prompt_categories: Vec::new(),
            selection: Selection::everything(),
            tokens: Vec::new(),
            limits: CallLimits::default(),
            streams_per_caller: 64,
            unread_bytes_per_caller: 128 << 20,
            names: Style::default(),
            prefixes: Prefixes::default(),
            policies: Policies::default(),
            manifests: None,
            pins: None,
            logins: None,
            sessions: None,
            offload: None,
            learner: None,
            after_change: None,
            startup_wait: Duration::from_secs(10),
            max_starts: None,
            first_client_wait: Duration::ZERO,
            max_sessions: 1000,
            session_idle: Duration::from_secs(30 * 60),
            session_keep: Duration::from_secs(24 * 3600),
            page_size: 0,
            console: ConsoleSettings::default(),
        }
    }
}

impl GatewaySettings {
    /// Returns whether both settings are equal, including secrets.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let secrets = |settings: &Self| settings.tokens.iter().map(|token| token.secret.clone()).collect::<Vec<_>>();
        secrets(self) == secrets(other) && format!("{self:?}") == format!("{other:?}")
    }

    /// Returns the profile for a client with this name.
    pub(crate) fn profile_of(&self, client: &str) -> Profile {
        let entry = self.clients.iter().find(|entry| is_like(&entry.client, client));
        entry.map_or(self.profile, |entry| entry.profile)
    }
}

/// Returns whether `name` matches a pattern in which `*` matches any text; case is ignored.
fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_names() {
        let check = |pattern, name, expected| assert_eq!(is_like(pattern, name), expected, "{pattern} {name}");
        check("claude-code", "Claude-Code", true);
        check("claude*", "claude-ai", true);
        check("*code", "vs code", true);
        check("cursor", "cursor-vscode", false);
        check("*", "", true);
        check("*code", "code and code", true);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "a-c-b", false);
    }
}
