//! Finding the running gateway that a command means.

use std::path::{Path, PathBuf};

use clap::Args;
use pegboard_config::keys::did_you_mean;
use pegboard_upstream::Report;

use super::endpoint::GatewayEndpoint;
use crate::{
    catalogs::read_bounded,
    commands::serve::DEFAULT_ADDRESS,
    config::{self, Config, state::StateFolder},
    error::CliError,
    running_gateways::{self, RunningGateway},
    terminal_text,
};

/// Maximum size of a token file.
const MAX_TOKEN: usize = 64 << 10;

/// The variable for the token, unless a file is given.
const TOKEN: &str = "PEGBOARD_TOKEN";

/// Flags that select a running gateway.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct GatewayArgs {
    /// Address of the gateway, such as `http://127.0.0.1:8080`
    #[arg(long, value_name = "URL", conflicts_with = "socket")]
    url: Option<String>,

    /// Control socket of the gateway, for gateways started with `serve --stdio`
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// File that contains only the gateway's token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// State folder, in which running gateways are registered
    /// [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    state: Option<String>,
}

impl GatewayArgs {
    /// Returns whether the flags name one gateway.
    pub(crate) fn names_gateway(&self) -> bool {
        self.url.is_some() || self.socket.is_some()
    }

    /// Returns the state folder.
    pub(crate) fn state_folder(&self) -> Option<PathBuf> {
        StateFolder::Usual.resolve(self.state.as_deref())
    }
}

/// The gateways that a command may mean.
#[derive(Debug)]
pub(crate) enum FoundGateways {
    One(GatewayEndpoint),
    /// None is registered; one may be at the configured address, or at the default one.
    Unregistered(GatewayEndpoint),
    Several(Vec<GatewayEndpoint>),
}

/// Returns the status of one server of the gateway.
///
/// # Errors
/// If the gateway has no such server or cannot be asked.
pub(crate) async fn check_server(endpoint: &GatewayEndpoint, name: &str) -> Result<Report, CliError> {
    let status = endpoint.status().await.map_err(|error| error.explain(endpoint))?;
    if let Some(server) = status.servers.iter().find(|server| server.report.name == name) {
        return Ok(server.report.clone());
    }
    let names: Vec<&str> = status.servers.iter().map(|server| server.report.name.as_str()).collect();
    let error = CliError::new(format!("the gateway has no server `{}`", terminal_text::clean(name)));
    Err(match did_you_mean(name, names.iter().copied()) {
        Some(near) => error.hint(near),
        None => error.hint(format!("its servers: {}", terminal_text::clean(&names.join(", ")))),
    })
}

/// Finds the gateway: the one given by flags, else those that run (with the configuration `file`,
/// if given), else the one at the configured address.
pub(crate) fn find(args: &GatewayArgs, file: Option<&Path>) -> Result<FoundGateways, CliError> {
    let token = given_token(args)?;
    if let Some(url) = &args.url {
        let config = file.and_then(|file| config::read_offline(file).ok());
        let registered = || registered_secret(args, config.as_ref(), url);
        let token = token.or_else(|| config.as_ref().and_then(best_token)).or_else(registered);
        return GatewayEndpoint::at(url, token, true).map(FoundGateways::One);
    }
    if let Some(socket) = &args.socket {
        return GatewayEndpoint::with_socket(socket.clone()).map(FoundGateways::One);
    }
    let config = file.map(config::read_offline).transpose();
    let mut endpoints = running(args, file, config.as_ref().ok().and_then(Option::as_ref))
        .into_iter()
        .filter_map(|running| endpoint_of(running, token.as_deref(), true).transpose())
        .collect::<Result<Vec<GatewayEndpoint>, CliError>>()?;
    // A gateway that runs keeps its previous configuration while the file has mistakes.
    let config = if endpoints.is_empty() { config? } else { config.unwrap_or_default() };
    match (endpoints.len(), config) {
        (0, config) => {
            let address = config.as_ref().and_then(|config| config.listen.address.clone());
            let address = address.unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
            let is_port = address.bytes().all(|byte| byte.is_ascii_digit());
            let address = if is_port { format!("127.0.0.1:{address}") } else { address };
            let token = token.or_else(|| config.as_ref().and_then(best_token));
            let token = token.or_else(|| registered_secret(args, config.as_ref(), &address));
            GatewayEndpoint::at(&address, token, false).map(FoundGateways::Unregistered)
        }
        (1, _) => Ok(FoundGateways::One(endpoints.remove(0))),
        _ => Ok(FoundGateways::Several(endpoints)),
    }
}

