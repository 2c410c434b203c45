//! Logins to remote servers that the user begins in the console.

use std::{
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use pegboard_gateway::{
    Gateway,
    control::host::{HostError, HostErrorKind, LoginFlows},
};
use pegboard_upstream::auth::{Login, LoginError, Logins};
use tokio::runtime::Handle;

use crate::config::state;

/// How long the user has to log in.
const PATIENCE: Duration = Duration::from_secs(300);

/// Logins that wait in the background for the browser to come back.
#[derive(Debug)]
pub(super) struct BackgroundLogins {
    gateway: Weak<Gateway>,
    logins: Logins,
    runtime: Handle,
}

impl BackgroundLogins {
    /// Must be called inside a runtime.
    pub(super) fn new(gateway: &Arc<Gateway>, state: &Path) -> Self {
        Self { gateway: Arc::downgrade(gateway), logins: state::logins(state), runtime: Handle::current() }
    }
}

impl LoginFlows for BackgroundLogins {
    fn begin(&self, server: &str) -> Result<String, HostError> {
        let gateway = self.gateway.upgrade();
        let servers = gateway.map(|gateway| gateway.servers());
        let found = servers.iter().flat_map(|servers| servers.iter()).find(|one| one.name() == server);
        let missing = || HostError::new(HostErrorKind::NotFound, format!("server `{server}` not found"), None);
        let config = found.ok_or_else(missing)?.config().clone();
        let refused = |error: LoginError| {
            let hint = error.hint().map(Into::into);
            HostError::new(HostErrorKind::Conflict, pegboard_upstream::with_causes(&error), hint)
        };
        let login = self.runtime.block_on(Login::begin(&config, &self.logins)).map_err(refused)?;
        let url = login.url().to_owned();
        self.runtime.spawn(finish(login, config.name));
        Ok(url)
    }
}

/// Waits for the browser, and saves the login. The gateway notices it by itself.
async fn finish(login: Login, server: String) {
    let done = async {
        let redirect = tokio::time::timeout(PATIENCE, login.wait_for_redirect()).await;
        let redirect = redirect.map_err(|_| LoginError::Timeout(PATIENCE))??;
        login.finish(&redirect).await
    };
    match done.await {
        Ok(_) => tracing::info!(server, "logged in"),
        Err(error) => tracing::warn!(server, error = pegboard_upstream::with_causes(&error), "login failed"),
    }
}
