//! `pegboard console`.

use std::path::PathBuf;

use clap::Args;
use pegboard_gateway::control;
use serde_json::Value;

use super::serve::runtime;
use crate::{
    Outcome,
    error::{CliError, say},
    gateway_client::find::{self, GatewayArgs},
    output, terminal_text,
};

#[derive(Debug, Args)]
pub(crate) struct ConsoleArgs {
    /// Configuration file of the gateway [default: any running gateway]
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &ConsoleArgs) -> Result<Outcome, CliError> {
    let endpoint = find::one(&args.gateway, args.config.as_deref())?;
    let answer = runtime()?
        .block_on(endpoint.post(control::CONSOLE_URL, &[], "{}".to_owned()))
        .map_err(|error| error.explain(&endpoint))?;
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let Some(url) = answer["url"].as_str() else {
        return Err(CliError::new(format!("{}: the gateway returned no URL", endpoint.name)));
    };
    output::text(&format!("{}\n", terminal_text::clean(url)))?;
    match answer["expiresInMs"].as_u64() {
        Some(0) | None => say("the console asks for a token of the configuration"),
        Some(_) => say("the URL opens the console once; anyone who has it can use the gateway"),
    }
    Ok(Outcome::Yes)
}