/// Finds exactly one gateway.
///
/// # Errors
/// If several run, or the flags are wrong.
pub(crate) fn one(args: &GatewayArgs, file: Option<&Path>) -> Result<GatewayEndpoint, CliError> {
    match find(args, file)? {
        FoundGateways::One(endpoint) | FoundGateways::Unregistered(endpoint) => Ok(endpoint),
        FoundGateways::Several(_) => {
            Err(CliError::new("several gateways are running").hint("choose one with `--config`, `--url` or `--socket`"))
        }
    }
}

/// Returns the running gateways, only those with this configuration if one is given.
fn running(args: &GatewayArgs, file: Option<&Path>, config: Option<&Config>) -> Vec<RunningGateway> {
    let state = config.map_or(StateFolder::Usual, |config| config.state.clone()).resolve(args.state.as_deref());
    let mut running = state.map(|state| running_gateways::list(&running_gateways::folder(&state))).unwrap_or_default();
    if let Some(path) = file {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        running.retain(|running| running.configuration.as_ref() == Some(&path));
    }
    running
}

/// Returns the endpoint of a running gateway; `None` if it has no control API.
pub(crate) fn endpoint_of(
    running: RunningGateway,
    token: Option<&str>,
    may_read_token: bool,
) -> Result<Option<GatewayEndpoint>, CliError> {
    if let Some(socket) = running.socket {
        return GatewayEndpoint::with_socket(socket).map(Some);
    }
    let Some(endpoint) = running.endpoint else { return Ok(None) };
    let file = running.configuration.as_deref().filter(|_| may_read_token);
    let token = token.map(str::to_owned).or_else(|| configured_token(file)).or(running.secret);
    GatewayEndpoint::at(&endpoint, token, false).map(Some)
}

/// Returns the secret of the registered gateway at this address; it is sent to no other.
fn registered_secret(args: &GatewayArgs, config: Option<&Config>, url: &str) -> Option<String> {
    let address = |url: &str| {
        let url = url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/');
        url.strip_suffix(pegboard_gateway::ENDPOINT).unwrap_or(url).to_owned()
    };
    let is_secure = url.starts_with("https://");
    let wanted = address(url);
    let mut running = running(args, None, config).into_iter().filter(|_| !is_secure);
    running.find(|running| running.endpoint.as_deref().map(address).as_ref() == Some(&wanted))?.secret
}

/// Returns the token in the environment.
pub(crate) fn token_of_environment() -> Option<String> {
    std::env::var(TOKEN).ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
}

/// Returns the token that the user gave.
fn given_token(args: &GatewayArgs) -> Result<Option<String>, CliError> {
    let Some(path) = &args.token_file else {
        return Ok(token_of_environment());
    };
    let bytes = read_bounded(path, MAX_TOKEN)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) || text.len() > MAX_TOKEN {
        return Err(CliError::new(format!("`{}` must contain exactly one token", path.display())));
    }
    Ok(Some(token.to_owned()))
}

/// Returns a token from a configuration file. A user who can read the file may use it.
fn configured_token(path: Option<&Path>) -> Option<String> {
    best_token(&config::read_offline(path?).ok()?)
}

/// Returns the token that sees most: an unrestricted one, else the first.
fn best_token(config: &Config) -> Option<String> {
    let tokens = &config.gateway.tokens;
    let token = tokens.iter().find(|token| token.selection.is_everything()).or_else(|| tokens.first())?;
    Some(token.secret.expose().to_owned())
}
