//! `pegboard hook`: likely tools for a message that the user has just typed.
//!
//! Claude Code runs it before the model sees a message (`UserPromptSubmit`): a JSON object with the
//! `prompt` comes on standard input, and `additionalContext` on standard output goes to the model.
//! The exit code is always 0, since another one would keep the message from the model.

use std::io::{Read as _, stdin};

use clap::Args;
use pegboard_core::{Catalog, Query, Ranker, Selection};
use pegboard_discovery::{DialectName, Session};
use pegboard_gateway::{GatewaySettings, Profile};
use serde_json::{Value, json};

use super::serve::runtime;
use crate::{
    Outcome,
    error::{CliError, say},
    gateway_client::{self, GatewayClient},
    output,
    rankers::RankerName,
    source::ConfigArgs,
};

/// The hook event.
const EVENT: &str = "UserPromptSubmit";

/// Maximum size of the input.
const MAX_INPUT: u64 = 4 << 20;

/// Maximum length of the searched message; the request is usually at the beginning.
const MAX_PROMPT: usize = 2000;

#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    #[command(flatten)]
    config: ConfigArgs,

    /// State folder of the gateway [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    state: Option<String>,
}

pub(crate) fn run(args: &HookArgs) -> Result<Outcome, CliError> {
    let mut input = String::new();
    let answer = match stdin().take(MAX_INPUT).read_to_string(&mut input) {
        Ok(_) => answer(args, &input),
        Err(error) => Err(CliError::new("cannot read standard input").because(error)),
    };
    match answer {
        Ok(Some(context)) => {
            let specific = json!({"hookEventName": EVENT, "additionalContext": context});
            output::raw(format!("{}\n", json!({"hookSpecificOutput": specific})).as_bytes())?;
        }
        Ok(None) => {}
        Err(error) => say(&error.in_one_line()),
    }
    Ok(Outcome::Yes)
}

/// Returns the additional context for the model, if any.
fn answer(args: &HookArgs, input: &str) -> Result<Option<String>, CliError> {
    let input: Value = serde_json::from_str(input)
        .map_err(|error| CliError::new("standard input is not the JSON of a hook").because(error))?;
    let prompt: String = input["prompt"].as_str().unwrap_or_default().chars().take(MAX_PROMPT).collect();
    // A command of the client is not a wish.
    if input["hook_event_name"] != EVENT || prompt.trim().is_empty() || prompt.starts_with('/') {
        return Ok(None);
    }
    // Nothing is started for a message: without a gateway there is nothing to say.
    let (source, state) = (args.config.source(), args.state.as_deref());
    let Some(endpoint) = gateway_client::running_endpoint(&source, state)? else { return Ok(None) };
    let settings = gateway_client::trusted_config(&source, state)?.gateway;
    let catalog = runtime()?.block_on(GatewayClient::Running(endpoint).catalog())?;
    let ranker: std::sync::Arc<dyn Ranker> = RankerName::default().build(None, 0.0).into();
    let everything = Selection::everything();
    let ranking = ranker.rank(&Query { limit: 1, ..Query::new(&prompt) }, &catalog, &everything);
    if ranking.map_or(true, |ranking| ranking.hits.is_empty()) {
        return Ok(None);
    }
    let how = how_to_call(&settings, &catalog);
    let discovery = settings.discovery;
    let mut session = Session::expecting(DialectName::Bridge, discovery, catalog, everything, ranker);
    if how.is_empty() {
        session = session.with_everything_listed();
    }
    let found = session.call("search_tools", &json!({"query": prompt})).reply.into_text();
    let tools = likely_tools(&found);
    Ok((!tools.is_empty()).then(|| format!("Tools of the MCP server `pegboard` that may help{how}:\n{tools}")))
}

/// Returns how the model calls a tool that its client does not list; empty if the client lists all
/// tools.
fn how_to_call(settings: &GatewaySettings, catalog: &Catalog) -> &'static str {
    let is_search_on = settings.exposure.decide(catalog, &settings.selection).is_on;
    match settings.profile {
        Profile::Passthrough => "",
        Profile::Dialect(_) if !is_search_on => "",
        Profile::Dialect(DialectName::Bridge) if settings.discovery.split_by_risk => {
            "; the tool in brackets calls them by name"
        }
        Profile::Dialect(DialectName::Bridge) => "; `call_tool` calls them by name",
        Profile::Dialect(_) => "; its search tool finds them by name",
    }
}

/// Returns the lines of a search result that show tools: the message was not written as a query, so
/// hints on searching again do not help.
fn likely_tools(found: &str) -> String {
    let is_advice =
        |line: &&str| ["(no tool matches", "No tool fits", "… "].iter().any(|begin| line.starts_with(begin));
    found.lines().filter(|line| !is_advice(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use pegboard_discovery::{Exposure, Settings};

    use super::*;

    #[test]
    fn only_tools_are_shown() {
        let check = |found: &str, expected: &str| assert_eq!(likely_tools(found), expected);
        check("send(to: string)\nread()\n(no tool matches: please)", "send(to: string)\nread()");
        check("No tool fits well. Nearest: `send`. Search for a name to see it, or try other words.", "");
        check("send()\n… 4 more omitted; search for less at once", "send()");
    }

    #[test]
    fn the_model_learns_how_to_call_what_it_does_not_see() {
        let check = |profile: Profile, exposure: Exposure, split_by_risk: bool, expected: &str| {
            let discovery = Settings { split_by_risk, ..Settings::default() };
            let settings = GatewaySettings { profile, exposure, discovery, ..GatewaySettings::default() };
            assert_eq!(how_to_call(&settings, &Catalog::empty()), expected, "{profile:?}");
        };
        let bridge = Profile::Dialect(DialectName::Bridge);
        check(bridge, Exposure::Always, false, "; `call_tool` calls them by name");
        check(bridge, Exposure::Always, true, "; the tool in brackets calls them by name");
        check(bridge, Exposure::Never, false, "");
        check(Profile::Passthrough, Exposure::Always, false, "");
        check(Profile::Dialect(DialectName::Select), Exposure::Always, false, "; its search tool finds them by name");
    }
}
