//! `pegboard status`.

mod changes;
mod screen;
#[cfg(test)]
mod tests;
mod units;
mod watch;

use std::path::{Path, PathBuf};

use clap::Args;
use pegboard_gateway::control::{FORMAT, LlmProxyStatus, Status};
use serde::Serialize;
use serde_json::json;

use super::serve::runtime;
use crate::{
    Outcome,
    cli::options::Format,
    error::{CliError, say, warn},
    gateway_client::{
        EndpointError, GatewayEndpoint,
        find::{self, FoundGateways, GatewayArgs},
    },
    output::{self, FAINT},
    running_proxies,
};

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Configuration file of the gateway [default: any running gateway]
    #[arg(value_name = "CONFIG")]
    argument: Option<PathBuf>,

    /// Configuration file of the gateway, as a flag
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    gateway: GatewayArgs,

    /// Output format [default: text]
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "watch"])]
    format: Option<Format>,

    /// Same as `--format json`
    #[arg(long)]
    json: bool,

    /// Keep updating until Ctrl-C; without a terminal, print a line for each change
    #[arg(long, conflicts_with = "json")]
    watch: bool,
}

pub(crate) fn run(args: &StatusArgs) -> Result<Outcome, CliError> {
    let found = find::find(&args.gateway, args.argument.as_deref().or(args.config.as_deref()))?;
    let is_json = args.json || args.format == Some(Format::Json);
    let is_any = args.argument.is_none() && args.config.is_none() && !args.gateway.names_gateway();
    runtime()?.block_on(async {
        let state = args.gateway.state_folder().filter(|_| is_any && !args.watch);
        let proxies = running_proxies(state.as_deref()).await;
        match found {
            FoundGateways::One(endpoint) | FoundGateways::Unregistered(endpoint) if args.watch => {
                watch::watch(&endpoint).await
            }
            FoundGateways::One(endpoint) => one(&endpoint, endpoint.status().await, &proxies, is_json),
            FoundGateways::Unregistered(endpoint) => match endpoint.status().await {
                // The address may be of another program, and there is something to show.
                Err(_) if !proxies.is_empty() => print_all("", &[], &proxies, is_json).map(|()| Outcome::Yes),
                status => one(&endpoint, status, &proxies, is_json),
            },
            FoundGateways::Several(_) if args.watch => {
                Err(CliError::new("several gateways are running")
                    .hint("choose one with `--config`, `--url` or `--socket`"))
            }
            FoundGateways::Several(endpoints) => several(&endpoints, &proxies, is_json).await,
        }
    })
}

/// Returns the LLM API proxies that answer.
async fn running_proxies(state: Option<&Path>) -> Vec<LlmProxyStatus> {
    let Some(state) = state else { return Vec::new() };
    let listed = running_proxies::list(state).await.into_iter();
    // This command has no log.
    let tell = |error| warn(&pegboard_upstream::with_causes(&error));
    listed.filter_map(|proxy| proxy.map_err(tell).ok()).collect()
}

/// Prints the status of one gateway.
fn one(
    endpoint: &GatewayEndpoint,
    status: Result<Status, EndpointError>,
    proxies: &[LlmProxyStatus],
    is_json: bool,
) -> Result<Outcome, CliError> {
    let status = match status {
        Ok(status) => status,
        Err(error) => return fail(endpoint, error),
    };
    if is_json {
        output::json(&OneStatus { status: &status, llm_proxies: proxies })?;
    } else {
        let width = screen::width();
        output::text(&format!("{}{}", screen::screen(&status, width), screen::proxies(proxies, width)))?;
    }
    Ok(outcome(&[&status]))
}

/// The status of one gateway, with the LLM API proxies that run beside it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OneStatus<'a> {
    #[serde(flatten)]
    status: &'a Status,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    llm_proxies: &'a [LlmProxyStatus],
}

/// Returns why there is no status: exit code 1 if no gateway is running, otherwise an error.
fn fail(endpoint: &GatewayEndpoint, error: EndpointError) -> Result<Outcome, CliError> {
    let is_nobody = error.is_not_running();
    let error = error.explain(endpoint);
    if !is_nobody {
        return Err(error);
    }
    error.print();
    Ok(Outcome::No)
}

/// Prints one line for each of several gateways.
async fn several(
    endpoints: &[GatewayEndpoint],
    proxies: &[LlmProxyStatus],
    is_json: bool,
) -> Result<Outcome, CliError> {
    let mut statuses = Vec::with_capacity(endpoints.len());
    let mut text = String::new();
    for endpoint in endpoints {
        match endpoint.status().await {
            Ok(status) => {
                text.push_str(&screen::summary(&endpoint.name, &status, screen::width()));
                statuses.push(status);
            }
            // It has ended since it was found, or wants a token.
            Err(error) if error.is_not_running() => {}
            Err(error) => text.push_str(&format!("{}  {FAINT}{error}{FAINT:#}\n", endpoint.name)),
        }
    }
    print_all(&text, &statuses, proxies, is_json)?;
    if !is_json {
        say(&format!("{FAINT}`pegboard status CONFIG`, `--url` or `--socket` shows one of them{FAINT:#}"));
    }
    Ok(outcome(&statuses.iter().collect::<Vec<_>>()))
}

/// Prints several gateways, or none, and all proxies.
fn print_all(text: &str, statuses: &[Status], proxies: &[LlmProxyStatus], is_json: bool) -> Result<(), CliError> {
    if is_json {
        return output::json(&json!({"format": FORMAT, "gateways": statuses, "llmProxies": proxies}));
    }
    output::text(&format!("{text}{}", screen::proxies(proxies, screen::width())))
}

fn outcome(statuses: &[&Status]) -> Outcome {
    let mut servers = statuses.iter().flat_map(|status| &status.servers);
    let has_failed = servers.any(|server| server.report.state == "failed");
    if has_failed || statuses.is_empty() { Outcome::No } else { Outcome::Yes }
}
