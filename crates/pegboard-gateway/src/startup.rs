//! How long clients wait for starting servers.

use std::time::Duration;

use tokio::sync::watch;

use crate::setup::Setup;

/// How long a greeting waits for servers, so that it can describe their tools.
pub(crate) const GREETING_WAIT: Duration = Duration::from_secs(2);

/// Whether the startup is over. Afterwards no request waits for a server.
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
    /// Waits until every server is ready or has failed for the first time, at most for the
    /// configured time.
    pub(crate) async fn wait_until_ready(&self, setup: &Setup) {
        self.wait(setup.startup_wait).await;
    }

    /// Waits like [`wait_until_ready`](Self::wait_until_ready), for the shorter time of a greeting.
    pub(crate) async fn wait_until_ready_for_greeting(&self, setup: &Setup) {
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

    /// Ends the startup.
    pub(crate) fn end(&self) {
        self.is_over.send_replace(true);
    }
}

/// The signals of a shutdown to running requests.
#[derive(Debug)]
pub(crate) struct Shutdown {
    /// Whether streams must end.
    pub(crate) stopping: watch::Sender<bool>,
    /// Whether running calls must end.
    pub(crate) cutting: watch::Sender<bool>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { stopping: watch::Sender::new(false), cutting: watch::Sender::new(false) }
    }
}
