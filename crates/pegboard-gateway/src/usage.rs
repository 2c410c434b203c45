//! Learning from what is called after a search.
//!
//! Every caller has habits of its own: the holder of a token, whoever started us, and, where
//! no token is asked for, all who come in together. What a caller sees is made for it alone,
//! with a ranker that knows its habits and nobody else's.

use std::{sync::Arc, time::Duration};

use pegboard_core::Ranker;
use pegboard_discovery::{Holder, usage::Lead};

use crate::{
    exchange::{Caller, Exchange},
    gateway::Gateway,
    setup::Setup,
};

/// How long the end waits for what is still to be written.
const LAST_LESSONS: Duration = Duration::from_secs(2);

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
}

impl Gateway {
    /// `ranker` with the habits of a caller, if anybody learns them.
    pub(crate) fn with_habits(&self, ranker: Arc<dyn Ranker>, caller: Caller) -> Arc<dyn Ranker> {
        let setup = self.setup();
        match (&setup.learner, setup.holder(caller)) {
            (Some(learner), Some(holder)) => learner.ranker(holder, ranker),
            _ => ranker,
        }
    }

    /// Takes note that a call, which a search may have led to, has done its work.
    pub(crate) fn learn(&self, exchange: &Exchange, lead: &Lead) {
        let setup = self.setup();
        let (Some(learner), Some(holder)) = (&setup.learner, setup.holder(exchange.viewer.caller)) else { return };
        if let Some(mut step) = self.with_tools(exchange, |tools| tools.arrive(lead)) {
            step.query = self.fleet.without_secrets(&step.query);
            learner.learn(holder, &step);
        }
    }

    /// Brings to the disk what was learned, as far as that goes quickly.
    pub async fn finish_learning(&self) {
        if let Some(learner) = self.setup().learner.clone() {
            let finished = tokio::task::spawn_blocking(move || learner.finish());
            let _ = tokio::time::timeout(LAST_LESSONS, finished).await;
        }
    }
}
