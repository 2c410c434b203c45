//! `pegboard hook`: likely tools for what the user has just typed.
//!
//! Claude Code runs it before the model sees a message (`UserPromptSubmit`): a JSON object with the
//! `prompt` comes on standard input, and `additionalContext` on standard output goes to the model.
//! The exit code is always 0, since another one would keep the message from the model.

use std::io::{Read as _, stdin};

use clap::Args;
use pegboard_core::{Query, Ranker, Selection};
use pegboard_discovery::{DialectName, Session, Settings};
use serde_json::{Value, json};

use super::serve::runtime;
use crate::{
    Outcome,
    contact::{self, Contact},
    error::{CliError, say},
    output,
    rankers::RankerName,
    source::ConfigArgs,
};

/// The event that it answers.
const EVENT: &str = "UserPromptSubmit";

/// The largest input.
const MAX_INPUT: u64 = 4 << 20;

/// Characters of a message that are searched for; what a user wants is said at the beginning.
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

/// What the model should know beside the message, if anything.
fn answer(args: &HookArgs, input: &str) -> Result<Option<String>, CliError> {
    let input: Value = serde_json::from_str(input)
        .map_err(|error| CliError::new("standard input is not the JSON of a hook").because(error))?;
    let prompt: String = input["prompt"].as_str().unwrap_or_default().chars().take(MAX_PROMPT).collect();
    // A command of the client is not a wish.
    if input["hook_event_name"] != EVENT || prompt.trim().is_empty() || prompt.starts_with('/') {
        return Ok(None);
    }
    // Nothing is started for a message: without a gateway there is nothing to say.
    let Some(door) = contact::running_door(&args.config.source(), args.state.as_deref())? else { return Ok(None) };
    let catalog = runtime()?.block_on(Contact::Running(door).catalog())?;
    let ranker: std::sync::Arc<dyn Ranker> = RankerName::default().build(None, 0.0).into();
    let everything = Selection::everything();
    let ranking = ranker.rank(&Query { limit: 1, ..Query::new(&prompt) }, &catalog, &everything);
    if ranking.map_or(true, |ranking| ranking.hits.is_empty()) {
        return Ok(None);
    }
    let mut session = Session::expecting(DialectName::Bridge, Settings::default(), catalog, everything, ranker);
    let found = session.call("search_tools", &json!({"query": prompt})).reply.into_text();
    Ok(Some(format!("Tools of the MCP server `pegboard` that may help; `call_tool` calls them by name:\n{found}")))
}
