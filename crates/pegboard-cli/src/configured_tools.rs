//! The tools of configured servers, for commands that start them only to list their tools.

use std::{sync::Arc, time::Duration};

use pegboard_core::{
    Catalog, LoadLimits, Origin, Selection, Server,
    naming::{ShownNames, Style},
};
use pegboard_upstream::{Fleet, FleetOptions, Presentation, State, Upstream, config::ServerConfig, default_starts};

use crate::{
    catalogs,
    commands::serve::{runtime, supervisor},
    config::{Config, Content, state},
    error::{CliError, warn},
    gateway_client::{self, GatewayClient, describe_failure},
    nesting,
    progress::Progress,
    source::Source,
};

/// Extra time for listing tools, beyond the start timeout of each server.
const SLACK: Duration = Duration::from_secs(5);

/// Starts the servers of `config`, runs `work` with those that are ready, and returns the reasons
/// of those that failed.
pub(crate) fn with_servers<T>(
    config: Config,
    state: Option<&str>,
    work: impl FnOnce(&[Arc<Upstream>], &pegboard_gateway::GatewaySettings) -> T,
) -> Result<(T, Vec<String>), CliError> {
    nesting::check_depth()?;
    let progress = Progress::new(config.servers.len(), "starting servers");
    let folder = config.state.resolve(state);
    let (logins, clients) = (folder.as_deref().map(state::logins), folder.as_deref().map(state::manifests));
    // They start in turns.
    let turns = config.servers.len() / config.gateway.max_starts.unwrap_or_else(default_starts) + 1;
    let longest = longest_start(&config.servers).saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX));
    let outcome = runtime()?.block_on(async {
        let max_starts = config.gateway.max_starts;
        let options = FleetOptions { supervisor: supervisor(), logins, clients, max_starts, ..FleetOptions::default() };
        let (fleet, _notices) = Fleet::start_with(config.servers, options);
        let has_started = |server: &&Arc<Upstream>| !matches!(server.state(), State::Starting);
        progress.follow(fleet.settled(longest), || fleet.servers().iter().filter(has_started).count()).await;
        let (mut ready, mut failed) = (Vec::new(), Vec::new());
        for server in fleet.servers().iter() {
            match server.state() {
                State::Ready => ready.push(Arc::clone(server)),
                State::Disabled => {}
                State::Failed { reason, .. } => failed.push(describe_failure(server.name(), &reason)),
                _ => failed.push(format!("server `{}` did not become ready", server.name())),
            }
        }
        let done = work(&ready, &config.gateway);
        fleet.stop().await;
        (done, failed)
    });
    drop(progress);
    Ok(outcome)
}

fn longest_start(servers: &[ServerConfig]) -> Duration {
    servers.iter().map(|server| server.timeouts.connect).max().unwrap_or_default() + SLACK
}

/// Returns the tools of a configuration, and which of them are visible: of its catalog files, else
/// of the gateway that runs with it, else of its servers, which are started for it, else those of
/// the demo.
pub(crate) fn catalog_or_demo(source: &Source, state: Option<&str>) -> Result<(Catalog, Selection), CliError> {
    source.announce();
    let Some(content) = source.load(state)? else { return Ok((pegboard_demo::catalog()?, Selection::everything())) };
    let config = match content.read_offline() {
        Ok(config) => config,
        Err(error) => {
            // A gateway that runs has its previous configuration.
            let Some(endpoint) = gateway_client::running_endpoint(source, state).ok().flatten() else {
                return Err(error);
            };
            let catalog = runtime()?.block_on(GatewayClient::Running(endpoint).catalog())?;
            return Ok((catalog, Selection::everything()));
        }
    };
    if !config.catalogs.is_empty() {
        let catalog = catalogs::read(&config.catalogs, LoadLimits::default().file_bytes)?;
        return Ok((catalog, config.gateway.selection));
    }
    if config.servers.is_empty() {
        return Ok((pegboard_demo::catalog()?, Selection::everything()));
    }
    let running = runtime()?.block_on(async {
        match GatewayClient::running(source, state).await? {
            Some(running) => running.catalog().await.map(Some),
            None => Ok(None),
        }
    })?;
    if let Some(catalog) = running {
        return Ok((catalog, config.gateway.selection));
    }
    let (catalog, config) = catalog(&content, state)?;
    Ok((catalog, config.gateway.selection))
}

/// Returns the tools of the servers in a file, under the names that the gateway shows.
fn catalog(content: &Content, state: Option<&str>) -> Result<(Catalog, Config), CliError> {
    let config = content.read()?;
    let count = config.servers.iter().filter(|server| server.is_enabled).count();
    let (catalog, failed) = with_servers(config.clone(), state, |servers, settings| {
        let is_prefixed = settings.prefixes.applies_to(count);
        let style = Style { is_prefixed, ..settings.names.clone() };
        let mut catalog = Catalog::empty();
        for server in servers {
            let lists = server.lists();
            let mut tools = Presentation::new(server.config(), &lists).tools;
            tools.retain(|tool| settings.policies.shows(server.name(), &tool.item.key));
            let names = ShownNames::new(&style, tools.iter().map(|tool| (server.name(), tool.name)));
            let tools: Vec<_> = tools.iter().zip(names.iter()).filter_map(|(tool, shown)| tool.to_raw(shown)).collect();
            let (description, summary) = (server.description(), server.config().summary.clone());
            let server = Server { name: server.name().to_owned(), description, summary, origin: Origin::Mcp };
            catalog = catalog.with_server(server, tools).0;
        }
        catalog
    })?;
    failed.iter().for_each(|failure| warn(failure));
    Ok((catalog, config))
}
