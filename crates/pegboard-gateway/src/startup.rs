//! How long clients wait for servers that are starting.

use std::time::Duration;

use tokio::sync::watch;

use crate::setup::Setup;

/// How long a greeting waits for servers, so that it can say what there is.
const GREETING_WAIT: Duration = Duration::from_secs(2);

/// Whether the servers have had their time to start. Later on nobody waits for one.
#[derive(Debug)]
pub(crate) struct Startup {
    is_over: watch::Sender<bool>,
}

impl Default for Startup {
    fn default() -> Self {
        Self { is_over: watch::Sender::new(false) }
    }
}

impl Startup {
    /// Waits until every server works or has failed for the first time, at most as long as the
    /// settings say.
    pub(crate) async fn ready(&self, setup: &Setup) {
        self.wait(setup.startup_wait).await;
    }

    /// [`ready`](Self::ready) for a greeting, which must not take long.
    pub(crate) async fn almost_ready(&self, setup: &Setup) {
        self.wait(setup.startup_wait.min(GREETING_WAIT)).await;
    }

    async fn wait(&self, limit: Duration) {
        if !self.is_over() {
            let _ = tokio::time::timeout(limit, self.is_over.subscribe().wait_for(|is_over| *is_over)).await;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    /// From now on nobody waits.
    pub(crate) fn end(&self) {
        self.is_over.send_replace(true);
    }
}

/// What the end of the gateway means for requests that are still answered.
#[derive(Debug)]
pub(crate) struct Shutdown {
    /// Whether streams without end are to end.
    pub(crate) stopping: watch::Sender<bool>,
    /// Whether calls that are still running are to end.
    pub(crate) cutting: watch::Sender<bool>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { stopping: watch::Sender::new(false), cutting: watch::Sender::new(false) }
    }
}
