//! Learning from what is called after a search.
//!
//! Every caller has habits of its own: the holder of a token, the program that started this one,
//! and, where no token is asked for, all who come in together. What a caller sees is made for it
//! alone, with a ranker that knows its habits and nobody else's.

use std::sync::Arc;

use pegboard_core::Ranker;
use pegboard_discovery::{DialectName, Holder, usage::Step};

use crate::{caller::Caller, setup::Setup};

impl Setup {
    /// Whose habits a caller has; nobody's if its token is gone.
    fn holder(&self, caller: Caller) -> Option<Holder<'_>> {
        match caller {
            Caller::Pipe => Some(Holder::Local),
            Caller::Anybody => Some(Holder::Anybody),
            Caller::Token(holder) => {
                self.token(holder).map(|token| Holder::Token { name: &token.name, secret: token.secret.expose() })
            }
        }
    }

    /// The ranker of a dialect, with the habits of a caller if they are learned.
    pub(crate) fn ranker_for(&self, dialect: DialectName, caller: Caller) -> Arc<dyn Ranker> {
        let ranker = (self.rankers)(dialect);
        match (&self.learner, self.holder(caller)) {
            (Some(learner), Some(holder)) => learner.ranker(holder, ranker),
            _ => ranker,
        }
    }

    /// Learns from a call that a search has led to and that has done its work.
    pub(crate) fn learn(&self, caller: Caller, step: &Step) {
        if let (Some(learner), Some(holder)) = (&self.learner, self.holder(caller)) {
            learner.learn(holder, step);
        }
    }
}
