//! The state folder.

use std::{
    env,
    path::{Path, PathBuf},
};

use pegboard_gateway::{GatewaySettings, Program};
use pegboard_process::{System, supervise::ProcessNamespace};
use pegboard_state::check_folder;
use pegboard_upstream::{
    auth::Logins,
    config::{NewServers, Pinning, ServerConfig},
    environment::InheritEnv,
};

use super::Config;
use crate::error::CliError;

/// Stands for no state folder.
pub(crate) const NONE: &str = "none";

/// The configured state folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum StateFolder {
    /// The usual place of the system.
    #[default]
    Usual,
    /// This folder.
    At(PathBuf),
    /// No folder; nothing is saved.
    None,
}

impl StateFolder {
    /// Returns the state folder for the value of a flag or a key.
    pub(crate) fn named(text: &str) -> Self {
        if text == NONE { Self::None } else { Self::At(text.into()) }
    }

    /// Resolves a relative path from `folder`.
    pub(super) fn start_from(&mut self, folder: &Path) {
        if let Self::At(path) = self {
            *path = folder.join(&*path);
        }
    }

    /// Returns the folder, if there is one. The flag takes precedence over the file.
    pub(crate) fn resolve(&self, flag: Option<&str>) -> Option<PathBuf> {
        match flag.map(Self::named).as_ref().unwrap_or(self) {
            Self::Usual => usual(System::current(), &|name| env::var_os(name).map(PathBuf::from)),
            Self::At(path) => Some(path.clone()),
            Self::None => None,
        }
    }
}

/// Sets the files of a gateway below the state folder, and the program that runs jq filters.
pub(crate) fn use_in(gateway: &mut GatewaySettings, state: Option<&Path>) {
    if let Some(offload) = &mut gateway.offload {
        offload.program = env::current_exe().ok().map(Program::at);
    }
    gateway.manifests = state.map(manifests);
    gateway.sessions = state.map(|state| state.join("sessions"));
    gateway.pins = state.map(pins);
    gateway.logins = state.map(logins);
    gateway.console.folder = state.map(|state| state.join("console"));
}

/// Returns the folder for tool lists of servers below the state folder.
pub(crate) fn manifests(state: &Path) -> PathBuf {
    state.join("manifests")
}

/// Checks that approvals can be saved if a setting may hold tools: without them nothing would ever
/// be held, or everything for ever.
pub(crate) fn check_approvals(config: &Config, state: Option<&Path>) -> Result<(), CliError> {
    let Some(setting) = &config.holding else { return Ok(()) };
    let Some(folder) = state else {
        let message = format!("`{setting}` needs a state folder for approvals, but there is none");
        return Err(CliError::new(message).hint(FOLDER_HINT));
    };
    check_folder(folder).map_err(|error| {
        let shown = folder.display();
        let message = format!("`{setting}` needs a state folder for approvals, but `{shown}` is not usable");
        CliError::new(message).because(error).hint(FOLDER_HINT)
    })
}

/// The hint for a state folder that cannot be used.
pub(crate) const FOLDER_HINT: &str = "choose your own folder with `pegboard.stateFolder` or `--state`, or set \
                                      `pinning` to `warn`";

/// Returns the folder for approvals below the state folder.
pub(crate) fn pins(state: &Path) -> PathBuf {
    state.join("pins")
}

/// Returns the logins to remote servers below the state folder.
pub(crate) fn logins(state: &Path) -> Logins {
    Logins::at(state.join("logins"))
}

/// Returns Pegboard's folder for state in the usual place of the system.
fn usual(system: System, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let place = if system == System::Mac { "Library/Application Support" } else { ".local/state" };
    Some(base(system, variable, "XDG_STATE_HOME", place)?.join("pegboard"))
}

/// Returns Pegboard's folder for caches in the usual place of the system.
pub(crate) fn usual_cache(system: System, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let place = if system == System::Mac { "Library/Caches" } else { ".cache" };
    let own = if system == System::Windows { "pegboard/cache" } else { "pegboard" };
    Some(base(system, variable, "XDG_CACHE_HOME", place)?.join(own))
}

