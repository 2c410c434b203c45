//! `pegboard restart`.

use std::path::PathBuf;

use clap::Args;
use pegboard_gateway::control;

use super::serve::runtime;
use crate::{
    Outcome,
    error::{CliError, say},
    gateway_client::find::{self, GatewayArgs},
};

#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// Name of the server in the configuration
    #[arg(value_name = "SERVER")]
    server: String,

    /// Configuration file of the gateway [default: any running gateway]
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &RestartArgs) -> Result<Outcome, CliError> {
    let endpoint = find::one(&args.gateway, args.config.as_deref())?;
    let path = control::restart_path(&args.server);
    runtime()?.block_on(async {
        if find::check_server(&endpoint, &args.server).await?.state == "disabled" {
            return Err(CliError::new(format!("server `{}` is disabled in the configuration", args.server))
                .hint(format!("`pegboard enable {}` starts it", args.server)));
        }
        endpoint.post(&path, &[], "{}".to_owned()).await.map_err(|error| error.explain(&endpoint))
    })?;
    say(&format!("restarting `{}`; `pegboard status` shows when it is ready", args.server));
    Ok(Outcome::Yes)
}
