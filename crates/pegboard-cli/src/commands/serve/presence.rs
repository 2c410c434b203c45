//! Registration of a running gateway or LLM API proxy, with its control socket.

use std::{io::ErrorKind, path::Path};

use axum::Router;
use pegboard_gateway::control::Options;

use crate::running_gateways::{self, Registration, RunningGateway};

/// The registration of a running gateway or LLM API proxy, removed when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    _registration: Option<Registration>,
    socket: Option<tokio::task::JoinHandle<()>>,
}

impl Presence {
    /// Registers the gateway in the state folder. Without an endpoint it opens a control socket for
    /// `router`. A failure is logged, and the gateway works without it.
    pub(crate) fn announce(state: Option<&Path>, options: &Options, router: Router) -> Self {
        let mut presence = Self::default();
        let Some(folder) = state.map(running_gateways::folder) else { return presence };
        let mut running = RunningGateway {
            pid: std::process::id(),
            endpoint: options.endpoint.clone(),
            socket: None,
            configuration: options.configuration.clone(),
            secret: options.access.as_ref().map(|access| access.secret().expose().to_owned()),
        };
        if running.endpoint.is_none() {
            running.socket = presence.open_socket(&folder, router);
        }
        if let Err(error) = presence.register(&folder, &running) {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "gateway not registered, `pegboard status` needs `--url`");
        }
        presence
    }

    /// Registers the LLM API proxy at `endpoint` in the state folder, with a control socket for `router`. A failure is
    /// logged, and the proxy works without it.
    pub(crate) fn announce_proxy(state: Option<&Path>, endpoint: String, router: Router) -> Self {
        let mut presence = Self::default();
        let Some(folder) = state.map(running_gateways::proxy_folder) else { return presence };
        let running = RunningGateway {
            pid: std::process::id(),
            endpoint: Some(endpoint),
            socket: presence.open_socket(&folder, router),
            configuration: None,
            secret: None,
        };
        if let Err(error) = presence.register(&folder, &running) {
            tracing::warn!(folder = %folder.display(), %error, "proxy not registered, missing in `pegboard status`");
        }
        presence
    }

    fn register(&mut self, folder: &Path, running: &RunningGateway) -> std::io::Result<()> {
        self._registration = Some(running_gateways::register(folder, running)?);
        Ok(())
    }

    fn open_socket(&mut self, folder: &Path, router: Router) -> Option<std::path::PathBuf> {
        let socket = running_gateways::socket(folder).and_then(|path| pegboard_http::LocalListener::bind(&path));
        match socket {
            Ok(listener) => {
                let path = listener.path().to_owned();
                self.socket = Some(tokio::spawn(listener.serve(router)));
                Some(path)
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                tracing::info!("no control socket on this system, `pegboard status` cannot reach this process");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "no control socket, `pegboard status` cannot reach this process");
                None
            }
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            socket.abort();
        }
    }
}
