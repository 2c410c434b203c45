//! Learning from calls that follow a search.
//!
//! Usage is learned for each caller separately: for a token, for the program that started this one,
//! and, without tokens, for all clients together. The view of a caller is built with a ranker that
//! knows only the usage of this caller.

use std::sync::Arc;

use pegboard_core::Ranker;
use pegboard_discovery::{DialectName, Holder, usage::UsageStep};

use crate::{caller::Caller, setup::Setup};

impl Setup {
    /// Returns the holder of a caller's usage; `None` if its token was removed.
    fn holder(&self, caller: Caller) -> Option<Holder<'_>> {
        match caller {
            Caller::Pipe => Some(Holder::Local),
            Caller::Anybody => Some(Holder::Anybody),
            Caller::Token(holder) => {
                self.token(holder).map(|token| Holder::Token { name: &token.name, secret: token.secret.expose() })
            }
        }
    }

    /// Returns the ranker of a dialect, with the usage of a caller if learning is enabled.
    pub(crate) fn ranker_for(&self, dialect: DialectName, caller: Caller) -> Arc<dyn Ranker> {
        let ranker = (self.rankers)(dialect);
        match (&self.learner, self.holder(caller)) {
            (Some(learner), Some(holder)) => learner.ranker(holder, ranker),
            _ => ranker,
        }
    }

    /// Learns from a successful call that a search led to.
    pub(crate) fn learn(&self, caller: Caller, step: &UsageStep) {
        if let (Some(learner), Some(holder)) = (&self.learner, self.holder(caller)) {
            learner.learn(holder, step);
        }
    }
}
