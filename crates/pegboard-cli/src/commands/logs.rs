//! `pegboard logs`.

use std::{
    io::{IsTerminal as _, stdout},
    path::PathBuf,
};

use clap::Args;
use pegboard_gateway::control;

use super::serve::runtime;
use crate::{
    Outcome,
    error::CliError,
    gateway_client::find::{self, GatewayArgs},
    output,
    terminal_text::Cleaner,
};

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Show only the lines about this server, including what it writes to standard error
    #[arg(value_name = "SERVER")]
    server: Option<String>,

    /// Keep printing new lines until Ctrl-C
    #[arg(short, long)]
    follow: bool,

    /// Number of lines to show
    #[arg(short = 'n', long, value_name = "LINES", default_value_t = 100)]
    lines: usize,

    /// Configuration file of the gateway [default: any running gateway]
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &LogsArgs) -> Result<Outcome, CliError> {
    let endpoint = find::one(&args.gateway, args.config.as_deref())?;
    let path = control::logs_path(args.server.as_deref(), args.lines, args.follow);
    // A server's words must not steer the terminal.
    let mut cleaner = stdout().is_terminal().then(Cleaner::default);
    let print = |bytes: &[u8]| match &mut cleaner {
        Some(cleaner) => output::raw(cleaner.clean(&String::from_utf8_lossy(bytes)).as_bytes()),
        None => output::raw(bytes),
    };
    runtime()?.block_on(async {
        if let Some(server) = &args.server {
            find::check_server(&endpoint, server).await?;
        }
        endpoint.read_stream(&path, print).await.map_err(|error| error.explain(&endpoint))?
    })?;
    Ok(Outcome::Yes)
}
