//! `pegboard disconnect`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::connect;
use crate::{
    Outcome,
    clients::{
        Client, edit, files, hooks,
        places::{Os, Surroundings},
        read,
        snippet::{self, NAME},
    },
    error::{CliError, say},
};

#[derive(Debug, Args)]
pub(crate) struct DisconnectArgs {
    /// MCP client
    #[arg(value_name = "CLIENT")]
    client: Client,

    /// Change the client's file in this project, instead of the user's
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
}

pub(crate) fn run(args: &DisconnectArgs) -> Result<Outcome, CliError> {
    let env = |name: &str| std::env::var(name).ok();
    let surroundings = Surroundings { os: Os::current(), env: &env };
    let place = connect::place(args.client, args.project.as_deref(), &surroundings)?;
    let (path, title, syntax) = (place.path.display(), args.client.title(), args.client.syntax());
    let old = read::text(&place.path).map_err(|error| CliError::new(format!("`{path}` {error}")))?;
    let text = old.as_deref().unwrap_or_default();
    let refused = |error| connect::refused(&place.path, &error);
    let had_hook = args.client == Client::ClaudeCode && remove_hook(args.project.as_deref(), &surroundings)?;
    let Some(entry) = edit::get(text, syntax, place.keys, NAME).map_err(refused)? else {
        if had_hook {
            return Ok(Outcome::Yes);
        }
        say(&format!("{title} does not use Pegboard: `{path}` has no entry `{NAME}`"));
        return Ok(Outcome::No);
    };
    if snippet::is_as_written(args.client, &entry)
        && edit::set("", syntax, place.keys, NAME, &entry).is_ok_and(|ours| ours == text)
        && files::remove_created(&place.path, text)?
    {
        say(&format!("removed `{path}`, which `pegboard connect` created and which has nothing else"));
        say(&format!("restart {title}"));
        return Ok(Outcome::Yes);
    }
    let new = edit::remove(text, syntax, place.keys, NAME).map_err(refused)?;
    let backup = files::replace(&place.path, old.as_deref(), &new)?;
    say(&format!("removed `{NAME}` from `{path}`"));
    if let Some(backup) = backup {
        say(&format!("backup of the old file: `{}`", backup.display()));
    }
    let servers = read::read(&place).ok().flatten().map_or(0, |content| content.entries.len());
    if servers == 0 {
        say(&format!(
            "{title} has no servers now; servers that `connect --replace` removed are in the backups beside its file"
        ));
    }
    say(&format!("restart {title}"));
    Ok(Outcome::Yes)
}

/// Takes the prompt hook out of Claude Code's settings; whether it was there.
fn remove_hook(project: Option<&Path>, surroundings: &Surroundings<'_>) -> Result<bool, CliError> {
    let Some(path) = hooks::file(surroundings, project) else { return Ok(false) };
    let shown = path.display();
    let old = read::text(&path).map_err(|error| CliError::new(format!("`{shown}` {error}")))?;
    let Some(old) = old else { return Ok(false) };
    let Some(new) = hooks::without(&old).map_err(|error| connect::refused(&path, &error))? else { return Ok(false) };
    let rest: Option<Value> = serde_json::from_str(&new).ok();
    let is_empty = rest.is_some_and(|rest| rest == json!({}) || rest == json!({"hooks": {}}));
    if is_empty && files::remove_created(&path, &old)? {
        say(&format!("removed `{shown}`, which `pegboard connect` created and which has nothing else"));
        return Ok(true);
    }
    files::replace(&path, Some(&old), &new)?;
    say(&format!("removed the hook from `{shown}`"));
    Ok(true)
}