/// Returns the folder in the variable `name`, else `place` in the home folder.
fn base(system: System, variable: &dyn Fn(&str) -> Option<PathBuf>, name: &str, place: &str) -> Option<PathBuf> {
    // A relative path there is a mistake, and is to be ignored.
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let folder = absolute(name);
    match system {
        System::Windows => folder.or_else(|| absolute("LOCALAPPDATA")),
        System::Linux | System::Mac => folder.or_else(|| Some(absolute("HOME")?.join(place))),
    }
}

/// Defaults for servers that do not set a value themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerDefaults {
    pub(super) lazy: Option<bool>,
    pub(super) breaker: Option<pegboard_core::breaker::BreakerSettings>,
    pub(super) pinning: Option<Pinning>,
    pub(super) process_namespace: Option<ProcessNamespace>,
    pub(super) new_servers: Option<NewServers>,
    pub(super) inherit_env: Option<InheritEnv>,
    pub(super) allow_private_issuers: Option<bool>,
}

impl ServerDefaults {
    pub(super) fn apply(&self, servers: &mut [ServerConfig]) {
        for server in servers {
            server.lazy = server.lazy.or(self.lazy);
            server.breaker = server.breaker.or(self.breaker);
            server.pinning = server.pinning.or(self.pinning);
            server.process_namespace = server.process_namespace.or(self.process_namespace);
            server.new_servers = self.new_servers.unwrap_or_default();
            let oauth = &mut server.oauth;
            oauth.allow_private_issuers = oauth.allow_private_issuers.or(self.allow_private_issuers);
            server.inherit_env = InheritEnv::merge(self.inherit_env.as_ref(), server.inherit_env.take());
        }
    }

    /// Returns the setting because of which tools may be held, if there is one. Must be called
    /// after [`apply`](Self::apply), because the servers decide where nothing is set.
    pub(super) fn holding(&self, servers: &[ServerConfig]) -> Option<String> {
        let server = || servers.iter().find(|server| server.is_enabled && server.pinning() == Pinning::Hold);
        match (self.pinning, self.new_servers) {
            (Some(Pinning::Hold), _) => Some("\"pinning\": \"hold\"".to_owned()),
            (_, Some(NewServers::Hold)) => Some("\"newServers\": \"hold\"".to_owned()),
            _ => server().map(|server| format!("\"pinning\": \"hold\" of server {}", server.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)] // Paths that begin with `/` are absolute.
    fn the_usual_place() {
        let check = |system, variables: &[(&str, &str)], state: Option<&str>, cache: Option<&str>| {
            let look = |name: &str| variables.iter().find(|(one, _)| *one == name).map(|(_, path)| PathBuf::from(path));
            assert_eq!(usual(system, &look), state.map(PathBuf::from), "{system:?} {variables:?}");
            assert_eq!(usual_cache(system, &look), cache.map(PathBuf::from), "{system:?} {variables:?}");
        };
        let home = ("HOME", "/home/x");
        let named = [("XDG_STATE_HOME", "/state"), ("XDG_CACHE_HOME", "/cache"), home];
        let in_home = (Some("/home/x/.local/state/pegboard"), Some("/home/x/.cache/pegboard"));
        check(System::Linux, &named, Some("/state/pegboard"), Some("/cache/pegboard"));
        check(System::Linux, &[home], in_home.0, in_home.1);
        check(System::Linux, &[("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "x"), home], in_home.0, in_home.1);
        check(System::Linux, &[("HOME", "")], None, None);
        check(System::Linux, &[], None, None);
        let library = |name: &str| format!("/home/x/Library/{name}/pegboard");
        check(System::Mac, &[home], Some(&library("Application Support")), Some(&library("Caches")));
        check(System::Mac, &named, Some("/state/pegboard"), Some("/cache/pegboard"));
        let local = [("LOCALAPPDATA", "/local"), home];
        check(System::Windows, &local, Some("/local/pegboard"), Some("/local/pegboard/cache"));
        check(System::Windows, &[home], None, None);
    }

    #[test]
    fn a_flag_counts_more_than_the_file() {
        let mut file = StateFolder::named("here");
        file.start_from(Path::new("/etc"));
        assert_eq!(file.resolve(None), Some("/etc/here".into()));
        assert_eq!(file.resolve(Some("/there")), Some("/there".into()));
        assert_eq!(file.resolve(Some("none")), None);
        assert_eq!(StateFolder::named("none").resolve(None), None);
        assert_eq!(StateFolder::named("none").resolve(Some("x")), Some("x".into()));
    }
}
