//! The current settings of a gateway, and changes of them while it runs.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use pegboard_core::Secret;
use pegboard_http::Principal;
use pegboard_upstream::Reconfigured;

use crate::{
    caller::{Caller, Viewer},
    limits::CallLimits,
    lock,
    settings::{GatewaySettings, Rankers, Token},
};

/// How long servers may finish their calls when their configuration has changed.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// The settings at one moment. A change creates another one.
pub(crate) struct Setup {
    /// Grows with every change.
    pub(crate) number: u64,
    settings: GatewaySettings,
    /// Of each token, whose it is.
    holders: Vec<Principal>,
    pub(crate) rankers: Rankers,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Deref for Setup {
    type Target = GatewaySettings;

    fn deref(&self) -> &GatewaySettings {
        &self.settings
    }
}

impl Setup {
    /// Returns the token of a caller, if it is still configured.
    pub(crate) fn token(&self, holder: Principal) -> Option<&Token> {
        let at = self.holders.iter().position(|one| *one == holder)?;
        self.settings.tokens.get(at)
    }

    /// Returns the accepted tokens and their principals.
    pub(crate) fn holders(&self) -> Vec<(Principal, String)> {
        let secrets = self.tokens.iter().map(|token| token.secret.expose().to_owned());
        self.holders.iter().copied().zip(secrets).collect()
    }

    /// Returns the holder of the token with this name.
    pub(crate) fn holder_named(&self, name: &str) -> Option<Principal> {
        let at = self.settings.tokens.iter().position(|token| token.name == name)?;
        self.holders.get(at).copied()
    }

    /// Returns the limits of a caller.
    pub(crate) fn limits_of(&self, caller: Caller) -> CallLimits {
        let own = match caller {
            Caller::Token(holder) => self.token(holder).and_then(|token| token.limits),
            Caller::Anybody | Caller::Pipe => None,
        };
        own.unwrap_or(self.limits)
    }

    /// Returns what a caller may see, unless its token was removed.
    pub(crate) fn viewer(&self, caller: Caller) -> Option<Viewer> {
        let selection = match caller {
            Caller::Token(holder) => self.selection.narrowed_to(self.token(holder)?.selection.clone()),
            Caller::Anybody if !self.tokens.is_empty() => return None,
            Caller::Anybody | Caller::Pipe => self.selection.clone(),
        };
        Some(Viewer { caller, selection: Arc::new(selection), setup: self.number })
    }

    /// Returns the name of a token for logs.
    pub(crate) fn token_name(&self, caller: Caller) -> &str {
        match caller {
            Caller::Token(holder) => self.token(holder).map_or("", |token| &token.name),
            Caller::Anybody | Caller::Pipe => "",
        }
    }
}

/// The current setup, and the principals of all tokens so far.
#[derive(Debug)]
pub(crate) struct Setups {
    current: RwLock<Arc<Setup>>,
    /// Every secret that there ever was, so that a holder keeps its number for as long as we run
    /// and none is reused for another token.
    known: Mutex<Vec<Secret>>,
    /// Why the last change was not taken over.
    refused: Mutex<Option<String>>,
}

impl Setups {
    pub(crate) fn new(settings: GatewaySettings, rankers: Rankers) -> Self {
        let mut known = Vec::new();
        let holders = assign_principals(&settings.tokens, &mut known);
        let first = Setup { number: 0, settings, holders, rankers };
        Self { current: RwLock::new(Arc::new(first)), known: Mutex::new(known), refused: Mutex::default() }
    }

    pub(crate) fn current(&self) -> Arc<Setup> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records that new settings were rejected, and why; `None` if they were applied.
    pub(crate) fn record_rejection(&self, reason: Option<String>) {
        *lock(&self.refused) = reason;
    }

    /// Returns the reason why the last settings were rejected, if they were.
    pub(crate) fn rejection(&self) -> Option<String> {
        lock(&self.refused).clone()
    }

    /// Returns what a caller may see now, unless its token was removed.
    pub(crate) fn viewer(&self, caller: Caller) -> Option<Viewer> {
        self.current().viewer(caller)
    }

    /// Switches to other settings; `false` if they are equal.
    pub(crate) fn replace(&self, settings: GatewaySettings, rankers: Option<Rankers>) -> bool {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if rankers.is_none() && current.settings.is_same(&settings) {
            return false;
        }
        let holders = assign_principals(&settings.tokens, &mut lock(&self.known));
        let rankers = rankers.unwrap_or_else(|| Arc::clone(&current.rankers));
        *current = Arc::new(Setup { number: current.number + 1, settings, holders, rankers });
        true
    }
}

/// Returns the principals of the tokens.
fn assign_principals(tokens: &[Token], known: &mut Vec<Secret>) -> Vec<Principal> {
    let number = |token: &Token| {
        let at = known.iter().position(|secret| *secret == token.secret).unwrap_or_else(|| {
            known.push(token.secret.clone());
            known.len() - 1
        });
        Principal(at)
    };
    tokens.iter().map(number).collect()
}

/// Returns the tokens that a gateway starts with and their principals.
pub fn holders(tokens: &[Token]) -> Vec<(Principal, String)> {
    let secrets = tokens.iter().map(|token| token.secret.expose().to_owned());
    assign_principals(tokens, &mut Vec::new()).into_iter().zip(secrets).collect()
}

/// The effect of a change of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// What happened to the servers.
    pub servers: Reconfigured,
    /// Whether something else is different.
    pub has_settings: bool,
}

impl Change {
    /// Returns whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && !self.has_settings
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
            assert_eq!(assign_principals(&tokens, &mut known), expected, "{secrets:?}");
        };
        check(&["a", "b"], &[0, 1]);
        check(&["b"], &[1]);
        check(&["c", "b", "a"], &[2, 1, 0]);
        check(&[], &[]);
        check(&["d", "a"], &[3, 0]);
    }
}
