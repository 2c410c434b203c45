//! `pegboard catalog`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use pegboard_upstream::{Fleet, FleetOptions, State, Upstream, config::ServerConfig, json::Fields};

use super::serve::{runtime, supervisor};
use crate::{
    Outcome,
    cli::options::LogArgs,
    config::{self, state},
    error::{CliError, warn},
    logging, output,
    progress::Progress,
};

/// Beyond what each server may take, for listing.
const SLACK: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct CatalogArgs {
    /// The configuration
    #[arg(value_name = "CONFIG", env = "PEGBOARD_CONFIG")]
    pub(crate) config: PathBuf,

    /// Where logins to remote servers are kept; `none` uses none
    /// [default: `pegboard` in the user's folder for state]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

pub(crate) fn run(args: &CatalogArgs) -> Result<Outcome, CliError> {
    let config = config::read(&args.config)?;
    if config.servers.is_empty() {
        return Err(CliError::new(format!("`{}` configures no servers", args.config.display()))
            .hint("put them under `mcpServers`"));
    }
    logging::start(&args.log, "error", None)?;
    let progress = Progress::waiting("starting servers");
    let logins = config.state.resolve(args.state.as_deref()).as_deref().map(state::logins);
    let longest = longest_start(&config.servers);
    let (lines, failed) = runtime()?.block_on(async {
        let options = FleetOptions { supervisor: supervisor(), logins, ..FleetOptions::default() };
        let (fleet, _notices) = Fleet::start_with(config.servers, options);
        fleet.settled(longest).await;
        let mut lines = String::new();
        let mut failed = Vec::new();
        for server in fleet.servers().iter() {
            match server.state() {
                State::Ready => print(server, &mut lines),
                State::Disabled => {}
                State::Failed { reason, .. } => failed.push(format!("server `{}`: {reason}", server.name())),
                _ => failed.push(format!("server `{}` did not get ready", server.name())),
            }
        }
        fleet.stop().await;
        (lines, failed)
    });
    drop(progress);
    failed.iter().for_each(|failure| warn(failure));
    output::raw(lines.as_bytes())?;
    Ok(if failed.is_empty() { Outcome::Yes } else { Outcome::No })
}

fn longest_start(servers: &[ServerConfig]) -> Duration {
    servers.iter().map(|server| server.timeouts.connect).max().unwrap_or_default() + SLACK
}

/// One line for each tool: all that its server says of it, and whose it is.
fn print(server: &Upstream, lines: &mut String) {
    let hello = server.hello();
    let own = hello.as_ref().and_then(|hello| hello.instructions.clone());
    let description = server.config().description.clone().or(own);
    for item in server.lists().tools.iter() {
        let mut fields = Fields::of(&item.raw).unwrap_or_default().with("server", server.name());
        // A server cannot say in whose name it speaks.
        fields.remove("id");
        if let Some(description) = &description {
            fields = fields.with("server_description", description);
        }
        lines.push_str(&pegboard_upstream::json::one_line(&fields.to_raw()));
        lines.push('\n');
    }
}
