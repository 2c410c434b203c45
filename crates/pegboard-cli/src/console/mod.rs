//! What the program does for the console: its files belong to the program, not to the gateway.

mod clients;
mod configuration;
mod logins;
mod proxy;
mod rankers;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use pegboard_gateway::{
    Gateway, Rankers,
    control::host::{Doctor, HealthFinding, Host, HostError, HostErrorKind},
};

use self::{
    clients::ClientConfigFiles, configuration::EditedFile, logins::BackgroundLogins, proxy::RunningProxies,
    rankers::CachedRankers,
};
pub(crate) use self::{
    proxy::{ProxyNumbers, route_statuses},
    rankers::RankerSettings,
};
use crate::{commands::doctor, error::CliError, source::Source};

/// What the parts need to know of the command line.
pub(crate) struct Surroundings<'a> {
    pub(crate) source: &'a Source,
    /// The flags of `serve`.
    pub(crate) state_flag: Option<&'a str>,
    pub(crate) listen_flag: Option<&'a str>,
    /// The state folder.
    pub(crate) state: Option<&'a Path>,
    /// The state folder in which LLM API proxies are registered.
    pub(crate) proxies: Option<&'a Path>,
    /// The URL for clients.
    pub(crate) endpoint: Option<&'a str>,
}

/// Returns the parts of the program for the console. Must be called inside a runtime.
pub(crate) fn host(
    gateway: &Arc<Gateway>,
    surroundings: &Surroundings<'_>,
    rankers: Rankers,
    settings: RankerSettings,
) -> Host {
    let Surroundings { source, state_flag, listen_flag, state, proxies, endpoint } = *surroundings;
    let state_flag = state_flag.map(str::to_owned);
    let path = source.path().map(Path::to_owned);
    let edited = || EditedFile { source: source.clone(), state: state_flag.clone() };
    let doctor = |path: PathBuf| RunningDoctor {
        path,
        listen: listen_flag.map(str::to_owned),
        state: state_flag.clone(),
        gateway: Arc::downgrade(gateway),
    };
    let clients = ClientConfigFiles { source: source.clone(), endpoint: endpoint.map(str::to_owned) };
    Host {
        rankers: Some(Arc::new(CachedRankers::new(rankers, settings))),
        configuration: path.is_some().then(|| Arc::new(edited()) as _),
        doctor: path.map(|path| Arc::new(doctor(path)) as _),
        clients: Some(Arc::new(clients)),
        logins: state.map(|state| Arc::new(BackgroundLogins::new(gateway, state)) as _),
        llm_proxy: None,
        llm_proxies: Some(Arc::new(RunningProxies::new(proxies))),
    }
}

/// Checks of the configuration file and the running servers.
#[derive(Debug)]
struct RunningDoctor {
    path: PathBuf,
    listen: Option<String>,
    state: Option<String>,
    /// The gateway holds this.
    gateway: Weak<Gateway>,
}

impl Doctor for RunningDoctor {
    fn examine(&self) -> Result<Vec<HealthFinding>, HostError> {
        let servers = self.gateway.upgrade().map(|gateway| gateway.servers());
        let servers = servers.as_deref().unwrap_or_default();
        doctor::examine_running(&self.path, self.listen.as_deref(), self.state.as_deref(), servers)
            .map_err(|error| host_error(HostErrorKind::Rejected, &error))
    }
}

/// Returns an error of a command for the console.
fn host_error(kind: HostErrorKind, error: &CliError) -> HostError {
    let hint = error.advice().map(str::to_owned);
    HostError::new(kind, pegboard_upstream::with_causes(error), hint)
}
