//! What the gateway is told to do, and changes of it while it runs.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use pegboard_http::Principal;
use pegboard_upstream::{
    Reconfigured,
    config::{Secret, ServerConfig},
};

use crate::{
    exchange::{Caller, Viewer},
    gateway::{Gateway, Rankers},
    lock,
    settings::{GatewaySettings, Token},
};

/// How long servers may finish their calls when their configuration has changed.
const GRACE: Duration = Duration::from_secs(10);

/// The settings of one moment. A change makes another one.
pub(crate) struct Setup {
    /// Grows with every change.
    pub(crate) number: u64,
    settings: GatewaySettings,
    /// Of each token, whose it is.
    holders: Vec<Principal>,
    pub(crate) rankers: Rankers,
}

impl Deref for Setup {
    type Target = GatewaySettings;

    fn deref(&self) -> &GatewaySettings {
        &self.settings
    }
}

impl Setup {
    /// The token of a caller, if that is still one of ours.
    pub(crate) fn token(&self, holder: Principal) -> Option<&Token> {
        let at = self.holders.iter().position(|one| *one == holder)?;
        self.settings.tokens.get(at)
    }
}

/// The current setup, and who the holders of tokens are.
pub(crate) struct Setups {
    current: RwLock<Arc<Setup>>,
    /// Every secret that there ever was, so that a holder keeps its number for as long as we
    /// run and none is given to somebody else.
    known: Mutex<Vec<Secret>>,
    /// Why the last change was not taken over.
    refused: Mutex<Option<String>>,
}

impl Setups {
    pub(crate) fn new(settings: GatewaySettings, rankers: Rankers) -> Self {
        let mut known = Vec::new();
        let holders = number(&settings.tokens, &mut known);
        let first = Setup { number: 0, settings, holders, rankers };
        Self { current: RwLock::new(Arc::new(first)), known: Mutex::new(known), refused: Mutex::default() }
    }

    pub(crate) fn current(&self) -> Arc<Setup> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Goes over to other settings; whether they are any different.
    fn replace(&self, settings: GatewaySettings, rankers: Option<Rankers>) -> bool {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if rankers.is_none() && current.settings.is_same(&settings) {
            return false;
        }
        let holders = number(&settings.tokens, &mut lock(&self.known));
        let rankers = rankers.unwrap_or_else(|| Arc::clone(&current.rankers));
        *current = Arc::new(Setup { number: current.number + 1, settings, holders, rankers });
        true
    }
}

/// The numbers of the tokens' holders.
fn number(tokens: &[Token], known: &mut Vec<Secret>) -> Vec<Principal> {
    let number = |token: &Token| {
        let at = known.iter().position(|secret| *secret == token.secret).unwrap_or_else(|| {
            known.push(token.secret.clone());
            known.len() - 1
        });
        Principal(at)
    };
    tokens.iter().map(number).collect()
}

/// The secrets of the tokens that a gateway starts with, and who it takes their holders for.
pub fn holders(tokens: &[Token]) -> Vec<(Principal, String)> {
    let secrets = tokens.iter().map(|token| token.secret.expose().to_owned());
    number(tokens, &mut Vec::new()).into_iter().zip(secrets).collect()
}

/// What a change of the configuration did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// What happened to the servers.
    pub servers: Reconfigured,
    /// Whether something else is different.
    pub has_settings: bool,
}

impl Change {
    /// Whether everything is as it was.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && !self.has_settings
    }
}

impl Gateway {
    pub(crate) fn setup(&self) -> Arc<Setup> {
        self.setups.current()
    }

    /// Goes over to another configuration. Conversations go on: they are told where their
    /// lists change, and only those whose token is gone end. Servers that are as they were
    /// are not disturbed. `rankers` are those that are in use unless others are given.
    pub async fn reconfigure(
        &self,
        servers: Vec<ServerConfig>,
        settings: GatewaySettings,
        rankers: Option<Rankers>,
    ) -> Change {
        self.fleet.hide(settings.tokens.iter().map(|token| &token.secret));
        let has_settings = self.setups.replace(settings, rankers);
        *lock(&self.setups.refused) = None;
        // It tells of a change in any case, whereupon the settings are looked at too.
        Change { servers: self.fleet.reconfigure(servers, GRACE).await, has_settings }
    }

    /// Starts one server again. It may finish the calls that it is busy with, and later ones
    /// wait for it. Whether there is such a server.
    pub async fn restart_server(&self, name: &str) -> bool {
        self.fleet.restart(name, GRACE).await
    }

    /// Takes note that a new configuration was not taken over, and why.
    pub fn refuse_configuration(&self, reason: String) {
        *lock(&self.setups.refused) = Some(reason);
    }

    /// Why the last configuration was not taken over, if it was not.
    pub fn refused_configuration(&self) -> Option<String> {
        lock(&self.setups.refused).clone()
    }

    /// The tokens that open the door, and whose they are.
    pub fn tokens(&self) -> Vec<(Principal, String)> {
        let setup = self.setup();
        let secrets = setup.tokens.iter().map(|token| token.secret.expose().to_owned());
        setup.holders.iter().copied().zip(secrets).collect()
    }

    /// What a caller may see, unless it has no business here any more.
    pub(crate) fn viewer(&self, caller: Caller) -> Option<Viewer> {
        let setup = self.setup();
        let selection = match caller {
            Caller::Token(holder) => setup.selection.narrowed_to(setup.token(holder)?.selection.clone()),
            Caller::Anybody if !setup.tokens.is_empty() => return None,
            Caller::Anybody => setup.selection.clone(),
            Caller::Pipe => return Some(self.pipe_viewer()),
        };
        Some(Viewer { caller, selection: Arc::new(selection), setup: setup.number })
    }

    /// What whoever started us may see.
    pub(crate) fn pipe_viewer(&self) -> Viewer {
        let setup = self.setup();
        Viewer { caller: Caller::Pipe, selection: Arc::new(setup.selection.clone()), setup: setup.number }
    }
}

#[cfg(test)]
mod tests {
    use pegboard_core::Selection;

    use super::*;

    #[test]
    fn a_holder_keeps_its_number() {
        let token = |secret: &str| Token {
            name: String::new(),
            secret: Secret::new(secret),
            selection: Selection::everything(),
            limits: None,
        };
        let mut known = Vec::new();
        let mut check = |secrets: &[&str], expected: &[usize]| {
            let tokens: Vec<Token> = secrets.iter().map(|secret| token(secret)).collect();
            let expected: Vec<Principal> = expected.iter().copied().map(Principal).collect();
            assert_eq!(number(&tokens, &mut known), expected, "{secrets:?}");
        };
        check(&["a", "b"], &[0, 1]);
        check(&["b"], &[1]);
        check(&["c", "b", "a"], &[2, 1, 0]);
        check(&[], &[]);
        check(&["d", "a"], &[3, 0]);
    }
}
