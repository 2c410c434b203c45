//! Registration of a running gateway, with its control socket.

use std::{io::ErrorKind, path::Path};

use axum::Router;
use pegboard_gateway::control::Options;

use crate::running_gateways::{self, Registration, RunningGateway};

/// The registration of a running gateway, removed when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Presence {
    _registration: Option<Registration>,
    socket: Option<tokio::task::JoinHandle<()>>,
}

impl Presence {
    /// Registers the gateway in the state folder. Without an endpoint it opens a control socket for
    /// `router`. A failure is logged, and the gateway works without it.
    pub(super) fn announce(state: Option<&Path>, options: &Options, router: Router) -> Self {
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
        match running_gateways::register(&folder, &running) {
            Ok(registration) => presence._registration = Some(registration),
            Err(error) => {
                let folder = folder.display();
                tracing::warn!(%folder, %error, "gateway not registered, `pegboard status` needs `--url`");
            }
        }
        presence
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
                tracing::info!("no control socket on this system, `pegboard status` cannot reach this gateway");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "no control socket, `pegboard status` cannot reach this gateway");
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
